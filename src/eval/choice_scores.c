#include "eval/choice_scores.h"

#include "eval/token_losses.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_TOKENS = 1 << 14 };

/* A row and the length that it is padded to. */
typedef struct placed_row {
    int64_t index, length;
} placed_row;

/* Rows of one length that run at once. */
typedef struct choice_batch {
    token_windows inputs; /* ids [count, length] */
    int32_t *targets;     /* [count, scored] */
    int64_t first;        /* the first scored position of any row */
    int64_t scored;       /* from there to the last of any row */
    entropy_sums *losses; /* [count, scored] */
} choice_batch;

/* A multiple of 16, or of a sixteenth to an eighth of the length. */
static int64_t padded_length(int64_t inputs, int64_t most)
{
    int64_t step = 16;
    while (16 * step < inputs) {
        step *= 2;
    }
    const int64_t length = (inputs + step - 1) / step * step;
    return length < most ? length : most;
}

/* The longest first, so that a lack of memory shows at once. */
static int compare_rows(const void *a, const void *b)
{
    const placed_row *x = a;
    const placed_row *y = b;
    return x->length != y->length ? (x->length < y->length ? 1 : -1) : x->index < y->index ? -1 : 1;
}

static grail_status order_rows(const choice_rows *rows, int64_t most, placed_row **out)
{
    placed_row *placed = NULL;
    CHECK(memory_new(&placed, (size_t)rows->count, sizeof placed[0]));
    for (int64_t i = 0; i < rows->count; i++) {
        placed[i] = (placed_row){i, padded_length(rows->rows[i].inputs, most)};
    }
    qsort(placed, (size_t)rows->count, sizeof placed[0], compare_rows);
    *out = placed;
    return GRAIL_OK;
}

static void batch_fini(choice_batch *b)
{
    token_windows_fini(&b->inputs);
    memory_free(b->targets);
    memory_free(b->losses);
}

static void find_scored_positions(const choice_rows *rows, const placed_row *placed, int64_t count,
                                  choice_batch *b)
{
    int64_t end = 0;
    b->first = placed[0].length;
    for (int64_t i = 0; i < count; i++) {
        const choice_row *row = &rows->rows[placed[i].index];
        b->first = row->inputs - row->scored < b->first ? row->inputs - row->scored : b->first;
        end = row->inputs > end ? row->inputs : end;
    }
    b->scored = end - b->first;
}

/* What is behind the tokens of a row is token 0, as input and as target: no earlier position sees
 * it, and its losses are not read. */
static grail_status batch_fill(const choice_rows *rows, const placed_row *placed, int64_t count,
                               choice_batch *b)
{
    const int64_t length = placed[0].length;
    b->inputs.count = count;
    b->inputs.length = length;
    find_scored_positions(rows, placed, count, b);
    CHECK(memory_new(&b->inputs.ids, (size_t)(count * length), sizeof b->inputs.ids[0]));
    CHECK(memory_new(&b->targets, (size_t)(count * b->scored), sizeof b->targets[0]));
    CHECK(memory_new(&b->losses, (size_t)(count * b->scored), sizeof b->losses[0]));
    for (int64_t i = 0; i < count; i++) {
        const choice_row *row = &rows->rows[placed[i].index];
        const int32_t *ids = rows->tokens.ids + row->first;
        for (int64_t t = 0; t < row->inputs; t++) {
            b->inputs.ids[i * length + t] = ids[t];
        }
        for (int64_t t = b->first; t < row->inputs; t++) {
            b->targets[i * b->scored + t - b->first] = ids[t + 1];
        }
    }
    return GRAIL_OK;
}

static void add_up(const choice_rows *rows, const placed_row *placed, const choice_batch *b,
                   double *log_likelihoods)
{
    for (int64_t i = 0; i < b->inputs.count; i++) {
        const choice_row *row = &rows->rows[placed[i].index];
        double sum = 0.0;
        for (int64_t t = row->inputs - row->scored; t < row->inputs; t++) {
            sum -= entropy_of(&b->losses[i * b->scored + t - b->first]);
        }
        log_likelihoods[placed[i].index] = sum;
    }
}

