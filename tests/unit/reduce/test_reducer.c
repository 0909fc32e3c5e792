#include "reduce/reducer.h"

#include "support/support.h"

#include <math.h>
#include <string.h>

static grail_reducer *selection(int64_t units, int64_t kept_count, const int64_t *kept)
{
    grail_reducer *r = NULL;
    assert_ok(grail_reducer_from_selection(units, kept_count, kept, &r));
    return r;
}

static grail_reducer *folding(int64_t units, int64_t clusters, const int64_t *labels)
{
    grail_reducer *r = NULL;
    assert_ok(grail_reducer_from_labels(units, clusters, labels, &r));
    return r;
}

static const int64_t kept_1_3[] = {1, 3};
static const int64_t labels_0102[] = {0, 1, 0, 1};

TEST(a_group_has_its_own_units_and_what_is_left_of_them)
{
    static const int64_t kept[] = {1, 2, 4};
    static const int64_t expected[3][2] = {{-1, 0}, {0, -1}, {0, -1}};
    OWNED(grail_reducer) *r = selection(6, 3, kept);
    for (int64_t g = 0; g < 3; g++) {
        OPENED(grail_reducer, own, reducer_of_group(r, 3, g, &own));
        assert_int_equal(own->units, 2);
        assert_int_equal(own->kept, 1);
        assert_int_equal(own->members[0], 1);
        assert_int_equal(own->labels[0], expected[g][0]);
        assert_int_equal(own->labels[1], expected[g][1]);
    }
}

TEST(a_selection_labels_the_kept_in_order_and_the_rest_minus_one)
{
    OWNED(grail_reducer) *r = selection(4, 2, kept_1_3);
    assert_int_equal(grail_reducer_units(r), 4);
    assert_int_equal(grail_reducer_kept(r), 2);
    assert_false(grail_reducer_folds(r));
    assert_int_equal(grail_reducer_label(r, 0), -1);
    assert_int_equal(grail_reducer_label(r, 1), 0);
    assert_int_equal(grail_reducer_label(r, 2), -1);
    assert_int_equal(grail_reducer_label(r, 3), 1);
}

TEST(kept_indices_must_ascend_and_lie_inside)
{
    grail_reducer *r = NULL;
    const int64_t twice[] = {1, 1};
    const int64_t beyond[] = {1, 4};
    const int64_t negative[] = {-1, 2};
    assert_fails(grail_reducer_from_selection(4, 2, twice, &r), GRAIL_ERROR_ARGUMENT,
                 "kept unit 1 at position 1 is not in 2..3");
    assert_fails(grail_reducer_from_selection(4, 2, beyond, &r), GRAIL_ERROR_ARGUMENT, "unit 4");
    assert_fails(grail_reducer_from_selection(4, 2, negative, &r), GRAIL_ERROR_ARGUMENT, "-1");
    assert_null(r);
}

TEST(at_least_one_unit_is_kept_and_at_most_all)
{
    grail_reducer *r = NULL;
    const int64_t indices[] = {0, 1, 2};
    assert_fails(grail_reducer_from_selection(2, 0, indices, &r), GRAIL_ERROR_ARGUMENT, "0 of 2");
    assert_fails(grail_reducer_from_selection(2, 3, indices, &r), GRAIL_ERROR_ARGUMENT, "3 of 2");
}

TEST(an_empty_cluster_or_a_label_outside_is_refused)
{
    grail_reducer *r = NULL;
    const int64_t empty[] = {0, 2, 0};
    const int64_t beyond[] = {0, 1, 2};
    assert_fails(grail_reducer_from_labels(3, 3, empty, &r), GRAIL_ERROR_ARGUMENT,
                 "cluster 1 has no unit");
    assert_fails(grail_reducer_from_labels(3, 2, beyond, &r), GRAIL_ERROR_ARGUMENT,
                 "label 2 of unit 2");
    assert_null(r);
}

TEST(narrowing_a_selection_copies_the_kept_rows_bit_for_bit)
{
    const float in[] = {1, 2, 3, 4, -0.0F, 1e-45F, 7, 8, 9, 10, 11, 12, 13, 14, 0.1F, 3e38F};
    float out[8];
    OWNED(grail_reducer) *r = selection(4, 2, kept_1_3);
    assert_ok(grail_reducer_narrow_rows(r, 0, 2, 2, in, out));
    assert_memory_equal(out, in + 4, 4 * sizeof *in);
    assert_memory_equal(out + 4, in + 12, 4 * sizeof *in);
}

TEST(merging_a_selection_copies_the_kept_columns_bit_for_bit)
{
    const float in[] = {1, -0.0F, 3, 0.1F, 5, 6, 7, -8};
    const float expected[] = {-0.0F, 0.1F, 6, -8};
    float out[4];
    OWNED(grail_reducer) *r = selection(4, 2, kept_1_3);
    assert_ok(grail_reducer_merge_columns(r, 0, 1, 2, in, out));
    assert_memory_equal(out, expected, sizeof expected);
}

