/* The lists of a recipe: what each may hold, and every entry once. */
#include "study/recipe/lists.h"

#include "base/options.h"
#include "study/results/variant.h"

#include <grail/compress.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LIST = 1000, MOST_SAMPLES = 1000000 };

static const int64_t largest_seed = (int64_t)1 << 53; /* what a double holds exactly */

/* A ratio as results are written with it: 12 digits, so that text and number are the same. */
static double round_ratio(double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.12g", value);
    return strtod(text, NULL) + 0.0; /* not -0 */
}

grail_status sweep_find_selector(const char *where, const char *name, int *out)
{
    grail_selector_facts facts = {0};
    const grail_status status = grail_selector_describe(name, &facts);
    if (status != GRAIL_OK) {
        error_prefix("%s", where);
        return status == GRAIL_ERROR_ARGUMENT ? GRAIL_ERROR_FORMAT : status;
    }
    *out = facts.index;
    return GRAIL_OK;
}

/* -- entries: a JSON value to a number ----------------------------------------------------------
 */

static grail_status wrong_entry(const char *where, const char *expected)
{
    return error_set(GRAIL_ERROR_FORMAT, "%s: expected %s", where, expected);
}

static grail_status read_checkpoint_name(const char *where, const json_t *value,
                                         const sweep_checkpoints *checkpoints, double *out)
{
    const char *name = json_string_value(value);
    const int found = name == NULL ? -1 : sweep_checkpoints_find(checkpoints, name);
    if (found < 0) {
        return wrong_entry(where, "the name of a checkpoint of this recipe");
    }
    *out = found;
    return GRAIL_OK;
}

static grail_status read_selector(const char *where, const json_t *value,
                                  const sweep_checkpoints *checkpoints, double *out)
{
    (void)checkpoints;
    int selector = 0;
    const char *name = json_string_value(value);
    if (name == NULL) {
        return wrong_entry(where, "the name of a selector");
    }
    const grail_status status = sweep_find_selector(where, name, &selector);
    *out = selector;
    return status;
}

static grail_status read_sparsity(const char *where, const json_t *value,
                                  const sweep_checkpoints *checkpoints, double *out)
{
    (void)checkpoints;
    const double ratio =
        json_is_number(value) ? round_ratio(json_number_value(value)) : (double)NAN;
    if (!(ratio >= 0.0 && ratio < 1.0)) {
        return wrong_entry(where, "a number in [0, 1)");
    }
    *out = ratio;
    return GRAIL_OK;
}

static grail_status read_variant(const char *where, const json_t *value,
                                 const sweep_checkpoints *checkpoints, double *out)
{
    (void)checkpoints;
    variant found = VARIANT_NONE;
    const char *name = json_string_value(value);
    if (name != NULL && variant_from_name(name, &found)) {
        *out = found;
        return GRAIL_OK;
    }
    return wrong_entry(where, "one of none, repair, grail, grail+repair, full, full+repair");
}

static grail_status read_heal(const char *where, const json_t *value,
                              const sweep_checkpoints *checkpoints, double *out)
{
    (void)checkpoints;
    heal_kind found = HEAL_NONE;
    const char *name = json_string_value(value);
    if (name != NULL && heal_kind_from_name(name, &found)) {
        *out = found;
        return GRAIL_OK;
    }
    return wrong_entry(where, "one of none, block, model, block,model");
}

static grail_status read_samples(const char *where, const json_t *value,
                                 const sweep_checkpoints *checkpoints, double *out)
{
    (void)checkpoints;
    const json_int_t samples = json_integer_value(value);
    if (!json_is_integer(value) || samples < 1 || samples > MOST_SAMPLES) {
        return wrong_entry(where, "an integer from 1 to 1000000");
    }
    *out = (double)samples;
    return GRAIL_OK;
}

static grail_status read_seed(const char *where, const json_t *value,
                              const sweep_checkpoints *checkpoints, double *out)
{
    (void)checkpoints;
    const json_int_t seed = json_integer_value(value);
    if (!json_is_integer(value) || seed < 0 || seed > largest_seed) {
        return wrong_entry(where, "an integer from 0 to 2^53");
    }
    *out = (double)seed;
    return GRAIL_OK;
}

typedef grail_status (*entry_reader)(const char *where, const json_t *value,
                                     const sweep_checkpoints *checkpoints, double *out);

static const struct {
    const char *key;
    entry_reader read;
    double fallback; /* NaN: there is none */
} axes[SWEEP_AXES] = {
    [SWEEP_CHECKPOINTS] = {"checkpoints", read_checkpoint_name, (double)NAN},
    [SWEEP_SELECTORS] = {"selectors", read_selector, (double)NAN},
    [SWEEP_SPARSITIES] = {"sparsities", read_sparsity, (double)NAN},
    [SWEEP_COMPENSATE] = {"compensate", read_variant, (double)NAN},
    [SWEEP_HEAL] = {"heal", read_heal, HEAL_NONE},
    [SWEEP_SAMPLES] = {"samples", read_samples, 128.0},
    [SWEEP_SEEDS] = {"seeds", read_seed, 0.0},
};

