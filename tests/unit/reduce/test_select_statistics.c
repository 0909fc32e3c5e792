/* Selectors that score units by statistics, against plain loops over the rows that the statistics
 * are of. */
#include "hand_site.h"

#include "stats/constant_features.h"
#include "support/matrices.h"

#include <math.h>
#include <string.h>

enum { T = 40, MOST_WIDTH = 24, MOST_OUTPUTS = 6, UNITS = 6, DRAWS = 12 };

/* Rows of one consumer's input, and their sums. */
typedef struct measured {
    int64_t width;
    float x[T * MOST_WIDTH]; /* X[T, width] */
    double diagonal[MOST_WIDTH];
    double means[MOST_WIDTH];
    matrix gram; /* owned */
} measured;

static double at(const measured *s, int64_t t, int64_t i)
{
    return (double)s->x[t * s->width + i];
}

/* Features of similar size, so that small errors of a score change the order of the units, with
 * means that are not 0. */
static void fill(measured *s, int64_t width, uint64_t seed)
{
    float sizes[MOST_WIDTH];
    *s = (measured){.width = width};
    support_fill_normal(s->x, T * width, seed);
    support_fill_normal(sizes, width, seed + 1000);
    for (int64_t i = 0; i < T * width; i++) {
        s->x[i] = (s->x[i] + 0.5F * (float)(i % width % 3)) * (1.0F + 0.2F * sizes[i % width]);
    }
}

/* The upper triangle of the Gram matrix is poisoned. */
static void sum_up(backend *b, measured *s)
{
    double gram[MOST_WIDTH * MOST_WIDTH];
    for (int64_t i = 0; i < s->width; i++) {
        for (int64_t j = 0; j < s->width; j++) {
            double sum = 0.0;
            for (int64_t t = 0; t < T; t++) {
                sum += at(s, t, i) * at(s, t, j);
            }
            gram[i * s->width + j] = j > i ? (double)NAN : sum;
        }
        s->diagonal[i] = gram[i * s->width + i];
        s->means[i] = 0.0;
        for (int64_t t = 0; t < T; t++) {
            s->means[i] += at(s, t, i) / T;
        }
    }
    s->gram = support_matrix(b, s->width, s->width, gram);
}

/* The site gets of each consumer's statistics what the selector declares, and no more. */
static void give(hand_site *f, backend *b, const selector *rule, const measured *s)
{
    const unsigned needs = selector_needs(rule, &f->site);
    f->view.backend = b;
    for (int k = 0; k < f->view.input_count; k++) {
        f->inputs[k] = (input_statistics){
            .width = s[k].width,
            .weight = (double)T,
            .diagonal = (needs & NEEDS_DIAGONAL) != 0 ? s[k].diagonal : NULL,
            .means = (needs & NEEDS_MEANS) != 0 ? s[k].means : NULL,
            .gram = (needs & NEEDS_GRAM) != 0 ? s[k].gram : no_matrix,
        };
    }
}

/* Ranks the units of a site on both backends as `scores` says. */
static void assert_ranks_by(hand_site *f, const selector *rule, measured *s, const double *scores)
{
    backend *const backends[] = {on_ref, on_cpu};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < f->view.input_count; k++) {
            sum_up(backends[i], &s[k]);
        }
        give(f, backends[i], rule, s);
        assert_ranks(f, rule, scores);
        for (int k = 0; k < f->view.input_count; k++) {
            matrix_free(&s[k].gram);
        }
    }
}

/* -- FLAP -------------------------------------------------------------------------------------- */

/* The variance in two passes over the rows. */
static double variance(const measured *s, int64_t i)
{
    double mean = 0.0;
    double sum = 0.0;
    for (int64_t t = 0; t < T; t++) {
        mean += at(s, t, i) / T;
    }
    for (int64_t t = 0; t < T; t++) {
        sum += (at(s, t, i) - mean) * (at(s, t, i) - mean);
    }
    return sum / (T - 1);
}

