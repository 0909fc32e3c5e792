/* One line of a results file: its JSON checked and turned into a checkpoint or a cell. */
#include "report/results.h"

#include <math.h>
#include <string.h>

static const char *const seconds_keys[SECONDS_KINDS] = {"calibrate", "compensate", "evaluate",
                                                        "total"};

/* No count, number of bytes or time comes near; sums of all cells stay finite. */
static const double largest_measure = 1e18;

static grail_status read_name(const char *where, const json_t *object, const char *key,
                              const char **out)
{
    grail_status status = GRAIL_OK;
    const char *text = NULL;
    TRY(json_get_string(where, object, key, NULL, &text));
    if (text == NULL || text[0] == 0) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", where, key);
    }
    if (strlen(text) > MOST_NAME_BYTES) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" has %zu bytes, at most %d are allowed", where, key,
             strlen(text), MOST_NAME_BYTES);
    }
    *out = text;
out:
    return status;
}

static grail_status read_measure(const char *where, const json_t *object, const char *key,
                                 double most, double *out)
{
    double value = NOT_MEASURED;
    const grail_status status = json_get_real(where, object, key, NOT_MEASURED, &value);
    if (status != GRAIL_OK) {
        return status;
    }
    if (value < 0.0 || value > most) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %g, expected 0 to %g", where, key,
                         value, most);
    }
    *out = value;
    return GRAIL_OK;
}

static grail_status read_count(const char *where, const json_t *object, const char *key,
                               int64_t *out)
{
    int64_t value = 0;
    const grail_status status = json_get_integer(where, object, key, 0, &value);
    if (status == GRAIL_OK && value < 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %lld, expected 0 or more", where, key,
                         (long long)value);
    }
    *out = value;
    return status;
}

static grail_status find_checkpoint(results *r, const char *where, const char *name, int *out)
{
    grail_status status = GRAIL_OK;
    char *copy = NULL;
    for (int i = r->checkpoint_count; i-- > 0;) {
        if (strcmp(r->checkpoints[i].name, name) == 0) {
            *out = i;
            return GRAIL_OK;
        }
    }
    if (r->checkpoint_count == MOST_CHECKPOINTS) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: more than %d checkpoints", where, MOST_CHECKPOINTS);
    }
    TRY(memory_copy_string(&copy, name));
    if (r->checkpoint_count == r->checkpoint_capacity) {
        const int capacity = 2 * r->checkpoint_capacity + 8;
        TRY(memory_resize(&r->checkpoints, (size_t)capacity, sizeof r->checkpoints[0]));
        r->checkpoint_capacity = capacity;
    }
    r->checkpoints[r->checkpoint_count] = (result_checkpoint){
        .name = copy,
        .parameters = NOT_MEASURED,
        .macs = NOT_MEASURED,
        .top1 = NOT_MEASURED,
        .top5 = NOT_MEASURED,
        .interval = NOT_MEASURED,
        .images = NOT_MEASURED,
    };
    copy = NULL;
    *out = r->checkpoint_count++;
out:
    memory_free(copy);
    return status;
}

static grail_status find_selector(results *r, const char *where, const char *name, int *out)
{
    for (int i = 0; i < r->selector_count; i++) {
        if (strcmp(r->selectors[i], name) == 0) {
            *out = i;
            return GRAIL_OK;
        }
    }
    if (r->selector_count == MOST_SELECTORS) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: more than %d selectors", where, MOST_SELECTORS);
    }
    const grail_status status = memory_copy_string(&r->selectors[r->selector_count], name);
    if (status == GRAIL_OK) {
        *out = r->selector_count++;
    }
    return status;
}

