/* Sums of a caller's rows, weighted or not, and as the caller's arrays, against plain loops. */
#include <grail/statistics.h>

#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 9, H = 4, O = 2, STRIDE = H + 3 };

typedef struct sums {
    double gram[H * H], sum[H], cross[O * H], target_sum[O], target_square[O];
} sums;

static grail_sums arrays_of(sums *s)
{
    return (grail_sums){.gram = s->gram,
                        .sum = s->sum,
                        .cross = s->cross,
                        .target_sum = s->target_sum,
                        .target_square = s->target_square};
}

static float z[ROWS * STRIDE];
static float y[ROWS * O];
static double roots[ROWS];

/* Eighths, of which sums are exact in f64, and products in f32. */
static int fill(void **state)
{
    support_fill_normal(z, ROWS * STRIDE, 1);
    support_fill_normal(y, ROWS * O, 2);
    for (int i = 0; i < ROWS * STRIDE; i++) {
        z[i] = roundf(8.0F * z[i]) / 8.0F;
    }
    for (int i = 0; i < ROWS * O; i++) {
        y[i] = roundf(8.0F * y[i]) / 8.0F;
    }
    for (int t = 0; t < ROWS; t++) {
        roots[t] = 0.5 * (double)(t % 3); /* some rows count nothing */
    }
    return 0;
}

/* All sums of rows with weights root^2 and a target less `bias`. */
static sums plain_sums(const double *root, const double *bias)
{
    sums s = {{0}, {0}, {0}, {0}, {0}};
    for (int t = 0; t < ROWS; t++) {
        const double w = root == NULL ? 1.0 : root[t] * root[t];
        for (int i = 0; i < H; i++) {
            s.sum[i] += w * (double)z[t * STRIDE + i];
            for (int j = 0; j < H; j++) {
                s.gram[i * H + j] += w * (double)z[t * STRIDE + i] * (double)z[t * STRIDE + j];
            }
        }
        for (int o = 0; o < O; o++) {
            const double target = (double)y[t * O + o] - (bias == NULL ? 0.0 : bias[o]);
            s.target_sum[o] += w * target;
            s.target_square[o] += w * target * target;
            for (int i = 0; i < H; i++) {
                s.cross[o * H + i] += w * target * (double)z[t * STRIDE + i];
            }
        }
    }
    return s;
}

static grail_statistics *statistics_of(const double *root)
{
    grail_statistics *s = NULL;
    assert_ok(grail_statistics_create(H, O, &s));
    assert_ok(grail_statistics_accumulate_weighted(s, 4, root, z, STRIDE, y, O));
    assert_ok(grail_statistics_accumulate_weighted(s, ROWS - 4, root == NULL ? NULL : root + 4,
                                                   z + 4 * STRIDE, STRIDE, y + 4 * O, O));
    return s;
}

static sums sums_of(const grail_statistics *s)
{
    sums found;
    const grail_sums arrays = arrays_of(&found);
    assert_ok(grail_statistics_get(s, &arrays));
    return found;
}

static void assert_same(const sums *a, const sums *b, double tolerance)
{
    const double *left = a->gram;
    const double *right = b->gram;
    for (size_t i = 0; i < sizeof *a / sizeof left[0]; i++) {
        assert_near(left[i], right[i], tolerance);
    }
}

TEST(all_sums_are_those_of_the_rows)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        const double *root = weighted ? roots : NULL;
        OWNED(grail_statistics) *s = statistics_of(root);
        const sums found = sums_of(s);
        const sums plain = plain_sums(root, NULL);
        double weight = 0.0;
        for (int t = 0; t < ROWS; t++) {
            weight += weighted ? roots[t] * roots[t] : 1.0;
        }
        assert_same(&found, &plain, 0.0);
        assert_int_equal(grail_statistics_count(s), ROWS);
        assert_near(grail_statistics_weight(s), weight, 0.0);
        assert_near(grail_statistics_gram(s, 1, 3), plain.gram[1 * H + 3], 0.0);
        assert_near(grail_statistics_mean(s, 2), plain.sum[2] / weight, 1e-15);
    }
}

TEST(rows_are_only_read)
{
    float before[ROWS * STRIDE];
    memcpy(before, z, sizeof z);
    grail_statistics_free(statistics_of(roots));
    assert_memory_equal(z, before, sizeof z);
}

/* One array as the input and the target. */
TEST(the_target_may_be_the_input)
{
    double gram[H * H];
    double cross[H * H];
    const grail_sums arrays = {.gram = gram, .cross = cross};
    OPENED(grail_statistics, s, grail_statistics_create(H, H, &s));
    assert_ok(grail_statistics_accumulate_weighted(s, ROWS, roots, z, STRIDE, z, STRIDE));
    assert_ok(grail_statistics_get(s, &arrays));
    for (int i = 0; i < H * H; i++) {
        assert_near(cross[i], gram[i], 0.0);
    }
}

