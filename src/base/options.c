#include "base/options.h"

#include "base/names.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char cross_validated_in_json[] = "cross-validation";

/* -- values ------------------------------------------------------------------------------------ */

/* Of a flag, a choice or an integer. */
static int64_t get_whole(const grail_option *o, const void *owner)
{
    const char *at = (const char *)owner + o->offset;
    int64_t large = 0;
    int small = 0;
    bool flag = false;
    if (o->size == sizeof large) {
        memcpy(&large, at, sizeof large);
        return large;
    }
    if (o->size == sizeof flag) {
        memcpy(&flag, at, sizeof flag);
        return flag ? 1 : 0;
    }
    memcpy(&small, at, sizeof small);
    return small;
}

static void set_whole(const grail_option *o, void *owner, int64_t value)
{
    char *at = (char *)owner + o->offset;
    const int small = (int)value;
    const bool flag = value != 0;
    if (o->size == sizeof value) {
        memcpy(at, &value, sizeof value);
    } else if (o->size == sizeof flag) {
        memcpy(at, &flag, sizeof flag);
    } else {
        memcpy(at, &small, sizeof small);
    }
}

static double get_real(const grail_option *o, const void *owner)
{
    double value = 0.0;
    memcpy(&value, (const char *)owner + o->offset, sizeof value);
    return value;
}

static void set_real(const grail_option *o, void *owner, double value)
{
    memcpy((char *)owner + o->offset, &value, sizeof value);
}

static grail_number get_number(const grail_option *o, const void *owner)
{
    grail_number number;
    memcpy(&number, (const char *)owner + o->offset, sizeof number);
    return number;
}

static void put_number(const grail_option *o, void *owner, grail_number number)
{
    memcpy((char *)owner + o->offset, &number, sizeof number);
}

static const char *get_text(const grail_option *o, const void *owner)
{
    const char *text = NULL;
    memcpy(&text, (const char *)owner + o->offset, sizeof text);
    return text;
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

static bool set_integer(const grail_option *o, void *owner, const char *text)
{
    int64_t whole = 0;
    const bool is_word = o->words != NULL && strcmp(o->words[0], text) == 0;
    const bool valid = is_word || read_whole(o, text, &whole);
    if (valid) {
        set_whole(o, owner, whole);
    }
    return valid;
}

static bool set_choice(const grail_option *o, void *owner, const char *text)
{
    const int found = find_word(text, o->words);
    if (found >= 0) {
        set_whole(o, owner, found);
    }
    return found >= 0;
}

static bool set_real_text(const grail_option *o, void *owner, const char *text)
{
    double real = 0.0;
    const bool valid =
        o->type == GRAIL_OPTION_SECONDS ? read_seconds(text, &real) : read_real(o, text, &real);
    if (valid) {
        set_real(o, owner, real);
    }
    return valid;
}

static bool set_number_text(const grail_option *o, void *owner, const char *text)
{
    grail_number number = {.choice = GRAIL_NUMBER_CROSS_VALIDATED};
    if (o->words != NULL && strcmp(text, o->words[0]) == 0) {
        put_number(o, owner, number);
        return true;
    }
    number.choice = GRAIL_NUMBER_GIVEN;
    const bool valid = read_real(o, text, &number.value);
    if (valid) {
        put_number(o, owner, number);
    }
    return valid;
}

static bool set_value(const grail_option *o, void *owner, const char *text)
{
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
        set_whole(o, owner, 1);
        return true;
    case GRAIL_OPTION_CHOICE:
        return set_choice(o, owner, text);
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SIZE:
    case GRAIL_OPTION_SEED:
        return set_integer(o, owner, text);
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SPARSITY:
    case GRAIL_OPTION_SECONDS:
        return set_real_text(o, owner, text);
    case GRAIL_OPTION_NUMBER:
        return set_number_text(o, owner, text);
    case GRAIL_OPTION_TEXT:
    case GRAIL_OPTION_WORD:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
        memcpy((char *)owner + o->offset, &text, sizeof text);
        return true;
    }
    return false;
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
        snprintf(text, size, "%s%san integer ", first, gap);
        if (o->below > 0.0) {
            snprintf(text + strlen(text), size - strlen(text), "from %.0f to %.0f", o->least,
                     o->below - 1.0);
        } else {
            snprintf(text + strlen(text), size - strlen(text), "of at least %.0f",
                     above && o->least < 1.0 ? 1.0 : o->least);
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
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
    case GRAIL_OPTION_CHOICE:
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SIZE:
        return check_whole(o, o->what, get_whole(o, owner));
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SECONDS:
        return check_real(o, o->what, get_real(o, owner));
    case GRAIL_OPTION_SPARSITY:
        return option_check_sparsity(get_real(o, owner));
    case GRAIL_OPTION_NUMBER:
        return check_number(o, get_number(o, owner));
    case GRAIL_OPTION_TEXT:
    case GRAIL_OPTION_WORD:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
        return check_text(o, get_text(o, owner));
    case GRAIL_OPTION_SEED:
        break; /* every one is allowed */
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
    const char *word = from->type == GRAIL_OPTION_WORD ? get_text(from, from_owner) : NULL;
    int found = 0;
    if (from->type == GRAIL_OPTION_NUMBER) {
        const grail_number number = get_number(from, from_owner);
        if (number.choice != GRAIL_NUMBER_USUAL) {
            put_number(to, to_owner, number);
        }
    } else if (to->type == GRAIL_OPTION_WORD) {
        (void)set_value(to, to_owner, from->words[get_whole(from, from_owner)]);
    } else if (from->type != GRAIL_OPTION_WORD) {
        set_whole(to, to_owner, get_whole(from, from_owner));
    } else if (word != NULL) {
        const grail_status status = option_find_word(from->what, word, to->words, &found);
        if (status != GRAIL_OK) {
            return error_about(status, from->field);
        }
        set_whole(to, to_owner, found);
    }
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

static json_t *number_to_json(grail_number number)
{
    return number.choice == GRAIL_NUMBER_CROSS_VALIDATED ? json_text(cross_validated_in_json)
           : number.choice == GRAIL_NUMBER_GIVEN         ? json_real(number.value)
                                                         : json_null();
}

static json_t *field_to_json(const grail_option *o, const void *owner)
{
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
        return json_boolean(get_whole(o, owner));
    case GRAIL_OPTION_CHOICE:
        return json_text(o->words[get_whole(o, owner)]);
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SIZE:
    case GRAIL_OPTION_SEED:
        return json_integer((json_int_t)get_whole(o, owner));
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SPARSITY:
    case GRAIL_OPTION_SECONDS:
        return json_real_or_null(get_real(o, owner));
    case GRAIL_OPTION_NUMBER:
        return number_to_json(get_number(o, owner));
    case GRAIL_OPTION_TEXT:
    case GRAIL_OPTION_WORD:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
        break;
    }
    return get_text(o, owner) == NULL ? json_null() : json_text(get_text(o, owner));
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
                                       const grail_option *o, void *owner)
{
    const json_t *value = json_object_get(object, o->key);
    grail_number number = {.choice = GRAIL_NUMBER_GIVEN};
    if (json_is_string(value) && strcmp(json_string_value(value), cross_validated_in_json) == 0) {
        number.choice = GRAIL_NUMBER_CROSS_VALIDATED;
    } else {
        CHECK(json_get_real(source, object, o->key, 0.0, &number.value));
    }
    if (number.value < 0.0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"%s\" is negative; expected 0 or more, or \"%s\"", source, o->key,
                         cross_validated_in_json);
    }
    put_number(o, owner, number);
    return GRAIL_OK;
}