TEST(folding_takes_the_mean_of_rows_and_the_sum_of_columns)
{
    const float rows[] = {1, 10, 2, 20, 3, 30, 6, 40};
    const float mean[] = {2, 20, 4, 30};
    const float columns[] = {1, 2, 3, 6, -1, -2, -3, -6};
    const float sum[] = {4, 8, -4, -8};
    float out[4];
    OWNED(grail_reducer) *r = folding(4, 2, labels_0102);
    assert_true(grail_reducer_folds(r));
    assert_ok(grail_reducer_narrow_rows(r, 0, 1, 2, rows, out));
    assert_memory_equal(out, mean, sizeof mean);
    assert_ok(grail_reducer_merge_columns(r, 0, 1, 2, columns, out));
    assert_memory_equal(out, sum, sizeof sum);
}

/* 3 x 2^24 + 1 needs more digits than f32 has: an f32 running sum would lose the 1s. */
TEST(means_are_taken_in_f64)
{
    const int64_t one_cluster[] = {0, 0, 0, 0};
    const float in[] = {16777216.0F, 1.0F, 1.0F, 1.0F};
    float out = 0.0F;
    OWNED(grail_reducer) *r = folding(4, 1, one_cluster);
    assert_ok(grail_reducer_narrow_rows(r, 0, 1, 1, in, &out));
    assert_true(out == (float)(16777219.0 / 4.0));
}

