#include "pipeline/network/heal_parts.h"

int64_t heal_part_samples(int64_t batch)
{
    enum { PARTS = 4 };
    return (batch + PARTS - 1) / PARTS;
}

/* Some samples that are gone through in turns; of a turn each rank has one part. */
typedef struct pass {
    const heal_parts *parts;
    const int64_t *samples; /* [count] */
    int64_t count;
} pass;

/* What a part adds to the loss. */
typedef struct share {
    double sum;
    int64_t rows;
} share;

static int64_t part_count(const pass *p)
{
    return (p->count + p->parts->size - 1) / p->parts->size;
}

static sample_part part_at(const pass *p, int64_t index)
{
    const int64_t first = index * p->parts->size;
    const int64_t left = p->count - first;
    return (sample_part){.samples = p->samples + first,
                         .count = left < p->parts->size ? left : p->parts->size};
}

/* Ranks that have a part in the turn that begins with part `first`. */
static int ranks_of_turn(const pass *p, int64_t first)
{
    const int64_t left = part_count(p) - first;
    const int size = comm_size(p->parts->comm);
    return left < size ? (int)left : size;
}

static grail_status prepare_turn(const pass *p, int64_t first)
{
    const heal_loss *loss = &p->parts->loss;
    for (int rank = 0; loss->prepare != NULL && rank < ranks_of_turn(p, first); rank++) {
        const sample_part part = part_at(p, first + rank);
        CHECK(loss->prepare(loss->user, &part, rank));
    }
    return GRAIL_OK;
}

static grail_status place_turn(const pass *p, int64_t first)
{
    const heal_loss *loss = &p->parts->loss;
    for (int rank = 0; rank < ranks_of_turn(p, first); rank++) {
        const sample_part part = part_at(p, first + rank);
        CHECK(loss->place(loss->user, &part, rank));
    }
    return GRAIL_OK;
}

static grail_status run_own(const pass *p, int64_t first, int64_t step, int64_t mean_over,
                            share *out)
{
    const heal_loss *loss = &p->parts->loss;
    const int rank = comm_rank(p->parts->comm);
    if (rank >= ranks_of_turn(p, first)) {
        return GRAIL_OK;
    }
    const sample_part part = part_at(p, first + rank);
    return loss->run(loss->user, &part, step, mean_over, &out->sum, &out->rows);
}

static grail_status take_turn(const pass *p, int64_t first, int64_t step, int64_t mean_over,
                              share *out)
{
    CHECK(prepare_turn(p, first));
    CHECK(place_turn(p, first));
    return comm_settle(p->parts->comm, run_own(p, first, step, mean_over, out));
}

grail_status heal_parts_add_gradients(const heal_parts *p, int64_t step, const int64_t *samples,
                                      int64_t count)
{
    const pass all = {.parts = p, .samples = samples, .count = count};
    for (int64_t first = 0; first < part_count(&all); first += comm_size(p->comm)) {
        share lost = {0};
        CHECK(take_turn(&all, first, step, count, &lost));
        CHECK(optimizer_add_parts(p->optimizer, p->comm, ranks_of_turn(&all, first)));
    }
    return optimizer_take_sums(p->optimizer, p->comm);
}

/* Adds up what all ranks have, in the order of parts. */
static grail_status add_shares(const grail_comm *comm, int64_t count, share *shares, share *total)
{
    for (int64_t i = 0; i < count; i++) {
        CHECK(comm_broadcast_next(comm, (int)(i % comm_size(comm)), &shares[i], sizeof shares[i]));
        total->sum += shares[i].sum;
        total->rows += shares[i].rows;
    }
    return GRAIL_OK;
}

grail_status heal_parts_mean(const heal_parts *p, const int64_t *samples, int64_t count,
                             double *loss)
{
    grail_status status = GRAIL_OK;
    const pass all = {.parts = p, .samples = samples, .count = count};
    const int rank = comm_rank(p->comm);
    share *shares = NULL;
    share total = {0};
    TRY(memory_new(&shares, (size_t)(part_count(&all) + comm_size(p->comm)), sizeof shares[0]));
    for (int64_t first = 0; first < part_count(&all); first += comm_size(p->comm)) {
        TRY(take_turn(&all, first, 0, 0, &shares[first + rank]));
    }
    TRY(add_shares(p->comm, part_count(&all), shares, &total));
    *loss = total.rows > 0 ? total.sum / (double)total.rows : 0.0;
out:
    memory_free(shares);
    return status;
}