TEST(a_bias_is_taken_from_the_target)
{
    static const double bias[O] = {0.5, -1.25};
    grail_statistics *s = statistics_of(roots);
    const sums plain = plain_sums(roots, bias);
    assert_ok(grail_statistics_shift_target(s, bias));
    const sums found = sums_of(s);
    assert_same(&found, &plain, 1e-12);
    assert_fails(grail_statistics_shift_target(s, (const double[O]){0.0, NAN}), GRAIL_ERROR_NUMERIC,
                 "bias of output 1 is");
    grail_statistics_free(s);
    assert_ok(grail_statistics_create(H, 0, &s));
    assert_fails(grail_statistics_shift_target(s, bias), GRAIL_ERROR_ARGUMENT, "no target");
    grail_statistics_free(s);
}

TEST(sums_go_out_and_come_in_unchanged)
{
    grail_statistics *s = statistics_of(roots);
    grail_statistics *copy = NULL;
    sums out = sums_of(s);
    for (int i = 0; i < H; i++) { /* the upper triangle is not read */
        for (int j = i + 1; j < H; j++) {
            out.gram[i * H + j] = (double)NAN;
        }
    }
    const grail_sums arrays = arrays_of(&out);
    assert_ok(grail_statistics_create(H, O, &copy));
    assert_ok(grail_statistics_add_sums(copy, ROWS, grail_statistics_weight(s), &arrays));
    const sums found = sums_of(copy);
    const sums plain = plain_sums(roots, NULL);
    assert_same(&found, &plain, 0.0);
    assert_int_equal(grail_statistics_count(copy), ROWS);
    assert_near(grail_statistics_weight(copy), grail_statistics_weight(s), 0.0);
    grail_statistics_free(s);
    grail_statistics_free(copy);
}

TEST(adding_statistics_to_themselves_doubles_them)
{
    OWNED(grail_statistics) *s = statistics_of(NULL);
    const sums once = sums_of(s);
    assert_ok(grail_statistics_add(s, s));
    const sums twice = sums_of(s);
    const double *a = once.gram;
    const double *b = twice.gram;
    for (size_t i = 0; i < sizeof once / sizeof a[0]; i++) {
        assert_near(b[i], 2.0 * a[i], 0.0);
    }
    assert_int_equal(grail_statistics_count(s), 2 * ROWS);
}

/* Without the weight the means would be others, and so would every fit with a bias. */
DIRECTORY_TEST(a_file_keeps_the_weight_of_weighted_rows)
{
    char path[512];
    for (int i = 0; i < 2; i++) {
        OWNED(grail_statistics) *s = statistics_of(i == 0 ? roots : NULL);
        snprintf(path, sizeof path, "%s/%d.safetensors", directory, i);
        assert_ok(grail_statistics_save(s, path));
        OPENED(grail_statistics, read, grail_statistics_load(path, &read));
        const sums saved = sums_of(s);
        const sums loaded = sums_of(read);
        assert_same(&loaded, &saved, 0.0);
        assert_near(grail_statistics_weight(read), grail_statistics_weight(s), 0.0);
        assert_near(grail_statistics_mean(read, 1), grail_statistics_mean(s, 1), 0.0);
    }
}

/* 1 / |x_t|, where |x_t|^2 counts as at most 256 times and at least 1e-4 times the median. */
TEST(rows_count_by_their_length_within_bounds)
{
    static const float x[] = {3, 4, 0, 0, 0, 5, 400, 300, 0, 5};
    static const double expected[] = {0.2, 20.0, 0.2, 1.0 / 80.0, 0.2};
    double found[5];
    double median = -1.0;
    assert_ok(grail_row_roots(5, 2, x, 2, &median, found));
    assert_near(median, 25.0, 0.0);
    for (int t = 0; t < 5; t++) {
        assert_near(found[t], expected[t], 1e-12);
    }
    assert_ok(grail_row_roots(1, 2, x + 6, 2, &median, found)); /* the first call's median */
    assert_near(found[0], 1.0 / 80.0, 1e-12);
    median = -1.0;
    assert_fails(grail_row_roots(1, 2, (const float[]){1.0F, NAN}, 2, &median, found),
                 GRAIL_ERROR_NUMERIC, "row 0, feature 1");
    assert_near(median, -1.0, 0.0);
    assert_fails(grail_row_roots(1, 2, NULL, 2, &median, found), GRAIL_ERROR_ARGUMENT, "1 rows");
    assert_fails(grail_row_roots(2, 2, x, 1, &median, found), GRAIL_ERROR_ARGUMENT, "stride of 1");
    assert_ok(grail_row_roots(0, 2, NULL, 2, &median, NULL));
}

