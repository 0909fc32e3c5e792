#include "support/json_memory.h"

#include "base/json.h"

static void *allocate(size_t size)
{
    unsigned char *block = NULL;
    return memory_new_unset(&block, size, 1) == GRAIL_OK ? block : NULL;
}

int json_memory_use(void **state)
{
    (void)state;
    json_set_alloc_funcs(allocate, memory_free);
    return 0;
}
