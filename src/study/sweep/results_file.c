#include "study/sweep/results_file.h"

#include "base/file.h"
#include "study/results/line_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RESULTS_MAXIMUM = 1 << 30 };

/* The state of reading a file, with the cells that are looked for in it. */
typedef struct reading {
    const char *path;
    const sweep_recipe *recipe;
    const sweep_cell *cells;
    int64_t count;
    bool *dense_found, *cell_found;
    int64_t line;    /* from 1 */
    int64_t version; /* of the file; 0 before its first line */
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

static grail_status check_header(const reading *r, json_t *line)
{
    grail_status status = GRAIL_OK;
    json_t *now = NULL;
    line_header header = {0};
    const grail_status read = line_header_read(line, &header);
    if (read == GRAIL_ERROR_MEMORY) {
        return read;
    }
    if (read != GRAIL_OK || header.recipe == NULL) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: this version of grail cannot continue these results; choose another file",
             r->path);
    }
    TRY(written_form(r->recipe->document, &now));
    const char *key = first_difference(header.recipe, now);
    if (key != NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "%s: holds results of another recipe (\"%s\" differs); choose another file", r->path,
             key);
    }
out:
    json_decref(now);
    return status;
}

static grail_status note_dense(const reading *r, const char *where, const char *checkpoint)
{
    const int index = sweep_checkpoints_find(&r->recipe->checkpoints, checkpoint);
    if (index < 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"dense\" names a checkpoint that the recipe does not have", where);
    }
    r->dense_found[index] = true;
    return GRAIL_OK;
}

static grail_status note_line(const reading *r, const char *where, const json_t *document)
{
    grail_status status = GRAIL_OK;
    result_line line = {0};
    int64_t index = 0;
    TRY(line_read(where, document, &line));
    if (line.kind == LINE_DENSE) {
        TRY(note_dense(r, where, line.settings.checkpoint));
    } else {
        TRY(line_check_settings(where, document));
        TRY(sweep_cell_of_settings(where, &line.settings, r->recipe, r->cells, r->count, &index));
        r->cell_found[index] = line.kind == LINE_CELL;
    }
out:
    line_fini(&line);
    return status;
}

static grail_status read_line(reading *r, const char *text, size_t size)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    json_t *line = NULL;
    TRY(memory_format(&where, "%s: line %lld", r->path, (long long)r->line));
    TRY(line_parse_text(where, text, size, &r->version, &line));
    if (r->line == 1) {
        TRY(check_header(r, line));
    } else {
        TRY(note_line(r, where, line));
    }
out:
    json_decref(line);
    memory_free(where);
    return status;
}

/* What follows the last line end is a torn line, unless it lost its line end. */
static grail_status read_lines(reading *r, const buffer *text)
{
    size_t offset = 0;
    if (!line_header_begins(text->bytes, text->size)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: not results of a sweep; choose another file",
                         r->path);
    }
    while (offset < text->size) {
        const char *start = (const char *)text->bytes + offset;
        const char *newline = memchr(start, '\n', text->size - offset);
        r->line++;
        if (newline == NULL && line_lost_its_end(start, text->size - offset)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: line %lld: does not end with a line end; it was damaged", r->path,
                             (long long)r->line);
        }
        if (newline == NULL) {
            break;
        }
        CHECK(read_line(r, start, (size_t)(newline - start)));
        offset += (size_t)(newline - start) + 1;
    }
    return GRAIL_OK;
}

static grail_status utc_text(char text[32])
{
    struct tm parts;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &parts) == NULL || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        return error_set(GRAIL_ERROR_INTERNAL, "cannot read the date from the system clock");
    }
    return GRAIL_OK;
}

static grail_status write_header(sweep_results *results, const sweep_recipe *recipe,
                                 const sweep_origin *origin)
{
    grail_status status = GRAIL_OK;
    char started[32];
    buffer text = {0};
    json_t *document = NULL;
    buffer_init(&text, RESULTS_MAXIMUM);
    TRY(utc_text(started));
    const line_header header = {
        .recipe = recipe->document,
        .started = started,
        .cpu = origin->cpu,
        .version = origin->version,
        .threads = origin->threads,
    };
    TRY(line_header_to_json(&header, &document));
    TRY(line_append_text(document, &text));
    TRY(sweep_results_append_text(results, &text));
out:
    buffer_fini(&text);
    json_decref(document);
    return status;
}

static grail_status open_log(const char *path, line_log *log)
{
    line_log_answer answer = LINE_LOG_TAKEN;
    const grail_status status = line_log_open(AT_FDCWD, path, path, O_CREAT, log, &answer);
    if (status == GRAIL_OK && answer == LINE_LOG_TAKEN) {
        return error_set(GRAIL_ERROR_EXISTS, "%s: another sweep is writing to this file", path);
    }
    return status;
}

grail_status sweep_results_open(const char *path, const sweep_recipe *recipe,
                                const sweep_origin *origin, const sweep_cell *cells, int64_t count,
                                bool *dense_found, bool *cell_found, sweep_results *out)
{
    grail_status status = GRAIL_OK;
    sweep_results results = {.log = {.descriptor = -1}};
    reading r = {path, recipe, cells, count, dense_found, cell_found, 0, 0};
    buffer text = {0};
    TRY(open_log(path, &results.log));
    TRY(line_log_read(&results.log, RESULTS_MAXIMUM, &text));
    TRY(read_lines(&r, &text));
    if (results.log.size == 0) {
        TRY(write_header(&results, recipe, origin));
    }
    *out = results;
    results = (sweep_results){.log = {.descriptor = -1}};
out:
    buffer_fini(&text);
    sweep_results_close(&results);
    return status;
}

grail_status sweep_results_look(const char *path, const sweep_recipe *recipe,
                                const sweep_cell *cells, int64_t count, bool *dense_found,
                                bool *cell_found)
{
    grail_status status = GRAIL_OK;
    reading r = {path, recipe, cells, count, dense_found, cell_found, 0, 0};
    buffer text = {0};
    if (file_exists(path)) {
        TRY(file_read(path, RESULTS_MAXIMUM, &text));
        TRY(read_lines(&r, &text));
    }
out:
    buffer_fini(&text);
    return status;
}

grail_status sweep_results_text(const result_line *line, buffer *out)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    TRY(line_to_json(line, &document));
    TRY(line_append_text(document, out));
out:
    json_decref(document);
    return status;
}

grail_status sweep_results_append_text(sweep_results *results, const buffer *text)
{
    return line_log_append(&results->log, text->bytes, text->size);
}

grail_status sweep_results_append(sweep_results *results, const result_line *line)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, RESULTS_MAXIMUM);
    TRY(sweep_results_text(line, &text));
    TRY(sweep_results_append_text(results, &text));
out:
    buffer_fini(&text);
    return status;
}

void sweep_results_close(sweep_results *results)
{
    line_log_fini(&results->log);
}
