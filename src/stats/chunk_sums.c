#include "stats/chunk_sums.h"

#include "base/memory.h"
#include "exec/matrix_passing.h"

void chunk_sums_append_matrix(chunk_sums *s, matrix *part, matrix *total)
{
    s->part[s->matrices] = part;
    s->total[s->matrices++] = total;
}

void chunk_sums_append_triangle(chunk_sums *s, matrix *part, matrix *total)
{
    s->lower[s->matrices] = true;
    chunk_sums_append_matrix(s, part, total);
}

void chunk_sums_append_number(chunk_sums *s, double *part, double *total)
{
    s->part_number[s->numbers] = part;
    s->total_number[s->numbers++] = total;
}

chunk_sums chunk_sums_of_statistics(grail_statistics *part, grail_statistics *total)
{
    chunk_sums s = {.part_rows = &part->count, .total_rows = &total->count, .statistics = total};
    if (total->groups > 1) {
        chunk_sums_append_matrix(&s, &part->gram, &total->gram);
    } else {
        chunk_sums_append_triangle(&s, &part->gram, &total->gram);
    }
    chunk_sums_append_matrix(&s, &part->sum, &total->sum);
    if (total->outputs > 0) {
        chunk_sums_append_matrix(&s, &part->cross, &total->cross);
        chunk_sums_append_matrix(&s, &part->target_sum, &total->target_sum);
        chunk_sums_append_matrix(&s, &part->target_square, &total->target_square);
    }
    chunk_sums_append_number(&s, &part->weight, &total->weight);
    chunk_sums_append_matrix(&s, &part->weights, &total->weights);
    return s;
}

enum { PANEL = 256 };

/* At most `count` rows of a matrix; of a lower triangle as wide as the last of them. */
static matrix rows_of(matrix m, int64_t begin, int64_t count, bool lower)
{
    const int64_t end = begin + count < m.rows ? begin + count : m.rows;
    return matrix_columns(matrix_rows(m, begin, end - begin), 0, lower ? end : m.columns);
}

/* Few rows stay in a processor's cache; of a device an eighth saves most of a triangle by few
 * calls. */
static grail_status add_and_clear(matrix part, matrix total, bool lower)
{
    const int64_t eighth = (part.rows + 7) / 8;
    const int64_t step = backend_is_host(part.owner) || eighth < PANEL ? PANEL : eighth;
    for (int64_t begin = 0; begin < part.rows; begin += step) {
        const matrix rows = rows_of(part, begin, step, lower);
        CHECK(matrix_add_scaled(1.0, rows, rows_of(total, begin, step, lower)));
        CHECK(matrix_zero(rows));
    }
    return GRAIL_OK;
}

grail_status chunk_sums_clear(const chunk_sums *s)
{
    for (int i = 0; i < s->matrices; i++) {
        CHECK(matrix_zero(*s->part[i]));
    }
    for (int i = 0; i < s->numbers; i++) {
        *s->part_number[i] = 0.0;
    }
    *s->part_rows = 0;
    return GRAIL_OK;
}

grail_status chunk_sums_fold(const chunk_sums *s)
{
    if (*s->part_rows == 0) {
        return GRAIL_OK;
    }
    for (int i = 0; i < s->matrices; i++) {
        if (*s->total_rows == 0) {
            /* The first chunk becomes the total, whose zeros the next one is added to. */
            const matrix held = *s->part[i];
            *s->part[i] = *s->total[i];
            *s->total[i] = held;
        } else {
            CHECK(add_and_clear(*s->part[i], *s->total[i], s->lower[i]));
        }
    }
    for (int i = 0; i < s->numbers; i++) {
        *s->total_number[i] += *s->part_number[i];
        *s->part_number[i] = 0.0;
    }
    *s->total_rows += *s->part_rows;
    *s->part_rows = 0;
    return GRAIL_OK;
}

/* -- ranks -------------------------------------------------------------------------------------
 *
 * The rows of every total are dealt out in pieces: piece p is summed by rank p mod N, to which the
 * others send theirs. So each rank receives and adds an N-th, and no connection carries all. */

/* What one rank has of a turn. */
typedef struct summary {
    int64_t rows; /* 0: nothing */
    double number[CHUNK_NUMBERS];
} summary;

/* What a turn needs at hand before the first message. */
typedef struct turn_room {
    summary *of;      /* [ranks] */
    double *sent;     /* one piece */
    double *received; /* [ranks] those of the others for this rank */
} turn_room;

/* One matrix of a turn. */
typedef struct turn {
    const grail_comm *comm;
    const turn_room *room;
    matrix part, total;
    bool lower;
    bool begins;  /* nothing was added to the total before */
    int64_t step; /* rows of a piece */
    size_t size;  /* values of the largest one */
} turn;

