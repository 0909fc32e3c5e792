/* Selectors on a site of hand-made weights: scores by rows and by columns, draws, and the selection
 * of the best. Foldings by similarity are tested in test_fold and in unit/pipeline/test_folding. */
#include "hand_site.h"

#include "reduce/scores.h"
#include "reduce/selector.h"

#include <math.h>
#include <string.h>

/* Two heads of two features, two outputs. */
static const float consumer[] = {3, -4, 0, 1, 4, 3, -2, 1};
static const double gram_diagonal[] = {4, 1, 9, 0.25};

static void two_heads(hand_site *f)
{
    hand_begin(f, SITE_HEADS, 2, 1);
    hand_add_consumer(f, 2, 2, consumer);
    f->inputs[0].diagonal = gram_diagonal;
}

TEST(every_selector_is_found_by_its_name)
{
    int count = 0;
    for (; selector_at(count) != NULL; count++) {
        const selector *s = NULL;
        assert_ok(selector_from_name(selector_at(count)->name, &s));
        assert_ptr_equal(s, selector_at(count));
        assert_int_equal(selector_index(s), count);
        assert_non_null(s->summary);
    }
    assert_true(count > 1);
    assert_null(selector_at(-1));
}

TEST(an_unknown_selector_lists_the_known_ones)
{
    const selector *s = NULL;
    assert_fails(selector_from_name("Wanda", &s), GRAIL_ERROR_ARGUMENT,
                 "unknown selector 'Wanda'; expected one of random, magnitude-l1, magnitude-l2, "
                 "wanda, fold, random-fold,");
}

/* uses_data says what needs() says of some kind of site. */
TEST(needs_are_declared)
{
    for (int i = 0; selector_at(i) != NULL; i++) {
        unsigned all = 0;
        for (int kind = 0; kind < SITE_KINDS; kind++) {
            const site s = {.kind = (site_kind)kind, .producer_count = 1};
            all |= selector_needs(selector_at(i), &s);
        }
        assert_int_equal(all != 0, selector_at(i)->uses_data);
    }
    const site heads = {.kind = SITE_HEADS};
    const site channels = {.kind = SITE_STREAM};
    assert_int_equal(selector_needs(&selector_wanda, &heads), NEEDS_DIAGONAL);
    assert_int_equal(selector_needs(&selector_wanda, &channels), NEEDS_INPUT_NORMS);
    assert_int_equal(selector_needs(&selector_magnitude_l1, &heads), 0);
}

/* Sums over columns: magnitudes 7 7 2 2, squares 25 25 4 2. */
TEST(columns_are_summed)
{
    static const double expected[2][4] = {{7, 7, 2, 2}, {25, 25, 4, 2}};
    hand_site f;
    two_heads(&f);
    for (int term = TERM_MAGNITUDE; term <= TERM_SQUARE; term++) {
        int64_t features = 0;
        int64_t rows = 0;
        OPENED(double, sums, sums_of_columns(&f.view, (score_term)term, &sums, &features, &rows));
        assert_int_equal(features, 2);
        assert_int_equal(rows, 2);
        assert_memory_equal(sums, expected[term], sizeof expected[term]);
    }
}

/* A unit's features: one column of 4, four of 2.2 each. L1: 4 against 8.8; L2: 4 against 4.4 as the
 * sum of norms, though the norm of all together, 4 * 1.1 = 4.4, agrees; with 1.9 it keeps 4. */
TEST(magnitude_sums_the_norms_of_a_units_columns)
{
    static const float weak[] = {4, 0, 2.2F, 2.2F}; /* one output */
    static const float long_column[] = {3, 0, 2, 2, 3, 0, 2, 2};
    hand_site f;
    hand_begin(&f, SITE_HEADS, 2, 1);
    hand_add_consumer(&f, 2, 1, weak);
    assert_decides(&f, &selector_magnitude_l1, "01");
    assert_decides(&f, &selector_magnitude_l2, "01");
    hand_begin(&f, SITE_HEADS, 2, 1);
    hand_add_consumer(&f, 2, 2,
                      long_column); /* L1 6 and 8, L2 4.24 and 5.66, of all together 4.24 and 4 */
    assert_decides(&f, &selector_magnitude_l1, "01");
    assert_decides(&f, &selector_magnitude_l2, "01");
}

