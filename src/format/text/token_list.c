#include "format/text/tokenizer.h"

grail_status token_list_push(token_list *list, int32_t id)
{
    if (list->most > 0 && list->count == list->most) {
        return GRAIL_ERROR_CANCELLED;
    }
    CHECK(memory_reserve(&list->ids, (size_t)list->count + 1, sizeof *list->ids));
    list->ids[list->count++] = id;
    return GRAIL_OK;
}

grail_status token_list_check(const token_list *list, int64_t first, int64_t count)
{
    for (int64_t i = first; i < list->count; i++) {
        if (list->ids[i] < 0 || list->ids[i] >= count) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "token %lld has id %d, outside the model's vocabulary of %lld "
                             "(another model's tokenizer?)",
                             (long long)(i - first), list->ids[i], (long long)count);
        }
    }
    return GRAIL_OK;
}

void token_list_fini(token_list *list)
{
    memory_free(list->ids);
    *list = (token_list){0};
}
