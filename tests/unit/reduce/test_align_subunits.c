/* Query heads of folded groups brought into a common order. */
#include "support/support.h"

#include "reduce/fold.h"

#include <string.h>

enum { UNITS = 4, SUBUNITS = 3, BLOCK = 2, COLUMNS = 5, U = SUBUNITS * BLOCK };
enum { BLOCK_VALUES = BLOCK * COLUMNS, VALUES = UNITS * SUBUNITS * BLOCK_VALUES };

TEST(blocks_are_ordered_by_falling_norm)
{
    /* two units of three blocks of one feature and two columns; equal norms keep their order */
    const float in[] = {1, 0, 3, 4, 0, -2, 0, 1, 1, 0, -1, 0};
    const int64_t expected[] = {1, 2, 0, 0, 1, 2};
    int64_t order[6];
    subunits_by_norm(2, 3, 3, 2, in, order);
    assert_memory_equal(order, expected, sizeof expected);
}

/* Unit j is unit 0 with its blocks in the order permutation[j]. */
static const int64_t permutation[UNITS][SUBUNITS] = {{0, 1, 2}, {2, 0, 1}, {1, 0, 2}, {0, 2, 1}};

static void permuted_units(float *values)
{
    support_fill_normal(values, SUBUNITS * BLOCK_VALUES, 3);
    for (int j = 1; j < UNITS; j++) {
        for (int s = 0; s < SUBUNITS; s++) {
            memcpy(values + (j * SUBUNITS + s) * BLOCK_VALUES,
                   values + permutation[j][s] * BLOCK_VALUES, BLOCK_VALUES * sizeof values[0]);
        }
    }
}

static void assert_units_equal(const float *values)
{
    const size_t bytes = SUBUNITS * BLOCK_VALUES * sizeof values[0];
    for (int j = 1; j < UNITS; j++) {
        assert_memory_equal(values + j * SUBUNITS * BLOCK_VALUES, values, bytes);
    }
}

TEST(units_that_are_permutations_become_equal)
{
    float values[VALUES];
    float ordered[VALUES];
    int64_t order[UNITS * SUBUNITS];
    permuted_units(values);
    subunits_by_norm(UNITS, SUBUNITS, U, COLUMNS, values, order);
    subunits_apply_rows(UNITS, SUBUNITS, order, U, COLUMNS, values, ordered);
    assert_units_equal(ordered);
}

TEST(columns_move_like_rows)
{
    enum { ROWS = COLUMNS, WIDTH = UNITS * U };
    float rows[VALUES];
    float columns[VALUES];
    float ordered_rows[VALUES];
    float ordered_columns[VALUES];
    int64_t order[UNITS * SUBUNITS];
    permuted_units(rows);
    for (int i = 0; i < WIDTH; i++) {
        for (int r = 0; r < ROWS; r++) {
            columns[r * WIDTH + i] = rows[i * COLUMNS + r];
        }
    }
    subunits_by_norm(UNITS, SUBUNITS, U, COLUMNS, rows, order);
    subunits_apply_rows(UNITS, SUBUNITS, order, U, COLUMNS, rows, ordered_rows);
    subunits_apply_columns(UNITS, SUBUNITS, order, U, ROWS, columns, ordered_columns);
    for (int i = 0; i < WIDTH; i++) {
        for (int r = 0; r < ROWS; r++) {
            assert_true(ordered_columns[r * WIDTH + i] == ordered_rows[i * COLUMNS + r]);
        }
    }
}

/* One feature a block: unit 1 is unit 0 with small noise and two blocks of nearly equal norm
 * exchanged, so that the norms alone misplace them. */
TEST(members_are_assigned_to_their_clusters_centroid)
{
    enum { TWO = 2, PAIR = 2, WIDE = 2 };
    const float in[] = {1.00F, 0.00F, 0.00F, 0.99F,  /* unit 0: e1, then e2 */
                        1.00F, 0.02F, 0.00F, 1.01F,  /* unit 1: the same, by norm the reverse */
                        0.98F, 0.00F, 0.00F, 0.97F}; /* unit 2: as unit 0 */
    const int64_t labels[] = {0, 0, 0};
    int64_t order[3 * TWO];
    subunits_by_norm(3, TWO, PAIR, WIDE, in, order);
    const int64_t misplaced[] = {1, 0};
    assert_memory_equal(order + TWO, misplaced, sizeof misplaced);
    assert_ok(subunits_to_centroid(3, TWO, 1, labels, PAIR, WIDE, in, order));
    const int64_t straight[] = {0, 1, 0, 1, 0, 1};
    assert_memory_equal(order, straight, sizeof straight);
}

TEST(clusters_are_aligned_by_themselves)
{
    /* units 0 and 2 form one cluster, 1 and 3 another with the blocks the other way round */
    const float in[] = {1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0};
    const int64_t labels[] = {0, 1, 0, 1};
    int64_t order[] = {0, 1, 0, 1, 1, 0, 0, 1};
    const int64_t expected[] = {0, 1, 0, 1, 1, 0, 0, 1};
    assert_ok(subunits_to_centroid(4, 2, 2, labels, 2, 2, in, order));
    assert_memory_equal(order, expected, sizeof expected);
}

TEST(every_order_is_a_permutation)
{
    enum { MANY = 20, EIGHT = 8, CLUSTERS = 6 };
    float in[MANY * EIGHT * BLOCK_VALUES];
    int64_t order[MANY * EIGHT];
    int64_t labels[MANY];
    support_fill_normal(in, MANY * EIGHT * BLOCK_VALUES, 9);
    for (int j = 0; j < MANY; j++) {
        labels[j] = j % CLUSTERS;
    }
    subunits_by_norm(MANY, EIGHT, EIGHT * BLOCK, COLUMNS, in, order);
    assert_ok(
        subunits_to_centroid(MANY, EIGHT, CLUSTERS, labels, EIGHT * BLOCK, COLUMNS, in, order));
    for (int j = 0; j < MANY; j++) {
        int seen = 0;
        for (int s = 0; s < EIGHT; s++) {
            seen |= 1 << order[j * EIGHT + s];
        }
        assert_int_equal(seen, (1 << EIGHT) - 1);
    }
}

static grail_status align(void *context)
{
    const float in[] = {1, 2, 2, 1};
    const int64_t labels[] = {0, 0};
    int64_t order[4];
    subunits_by_norm(2, 2, 2, 1, in, order);
    return subunits_to_centroid(2, 2, 1, labels, 2, 1, in, order);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(align, NULL);
}
