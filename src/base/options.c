#include "base/options.h"

#include "base/names.h"
#include "base/option_values.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char cross_validated_in_json[] = "cross-validation";

/* -- values ------------------------------------------------------------------------------------ */

/* What a field holds: `whole` of a flag, a choice or an integer, whatever its size. */
typedef union field_value {
    int64_t whole;
    double real;
    grail_number number;
    grail_colour colour;
    const char *text;
} field_value;

static bool is_whole(const grail_option *o)
{
    return o->type == GRAIL_OPTION_FLAG || o->type == GRAIL_OPTION_CHOICE ||
           o->type == GRAIL_OPTION_INTEGER || o->type == GRAIL_OPTION_SIZE ||
           o->type == GRAIL_OPTION_SEED;
}

static field_value get(const grail_option *o, const void *owner)
{
    const char *at = (const char *)owner + o->offset;
    field_value value = {0};
    int small = 0;
    bool flag = false;
    if (!is_whole(o) || o->size == sizeof value.whole) {
        memcpy(&value, at, o->size);
    } else if (o->size == sizeof flag) {
        memcpy(&flag, at, sizeof flag);
        value.whole = flag ? 1 : 0;
    } else {
        memcpy(&small, at, sizeof small);
        value.whole = small;
    }
    return value;
}

static void put(const grail_option *o, void *owner, field_value value)
{
    char *at = (char *)owner + o->offset;
    if (!is_whole(o) || o->size == sizeof value.whole) {
        memcpy(at, &value, o->size);
    } else if (o->size == sizeof(bool)) {
        const bool flag = value.whole != 0;
        memcpy(at, &flag, sizeof flag);
    } else {
        const int small = (int)value.whole;
        memcpy(at, &small, sizeof small);
    }
}

static int find_word(const char *word, const char *const *words)
{
    int i = 0;
    while (words[i] != NULL && strcmp(words[i], word) != 0) {
        i++;
    }
    return words[i] == NULL ? -1 : i;
}

grail_status option_find_word(const char *what, const char *word, const char *const *words,
                              int *out)
{
    const int found = find_word(word, words);
    if (found >= 0) {
        *out = found;
        return GRAIL_OK;
    }
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT, "unknown %s '%s'; expected one of", what, word);
    error_append_known(word, words);
    return status;
}

const grail_option *option_at(const grail_option *list, int i)
{
    int before = 0;
    while (before < i && list[before].field != NULL) {
        before++;
    }
    return i >= 0 && list[before].field != NULL ? &list[before] : NULL;
}

const grail_option *grail_option_find(grail_option_at at, const char *name)
{
    int i = 0;
    while (at(i) != NULL && (at(i)->name == NULL || strcmp(at(i)->name, name) != 0)) {
        i++;
    }
    return at(i);
}

/* -- texts ------------------------------------------------------------------------------------- */

static bool read_real(const grail_option *o, const char *text, double *out)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    const bool in_range = value >= o->least && (o->below == 0.0 || value < o->below) &&
                          (o->zero_is_usual == 0 || value > 0.0);
    *out = value;
    return end != text && *end == 0 && isfinite(value) && in_range;
}

/* A number of seconds, minutes or hours. */
static bool read_seconds(const char *text, double *out)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    const double unit = *end == 'h' ? 3600.0 : *end == 'm' ? 60.0 : 1.0;
    if (end == text || !isfinite(number) || !(number > 0.0)) {
        return false;
    }
    end += *end == 'h' || *end == 'm' || *end == 's' ? 1 : 0;
    *out = number * unit;
    return *end == 0 && isfinite(*out);
}

static bool read_whole(const grail_option *o, const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    int shift = 0;
    if (o->type == GRAIL_OPTION_SIZE && end != text && *end != 0 && end[1] == 0) {
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : -1;
        end += shift > 0 ? 1 : 0;
    }
    const int64_t most = o->size == sizeof(int) ? INT_MAX : INT64_MAX;
    if (end == text || *end != 0 || errno != 0 || value < 0 || shift < 0 ||
        value > (most >> shift)) {
        return false;
    }
    *out = (int64_t)value << shift;
    return (double)*out >= o->least && (o->below == 0.0 || (double)*out < o->below) &&
           (o->zero_is_usual == 0 || *out > 0);
}

