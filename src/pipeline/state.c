/* The state of a run on disk: OUTPUT.partial/grail-state.jsonl. Its first line is the fingerprint
 * of everything that decides the bytes; each further line records one finished block, written after
 * the block's tensors are on disk. A torn last line is ignored. */
#include "pipeline/compression.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char state_name[] = "grail-state.jsonl";
enum { STATE_MAXIMUM = 1 << 30 };

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Kept units of a selection, cluster labels of a folding, and in what order the exchangeable blocks
 * of its units were merged. */
static grail_status reducer_to_json(const grail_reducer *r, json_t *object)
{
    grail_status status = GRAIL_OK;
    json_t *list = json_array();
    TRY(json_put(object, r->folds ? "labels" : "kept_units", list));
    for (int64_t j = 0; j < r->units; j++) {
        if (r->folds) {
            TRY(json_push(list, json_integer(r->labels[j])));
        } else if (r->labels[j] >= 0) {
            TRY(json_push(list, json_integer(j)));
        }
    }
    if (r->order != NULL) {
        list = json_array();
        TRY(json_put(object, "subunit_order", list));
        for (int64_t i = 0; i < r->units * r->subunits; i++) {
            TRY(json_push(list, json_integer(r->order[i])));
        }
    }
out:
    return status;
}

grail_status site_result_to_json(const grail_compression *c, int index, json_t **out)
{
    grail_status status = GRAIL_OK;
    const site_result *result = &c->results[index];
    const grail_site_report *r = &result->report;
    json_t *object = json_object();
    TRY(json_put(object, "site", json_string(r->name)));
    TRY(json_put(object, "kind", json_string(r->kind)));
    TRY(json_put(object, "block", json_integer(r->block)));
    TRY(json_put(object, "selector", json_string(r->selector)));
    TRY(json_put(object, "units", json_integer(r->units)));
    TRY(json_put(object, "kept", json_integer(r->kept)));
    TRY(json_put(object, "width", json_integer(r->width)));
    TRY(json_put(object, "narrow_width", json_integer(r->narrow)));
    TRY(json_put(object, "alpha", real_or_null(r->alpha)));
    TRY(json_put(object, "lambda", real_or_null(r->lambda)));
    TRY(json_put(object, "condition", real_or_null(r->condition)));
    TRY(json_put(object, "fallback", json_string(r->fallback)));
    TRY(json_put(object, "bias_fitted", json_boolean(r->bias)));
    TRY(json_put(object, "fit_error_before", real_or_null(r->fit_before)));
    TRY(json_put(object, "fit_error_after", real_or_null(r->fit_after)));
    TRY(json_put(object, "held_error_before", real_or_null(r->held_before)));
    TRY(json_put(object, "held_error_after", real_or_null(r->held_after)));
    TRY(json_put(object, "seconds", real_or_null(r->seconds)));
    TRY(json_put(object, "solve_seconds", real_or_null(r->solve_seconds)));
    if (result->reducer != NULL) {
        TRY(reducer_to_json(result->reducer, object));
    }
    *out = object;
    object = NULL;
out:
    json_decref(object);
    return status;
}

static grail_status state_path(const char *directory, char **out)
{
    return path_join(out, directory, state_name);
}

static grail_status append_line(const grail_compression *c, const json_t *value)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    buffer line = {0};
    int descriptor = -1;
    buffer_init(&line, STATE_MAXIMUM);
    TRY(state_path(c->partial, &path));
    TRY(json_append_text(value, &line));
    TRY(buffer_append_string(&line, "\n"));
    descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        TRY(error_from_errno("cannot open", path));
    }
    const off_t end = lseek(descriptor, 0, SEEK_END);
    TRY(file_write_at(descriptor, path, line.bytes, line.size, (uint64_t)end));
    if (fsync(descriptor) != 0) {
        TRY(error_from_errno("cannot flush", path));
    }
out:
    if (descriptor >= 0) {
        close(descriptor);
    }
    buffer_fini(&line);
    memory_free(path);
    return status;
}

/* Takes away what is written before the first block is recorded. Other files stay, and with them
 * the directory; false then. */
static bool remove_beginning(const grail_compression *c)
{
    static const char *const endings[] = {"", ".tmp"};
    checkpoint_remove_written(c->partial, c->model->checkpoint, CHECKPOINT_LIKE);
    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
        char *path = NULL;
        if (memory_format(&path, "%s/%s%s", c->partial, state_name, endings[e]) == GRAIL_OK) {
            unlink(path);
        }
        memory_free(path);
    }
    return rmdir(c->partial) == 0;
}

/* What was decided at the first start and must not change: kept activations depend on free memory.
 */
