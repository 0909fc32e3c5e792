#include "study/sweep/rank_lines.h"

static grail_status give(const grail_comm *comm, const buffer *own)
{
    const uint64_t size = own->size;
    CHECK(comm_send(comm, 0, &size, sizeof size));
    CHECK(comm_settle(comm, GRAIL_OK)); /* rank 0 has room */
    return comm_send(comm, 0, own->bytes, own->size);
}

static grail_status receive_sizes(const grail_comm *comm, buffer *lines, grail_status *room)
{
    for (int rank = 1; rank < comm_size(comm); rank++) {
        uint64_t size = 0;
        CHECK(comm_receive(comm, rank, &size, sizeof size));
        *room = *room == GRAIL_OK ? buffer_reserve(&lines[rank], (size_t)size) : *room;
        lines[rank].size = (size_t)size;
    }
    return GRAIL_OK;
}

static grail_status take(const grail_comm *comm, const buffer *own, buffer *lines)
{
    grail_status room = buffer_append(&lines[0], own->bytes, own->size);
    CHECK(receive_sizes(comm, lines, &room));
    CHECK(comm_settle(comm, room));
    for (int rank = 1; rank < comm_size(comm); rank++) {
        CHECK(comm_receive(comm, rank, lines[rank].bytes, lines[rank].size));
    }
    return GRAIL_OK;
}

grail_status rank_lines_gather(const grail_comm *comm, const buffer *own, buffer *lines)
{
    CHECK(comm_settle(comm, GRAIL_OK));
    return comm_rank(comm) > 0 ? give(comm, own) : take(comm, own, lines);
}