static bool read_colour(const char *text, grail_colour *out)
{
    out->given = 1;
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        out->values[i] = strtod(text, &end);
        if (end == text || *end != (i < 2 ? ',' : 0)) {
            return false;
        }
        text = end + 1;
    }
    return true;
}

/* Into a zeroed value. */
static bool read_text(const grail_option *o, const char *text, field_value *out)
{
    const bool is_first = o->words != NULL && strcmp(o->words[0], text) == 0;
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
        out->whole = 1;
        return true;
    case GRAIL_OPTION_CHOICE:
        out->whole = find_word(text, o->words);
        return out->whole >= 0;
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SIZE:
    case GRAIL_OPTION_SEED:
        return is_first || read_whole(o, text, &out->whole);
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SPARSITY:
        return read_real(o, text, &out->real);
    case GRAIL_OPTION_SECONDS:
        return read_seconds(text, &out->real);
    case GRAIL_OPTION_NUMBER:
        out->number.choice = is_first ? GRAIL_NUMBER_CROSS_VALIDATED : GRAIL_NUMBER_GIVEN;
        return is_first || read_real(o, text, &out->number.value);
    case GRAIL_OPTION_COLOUR:
        return read_colour(text, &out->colour);
    case GRAIL_OPTION_ROOM:
        return false;
    case GRAIL_OPTION_TEXT:
    case GRAIL_OPTION_WORD:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
        break;
    }
    out->text = text;
    return true;
}

static bool set_value(const grail_option *o, void *owner, const char *text)
{
    field_value value = {0};
    const bool valid = read_text(o, text, &value);
    if (valid) {
        put(o, owner, value);
    }
    return valid;
}

grail_status grail_option_set(const grail_option *o, void *options, const char *text)
{
    char expected[160];
    if (set_value(o, options, text)) {
        return GRAIL_OK;
    }
    grail_option_expected(o, expected, sizeof expected);
    return error_about(
        error_set(GRAIL_ERROR_ARGUMENT, "%s takes %s, not '%s'", o->field, expected, text),
        o->field);
}

static void expected_words(const char *const *words, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; words[i] != NULL && used < size; i++) {
        const char *gap = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", gap, words[i]);
    }
}

void grail_option_expected(const grail_option *o, char *text, size_t size)
{
    const bool above = o->zero_is_usual != 0;
    const double least = above && o->least < 1.0 ? 1.0 : o->least;
    const char *first = o->words == NULL ? "" : o->words[0];
    const char *gap = o->words == NULL ? "" : " or ";
    text[0] = 0;
    switch (o->type) {
    case GRAIL_OPTION_CHOICE:
    case GRAIL_OPTION_WORD:
        expected_words(o->words, text, size);
        break;
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SEED:
        if (o->below > 0.0) {
            snprintf(text, size, "%s%san integer from %.0f to %.0f", first, gap, least,
                     o->below - 1.0);
        } else {
            snprintf(text, size, "%s%san integer of at least %.0f", first, gap, least);
        }
        break;
    case GRAIL_OPTION_SIZE:
        snprintf(text, size, "a number of bytes above 0, such as 500M");
        break;
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SPARSITY:
    case GRAIL_OPTION_NUMBER:
        snprintf(text, size, "%s%sa number", first, gap);
        if (isfinite(o->least)) {
            snprintf(text + strlen(text), size - strlen(text), " %s %g",
                     above ? "above" : "of at least", o->least);
        }
        if (o->below > 0.0) {
            snprintf(text + strlen(text), size - strlen(text), " and below %g", o->below);
        }
        break;
    case GRAIL_OPTION_SECONDS:
        snprintf(text, size, "a time above 0, such as 90s, 10m or 2h");
        break;
    case GRAIL_OPTION_COLOUR:
        snprintf(text, size, "three numbers separated by commas");
        break;
    case GRAIL_OPTION_ROOM:
        snprintf(text, size, "nothing");
        break;
    default:
        snprintf(text, size, "a text");
        break;
    }
}

void options_init(const grail_option *list, void *owner)
{
    for (const grail_option *o = list; o->field != NULL; o++) {
        if (o->usual != NULL) {
            (void)set_value(o, owner, o->usual);
        }
    }
}

