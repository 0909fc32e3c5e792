#include "study/results/line_evaluations.h"

#include "study/fields.h"
#include "study/results/line_fields.h"

#include <string.h>

enum { MOST_EVALUATIONS = 100 };

static const field accuracy_fields[] = {
    {"top1", MEASURE(top1), FORM_EXACT, 0.0, 1.0},
    {"top5", MEASURE(top5), FORM_EXACT, 0.0, 1.0},
    {"interval", MEASURE(interval), FORM_ROUNDED, 0.0, 1.0},
    {"images", MEASURE(images), FORM_COUNT, 0.0, LARGEST},
    {0},
};

static const field perplexity_fields[] = {
    {"perplexity", MEASURE(perplexity), FORM_EXACT, 1.0, HUGE_VAL},
    {"perplexity_error", MEASURE(perplexity_error), FORM_ROUNDED, 0.0, HUGE_VAL},
    {0},
};

/* Lines that other programs made may lack them. */
static const field window_fields[] = {
    {"windows", MEASURE(windows), FORM_COUNT, 0.0, LARGEST},
    {"context", MEASURE(context), FORM_COUNT, 0.0, LARGEST},
    {0},
};

/* Four images a digit, the first in its highest bit. */
static json_t *hits_text(const line_evaluation *e)
{
    static const char digits[] = "0123456789abcdef";
    buffer text = {0};
    json_t *made = NULL;
    buffer_init(&text, SIZE_MAX / 4);
    for (int i = 0; i < e->outcome_count; i += 4) {
        unsigned digit = 0;
        for (int b = 0; b < 4 && i + b < e->outcome_count; b++) {
            digit |= e->outcomes[i + b] > 0.0 ? 8U >> b : 0U;
        }
        if (buffer_append(&text, &digits[digit], 1) != GRAIL_OK) {
            buffer_fini(&text);
            return NULL;
        }
    }
    made = json_text((const char *)text.bytes);
    buffer_fini(&text);
    return made;
}

static grail_status write_losses(const line_evaluation *e, json_t *object)
{
    json_t *list = json_array();
    CHECK(json_put(object, "losses", list));
    for (int i = 0; i < e->outcome_count; i++) {
        CHECK(json_push(list, field_number(e->outcomes[i], FORM_EXACT)));
    }
    return GRAIL_OK;
}

/* An evaluation with a name, or on text, has these. */
static grail_status write_origin(const line_evaluation *e, json_t *object)
{
    return e->data_sha256 == NULL ? GRAIL_OK
                                  : json_put(object, "data_sha256", json_text(e->data_sha256));
}

static grail_status write_quality(const line_evaluation *e, json_t *object)
{
    const bool is_text = isfinite(e->measures.perplexity);
    CHECK(write_fields(is_text ? perplexity_fields : accuracy_fields, &e->measures, object));
    CHECK(is_text ? write_measured(window_fields, &e->measures, object) : GRAIL_OK);
    CHECK(write_origin(e, object));
    if (e->outcome_count == 0) {
        return GRAIL_OK;
    }
    return is_text ? write_losses(e, object) : json_put(object, "hits", hits_text(e));
}

grail_status write_evaluations(const result_line *l, json_t *object)
{
    const line_evaluation bare = {.measures = l->measures};
    if (l->evaluation_count == 0 || l->evaluations[0].name == NULL) {
        return write_quality(l->evaluation_count == 0 ? &bare : &l->evaluations[0], object);
    }
    json_t *list = json_array();
    CHECK(json_put(object, "evaluations", list));
    for (int i = 0; i < l->evaluation_count; i++) {
        json_t *one = json_object();
        CHECK(json_push(list, one));
        CHECK(json_put(one, "name", json_text(l->evaluations[i].name)));
        CHECK(write_quality(&l->evaluations[i], one));
    }
    return GRAIL_OK;
}

static grail_status read_losses(const char *where, const json_t *list, line_evaluation *out)
{
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || (double)count != out->measures.windows) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"losses\" is not an array of as many numbers as \"windows\" says",
                         where);
    }
    CHECK(memory_new(&out->outcomes, count, sizeof out->outcomes[0]));
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        out->outcomes[i] = json_number_value(value);
        if (!json_is_number(value) || !(out->outcomes[i] >= 0.0 && out->outcomes[i] <= LARGEST)) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: losses[%zu] is not a number of at least 0",
                             where, i);
        }
    }
    out->outcome_count = (int)count;
    return GRAIL_OK;
}

static grail_status read_hits(const char *where, const char *text, line_evaluation *out)
{
    const double images = out->measures.images;
    const size_t digits = strlen(text);
    if (!(images >= 1.0 && images <= 4.0 * (double)digits && images > 4.0 * (double)digits - 4.0) ||
        strspn(text, "0123456789abcdef") != digits) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"hits\" does not have a hexadecimal digit for every four images",
                         where);
    }
    CHECK(memory_new(&out->outcomes, (size_t)images, sizeof out->outcomes[0]));
    for (size_t i = 0; i < (size_t)images; i++) {
        const char c = text[i / 4];
        const unsigned digit = (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        out->outcomes[i] = (digit & (8U >> (i % 4))) != 0 ? 1.0 : 0.0;
    }
    out->outcome_count = (int)images;
    return GRAIL_OK;
}

static grail_status read_quality(const char *where, const json_t *object, line_evaluation *out)
{
    const char *hits = NULL;
    *out = (line_evaluation){.name = out->name, .measures = line_not_measured()};
    CHECK(read_fields(where, object, accuracy_fields, &out->measures));
    CHECK(read_fields(where, object, perplexity_fields, &out->measures));
    CHECK(read_fields(where, object, window_fields, &out->measures));
    CHECK(json_get_string(where, object, "data_sha256", NULL, &out->data_sha256));
    CHECK(json_get_string(where, object, "hits", NULL, &hits));
    if (json_object_get(object, "losses") != NULL) {
        return read_losses(where, json_object_get(object, "losses"), out);
    }
    return hits == NULL ? GRAIL_OK : read_hits(where, hits, out);
}

static grail_status read_named(const char *where, const json_t *object, const result_line *line,
                               line_evaluation *out)
{
    CHECK(field_text(where, object, "name", &out->name));
    for (int i = 0; i < line->evaluation_count; i++) {
        if (strcmp(line->evaluations[i].name, out->name) == 0) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: two evaluations have the name \"%s\"", where,
                             out->name);
        }
    }
    return read_quality(where, object, out);
}

grail_status read_evaluations(const char *where, const json_t *object, result_line *line)
{
    grail_status status = GRAIL_OK;
    const json_t *list = json_object_get(object, "evaluations");
    const size_t count = list == NULL ? 1 : json_array_size(list);
    line_evaluation one = {0};
    if (list != NULL && (!json_is_array(list) || count < 1 || count > MOST_EVALUATIONS)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"evaluations\" is not an array of 1 to %d entries", where,
             MOST_EVALUATIONS);
    }
    TRY(memory_new(&line->evaluations, count, sizeof line->evaluations[0]));
    for (size_t i = 0; i < count; i++) {
        TRY(list == NULL ? read_quality(where, object, &one)
                         : read_named(where, json_array_get(list, i), line, &one));
        line->evaluations[line->evaluation_count++] = one;
        one = (line_evaluation){0};
    }
out:
    memory_free(one.outcomes);
    return status;
}

void line_evaluations_free(line_evaluation *evaluations, int count)
{
    for (int i = 0; i < count; i++) {
        memory_free(evaluations[i].outcomes);
    }
    memory_free(evaluations);
}