static grail_status add_dense(results *r, const json_t *dense, const char *where)
{
    grail_status status = GRAIL_OK;
    const char *name = NULL;
    const char *architecture = NULL;
    int index = 0;
    result_checkpoint read = {0};
    TRY(read_name(where, dense, "checkpoint", &name));
    TRY(json_get_string(where, dense, "architecture", "", &architecture));
    TRY(read_measure(where, dense, "parameters", largest_measure, &read.parameters));
    TRY(read_measure(where, dense, "macs", largest_measure, &read.macs));
    TRY(read_measure(where, dense, "top1", 1.0, &read.top1));
    TRY(read_measure(where, dense, "top5", 1.0, &read.top5));
    TRY(read_measure(where, dense, "interval", 1.0, &read.interval));
    TRY(read_measure(where, dense, "images", largest_measure, &read.images));
    TRY(find_checkpoint(r, where, name, &index));
    TRY(memory_copy_string(&read.architecture, architecture));
    read.name = r->checkpoints[index].name;
    memory_free(r->checkpoints[index].architecture);
    r->checkpoints[index] = read;
out:
    return status;
}

static grail_status read_variant(const char *where, const json_t *settings, variant *out)
{
    static const struct {
        const char *name;
        variant plain, repaired;
    } compensations[] = {
        {"none", VARIANT_NONE, VARIANT_REPAIR},
        {"grail", VARIANT_GRAIL, VARIANT_GRAIL_REPAIR},
        {"full", VARIANT_FULL, VARIANT_FULL_REPAIR},
    };
    grail_status status = GRAIL_OK;
    const char *name = NULL;
    bool repair = false;
    TRY(read_name(where, settings, "compensate", &name));
    TRY(json_get_boolean(where, settings, "repair", false, &repair));
    for (size_t i = 0; i < sizeof compensations / sizeof compensations[0]; i++) {
        if (strcmp(name, compensations[i].name) == 0) {
            *out = repair ? compensations[i].repaired : compensations[i].plain;
            return GRAIL_OK;
        }
    }
    FAIL(GRAIL_ERROR_FORMAT, "%s: \"compensate\" is \"%s\", expected none, grail or full", where,
         name);
out:
    return status;
}

static grail_status read_loop(const char *where, const json_t *settings, bool *out)
{
    const char *loop = NULL;
    const grail_status status = json_get_string(where, settings, "loop", "closed", &loop);
    if (status != GRAIL_OK) {
        return status;
    }
    if (strcmp(loop, "closed") != 0 && strcmp(loop, "open") != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"loop\" is \"%s\", expected closed or open",
                         where, loop);
    }
    *out = strcmp(loop, "open") == 0;
    return GRAIL_OK;
}

static grail_status read_settings(results *r, const json_t *settings, const char *where,
                                  result_cell *cell)
{
    grail_status status = GRAIL_OK;
    const char *checkpoint = NULL;
    const char *selector = NULL;
    TRY(read_name(where, settings, "checkpoint", &checkpoint));
    TRY(read_name(where, settings, "selector", &selector));
    TRY(read_measure(where, settings, "sparsity", 1.0, &cell->sparsity));
    if (!(cell->sparsity < 1.0)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"sparsity\" is %s, expected 0 to below 1", where,
             isnan(cell->sparsity) ? "missing" : "1");
    }
    TRY(read_variant(where, settings, &cell->variant));
    TRY(read_count(where, settings, "samples", &cell->samples));
    TRY(read_count(where, settings, "seed", &cell->seed));
    TRY(read_loop(where, settings, &cell->open_loop));
    TRY(find_checkpoint(r, where, checkpoint, &cell->checkpoint));
    TRY(find_selector(r, where, selector, &cell->selector));
out:
    return status;
}

static grail_status read_measures(const json_t *document, const char *where, result_cell *cell)
{
    grail_status status = GRAIL_OK;
    const json_t *seconds = json_object_get(document, "seconds");
    if (seconds != NULL && !json_is_object(seconds) && !json_is_null(seconds)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"seconds\" is not an object", where);
    }
    TRY(read_measure(where, document, "top1", 1.0, &cell->top1));
    TRY(read_measure(where, document, "top5", 1.0, &cell->top5));
    TRY(read_measure(where, document, "interval", 1.0, &cell->interval));
    TRY(read_measure(where, document, "images", largest_measure, &cell->images));
    TRY(read_measure(where, document, "parameters", largest_measure, &cell->parameters));
    TRY(read_measure(where, document, "macs", largest_measure, &cell->macs));
    TRY(read_measure(where, document, "peak_bytes", largest_measure, &cell->peak_bytes));
    for (int i = 0; i < SECONDS_KINDS; i++) {
        TRY(read_measure(where, seconds, seconds_keys[i], largest_measure, &cell->seconds[i]));
    }
