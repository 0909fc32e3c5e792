/* Any bytes as the file of a multiple-choice task. The first byte chooses the task, the rest is the
 * file. What is accepted has a right choice in every document, and texts in order. */
#include "fuzz.h"

#include "base/utf8.h"
#include "format/text/task_file.h"
#include "format/text/task_forms.h"

static void check_choice(const task_documents *d, const task_choice *c)
{
    fuzz_require(c->begin <= c->split && c->split < c->end && c->end <= d->text.size);
    fuzz_require(c->characters > 0 && (size_t)c->characters < c->end - c->begin);
    const unsigned char *text = d->text.bytes + c->begin;
    const size_t context = c->split - c->begin;
    fuzz_require(utf8_valid_prefix(text, context) == context);
    fuzz_require(utf8_valid_prefix(text, c->end - c->begin) == c->end - c->begin);
}

static void check_document(const task_documents *d, const task_document *document)
{
    fuzz_require(document->count >= 2 && document->count <= TASK_MOST_CHOICES);
    fuzz_require(document->first >= 0 && document->first + document->count <= d->choice_count);
    fuzz_require(document->gold >= 0 && document->gold < document->count);
    for (int64_t i = 0; i < document->count; i++) {
        check_choice(d, &d->choices[document->first + i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    task_documents d = {0};
    size_t known = 0;
    while (task_names[known] != NULL) {
        known++;
    }
    if (size == 0) {
        return 0;
    }
    const char *name = task_names[data[0] % (known + 1)];
    if (task_documents_parse("tasks.jsonl", name == NULL ? "own.jsonl" : name, data + 1, size - 1,
                             &d) != GRAIL_OK) {
        return 0;
    }
    for (int64_t i = 0; i < d.count; i++) {
        check_document(&d, &d.documents[i]);
    }
    task_documents_fini(&d);
    return 0;
}
