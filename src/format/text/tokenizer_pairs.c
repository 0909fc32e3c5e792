/* Pairs of ids, each with a rank and a result. */
#include "format/text/tokenizer_internal.h"

static uint64_t hash_pair(int32_t left, int32_t right)
{
    uint64_t key = ((uint64_t)(uint32_t)left << 32) | (uint32_t)right;
    key *= 0x9E3779B97F4A7C15u; /* 2^64 over the golden ratio */
    return key ^ (key >> 32);
}

static uint64_t hash_of(const void *entries, int32_t place)
{
    const pair_entry *entry = (const pair_entry *)entries + place;
    return hash_pair(entry->left, entry->right);
}

static bool is_pair(const void *entries, int32_t place, const void *key)
{
    const pair_entry *entry = (const pair_entry *)entries + place;
    const pair_entry *wanted = key;
    return entry->left == wanted->left && entry->right == wanted->right;
}

static int32_t *find_slot(const pair_table *t, const pair_entry *key)
{
    return slot_table_find(&t->slots, hash_pair(key->left, key->right), is_pair, t->entries, key);
}

grail_status pair_table_put(pair_table *t, pair_entry entry)
{
    CHECK(slot_table_reserve(&t->slots, hash_of, t->entries));
    CHECK(memory_reserve(&t->entries, t->slots.used + 1, sizeof t->entries[0]));
    int32_t *slot = find_slot(t, &entry);
    CHECK(tokenizer_check_probes(&t->slots, hash_pair(entry.left, entry.right), slot, "merges"));
    if (*slot < 0) {
        slot_table_fill(&t->slots, slot, (int32_t)t->slots.used);
    }
    t->entries[*slot] = entry;
    return GRAIL_OK;
}

const pair_entry *pair_table_find(const pair_table *t, int32_t left, int32_t right)
{
    const pair_entry key = {.left = left, .right = right};
    const int32_t found = t->slots.count == 0 ? -1 : *find_slot(t, &key);
    return found < 0 ? NULL : &t->entries[found];
}

void pair_table_fini(pair_table *t)
{
    memory_free(t->entries);
    slot_table_fini(&t->slots);
    *t = (pair_table){0};
}