/* 7/2 * 2 + 7/2 * 1 = 10.5 and 2/2 * 3 + 2/2 * 0.5 = 3.5; with the norms turned around 2/2 * 12. */
TEST(wanda_weighs_columns_by_the_norms_of_their_activations)
{
    static const double turned[] = {1, 1, 36, 36};
    hand_site f;
    two_heads(&f);
    assert_decides(&f, &selector_wanda, "10");
    f.inputs[0].diagonal = turned; /* 7 against 12 */
    assert_decides(&f, &selector_wanda, "01");
}

/* Without gradients as wanda, 10.5 and 3.5. Those of the second head's weights of 1, 1 and -2 add
 * 100 (0.04 + 0.04 + 0.08) / 2; that of its weight of 0 adds nothing. */
TEST(wanda_plus_adds_a_hundred_times_the_gradients)
{
    static const float none[8] = {0};
    static const float gradients[] = {0, 0, 0.5F, 0.04F, 0, 0, 0.04F, 0.04F};
    hand_site f;
    double scores[2] = {0};
    two_heads(&f);
    f.inputs[0].width = 4;
    f.inputs[0].rows = f.inputs[0].weight = 5.0;
    f.inputs[0].gradients = none;
    assert_ok(wanda_plus_scores(&f.view, scores));
    assert_near(scores[0], 10.5, 1e-12);
    assert_near(scores[1], 3.5, 1e-12);
    assert_decides(&f, &selector_wanda_plus, "10");
    f.inputs[0].gradients = gradients;
    assert_ok(wanda_plus_scores(&f.view, scores));
    assert_near(scores[0], 10.5, 1e-12);
    assert_near(scores[1], 3.5 + 8.0, 1e-6);
    assert_decides(&f, &selector_wanda_plus, "01");
}

/* Rows of gradients have no weights, so nothing depends on those of the norms beside them. */
TEST(wanda_plus_does_not_see_how_heavy_rows_are)
{
    static const float gradients[] = {0, 0, 0.5F, 0.04F, 0, 0, 0.04F, 0.04F};
    hand_site f;
    double lighter[4];
    double scores[2] = {0};
    two_heads(&f);
    for (int j = 0; j < 4; j++) {
        lighter[j] = f.inputs[0].diagonal[j] * 1e-4;
    }
    f.inputs[0].width = 4;
    f.inputs[0].gradients = gradients;
    f.inputs[0].diagonal = lighter;
    f.inputs[0].rows = 5.0;
    f.inputs[0].weight = 5e-4;
    assert_ok(wanda_plus_scores(&f.view, scores));
    assert_near(scores[0], 10.5, 1e-6);
    assert_near(scores[1], 3.5 + 8.0, 1e-6);
    f.inputs[0].weight = 0.0; /* rows of zeros alone */
    assert_ok(wanda_plus_scores(&f.view, scores));
    assert_near(scores[0], 0.0, 1e-12);
    assert_near(scores[1], 8.0, 1e-6);
}

TEST(silent_features_are_told_apart_by_their_weights)
{
    static const double silent[] = {0, 0, 0, 0};
    static const float second[] = {0, 1, 3, -4, -2, 1, 4, 3};
    hand_site f;
    two_heads(&f);
    f.inputs[0].diagonal = silent;
    assert_decides(&f, &selector_wanda, "10");
    f.weights[0] = second;
    assert_decides(&f, &selector_wanda, "01");
}

/* Two units of two rows in one producer, of one row in another: row sums of magnitudes
 * 10, 3 | 5, 1, of squares 34, 3 | 13, 1. */
static const float wide_rows[] = {3, -4, 0, 3, 1, 1, -1, 0};
static const float narrow_rows[] = {2, 3, 0, 1};

TEST(rows_of_all_producers_score_a_unit_together)
{
    hand_site f;
    double scores[2];
    hand_begin(&f, SITE_STREAM, 2, 1);
    hand_add_producer(&f, 2, 2, wide_rows);
    assert_ok(scores_of_rows(&f.view, TERM_MAGNITUDE, scores));
    assert_near(scores[0], 10.0, 0.0);
    assert_near(scores[1], 3.0, 0.0);
    hand_add_producer(&f, 1, 2, narrow_rows);
    assert_ok(scores_of_rows(&f.view, TERM_MAGNITUDE, scores));
    assert_near(scores[0], 15.0, 0.0);
    assert_near(scores[1], 4.0, 0.0);
    assert_ok(scores_of_rows(&f.view, TERM_SQUARE, scores));
    assert_near(scores[0], 47.0, 0.0);
    assert_near(scores[1], 4.0, 0.0);
    f.view.scored_producers = 1;
    assert_ok(scores_of_rows(&f.view, TERM_SQUARE, scores));
    assert_near(scores[0], 34.0, 0.0);
    assert_decides(&f, &selector_magnitude_l2, "10");
}

