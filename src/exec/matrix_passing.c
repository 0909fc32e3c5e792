#include "exec/matrix_passing.h"

#include "base/memory.h"

enum { MESSAGE_BYTES = 1 << 20 }; /* or one row, where that is longer */

typedef grail_status (*bytes_passing)(const grail_comm *c, int other, void *bytes, size_t size);

static grail_status send_bytes(const grail_comm *c, int other, void *bytes, size_t size)
{
    return comm_send(c, other, bytes, size);
}

static grail_status share_bytes(const grail_comm *c, int other, void *bytes, size_t size)
{
    return comm_broadcast_next(c, other, bytes, size);
}

/* What is to pass yet: rows from `row` on of matrix `at`, and all behind it. */
typedef struct rest {
    const matrix *of; /* [count] */
    int count, at;
    int64_t row;
} rest;

static size_t row_bytes(matrix m)
{
    return (size_t)m.columns * element_size(m.type);
}

/* The next rows that fit into `room` bytes, at least one with all the room of a message; no matrix
 * where none do. */
static matrix take_rows(rest *r, size_t room, bool is_first)
{
    while (r->at < r->count && (r->row == r->of[r->at].rows || r->of[r->at].columns == 0)) {
        r->at++;
        r->row = 0;
    }
    if (r->at == r->count) {
        return (matrix){0};
    }
    const matrix m = r->of[r->at];
    const int64_t fit = (int64_t)(room / row_bytes(m));
    const int64_t least = is_first ? 1 : 0;
    const int64_t most = fit > least ? fit : least;
    const int64_t rows = m.rows - r->row < most ? m.rows - r->row : most;
    r->row += rows;
    return rows > 0 ? matrix_rows(m, r->row - rows, rows) : (matrix){0};
}

/* Copies the rows of one message between the matrices and its bytes. */
static grail_status copy_message(rest *r, size_t size, char *bytes, bool reads, bool writes,
                                 size_t *used)
{
    *used = 0;
    for (matrix rows = take_rows(r, size, true); matrix_exists(rows);
         rows = take_rows(r, size - *used, false)) {
        if (reads) {
            CHECK(matrix_download(rows, bytes + *used));
        } else if (writes) {
            CHECK(matrix_upload(rows, bytes + *used));
        }
        *used += (size_t)rows.rows * row_bytes(rows);
    }
    return GRAIL_OK;
}

size_t matrices_room(size_t row_bytes)
{
    return row_bytes > MESSAGE_BYTES ? row_bytes : MESSAGE_BYTES;
}

static size_t longest_row(const matrix *m, int count)
{
    size_t longest = 0;
    for (int i = 0; i < count; i++) {
        longest = row_bytes(m[i]) > longest ? row_bytes(m[i]) : longest;
    }
    return longest;
}

static grail_status pass(const grail_comm *c, int other, const matrix *m, int count, bool reads,
                         bytes_passing pass_bytes, char *room)
{
    const size_t size = matrices_room(longest_row(m, count));
    rest left = {.of = m, .count = count};
    size_t used = 0;
    do {
        rest again = left;
        CHECK(copy_message(&left, size, room, reads, false, &used));
        if (used > 0) {
            CHECK(pass_bytes(c, other, room, used));
        }
        if (!reads) {
            CHECK(copy_message(&again, size, room, false, true, &used));
        }
    } while (used > 0);
    return GRAIL_OK;
}

grail_status matrices_send(const grail_comm *c, int to, const matrix *m, int count, void *room)
{
    return pass(c, to, m, count, true, send_bytes, room);
}

grail_status matrices_receive(const grail_comm *c, int from, const matrix *m, int count, void *room)
{
    return pass(c, from, m, count, false, comm_receive, room);
}

/* The size of all values, where they are few. */
static size_t share_room(const matrix *m, int count)
{
    size_t all = 0;
    for (int i = 0; i < count; i++) {
        all += (size_t)m[i].rows * row_bytes(m[i]);
    }
    const size_t most = matrices_room(longest_row(m, count));
    return all < most ? all : most;
}

grail_status matrices_share(const grail_comm *c, int root, const matrix *m, int count)
{
    grail_status status = GRAIL_OK;
    char *room = NULL;
    if (!comm_is_shared(c)) {
        return GRAIL_OK;
    }
    TRY(comm_settle(c, memory_new_unset(&room, share_room(m, count), 1)));
    TRY(pass(c, root, m, count, comm_rank(c) == root, share_bytes, room));
out:
    memory_free(room);
    return status;
}
