#include "comm/comm.h"

#include "base/hash.h"
#include "base/option_values.h"
#include "base/profile.h"

#include <stdint.h>
#include <string.h>

/* Messages are cut to pieces that every kind of transport counts in an int. */
enum { PIECE = 1 << 26 };

grail_status comm_check(const grail_comm *c)
{
    if (c == NULL) {
        return GRAIL_OK;
    }
    CHECK(OPTION_ROOM_OF(grail_comm, c));
    const bool complete =
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

/* Nothing more can be told to the others. */
static grail_status failed(const grail_comm *c, const char *what, int other)
{
    error_set(GRAIL_ERROR_IO, "cannot %s rank %d of %d; it may have ended", what, other, c->size);
    error_mark_told();
    return GRAIL_ERROR_IO;
}

grail_status comm_send(const grail_comm *c, int to, const void *bytes, size_t size)
{
    const char *at = bytes;
    for (size_t done = 0; done < size; done += PIECE) {
        const size_t count = size - done < PIECE ? size - done : PIECE;
        const profile_kind before = profile_enter(PROFILE_WAITING);
        const int error = c->send(c->context, to, at + done, count);
        profile_enter(before);
        if (error != 0) {
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
        const profile_kind before = profile_enter(PROFILE_WAITING);
        const int error = c->receive(c->context, from, at + done, count);
        profile_enter(before);
        if (error != 0) {
            return failed(c, "receive from", from);
        }
    }
    return GRAIL_OK;
}

grail_status comm_broadcast_next(const grail_comm *c, int root, void *bytes, size_t size)
{
    char *at = bytes;
    for (size_t done = 0; comm_is_shared(c) && done < size; done += PIECE) {
        const size_t count = size - done < PIECE ? size - done : PIECE;
        const profile_kind before = profile_enter(PROFILE_WAITING);
        const int error = c->broadcast(c->context, root, at + done, count);
        profile_enter(before);
        if (error != 0) {
            return failed(c, "share what is told by", root);
        }
    }
    return GRAIL_OK;
}

grail_status comm_broadcast(const grail_comm *c, int root, void *bytes, size_t size)
{
    CHECK(comm_settle(c, GRAIL_OK));
    return comm_broadcast_next(c, root, bytes, size);
}

/* The first rank that failed, or the size, and how. */
typedef struct outcome {
    int32_t rank, status;
} outcome;

static grail_status find_failed(const grail_comm *c, grail_status status, outcome *first)
{
    *first = (outcome){.rank = status == GRAIL_OK ? c->size : c->rank, .status = (int32_t)status};
    if (c->rank != 0) {
        CHECK(comm_send(c, 0, first, sizeof *first));
    }
    for (int rank = 1; c->rank == 0 && rank < c->size; rank++) {
        outcome other;
        CHECK(comm_receive(c, rank, &other, sizeof other));
        *first = first->status == GRAIL_OK ? other : *first;
    }
    return comm_broadcast_next(c, 0, first, sizeof *first);
}

grail_status comm_settle(const grail_comm *c, grail_status status)
{
    outcome first;
    char text[GRAIL_ERROR_TEXT_SIZE] = "";
    if (!comm_is_shared(c)) {
        return status;
    }
    CHECK(find_failed(c, status, &first));
    if (first.status == GRAIL_OK) {
        return GRAIL_OK;
    }
    error_copy(text, sizeof text);
    CHECK(comm_broadcast_next(c, first.rank, text, sizeof text));
    text[sizeof text - 1] = 0;
    if (first.rank != c->rank) {
        error_set(GRAIL_OK, "rank %d of %d: %s", first.rank, c->size, text);
    }
    error_mark_told();
    return (grail_status)first.status;
}

grail_status comm_end(const grail_comm *c, grail_status status)
{
    return status != GRAIL_OK && error_is_told() ? status : comm_settle(c, status);
}

grail_status comm_broadcast_text(const grail_comm *c, int root, char **text)
{
    uint64_t size = *text == NULL ? 0 : strlen(*text) + 1;
    if (!comm_is_shared(c)) {
        return GRAIL_OK;
    }
    CHECK(comm_broadcast(c, root, &size, sizeof size));
    CHECK(comm_settle(c, c->rank != root ? memory_new(text, (size_t)size, 1) : GRAIL_OK));
    return comm_broadcast_next(c, root, *text, (size_t)size);
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