TEST(wanda_weighs_rows_by_the_norms_of_their_inputs)
{
    static const double norms[] = {2.0, 0.5};
    static const double silent[] = {0.0, 1.0};
    static const float rows[] = {5, 1, 1, 2};
    hand_site f;
    double scores[2];
    hand_begin(&f, SITE_CONV, 2, 1);
    hand_add_producer(&f, 2, 2, wide_rows);
    f.view.input_norms = norms;
    assert_ok(scores_of_rows(&f.view, TERM_MAGNITUDE, scores));
    assert_near(scores[0], 3.0 * 2.0 + 4.0 * 0.5 + 3.0 * 0.5, 1e-15);
    assert_near(scores[1], 2.0 + 0.5 + 2.0, 1e-15);
    hand_begin(&f, SITE_CONV, 2, 1);
    hand_add_producer(&f, 1, 2, rows);
    f.view.input_norms = norms;
    assert_decides(&f, &selector_wanda, "10");
    f.view.input_norms = silent;
    assert_decides(&f, &selector_wanda, "01");
}

/* A convolution's row has every input channel's taps one after the other. */
TEST(a_norm_serves_all_taps_of_its_channel)
{
    static const double norms[] = {1.0, 10.0};
    static const float rows[] = {1, 1, 0, 0, 0, 0, 0, 1};
    hand_site f;
    double scores[2];
    hand_begin(&f, SITE_CONV, 2, 1);
    hand_add_producer(&f, 1, 4, rows);
    f.parameters[0] = (graph_parameter){.rank = 4, .shape = {2, 2, 1, 2}};
    f.view.input_norms = norms;
    assert_ok(scores_of_rows(&f.view, TERM_MAGNITUDE, scores));
    assert_near(scores[0], 2.0, 0.0);
    assert_near(scores[1], 10.0, 0.0);
}

TEST(a_nan_score_names_its_unit)
{
    static const double broken[] = {1, 1, NAN, 1};
    static const float bad_rows[] = {1, 2, 3, (float)NAN};
    const double nan_scores[] = {1, NAN};
    hand_site f;
    grail_reducer *r = NULL;
    two_heads(&f);
    f.inputs[0].diagonal = broken;
    assert_fails(selector_decide(&selector_wanda, &f.view, &r), GRAIL_ERROR_NUMERIC, "unit 1");
    hand_begin(&f, SITE_CONV, 2, 1);
    hand_add_producer(&f, 1, 2, bad_rows);
    assert_fails(selector_decide(&selector_magnitude_l1, &f.view, &r), GRAIL_ERROR_NUMERIC,
                 "unit 1");
    assert_fails(select_best(2, 1, 1, nan_scores, &r), GRAIL_ERROR_NUMERIC, "unit 1");
    assert_null(r);
}

static grail_reducer *drawn(const selector *s, int64_t units, int64_t kept, uint64_t seed,
                            uint64_t stream)
{
    hand_site f;
    hand_begin(&f, SITE_FFN, units, kept);
    f.view.seed = seed;
    f.view.stream = stream;
    assert_ok(selector_decide(s, &f.view, &f.reducer));
    assert_int_equal(grail_reducer_kept(f.reducer), kept);
    return f.reducer;
}

static bool same_labels(const grail_reducer *a, const grail_reducer *b)
{
    return memcmp(a->labels, b->labels, (size_t)a->units * sizeof a->labels[0]) == 0;
}

TEST(draws_repeat_and_depend_on_seed_and_stream)
{
    const selector *const selectors[] = {&selector_random, &selector_random_fold};
    for (int i = 0; i < 2; i++) {
        OWNED(grail_reducer) *first = drawn(selectors[i], 40, 13, 7, 1);
        OWNED(grail_reducer) *again = drawn(selectors[i], 40, 13, 7, 1);
        OWNED(grail_reducer) *stream = drawn(selectors[i], 40, 13, 7, 2);
        OWNED(grail_reducer) *seed = drawn(selectors[i], 40, 13, 8, 1);
        assert_true(same_labels(first, again));
        assert_false(same_labels(first, stream));
        assert_false(same_labels(first, seed));
    }
}

