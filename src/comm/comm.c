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
    return error_set(GRAIL_ERROR_IO, "cannot %s rank %d of %d; it may have ended", what, other,
                     c->size);
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

/* How a rank ended. */
typedef struct outcome {
    int32_t rank, status;
    char text[GRAIL_ERROR_TEXT_SIZE];
} outcome;

static grail_status gather_outcomes(const grail_comm *c, outcome *first)
{
    if (c->rank != 0) {
        return comm_send(c, 0, first, sizeof *first);
    }
    for (int rank = 1; rank < c->size; rank++) {
        outcome other;
        CHECK(comm_receive(c, rank, &other, sizeof other));
        *first = first->status == GRAIL_OK ? other : *first;
    }
    return GRAIL_OK;
}

grail_status comm_settle(const grail_comm *c, grail_status status)
{
    if (!comm_is_shared(c)) {
        return status;
    }
    outcome first = {.rank = c->rank, .status = (int32_t)status};
    if (status != GRAIL_OK) {
        error_copy(first.text, sizeof first.text);
    }
    CHECK(gather_outcomes(c, &first));
    CHECK(comm_broadcast(c, 0, &first, sizeof first));
    if (first.status == GRAIL_OK || first.rank == c->rank) {
        return status;
    }
    first.text[sizeof first.text - 1] = 0;
    return error_set((grail_status)first.status, "rank %d of %d: %s", first.rank, c->size,
                     first.text);
}

grail_status comm_broadcast_text(const grail_comm *c, int root, char **text)
{
    uint64_t size = *text == NULL ? 0 : strlen(*text) + 1;
    if (!comm_is_shared(c)) {
        return GRAIL_OK;
    }
    CHECK(comm_broadcast(c, root, &size, sizeof size));
    CHECK(comm_settle(c, c->rank != root ? memory_new(text, (size_t)size, 1) : GRAIL_OK));
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
    return comm_settle(c, memcmp(own, first, sizeof own) == 0
                              ? GRAIL_OK
                              : error_set(GRAIL_ERROR_ARGUMENT,
                                          "%s differ from those of rank 0; %s", what, remedy));
}