static grail_status create_partial(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    json_t *first = NULL;
    if (mkdir(c->partial, 0777) != 0) {
        return errno == EEXIST ? error_set(GRAIL_ERROR_EXISTS,
                                           "an interrupted run lies in '%s'; continue it with "
                                           "--resume or delete it",
                                           c->partial)
                               : error_from_errno("cannot create", c->partial);
    }
    TRY(open_output(c, false));
    TRY(fingerprint_of_run(c, &first));
    TRY(json_put(first, "keep_activations", json_boolean(c->keep_activations)));
    TRY(append_line(c, first));
out:
    if (status != GRAIL_OK) {
        remove_beginning(c);
    }
    json_decref(first);
    return status;
}

static grail_status accept_fingerprint(grail_compression *c, json_t *stored)
{
    c->keep_activations = json_is_true(json_object_get(stored, "keep_activations"));
    json_object_del(stored, "keep_activations");
    return fingerprint_compare(c, stored);
}

/* *found says whether the first line is whole. */
static grail_status read_records(grail_compression *c, const buffer *text, bool *found)
{
    grail_status status = GRAIL_OK;
    size_t offset = 0;
    while (offset < text->size) {
        const unsigned char *start = text->bytes + offset;
        const unsigned char *newline = memchr(start, '\n', text->size - offset);
        json_t *record = NULL;
        if (newline == NULL ||
            json_parse(c->partial, start, (size_t)(newline - start), &record) != GRAIL_OK) {
            break; /* torn by a crash: the block it would have recorded is done again */
        }
        offset += (size_t)(newline - start) + 1;
        if (!*found) {
            status = accept_fingerprint(c, record);
            json_decref(record);
        } else {
            status = json_push(c->state, record);
        }
        TRY(status);
        *found = true;
    }
    if (json_array_size(c->state) > (size_t)c->model->graph->block_count) {
        FAIL(GRAIL_ERROR_FORMAT, "'%s' records %zu blocks of %d; delete it and start anew",
             c->partial, json_array_size(c->state), c->model->graph->block_count);
    }
out:
    return status;
}

/* Cuts a torn tail off so that the next record begins on a line of its own. */
static grail_status trim_state(const char *path, const buffer *text)
{
    size_t size = text->size;
    while (size > 0 && text->bytes[size - 1] != '\n') {
        size--;
    }
    if (size < text->size && truncate(path, (off_t)size) != 0) {
        return error_from_errno("cannot shorten", path);
    }
    return GRAIL_OK;
}

static grail_status read_state(grail_compression *c, bool *found)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    buffer text = {0};
    TRY(state_path(c->partial, &path));
    if (file_exists(path)) {
        TRY(file_read(path, STATE_MAXIMUM, &text));
        TRY(trim_state(path, &text));
        TRY(read_records(c, &text, found));
    }
out:
    buffer_fini(&text);
    memory_free(path);
    return status;
}

/* A run that was stopped before it had recorded anything is begun anew. */
static grail_status continue_partial(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    bool found = false;
    TRY(read_state(c, &found));
    if (found) {
        TRY(open_output(c, true));
    } else if (remove_beginning(c)) {
        TRY(create_partial(c));
    } else {
        FAIL(GRAIL_ERROR_FORMAT,
             "'%s' holds no state to resume from, but other files; delete it and start anew",
             c->partial);
    }
out:
    return status;
}

grail_status state_begin(grail_compression *c, const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    c->state = json_array();
    if (c->state == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory");
    }
    if (file_exists(c->partial) && !file_is_directory(c->partial)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' is in the way: it is not a directory; delete it",
             c->partial);
    }
    if (options->resume && file_exists(c->partial)) {
        TRY(continue_partial(c));
    } else {
        TRY(create_partial(c));
    }
    c->blocks_recorded = (int)json_array_size(c->state);
out:
    return status;
}

void state_after_failure(const grail_compression *c, grail_status status)
{
    if (c->blocks_recorded == 0 || status == GRAIL_ERROR_NUMERIC) {
        remove_beginning(c);
    } else if (file_exists(c->partial)) {
        error_append("; %d of %d blocks are finished in '%s', --resume continues it",
                     c->blocks_recorded, c->model->graph->block_count, c->partial);
    }
}

grail_status state_record_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    json_t *record = json_object();
    json_t *list = json_array();
    json_t *one = NULL;
    TRY(json_put(record, "block", json_integer(block)));
    TRY(json_put(record, "sites", list));
    for (int i = 0; i < c->sites->list.count; i++) {
        if (c->sites->list.sites[i].block == block && c->results[i].reducer != NULL) {
            TRY(site_result_to_json(c, i, &one));
            TRY(json_push(list, one));
        }
    }
    TRY(append_line(c, record));
    c->blocks_recorded = block + 1;
