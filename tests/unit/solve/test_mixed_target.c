/* Mixed targets in the sums against the same target written out row by row. */
#include "oracle.h"
#include "solve/mixed_target.h"

enum { T = ORACLE_ROWS, H = ORACLE_WIDTH, O = ORACLE_OUTPUTS };

/* |Y - X W^T|^2 and |Y|^2 of the given target. */
static target_gap gap_of(const oracle *o)
{
    target_gap gap = {0};
    for (int64_t i = 0; i < T * O; i++) {
        const double difference = o->other[i] - o->own[i];
        gap.gap += difference * difference;
        gap.target += o->other[i] * o->other[i];
    }
    return gap;
}

/* other <- own + share (other - own) */
static void mix(oracle *o, double share)
{
    for (int64_t i = 0; i < T * O; i++) {
        o->other[i] = o->own[i] + share * (o->other[i] - o->own[i]);
    }
}

static void assert_sums_of(const oracle *o, const grail_statistics *s)
{
    for (int64_t k = 0; k < O; k++) {
        double sum = 0.0;
        double square = 0.0;
        double cross[H] = {0};
        for (int64_t t = 0; t < T; t++) {
            const double y = o->other[t * O + k];
            sum += y;
            square += y * y;
            for (int64_t h = 0; h < H; h++) {
                cross[h] += y * (double)o->x[t * H + h];
            }
        }
        assert_near(support_element(s->target_sum, 0, k), sum, 1e-9);
        assert_near(support_element(s->target_square, 0, k), square, 1e-9);
        for (int64_t h = 0; h < H; h++) {
            assert_near(support_element(s->cross, k, h), cross[h], 1e-9);
        }
    }
}

TEST(the_gap_equals_its_definition_and_parts_add_up)
{
    oracle o;
    oracle_fill(&o, 3);
    const target_gap expected = gap_of(&o);
    target_gap gap = {0};
    OWNED(grail_statistics) *first = oracle_statistics(on_ref, &o, 0, T / 3, true);
    OWNED(grail_statistics) *second = oracle_statistics(on_ref, &o, T / 3, T, true);
    matrix weights = support_rows(on_ref, O, H, H, o.consumer);
    assert_ok(target_gap_add(first, weights, &gap));
    assert_ok(target_gap_add(second, weights, &gap));
    matrix_free(&weights);
    assert_near(gap.gap, expected.gap, 1e-9 * expected.gap);
    assert_near(gap.target, expected.target, 1e-9 * expected.target);
}

TEST(the_sums_become_those_of_mixed_rows)
{
    static const double shares[] = {0.0, 0.3, 1.0};
    for (int i = 0; i < 3; i++) {
        oracle o;
        oracle_fill(&o, 4);
        OWNED(grail_statistics) *s = oracle_statistics(on_ref, &o, 0, T, true);
        assert_ok(matrix_fill_upper(s->gram));
        matrix weights = support_rows(on_ref, O, H, H, o.consumer);
        assert_ok(statistics_mix_target(s, weights, shares[i]));
        matrix_free(&weights);
        mix(&o, shares[i]);
        assert_sums_of(&o, s);
    }
}

TEST(the_share_falls_from_one_to_zero_as_the_targets_part)
{
    assert_true(target_gap_share(&(target_gap){.gap = 0.0, .target = 2.0}) == 1.0);
    assert_near(target_gap_share(&(target_gap){.gap = 0.5, .target = 2.0}), 0.75, 0.0);
    assert_true(target_gap_share(&(target_gap){.gap = 2.0, .target = 2.0}) == 0.0);
    assert_true(target_gap_share(&(target_gap){.gap = 5.0, .target = 2.0}) == 0.0);
    assert_true(target_gap_share(&(target_gap){.gap = 0.0, .target = 0.0}) == 1.0);
    /* Rounding of the sums. */
    assert_true(target_gap_share(&(target_gap){.gap = -1e-6, .target = 2.0}) == 1.0);
}

/* What the dense weights give on the input itself: sums in f32 leave a gap on either side of 0. */
TEST(the_share_of_a_target_without_a_gap_is_never_above_one)
{
    int above = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        oracle o;
        target_gap gap = {0};
        oracle_fill(&o, seed);
        for (int64_t i = 0; i < T * O; i++) {
            o.given[i] = (float)o.own[i];
        }
        OWNED(grail_statistics) *s = oracle_statistics(on_cpu, &o, 0, T, true);
        matrix weights = support_rows(on_cpu, O, H, H, o.consumer);
        assert_ok(target_gap_add(s, weights, &gap));
        matrix_free(&weights);
        above += gap.gap < 0.0;
        assert_true(target_gap_share(&gap) <= 1.0);
        assert_near(target_gap_share(&gap), 1.0, 1e-5);
    }
    assert_true(above > 0);
}

/* More outputs than are measured: every fourth one decides, and panels of 256 are all mixed. */
TEST(many_outputs_are_mixed_in_panels)
{
    enum { ROWS = 8, WIDTH = 3, OUTPUTS = 2 * REGRESSION_MEASURED + 88 };
    static float x[ROWS * WIDTH];
    static float y[ROWS * OUTPUTS];
    static float consumer[OUTPUTS * WIDTH];
    target_gap gap = {0};
    target_gap expected = {0};
    support_fill_normal(x, ROWS * WIDTH, 5);
    support_fill_normal(y, ROWS * OUTPUTS, 6);
    support_fill_normal(consumer, OUTPUTS * WIDTH, 7);
    OWNED(matrix) rows = support_rows(on_ref, ROWS, WIDTH, WIDTH, x);
    OWNED(matrix) targets = support_rows(on_ref, ROWS, OUTPUTS, OUTPUTS, y);
    OPENED(grail_statistics, s, statistics_create(on_ref, WIDTH, OUTPUTS, &s));
    assert_ok(statistics_accumulate(s, rows, targets));
    matrix weights = support_rows(on_ref, OUTPUTS, WIDTH, WIDTH, consumer);
    assert_ok(target_gap_add(s, weights, &gap));
    assert_ok(statistics_mix_target(s, weights, 0.25));
    matrix_free(&weights);
    for (int64_t o = 0; o < OUTPUTS; o++) {
        double square = 0.0;
        for (int64_t t = 0; t < ROWS; t++) {
            double own = 0.0;
            for (int64_t h = 0; h < WIDTH; h++) {
                own += (double)x[t * WIDTH + h] * (double)consumer[o * WIDTH + h];
            }
            const double target = (double)y[t * OUTPUTS + o];
            const double mixed = own + 0.25 * (target - own);
            square += mixed * mixed;
            expected.gap += o % regression_measured_stride(OUTPUTS) == 0
                                ? (target - own) * (target - own)
                                : 0.0;
            expected.target += o % regression_measured_stride(OUTPUTS) == 0 ? target * target : 0.0;
        }
        assert_near(support_element(s->target_square, 0, o), square, 1e-9);
    }
    assert_near(gap.gap, expected.gap, 1e-9 * expected.gap);
    assert_near(gap.target, expected.target, 1e-9 * expected.target);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
