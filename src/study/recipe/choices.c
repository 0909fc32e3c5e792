#include "study/recipe/choices.h"

#include "base/names.h"
#include "base/options.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_CHOICES = 1000,
    MOST_VALUES = 1000,
    MOST_KEYS = 40,
    MOST_ALIGN = 1 << 20,
    MOST_HEAL_STEPS = 1000000,
    MOST_TEXT = 1 << 14
};

static const char sites_key[] = "sites";
const char *const sweep_precisions[] = {"auto", "f32", "bf16", "bf16-gram", NULL};

/* What a sweep limits, or does unless it is asked otherwise, in its own way. */
/* clang-format off */
#define FIELD(member, text) OPTION_FIELD(grail_compress_options, member), .key = (text)
static const grail_option own_fields[] = {
    {FIELD(cut.align, "align"), .type = GRAIL_OPTION_INTEGER, .below = MOST_ALIGN + 1.0,
     .usual = "1", .name = "align"},
    {FIELD(heal.steps, "heal_steps"), .type = GRAIL_OPTION_INTEGER,
     .below = MOST_HEAL_STEPS + 1.0, .name = "heal-steps"},
    {FIELD(heal.rate, "heal_rate"), .type = GRAIL_OPTION_REAL, .below = 1.0, .name = "heal-rate"},
    {FIELD(run.precision, "precision"), .type = GRAIL_OPTION_WORD, .words = sweep_precisions,
     .usual = "f32", .name = "precision"},
    {0},
};
/* clang-format on */

/* These are lists or words of their own in a recipe. */
static bool is_elsewhere(const char *key)
{
    return strcmp(key, "loop") == 0 || strcmp(key, "repair") == 0 || strcmp(key, "heal") == 0;
}

/* The i-th key; *of_plan tells whose field it is. */
static const grail_option *find_key(int i, bool *of_plan)
{
    const grail_option_at lists[] = {grail_compress_option_at, grail_plan_option_at};
    for (int l = 0; l < 2; l++) {
        for (int f = 0; lists[l](f) != NULL; f++) {
            const grail_option *o = lists[l](f);
            if (o->key == NULL || is_elsewhere(o->key) || i-- > 0) {
                continue;
            }
            *of_plan = l == 1;
            for (const grail_option *own = own_fields; own->field != NULL; own++) {
                o = strcmp(own->key, o->key) == 0 ? own : o;
            }
            return o;
        }
    }
    return NULL;
}

const grail_option *sweep_choice_key_at(int i)
{
    bool of_plan = false;
    return find_key(i, &of_plan);
}

/* -- kinds of sites ----------------------------------------------------------------------------
 */

static const char *kind_at(const void *list, int i)
{
    (void)list;
    return grail_site_kind_at(i);
}

static grail_status find_kind(const char *where, size_t index, const char *name, const char **out)
{
    for (int k = 0; name != NULL && grail_site_kind_at(k) != NULL; k++) {
        if (strcmp(grail_site_kind_at(k), name) == 0) {
            *out = grail_site_kind_at(k);
            return GRAIL_OK;
        }
    }
    const grail_status status =
        error_set(GRAIL_ERROR_FORMAT, "%s: sites[%zu]: expected one of", where, index);
    error_append_names(name, kind_at, NULL);
    return status;
}

bool sweep_choice_cuts(const sweep_choice *choice, const char *kind)
{
    for (int i = 0; i < choice->kind_count; i++) {
        if (strcmp(choice->kinds[i], kind) == 0) {
            return true;
        }
    }
    return false;
}

static grail_status read_kinds(const char *where, const json_t *list, sweep_choice *c)
{
    if (!json_is_array(list) || json_array_size(list) < 1) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"sites\" is not an array of kinds of sites",
                         where);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *kind = NULL;
        CHECK(find_kind(where, i, json_string_value(json_array_get(list, i)), &kind));
        if (sweep_choice_cuts(c, kind) || c->kind_count == SWEEP_MOST_KINDS) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: sites[%zu]: repeats an earlier entry of the list", where, i);
        }
        c->kinds[c->kind_count++] = kind;
    }
    return GRAIL_OK;
}

/* -- values ------------------------------------------------------------------------------------
 */

static grail_status set_field(const char *where, const json_t *object, const grail_option *o,
                              bool of_plan, grail_plan_options *out)
{
    const grail_option field[] = {*o, {0}};
    return options_from_json(where, object, field, of_plan ? (void *)out : (void *)&out->compress);
}

static grail_status set_fields(const char *where, const json_t *object, grail_plan_options *out)
{
    bool of_plan = false;
    grail_plan_options_init(out);
    options_init(own_fields, &out->compress);
    for (int i = 0; find_key(i, &of_plan) != NULL; i++) {
        CHECK(set_field(where, object, find_key(i, &of_plan), of_plan, out));
    }
    return GRAIL_OK;
}

grail_status sweep_choice_options(const sweep_choice *choice, grail_plan_options *out)
{
    return set_fields("choices", choice->values, out);
}

