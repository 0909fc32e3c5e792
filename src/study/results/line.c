#include "study/results/line.h"

#include "base/options.h"
#include "study/fields.h"
#include "study/results/line_evaluations.h"
#include "study/results/line_fields.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 2, OLDEST_VERSION = 1 };

static const char beginning[] = "{\"grail_results\":";
static const char *const setting_keys[] = {"checkpoint", "selector",    "sparsity", "compensate",
                                           "repair",     "heal",        "samples",  "seed",
                                           "loop",       "calibration", "choices",  NULL};

static const grail_option settings_fields[] = {
    {OPTION_FIELD(line_settings, samples), .type = GRAIL_OPTION_INTEGER, .key = "samples"},
    {OPTION_FIELD(line_settings, seed), .type = GRAIL_OPTION_INTEGER, .key = "seed"},
    {OPTION_FIELD(line_settings, open_loop), .type = GRAIL_OPTION_CHOICE, .key = "loop",
     .words = OPTION_WORDS("closed", "open")},
    {0},
};

#define SITE(member) offsetof(line_site, member)
#define HEALING(member) offsetof(line_healing, member)

/* Written where it was measured: other lines are as they were before. */
static const field latency_fields[] = {
    {"latency", MEASURE(latency), FORM_ROUNDED, 0.0, LARGEST},
    {0},
};

static const field size_fields[] = {
    {"parameters", MEASURE(parameters), FORM_COUNT, 0.0, LARGEST},
    {"macs", MEASURE(macs), FORM_COUNT, 0.0, LARGEST},
    {0},
};

static const field seconds_fields[] = {
    {"calibrate", MEASURE(seconds[SECONDS_CALIBRATE]), FORM_ROUNDED, 0.0, LARGEST},
    {"compensate", MEASURE(seconds[SECONDS_COMPENSATE]), FORM_ROUNDED, 0.0, LARGEST},
    {"evaluate", MEASURE(seconds[SECONDS_EVALUATE]), FORM_ROUNDED, 0.0, LARGEST},
    {"total", MEASURE(seconds[SECONDS_TOTAL]), FORM_ROUNDED, 0.0, LARGEST},
    {0},
};

/* A dense network has these: its evaluation alone takes time. */
static const field dense_seconds_fields[] = {
    {"evaluate", MEASURE(seconds[SECONDS_EVALUATE]), FORM_ROUNDED, 0.0, LARGEST},
    {0},
};

/* Cells that are not healed lack it. */
static const field heal_seconds_fields[] = {
    {"heal", MEASURE(seconds[SECONDS_HEAL]), FORM_ROUNDED, 0.0, LARGEST},
    {0},
};

static const field memory_fields[] = {
    {"peak_bytes", MEASURE(peak_bytes), FORM_COUNT, 0.0, LARGEST},
    {0},
};

static const field site_fields[] = {
    {"units", SITE(units), FORM_COUNT, 0.0, LARGEST},
    {"kept", SITE(kept), FORM_COUNT, 0.0, LARGEST},
    {"fit_before", SITE(fit_before), FORM_ROUNDED, -HUGE_VAL, HUGE_VAL},
    {"fit_after", SITE(fit_after), FORM_ROUNDED, -HUGE_VAL, HUGE_VAL},
    {"held_before", SITE(held_before), FORM_ROUNDED, -HUGE_VAL, HUGE_VAL},
    {"held_after", SITE(held_after), FORM_ROUNDED, -HUGE_VAL, HUGE_VAL},
    {0},
};

static const field healing_fields[] = {
    {"block", HEALING(block), FORM_COUNT, 0.0, LARGEST},
    {"steps", HEALING(steps), FORM_COUNT, 0.0, LARGEST},
    {"held_loss_before", HEALING(held_before), FORM_ROUNDED, 0.0, HUGE_VAL},
    {"held_loss_after", HEALING(held_after), FORM_ROUNDED, 0.0, HUGE_VAL},
    {"seconds", HEALING(seconds), FORM_ROUNDED, 0.0, LARGEST},
    {0},
};

/* -- the header ---------------------------------------------------------------------------------
 */

