/* The lines of a results file: header, limits, and a last line that was cut short. */
#include "study/results/results.h"

#include "base/file.h"

#include <grail/compress.h>

#include <stdio.h>
#include <string.h>

enum { LARGEST_FILE = 256 << 20, LARGEST_LINE = 4 << 20 };

static grail_status add_known_selectors(results *r)
{
    grail_status status = GRAIL_OK;
    while (grail_selector_at(r->selector_count) != NULL) {
        TRY(memory_copy_string(&r->selectors[r->selector_count],
                               grail_selector_at(r->selector_count)));
        r->selector_count++;
    }
out:
    return status;
}

/* The reference of `document` is taken. */
static grail_status add_header(results *r, json_t *document)
{
    grail_status status = GRAIL_OK;
    int64_t version = 0;
    if (!json_is_object(document) || json_object_get(document, "grail_results") == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "expected {\"grail_results\": 1, ...}: these are not the results "
                                 "of a sweep");
    }
    TRY(json_require_integer("line 1", document, "grail_results", &version));
    if (version != 1) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "results of version %lld, this grail reads version 1",
             (long long)version);
    }
    r->header = document;
    document = NULL;
out:
    json_decref(document);
    return status;
}

static grail_status add_line(results *r, const char *text, size_t size, size_t line)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    char where[32];
    snprintf(where, sizeof where, "line %zu", line);
    if (size > LARGEST_LINE) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: %zu bytes, at most %d are read", where, size, LARGEST_LINE);
    }
    status = json_parse(where, text, size, &document);
    if (status == GRAIL_ERROR_FORMAT && line == 1) {
        error_append(": these are not the results of a sweep");
    }
    TRY(status);
    if (line == 1) {
        json_t *header = document;
        document = NULL;
        TRY(add_header(r, header));
    } else {
        TRY(results_add_line(r, document, where, line));
    }
out:
    json_decref(document);
    return status;
}

/* A sweep that was interrupted may have written a part of its last line. A part of a JSON object is
 * never a JSON document, so what parses is whole. */
static bool is_cut_short(const char *text, size_t size)
{
    json_t *document = NULL;
    const grail_status status = json_parse("", text, size, &document);
    json_decref(document);
    return status == GRAIL_ERROR_FORMAT;
}

static grail_status add_lines(results *r, const char *text, size_t size)
{
    grail_status status = GRAIL_OK;
    size_t at = 0;
    for (size_t line = 1; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end == NULL ? size - at : (size_t)(end - (text + at));
        if (end == NULL && line > 1 && length <= LARGEST_LINE && is_cut_short(text + at, length)) {
            r->cut_line = line;
            break;
        }
        TRY(add_line(r, text + at, length, line));
        at += length + 1;
    }
    if (r->header == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "empty: expected the results of a sweep");
    }
out:
    return status;
}

grail_status results_parse(const char *name, const void *bytes, size_t size, results *out)
{
    grail_status status = GRAIL_OK;
    results r = {0};
    if (size > LARGEST_FILE) {
        FAIL(GRAIL_ERROR_FORMAT, "%zu bytes, results of at most %d are read", size, LARGEST_FILE);
    }
    TRY(add_known_selectors(&r));
    TRY(add_lines(&r, bytes, size));
    *out = r;
    r = (results){0};
out:
    if (status != GRAIL_OK) {
        error_prefix("%s", name);
    }
    results_fini(&r);
    return status;
}

grail_status results_read(const char *path, results *out)
{
    file_map map = {0};
    grail_status status = file_map_open(&map, path);
    if (status == GRAIL_OK) {
        status = results_parse(path, map.data, map.size, out);
    }
    file_map_close(&map);
    return status;
}

static void cell_fini(result_cell *cell)
{
    for (int i = 0; i < cell->site_count; i++) {
        memory_free(cell->sites[i].name);
    }
    memory_free(cell->sites);
    memory_free(cell->error);
}

void results_fini(results *r)
{
    for (int i = 0; i < r->cell_count; i++) {
        cell_fini(&r->cells[i]);
    }
    for (int i = 0; i < r->checkpoint_count; i++) {
        memory_free(r->checkpoints[i].name);
        memory_free(r->checkpoints[i].architecture);
    }
    for (int i = 0; i < r->selector_count; i++) {
        memory_free(r->selectors[i]);
    }
    memory_free(r->cells);
    memory_free(r->checkpoints);
    json_decref(r->header);
    *r = (results){0};
}