static grail_status score_batch(parameter_store *store, const choice_rows *rows,
                                const placed_row *placed, int64_t count, double *log_likelihoods)
{
    grail_status status = GRAIL_OK;
    choice_batch b = {0};
    forward_pass f = {0};
    TRY(batch_fill(rows, placed, count, &b));
    TRY(forward_begin(&f, store->model, store, &b.inputs, 0, count));
    const token_targets targets = {
        .ids = b.targets, .stride = b.scored, .first = b.first, .count = b.scored};
    TRY(token_losses(&f, targets, 0, b.losses));
    add_up(rows, placed, &b, log_likelihoods);
out:
    forward_end(&f);
    batch_fini(&b);
    return status;
}

/* How many rows from the first on run at once. */
static int64_t batch_count(const parameter_store *store, const placed_row *placed, int64_t left)
{
    const int64_t length = placed[0].length;
    const int64_t most = forward_chunk(store->model, store->backend, length,
                                       (forward_limit){.tokens = BATCH_TOKENS});
    int64_t count = 1;
    while (count < left && count < most && placed[count].length == length) {
        count++;
    }
    return count;
}

/* Rows in the order in which they run, and the ranks that take batches of them in turns. */
typedef struct ordered_rows {
    const choice_rows *rows;
    placed_row *placed; /* [rows->count], owned */
    const grail_comm *comm;
} ordered_rows;

static grail_status score_own(parameter_store *store, const ordered_rows *o,
                              choice_observer observer, void *user, double *log_likelihoods)
{
    const int64_t all = o->rows->count;
    int turn = 0;
    for (int64_t i = 0; i < all;) {
        const int64_t count = batch_count(store, o->placed + i, all - i);
        const bool is_own = turn++ % comm_size(o->comm) == comm_rank(o->comm);
        if (is_own) {
            CHECK(score_batch(store, o->rows, o->placed + i, count, log_likelihoods));
        }
        i += count;
        CHECK(is_own ? observer(user, i) : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* theirs[rows]: of rank `from`. Takes those of the batches that are its. */
static void take(const parameter_store *store, const ordered_rows *o, int from,
                 const double *theirs, double *log_likelihoods)
{
    const int64_t all = o->rows->count;
    int turn = 0;
    for (int64_t i = 0; i < all;) {
        const int64_t count = batch_count(store, o->placed + i, all - i);
        const bool is_theirs = turn++ % comm_size(o->comm) == from;
        for (int64_t k = i; is_theirs && k < i + count; k++) {
            log_likelihoods[o->placed[k].index] = theirs[o->placed[k].index];
        }
        i += count;
    }
}

/* Behind a settling. */
static grail_status exchange(const parameter_store *store, const ordered_rows *o, double *theirs,
                             double *log_likelihoods)
{
    const size_t size = (size_t)o->rows->count * sizeof theirs[0];
    for (int rank = 0; rank < comm_size(o->comm); rank++) {
        memcpy(theirs, log_likelihoods, size);
        CHECK(comm_broadcast_next(o->comm, rank, theirs, size));
        take(store, o, rank, theirs, log_likelihoods);
    }
    return GRAIL_OK;
}

grail_status choice_scores(parameter_store *store, const choice_rows *rows, const grail_comm *comm,
                           choice_observer observer, void *user, double *log_likelihoods)
{
    grail_status status = GRAIL_OK;
    ordered_rows o = {.rows = rows, .comm = comm};
    double *theirs = NULL;
    TRY(comm_settle(comm, order_rows(rows, store->model->context, &o.placed)));
    TRY(comm_settle(comm, memory_new_unset(&theirs, (size_t)rows->count, sizeof theirs[0])));
    TRY(comm_settle(comm, score_own(store, &o, observer, user, log_likelihoods)));
    TRY(exchange(store, &o, theirs, log_likelihoods));
out:
    memory_free(theirs);
    memory_free(o.placed);
    return status;
}
