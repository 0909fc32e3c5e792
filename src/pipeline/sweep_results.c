#include "pipeline/sweep_results.h"

#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RESULTS_MAXIMUM = 1 << 30 };

static const char beginning[] = "{\"grail_results\":";

/* What is read of a file, and what is looked for in it. */
typedef struct reading {
    const char *path;
    const sweep_recipe *recipe;
    const sweep_cell *cells;
    int64_t count;
    bool *dense_found, *cell_found;
    int64_t line; /* from 1 */
} reading;

/* The document as it reads back from a results file, so that both can be compared. */
static grail_status written_form(const json_t *document, json_t **out)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, RESULTS_MAXIMUM);
    TRY(json_append_line(document, &text));
    TRY(json_parse("recipe", text.bytes, text.size, out));
out:
    buffer_fini(&text);
    return status;
}

/* First key in which two recipes differ, or NULL. */
static const char *first_difference(json_t *then, json_t *now)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (now, key, value) {
        if (!json_equal(value, json_object_get(then, key))) {
            return key;
        }
    }
    json_object_foreach (then, key, value) {
        if (json_object_get(now, key) == NULL) {
            return key;
        }
    }
    return NULL;
}

static grail_status check_header(const reading *r, const json_t *line)
{
    grail_status status = GRAIL_OK;
    json_t *now = NULL;
    json_t *then = json_object_get(line, "recipe");
    if (json_integer_value(json_object_get(line, "grail_results")) != 1 || !json_is_object(then)) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: not results of a sweep that this version can continue; "
             "choose another file",
             r->path);
    }
    TRY(written_form(r->recipe->document, &now));
    const char *key = first_difference(then, now);
    if (key != NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "%s: holds results of another recipe (\"%s\" differs); choose another file", r->path,
             key);
    }
out:
    json_decref(now);
    return status;
}

static grail_status note_dense(const reading *r, const char *where, const json_t *dense)
{
    const char *name = json_string_value(json_object_get(dense, "checkpoint"));
    for (int i = 0; name != NULL && i < r->recipe->checkpoint_count; i++) {
        if (strcmp(r->recipe->checkpoints[i].name, name) == 0) {
            r->dense_found[i] = true;
            return GRAIL_OK;
        }
    }
    return error_set(GRAIL_ERROR_FORMAT, "%s: \"dense\" is of no checkpoint of the recipe", where);
}

static grail_status note_line(const reading *r, const json_t *line)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    sweep_cell cell = {0};
    json_t *object = json_object_get(line, "cell");
    const json_t *dense = json_object_get(line, "dense");
    TRY(memory_format(&where, "%s: line %lld", r->path, (long long)r->line));
    if (dense != NULL) {
        TRY(note_dense(r, where, dense));
    } else {
        TRY(sweep_cell_from_json(where, object, r->recipe, &cell));
        const int64_t index = sweep_cell_find(r->cells, r->count, &cell);
        if (index < 0) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: no cell of the recipe", where);
        }
        r->cell_found[index] = json_object_get(line, "error") == NULL;
    }
out:
    memory_free(where);
    return status;
}

static grail_status read_line(reading *r, const unsigned char *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    json_t *line = NULL;
    TRY(json_parse(r->path, bytes, size, &line));
    if (r->line == 1) {
        TRY(check_header(r, line));
    } else {
        TRY(note_line(r, line));
    }
out:
    json_decref(line);
    return status;
}

/* *whole gets the bytes of all finished lines. */
static grail_status read_lines(reading *r, const buffer *text, uint64_t *whole)
{
    grail_status status = GRAIL_OK;
    size_t offset = 0;
    const size_t compared = text->size < strlen(beginning) ? text->size : strlen(beginning);
    if (compared > 0 && memcmp(text->bytes, beginning, compared) != 0) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: not results of a sweep; choose another file", r->path);
    }
    while (offset < text->size) {
        const unsigned char *start = text->bytes + offset;
        const unsigned char *newline = memchr(start, '\n', text->size - offset);
        if (newline == NULL) {
            break;
        }
        r->line++;
        TRY(read_line(r, start, (size_t)(newline - start)));
        offset += (size_t)(newline - start) + 1;
    }
    *whole = offset;
