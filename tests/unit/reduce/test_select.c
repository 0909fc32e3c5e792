#include "reduce/select.h"

#include "support/support.h"

#include <math.h>

/* Two units of two features, two outputs. */
static const float consumer[] = {3, -4, 0, 1, 4, 3, -2, 1};
static const double gram_diagonal[] = {4, 1, 9, 0.25};

static selector_input two_units(void)
{
    return (selector_input){.units = 2,
                            .features_per_unit = 2,
                            .outputs = 2,
                            .consumer = consumer,
                            .gram_diagonal = gram_diagonal,
                            .seed = 42};
}

static void every_selector_is_found_by_its_name(void **state)
{
    (void)state;
    int count = 0;
    for (; selector_name_at(count) != NULL; count++) {
        selector_kind kind = SELECTOR_RANDOM;
        assert_ok(selector_from_name(selector_name_at(count), &kind));
        assert_int_equal(kind, count);
        assert_string_equal(selector_name(kind), selector_name_at(count));
    }
    assert_int_equal(count, SELECTOR_RANDOM_FOLD + 1);
    assert_null(selector_name_at(-1));
}

static void an_unknown_selector_lists_the_known_ones(void **state)
{
    (void)state;
    selector_kind kind = SELECTOR_WANDA;
    assert_fails(selector_from_name("Wanda", &kind), GRAIL_ERROR_ARGUMENT,
                 "unknown selector 'Wanda'; expected one of random, magnitude-l1, magnitude-l2, "
                 "wanda, fold, random-fold");
}

static void only_wanda_needs_statistics_and_only_foldings_fold(void **state)
{
    (void)state;
    for (int kind = SELECTOR_RANDOM; kind <= SELECTOR_RANDOM_FOLD; kind++) {
        assert_int_equal(selector_needs_statistics(kind), kind == SELECTOR_WANDA);
        assert_int_equal(selector_folds(kind),
                         kind == SELECTOR_FOLD || kind == SELECTOR_RANDOM_FOLD);
    }
}

/* Column norms: L1 7 7 2 2, L2 5 5 2 sqrt(2). */
static void magnitude_sums_the_column_norms_of_a_unit(void **state)
{
    (void)state;
    const selector_input input = two_units();
    double scores[2];
    assert_ok(selector_scores(SELECTOR_MAGNITUDE_L1, &input, scores));
    assert_near(scores[0], 14.0, 0.0);
    assert_near(scores[1], 4.0, 0.0);
    assert_ok(selector_scores(SELECTOR_MAGNITUDE_L2, &input, scores));
    assert_near(scores[0], 10.0, 1e-15);
    assert_near(scores[1], 2.0 + sqrt(2.0), 1e-15);
}

/* 7/2 * 2 + 7/2 * 1 and 2/2 * 3 + 2/2 * 0.5 */
static void wanda_weighs_columns_by_the_norm_of_their_activations(void **state)
{
    (void)state;
    const selector_input input = two_units();
    double scores[2];
    assert_ok(selector_scores(SELECTOR_WANDA, &input, scores));
    assert_near(scores[0], 10.5, 1e-15);
    assert_near(scores[1], 3.5, 1e-15);
}

static void silent_features_are_told_apart_by_their_weights(void **state)
{
    (void)state;
    selector_input input = two_units();
    const double silent[] = {0, 0, 0, 0};
    input.gram_diagonal = silent;
    double scores[2];
    assert_ok(selector_scores(SELECTOR_WANDA, &input, scores));
    assert_near(scores[0], 7e-8, 1e-20);
    assert_near(scores[1], 2e-8, 1e-20);
}

/* Two units of two rows in one producer, of one row in another: row sums of magnitudes
 * 10, 3 | 5, 1, of squares 34, 3 | 13, 1. */
static const float wide_rows[] = {3, -4, 0, 3, 1, 1, -1, 0};
static const float narrow_rows[] = {2, 3, 0, 1};

static void rows_of_all_producers_score_a_unit_together(void **state)
{
    (void)state;
    const producer_rows wide = {.weight = wide_rows, .columns = 2};
    const producer_rows both[] = {{.weight = narrow_rows, .columns = 2},
                                  {.weight = wide_rows, .columns = 2}};
    double scores[2];
    assert_ok(selector_row_scores(SELECTOR_MAGNITUDE_L1, 2, 2, 1, &wide, scores));
    assert_near(scores[0], 10.0, 0.0);
    assert_near(scores[1], 3.0, 0.0);
    assert_ok(selector_row_scores(SELECTOR_MAGNITUDE_L2, 2, 2, 1, &wide, scores));
    assert_near(scores[0], sqrt(34.0), 1e-15);
    assert_near(scores[1], sqrt(3.0), 1e-15);
    assert_ok(selector_row_scores(SELECTOR_MAGNITUDE_L1, 2, 1, 2, both, scores));
    assert_near(scores[0], 5.0 + 7.0, 0.0);
    assert_near(scores[1], 1.0 + 3.0, 0.0);
    assert_ok(selector_row_scores(SELECTOR_MAGNITUDE_L2, 2, 1, 2, both, scores));
    assert_near(scores[0], sqrt(13.0 + 25.0), 1e-15); /* of the rows together, not a sum of norms */
    assert_near(scores[1], sqrt(1.0 + 9.0), 1e-15);
}

