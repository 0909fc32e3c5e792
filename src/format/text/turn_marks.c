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

/* Which ids are marks that were not met yet. */
typedef struct mark_set {
    bool *is_mark; /* [size], owned */
    int64_t size, count;
} mark_set;

static grail_status list_marks(const tokenizer *t, mark_set *set)
{
    for (int64_t i = 0; i < t->added_count; i++) {
        set->size = t->added[i].id < set->size ? set->size : t->added[i].id + 1;
    }
    CHECK(memory_new(&set->is_mark, (size_t)set->size, sizeof set->is_mark[0]));
    for (int64_t i = 0; i < t->added_count; i++) {
        const int32_t id = t->added[i].id;
        const bool is_new = !set->is_mark[id] && !has_id(&t->before, id) && !has_id(&t->after, id);
        set->is_mark[id] = set->is_mark[id] || is_new;
        set->count += is_new ? 1 : 0;
    }
    return GRAIL_OK;
}

static int64_t count_met(const token_windows *w, mark_set *set)
{
    int64_t met = 0;
    for (int64_t i = 0; i < window_start(w, w->count) && met < ENOUGH_MARKS; i++) {
        const int32_t id = w->ids[i];
        if (id < set->size && set->is_mark[id]) {
            set->is_mark[id] = false;
            met++;
        }
    }
    return met;
}

grail_status turns_find(const tokenizer *t, const token_windows *w, turns_found *out)
{
    mark_set set = {0};
    CHECK(list_marks(t, &set));
    const int64_t enough = set.count < ENOUGH_MARKS ? set.count : ENOUGH_MARKS;
    *out = set.count == 0                 ? TURNS_UNKNOWN
           : count_met(w, &set) >= enough ? TURNS_THERE
                                          : TURNS_MISSING;
    memory_free(set.is_mark);
    return GRAIL_OK;
}
