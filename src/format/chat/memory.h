/* Memory of a template or of one conversation, which is freed as a whole, and a count of the work
 * that was done. Templates come with models and are not trusted: both are bounded. */
#ifndef GRAIL_FORMAT_CHAT_MEMORY_H
#define GRAIL_FORMAT_CHAT_MEMORY_H

#include "base/memory.h"

/* A zeroed one is empty. */
typedef struct chat_memory {
    struct chat_block *blocks; /* owned, the newest first */
    size_t taken;              /* bytes */
    size_t work;
} chat_memory;

/** *out, the address of any object pointer, gets `count * size` zeroed bytes, aligned for any type.
 * More than CHAT_MOST_BYTES in all is GRAIL_ERROR_UNSUPPORTED. */
grail_status chat_take(chat_memory *m, void *out, size_t count, size_t size) GRAIL_MUST_CHECK;

/** Counts work, about a unit for each byte that is looked at. More than CHAT_MOST_WORK in all is
 * GRAIL_ERROR_UNSUPPORTED. */
grail_status chat_work(chat_memory *m, size_t amount) GRAIL_MUST_CHECK;

void chat_memory_fini(chat_memory *m);

#endif