out:
    return status;
}

static grail_status utc_text(char text[32])
{
    struct tm parts;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &parts) == NULL || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        return error_set(GRAIL_ERROR_INTERNAL, "the clock shows no date");
    }
    return GRAIL_OK;
}

static grail_status write_header(sweep_results *results, const sweep_recipe *recipe,
                                 const sweep_origin *origin)
{
    grail_status status = GRAIL_OK;
    char started[32];
    json_t *line = json_object();
    TRY(utc_text(started));
    TRY(json_put(line, "grail_results", json_integer(1)));
    TRY(json_put(line, "recipe", json_incref(recipe->document)));
    TRY(json_put(line, "started", json_text(started)));
    TRY(json_put(
        line, "machine",
        json_pack("{s:o, s:i}", "cpu", json_text(origin->cpu), "threads", origin->threads)));
    TRY(json_put(line, "version", json_text(origin->version)));
    TRY(sweep_results_append(results, line));
out:
    json_decref(line);
    return status;
}

static grail_status open_file(const char *path, sweep_results *out)
{
    grail_status status = GRAIL_OK;
    bool taken = false;
    TRY(memory_copy_string(&out->path, path));
    out->descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (out->descriptor < 0) {
        TRY(error_from_errno("cannot open", path));
    }
    TRY(file_lock(out->descriptor, path, &taken));
    if (taken) {
        FAIL(GRAIL_ERROR_EXISTS, "%s: another sweep is writing to it", path);
    }
out:
    return status;
}

static grail_status read_file(reading *r, uint64_t *whole)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    TRY(file_read(r->path, RESULTS_MAXIMUM, &text));
    TRY(read_lines(r, &text, whole));
out:
    buffer_fini(&text);
    return status;
}

grail_status sweep_results_open(const char *path, const sweep_recipe *recipe,
                                const sweep_origin *origin, const sweep_cell *cells, int64_t count,
                                bool *dense_found, bool *cell_found, sweep_results *out)
{
    grail_status status = GRAIL_OK;
    sweep_results results = {.descriptor = -1};
    reading r = {path, recipe, cells, count, dense_found, cell_found, 0};
    TRY(open_file(path, &results));
    TRY(read_file(&r, &results.size));
    if (ftruncate(results.descriptor, (off_t)results.size) != 0) {
        TRY(error_from_errno("cannot shorten", path));
    }
    if (results.size == 0) {
        TRY(write_header(&results, recipe, origin));
    }
    *out = results;
    results = (sweep_results){.descriptor = -1};
out:
    sweep_results_close(&results);
    return status;
}

grail_status sweep_results_look(const char *path, const sweep_recipe *recipe,
                                const sweep_cell *cells, int64_t count, bool *dense_found,
                                bool *cell_found)
{
    uint64_t whole = 0;
    reading r = {path, recipe, cells, count, dense_found, cell_found, 0};
    return file_exists(path) ? read_file(&r, &whole) : GRAIL_OK;
}

grail_status sweep_results_append(sweep_results *results, const json_t *line)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, RESULTS_MAXIMUM);
    TRY(json_append_line(line, &text));
    status =
        file_write_at(results->descriptor, results->path, text.bytes, text.size, results->size);
    if (status == GRAIL_OK && fdatasync(results->descriptor) != 0) {
        status = error_from_errno("cannot flush", results->path);
    }
    if (status != GRAIL_OK) { /* the error is told either way: a torn line is cut when continued */
        const int ignored = ftruncate(results->descriptor, (off_t)results->size);
        (void)ignored;
        goto out;
    }
    results->size += text.size;
out:
    buffer_fini(&text);
    return status;
}

void sweep_results_close(sweep_results *results)
{
    if (results->path != NULL && results->descriptor >= 0) {
        close(results->descriptor);
    }
    memory_free(results->path);
    *results = (sweep_results){.descriptor = -1};
}