/* The metrics of FLAP written out: WIFV, IFV, WIFN of feature i. */
static double metric(const selector *rule, const measured *s, const float *w, int64_t i)
{
    double squares = 0.0;
    double magnitudes = 0.0;
    double norm = 0.0;
    for (int64_t o = 0; o < MOST_OUTPUTS; o++) {
        squares += (double)w[o * s->width + i] * (double)w[o * s->width + i];
        magnitudes += fabs((double)w[o * s->width + i]);
    }
    for (int64_t t = 0; t < T; t++) {
        norm += at(s, t, i) * at(s, t, i);
    }
    if (rule == &selector_flap_wifn) {
        return magnitudes / MOST_OUTPUTS * sqrt(norm);
    }
    return variance(s, i) * (rule == &selector_flap ? squares : 1.0);
}

static const selector *const flaps[] = {&selector_flap, &selector_flap_ifv, &selector_flap_wifn};

/* Squared per feature in attention, plain in an FFN. */
TEST(flap_adds_its_metrics_over_a_unit)
{
    static const site_kind kinds[] = {SITE_HEADS, SITE_FFN};
    float w[MOST_OUTPUTS * MOST_WIDTH];
    support_fill_normal(w, MOST_OUTPUTS * MOST_WIDTH, 8);
    for (int i = 0; i < 6 * DRAWS; i++) {
        const site_kind kind = kinds[i / 3 % 2];
        const int64_t u = kind == SITE_HEADS ? 4 : 1;
        hand_site f;
        measured s;
        double scores[UNITS] = {0.0};
        fill(&s, UNITS * u, 800 + (uint64_t)i);
        hand_begin(&f, kind, UNITS, 1);
        hand_add_consumer(&f, u, MOST_OUTPUTS, w);
        for (int64_t k = 0; k < s.width; k++) {
            const double value = metric(flaps[i % 3], &s, w, k);
            scores[k / u] += kind == SITE_HEADS ? value * value : value;
        }
        assert_ranks_by(&f, flaps[i % 3], &s, scores);
    }
}

/* Features of two sequences of two rows: {1, 3}, {5, 7} fluctuates by 20 / 3, {0, 4}, {0, 0} by
 * 12 / 3. The update that FLAP published says 5 and 1, and with twice the squared weight behind the
 * second feature it would keep the first. */
TEST(the_fluctuation_is_the_exact_variance)
{
    static const double diagonal[] = {1 + 9 + 25 + 49, 16};
    static const double means[] = {4, 1};
    static const float w[] = {1, 1.4142F};
    hand_site f;
    hand_begin(&f, SITE_FFN, 2, 1);
    hand_add_consumer(&f, 1, 1, w);
    f.inputs[0] =
        (input_statistics){.width = 2, .weight = 4.0, .diagonal = diagonal, .means = means};
    assert_decides(&f, &selector_flap, "01");
    assert_decides(&f, &selector_flap_ifv, "10");
}

/* Rows that weigh less than one together, as tokens behind large residual streams do. */
TEST(small_weights_of_rows_change_no_rank)
{
    static const double diagonal[] = {0.01 * (1 + 9 + 25 + 49), 0.01 * 16};
    static const double means[] = {4, 1};
    static const float w[] = {1, 2};
    hand_site f;
    hand_begin(&f, SITE_FFN, 2, 1);
    hand_add_consumer(&f, 1, 1, w);
    f.inputs[0] =
        (input_statistics){.width = 2, .weight = 0.04, .diagonal = diagonal, .means = means};
    assert_decides(&f, &selector_flap, "01");
    assert_decides(&f, &selector_flap_ifv, "10");
}

/* What centring leaves of a constant may have either sign, and counts as nothing; a share above the
 * rounding of the sums is fluctuation. */
TEST(rounding_errors_are_no_fluctuation)
{
    static const double diagonal[] = {1e6 + 1.0, 1e6 - 1.0, 1.0 + 2e-5};
    static const double means[] = {5e2, 5e2, 0.5};
    static const float w[] = {1e3F, 1e3F, 1};
    hand_site f;
    hand_begin(&f, SITE_FFN, 3, 1);
    hand_add_consumer(&f, 1, 1, w);
    f.inputs[0] = (input_statistics){.width = 3,
                                     .weight = 4.0,
                                     .rounding = sums_rounding(on_cpu, 4),
                                     .diagonal = diagonal,
                                     .means = means};
    assert_decides(&f, &selector_flap, "001");
    assert_decides(&f, &selector_flap_ifv, "001");
}

