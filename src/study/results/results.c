/* The lines of a results file: header, limits, and a last line that was cut short. */
#include "study/results/results.h"

#include "base/file.h"
#include "base/names.h"
#include "study/results/line_fields.h"
#include "study/results/line_text.h"

#include <grail/compress.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LARGEST_FILE = 256 << 20, LARGEST_LINE = 4 << 20 };

static void checkpoint_fini(result_checkpoint *c)
{
    memory_free(c->name);
    memory_free(c->network);
    memory_free(c->evaluation);
    memory_free(c->architecture);
    memory_free(c->path);
    memory_free(c->data_sha256);
    memory_free(c->outcomes);
    *c = (result_checkpoint){0};
}

/* The index of the first entry of a network, or -1. */
static int first_of_network(const results *r, const char *network)
{
    for (int i = 0; i < r->checkpoint_count; i++) {
        if (strcmp(r->checkpoints[i].network, network) == 0) {
            return i;
        }
    }
    return -1;
}

static grail_status name_checkpoint(const char *network, const char *evaluation,
                                    result_checkpoint *c)
{
    CHECK(memory_copy_string(&c->network, network));
    if (evaluation == NULL) {
        return memory_copy_string(&c->name, network);
    }
    CHECK(memory_copy_string(&c->evaluation, evaluation));
    return memory_format(&c->name, "%s on %s", network, evaluation);
}

static grail_status find_checkpoint(results *r, const char *where, const char *network,
                                    const char *evaluation, int *out)
{
    grail_status status = GRAIL_OK;
    result_checkpoint made = {.measures = line_not_measured()};
    for (int i = r->checkpoint_count; i-- > 0;) {
        if (strcmp(r->checkpoints[i].network, network) == 0 &&
            names_equal(r->checkpoints[i].evaluation, evaluation)) {
            *out = i;
            return GRAIL_OK;
        }
    }
    if (r->checkpoint_count == MOST_CHECKPOINTS) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: the file has more than %d checkpoints", where,
             MOST_CHECKPOINTS);
    }
    made.is_further = first_of_network(r, network) >= 0;
    TRY(name_checkpoint(network, evaluation, &made));
    TRY(memory_reserve(&r->checkpoints, (size_t)r->checkpoint_count + 1, sizeof r->checkpoints[0]));
    r->checkpoints[r->checkpoint_count] = made;
    made = (result_checkpoint){0};
    *out = r->checkpoint_count++;
out:
    checkpoint_fini(&made);
    return status;
}

static void setting_fini(result_setting *s)
{
    memory_free(s->text);
    memory_free(s->calibration);
    memory_free(s->choices);
    *s = (result_setting){0};
}

static grail_status make_setting(const line_settings *s, result_setting *out)
{
    const bool both = s->calibration != NULL && s->choices != NULL;
    if (s->calibration != NULL) {
        CHECK(memory_copy_string(&out->calibration, s->calibration));
    }
    if (s->choices != NULL) {
        CHECK(memory_copy_string(&out->choices, s->choices));
    }
    return memory_format(&out->text, "%s%s%s%s", s->calibration == NULL ? "" : "of ",
                         s->calibration == NULL ? "" : s->calibration, both ? ", " : "",
                         s->choices == NULL ? "" : s->choices);
}

static grail_status find_setting(results *r, const line_settings *s, int *out)
{
    grail_status status = GRAIL_OK;
    result_setting made = {0};
    for (*out = 0; *out < r->setting_count; (*out)++) {
        if (names_equal(r->settings[*out].calibration, s->calibration) &&
            names_equal(r->settings[*out].choices, s->choices)) {
            return GRAIL_OK;
        }
    }
    TRY(make_setting(s, &made));
    TRY(memory_reserve(&r->settings, (size_t)r->setting_count + 1, sizeof r->settings[0]));
    r->settings[r->setting_count++] = made;
    made = (result_setting){0};
out:
    setting_fini(&made);
    return status;
}

