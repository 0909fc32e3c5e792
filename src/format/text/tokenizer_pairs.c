/* A hash table with open addressing from a pair of ids to a rank and a result. */
#include "format/text/tokenizer_internal.h"

enum { FIRST_SLOTS = 1024 };

static size_t hash_pair(int32_t left, int32_t right)
{
    uint64_t key = ((uint64_t)(uint32_t)left << 32) | (uint32_t)right;
    key *= 0x9E3779B97F4A7C15u; /* 2^64 over the golden ratio */
    return (size_t)(key ^ (key >> 32));
}

static pair_entry *find_slot(pair_entry *slots, size_t count, int32_t left, int32_t right)
{
    size_t i = hash_pair(left, right) & (count - 1);
    while (slots[i].left >= 0 && (slots[i].left != left || slots[i].right != right)) {
        i = (i + 1) & (count - 1);
    }
    return &slots[i];
}

static grail_status grow(pair_table *t)
{
    pair_entry *slots = NULL;
    const size_t count = t->slot_count == 0 ? FIRST_SLOTS : t->slot_count * 2;
    CHECK(memory_new_unset(&slots, count, sizeof *slots));
    for (size_t i = 0; i < count; i++) {
        slots[i].left = -1;
    }
    for (size_t i = 0; i < t->slot_count; i++) {
        if (t->slots[i].left >= 0) {
            *find_slot(slots, count, t->slots[i].left, t->slots[i].right) = t->slots[i];
        }
    }
    memory_free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    return GRAIL_OK;
}

grail_status pair_table_put(pair_table *t, pair_entry entry)
{
    if (t->used * 2 >= t->slot_count) {
        CHECK(grow(t));
    }
    pair_entry *slot = find_slot(t->slots, t->slot_count, entry.left, entry.right);
    const size_t place = (size_t)(slot - t->slots);
    if (((place - hash_pair(entry.left, entry.right)) & (t->slot_count - 1)) >
        TOKENIZER_MOST_PROBES) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "more than %d merges collide in a hash table; the merges of a real tokenizer do not",
            TOKENIZER_MOST_PROBES);
    }
    t->used += slot->left < 0 ? 1 : 0;
    *slot = entry;
    return GRAIL_OK;
}

const pair_entry *pair_table_find(const pair_table *t, int32_t left, int32_t right)
{
    if (t->slot_count == 0) {
        return NULL;
    }
    const pair_entry *slot = find_slot(t->slots, t->slot_count, left, right);
    return slot->left < 0 ? NULL : slot;
}

void pair_table_fini(pair_table *t)
{
    memory_free(t->slots);
    *t = (pair_table){0};
}
