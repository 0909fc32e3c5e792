/* Sample streams: the values that are live between two nodes, kept for every batch while the sample
 * stream moves. */
#include "support/ranks.h"
#include "support/support.h"

#include "exec/sample_stream.h"

enum { BATCHES = 3, ROWS = 2, WIDTH = 4, COUNT = ROWS * WIDTH };

static int add_node(graph *g, node_kind kind, int left, int right)
{
    node n = node_of(kind, 0, left, right);
    n.activation = ACTIVATION_RELU;
    int value = 0;
    assert_ok(graph_add_node(g, &n, &value));
    return value;
}

/* a = relu(ids), b = relu(a), c = a + b, and at the end + relu(ids): before node 1 a lives, before
 * node 2 a and b, and the ids all along. */
static graph *chain(void)
{
    graph *g = NULL;
    assert_ok(graph_create(&g));
    const int a = add_node(g, NODE_ACTIVATION, g->input, GRAPH_NONE);
    const int b = add_node(g, NODE_ACTIVATION, a, GRAPH_NONE);
    const int c = add_node(g, NODE_ADD, a, b);
    const int d = add_node(g, NODE_ACTIVATION, g->input, GRAPH_NONE);
    assert_ok(graph_finish(g, add_node(g, NODE_ADD, c, d)));
    return g;
}

typedef struct fixture {
    graph *g;
    matrix_pool *pool;
    execution *e;
    sample_stream s;
} fixture;

static void fill(execution *e, int value, double first)
{
    double values[COUNT];
    matrix place = {0};
    assert_ok(execution_make(e, value, WIDTH, &place));
    for (int i = 0; i < COUNT; i++) {
        values[i] = first + i;
    }
    assert_ok(matrix_upload(place, values));
}

static void begin_batch(fixture *f)
{
    assert_ok(execution_begin(f->e, sequence_batch(1, ROWS), (batch_input){0}));
}

/* The sample stream stands before node 1 and holds a = 100 b + i. */
static void setup(fixture *f)
{
    *f = (fixture){.g = chain()};
    assert_ok(matrix_pool_create(backend_reference(), &f->pool));
    assert_ok(execution_create(f->g, backend_reference(), f->pool, &f->e));
    assert_ok(sample_stream_init(&f->s, f->g, backend_reference(), BATCHES));
    assert_ok(sample_stream_move_begin(&f->s, 1));
    for (int64_t batch = 0; batch < BATCHES; batch++) {
        begin_batch(f);
        fill(f->e, 1, 100.0 * (double)batch);
        assert_ok(sample_stream_write(&f->s, batch, f->e));
    }
    sample_stream_move_end(&f->s);
}

static void teardown(fixture *f)
{
    sample_stream_fini(&f->s);
    sample_stream_fini(&f->s);
    execution_free(f->e);
    matrix_pool_free(f->pool);
    graph_free(f->g);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, f, setup, teardown, name)

static void assert_filled(const execution *e, int value, double first)
{
    double values[COUNT];
    const matrix m = execution_value(e, value);
    assert_true(matrix_exists(m));
    assert_int_equal(m.rows, ROWS);
    assert_int_equal(m.columns, WIDTH);
    assert_ok(matrix_download(m, values));
    for (int i = 0; i < COUNT; i++) {
        assert_true(values[i] == first + i);
    }
}

FIXTURE_TEST(peeking_leaves_the_stream_as_it_is)
{
    assert_int_equal(f->s.position, 1);
    assert_int_equal(f->s.live_count, 1); /* the ids are not a value of the sample stream */
    assert_int_equal(f->s.live[0], 1);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t batch = 0; batch < BATCHES; batch++) {
            begin_batch(f);
            assert_ok(sample_stream_peek(&f->s, batch, f->e));
            assert_filled(f->e, 1, 100.0 * (double)batch);
        }
    }
}

FIXTURE_TEST(a_stream_moves_with_all_that_lives)
{
    assert_ok(sample_stream_move_begin(&f->s, 2));
    for (int64_t batch = 0; batch < BATCHES; batch++) {
        begin_batch(f);
        assert_ok(sample_stream_read(&f->s, batch, f->e));
        assert_false(matrix_exists(f->s.held[batch])); /* memory goes as it is read */
        assert_filled(f->e, 1, 100.0 * (double)batch);
        fill(f->e, 2, 7.0 + (double)batch);
        assert_ok(sample_stream_write(&f->s, batch, f->e));
    }
    sample_stream_move_end(&f->s);
    assert_int_equal(f->s.position, 2);
    assert_int_equal(f->s.live_count, 2);
    for (int64_t batch = BATCHES - 1; batch >= 0; batch--) {
        begin_batch(f);
        assert_ok(sample_stream_peek(&f->s, batch, f->e));
        assert_filled(f->e, 1, 100.0 * (double)batch);
        assert_filled(f->e, 2, 7.0 + (double)batch);
    }
}

/* The copy stays where it is when the first one moves, and has what it needs of its own. */
FIXTURE_TEST(a_copy_does_not_move)
{
    OWNED(sample_stream) copy = {0};
    sample_stream_drop(&f->s, 1); /* as where another rank holds it */
    assert_ok(sample_stream_copy(&f->s, &copy));
    sample_stream_drop(&f->s, 0);
    sample_stream_fini(&f->s);
    assert_int_equal(copy.position, 1);
    assert_false(sample_stream_holds(&copy, 1));
    for (int64_t batch = 0; batch < BATCHES; batch += 2) {
        begin_batch(f);
        assert_ok(sample_stream_peek(&copy, batch, f->e));
        assert_filled(f->e, 1, 100.0 * (double)batch);
    }
}