grail_status line_header_to_json(const line_header *header, json_t **out)
{
    *out = json_pack("{s:i, s:O, s:o, s:{s:o, s:I}, s:o}", "grail_results", VERSION, "recipe",
                     header->recipe, "started", json_text(header->started), "machine", "cpu",
                     json_text(header->cpu), "threads", (json_int_t)header->threads, "version",
                     json_text(header->version));
    return *out != NULL ? GRAIL_OK
                        : error_set(GRAIL_ERROR_MEMORY, "out of memory while building JSON");
}

grail_status line_header_read(json_t *document, line_header *out)
{
    int64_t version = 0;
    if (!json_is_object(document) || json_object_get(document, "grail_results") == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "expected {\"grail_results\": %d, ...}: these are not the results "
                         "of a sweep",
                         VERSION);
    }
    CHECK(json_require_integer("line 1", document, "grail_results", &version));
    if (version < OLDEST_VERSION || version > VERSION) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the results have version %lld, but this grail reads versions %d to %d",
                         (long long)version, OLDEST_VERSION, VERSION);
    }
    json_t *recipe = json_object_get(document, "recipe");
    const json_t *machine = json_object_get(document, "machine");
    *out = (line_header){
        .recipe = json_is_object(recipe) ? recipe : NULL,
        .started = json_string_value(json_object_get(document, "started")),
        .cpu = json_string_value(json_object_get(machine, "cpu")),
        .version = json_string_value(json_object_get(document, "version")),
        .threads = json_integer_value(json_object_get(machine, "threads")),
    };
    return GRAIL_OK;
}

bool line_header_begins(const void *bytes, size_t size)
{
    const size_t most = sizeof beginning - 1;
    return size == 0 || memcmp(bytes, beginning, size < most ? size : most) == 0;
}

/* -- writing ------------------------------------------------------------------------------------
 */

static grail_status put_text(json_t *object, const char *key, const char *text)
{
    return json_put(object, key, json_text(text));
}

/* Lines of other cells are as they were before there was healing. */
static bool is_healed(const line_settings *s)
{
    return variant_heal(s->variant) != HEAL_NONE;
}

static grail_status write_settings(const line_settings *s, json_t *object)
{
    CHECK(put_text(object, "checkpoint", s->checkpoint));
    CHECK(put_text(object, "selector", s->selector));
    CHECK(json_put(object, "sparsity", json_real(s->sparsity)));
    CHECK(put_text(object, "compensate", variant_compensation(s->variant)));
    CHECK(json_put(object, "repair", json_boolean(variant_repairs(s->variant))));
    if (is_healed(s)) {
        CHECK(put_text(object, "heal", heal_kind_name(variant_heal(s->variant))));
    }
    CHECK(options_to_json(settings_fields, s, object));
    if (s->calibration != NULL) {
        CHECK(put_text(object, "calibration", s->calibration));
    }
    return s->choices == NULL ? GRAIL_OK : put_text(object, "choices", s->choices);
}

static grail_status write_dense(const result_line *l, json_t *object)
{
    CHECK(put_text(object, "checkpoint", l->settings.checkpoint));
    CHECK(put_text(object, "path", l->path));
    CHECK(put_text(object, "architecture", l->architecture));
    CHECK(write_fields(size_fields, &l->measures, object));
    CHECK(write_evaluations(l, object));
    CHECK(write_measured(latency_fields, &l->measures, object));
    if (isfinite(l->measures.seconds[SECONDS_EVALUATE])) {
        CHECK(json_put(object, "seconds", json_object()));
        CHECK(write_fields(dense_seconds_fields, &l->measures, json_object_get(object, "seconds")));
    }
    return GRAIL_OK;
}

static grail_status write_site(const line_site *site, json_t *list)
{
    json_t *object = json_object();
    CHECK(json_push(list, object));
    CHECK(put_text(object, "name", site->name));
    CHECK(put_text(object, "kind", site->kind));
    return write_fields(site_fields, site, object);
}