static grail_status add_known_names(results *r)
{
    int usual = 0;
    CHECK(find_setting(r, &(line_settings){0}, &usual));
    while (grail_selector_at(r->selector_count) != NULL) {
        CHECK(memory_copy_string(&r->selectors[r->selector_count],
                                 grail_selector_at(r->selector_count)));
        r->selector_count++;
    }
    return GRAIL_OK;
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

/* -- lines ------------------------------------------------------------------------------------- */

/* Numbers on different data under one name cannot be compared. */
static grail_status check_data(result_checkpoint *c, const line_evaluation *e, const char *where,
                               size_t line)
{
    const line_measures *m = &e->measures;
    if (e->data_sha256 == NULL) {
        return GRAIL_OK;
    }
    if (c->line == 0) {
        c->line = line;
        c->windows = m->windows;
        c->context = m->context;
        return memory_copy_string(&c->data_sha256, e->data_sha256);
    }
    const bool same_windows =
        isnan(m->windows) || (c->windows == m->windows && c->context == m->context);
    if (strcmp(c->data_sha256, e->data_sha256) == 0 && same_windows) {
        return GRAIL_OK;
    }
    return error_set(
        GRAIL_ERROR_FORMAT,
        "%s: \"%s\" was measured on other data, or on other windows of it, than line "
        "%zu says; measure all of them again on the same data, or give the evaluations "
        "names of their own",
        where, c->name, c->line);
}

/* The line's measures, with the accuracy or perplexity of one evaluation. */
static line_measures measures_on(const result_line *l, const line_evaluation *e)
{
    line_measures m = e->measures;
    m.latency = l->measures.latency;
    m.parameters = l->measures.parameters;
    m.macs = l->measures.macs;
    memcpy(m.seconds, l->measures.seconds, sizeof m.seconds);
    m.peak_bytes = l->measures.peak_bytes;
    return m;
}

/* What belongs to the line as a whole counts for its first evaluation. */
static void leave_out_costs(line_measures *m)
{
    for (int i = 0; i < SECONDS_KINDS; i++) {
        m->seconds[i] = NOT_MEASURED;
    }
    m->peak_bytes = NOT_MEASURED;
}

static grail_status add_dense_on(results *r, const result_line *l, line_evaluation *e,
                                 const char *where, size_t line)
{
    grail_status status = GRAIL_OK;
    char *architecture = NULL;
    char *path = NULL;
    int index = 0;
    TRY(memory_copy_string(&architecture, l->architecture));
    TRY(memory_copy_string(&path, l->path));
    TRY(find_checkpoint(r, where, l->settings.checkpoint, e->name, &index));
    result_checkpoint *c = &r->checkpoints[index];
    TRY(check_data(c, e, where, line));
    memory_free(c->architecture);
    memory_free(c->path);
    memory_free(c->outcomes);
    c->architecture = architecture;
    c->path = path;
    c->measures = measures_on(l, e);
    c->outcomes = e->outcomes;
    c->outcome_count = e->outcome_count;
    e->outcomes = NULL;
    architecture = NULL;
    path = NULL;
out:
    memory_free(architecture);
    memory_free(path);
    return status;
}

static grail_status add_dense(results *r, result_line *l, const char *where, size_t line)
{
    for (int i = 0; i < l->evaluation_count; i++) {
        CHECK(add_dense_on(r, l, &l->evaluations[i], where, line));
    }
    return GRAIL_OK;
}

/* A cell of the line; its texts are not those of the line any more. */
static grail_status begin_cell(results *r, const result_line *l, const char *where, size_t line,
                               result_cell *out)
{
    *out = (result_cell){.settings = l->settings, .line = line, .measures = l->measures};
    if (r->cell_count == MOST_CELLS) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: the file has more than %d cells", where,
                         MOST_CELLS);
    }
    CHECK(find_selector(r, where, l->settings.selector, &out->selector));
    CHECK(find_setting(r, &l->settings, &out->setting));
    out->settings.selector = r->selectors[out->selector];
    out->settings.calibration = r->settings[out->setting].calibration;
    out->settings.choices = r->settings[out->setting].choices;
    return memory_reserve(&r->cells, (size_t)r->cell_count + 1, sizeof r->cells[0]);
}