/* Every unit is kept about equally often. */
TEST(random_selection_is_even)
{
    enum { UNITS = 10, KEPT = 4, DRAWS = 2000 };
    int times[UNITS] = {0};
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        OWNED(grail_reducer) *r = drawn(&selector_random, UNITS, KEPT, seed, 0);
        for (int64_t j = 0; j < UNITS; j++) {
            times[j] += grail_reducer_label(r, j) >= 0;
        }
    }
    for (int j = 0; j < UNITS; j++) { /* 800 expected, standard deviation 22 */
        assert_in_range(times[j], 690, 910);
    }
}

TEST(random_folding_fills_every_cluster)
{
    enum { UNITS = 30 };
    for (int64_t kept = 1; kept <= UNITS; kept++) {
        OWNED(grail_reducer) *r = drawn(&selector_random_fold, UNITS, kept, 7, 1);
        assert_int_equal(reducer_is_identity(r), kept == UNITS);
    }
    hand_site f;
    hand_begin(&f, SITE_FFN, 3, 4);
    assert_fails(selector_decide(&selector_random_fold, &f.view, &f.reducer), GRAIL_ERROR_ARGUMENT,
                 "3 units into 4");
    f.view.kept = 0;
    assert_fails(selector_decide(&selector_random_fold, &f.view, &f.reducer), GRAIL_ERROR_ARGUMENT,
                 "3 units into 0");
}

TEST(the_best_units_are_kept_in_their_old_order)
{
    const double scores[] = {1, 5, 3, -2, 4};
    OPENED(grail_reducer, r, select_best(5, 3, 1, scores, &r));
    assert_kept(r, "01101");
    assert_int_equal(grail_reducer_label(r, 1), 0);
    assert_int_equal(grail_reducer_label(r, 4), 2);
}

TEST(ties_go_to_the_lower_index)
{
    const double scores[] = {1, 2, 1, 2, 1, 1};
    OPENED(grail_reducer, r, select_best(6, 4, 1, scores, &r));
    assert_kept(r, "111100");
}

static bool is_tied(int64_t units, int64_t kept, int64_t groups, const double *scores)
{
    OPENED(grail_reducer, r, select_best(units, kept, groups, scores, &r));
    return r->tied;
}

/* A tie of some units is usual; a tie of all means that the selector knows nothing. */
TEST(equal_scores_of_all_units_are_marked)
{
    const double equal[] = {2, 2, 2, 2};
    const double last[] = {2, 2, 2, 3};
    const double second_group[] = {1, 2, 3, 3};
    const double groups[] = {1, 1, 3, 3};
    assert_true(is_tied(4, 2, 1, equal));
    assert_true(is_tied(4, 1, 1, equal));
    assert_false(is_tied(4, 4, 1, equal));
    assert_false(is_tied(4, 2, 1, last));
    assert_false(is_tied(4, 2, 1, groups));
    assert_true(is_tied(4, 2, 2, groups));
    assert_true(is_tied(4, 2, 2, second_group));
    assert_false(is_tied(4, 4, 2, groups));
}

TEST(groups_keep_equally_many)
{
    const double scores[] = {9, 8, 7, 1, 3, 2};
    OPENED(grail_reducer, r, select_best(6, 4, 2, scores, &r));
    assert_kept(r, "110011");
}

TEST(a_count_that_does_not_fit_the_groups_is_refused)
{
    const double scores[] = {1, 2, 3, 4};
    grail_reducer *r = NULL;
    assert_fails(select_best(4, 3, 2, scores, &r), GRAIL_ERROR_ARGUMENT, "3 of 4 units evenly");
    assert_fails(select_best(4, 2, 3, scores, &r), GRAIL_ERROR_ARGUMENT, "in 3 groups");
    assert_fails(select_best(4, 0, 1, scores, &r), GRAIL_ERROR_ARGUMENT, "0 of 4");
    assert_fails(select_best(4, 8, 1, scores, &r), GRAIL_ERROR_ARGUMENT, "8 of 4");
}

static grail_status decide_with_each(void *context)
{
    grail_status status = GRAIL_OK;
    const selector *const tried[] = {&selector_random, &selector_wanda, &selector_magnitude_l1,
                                     &selector_random_fold};
    for (int i = 0; status == GRAIL_OK && i < 4; i++) {
        hand_site f;
        two_heads(&f);
        status = selector_decide(tried[i], &f.view, &f.reducer);
        grail_reducer_free(f.reducer);
    }
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(decide_with_each, NULL);
}
