#include "stats/chunk_sums.h"

#include "support/matrices.h"
#include "support/ranks.h"

#include <string.h>

/* More rows of G than are sent at once. */
enum { CHUNKS = 7, ROWS = 40, WIDTH = 300, OUTPUTS = 3 };

static float inputs[CHUNKS * ROWS * WIDTH];
static float targets[CHUNKS * ROWS * OUTPUTS];

/* What a rank leaves: all bits that statistics have. */
typedef struct sums {
    double gram[WIDTH * WIDTH], sum[WIDTH], cross[OUTPUTS * WIDTH];
    double target_sum[OUTPUTS], target_square[OUTPUTS];
    double weight, number;
    int64_t count;
} sums;

/* Products in f32 of chunks of one size would add up in f64 without rounding, in any order. */
static float scale_of(int chunk)
{
    return chunk % 3 == 0 ? 1.0F : chunk % 3 == 1 ? 1e3F : 1e6F;
}

static int fill(void **state)
{
    support_fill_normal(inputs, CHUNKS * ROWS * WIDTH, 1);
    support_fill_normal(targets, CHUNKS * ROWS * OUTPUTS, 2);
    for (int i = 0; i < CHUNKS * ROWS; i++) {
        for (int j = 0; j < WIDTH; j++) {
            inputs[i * WIDTH + j] *= scale_of(i / ROWS);
        }
    }
    return 0;
}

/* The third chunk has no rows: its statistics are of held-out batches, say. */
static void add_chunk(int chunk, grail_statistics *s, double *number)
{
    if (chunk != 2) {
        const int64_t first = (int64_t)chunk * ROWS;
        *number += 1.0 / (chunk + 3.0);
        assert_ok(grail_statistics_accumulate(s, ROWS, inputs + first * WIDTH, WIDTH,
                                              targets + first * OUTPUTS, OUTPUTS));
    }
}

static void take_bits(const grail_statistics *s, double number, sums *out)
{
    memset(out, 0, sizeof *out);
    for (int64_t i = 0; i < WIDTH; i++) {
        for (int64_t j = 0; j <= i; j++) {
            out->gram[i * WIDTH + j] = support_element(s->gram, i, j);
        }
    }
    assert_ok(matrix_download(s->sum, out->sum));
    assert_ok(matrix_download(s->cross, out->cross));
    assert_ok(matrix_download(s->target_sum, out->target_sum));
    assert_ok(matrix_download(s->target_square, out->target_square));
    out->weight = s->weight;
    out->number = number;
    out->count = s->count;
}

typedef struct results {
    sums of[RANKS_MOST], expected;
} results;

/* Sums of statistics that are made one by one and added in order. */
static int add_plainly(const grail_comm *comm, void *user)
{
    results *r = user;
    double number = 0.0;
    OPENED(grail_statistics, total, grail_statistics_create(WIDTH, OUTPUTS, &total));
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        double own = 0.0;
        OPENED(grail_statistics, part, grail_statistics_create(WIDTH, OUTPUTS, &part));
        add_chunk(chunk, part, &own);
        assert_ok(grail_statistics_add(total, part));
        number += own;
    }
    take_bits(total, number, &r->expected);
    return 0;
}

/* Rank r takes chunks r, r + size, ... */
static int add_in_chunks(const grail_comm *comm, void *user)
{
    results *r = user;
    double part_number = 0.0;
    double number = 0.0;
    OPENED(grail_statistics, part, grail_statistics_create(WIDTH, OUTPUTS, &part));
    OPENED(grail_statistics, total, grail_statistics_create(WIDTH, OUTPUTS, &total));
    for (int first = 0; first < CHUNKS; first += comm->size) {
        const int ranks = CHUNKS - first < comm->size ? CHUNKS - first : comm->size;
        if (comm->rank < ranks) {
            add_chunk(first + comm->rank, part, &part_number);
        }
        chunk_sums s = chunk_sums_of_statistics(part, total);
        chunk_sums_append_number(&s, &part_number, &number);
        assert_ok(chunk_sums_fold_ranks(comm, ranks, &s));
    }
    chunk_sums s = chunk_sums_of_statistics(part, total);
    chunk_sums_append_number(&s, &part_number, &number);
    assert_ok(chunk_sums_share(comm, &s));
    take_bits(total, number, &r->of[comm->rank]);
    return 0;
}

TEST(all_numbers_of_ranks_give_the_same_bits)
{
    results *r = ranks_shared(sizeof *r);
    ranks_run(1, add_plainly, r, NULL);
    assert_int_equal(r->expected.count, (CHUNKS - 1) * ROWS);
    for (int size = 1; size <= RANKS_MOST; size++) {
        int ended[RANKS_MOST];
        memset(r->of, 0, sizeof r->of);
        ranks_run(size, add_in_chunks, r, ended);
        for (int rank = 0; rank < size; rank++) {
            assert_int_equal(ended[rank], 0);
            assert_memory_equal(&r->of[rank], &r->expected, sizeof r->expected);
        }
    }
}

/* So the test above can fail. */
static int sum_all(const grail_comm *comm, void *user)
{
    results *r = user;
    double number = 0.0;
    OPENED(grail_statistics, total, grail_statistics_create(WIDTH, OUTPUTS, &total));
    for (int chunk = CHUNKS - 1; chunk >= 0; chunk--) {
        add_chunk(chunk, total, &number);
    }
    take_bits(total, number, &r->of[0]);
    return 0;
}

TEST(the_order_of_chunks_matters)
{
    results *r = ranks_shared(sizeof *r);
    ranks_run(1, add_plainly, r, NULL);
    ranks_run(1, sum_all, r, NULL);
    assert_memory_not_equal(r->of[0].gram, r->expected.gram, sizeof r->expected.gram);
}

CMFixtureFunction support_setup = fill;