static grail_status word_from_json(const char *source, const json_t *object, const grail_option *o,
                                   void *owner)
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
        set_whole(o, owner, found);
    } else {
        (void)set_value(o, owner, o->words[found]);
    }
    return GRAIL_OK;
}

/* A value of the range of whole numbers (check_whole) or of real ones (check_real). */
static grail_status number_from_json(const char *source, const json_t *object,
                                     const grail_option *o, void *owner)
{
    const bool is_real = o->type == GRAIL_OPTION_REAL || o->type == GRAIL_OPTION_SPARSITY ||
                         o->type == GRAIL_OPTION_SECONDS;
    grail_status status = GRAIL_OK;
    int64_t whole = 0;
    double real = 0.0;
    char key[64];
    snprintf(key, sizeof key, "\"%s\"", o->key);
    if (is_real) {
        CHECK(json_get_real(source, object, o->key, 0.0, &real));
        status = check_real(o, key, real);
    } else {
        CHECK(json_get_integer(source, object, o->key, 0, &whole));
        status = o->type == GRAIL_OPTION_SEED ? GRAIL_OK : check_whole(o, key, whole);
    }
    if (status != GRAIL_OK) {
        error_prefix("%s", source);
        return GRAIL_ERROR_FORMAT;
    }
    if (is_real) {
        set_real(o, owner, real);
    } else {
        set_whole(o, owner, whole);
    }
    return GRAIL_OK;
}

static grail_status field_from_json(const char *source, const json_t *object, const grail_option *o,
                                    void *owner)
{
    bool flag = false;
    const char *text = NULL;
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
        CHECK(json_get_boolean(source, object, o->key, false, &flag));
        set_whole(o, owner, flag ? 1 : 0);
        break;
    case GRAIL_OPTION_CHOICE:
    case GRAIL_OPTION_WORD:
        return word_from_json(source, object, o, owner);
    case GRAIL_OPTION_NUMBER:
        return optional_from_json(source, object, o, owner);
    case GRAIL_OPTION_TEXT:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
        CHECK(json_get_string(source, object, o->key, NULL, &text));
        (void)set_value(o, owner, text);
        break;
    default:
        return number_from_json(source, object, o, owner);
    }
    return GRAIL_OK;
}

grail_status options_from_json(const char *source, const json_t *object, const grail_option *list,
                               void *owner)
{
    for (const grail_option *o = list; o->field != NULL; o++) {
        const json_t *value = o->key == NULL ? NULL : json_object_get(object, o->key);
        if (value != NULL && !json_is_null(value)) {
            CHECK(field_from_json(source, object, o, owner));
        }
    }
    return GRAIL_OK;
}

grail_status options_check_keys(const char *where, const json_t *object, const grail_option *list,
                                const char *const more[])
{
    grail_status status = GRAIL_OK;
    const char **known = NULL;
    size_t count = 0;
    size_t most = 1;
    for (const grail_option *o = list; o->field != NULL; o++) {
        most++;
    }
    for (int i = 0; more[i] != NULL; i++) {
        most++;
    }
    TRY(memory_new(&known, most, sizeof known[0]));
    for (const grail_option *o = list; o->field != NULL; o++) {
        known[count++] = o->key;
    }
    for (int i = 0; more[i] != NULL; i++) {
        known[count++] = more[i];
    }
    TRY(json_check_keys(where, object, known));
out:
    memory_free(known);
    return status;
}
