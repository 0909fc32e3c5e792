/* Weighted rows in the solve: a weight is a number of equal rows. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum {
    T = ORACLE_ROWS,
    H = ORACLE_WIDTH,
    K = ORACLE_KEPT,
    O = ORACLE_OUTPUTS,
    MOST = 5,                      /* rows are repeated 1, 2, ... MOST times, and so on */
    ROUND = MOST * (MOST + 1) / 2, /* rows of MOST different ones */
    SPLIT = 3 * ROUND,             /* the held-out part begins here */
    DISTINCT = MOST * (T / ROUND), /* different rows */
    DISTINCT_SPLIT = MOST * SPLIT / ROUND
};

/* How often distinct row i is there. */
static int64_t times(int64_t i)
{
    return i % MOST + 1;
}

/* Rows of X and of the target: the first DISTINCT ones, each as often as times() says. */
static void repeat_rows(const oracle *distinct, oracle *out)
{
    int64_t t = 0;
    *out = *distinct;
    for (int64_t i = 0; i < DISTINCT; i++) {
        for (int64_t k = 0; k < times(i); k++, t++) {
            memcpy(out->x + t * H, distinct->x + i * H, H * sizeof out->x[0]);
            memcpy(out->given + t * O, distinct->given + i * O, O * sizeof out->given[0]);
        }
    }
    assert_int_equal(t, T);
    oracle_derive(out);
}

/* The regression of distinct rows begin .. end-1 with their weights. */
static regression weighted_regression(const oracle *o, int64_t begin, int64_t end, bool target)
{
    double root[DISTINCT];
    const int64_t rows = end - begin;
    regression r = {0};
    OWNED(grail_reducer) *reducer = oracle_reducer();
    OWNED(matrix) x = support_rows(on_ref, rows, H, H, o->x + begin * H);
    OWNED(matrix) y = support_rows(on_ref, rows, O, O, o->given + begin * O);
    for (int64_t i = begin; i < end; i++) {
        root[i - begin] = sqrt((double)times(i));
    }
    OPENED(grail_statistics, s, statistics_create(on_ref, H, target ? O : 0, &s));
    matrix of = support_matrix(on_ref, 1, rows, root);
    assert_ok(statistics_accumulate_weighted(s, of, x, target ? y : no_matrix, x));
    assert_ok(statistics_read_weight(s));
    matrix_free(&of);
    assert_ok(oracle_regress(NULL, s, reducer, 1, O, o->consumer, o->prior, &r));
    return r;
}

static void assert_same_fit(const oracle *distinct, bool bias, bool target)
{
    const double alphas[] = {1e-3, 1e-2, 1e-1, 1.0};
    const ridge_options options = {
        .ridge = RIDGE_PRIOR, .bias = bias, .alphas = alphas, .alpha_count = 4};
    oracle repeated;
    double weight[2][O * K];
    double change[2][O] = {{0}};
    ridge_result weighted;
    repeat_rows(distinct, &repeated);
    const ridge_result expected =
        oracle_run(on_ref, &repeated, SPLIT, target, &options, weight[0], bias ? change[0] : NULL);
    regression fit = weighted_regression(distinct, 0, DISTINCT_SPLIT, target);
    regression held = weighted_regression(distinct, DISTINCT_SPLIT, DISTINCT, target);
    assert_near(fit.weight, SPLIT, 1e-12);
    assert_ok(oracle_fit(&fit, &held, distinct->prior, &options, weight[1], bias ? change[1] : NULL,
                         &weighted));
    assert_near(weighted.alpha, expected.alpha, 0.0);
    assert_near(weighted.lambda, expected.lambda, 1e-9 * expected.lambda);
    assert_near(weighted.fit_before, expected.fit_before, 1e-9);
    assert_near(weighted.fit_after, expected.fit_after, 1e-9);
    assert_near(weighted.held_before, expected.held_before, 1e-9);
    assert_near(weighted.held_after, expected.held_after, 1e-9);
    assert_all_near(O * K, weight[1], weight[0], 1e-9);
    assert_all_near(O, change[1], change[0], 1e-9);
    regression_fini(&fit);
    regression_fini(&held);
}

TEST(the_fit_is_that_of_repeated_rows)
{
    oracle distinct;
    oracle_fill(&distinct, 51);
    for (int choice = 0; choice < 4; choice++) {
        assert_same_fit(&distinct, (choice & 1) != 0, (choice & 2) != 0);
    }
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