/* What a key has: one value, or an array of them. */
static size_t value_count(const json_t *values)
{
    return json_is_array(values) ? json_array_size(values) : 1;
}

static json_t *value_at(json_t *values, size_t index)
{
    return json_is_array(values) ? json_array_get(values, index) : values;
}

/* The value `index` of a key. */
static grail_status check_value(const char *where, const grail_option *o, bool of_plan,
                                json_t *values, size_t index)
{
    grail_status status = GRAIL_OK;
    grail_plan_options scratch = {0};
    json_t *value = value_at(values, index);
    json_t *object = json_object();
    TRY(json_put(object, o->key, json_incref(value)));
    TRY(set_field(where, object, o, of_plan, &scratch));
    for (size_t i = 0; i < index; i++) {
        if (json_equal(json_array_get(values, i), value)) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: %s[%zu]: repeats an earlier entry of the list", where,
                 o->key, index);
        }
    }
out:
    json_decref(object);
    return status;
}

grail_status sweep_choices_check(const char *where, const json_t *object)
{
    bool of_plan = false;
    for (int i = 0; find_key(i, &of_plan) != NULL; i++) {
        const grail_option *o = find_key(i, &of_plan);
        json_t *values = json_object_get(object, o->key);
        const size_t count = value_count(values);
        if (count < 1 || count > MOST_VALUES) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: \"%s\" is neither a value nor an array of 1 to %d values", where,
                             o->key, MOST_VALUES);
        }
        for (size_t v = 0; values != NULL && v < count; v++) {
            CHECK(check_value(where, o, of_plan, values, v));
        }
    }
    return GRAIL_OK;
}

/* -- combinations ------------------------------------------------------------------------------
 */

/* What a grid gives for the keys that it or the recipe has. */
typedef struct given_values {
    const char *keys[MOST_KEYS];
    json_t *values[MOST_KEYS];
    int count;
} given_values;

static json_t *find_given(const json_t *document, const json_t *grid, const char *key)
{
    json_t *own = json_object_get(grid, key);
    return own != NULL ? own : json_object_get(document, key);
}

static given_values list_given(const json_t *document, const json_t *grid)
{
    given_values given = {.count = 0};
    for (int i = 0; sweep_choice_key_at(i) != NULL && given.count < MOST_KEYS; i++) {
        const char *key = sweep_choice_key_at(i)->key;
        json_t *values = find_given(document, grid, key);
        if (values != NULL && !json_is_null(values)) {
            given.keys[given.count] = key;
            given.values[given.count++] = values;
        }
    }
    return given;
}

static grail_status count_given(const char *where, const given_values *given, size_t *out)
{
    size_t product = 1;
    for (int i = 0; i < given->count; i++) {
        product *= value_count(given->values[i]); /* each at most MOST_VALUES */
        if (product > MOST_CHOICES) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: the arrays of choices make more than %d combinations; shorten "
                             "them",
                             where, MOST_CHOICES);
        }
    }
    *out = product;
    return GRAIL_OK;
}

bool sweep_choice_plans(const sweep_choice *choice)
{
    return json_object_get(choice->values, "limit") != NULL ||
           json_object_get(choice->values, "budget") != NULL;
}

/* How widths are chosen for a limit says nothing where there is none. */
static grail_status check_plan(const char *where, const sweep_choice *c)
{
    bool of_plan = false;
    for (int i = 0; find_key(i, &of_plan) != NULL && !sweep_choice_plans(c); i++) {
        const char *key = find_key(i, &of_plan)->key;
        if (of_plan && json_object_get(c->values, key) != NULL) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: \"%s\" has no effect without \"limit\" or \"budget\"", where,
                             key);
        }
    }
    return GRAIL_OK;
}

/* The index-th combination; *out, which is zeroed, is released with choice_fini in any case. */
static grail_status make_choice(const char *where, const given_values *given, json_t *kinds,
                                size_t index, sweep_choice *out)
{
    out->values = json_object();
    for (int i = 0; i < given->count; i++) {
        const size_t count = value_count(given->values[i]);
        json_t *value = value_at(given->values[i], index % count);
        CHECK(json_put(out->values, given->keys[i], json_incref(value)));
        index /= count;
    }
    CHECK(read_kinds(where, kinds, out));
    CHECK(json_put(out->values, sites_key, json_incref(kinds)));
    return check_plan(where, out);
}

static void choice_fini(sweep_choice *c)
{
    json_decref(c->values);
    memory_free(c->text);
    *c = (sweep_choice){0};
}

static bool varies(const json_t *document, const char *key)
{
    const json_t *grids = json_object_get(document, "grids");
    const json_t *values = json_object_get(document, key);
    bool found = strcmp(key, sites_key) != 0 && value_count(values) > 1;
    for (size_t i = 0; i < json_array_size(grids); i++) {
        found = found || json_object_get(json_array_get(grids, i), key) != NULL;
    }
    return found;
}

