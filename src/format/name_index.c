#include "format/name_index.h"

#include <stdlib.h>
#include <string.h>

static int compare_entries(const void *a, const void *b)
{
    const name_entry *left = a;
    const name_entry *right = b;
    const int order = strcmp(left->name, right->name);
    if (order != 0) {
        return order;
    }
    return (left->item > right->item) - (left->item < right->item);
}

static int compare_name(const void *name, const void *entry)
{
    const name_entry *found = entry;
    return strcmp(name, found->name);
}

grail_status name_index_init(name_index *index, int64_t count, const void *items, size_t stride)
{
    name_entry *entries = NULL;
    CHECK(memory_new_unset(&entries, (size_t)count, sizeof *entries));
    for (int64_t i = 0; i < count; i++) {
        entries[i].item = i;
        memcpy(&entries[i].name, (const char *)items + (size_t)i * stride, sizeof entries[i].name);
    }
    qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    *index = (name_index){.entries = entries, .count = count};
    return GRAIL_OK;
}

int64_t name_index_duplicate(const name_index *index)
{
    for (int64_t i = 0; i + 1 < index->count; i++) {
        if (strcmp(index->entries[i].name, index->entries[i + 1].name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *name_index_twice(const name_index *index)
{
    const int64_t twice = name_index_duplicate(index);
    return twice < 0 ? NULL : index->entries[twice].name;
}

static const name_entry *find_entry(const name_index *index, const char *name)
{
    if (index->count == 0) {
        return NULL;
    }
    return bsearch(name, index->entries, (size_t)index->count, sizeof *index->entries,
                   compare_name);
}

int64_t name_index_find(const name_index *index, const char *name)
{
    const name_entry *found = find_entry(index, name);
    return found == NULL ? -1 : found->item;
}

int64_t name_index_find_single(const name_index *index, const char *name)
{
    const name_entry *found = find_entry(index, name);
    if (found == NULL || (found > index->entries && strcmp(found[-1].name, name) == 0) ||
        (found + 1 < index->entries + index->count && strcmp(found[1].name, name) == 0)) {
        return -1;
    }
    return found->item;
}

void name_index_fini(name_index *index)
{
    memory_free(index->entries);
    *index = (name_index){0};
}