TEST(units_of_several_features_move_as_a_whole)
{
    const float in[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const float kept[] = {3, 4, 5, 9, 10, 11};
    const float summed[] = {6, 8, 10, 12, 14, 16};
    float out[6];
    OWNED(grail_reducer) *select = selection(4, 2, kept_1_3);
    OWNED(grail_reducer) *fold = folding(4, 2, labels_0102);
    assert_ok(grail_reducer_merge_columns(select, 0, 3, 1, in, out));
    assert_memory_equal(out, kept, sizeof kept);
    assert_ok(grail_reducer_narrow_rows(select, 0, 3, 1, in, out));
    assert_memory_equal(out, kept, sizeof kept);
    assert_ok(grail_reducer_merge_columns(fold, 0, 3, 1, in, out));
    assert_memory_equal(out, summed, sizeof summed);
}

TEST(long_rows_are_summed_in_every_chunk)
{
    enum { UNITS = 6, FEATURES = 700, KEPT = 4, COLUMNS = 2500 };
    const int64_t labels[UNITS] = {0, 1, 2, 0, 3, 2};
    OWNED(float) *in = NULL;
    OWNED(float) *out = NULL;
    assert_ok(memory_new(&in, UNITS * FEATURES * COLUMNS, sizeof *in));
    assert_ok(memory_new(&out, KEPT * FEATURES * COLUMNS, sizeof *out));
    support_fill_normal(in, UNITS * FEATURES * COLUMNS, 3);
    OWNED(grail_reducer) *r = folding(UNITS, KEPT, labels);
    assert_ok(grail_reducer_merge_columns(r, 0, FEATURES, 3, in, out));
    for (int64_t row = 0; row < 3; row++) {
        const float *wide = in + row * UNITS * FEATURES;
        const float *narrow = out + row * KEPT * FEATURES;
        for (int64_t f = 0; f < FEATURES; f++) {
            assert_near(narrow[f], (double)wide[f] + (double)wide[3 * FEATURES + f], 1e-6);
            assert_near(narrow[3 * FEATURES + f], wide[4 * FEATURES + f], 0.0);
        }
    }
    assert_ok(grail_reducer_narrow_rows(r, 0, 1, COLUMNS, in, out));
    for (int64_t c = 0; c < COLUMNS; c++) {
        const double mean = ((double)in[2 * COLUMNS + c] + (double)in[5 * COLUMNS + c]) / 2.0;
        assert_near(out[2 * COLUMNS + c], mean, 1e-6);
        assert_near(out[1 * COLUMNS + c], in[1 * COLUMNS + c], 0.0);
    }
}

TEST(only_keeping_every_unit_in_place_is_the_identity)
{
    const int64_t all[] = {0, 1};
    const int64_t swapped[] = {1, 0};
    const int64_t same_order[] = {0, 1, 0, 1};
    const int64_t other_order[] = {0, 1, 1, 0};
    OWNED(grail_reducer) *every = selection(2, 2, all);
    OWNED(grail_reducer) *one = selection(2, 1, all);
    OWNED(grail_reducer) *exchanged = folding(2, 2, swapped);
    assert_true(reducer_is_identity(every));
    assert_false(reducer_is_identity(one));
    assert_false(reducer_is_identity(exchanged));
    assert_ok(reducer_set_order(every, 2, same_order));
    assert_true(reducer_is_identity(every));
    assert_ok(reducer_set_order(every, 2, other_order));
    assert_false(reducer_is_identity(every));
}

TEST(kept_features_ascend)
{
    const int64_t expected[] = {2, 3, 6, 7};
    int64_t found[4];
    OWNED(grail_reducer) *r = selection(4, 2, kept_1_3);
    reducer_kept_features(r, 2, found);
    assert_memory_equal(found, expected, sizeof expected);
}

/* Two units of two heads; the second unit's heads are in the other order. */
TEST(exchangeable_blocks_are_aligned_before_they_are_merged)
{
    const int64_t together[] = {0, 0};
    const int64_t order[] = {0, 1, 1, 0};
    const float rows[] = {1, 2, 3, 4, 3, 4, 1, 2};
    const float aligned[] = {1, 2, 3, 4};
    const float doubled[] = {2, 4, 6, 8};
    const float mixed[] = {4, 6, 4, 6};
    float out[4];
    OWNED(grail_reducer) *r = folding(2, 1, together);
    assert_ok(reducer_set_order(r, 2, order));
    reducer_narrow_rows(r, true, 4, 1, rows, out);
    assert_memory_equal(out, aligned, sizeof aligned);
    reducer_merge_columns(r, true, 4, 1, rows, out);
    assert_memory_equal(out, doubled, sizeof doubled);
    reducer_merge_columns(r, false, 4, 1, rows, out);
    assert_memory_equal(out, mixed, sizeof mixed);
}

TEST(an_order_that_is_no_permutation_is_refused)
{
    const int64_t together[] = {0, 0};
    const int64_t twice[] = {0, 1, 1, 1};
    const int64_t beyond[] = {0, 1, 2, 0};
    OWNED(grail_reducer) *r = folding(2, 1, together);
    assert_fails(reducer_set_order(r, 2, twice), GRAIL_ERROR_ARGUMENT, "order of unit 1");
    assert_fails(reducer_set_order(r, 2, beyond), GRAIL_ERROR_ARGUMENT, "order of unit 1");
    assert_fails(reducer_set_order(r, 0, twice), GRAIL_ERROR_ARGUMENT, "0 blocks");
    assert_int_equal(r->subunits, 1);
}

enum { DENSE = 6, CLUSTERS = 3, INPUTS = 4, OUTPUTS = 5 };

/* w relu(V x) for one output row w[units] and V[units, INPUTS] */
static double hidden_layer(int64_t units, const float *producer, const float *consumer,
                           const float *x)
{
    double output = 0.0;
    for (int64_t j = 0; j < units; j++) {
        double hidden = 0.0;
        for (int64_t i = 0; i < INPUTS; i++) {
            hidden += (double)producer[j * INPUTS + i] * (double)x[i];
        }
        output += (double)consumer[j] * fmax(hidden, 0.0);
    }
    return output;
}

/* W relu(V x) is the same when exactly duplicated hidden units are folded. */
TEST(duplicated_units_fold_without_loss)
{
    const int64_t labels[DENSE] = {0, 1, 2, 1, 0, 1};
    float distinct[CLUSTERS * INPUTS];
    float producer[DENSE * INPUTS];
    float consumer[OUTPUTS * DENSE];
    float x[INPUTS];
    float narrow_producer[CLUSTERS * INPUTS];
    float narrow_consumer[OUTPUTS * CLUSTERS];
    support_fill_normal(distinct, CLUSTERS * INPUTS, 1);
    support_fill_normal(consumer, OUTPUTS * DENSE, 2);
    support_fill_normal(x, INPUTS, 3);
    for (int64_t j = 0; j < DENSE; j++) {
        memcpy(producer + j * INPUTS, distinct + labels[j] * INPUTS, INPUTS * sizeof *producer);
    }
    OWNED(grail_reducer) *r = folding(DENSE, CLUSTERS, labels);
    assert_ok(grail_reducer_narrow_rows(r, 0, 1, INPUTS, producer, narrow_producer));
    assert_ok(grail_reducer_merge_columns(r, 0, 1, OUTPUTS, consumer, narrow_consumer));
    assert_memory_equal(narrow_producer, distinct, sizeof distinct);
    for (int64_t o = 0; o < OUTPUTS; o++) {
        assert_near(hidden_layer(CLUSTERS, narrow_producer, narrow_consumer + o * CLUSTERS, x),
                    hidden_layer(DENSE, producer, consumer + o * DENSE, x), 1e-6);
    }
}

static grail_status build_both(void *context)
{
    const int64_t order[] = {1, 0, 0, 1, 0, 1, 0, 1};
    OWNED(grail_reducer) *selected = NULL;
    OWNED(grail_reducer) *folded = NULL;
    grail_status status = grail_reducer_from_selection(4, 2, kept_1_3, &selected);
    if (status == GRAIL_OK) {
        status = grail_reducer_from_labels(4, 2, labels_0102, &folded);
    }
    if (status == GRAIL_OK) {
        status = reducer_set_order(folded, 2, order);
    }
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(build_both, NULL);
}