/* -- checks ------------------------------------------------------------------------------------ */

/* `name` says what the value is; a flag or choice is out of range in a struct alone, by its field.
 */
static grail_status check_whole(const grail_option *o, const char *name, int64_t value)
{
    double least = o->least;
    double most = o->below > 0.0               ? o->below - 1.0
                  : o->size == sizeof(int64_t) ? (double)INFINITY
                                               : (double)INT_MAX;
    const bool is_place = o->type == GRAIL_OPTION_FLAG || o->type == GRAIL_OPTION_CHOICE;
    if (is_place) {
        least = 0.0;
        most = 1.0;
        while (o->type == GRAIL_OPTION_CHOICE && o->words[(int)most + 1] != NULL) {
            most++;
        }
    }
    if ((double)value >= least && (double)value <= most) {
        return GRAIL_OK;
    }
    const grail_status status = error_set(GRAIL_ERROR_ARGUMENT, "%s is %lld, expected %.0f",
                                          is_place ? o->field : name, (long long)value, least);
    if (most >= (double)INT_MAX) {
        error_append(" or more");
    } else {
        error_append(" %s %.0f", most == least + 1.0 ? "or" : "to", most);
    }
    return status;
}

static grail_status check_real(const grail_option *o, const char *name, double value)
{
    if (isfinite(value) && value >= o->least && (o->below == 0.0 || value < o->below)) {
        return GRAIL_OK;
    }
    const grail_status status = error_set(GRAIL_ERROR_ARGUMENT, "%s is %g, expected ", name, value);
    if (o->below == 0.0) {
        error_append("%g or more", o->least);
    } else {
        error_append("%s%g %s below %g", o->zero_is_usual != 0 ? "above " : "", o->least,
                     o->zero_is_usual != 0 ? "and" : "to", o->below);
    }
    return status;
}

grail_status option_check_sparsity(double sparsity)
{
    if (sparsity >= 0.0 && sparsity < 1.0) {
        return GRAIL_OK;
    }
    const grail_status status = error_set(
        GRAIL_ERROR_ARGUMENT,
        "sparsity %g is outside [0, 1); give the fraction of units to remove from each site",
        sparsity);
    if (sparsity > 1.0 && sparsity < 100.0) {
        error_append(", such as %g for %g %%", sparsity / 100.0, sparsity);
    }
    return status;
}

static grail_status check_number(const grail_option *o, grail_number number)
{
    const int most = o->words == NULL ? GRAIL_NUMBER_GIVEN : GRAIL_NUMBER_CROSS_VALIDATED;
    if ((int)number.choice < 0 || (int)number.choice > most) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the choice of %s is %d, expected 0 to %d", o->what,
                         (int)number.choice, most);
    }
    if (number.choice != GRAIL_NUMBER_GIVEN && number.value != 0.0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "%s has the value %g, which is not used; choose GRAIL_NUMBER_GIVEN",
                         o->what, number.value);
    }
    return check_real(o, o->what, number.value);
}

static grail_status check_text(const grail_option *o, const char *text)
{
    int found = 0;
    const bool is_word = o->type == GRAIL_OPTION_WORD;
    if (text == NULL && o->usual != NULL && (is_word || o->type == GRAIL_OPTION_SELECTOR)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "no %s was given", o->what);
    }
    return is_word && text != NULL ? option_find_word(o->what, text, o->words, &found) : GRAIL_OK;
}

static grail_status check_field(const grail_option *o, const void *owner)
{
    if (o->type == GRAIL_OPTION_ROOM) {
        return option_room(o->what, (const void *)((const char *)owner + o->offset), o->size);
    }
    const field_value value = get(o, owner);
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
    case GRAIL_OPTION_CHOICE:
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SIZE:
        return check_whole(o, o->what, value.whole);
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SECONDS:
        return check_real(o, o->what, value.real);
    case GRAIL_OPTION_SPARSITY:
        return option_check_sparsity(value.real);
    case GRAIL_OPTION_NUMBER:
        return check_number(o, value.number);
    case GRAIL_OPTION_TEXT:
    case GRAIL_OPTION_WORD:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
        return check_text(o, value.text);
    case GRAIL_OPTION_SEED:
    case GRAIL_OPTION_COLOUR:
        break; /* every one is allowed */
    case GRAIL_OPTION_ROOM:
        break; /* checked above */
    }
    return GRAIL_OK;
}

