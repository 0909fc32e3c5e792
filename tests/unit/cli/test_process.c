/* Large blocks come of memory that the program keeps. */
#include "process.h"
#include "support/support.h"

#include <malloc.h>
#include <stdlib.h>

enum { BYTES = 16 << 20 };

/* Blocks that are mapped on their own while one of BYTES is held. */
static size_t mapped_blocks(void)
{
    char *block = malloc(BYTES);
    const struct mallinfo2 now = mallinfo2();
    assert_non_null(block);
    free(block);
    return now.hblks;
}

TEST(freed_memory_is_used_again)
{
    assert_true(mapped_blocks() > 0);
    heap_arrange();
    assert_true(mapped_blocks() == 0);
    assert_true(mallinfo2().keepcost >= BYTES);
}
