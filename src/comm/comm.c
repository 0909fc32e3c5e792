#include "comm/comm.h"

#include "base/hash.h"
#include "base/memory.h"

#include <stdint.h>
#include <string.h>

/* Messages are cut to pieces that every kind of transport counts in an int. */
enum { PIECE = 1 << 26 };

grail_status comm_check(const grail_comm *c)
{
    const bool complete =
        c == NULL ||
        (c->size >= 1 && c->rank >= 0 && c->rank < c->size &&
         (c->size == 1 || (c->send != NULL && c->receive != NULL && c->broadcast != NULL)));
    return complete
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT,
                           "comm: expected a rank below the number of ranks and all three "
                           "functions, found rank %d of %d%s",
                           c->rank, c->size,
                           c->size > 1 && c->rank >= 0 && c->rank < c->size ? " without one of them"
                                                                            : "");
}

int comm_rank(const grail_comm *c)
{
    return c == NULL ? 0 : c->rank;
}

int comm_size(const grail_comm *c)
{
    return c == NULL ? 1 : c->size;
}

bool comm_is_shared(const grail_comm *c)
{
    return comm_size(c) > 1;
}

static grail_status failed(const grail_comm *c, const char *what, int other)
{
    return error_set(GRAIL_ERROR_IO, "rank %d of %d cannot %s rank %d; it may have ended", c->rank,
                     c->size, what, other);
}

grail_status comm_send(const grail_comm *c, int to, const void *bytes, size_t size)
{
    const char *at = bytes;
    for (size_t done = 0; done < size; done += PIECE) {
        const size_t count = size - done < PIECE ? size - done : PIECE;
        if (c->send(c->context, to, at + done, count) != 0) {
            return failed(c, "send to", to);
        }
    }
    return GRAIL_OK;
}

grail_status comm_receive(const grail_comm *c, int from, void *bytes, size_t size)
{
    char *at = bytes;
    for (size_t done = 0; done < size; done += PIECE) {
        const size_t count = size - done < PIECE ? size - done : PIECE;
        if (c->receive(c->context, from, at + done, count) != 0) {
            return failed(c, "receive from", from);
        }
    }
    return GRAIL_OK;
}

grail_status comm_broadcast(const grail_comm *c, int root, void *bytes, size_t size)
{
    char *at = bytes;
    for (size_t done = 0; comm_is_shared(c) && done < size; done += PIECE) {
        const size_t count = size - done < PIECE ? size - done : PIECE;
        if (c->broadcast(c->context, root, at + done, count) != 0) {
            return failed(c, "share what is told by", root);
        }
    }
    return GRAIL_OK;
}

grail_status comm_broadcast_text(const grail_comm *c, int root, char **text)
{
    uint64_t size = *text == NULL ? 0 : strlen(*text) + 1;
    if (!comm_is_shared(c)) {
        return GRAIL_OK;
    }
    CHECK(comm_broadcast(c, root, &size, sizeof size));
    if (c->rank != root) {
        CHECK(memory_new(text, (size_t)size, 1));
    }
    return comm_broadcast(c, root, *text, (size_t)size);
}

grail_status comm_agree(const grail_comm *c, const char *what, const char *remedy,
                        const void *bytes, size_t size)
{
    char own[HASH_TEXT_SIZE];
    char first[HASH_TEXT_SIZE];
    if (!comm_is_shared(c)) {
        return GRAIL_OK;
    }
    hash_bytes(bytes, size, own);
    memcpy(first, own, sizeof first);
    CHECK(comm_broadcast(c, 0, first, sizeof first));
    return memcmp(own, first, sizeof own) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT, "rank %d of %d has %s other than rank 0; %s",
                           c->rank, c->size, what, remedy);
}
