#include "planning/measured.h"

#include "base/output_file.h"

#include <string.h>

/* Numbers are kept by their bits, since those of a text may lose the last one. */
static const char measured_key[] = "measured";

grail_status schedule_write(const grail_schedule *s)
{
    grail_status status = GRAIL_OK;
    output_file file = {.descriptor = -1};
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 4);
    TRY(json_append_indented(s->kept, &text));
    TRY(output_file_open(s->path, true, &file));
    TRY(file_write_at(file.descriptor, s->path, text.bytes, text.size, 0));
    TRY(output_file_commit(&file));
out:
    output_file_fini(&file);
    buffer_fini(&text);
    return status;
}

static grail_status give(const char *key, const json_t *list, kept_numbers *to)
{
    grail_status status = GRAIL_OK;
    const size_t count = json_array_size(list);
    double *numbers = NULL;
    if (count == 0 || strlen(key) >= HASH_TEXT_SIZE || kept_numbers_find(to, key, count) != NULL) {
        return GRAIL_OK;
    }
    TRY(memory_new(&numbers, count, sizeof numbers[0]));
    for (size_t i = 0; i < count; i++) {
        const int64_t bits = json_integer_value(json_array_get(list, i));
        memcpy(&numbers[i], &bits, sizeof bits);
    }
    TRY(kept_numbers_add(to, key, numbers, count));
out:
    memory_free(numbers);
    return status;
}

grail_status schedule_give_measured(const grail_schedule *s, kept_numbers *to)
{
    json_t *measured = json_object_get(s->kept, measured_key);
    const char *key = NULL;
    json_t *list = NULL;
    json_object_foreach (measured, key, list) {
        CHECK(give(key, list, to));
    }
    return GRAIL_OK;
}

grail_status schedule_keep_measured(void *user, const char *key, const double *numbers,
                                    size_t count)
{
    grail_schedule *s = user;
    if (s->kept == NULL) {
        s->kept = json_object();
        CHECK(json_put(s->kept, "grail_schedule", json_integer(1)));
    }
    json_t *measured = json_object_get(s->kept, measured_key);
    if (measured == NULL) {
        measured = json_object();
        CHECK(json_put(s->kept, measured_key, measured));
    }
    json_t *list = json_array();
    CHECK(json_put(measured, key, list));
    for (size_t i = 0; i < count; i++) {
        int64_t bits = 0;
        memcpy(&bits, &numbers[i], sizeof bits);
        CHECK(json_push(list, json_integer(bits)));
    }
    return schedule_write(s);
}
