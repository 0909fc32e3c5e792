/* Hash tables: what was put in is found again, however many items there are and however they
 * collide. */
#include "base/slot_table.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

enum { NAMES = 3000, NAME_SIZE = 24 };

/* A list of names, with the table that finds them. */
typedef struct name_list {
    char names[NAMES][NAME_SIZE];
    uint64_t mask; /* of the hashes: 0 makes all of them equal */
    slot_table table;
} name_list;

static uint64_t hash_of(const void *items, int32_t place)
{
    const name_list *l = items;
    return slot_hash(l->names[place], strlen(l->names[place])) & l->mask;
}

static bool is_name(const void *items, int32_t place, const void *key)
{
    const name_list *l = items;
    return strcmp(l->names[place], key) == 0;
}

static int32_t *slot_of(const name_list *l, const char *name)
{
    return slot_table_find(&l->table, slot_hash(name, strlen(name)) & l->mask, is_name, l, name);
}

static grail_status fill(name_list *l, int count)
{
    for (int i = 0; i < count; i++) {
        snprintf(l->names[i], NAME_SIZE, "name %d", i);
        CHECK(slot_table_reserve(&l->table, hash_of, l));
        slot_table_fill(&l->table, slot_of(l, l->names[i]), i);
    }
    return GRAIL_OK;
}

TEST(items_are_found_again)
{
    static name_list l;
    l = (name_list){.mask = UINT64_MAX};
    assert_ok(fill(&l, NAMES));
    assert_true(l.table.used == NAMES && l.table.count >= 2 * (size_t)NAMES);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(*slot_of(&l, l.names[i]), i);
    }
    assert_int_equal(*slot_of(&l, "name 3000"), -1);
    slot_table_fini(&l.table);
    slot_table_fini(&l.table);
}

TEST(items_of_one_hash_follow_each_other)
{
    enum { FEW = 40 };
    static name_list l;
    l = (name_list){.mask = 0};
    assert_ok(fill(&l, FEW));
    for (int i = 0; i < FEW; i++) {
        const int32_t *slot = slot_of(&l, l.names[i]);
        assert_int_equal(*slot, i);
        assert_int_equal(slot_table_probes(&l.table, 0, slot), i);
    }
    assert_int_equal(*slot_of(&l, "another"), -1);
    slot_table_fini(&l.table);
}

static grail_status use_table(void *context)
{
    static name_list l;
    l = (name_list){.mask = UINT64_MAX};
    const grail_status status = fill(&l, NAMES);
    slot_table_fini(&l.table);
    return status;
}

TEST(every_failing_allocation_is_reported)
{
    support_fail_each_allocation(use_table, NULL);
}