grail_status options_check(const grail_option *list, const void *owner)
{
    for (const grail_option *o = list; o->field != NULL; o++) {
        const grail_status status = check_field(o, owner);
        if (status != GRAIL_OK) {
            return error_about(status, o->field);
        }
    }
    return GRAIL_OK;
}

/* -- from one struct to another ---------------------------------------------------------------- */

static const grail_option *find_key(const grail_option *list, const char *key)
{
    while (list->field != NULL && (list->key == NULL || strcmp(list->key, key) != 0)) {
        list++;
    }
    return list->field == NULL ? NULL : list;
}

static grail_status transfer(const grail_option *from, const void *from_owner,
                             const grail_option *to, void *to_owner)
{
    field_value value = get(from, from_owner);
    int found = 0;
    if (from->type == GRAIL_OPTION_NUMBER) {
        if (value.number.choice == GRAIL_NUMBER_USUAL) {
            return GRAIL_OK;
        }
    } else if (to->type == GRAIL_OPTION_WORD) {
        value.text = from->words[value.whole];
    } else if (from->type == GRAIL_OPTION_WORD) {
        if (value.text == NULL) {
            return GRAIL_OK;
        }
        const grail_status status = option_find_word(from->what, value.text, to->words, &found);
        if (status != GRAIL_OK) {
            return error_about(status, from->field);
        }
        value.whole = found;
    }
    put(to, to_owner, value);
    return GRAIL_OK;
}

grail_status options_transfer(const grail_option *from, const void *from_owner,
                              const grail_option *to, void *to_owner)
{
    for (; from->field != NULL; from++) {
        const grail_option *same = from->key == NULL ? NULL : find_key(to, from->key);
        if (same != NULL) {
            CHECK(transfer(from, from_owner, same, to_owner));
        }
    }
    return GRAIL_OK;
}

/* -- JSON -------------------------------------------------------------------------------------- */

static json_t *field_to_json(const grail_option *o, const void *owner)
{
    const field_value value = get(o, owner);
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
        return json_boolean(value.whole);
    case GRAIL_OPTION_CHOICE:
        return json_text(o->words[value.whole]);
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SIZE:
    case GRAIL_OPTION_SEED:
        return json_integer((json_int_t)value.whole);
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SPARSITY:
    case GRAIL_OPTION_SECONDS:
        return json_real_or_null(value.real);
    case GRAIL_OPTION_NUMBER:
        return value.number.choice == GRAIL_NUMBER_CROSS_VALIDATED
                   ? json_text(cross_validated_in_json)
               : value.number.choice == GRAIL_NUMBER_GIVEN ? json_real(value.number.value)
                                                           : json_null();
    case GRAIL_OPTION_COLOUR:
        return value.colour.given == 0 ? json_null()
                                       : json_pack("[f, f, f]", value.colour.values[0],
                                                   value.colour.values[1], value.colour.values[2]);
    case GRAIL_OPTION_TEXT:
    case GRAIL_OPTION_WORD:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
    case GRAIL_OPTION_ROOM: /* no document has it */
        break;
    }
    return value.text == NULL ? json_null() : json_text(value.text);
}

grail_status options_to_json(const grail_option *list, const void *owner, json_t *object)
{
    for (const grail_option *o = list; o->field != NULL; o++) {
        CHECK(json_put(object, o->key, field_to_json(o, owner)));
    }
    return GRAIL_OK;
}

grail_status options_record(const grail_option *list, const void *owner, json_t *object)
{
    for (const grail_option *o = list; o->field != NULL; o++) {
        if (o->decides != 0) {
            CHECK(json_put(object, o->field, field_to_json(o, owner)));
        }
    }
    return GRAIL_OK;
}

static grail_status optional_from_json(const char *source, const json_t *object,
                                       const grail_option *o, grail_number *out)
{
    const json_t *value = json_object_get(object, o->key);
    out->choice = GRAIL_NUMBER_GIVEN;
    if (json_is_string(value) && strcmp(json_string_value(value), cross_validated_in_json) == 0) {
        out->choice = GRAIL_NUMBER_CROSS_VALIDATED;
        return GRAIL_OK;
    }
    CHECK(json_get_real(source, object, o->key, 0.0, &out->value));
    return out->value >= 0.0 ? GRAIL_OK
                             : error_set(GRAIL_ERROR_FORMAT,
                                         "%s: \"%s\" is negative; expected 0 or more, or \"%s\"",
                                         source, o->key, cross_validated_in_json);
}

