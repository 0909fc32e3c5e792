#include "format/text/task_documents.h"

#include "format/text/task_cleaning.h"

/* All bytes but those that continue a character. */
static int64_t count_characters(const char *text)
{
    int64_t count = 0;
    for (; *text != 0; text++) {
        count += ((unsigned char)*text & 0xC0U) != 0x80U ? 1 : 0;
    }
    return count;
}

grail_status task_add_choice(task_documents *d, const char *field, const char *choice)
{
    task_choice c = {.begin = d->text.size, .characters = count_characters(choice)};
    if (c.characters == 0) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "\"%s\": expected a text that the network can be scored on, found an empty "
            "one",
            field);
    }
    CHECK(buffer_append(&d->text, d->context.bytes, d->context.size));
    CHECK(buffer_append_string(&d->text, " "));
    CHECK(buffer_append_string(&d->text, choice));
    const char *context = (const char *)d->text.bytes + c.begin;
    c.split = c.begin + text_trimmed_size(context, d->context.size);
    c.end = d->text.size;
    CHECK(memory_reserve(&d->choices, (size_t)d->choice_count + 1, sizeof d->choices[0]));
    d->choices[d->choice_count++] = c;
    return GRAIL_OK;
}

void task_documents_fini(task_documents *d)
{
    memory_free(d->name);
    memory_free(d->path);
    memory_free(d->choices);
    memory_free(d->documents);
    buffer_fini(&d->text);
    buffer_fini(&d->context);
    buffer_fini(&d->scratch);
    *d = (task_documents){0};
}