/* Enough pieces to keep all ranks busy, each worth a message. */
static int64_t rows_of_piece(const grail_comm *c, matrix m)
{
    enum { PIECES_PER_RANK = 4, LEAST_VALUES = 1 << 13 };
    const int64_t pieces = (int64_t)PIECES_PER_RANK * c->size;
    const int64_t fair = (m.rows + pieces - 1) / pieces;
    const int64_t least = LEAST_VALUES / m.columns + 1;
    const int64_t wanted = fair > least ? fair : least;
    return wanted < PANEL ? wanted : PANEL;
}

static turn turn_of(const grail_comm *c, const turn_room *room, const chunk_sums *s, int i)
{
    const int64_t step = rows_of_piece(c, *s->part[i]);
    return (turn){.comm = c,
                  .room = room,
                  .part = *s->part[i],
                  .total = *s->total[i],
                  .lower = s->lower[i],
                  .begins = *s->total_rows == 0,
                  .step = step,
                  .size = (size_t)(step * s->part[i]->columns)};
}

static grail_status make_room(const grail_comm *c, const chunk_sums *s, turn_room *room)
{
    size_t most = 0;
    for (int i = 0; i < s->matrices; i++) {
        const size_t size = turn_of(c, room, s, i).size;
        most = size > most ? size : most;
    }
    CHECK(memory_new(&room->of, (size_t)c->size, sizeof room->of[0]));
    CHECK(memory_new_unset(&room->sent, most, sizeof room->sent[0]));
    return memory_new_unset(&room->received, (size_t)c->size, most * sizeof room->received[0]);
}

/* The piece of a rank among those from row `first` on; without rows where the matrix ends before.
 */
static matrix piece_of_rank(const turn *t, matrix m, int64_t first, int rank)
{
    const int64_t begin = first + rank * t->step;
    return begin < m.rows ? rows_of(m, begin, t->step, t->lower) : matrix_rows(m, 0, 0);
}

static grail_status send_piece(const turn *t, int64_t first, int to)
{
    const matrix piece = piece_of_rank(t, t->part, first, to);
    if (piece.rows == 0 || t->room->of[t->comm->rank].rows == 0) {
        return GRAIL_OK;
    }
    CHECK(matrix_download(piece, t->room->sent));
    return comm_send(t->comm, to, t->room->sent,
                     (size_t)matrix_count(piece) * sizeof t->room->sent[0]);
}

static grail_status receive_piece(const turn *t, int64_t first, int from)
{
    const matrix piece = piece_of_rank(t, t->part, first, t->comm->rank);
    if (piece.rows == 0 || t->room->of[from].rows == 0) {
        return GRAIL_OK;
    }
    return comm_receive(t->comm, from, t->room->received + (size_t)from * t->size,
                        (size_t)matrix_count(piece) * sizeof t->room->received[0]);
}

/* In round k those whose ranks add up to k (mod N) exchange pieces, so that each pair meets once
 * and all pairs of a round at the same time. The lower rank sends first. */
static grail_status exchange_pieces(const turn *t, int64_t first)
{
    const int size = t->comm->size;
    const int own = t->comm->rank;
    for (int round = 0; round < size; round++) {
        const int other = (round - own + size) % size;
        if (own < other) {
            CHECK(send_piece(t, first, other));
        }
        if (own != other) {
            CHECK(receive_piece(t, first, other));
        }
        if (own > other) {
            CHECK(send_piece(t, first, other));
        }
    }
    return GRAIL_OK;
}

/* Adds the piece of one rank; what is added to nothing keeps its bits, as in chunk_sums_fold. */
static grail_status add_piece(matrix piece, bool is_first, matrix into)
{
    return is_first ? matrix_copy(piece, into) : matrix_add_scaled(1.0, piece, into);
}

static grail_status add_pieces(const turn *t, int64_t first)
{
    grail_status status = GRAIL_OK;
    matrix given = {0};
    const matrix into = piece_of_rank(t, t->total, first, t->comm->rank);
    bool is_first = t->begins;
    for (int rank = 0; into.rows > 0 && rank < t->comm->size; rank++) {
        if (t->room->of[rank].rows == 0) {
            continue;
        }
        if (rank == t->comm->rank) {
            TRY(add_piece(piece_of_rank(t, t->part, first, rank), is_first, into));
        } else {
            TRY(matrix_import(into.owner, GRAIL_DTYPE_F64, into.rows, into.columns, into.columns,
                              t->room->received + (size_t)rank * t->size, &given));
            TRY(add_piece(given, is_first, into));
            matrix_free(&given);
        }
        is_first = false;
    }
out:
    matrix_free(&given);
    return status;
}

static grail_status clear_part(const turn *t)
{
    for (int64_t begin = 0; begin < t->part.rows; begin += t->step) {
        CHECK(matrix_zero(rows_of(t->part, begin, t->step, t->lower)));
    }
    return GRAIL_OK;
}

static bool any_rows(const grail_comm *c, const summary *of)
{
    int64_t rows = 0;
    for (int rank = 0; rank < c->size; rank++) {
        rows += of[rank].rows;
    }
    return rows > 0;
}

