#include "format/text/turn_marks.h"

#include "format/text/tokenizer_internal.h"

enum { ENOUGH_MARKS = 2 };

static bool has_id(const token_list *list, int32_t id)
{
    bool found = false;
    for (int64_t i = 0; i < list->count; i++) {
        found = found || list->ids[i] == id;
    }
    return found;
}

grail_status turns_find(const tokenizer *t, const token_windows *w, turns_found *out)
{
    bool *is_mark = NULL; /* [size]: which ids are marks that were not met yet */
    int64_t size = 0;
    int64_t count = 0;
    int64_t met = 0;
    for (int64_t i = 0; i < t->added_count; i++) {
        size = t->added[i].id < size ? size : t->added[i].id + 1;
    }
    CHECK(memory_new(&is_mark, (size_t)size, sizeof is_mark[0]));
    for (int64_t i = 0; i < t->added_count; i++) {
        const int32_t id = t->added[i].id;
        const bool is_new = !is_mark[id] && !has_id(&t->before, id) && !has_id(&t->after, id);
        is_mark[id] = is_mark[id] || is_new;
        count += is_new ? 1 : 0;
    }
    const int64_t enough = count < ENOUGH_MARKS ? count : ENOUGH_MARKS;
    for (int64_t i = 0; i < window_start(w, w->count) && met < enough; i++) {
        const int32_t id = w->ids[i];
        if (id < size && is_mark[id]) {
            is_mark[id] = false;
            met++;
        }
    }
    *out = count == 0 ? TURNS_UNKNOWN : met >= enough ? TURNS_THERE : TURNS_MISSING;
    memory_free(is_mark);
    return GRAIL_OK;
}