TEST(a_statistic_that_is_not_a_number_is_not_hidden)
{
    static const double diagonal[] = {1, NAN};
    static const double means[] = {0.5, 0.5};
    static const float w[] = {1, 1};
    hand_site f;
    hand_begin(&f, SITE_FFN, 2, 1);
    hand_add_consumer(&f, 1, 1, w);
    f.inputs[0] =
        (input_statistics){.width = 2, .weight = 4.0, .diagonal = diagonal, .means = means};
    for (int i = 0; i < 3; i++) {
        assert_fails(selector_decide(flaps[i], &f.view, &f.reducer), GRAIL_ERROR_NUMERIC, "unit 1");
    }
}

TEST(flap_has_no_rule_for_channels)
{
    for (int i = 0; i < 3; i++) {
        assert_true(selector_decides(flaps[i], SITE_HEADS) && selector_decides(flaps[i], SITE_FFN));
        assert_false(selector_decides(flaps[i], SITE_CONV));
        assert_false(selector_decides(flaps[i], SITE_STREAM));
    }
    for (int kind = 0; kind < SITE_KINDS; kind++) {
        assert_int_equal(selector_decides(&selector_wanda, (site_kind)kind), kind != SITE_EXPERTS);
        assert_int_equal(selector_decides(&selector_reap, (site_kind)kind), kind == SITE_EXPERTS);
    }
    assert_ptr_equal(selector_for(&selector_wanda, SITE_EXPERTS), &selector_reap);
    assert_ptr_equal(selector_for(&selector_random, SITE_EXPERTS), &selector_random);
    assert_ptr_equal(selector_for(&selector_wanda, SITE_FFN), &selector_wanda);
}

/* -- all --------------------------------------------------------------------------------------- */

TEST(needs_follow_from_the_kind)
{
    const site ffn = {.kind = SITE_FFN};
    const site heads = {.kind = SITE_HEADS};
    assert_int_equal(selector_needs(&selector_flap, &ffn), NEEDS_DIAGONAL | NEEDS_MEANS);
    assert_int_equal(selector_needs(&selector_flap_wifn, &heads), NEEDS_DIAGONAL);
}

static grail_status decide_once(void *context)
{
    hand_site *f = context;
    const grail_status status = selector_decide(&selector_flap, &f->view, &f->reducer);
    grail_reducer_free(f->reducer);
    f->reducer = NULL;
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    float w[MOST_OUTPUTS * MOST_WIDTH];
    hand_site f;
    measured s;
    support_fill_normal(w, MOST_OUTPUTS * MOST_WIDTH, 7);
    fill(&s, UNITS * 2, 70);
    sum_up(on_cpu, &s);
    hand_begin(&f, SITE_HEADS, UNITS, 2);
    hand_add_consumer(&f, 2, MOST_OUTPUTS, w);
    give(&f, on_cpu, &selector_flap, &s);
    support_fail_each_allocation(decide_once, &f);
    matrix_free(&s.gram);
}

/* What makes and reads the units is the same for all, so the kernels alone say which are alike. */
TEST(units_with_similar_kernels_are_folded)
{
    static const float ones[4] = {1.0F, 1.0F, 1.0F, 1.0F};
    static const float kernels[4 * 2] = {1.0F, 2.0F, -3.0F, 0.5F, 1.0F, 2.125F, -3.0F, 0.25F};
    hand_site f;
    hand_begin(&f, SITE_CONV, 4, 2);
    f.view.backend = backend_host();
    hand_add_producer(&f, 1, 1, ones);
    hand_add_consumer(&f, 1, 1, ones);
    hand_add_kernels(&f, 2, kernels);
    assert_ok(selector_decide(&selector_fold, &f.view, &f.reducer));
    for (int64_t j = 0; j < 4; j++) {
        assert_int_equal(grail_reducer_label(f.reducer, j), j % 2);
    }
    grail_reducer_free(f.reducer);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