static void wanda_weighs_rows_by_the_norms_of_their_inputs(void **state)
{
    (void)state;
    const double norms[] = {2.0, 0.5};
    const producer_rows rows = {.weight = wide_rows, .columns = 2, .column_norms = norms};
    double scores[2];
    assert_ok(selector_row_scores(SELECTOR_WANDA, 2, 2, 1, &rows, scores));
    assert_near(scores[0], 3.0 * 2.0 + 4.0 * 0.5 + 3.0 * 0.5, 1e-15);
    assert_near(scores[1], 2.0 + 0.5 + 2.0, 1e-15);
}

static void a_nan_in_a_row_names_its_unit(void **state)
{
    (void)state;
    const float bad[] = {1, 2, 3, (float)NAN};
    const producer_rows rows = {.weight = bad, .columns = 2};
    double scores[2];
    assert_fails(selector_row_scores(SELECTOR_MAGNITUDE_L1, 2, 1, 1, &rows, scores),
                 GRAIL_ERROR_NUMERIC, "unit 1");
}

static void wanda_without_statistics_is_refused(void **state)
{
    (void)state;
    selector_input input = two_units();
    input.gram_diagonal = NULL;
    double scores[2];
    assert_fails(selector_scores(SELECTOR_WANDA, &input, scores), GRAIL_ERROR_ARGUMENT,
                 "'wanda' needs statistics");
}

static void a_folding_has_no_scores(void **state)
{
    (void)state;
    const selector_input input = two_units();
    double scores[2];
    assert_fails(selector_scores(SELECTOR_FOLD, &input, scores), GRAIL_ERROR_ARGUMENT,
                 "'fold' clusters units");
}

static void a_nan_score_names_its_unit(void **state)
{
    (void)state;
    selector_input input = two_units();
    const double broken[] = {1, 1, NAN, 1};
    const double nan_scores[] = {1, NAN};
    input.gram_diagonal = broken;
    double scores[2];
    grail_reducer *r = NULL;
    assert_fails(selector_scores(SELECTOR_WANDA, &input, scores), GRAIL_ERROR_NUMERIC, "unit 1");
    assert_fails(select_best(2, 1, 1, nan_scores, &r), GRAIL_ERROR_NUMERIC, "unit 1");
    assert_null(r);
}

static void random_scores_are_a_permutation_told_apart_by_seed_and_stream(void **state)
{
    (void)state;
    enum { UNITS = 40 };
    selector_input input = {.units = UNITS, .features_per_unit = 1, .seed = 42};
    double first[UNITS];
    double again[UNITS];
    double other[UNITS];
    assert_ok(selector_scores(SELECTOR_RANDOM, &input, first));
    assert_ok(selector_scores(SELECTOR_RANDOM, &input, again));
    input.stream = 1;
    assert_ok(selector_scores(SELECTOR_RANDOM, &input, other));
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    double sum = 0.0;
    double squares = 0.0;
    for (int i = 0; i < UNITS; i++) {
        sum += first[i];
        squares += first[i] * first[i];
    }
    assert_near(sum, UNITS * (UNITS - 1) / 2.0, 0.0);
    assert_near(squares, (UNITS - 1) * UNITS * (2 * UNITS - 1) / 6.0, 0.0);
}

static void assert_kept(const grail_reducer *r, const char *pattern)
{
    for (int64_t j = 0; j < r->units; j++) {
        assert_int_equal(grail_reducer_label(r, j) >= 0, pattern[j] == '1');
    }
}

static void the_best_units_are_kept_in_their_old_order(void **state)
{
    (void)state;
    const double scores[] = {1, 5, 3, -2, 4};
    grail_reducer *r = NULL;
    assert_ok(select_best(5, 3, 1, scores, &r));
    assert_kept(r, "01101");
    assert_int_equal(grail_reducer_label(r, 1), 0);
    assert_int_equal(grail_reducer_label(r, 4), 2);
    grail_reducer_free(r);
}

static void ties_go_to_the_lower_index(void **state)
{
    (void)state;
    const double scores[] = {1, 2, 1, 2, 1, 1};
    grail_reducer *r = NULL;
    assert_ok(select_best(6, 4, 1, scores, &r));
    assert_kept(r, "111100");
    grail_reducer_free(r);
}