/* A sample stream that moved without a write holds nothing, and is filled batch by batch. */
FIXTURE_TEST(batches_may_be_kept_in_any_order)
{
    assert_ok(sample_stream_move_begin(&f->s, 2));
    sample_stream_move_end(&f->s);
    for (int64_t batch = BATCHES - 1; batch >= 1; batch--) {
        assert_false(sample_stream_holds(&f->s, batch));
        begin_batch(f);
        fill(f->e, 1, 100.0 * (double)batch);
        fill(f->e, 2, 7.0 + (double)batch);
        assert_ok(sample_stream_keep(&f->s, batch, f->e, 0));
        assert_true(sample_stream_holds(&f->s, batch));
    }
    assert_false(sample_stream_holds(&f->s, 0));
    sample_stream_drop(&f->s, 0); /* which holds nothing */
    for (int64_t batch = 1; batch < BATCHES; batch++) {
        begin_batch(f);
        const sample_pick pick = {.samples = &batch, .count = 1};
        assert_ok(sample_stream_pick(&f->s, &pick, f->e));
        assert_filled(f->e, 1, 100.0 * (double)batch);
        assert_filled(f->e, 2, 7.0 + (double)batch);
        sample_stream_drop(&f->s, batch);
        assert_false(sample_stream_holds(&f->s, batch));
    }
}

/* Rank b holds batch b; rank 1 gets batches 2, 0 and 1, in this order. */
static int pick_from_all(const grail_comm *comm, void *user)
{
    static const int holders[BATCHES] = {0, 1, 2};
    static const int64_t samples[BATCHES] = {2, 0, 1};
    static const int64_t widths[] = {WIDTH, WIDTH};
    const sample_pick pick = {.samples = samples,
                              .count = BATCHES,
                              .comm = comm,
                              .holders = holders,
                              .widths = widths,
                              .runner = 1};
    double values[BATCHES * COUNT];
    int wrong = 0;
    fixture f;
    setup(&f);
    for (int64_t batch = 0; batch < BATCHES; batch++) {
        if (batch != comm->rank) {
            sample_stream_drop(&f.s, batch);
        }
    }
    assert_ok(execution_begin(f.e, sequence_batch(BATCHES, ROWS), (batch_input){0}));
    assert_ok(sample_stream_pick(&f.s, &pick, f.e));
    const matrix m = execution_value(f.e, 1);
    if (comm->rank != 1) {
        wrong += matrix_exists(m) ? 1 : 0;
    } else {
        assert_ok(matrix_download(m, values));
        for (int i = 0; i < BATCHES * COUNT; i++) {
            const double expected = 100.0 * (double)samples[i / COUNT] + i % COUNT;
            wrong += values[i] == expected ? 0 : 1;
        }
    }
    teardown(&f);
    return wrong;
}

TEST(samples_are_picked_from_all_ranks)
{
    int ended[RANKS_MOST];
    ranks_run(BATCHES, pick_from_all, NULL, ended);
    for (int rank = 0; rank < BATCHES; rank++) {
        assert_int_equal(ended[rank], 0);
    }
}

FIXTURE_TEST(a_held_value_keeps_some_columns_in_every_batch)
{
    const int64_t kept[] = {1, 3};
    double values[ROWS * 2];
    assert_ok(sample_stream_gather(&f->s, 1, 2, kept));
    assert_ok(sample_stream_gather(&f->s, 2, 2, kept)); /* is not held */
    for (int64_t batch = 0; batch < BATCHES; batch++) {
        begin_batch(f);
        assert_ok(sample_stream_peek(&f->s, batch, f->e));
        const matrix m = execution_value(f->e, 1);
        assert_int_equal(m.columns, 2);
        assert_ok(matrix_download(m, values));
        for (int i = 0; i < ROWS * 2; i++) {
            assert_true(values[i] == 100.0 * (double)batch + i / 2 * WIDTH + (double)kept[i % 2]);
        }
    }
}

TEST(a_value_that_was_not_computed_is_missed)
{
    fixture f;
    setup(&f);
    assert_ok(sample_stream_move_begin(&f.s, 2));
    begin_batch(&f);
    assert_ok(sample_stream_read(&f.s, 0, f.e));
    assert_fails(sample_stream_write(&f.s, 0, f.e), GRAIL_ERROR_INTERNAL,
                 "a live value is missing before node 2");
    teardown(&f); /* in the middle of a move */
}

static grail_status move_once(void *context)
{
    const graph *g = context;
    OWNED(matrix_pool) *pool = NULL;
    OWNED(execution) *e = NULL;
    OWNED(sample_stream) s = {0};
    const double zeros[COUNT] = {0.0};
    matrix place = {0};
    CHECK(matrix_pool_create(backend_reference(), &pool));
    CHECK(execution_create(g, backend_reference(), pool, &e));
    CHECK(sample_stream_init(&s, g, backend_reference(), 1));
    CHECK(sample_stream_move_begin(&s, 1));
    CHECK(execution_begin(e, sequence_batch(1, ROWS), (batch_input){0}));
    CHECK(execution_make(e, 1, WIDTH, &place));
    CHECK(matrix_upload(place, zeros));
    CHECK(sample_stream_write(&s, 0, e));
    sample_stream_move_end(&s);
    CHECK(sample_stream_move_begin(&s, 2));
    CHECK(sample_stream_read(&s, 0, e));
    CHECK(execution_run(e, NULL, 1, 2));
    CHECK(sample_stream_write(&s, 0, e));
    sample_stream_move_end(&s);
    return GRAIL_OK;
}

TEST(every_failing_allocation_is_survived)
{
    OWNED(graph) *g = chain();
    support_fail_each_allocation(move_once, g);
}