out:
    return status;
}

static grail_status read_site(const json_t *object, const char *where, result_site *out)
{
    grail_status status = GRAIL_OK;
    const char *name = NULL;
    TRY(read_name(where, object, "name", &name));
    TRY(read_measure(where, object, "units", largest_measure, &out->units));
    TRY(read_measure(where, object, "kept", largest_measure, &out->kept));
    TRY(json_get_real(where, object, "fit_before", NOT_MEASURED, &out->fit_before));
    TRY(json_get_real(where, object, "fit_after", NOT_MEASURED, &out->fit_after));
    TRY(json_get_real(where, object, "held_before", NOT_MEASURED, &out->held_before));
    TRY(json_get_real(where, object, "held_after", NOT_MEASURED, &out->held_after));
    TRY(memory_copy_string(&out->name, name));
out:
    return status;
}

static grail_status read_sites(const json_t *document, const char *where, result_cell *cell)
{
    grail_status status = GRAIL_OK;
    const json_t *list = json_object_get(document, "sites");
    if (list == NULL || json_is_null(list)) {
        return GRAIL_OK;
    }
    if (!json_is_array(list)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"sites\" is not an array", where);
    }
    TRY(memory_new(&cell->sites, json_array_size(list), sizeof cell->sites[0]));
    for (size_t i = 0; i < json_array_size(list); i++) {
        TRY(read_site(json_array_get(list, i), where, &cell->sites[i]));
        cell->site_count++;
    }
out:
    return status;
}

static grail_status read_error(const json_t *document, const char *where, result_cell *cell)
{
    const char *text = NULL;
    const grail_status status = json_get_string(where, document, "error", NULL, &text);
    if (status != GRAIL_OK || text == NULL) {
        return status;
    }
    return memory_copy_string(&cell->error, text);
}

/* The cell at the end of the list, which it joins first so that results_fini releases it. */
static grail_status new_cell(results *r, const char *where, size_t line, result_cell **out)
{
    if (r->cell_count == MOST_CELLS) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: more than %d cells", where, MOST_CELLS);
    }
    if (r->cell_count == r->cell_capacity) {
        const int capacity = 2 * r->cell_capacity + 64;
        const grail_status status = memory_resize(&r->cells, (size_t)capacity, sizeof r->cells[0]);
        if (status != GRAIL_OK) {
            return status;
        }
        r->cell_capacity = capacity;
    }
    *out = &r->cells[r->cell_count++];
    **out = (result_cell){.line = line};
    return GRAIL_OK;
}

static grail_status add_cell(results *r, const json_t *document, const char *where, size_t line)
{
    grail_status status = GRAIL_OK;
    result_cell *cell = NULL;
    TRY(new_cell(r, where, line, &cell));
    TRY(read_settings(r, json_object_get(document, "cell"), where, cell));
    TRY(read_error(document, where, cell));
    TRY(read_measures(document, where, cell));
    if (cell->error == NULL) {
        TRY(read_sites(document, where, cell));
    }
out:
    return status;
}

grail_status results_add_line(results *r, const json_t *document, const char *where, size_t line)
{
    const json_t *dense = json_object_get(document, "dense");
    if (json_is_object(dense)) {
        return add_dense(r, dense, where);
    }
    if (json_is_object(json_object_get(document, "cell"))) {
        return add_cell(r, document, where, line);
    }
    return error_set(GRAIL_ERROR_FORMAT,
                     "%s: expected an object with \"dense\" or \"cell\", each an object", where);
}