static void groups_keep_equally_many(void **state)
{
    (void)state;
    const double scores[] = {9, 8, 7, 1, 3, 2};
    grail_reducer *r = NULL;
    assert_ok(select_best(6, 4, 2, scores, &r));
    assert_kept(r, "110011");
    grail_reducer_free(r);
}

static void a_count_that_does_not_fit_the_groups_is_refused(void **state)
{
    (void)state;
    const double scores[] = {1, 2, 3, 4};
    grail_reducer *r = NULL;
    assert_fails(select_best(4, 3, 2, scores, &r), GRAIL_ERROR_ARGUMENT, "3 of 4 units evenly");
    assert_fails(select_best(4, 2, 3, scores, &r), GRAIL_ERROR_ARGUMENT, "in 3 groups");
    assert_fails(select_best(4, 0, 1, scores, &r), GRAIL_ERROR_ARGUMENT, "0 of 4");
    assert_fails(select_best(4, 8, 1, scores, &r), GRAIL_ERROR_ARGUMENT, "8 of 4");
}

static void random_folding_fills_every_cluster_and_repeats(void **state)
{
    (void)state;
    enum { UNITS = 30 };
    for (int64_t kept = 1; kept <= UNITS; kept++) {
        grail_reducer *first = NULL;
        grail_reducer *again = NULL;
        assert_ok(fold_randomly(UNITS, kept, 7, 1, &first));
        assert_ok(fold_randomly(UNITS, kept, 7, 1, &again));
        assert_int_equal(grail_reducer_kept(first), kept);
        assert_memory_equal(first->labels, again->labels, UNITS * sizeof *first->labels);
        grail_reducer_free(first);
        grail_reducer_free(again);
    }
    grail_reducer *all = NULL;
    assert_ok(fold_randomly(UNITS, UNITS, 7, 1, &all));
    assert_true(reducer_is_identity(all));
    grail_reducer_free(all);
}

static void random_folding_depends_on_the_stream(void **state)
{
    (void)state;
    grail_reducer *first = NULL;
    grail_reducer *other = NULL;
    assert_ok(fold_randomly(30, 10, 7, 1, &first));
    assert_ok(fold_randomly(30, 10, 7, 2, &other));
    assert_memory_not_equal(first->labels, other->labels, 30 * sizeof *first->labels);
    grail_reducer_free(first);
    grail_reducer_free(other);
    grail_reducer *none = NULL;
    assert_fails(fold_randomly(3, 4, 0, 0, &none), GRAIL_ERROR_ARGUMENT, "3 units into 4");
    assert_fails(fold_randomly(3, 0, 0, 0, &none), GRAIL_ERROR_ARGUMENT, "3 units into 0");
}

static grail_status select_and_fold(void *context)
{
    (void)context;
    const selector_input input = two_units();
    double scores[2];
    grail_reducer *selected = NULL;
    grail_reducer *folded = NULL;
    grail_status status = selector_scores(SELECTOR_RANDOM, &input, scores);
    if (status == GRAIL_OK) {
        status = selector_scores(SELECTOR_WANDA, &input, scores);
    }
    if (status == GRAIL_OK) {
        status = select_best(2, 1, 1, scores, &selected);
    }
    if (status == GRAIL_OK) {
        status = fold_randomly(2, 1, 0, 0, &folded);
    }
    grail_reducer_free(selected);
    grail_reducer_free(folded);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    support_fail_each_allocation(select_and_fold, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_selector_is_found_by_its_name),
        cmocka_unit_test(an_unknown_selector_lists_the_known_ones),
        cmocka_unit_test(only_wanda_needs_statistics_and_only_foldings_fold),
        cmocka_unit_test(magnitude_sums_the_column_norms_of_a_unit),
        cmocka_unit_test(wanda_weighs_columns_by_the_norm_of_their_activations),
        cmocka_unit_test(silent_features_are_told_apart_by_their_weights),
        cmocka_unit_test(rows_of_all_producers_score_a_unit_together),
        cmocka_unit_test(wanda_weighs_rows_by_the_norms_of_their_inputs),
        cmocka_unit_test(a_nan_in_a_row_names_its_unit),
        cmocka_unit_test(wanda_without_statistics_is_refused),
        cmocka_unit_test(a_folding_has_no_scores),
        cmocka_unit_test(a_nan_score_names_its_unit),
        cmocka_unit_test(random_scores_are_a_permutation_told_apart_by_seed_and_stream),
        cmocka_unit_test(the_best_units_are_kept_in_their_old_order),
        cmocka_unit_test(ties_go_to_the_lower_index),
        cmocka_unit_test(groups_keep_equally_many),
        cmocka_unit_test(a_count_that_does_not_fit_the_groups_is_refused),
        cmocka_unit_test(random_folding_fills_every_cluster_and_repeats),
        cmocka_unit_test(random_folding_depends_on_the_stream),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
