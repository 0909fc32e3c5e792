/* The public fit against numpy's least squares on the explicit rows (make_ridge_golden.py). */
#include <grail/ridge.h>

#include "golden/ridge_golden.h"
#include "support/support.h"

enum { NARROW = GOLDEN_KEPT * GOLDEN_FEATURES };

static grail_statistics *statistics_of(const struct golden_case *c)
{
    const int64_t width = c->folds ? NARROW : GOLDEN_WIDTH;
    const int64_t outputs = c->own_target ? 0 : GOLDEN_OUTPUTS;
    grail_statistics *s = NULL;
    assert_ok(grail_statistics_create(width, outputs, &s));
    assert_ok(grail_statistics_accumulate(s, GOLDEN_ROWS, c->folds ? golden_folded : golden_x,
                                          width, c->own_target ? NULL : golden_given, outputs));
    return s;
}

static grail_reducer *reducer_of(const struct golden_case *c)
{
    grail_reducer *r = NULL;
    if (c->folds) {
        assert_ok(grail_reducer_from_labels(GOLDEN_UNITS, GOLDEN_KEPT, golden_labels, &r));
    } else {
        assert_ok(grail_reducer_from_selection(GOLDEN_UNITS, GOLDEN_KEPT, golden_kept, &r));
    }
    return r;
}

/* Weights are rounded to f32; everything before is f64 on exact sums. */
static void assert_case(const struct golden_case *c)
{
    OWNED(grail_statistics) *s = statistics_of(c);
    OWNED(grail_reducer) *reducer = reducer_of(c);
    float weight[GOLDEN_OUTPUTS * NARROW];
    double change[GOLDEN_OUTPUTS];
    grail_compensate_result result;
    const grail_compensate_options options = {.prior = c->prior,
                                              .bias = c->bias,
                                              .reduced = grail_reducer_folds(reducer),
                                              .alpha = c->alpha};
    assert_ok(grail_compensate(s, NULL, reducer, GOLDEN_FEATURES, GOLDEN_OUTPUTS, golden_consumer,
                               &options, weight, c->bias ? change : NULL, &result));
    for (int i = 0; i < GOLDEN_OUTPUTS * NARROW; i++) {
        assert_near((double)weight[i], c->weight[i], 3e-7);
    }
    for (int o = 0; c->bias && o < GOLDEN_OUTPUTS; o++) {
        assert_near(change[o], c->bias_change[o], 1e-12);
    }
    assert_near(result.lambda, c->lambda, 1e-12 * c->lambda);
    assert_near(result.error_before, c->error_before, 1e-12);
    assert_near(result.error_after, c->error_after, 1e-12);
    assert_int_equal(result.fallback, 0);
}

TEST(selections_fit_their_own_output_like_numpy)
{
    for (int i = 0; i < 3; i++) {
        assert_case(&golden_cases[i]);
    }
}

TEST(selections_fit_a_given_target_like_numpy)
{
    assert_case(&golden_cases[3]);
    assert_case(&golden_cases[4]);
}

TEST(foldings_fit_a_given_target_like_numpy)
{
    assert_int_equal(GOLDEN_CASES, 7);
    assert_case(&golden_cases[5]);
    assert_case(&golden_cases[6]);
}