TEST(what_cannot_be_added_is_refused_and_adds_nothing)
{
    OWNED(grail_statistics) *s = statistics_of(roots);
    const sums before = sums_of(s);
    sums given = before;
    double bad[ROWS];
    memcpy(bad, roots, sizeof bad);
    bad[5] = -0.5;
    assert_fails(grail_statistics_accumulate_weighted(s, ROWS, bad, z, STRIDE, y, O),
                 GRAIL_ERROR_NUMERIC, "weight of row 5 is -0.5");
    bad[5] = INFINITY;
    assert_fails(grail_statistics_accumulate_weighted(s, ROWS, bad, z, STRIDE, y, O),
                 GRAIL_ERROR_NUMERIC, "weight of row 5 is inf");
    assert_fails(grail_statistics_accumulate_weighted(NULL, ROWS, roots, z, STRIDE, y, O),
                 GRAIL_ERROR_ARGUMENT, "no object of statistics");
    assert_fails(grail_statistics_accumulate_weighted(s, ROWS, roots, NULL, STRIDE, y, O),
                 GRAIL_ERROR_ARGUMENT, "the input needs");
    assert_fails(grail_statistics_accumulate_weighted(s, ROWS, roots, z, STRIDE, y, O - 1),
                 GRAIL_ERROR_ARGUMENT, "the target needs a row stride of 2");
    assert_fails(grail_statistics_accumulate_weighted(s, ROWS, roots, z, STRIDE, NULL, O),
                 GRAIL_ERROR_ARGUMENT, "without a target");
    assert_fails(grail_statistics_accumulate(s, -1, z, STRIDE, y, O), GRAIL_ERROR_ARGUMENT, "-1");
    grail_sums arrays = arrays_of(&given);
    given.cross[3] = (double)NAN;
    assert_fails(grail_statistics_add_sums(s, 1, 1.0, &arrays), GRAIL_ERROR_NUMERIC, "cross sum");
    given.cross[3] = before.cross[3];
    given.gram[2 * H + 2] = -1.0;
    assert_fails(grail_statistics_add_sums(s, 1, 1.0, &arrays), GRAIL_ERROR_NUMERIC, "feature 2");
    given.gram[2 * H + 2] = 1.0;
    assert_fails(grail_statistics_add_sums(s, -1, 1.0, &arrays), GRAIL_ERROR_ARGUMENT, "-1");
    assert_fails(grail_statistics_add_sums(s, 1, (double)NAN, &arrays), GRAIL_ERROR_ARGUMENT,
                 "weight");
    arrays.sum = NULL;
    assert_fails(grail_statistics_add_sums(s, 1, 1.0, &arrays), GRAIL_ERROR_ARGUMENT, "complete");
    assert_ok(grail_statistics_accumulate(s, 0, NULL, 0, y, O));
    const sums after = sums_of(s);
    assert_same(&after, &before, 0.0);
    assert_int_equal(grail_statistics_count(s), ROWS);
}

TEST(arrays_of_a_target_need_a_target)
{
    double values[H * H];
    const grail_sums gram = {.gram = values};
    const grail_sums cross = {.cross = values};
    OPENED(grail_statistics, s, grail_statistics_create(H, 0, &s));
    assert_ok(grail_statistics_get(s, &gram));
    assert_fails(grail_statistics_get(s, &cross), GRAIL_ERROR_ARGUMENT, "'cross' is given");
    assert_fails(grail_statistics_get(NULL, &gram), GRAIL_ERROR_ARGUMENT, "no object");
    assert_fails(grail_statistics_get(s, NULL), GRAIL_ERROR_ARGUMENT, "no set of arrays");
    assert_true(isnan(grail_statistics_gram(s, 0, H)));
    assert_true(isnan(grail_statistics_mean(s, -1)));
    assert_near(grail_statistics_mean(s, 0), 0.0, 0.0);
}

static grail_status add_and_copy(void *context)
{
    OWNED(grail_statistics) *s = NULL;
    sums out = {{0}, {0}, {0}, {0}, {0}};
    const grail_sums arrays = arrays_of(&out);
    double found[ROWS];
    double median = -1.0;
    CHECK(grail_statistics_create(H, O, &s));
    CHECK(grail_row_roots(ROWS, H, z, STRIDE, &median, found));
    CHECK(grail_statistics_accumulate_weighted(s, ROWS, found, z, STRIDE, y, O));
    CHECK(grail_statistics_get(s, &arrays));
    return grail_statistics_add_sums(s, ROWS, 1.0, &arrays);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(add_and_copy, NULL);
}

CMFixtureFunction support_setup = fill;
