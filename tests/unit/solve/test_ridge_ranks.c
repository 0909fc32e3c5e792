/* Fits by several ranks: the bits of one alone. */
#include "oracle.h"
#include "solve/drift.h"

#include "support/ranks.h"

#include <string.h>

/* Outputs of more than two panels, and more of them than are measured. */
enum { FIT_ROWS = 120, HELD_ROWS = 50, ROWS = FIT_ROWS + HELD_ROWS };
enum { UNITS = 40, KEPT = 25, OUTPUTS = 600 };

static float inputs[ROWS * UNITS];  /* X */
static float drifted[ROWS * UNITS]; /* Z of a map that was not cut */
static float targets[ROWS * OUTPUTS];
static float consumer[OUTPUTS * UNITS];

typedef struct answer {
    float weight[OUTPUTS * UNITS];
    double bias[OUTPUTS];
    ridge_result result;
    double share;
} answer;

typedef struct answers {
    answer of[RANKS_MOST];
    answer expected;
    int choice;
} answers;

static int fill(void **state)
{
    support_fill_normal(inputs, ROWS * UNITS, 1);
    support_fill_normal(drifted, ROWS * UNITS, 2);
    support_fill_normal(targets, ROWS * OUTPUTS, 3);
    support_fill_normal(consumer, OUTPUTS * UNITS, 4);
    for (int i = 0; i < ROWS * UNITS; i++) { /* features depend on their neighbours */
        inputs[i] += i % UNITS == 0 ? 0.0F : 0.7F * inputs[i - 1];
        drifted[i] = 0.7F * inputs[i] + 0.3F * drifted[i] + 0.1F;
    }
    for (int i = 0; i < ROWS * OUTPUTS; i++) {
        for (int j = 0; j < UNITS; j++) {
            targets[i] += inputs[i / OUTPUTS * UNITS + j] * consumer[i % OUTPUTS * UNITS + j];
        }
    }
    return 0;
}

static ridge_options options_for(const grail_comm *comm, int choice)
{
    static const double alphas[] = {1e-5, 1e-4, 1e-3, 1e-2, 1e-1};
    return (ridge_options){
        .ridge = choice % 2 == 0 ? RIDGE_PRIOR : RIDGE_ZERO,
        .scale = RIDGE_SCALE_DIAGONAL,
        .bias = true,
        .moves_prior = true,
        .alphas = alphas,
        .alpha_count = 5,
        .comm = comm,
    };
}

static void observe(bool target, int64_t begin, int64_t end, grail_statistics **out)
{
    const int64_t outputs = target ? OUTPUTS : 0;
    assert_ok(grail_statistics_create(UNITS, outputs, out));
    assert_ok(grail_statistics_accumulate(*out, end - begin, inputs + begin * UNITS, UNITS,
                                          target ? targets + begin * OUTPUTS : NULL, outputs));
}

/* A cut consumer, with a target of its own or its own output. */
static void fit_consumer(const grail_comm *comm, int choice, answer *out)
{
    static float prior[OUTPUTS * KEPT];
    int64_t kept[KEPT];
    grail_statistics *parts[2] = {NULL, NULL};
    regression sums[2] = {{0}, {0}};
    matrix weight = no_matrix;
    const ridge_options options = options_for(comm, choice);
    for (int i = 0; i < KEPT; i++) {
        kept[i] = i + i / 2;
    }
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(UNITS, KEPT, kept, &reducer));
    assert_ok(grail_reducer_merge_columns(reducer, 0, 1, OUTPUTS, consumer, prior));
    observe(choice < 2, 0, FIT_ROWS, &parts[0]);
    observe(choice < 2, FIT_ROWS, ROWS, &parts[1]);
    for (int i = 0; i < 2; i++) {
        assert_ok(oracle_regress(comm, parts[i], reducer, 1, OUTPUTS, consumer, prior, &sums[i]));
        grail_statistics_free(parts[i]);
    }
    assert_ok(matrix_new(backend_host(), GRAIL_DTYPE_F64, OUTPUTS, KEPT, &weight));
    assert_ok(oracle_ridge(&sums[0], &sums[1], prior, &options, weight, out->bias, &out->result));
    assert_ok(matrix_download_f32(weight, out->weight));
    matrix_free(&weight);
    regression_fini(&sums[0]);
    regression_fini(&sums[1]);
}

static void observe_drift(int64_t begin, int64_t end, drift_sums *out)
{
    OWNED(matrix) x = no_matrix;
    OWNED(matrix) z = no_matrix;
    backend *b = backend_host();
    assert_ok(drift_sums_create(b, UNITS, out));
    assert_ok(matrix_new(b, GRAIL_DTYPE_F32, end - begin, UNITS, &x));
    assert_ok(matrix_new(b, GRAIL_DTYPE_F32, end - begin, UNITS, &z));
    assert_ok(matrix_upload_f32(x, inputs + begin * UNITS));
    assert_ok(matrix_upload_f32(z, drifted + begin * UNITS));
    assert_ok(drift_sums_accumulate(out, z, x));
    assert_ok(drift_sums_settle(out));
}

static void fit_drifted(const grail_comm *comm, answer *out)
{
    OWNED(matrix) given = no_matrix;
    OWNED(matrix) fitted = no_matrix;
    OWNED(drift_sums) fit = {0};
    OWNED(drift_sums) held = {0};
    const ridge_options options = options_for(comm, 0);
    observe_drift(0, FIT_ROWS, &fit);
    observe_drift(FIT_ROWS, ROWS, &held);
    assert_ok(
        matrix_import(backend_host(), GRAIL_DTYPE_F32, OUTPUTS, UNITS, UNITS, consumer, &given));
    assert_ok(matrix_new(backend_host(), GRAIL_DTYPE_F32, OUTPUTS, UNITS, &fitted));
    assert_ok(drift_solve(&fit, &held, given, true, &options, fitted, out->bias, &out->share,
                          &out->result));
    assert_ok(matrix_download(fitted, out->weight));
}

enum { CONSUMERS = 4 };

static void solve(const grail_comm *comm, int choice, answer *out)
{
    memset(out, 0, sizeof *out);
    if (choice < CONSUMERS) {
        fit_consumer(comm, choice, out);
    } else {
        fit_drifted(comm, out);
    }
}

static int solve_alone(const grail_comm *comm, void *user)
{
    answers *a = user;
    solve(NULL, a->choice, &a->expected);
    return 0;
}

static int solve_together(const grail_comm *comm, void *user)
{
    answers *a = user;
    solve(comm, a->choice, &a->of[comm->rank]);
    return 0;
}

TEST(all_numbers_of_ranks_give_the_same_bits)
{
    answers *a = ranks_shared(sizeof *a);
    for (a->choice = 0; a->choice <= CONSUMERS; a->choice++) {
        ranks_run(1, solve_alone, a, NULL);
        assert_true(a->expected.result.held_after < a->expected.result.held_before);
        for (int size = 1; size <= RANKS_MOST; size++) {
            int ended[RANKS_MOST];
            ranks_run(size, solve_together, a, ended);
            for (int rank = 0; rank < size; rank++) {
                assert_int_equal(ended[rank], 0);
                assert_memory_equal(&a->of[rank], &a->expected, sizeof a->expected);
            }
        }
    }
}

CMFixtureFunction support_setup = fill;