static grail_status write_healings(const result_line *l, json_t *line)
{
    json_t *list = json_array();
    CHECK(json_put(line, "healed", list));
    for (int i = 0; i < l->healing_count; i++) {
        json_t *object = json_object();
        CHECK(json_push(list, object));
        CHECK(write_fields(healing_fields, &l->healings[i], object));
    }
    return GRAIL_OK;
}

static grail_status write_measures(const result_line *l, json_t *line)
{
    const bool healed = is_healed(&l->settings);
    CHECK(write_evaluations(l, line));
    CHECK(write_measured(latency_fields, &l->measures, line));
    CHECK(write_fields(size_fields, &l->measures, line));
    CHECK(json_put(line, "seconds", json_object()));
    json_t *seconds = json_object_get(line, "seconds");
    CHECK(write_fields(seconds_fields, &l->measures, seconds));
    if (healed) {
        CHECK(write_fields(heal_seconds_fields, &l->measures, seconds));
    }
    CHECK(write_fields(memory_fields, &l->measures, line));
    if (healed) {
        CHECK(write_healings(l, line));
    }
    CHECK(json_put(line, "sites", json_array()));
    for (int i = 0; i < l->site_count; i++) {
        CHECK(write_site(&l->sites[i], json_object_get(line, "sites")));
    }
    return GRAIL_OK;
}

grail_status line_to_json(const result_line *l, json_t **out)
{
    grail_status status = GRAIL_OK;
    const char *key = l->kind == LINE_DENSE ? "dense" : "cell";
    json_t *line = json_object();
    TRY(json_put(line, key, json_object()));
    json_t *inner = json_object_get(line, key);
    TRY(l->kind == LINE_DENSE ? write_dense(l, inner) : write_settings(&l->settings, inner));
    if (l->kind == LINE_FAILURE) {
        TRY(put_text(line, "error", l->error));
    } else if (l->kind == LINE_CELL) {
        TRY(write_measures(l, line));
    }
    *out = line;
    line = NULL;
out:
    json_decref(line);
    return status;
}

/* -- reading ------------------------------------------------------------------------------------
 */

static grail_status read_variant(const char *where, const json_t *object, variant *out)
{
    const char *name = NULL;
    const char *heal_name = NULL;
    bool repairs = false;
    CHECK(field_text(where, object, "compensate", &name));
    CHECK(json_get_boolean(where, object, "repair", false, &repairs));
    CHECK(json_get_string(where, object, "heal", heal_kind_name(HEAL_NONE), &heal_name));
    const int form = variant_form_of_parts(name, repairs);
    const int heal = heal_kind_find(heal_name);
    if (form < 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"compensate\" is \"%s\", expected none, grail, full or own", where,
                         name);
    }
    if (heal < 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"heal\" is \"%s\", expected none, block, model or block,model",
                         where, heal_name);
    }
    *out = variant_healed((variant)form, (heal_kind)heal);
    return GRAIL_OK;
}

static grail_status read_settings(const char *where, const json_t *object, line_settings *out)
{
    CHECK(field_text(where, object, "checkpoint", &out->checkpoint));
    CHECK(field_text(where, object, "selector", &out->selector));
    CHECK(json_get_real(where, object, "sparsity", NOT_MEASURED, &out->sparsity));
    if (isnan(out->sparsity)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"sparsity\" is missing, expected a number in [0, 1)", where);
    }
    if (!(out->sparsity >= 0.0 && out->sparsity < 1.0)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"sparsity\" is %g, expected a number in [0, 1)",
                         where, out->sparsity);
    }
    CHECK(read_variant(where, object, &out->variant));
    CHECK(json_get_string(where, object, "calibration", NULL, &out->calibration));
    CHECK(json_get_string(where, object, "choices", NULL, &out->choices));
    return options_from_json(where, object, settings_fields, out);
}

/* *found is NULL where there is none. */
static grail_status find_part(const char *where, const json_t *document, const char *key,
                              json_type type, const json_t **found)
{
    const json_t *part = json_object_get(document, key);
    *found = part != NULL && json_typeof(part) == type ? part : NULL;
    if (part != NULL && *found == NULL && !json_is_null(part)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an %s", where, key,
                         type == JSON_OBJECT ? "object" : "array");
    }
    return GRAIL_OK;
}

