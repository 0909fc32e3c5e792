/* The lines of a results file: header, limits, and a last line that was cut short. */
#include "study/results/results.h"

#include "base/file.h"
#include "study/results/line_text.h"

#include <grail/compress.h>

#include <stdio.h>
#include <string.h>

enum { LARGEST_FILE = 256 << 20, LARGEST_LINE = 4 << 20 };

static grail_status add_known_selectors(results *r)
{
    while (grail_selector_at(r->selector_count) != NULL) {
        CHECK(memory_copy_string(&r->selectors[r->selector_count],
                                 grail_selector_at(r->selector_count)));
        r->selector_count++;
    }
    return GRAIL_OK;
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
        FAIL(GRAIL_ERROR_FORMAT, "%s: the file has more than %d checkpoints", where,
             MOST_CHECKPOINTS);
    }
    TRY(memory_copy_string(&copy, name));
    TRY(memory_reserve(&r->checkpoints, (size_t)r->checkpoint_count + 1, sizeof r->checkpoints[0]));
    r->checkpoints[r->checkpoint_count] =
        (result_checkpoint){.name = copy, .measures = line_not_measured()};
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
        return error_set(GRAIL_ERROR_FORMAT, "%s: the file has more than %d selectors", where,
                         MOST_SELECTORS);
    }
    CHECK(memory_copy_string(&r->selectors[r->selector_count], name));
    *out = r->selector_count++;
    return GRAIL_OK;
}

static grail_status add_dense(results *r, const result_line *l, const char *where)
{
    grail_status status = GRAIL_OK;
    char *architecture = NULL;
    char *path = NULL;
    int index = 0;
    TRY(memory_copy_string(&architecture, l->architecture));
    TRY(memory_copy_string(&path, l->path));
    TRY(find_checkpoint(r, where, l->settings.checkpoint, &index));
    result_checkpoint *c = &r->checkpoints[index];
    memory_free(c->architecture);
    memory_free(c->path);
    c->architecture = architecture;
    c->path = path;
    c->measures = l->measures;
    architecture = NULL;
    path = NULL;
out:
    memory_free(architecture);
    memory_free(path);
    return status;
}

/* Takes over the line's sites and trainings. */
static grail_status add_cell(results *r, result_line *l, const char *where, size_t line)
{
    result_cell cell = {.settings = l->settings, .line = line, .measures = l->measures};
    if (r->cell_count == MOST_CELLS) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: the file has more than %d cells", where,
                         MOST_CELLS);
    }
    CHECK(find_checkpoint(r, where, l->settings.checkpoint, &cell.checkpoint));
    CHECK(find_selector(r, where, l->settings.selector, &cell.selector));
    cell.settings.checkpoint = r->checkpoints[cell.checkpoint].name;
    cell.settings.selector = r->selectors[cell.selector];
    CHECK(memory_reserve(&r->cells, (size_t)r->cell_count + 1, sizeof r->cells[0]));
    if (l->kind == LINE_FAILURE) {
        CHECK(memory_copy_string(&cell.error, l->error));
    }
    cell.sites = l->sites;
    cell.site_count = l->site_count;
    l->sites = NULL;
    l->site_count = 0;
    cell.healings = l->healings;
    cell.healing_count = l->healing_count;
    l->healings = NULL;
    l->healing_count = 0;
    r->cells[r->cell_count++] = cell;
    return GRAIL_OK;
}

/* A line after the header. */
static grail_status add_result(results *r, const json_t *document, const char *where, size_t line)
{
    grail_status status = GRAIL_OK;
    result_line l = {0};
    TRY(line_read(where, document, &l));
    TRY(l.kind == LINE_DENSE ? add_dense(r, &l, where) : add_cell(r, &l, where, line));
out:
    line_fini(&l);
    return status;
}

/* A first line that fails to parse although it begins as one of results does. */
static bool is_damaged_header(const char *text, size_t size)
{
    return size >= sizeof "{\"grail_results\":1}" - 1 && line_header_begins(text, size);
}

static grail_status add_line(results *r, const char *text, size_t size, size_t line,
                             int64_t *version)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    char where[32];
    snprintf(where, sizeof where, "line %zu", line);
    if (size > LARGEST_LINE) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: the line has %zu bytes, expected at most %d", where, size,
             LARGEST_LINE);
    }
    status = line_parse_text(where, text, size, version, &document);
    if (status == GRAIL_ERROR_FORMAT && line == 1 && !is_damaged_header(text, size)) {
        error_append(": these are not the results of a sweep");
    }
    TRY(status);
    if (line == 1) {
        TRY(line_header_read(document, &r->header));
        r->document = json_incref(document);
    } else {
        TRY(add_result(r, document, where, line));
    }
out:
    json_decref(document);
    return status;
}

/* A sweep that was interrupted may have written a part of its last line. A part of a JSON object is
 * never a JSON document, so a line that parses is complete. */
static bool is_cut_short(const char *text, size_t size)
{
    json_t *document = NULL;
    if (line_lost_its_end(text, size)) {
        return false;
    }
    const grail_status status = json_parse("", text, size, &document);
    json_decref(document);
    return status == GRAIL_ERROR_FORMAT;
}

static grail_status add_lines(results *r, const char *text, size_t size)
{
    size_t at = 0;
    int64_t version = 0;
    for (size_t line = 1; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end == NULL ? size - at : (size_t)(end - (text + at));
        if (end == NULL && line > 1 && length <= LARGEST_LINE && is_cut_short(text + at, length)) {
            r->cut_line = line;
            break;
        }
        CHECK(add_line(r, text + at, length, line, &version));
        at += length + 1;
    }
    if (r->document == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "the file is empty, expected the results of a sweep");
    }
    return GRAIL_OK;
}

grail_status results_parse(const char *name, const void *bytes, size_t size, results *out)
{
    grail_status status = GRAIL_OK;
    results r = {0};
    if (size > LARGEST_FILE) {
        FAIL(GRAIL_ERROR_FORMAT, "the file has %zu bytes, expected at most %d", size, LARGEST_FILE);
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
    line_sites_free(cell->sites, cell->site_count);
    memory_free(cell->healings);
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
        memory_free(r->checkpoints[i].path);
    }
    for (int i = 0; i < r->selector_count; i++) {
        memory_free(r->selectors[i]);
    }
    memory_free(r->cells);
    memory_free(r->checkpoints);
    json_decref(r->document);
    *r = (results){0};
}