grail_status chunk_sums_fold_ranks(const grail_comm *c, int ranks, const chunk_sums *s)
{
    grail_status status = GRAIL_OK;
    grail_status added = GRAIL_OK;
    turn_room room = {0};
    if (!comm_is_shared(c)) {
        return chunk_sums_fold(s);
    }
    TRY(comm_settle(c, make_room(c, s, &room)));
    /* of[ranks] on all of them; those behind the first `ranks` have nothing. */
    summary own = {.rows = *s->part_rows};
    for (int i = 0; i < s->numbers; i++) {
        own.number[i] = *s->part_number[i];
    }
    room.of[c->rank] = own;
    if (c->rank != 0) {
        TRY(c->rank < ranks ? comm_send(c, 0, &own, sizeof own) : GRAIL_OK);
    }
    for (int rank = 1; c->rank == 0 && rank < ranks; rank++) {
        TRY(comm_receive(c, rank, &room.of[rank], sizeof room.of[rank]));
    }
    TRY(comm_broadcast_next(c, 0, room.of, (size_t)c->size * sizeof room.of[0]));
    for (int i = 0; any_rows(c, room.of) && i < s->matrices; i++) {
        const turn t = turn_of(c, &room, s, i);
        /* What fails in adding is told with the next exchange, after this one. */
        for (int64_t first = 0; first < t.part.rows; first += t.step * t.comm->size) {
            TRY(exchange_pieces(&t, first));
            added = added == GRAIL_OK ? add_pieces(&t, first) : added;
        }
        TRY(t.room->of[t.comm->rank].rows > 0 ? clear_part(&t) : GRAIL_OK);
    }
    const bool had_rows = *s->part_rows > 0;
    for (int rank = 0; rank < c->size; rank++) {
        for (int i = 0; room.of[rank].rows > 0 && i < s->numbers; i++) {
            *s->total_number[i] += room.of[rank].number[i];
        }
        *s->total_rows += room.of[rank].rows;
    }
    for (int i = 0; had_rows && i < s->numbers; i++) {
        *s->part_number[i] = 0.0;
    }
    *s->part_rows = 0;
    status = added;
out:
    memory_free(room.of);
    memory_free(room.sent);
    memory_free(room.received);
    return status;
}

/* The pieces of a matrix that one rank summed. */
static int pieces_of_rank(const grail_comm *c, matrix m, bool lower, int rank, matrix *out)
{
    int count = 0;
    const int64_t step = rows_of_piece(c, m);
    for (int64_t begin = rank * step; begin < m.rows; begin += c->size * step) {
        out[count++] = rows_of(m, begin, step, lower);
    }
    return count;
}

/* Every piece goes from the rank that summed it to all. */
static grail_status share_matrix(const grail_comm *c, matrix m, bool lower)
{
    grail_status status = GRAIL_OK;
    matrix *pieces = NULL;
    const int64_t turns = m.rows / (rows_of_piece(c, m) * c->size) + 1;
    TRY(memory_new(&pieces, (size_t)turns, sizeof pieces[0]));
    for (int rank = 0; rank < c->size; rank++) {
        TRY(matrices_share(c, rank, pieces, pieces_of_rank(c, m, lower, rank, pieces)));
    }
out:
    memory_free(pieces);
    return status;
}

grail_status chunk_sums_share(const grail_comm *c, const chunk_sums *s)
{
    for (int i = 0; comm_is_shared(c) && *s->total_rows > 0 && i < s->matrices; i++) {
        CHECK(share_matrix(c, *s->total[i], s->lower[i]));
    }
    return GRAIL_OK;
}

/* Rows that count as one each have their weight by now. */
static bool waits(const grail_statistics *s)
{
    return s->weight != (double)s->count;
}

grail_status chunk_sums_settle(backend *b, grail_status so_far, int count,
                               grail_statistics *const *of)
{
    grail_status status = so_far;
    matrix *numbers = NULL;
    double *values = NULL;
    int waiting = 0;
    if (status == GRAIL_OK) {
        status = memory_new(&numbers, (size_t)count + 1, sizeof numbers[0]);
    }
    if (status == GRAIL_OK) {
        status = memory_new(&values, (size_t)count + 1, sizeof values[0]);
    }
    for (int i = 0; i < count && status == GRAIL_OK; i++) {
        if (waits(of[i])) {
            numbers[waiting++] = of[i]->weights;
        }
    }
    status = status == GRAIL_OK ? backend_settle_reading(b, status, waiting, numbers, values)
                                : backend_settle(b, status);
    for (int i = 0, k = 0; i < count && status == GRAIL_OK; i++) {
        if (waits(of[i])) {
            of[i]->weight += values[k++];
            status = matrix_zero(of[i]->weights);
        }
    }
    memory_free(numbers);
    memory_free(values);
    return status;
}
