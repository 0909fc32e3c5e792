#include "format/text/task_forms.h"

#include "base/name_list.h"
#include "format/text/task_cleaning.h"
#include "format/text/task_fields.h"

#include <string.h>

static grail_status add_choices(task_documents *out, const char *field, const json_t *texts)
{
    size_t i = 0;
    const json_t *text = NULL;
    json_array_foreach (texts, i, text) {
        CHECK(task_add_choice(out, field, json_string_value(text)));
    }
    return GRAIL_OK;
}

/* {"choices": {"text": [...], "label": [...]}, "answerKey": "B"} */
static grail_status add_labelled(const json_t *object, task_documents *out, int64_t *gold)
{
    const json_t *choices = NULL;
    const json_t *texts = NULL;
    const json_t *labels = NULL;
    CHECK(task_object(object, "choices", &choices));
    CHECK(error_in(task_texts(choices, "text", &texts), "\"choices\""));
    CHECK(error_in(task_texts(choices, "label", &labels), "\"choices\""));
    if (json_array_size(labels) != json_array_size(texts)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "\"choices\": \"label\": expected %zu strings, as many as \"text\" has, "
                         "found %zu",
                         json_array_size(texts), json_array_size(labels));
    }
    CHECK(task_label(object, "answerKey", labels, gold));
    return add_choices(out, "choices", texts);
}

static grail_status read_arc(const json_t *object, task_documents *out, int64_t *gold)
{
    const char *question = NULL;
    CHECK(task_text(object, "question", &question));
    CHECK(buffer_format(&out->context, "Question: %s\nAnswer:", question));
    return add_labelled(object, out, gold);
}

static grail_status read_openbookqa(const json_t *object, task_documents *out, int64_t *gold)
{
    const char *stem = NULL;
    CHECK(task_text(object, "question_stem", &stem));
    CHECK(buffer_append_string(&out->context, stem));
    return add_labelled(object, out, gold);
}

static grail_status hellaswag_context(const json_t *object, task_documents *out)
{
    const char *activity = NULL;
    const char *first = NULL;
    const char *second = NULL;
    CHECK(task_text(object, "activity_label", &activity));
    CHECK(task_text(object, "ctx_a", &first));
    CHECK(task_text(object, "ctx_b", &second));
    out->scratch.size = 0;
    CHECK(buffer_format(&out->scratch, "%s: %s ", activity, first));
    CHECK(append_capitalised(second, &out->scratch));
    return append_cleaned((const char *)out->scratch.bytes, &out->context);
}

static grail_status read_hellaswag(const json_t *object, task_documents *out, int64_t *gold)
{
    const json_t *endings = NULL;
    const json_t *ending = NULL;
    size_t i = 0;
    CHECK(hellaswag_context(object, out));
    CHECK(task_texts(object, "endings", &endings));
    CHECK(task_number(object, "label", 0, (int64_t)json_array_size(endings) - 1, gold));
    json_array_foreach (endings, i, ending) {
        out->scratch.size = 0;
        CHECK(append_cleaned(json_string_value(ending), &out->scratch));
        CHECK(task_add_choice(out, "endings", (const char *)out->scratch.bytes));
    }
    return GRAIL_OK;
}

static grail_status read_piqa(const json_t *object, task_documents *out, int64_t *gold)
{
    static const char *const keys[] = {"sol1", "sol2"};
    const char *goal = NULL;
    CHECK(task_text(object, "goal", &goal));
    CHECK(buffer_format(&out->context, "Question: %s\nAnswer:", goal));
    for (int i = 0; i < 2; i++) {
        const char *solution = NULL;
        CHECK(task_text(object, keys[i], &solution));
        CHECK(task_add_choice(out, keys[i], solution));
    }
    return task_number(object, "label", 0, 1, gold);
}

static grail_status read_boolq(const json_t *object, task_documents *out, int64_t *gold)
{
    const char *passage = NULL;
    const char *question = NULL;
    CHECK(task_text(object, "passage", &passage));
    CHECK(task_text(object, "question", &question));
    CHECK(buffer_format(&out->context, "%s\nQuestion: %s?\nAnswer:", passage, question));
    CHECK(task_add_choice(out, "label", "no"));
    CHECK(task_add_choice(out, "label", "yes"));
    return task_number(object, "label", 0, 1, gold);
}

/* The text behind the gap is measured, and what stands in the gap differs. */
static grail_status read_winogrande(const json_t *object, task_documents *out, int64_t *gold)
{
    static const char *const keys[] = {"option1", "option2"};
    const char *sentence = NULL;
    CHECK(task_text(object, "sentence", &sentence));
    const char *gap = strchr(sentence, '_');
    if (gap == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "\"sentence\": expected a gap \"_\", found none");
    }
    out->scratch.size = 0;
    CHECK(append_stripped(gap + 1, &out->scratch));
    for (int i = 0; i < 2; i++) {
        const char *option = NULL;
        CHECK(task_text(object, keys[i], &option));
        out->context.size = 0;
        CHECK(buffer_append(&out->context, sentence, (size_t)(gap - sentence)));
        CHECK(buffer_append_string(&out->context, option));
        CHECK(task_add_choice(out, "sentence", (const char *)out->scratch.bytes));
    }
    CHECK(task_number(object, "answer", 1, 2, gold));
    *gold -= 1;
    return GRAIL_OK;
}

/* {"context": "...", "choices": ["...", "..."], "answer": 0} */
static grail_status read_choices(const json_t *object, task_documents *out, int64_t *gold)
{
    const char *context = NULL;
    const json_t *choices = NULL;
    CHECK(task_text(object, "context", &context));
    CHECK(buffer_append_string(&out->context, context));
    CHECK(task_texts(object, "choices", &choices));
    CHECK(task_number(object, "answer", 0, (int64_t)json_array_size(choices) - 1, gold));
    return add_choices(out, "choices", choices);
}

#define TASK(name, read, other_file, normalised, split)                                            \
    {#name, read, other_file, normalised, split},
static const task_form forms[] = {
#include "format/text/task_list.h"
};
#undef TASK

#define TASK(name, read, other_file, normalised, split) #name,
const char *const task_names[] = {
#include "format/text/task_list.h"
    NULL};
#undef TASK

static bool names_file(const char *name)
{
    return name_is_of_kind(name, ".jsonl") || name_is_of_kind(name, ".jsonl.gz");
}

const task_form *task_form_find(const char *name)
{
    static const task_form of_files = {.read = read_choices, .normalised = true};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(forms[i].name, name) == 0) {
            return &forms[i];
        }
    }
    return names_file(name) ? &of_files : NULL;
}