static bool is_of_healing(const char *key)
{
    static const char prefix[] = "heal_";
    return strncmp(key, prefix, sizeof prefix - 1) == 0;
}

/* The combination without what only healing has and tells cells apart; *out, which is zeroed, is
 * released with choice_fini in any case. */
static grail_status copy_unhealed(const json_t *document, const sweep_choice *choice,
                                  sweep_choice *out)
{
    const char *key = NULL;
    json_t *value = NULL;
    *out = *choice;
    out->values = json_object();
    json_object_foreach (choice->values, key, value) {
        if (!is_of_healing(key) || !varies(document, key)) {
            CHECK(json_put(out->values, key, json_incref(value)));
        }
    }
    return GRAIL_OK;
}

/* Takes over *made; *index is that of the combination, which may be there already. */
static grail_status take_choice(sweep_choices *choices, sweep_choice *made, int *index)
{
    *index = 0;
    while (*index < choices->count && !json_equal(choices->list[*index].values, made->values)) {
        (*index)++;
    }
    if (*index == choices->count) {
        CHECK(memory_reserve(&choices->list, (size_t)choices->count + 1, sizeof choices->list[0]));
        choices->list[choices->count++] = *made;
        *made = (sweep_choice){0};
    }
    return GRAIL_OK;
}

/* The combination `index` knows that of its cells that are not healed. */
static grail_status add_unhealed(const json_t *document, sweep_choices *choices, int index)
{
    grail_status status = GRAIL_OK;
    sweep_choice made = {0};
    int unhealed = 0;
    TRY(copy_unhealed(document, &choices->list[index], &made));
    TRY(take_choice(choices, &made, &unhealed));
    choices->list[unhealed].unhealed = unhealed;
    choices->list[index].unhealed = unhealed;
out:
    choice_fini(&made);
    return status;
}

grail_status sweep_choices_add(const char *where, const json_t *document, const json_t *grid,
                               sweep_choices *choices, double **numbers, int *count)
{
    grail_status status = GRAIL_OK;
    const given_values given = list_given(document, grid);
    json_t *kinds = find_given(document, grid, sites_key);
    double *all = NULL;
    sweep_choice made = {0};
    size_t combinations = 0;
    TRY(count_given(where, &given, &combinations));
    TRY(memory_new(&all, combinations, sizeof all[0]));
    for (size_t i = 0; i < combinations; i++) {
        int index = 0;
        choice_fini(&made);
        TRY(make_choice(where, &given, kinds, i, &made));
        TRY(take_choice(choices, &made, &index));
        TRY(add_unhealed(document, choices, index));
        all[i] = index;
    }
    *numbers = all;
    *count = (int)combinations;
    all = NULL;
out:
    choice_fini(&made);
    memory_free(all);
    return status;
}

/* -- texts -------------------------------------------------------------------------------------
 */

static grail_status add_value(const json_t *value, buffer *out)
{
    if (json_is_string(value)) {
        return buffer_append_string(out, json_string_value(value));
    }
    if (json_is_integer(value)) {
        return buffer_format(out, "%lld", (long long)json_integer_value(value));
    }
    if (json_is_real(value)) {
        return buffer_format(out, "%.12g", json_real_value(value));
    }
    if (json_is_boolean(value)) {
        return buffer_append_string(out, json_is_true(value) ? "true" : "false");
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        CHECK(buffer_format(out, "%s%s", i > 0 ? "," : "",
                            json_string_value(json_array_get(value, i))));
    }
    return GRAIL_OK;
}

static grail_status add_varying(const json_t *document, const sweep_choice *c, const char *key,
                                buffer *out)
{
    const json_t *value = json_object_get(c->values, key);
    if (value == NULL || !varies(document, key)) {
        return GRAIL_OK;
    }
    CHECK(buffer_format(out, "%s%s=", out->size > 0 ? " " : "", key));
    return add_value(value, out);
}

static grail_status name_choice(const json_t *document, sweep_choice *c)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, MOST_TEXT);
    TRY(add_varying(document, c, sites_key, &text));
    for (int i = 0; sweep_choice_key_at(i) != NULL; i++) {
        TRY(add_varying(document, c, sweep_choice_key_at(i)->key, &text));
    }
    if (text.size > 0) {
        TRY(memory_copy_string(&c->text, (const char *)text.bytes));
    }
out:
    buffer_fini(&text);
    return status;
}

grail_status sweep_choices_name(const json_t *document, sweep_choices *choices)
{
    for (int i = 0; i < choices->count; i++) {
        CHECK(name_choice(document, &choices->list[i]));
    }
    return GRAIL_OK;
}

int sweep_choices_find(const sweep_choices *choices, const char *text)
{
    for (int i = 0; i < choices->count; i++) {
        if (names_equal(choices->list[i].text, text)) {
            return i;
        }
    }
    return -1;
}

void sweep_choices_fini(sweep_choices *choices)
{
    for (int i = 0; i < choices->count; i++) {
        choice_fini(&choices->list[i]);
    }
    memory_free(choices->list);
    *choices = (sweep_choices){0};
}
