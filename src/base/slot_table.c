#include "base/slot_table.h"

#include <string.h>

enum { FIRST_SLOTS = 1024 };

uint64_t slot_hash(const void *bytes, size_t size)
{
    const unsigned char *next = bytes;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ next[i]) * 0x100000001B3u;
    }
    return hash ^ (hash >> 29);
}

grail_status slot_table_reserve(slot_table *t,
                                uint64_t (*hash_of)(const void *items, int32_t place),
                                const void *items)
{
    slot_table larger = {.count = t->count == 0 ? FIRST_SLOTS : 2 * t->count, .used = t->used};
    if (2 * t->used < t->count) {
        return GRAIL_OK;
    }
    CHECK(memory_new_unset(&larger.slots, larger.count, sizeof larger.slots[0]));
    memset(larger.slots, 0xFF, larger.count * sizeof larger.slots[0]);
    for (size_t i = 0; i < t->count; i++) {
        if (t->slots[i] >= 0) {
            size_t slot = hash_of(items, t->slots[i]) & (larger.count - 1);
            while (larger.slots[slot] >= 0) {
                slot = (slot + 1) & (larger.count - 1);
            }
            larger.slots[slot] = t->slots[i];
        }
    }
    memory_free(t->slots);
    *t = larger;
    return GRAIL_OK;
}

void slot_table_fini(slot_table *t)
{
    memory_free(t->slots);
    *t = (slot_table){0};
}
