#include "format/chat/memory.h"

#include "format/chat/limits.h"

#include <string.h>

enum { BLOCK = 1 << 16, ALIGNMENT = 16 };

typedef struct chat_block {
    struct chat_block *next;
    size_t size, used; /* of the bytes behind this header */
    _Alignas(ALIGNMENT) unsigned char bytes[];
} chat_block;

static grail_status add_block(chat_memory *m, size_t size)
{
    chat_block *block = NULL;
    size_t whole = 0;
    size = size < BLOCK ? BLOCK : size;
    if (!size_add(size, sizeof *block, &whole)) {
        return error_set(GRAIL_ERROR_MEMORY, "a chat template asks for too much memory");
    }
    CHECK(memory_new(&block, whole, 1));
    block->size = size;
    block->next = m->blocks;
    m->blocks = block;
    return GRAIL_OK;
}

grail_status chat_take(chat_memory *m, void *out, size_t count, size_t size)
{
    size_t bytes = 0;
    if (!size_multiply(count, size, &bytes) || bytes > CHAT_MOST_BYTES - m->taken) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "takes more than the allowed %d bytes of memory",
                         CHAT_MOST_BYTES);
    }
    m->taken += bytes;
    const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (m->blocks == NULL || rounded > m->blocks->size - m->blocks->used) {
        CHECK(add_block(m, rounded));
    }
    void *place = m->blocks->bytes + m->blocks->used;
    m->blocks->used += rounded;
    memcpy(out, &place, sizeof place);
    return GRAIL_OK;
}

grail_status chat_work(chat_memory *m, size_t amount)
{
    if (amount > CHAT_MOST_WORK - m->work) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "takes more than the allowed %d steps of work",
                         CHAT_MOST_WORK);
    }
    m->work += amount;
    return GRAIL_OK;
}

void chat_memory_fini(chat_memory *m)
{
    while (m->blocks != NULL) {
        chat_block *next = m->blocks->next;
        memory_free(m->blocks);
        m->blocks = next;
    }
    *m = (chat_memory){0};
}
