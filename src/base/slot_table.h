/* Hash tables with open addressing. The items lie in a list of their owner; a table holds their
 * places in it, and finds them by a hash. */
#ifndef GRAIL_BASE_SLOT_TABLE_H
#define GRAIL_BASE_SLOT_TABLE_H

#include "base/memory.h"

typedef struct slot_table {
    int32_t *slots; /* [count]: the place of an item, or -1; owned */
    size_t count;   /* a power of two, or 0 before the first item; at least half are free */
    size_t used;
} slot_table;

/** FNV-1a with a final mix, since tables use the low bits. */
uint64_t slot_hash(const void *bytes, size_t size);

/** Makes room for one more item; `hash_of` gives the hash of an item that is there. */
grail_status slot_table_reserve(slot_table *t,
                                uint64_t (*hash_of)(const void *items, int32_t place),
                                const void *items) GRAIL_MUST_CHECK;

/** The slot that holds the item of the key, or the free one where it belongs, in a table that has
 * slots. */
static inline int32_t *slot_table_find(const slot_table *t, uint64_t hash,
                                       bool (*is_item)(const void *items, int32_t place,
                                                       const void *key),
                                       const void *items, const void *key)
{
    size_t slot = hash & (t->count - 1);
    while (t->slots[slot] >= 0 && !is_item(items, t->slots[slot], key)) {
        slot = (slot + 1) & (t->count - 1);
    }
    return &t->slots[slot];
}

/** How far a slot is from the first one that was tried for its hash. */
static inline size_t slot_table_probes(const slot_table *t, uint64_t hash, const int32_t *slot)
{
    return ((size_t)(slot - t->slots) - hash) & (t->count - 1);
}

/** Puts an item into the free slot that slot_table_find gave. */
static inline void slot_table_fill(slot_table *t, int32_t *slot, int32_t place)
{
    *slot = place;
    t->used++;
}

void slot_table_fini(slot_table *t); /* works on a zeroed one */

#endif