out:
    json_decref(record);
    return status;
}

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *static_fallback(const json_t *object)
{
    static const char *const known[] = {"none", "lambda raised", "eigenvalues", "kept plain"};
    const char *text = json_string_value(json_object_get(object, "fallback"));
    for (size_t i = 0; text != NULL && i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i], text) == 0) {
            return known[i];
        }
    }
    return known[0];
}

static void restore_report(const json_t *object, grail_site_report *r)
{
    r->alpha = real_of(object, "alpha");
    r->lambda = real_of(object, "lambda");
    r->condition = real_of(object, "condition");
    r->fit_before = real_of(object, "fit_error_before");
    r->fit_after = real_of(object, "fit_error_after");
    r->held_before = real_of(object, "held_error_before");
    r->held_after = real_of(object, "held_error_after");
    r->seconds = real_of(object, "seconds");
    r->solve_seconds = real_of(object, "solve_seconds");
    r->bias = json_is_true(json_object_get(object, "bias_fitted")) ? 1 : 0;
    r->fallback = static_fallback(object);
}

/* values[count] of an array in a record; *out is owned. */
static grail_status restore_integers(const json_t *list, int64_t count, int64_t **out)
{
    grail_status status = GRAIL_OK;
    int64_t *values = NULL;
    if (json_array_size(list) != (size_t)count) {
        FAIL(GRAIL_ERROR_FORMAT, "the state records %zu units, expected %lld",
             json_array_size(list), (long long)count);
    }
    TRY(memory_new(&values, (size_t)count, sizeof values[0]));
    for (int64_t i = 0; i < count; i++) {
        values[i] = json_integer_value(json_array_get(list, (size_t)i));
    }
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}

static grail_status restore_order(const json_t *list, int64_t subunits, grail_reducer *reducer)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    TRY(restore_integers(list, reducer->units * subunits, &order));
    for (int64_t i = 0; i < reducer->units * subunits; i++) {
        if (order[i] < 0 || order[i] >= subunits) {
            FAIL(GRAIL_ERROR_FORMAT, "the state records block %lld of a unit of %lld",
                 (long long)order[i], (long long)subunits);
        }
    }
    TRY(reducer_set_order(reducer, subunits, order));
out:
    memory_free(order);
    return status;
}

static grail_status restore_reducer(const json_t *object, const site *s, int64_t kept,
                                    grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    int64_t *values = NULL;
    grail_reducer *reducer = NULL;
    const json_t *labels = json_object_get(object, "labels");
    const json_t *order = json_object_get(object, "subunit_order");
    if (labels != NULL) {
        TRY(restore_integers(labels, s->units, &values));
        TRY(grail_reducer_from_labels(s->units, kept, values, &reducer));
    } else {
        TRY(restore_integers(json_object_get(object, "kept_units"), kept, &values));
        TRY(grail_reducer_from_selection(s->units, kept, values, &reducer));
    }
    if (order != NULL) {
        TRY(restore_order(order, s->subunits, reducer));
    }
    *out = reducer;
    reducer = NULL;
out:
    grail_reducer_free(reducer);
    memory_free(values);
    return status;
}

grail_status state_restore_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    const json_t *record = json_array_get(c->state, (size_t)block);
    const json_t *list = json_object_get(record, "sites");
    size_t next = 0;
    for (int i = 0; i < c->sites->list.count; i++) {
        if (c->sites->list.sites[i].block != block || !site_is_cut(c, i)) {
            continue;
        }
        const json_t *object = json_array_get(list, next++);
        const char *name = json_string_value(json_object_get(object, "site"));
        if (name == NULL || strcmp(name, c->sites->facts[i].name) != 0) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "'%s' does not record site '%s' of block %d; delete it and start anew", c->partial,
                 c->sites->facts[i].name, block);
        }
        TRY(restore_reducer(object, &c->sites->list.sites[i], c->plan.sites[i].kept,
                            &c->results[i].reducer));
        restore_report(object, &c->results[i].report);
    }
out:
    return status;
}

grail_status compression_commit(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(directory_sync(c->partial));
    if (file_exists(c->output)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' appeared during the run; the result is complete in '%s'",
             c->output, c->partial);
    }
    if (rename(c->partial, c->output) != 0) {
        TRY(error_from_errno("cannot rename to", c->output));
    }
    TRY(state_path(c->output, &path));
    if (unlink(path) != 0) {
        TRY(error_from_errno("cannot remove", path));
    }
out:
    memory_free(path);
    return status;
}