static void end_cell(results *r, result_cell *cell, int checkpoint)
{
    cell->checkpoint = checkpoint;
    cell->settings.checkpoint = r->checkpoints[checkpoint].name;
    r->cells[r->cell_count++] = *cell;
}

/* Takes over what the line as a whole has, for its first evaluation. */
static void take_whole(result_line *l, result_cell *cell)
{
    cell->sites = l->sites;
    cell->site_count = l->site_count;
    l->sites = NULL;
    l->site_count = 0;
    cell->healings = l->healings;
    cell->healing_count = l->healing_count;
    l->healings = NULL;
    l->healing_count = 0;
}

static grail_status add_cell_on(results *r, result_line *l, int number, const char *where,
                                size_t line)
{
    line_evaluation *e = &l->evaluations[number];
    result_cell cell = {0};
    int checkpoint = 0;
    CHECK(begin_cell(r, l, where, line, &cell));
    CHECK(find_checkpoint(r, where, l->settings.checkpoint, e->name, &checkpoint));
    CHECK(check_data(&r->checkpoints[checkpoint], e, where, line));
    cell.measures = measures_on(l, e);
    cell.is_further = number > 0;
    cell.outcomes = e->outcomes;
    cell.outcome_count = e->outcome_count;
    e->outcomes = NULL;
    if (cell.is_further) {
        leave_out_costs(&cell.measures);
    } else {
        take_whole(l, &cell);
    }
    end_cell(r, &cell, checkpoint);
    return GRAIL_OK;
}

/* A failure stands in all evaluations of its network, so that a later line of the cell takes its
 * place there. */
static grail_status add_failure(results *r, const result_line *l, const char *where, size_t line)
{
    int first = first_of_network(r, l->settings.checkpoint);
    if (first < 0) {
        CHECK(find_checkpoint(r, where, l->settings.checkpoint, NULL, &first));
    }
    for (int i = first; i < r->checkpoint_count; i++) {
        result_cell cell = {0};
        if (strcmp(r->checkpoints[i].network, l->settings.checkpoint) != 0) {
            continue;
        }
        CHECK(begin_cell(r, l, where, line, &cell));
        cell.is_further = i > first;
        CHECK(memory_copy_string(&cell.error, l->error));
        end_cell(r, &cell, i);
    }
    return GRAIL_OK;
}

static grail_status add_cell(results *r, result_line *l, const char *where, size_t line)
{
    for (int i = 0; i < l->evaluation_count; i++) {
        CHECK(add_cell_on(r, l, i, where, line));
    }
    return GRAIL_OK;
}

/* A line after the header. */
static grail_status add_result(results *r, const json_t *document, const char *where, size_t line)
{
    grail_status status = GRAIL_OK;
    result_line l = {0};
    TRY(line_read(where, document, &l));
    TRY(l.kind == LINE_DENSE     ? add_dense(r, &l, where, line)
        : l.kind == LINE_FAILURE ? add_failure(r, &l, where, line)
                                 : add_cell(r, &l, where, line));
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
    TRY(add_known_names(&r));
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
    memory_free(cell->outcomes);
    memory_free(cell->error);
}

void results_fini(results *r)
{
    for (int i = 0; i < r->cell_count; i++) {
        cell_fini(&r->cells[i]);
    }
    for (int i = 0; i < r->checkpoint_count; i++) {
        checkpoint_fini(&r->checkpoints[i]);
    }
    for (int i = 0; i < r->selector_count; i++) {
        memory_free(r->selectors[i]);
    }
    for (int i = 0; i < r->setting_count; i++) {
        setting_fini(&r->settings[i]);
    }
    memory_free(r->settings);
    memory_free(r->cells);
    memory_free(r->checkpoints);
    json_decref(r->document);
    *r = (results){0};
}