static grail_status colour_from_json(const char *source, const json_t *object,
                                     const grail_option *o, grail_colour *out)
{
    const json_t *list = json_object_get(object, o->key);
    out->given = 1;
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(list, i);
        if (json_array_size(list) != 3 || !json_is_number(value)) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an array of three numbers",
                             source, o->key);
        }
        out->values[i] = json_number_value(value);
    }
    return GRAIL_OK;
}

static grail_status word_from_json(const char *source, const json_t *object, const grail_option *o,
                                   field_value *out)
{
    const char *word = NULL;
    CHECK(json_get_string(source, object, o->key, NULL, &word));
    const int found = find_word(word, o->words);
    if (found < 0) {
        const grail_status status = error_set(
            GRAIL_ERROR_FORMAT, "%s: \"%s\" is \"%s\", expected one of", source, o->key, word);
        error_append_known(word, o->words);
        return status;
    }
    if (o->type == GRAIL_OPTION_CHOICE) {
        out->whole = found;
    } else {
        out->text = o->words[found];
    }
    return GRAIL_OK;
}

/* A number of its range (check_whole, check_real). */
static grail_status number_from_json(const char *source, const json_t *object,
                                     const grail_option *o, field_value *out)
{
    grail_status status = GRAIL_OK;
    char key[64];
    snprintf(key, sizeof key, "\"%s\"", o->key);
    if (is_whole(o)) {
        CHECK(json_get_integer(source, object, o->key, 0, &out->whole));
        status = o->type == GRAIL_OPTION_SEED ? GRAIL_OK : check_whole(o, key, out->whole);
    } else {
        CHECK(json_get_real(source, object, o->key, 0.0, &out->real));
        status = check_real(o, key, out->real);
    }
    if (status != GRAIL_OK) {
        error_prefix("%s", source);
        return GRAIL_ERROR_FORMAT;
    }
    return GRAIL_OK;
}

/* Into a zeroed value. */
static grail_status value_from_json(const char *source, const json_t *object, const grail_option *o,
                                    field_value *out)
{
    bool flag = false;
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
        CHECK(json_get_boolean(source, object, o->key, false, &flag));
        out->whole = flag ? 1 : 0;
        return GRAIL_OK;
    case GRAIL_OPTION_CHOICE:
    case GRAIL_OPTION_WORD:
        return word_from_json(source, object, o, out);
    case GRAIL_OPTION_NUMBER:
        return optional_from_json(source, object, o, &out->number);
    case GRAIL_OPTION_COLOUR:
        return colour_from_json(source, object, o, &out->colour);
    case GRAIL_OPTION_TEXT:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
        return json_get_string(source, object, o->key, NULL, &out->text);
    default:
        return number_from_json(source, object, o, out);
    }
}

grail_status options_from_json(const char *source, const json_t *object, const grail_option *list,
                               void *owner)
{
    for (const grail_option *o = list; o->field != NULL; o++) {
        const json_t *given = o->key == NULL ? NULL : json_object_get(object, o->key);
        field_value value = {0};
        if (given != NULL && !json_is_null(given)) {
            CHECK(value_from_json(source, object, o, &value));
            put(o, owner, value);
        }
    }
    return GRAIL_OK;
}

grail_status options_check_keys(const char *where, const json_t *object, const grail_option *list,
                                const char *const more[])
{
    grail_status status = GRAIL_OK;
    const char **known = NULL;
    size_t own = 0;
    size_t others = 0;
    while (list[own].field != NULL) {
        own++;
    }
    while (more[others] != NULL) {
        others++;
    }
    TRY(memory_new(&known, own + others + 1, sizeof known[0]));
    for (size_t i = 0; i < own; i++) {
        known[i] = list[i].key;
    }
    memcpy(known + own, more, others * sizeof known[0]);
    TRY(json_check_keys(where, object, known));
out:
    memory_free(known);
    return status;
}