static grail_status read_measures(const char *where, const json_t *document, result_line *line)
{
    const json_t *seconds = NULL;
    line_measures *out = &line->measures;
    CHECK(find_part(where, document, "seconds", JSON_OBJECT, &seconds));
    CHECK(read_evaluations(where, document, line));
    CHECK(read_fields(where, document, latency_fields, out));
    CHECK(read_fields(where, document, size_fields, out));
    CHECK(read_fields(where, seconds, seconds_fields, out));
    CHECK(read_fields(where, seconds, heal_seconds_fields, out));
    return read_fields(where, document, memory_fields, out);
}

static grail_status read_dense(const char *where, const json_t *object, result_line *out)
{
    CHECK(field_text(where, object, "checkpoint", &out->settings.checkpoint));
    CHECK(json_get_string(where, object, "path", "", &out->path));
    CHECK(json_get_string(where, object, "architecture", "", &out->architecture));
    return read_measures(where, object, out);
}

static grail_status read_site(const char *where, const json_t *object, line_site *out)
{
    const char *name = NULL;
    CHECK(field_text(where, object, "name", &name));
    CHECK(read_fields(where, object, site_fields, out));
    return memory_copy_string(&out->name, name);
}

static grail_status read_sites(const char *where, const json_t *document, result_line *out)
{
    const json_t *list = NULL;
    CHECK(find_part(where, document, "sites", JSON_ARRAY, &list));
    CHECK(memory_new(&out->sites, json_array_size(list), sizeof out->sites[0]));
    for (size_t i = 0; i < json_array_size(list); i++) {
        CHECK(read_site(where, json_array_get(list, i), &out->sites[i]));
        out->site_count++;
    }
    return GRAIL_OK;
}

static grail_status read_healings(const char *where, const json_t *document, result_line *out)
{
    const json_t *list = NULL;
    CHECK(find_part(where, document, "healed", JSON_ARRAY, &list));
    CHECK(memory_new(&out->healings, json_array_size(list), sizeof out->healings[0]));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (!json_is_object(one)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: \"healed\" holds a value that is not an object", where);
        }
        CHECK(read_fields(where, one, healing_fields, &out->healings[i]));
        out->healing_count++;
    }
    return GRAIL_OK;
}

static grail_status read_cell(const char *where, const json_t *document, result_line *out)
{
    CHECK(read_settings(where, json_object_get(document, "cell"), &out->settings));
    CHECK(json_get_string(where, document, "error", NULL, &out->error));
    CHECK(read_measures(where, document, out));
    out->kind = out->error == NULL ? LINE_CELL : LINE_FAILURE;
    if (out->kind == LINE_CELL) {
        CHECK(read_sites(where, document, out));
        CHECK(read_healings(where, document, out));
    }
    return GRAIL_OK;
}

grail_status line_read(const char *where, const json_t *document, result_line *out)
{
    grail_status status = GRAIL_OK;
    const json_t *dense = json_object_get(document, "dense");
    result_line line = {.kind = LINE_DENSE, .measures = line_not_measured()};
    if (json_is_object(dense)) {
        TRY(read_dense(where, dense, &line));
    } else if (json_is_object(json_object_get(document, "cell"))) {
        TRY(read_cell(where, document, &line));
    } else {
        FAIL(GRAIL_ERROR_FORMAT, "%s: expected an object that has an object \"dense\" or \"cell\"",
             where);
    }
    *out = line;
    line = (result_line){0};
out:
    line_fini(&line);
    return status;
}

grail_status line_check_settings(const char *where, const json_t *document)
{
    return json_check_keys(where, json_object_get(document, "cell"), setting_keys);
}

void line_sites_free(line_site *sites, int count)
{
    for (int i = 0; i < count; i++) {
        memory_free(sites[i].name);
        memory_free(sites[i].kind);
    }
    memory_free(sites);
}

void line_fini(result_line *line)
{
    line_evaluations_free(line->evaluations, line->evaluation_count);
    line_sites_free(line->sites, line->site_count);
    memory_free(line->healings);
    *line = (result_line){0};
}