/* -- lists --------------------------------------------------------------------------------------
 */

static bool contains(const sweep_list *list, double value)
{
    for (int i = 0; i < list->count; i++) {
        if (list->values[i] == value) {
            return true;
        }
    }
    return false;
}

static grail_status read_entry(const char *where, const json_t *array, sweep_axis axis,
                               const sweep_checkpoints *checkpoints, sweep_list *out)
{
    grail_status status = GRAIL_OK;
    char *place = NULL;
    double value = 0.0;
    TRY(memory_format(&place, "%s: %s[%d]", where, axes[axis].key, out->count));
    TRY(axes[axis].read(place, json_array_get(array, (size_t)out->count), checkpoints, &value));
    if (contains(out, value)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: repeats an earlier entry of the list", place);
    }
    out->values[out->count++] = value;
out:
    memory_free(place);
    return status;
}

static grail_status read_list(const char *where, const json_t *array, sweep_axis axis,
                              const sweep_checkpoints *checkpoints, sweep_list *out)
{
    const size_t count = json_array_size(array);
    if (!json_is_array(array) || count < 1 || count > LONGEST_LIST) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an array of 1 to %d entries", where,
                         axes[axis].key, LONGEST_LIST);
    }
    CHECK(memory_new(&out->values, count, sizeof out->values[0]));
    for (size_t i = 0; i < count; i++) {
        CHECK(read_entry(where, array, axis, checkpoints, out));
    }
    return GRAIL_OK;
}

static grail_status copy_list(const sweep_list *from, sweep_list *out)
{
    const grail_status status =
        memory_new_unset(&out->values, (size_t)from->count, sizeof out->values[0]);
    if (status == GRAIL_OK) {
        memcpy(out->values, from->values, (size_t)from->count * sizeof out->values[0]);
        out->count = from->count;
    }
    return status;
}

/* All checkpoints, or the one default value. */
static grail_status default_list(sweep_axis axis, const sweep_checkpoints *checkpoints,
                                 sweep_list *out)
{
    const int count = axis == SWEEP_CHECKPOINTS ? checkpoints->count : 1;
    CHECK(memory_new_unset(&out->values, (size_t)count, sizeof out->values[0]));
    for (int i = 0; i < count; i++) {
        out->values[i] = axis == SWEEP_CHECKPOINTS ? (double)i : axes[axis].fallback;
    }
    out->count = count;
    return GRAIL_OK;
}

static bool has_default(sweep_axis axis)
{
    return axis == SWEEP_CHECKPOINTS || !isnan(axes[axis].fallback);
}

static grail_status read_axis(const char *where, const json_t *object, sweep_axis axis,
                              const sweep_checkpoints *checkpoints, const sweep_grid *base,
                              bool complete, sweep_list *out)
{
    /* at the top, "checkpoints" are the checkpoints themselves */
    const bool is_here = axis != SWEEP_CHECKPOINTS || base != NULL;
    const json_t *array = is_here ? json_object_get(object, axes[axis].key) : NULL;
    if (array != NULL) {
        return read_list(where, array, axis, checkpoints, out);
    }
    if (base != NULL && base->axes[axis].count > 0) {
        return copy_list(&base->axes[axis], out);
    }
    if (has_default(axis)) {
        return default_list(axis, checkpoints, out);
    }
    if (complete) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", where, axes[axis].key);
    }
    return GRAIL_OK;
}

static const grail_option loop_field[] = {
    {OPTION_FIELD(sweep_grid, open_loop), .type = GRAIL_OPTION_CHOICE, .key = "loop",
     .words = OPTION_WORDS("closed", "open")},
    {0},
};

grail_status sweep_grid_read(const char *where, const json_t *object,
                             const sweep_checkpoints *checkpoints, const sweep_grid *base,
                             bool complete, sweep_grid *out)
{
    grail_status status = GRAIL_OK;
    sweep_grid grid = {0};
    for (int axis = 0; axis < SWEEP_AXES; axis++) {
        TRY(read_axis(where, object, (sweep_axis)axis, checkpoints, base, complete,
                      &grid.axes[axis]));
    }
    grid.open_loop = base != NULL && base->open_loop;
    TRY(options_from_json(where, object, loop_field, &grid));
    *out = grid;
    grid = (sweep_grid){0};
out:
    sweep_grid_fini(&grid);
    return status;
}

void sweep_grid_fini(sweep_grid *grid)
{
    for (int axis = 0; axis < SWEEP_AXES; axis++) {
        memory_free(grid->axes[axis].values);
    }
    *grid = (sweep_grid){0};
}
