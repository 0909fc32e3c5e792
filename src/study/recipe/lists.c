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

/* What a double holds exactly. */
#define LARGEST_SEED 0x1p53

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

/* What an entry of a list is: a name, which stands for its place, or a number of a range. */
static const struct {
    const char *key, *expected;
    bool is_whole;
    double least, most; /* of whole numbers */
    double fallback;    /* NaN: there is none */
} axes[SWEEP_AXES] = {
    [SWEEP_CHECKPOINTS] = {.key = "checkpoints",
                           .expected = "the name of a checkpoint of this recipe",
                           .fallback = (double)NAN},
    [SWEEP_CALIBRATIONS] = {.key = "calibration",
                            .expected = "the name of a calibration of this recipe",
                            .fallback = (double)NAN},
    [SWEEP_SELECTORS] = {.key = "selectors",
                         .expected = "the name of a selector",
                         .fallback = (double)NAN},
    [SWEEP_SPARSITIES] = {.key = "sparsities",
                          .expected = "a number in [0, 1)",
                          .fallback = (double)NAN},
    [SWEEP_COMPENSATE] = {.key = "compensate",
                          .expected =
                              "one of none, repair, grail, grail+repair, full, full+repair, "
                              "own, own+repair",
                          .fallback = (double)NAN},
    [SWEEP_HEAL] = {.key = "heal",
                    .expected = "one of none, block, model, block,model",
                    .fallback = HEAL_NONE},
    [SWEEP_SAMPLES] = {.key = "samples",
                       .expected = "an integer from 1 to 1000000",
                       .is_whole = true,
                       .least = 1.0,
                       .most = MOST_SAMPLES,
                       .fallback = 128.0},
    [SWEEP_SEEDS] = {.key = "seeds",
                     .expected = "an integer from 0 to 2^53",
                     .is_whole = true,
                     .most = LARGEST_SEED},
};

/* *out is -1 where there is no such name. */
static grail_status find_name(const char *where, sweep_axis axis, const char *name,
                              sweep_names names, int *out)
{
    *out = -1;
    switch (name == NULL ? SWEEP_AXES : axis) {
    case SWEEP_CHECKPOINTS:
        *out = sweep_checkpoints_find(names.checkpoints, name);
        break;
    case SWEEP_CALIBRATIONS:
        *out = sweep_data_find(names.calibrations, name);
        break;
    case SWEEP_SELECTORS:
        return sweep_find_selector(where, name, out);
    case SWEEP_COMPENSATE:
        *out = variant_form_find(name);
        break;
    case SWEEP_HEAL:
        *out = heal_kind_find(name);
        break;
    default:
        break;
    }
    return GRAIL_OK;
}

static grail_status read_value(const char *where, sweep_axis axis, const json_t *value,
                               sweep_names names, double *out)
{
    const json_int_t whole = json_integer_value(value);
    bool valid = false;
    if (axes[axis].is_whole) {
        *out = (double)whole;
        valid = json_is_integer(value) && whole >= (json_int_t)axes[axis].least &&
                whole <= (json_int_t)axes[axis].most;
    } else if (axis == SWEEP_SPARSITIES) {
        *out = round_ratio(json_number_value(value));
        valid = json_is_number(value) && *out >= 0.0 && *out < 1.0;
    } else {
        int found = -1;
        CHECK(find_name(where, axis, json_string_value(value), names, &found));
        *out = found;
        valid = found >= 0;
    }
    return valid ? GRAIL_OK
                 : error_set(GRAIL_ERROR_FORMAT, "%s: expected %s", where, axes[axis].expected);
}

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
                               sweep_names names, sweep_list *out)
{
    grail_status status = GRAIL_OK;
    char *place = NULL;
    double value = 0.0;
    TRY(memory_format(&place, "%s: %s[%d]", where, axes[axis].key, out->count));
    TRY(read_value(place, axis, json_array_get(array, (size_t)out->count), names, &value));
    if (contains(out, value)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: repeats an earlier entry of the list", place);
    }
    out->values[out->count++] = value;
out:
    memory_free(place);
    return status;
}

static grail_status read_list(const char *where, const json_t *array, sweep_axis axis,
                              sweep_names names, sweep_list *out)
{
    const size_t count = json_array_size(array);
    if (!json_is_array(array) || count < 1 || count > LONGEST_LIST) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an array of 1 to %d entries", where,
                         axes[axis].key, LONGEST_LIST);
    }
    CHECK(memory_new(&out->values, count, sizeof out->values[0]));
    for (size_t i = 0; i < count; i++) {
        CHECK(read_entry(where, array, axis, names, out));
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

/* Lists whose entries the recipe itself defines under the same key. */
static bool is_defined_here(sweep_axis axis)
{
    return axis == SWEEP_CHECKPOINTS || axis == SWEEP_CALIBRATIONS;
}

/* All that the recipe defines, or the one default value. */
static grail_status default_list(sweep_axis axis, sweep_names names, sweep_list *out)
{
    const int count = axis == SWEEP_CHECKPOINTS    ? names.checkpoints->count
                      : axis == SWEEP_CALIBRATIONS ? names.calibrations->count
                                                   : 1;
    CHECK(memory_new_unset(&out->values, (size_t)count, sizeof out->values[0]));
    for (int i = 0; i < count; i++) {
        out->values[i] = is_defined_here(axis) ? (double)i : axes[axis].fallback;
    }
    out->count = count;
    return GRAIL_OK;
}

static grail_status read_axis(const char *where, const json_t *object, sweep_axis axis,
                              sweep_names names, const sweep_grid *base, bool complete,
                              sweep_list *out)
{
    /* at the top, "checkpoints" are the checkpoints themselves */
    const bool is_here = !is_defined_here(axis) || base != NULL;
    const json_t *array = is_here ? json_object_get(object, axes[axis].key) : NULL;
    if (array != NULL) {
        return read_list(where, array, axis, names, out);
    }
    if (base != NULL && base->axes[axis].count > 0) {
        return copy_list(&base->axes[axis], out);
    }
    if (is_defined_here(axis) || !isnan(axes[axis].fallback)) {
        return default_list(axis, names, out);
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

grail_status sweep_grid_read(const char *where, const json_t *object, sweep_names names,
                             const sweep_grid *base, bool complete, sweep_grid *out)
{
    grail_status status = GRAIL_OK;
    sweep_grid grid = {0};
    for (int axis = 0; axis < SWEEP_CHOICES; axis++) {
        TRY(read_axis(where, object, (sweep_axis)axis, names, base, complete, &grid.axes[axis]));
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
