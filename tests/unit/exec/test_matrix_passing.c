/* Matrices that pass between ranks: every element arrives, whatever their shapes, and nothing
 * beside them is touched. A rank returns 0 where all was as it should be. */
#include "exec/matrix_passing.h"

#include "support/ranks.h"
#include "support/support.h"

#include "backend/operations.h"

enum { COUNT = 6, MOST = 3, LONG_ROW = 300000 }; /* that is longer than a message */

typedef enum way { SENDS, SHARES } way;

static const int64_t shapes[COUNT][2] = {{3, 4},      {0, 5}, {2, LONG_ROW},
                                         {400, 1000}, {5, 0}, {1, 1}};

static double value_at(int matrix_index, int64_t place)
{
    return matrix_index + 1e-3 * (double)place;
}

/* Each matrix is the middle columns of a wider one that is filled with `outside`. */
static void open_matrices(matrix *whole, matrix *part, double outside)
{
    for (int i = 0; i < COUNT; i++) {
        host_view v = {0};
        const int64_t rows = shapes[i][0];
        const int64_t columns = shapes[i][1];
        assert_ok(matrix_new(backend_reference(), GRAIL_DTYPE_F64, rows, columns + 2, &whole[i]));
        assert_ok(host_view_open(whole[i], GRAIL_DTYPE_F64, HOST_WRITES, &v));
        for (int64_t k = 0; k < rows * (columns + 2); k++) {
            ((double *)v.values)[k] = outside;
        }
        assert_ok(host_view_close(&v));
        part[i] = matrix_columns(whole[i], 1, columns);
    }
}

static void fill(matrix m, int index)
{
    host_view v = {0};
    assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    for (int64_t k = 0; k < matrix_count(m); k++) {
        ((double *)v.values)[k] = value_at(index, k);
    }
    assert_ok(host_view_close(&v));
}

static bool holds(matrix whole, int index, double outside)
{
    OWNED(host_view) v = {0};
    bool all = true;
    assert_ok(host_view_open(whole, GRAIL_DTYPE_F64, HOST_READS, &v));
    for (int64_t k = 0; k < matrix_count(whole); k++) {
        const int64_t row = k / whole.columns;
        const int64_t column = k % whole.columns - 1;
        const bool inside = column >= 0 && column < whole.columns - 2;
        const double expected =
            inside ? value_at(index, row * (whole.columns - 2) + column) : outside;
        all = all && ((const double *)v.values)[k] == expected;
    }
    return all;
}

/* Rank 1 has the values of rank 0, and with SHARES all others, too. */
static int pass_all(const grail_comm *comm, void *user)
{
    const way how = *(const way *)user;
    const double outside = -1.0 - comm->rank;
    matrix whole[COUNT] = {0};
    matrix part[COUNT] = {0};
    static char room[LONG_ROW * sizeof(double)];
    int wrong = 0;
    open_matrices(whole, part, outside);
    for (int i = 0; comm->rank == 0 && i < COUNT; i++) {
        fill(part[i], i);
    }
    if (how == SHARES) {
        assert_ok(matrices_share(comm, 0, part, COUNT));
    } else if (comm->rank == 0) {
        assert_ok(matrices_send(comm, 1, part, COUNT, room));
    } else {
        assert_ok(matrices_receive(comm, 0, part, COUNT, room));
    }
    for (int i = 0; i < COUNT; i++) {
        wrong += holds(whole[i], i, outside) ? 0 : 1;
        matrix_free(&whole[i]);
    }
    return wrong;
}

TEST(all_elements_arrive)
{
    static const struct {
        way how;
        int size;
    } cases[] = {{SENDS, 2}, {SHARES, 1}, {SHARES, 2}, {SHARES, MOST}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int ended[RANKS_MOST];
        way how = cases[c].how;
        ranks_run(cases[c].size, pass_all, &how, ended);
        for (int rank = 0; rank < cases[c].size; rank++) {
            assert_int_equal(ended[rank], 0);
        }
    }
}

TEST(nothing_passes_where_there_is_nothing)
{
    assert_ok(matrices_share(NULL, 0, NULL, 0));
    assert_ok(matrices_send(NULL, 0, NULL, 0, NULL)); /* without a message there is no one to ask */
}
