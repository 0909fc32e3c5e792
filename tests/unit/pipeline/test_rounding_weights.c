/* How much rows count where matrices are rounded by what they read. */
#include "support/support.h"

#include "backend/operations.h"
#include "graph/operators.h"
#include "pipeline/network/rounding.h"

enum { WINDOWS = 2, LENGTH = 64, ROWS = WINDOWS * LENGTH, WIDTH = 4 };

/* q, k and attention, then o. All but o read value 0. */
static node nodes[] = {{.kind = NODE_LINEAR, .inputs = {0}},
                       {.kind = NODE_LINEAR, .inputs = {0}},
                       {.kind = NODE_ATTENTION, .inputs = {1}},
                       {.kind = NODE_LINEAR, .inputs = {2}}};
static graph network = {.nodes = nodes, .node_count = 4};

/* Rows have equal lengths, but for row 70, which is 400 times as long. */
static void find_roots(int first, double roots[ROWS])
{
    static float values[ROWS * WIDTH];
    const execution e = {.graph = &network, .shape = sequence_batch(WINDOWS, LENGTH)};
    OWNED(matrix) x = {0};
    OWNED(matrix) found = {0};
    for (int i = 0; i < ROWS * WIDTH; i++) {
        values[i] = i / WIDTH == 70 ? 400.0F : 1.0F;
    }
    assert_ok(matrix_new_zero(backend_reference(), GRAIL_DTYPE_F64, ROWS, WIDTH, &x));
    assert_ok(matrix_upload_f32(x, values));
    assert_ok(rounding_weight_roots(&e, first, x, &found));
    assert_ok(matrix_download(found, roots));
}

static void check_roots(int first, double first_of_window)
{
    double roots[ROWS];
    find_roots(first, roots);
    for (int t = 0; t < ROWS; t++) {
        const double expected = t == 70 ? 0.01 : t % LENGTH == 0 ? first_of_window : 1.0;
        assert_true(roots[t] > 0.999 * expected && roots[t] < 1.001 * expected);
    }
}

TEST(the_first_of_a_window_counts_more_where_attention_reads_it)
{
    check_roots(0, 2.0);
}

TEST(elsewhere_it_counts_as_others)
{
    check_roots(3, 1.0);
}
