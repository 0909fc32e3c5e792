/* Elimination of units, whose numbers stay on the device. Units of one feature are many, so their
 * blocks are divided and multiplied element by element, by few calls. */
#include "backend/shapes.h"
#include "backend/torch/kernels.h"

#include <math.h>

/* 0, 1, ... count - 1 as a row of integers, which is not written. */
static torch_tensor counting(torch_frame *f, int64_t count)
{
    const torch_device where = torch_device_of(f->owner);
    const torch_argument device = {.kind = TORCH_OPTIONAL_INTEGER,
                                   .is.integer = (int64_t)where.type << 32 | (uint32_t)where.index};
    torch_tensor pairs = torch_kept(f, GRAIL_DTYPE_U8, sizeof count, &count);
    if (pairs == NULL) {
        pairs = torch_call(f, "aten::tril_indices", "", AN_INTEGER(count), AN_INTEGER(1),
                           AN_INTEGER(0), MAYBE_TYPE(GRAIL_DTYPE_I64), NOTHING, device, NOTHING);
        torch_keep(f, GRAIL_DTYPE_U8, sizeof count, &count, pairs);
    }
    return torch_reshaped(f, pairs, 2, (int64_t[]){1, count}, (int64_t[]){count, 1}, 0);
}

/* The numbers of a unit's features, [u]. */
static torch_tensor features_of(torch_frame *f, matrix unit, int64_t u)
{
    const torch_tensor number = torch_view(f, unit, 1, (int64_t[]){1}, (int64_t[]){1});
    if (u == 1) {
        return torch_as(f, GRAIL_DTYPE_I64, number);
    }
    const torch_tensor all =
        torch_as(f, GRAIL_DTYPE_I64,
                 torch_sum(f, torch_as(f, GRAIL_DTYPE_F64, counting(f, u)), number, (double)u));
    return torch_reshaped(f, all, 1, &u, (int64_t[]){1}, 0);
}

/* Those of A or of M among the blocks, [n, u, u]. */
static torch_tensor blocks_of(torch_frame *f, matrix blocks, int64_t u, bool second)
{
    const int64_t n = blocks.rows / 2;
    return torch_view(f, matrix_rows(blocks, second ? n : 0, n), 3, (int64_t[]){n, u, u},
                      (int64_t[]){u * u, u, 1});
}

/* Products of blocks, or of single ones. */
static torch_tensor times(torch_frame *f, int64_t u, torch_tensor a, torch_tensor b)
{
    return u == 1 ? torch_times(f, a, b)
                  : torch_call(f, "aten::matmul", "", A_TENSOR(a), A_TENSOR(b));
}

KERNEL(unit_blocks)
{
    const matrix blocks = o->m[2];
    const int64_t u = block_features(blocks);
    const int64_t shape[] = {blocks.rows / 2, u, u};
    for (int i = 0; i < 2; i++) {
        const matrix a = o->m[i];
        const int64_t next = u * a.stride + u;
        const torch_tensor own = torch_view(f, a, 3, shape, (int64_t[]){next, a.stride, 1});
        const torch_tensor other = torch_view(f, a, 3, shape, (int64_t[]){next, 1, a.stride});
        const torch_tensor lower = torch_call(f, "aten::tril", "", A_TENSOR(own), AN_INTEGER(0));
        const torch_tensor upper = torch_call(f, "aten::triu", "", A_TENSOR(other), AN_INTEGER(1));
        torch_copy(f, torch_sum(f, lower, upper, 1.0), blocks_of(f, blocks, u, i == 1));
    }
}

/* -- factors of blocks ------------------------------------------------------------------------- */

/* I of u features, or 1. */
static torch_tensor identity(torch_frame *f, int64_t u)
{
    const torch_tensor t = torch_empty(f, GRAIL_DTYPE_F64, u, u);
    torch_zero(f, t);
    (void)torch_fill(f, torch_reshaped(f, t, 1, &u, (int64_t[]){u + 1}, 0), 1.0);
    return t;
}

/* L of A + jitter I = L L^T for blocks [., u, u] of several features, and which have none. */
static torch_tensor factor(torch_frame *f, torch_tensor a, double jitter, torch_tensor one,
                           torch_tensor *failed)
{
    torch_tensor made[2];
    (void)torch_call_many(f, "aten::linalg_cholesky_ex", "", 2, made,
                          A_TENSOR(torch_sum(f, a, one, jitter)), A_TRUTH(false), A_TRUTH(false));
    *failed = torch_compared(f, "aten::ne", made[1], 0.0);
    return made[0];
}

static torch_tensor inverse_of(torch_frame *f, torch_tensor l, torch_tensor one)
{
    return torch_call(f, "aten::linalg_solve_triangular", "", A_TENSOR(l), A_TENSOR(one),
                      A_TRUTH(false), A_TRUTH(true), A_TRUTH(false));
}

/* A + jitter, of single features. */
static torch_tensor shifted(torch_frame *f, torch_tensor a, double jitter)
{
    return jitter == 0.0 ? a : torch_shifted(f, a, jitter);
}

/* -- values ------------------------------------------------------------------------------------ */

/* A row of the numbers that are blocks of one feature. */
static torch_tensor numbers_of(torch_frame *f, matrix blocks, bool second)
{
    return torch_matrix(f, matrix_rows(matrix_reshape(blocks, 2, blocks.rows / 2), second, 1));
}

/* M / A, and which A are not positive; units that are gone are divided by infinity. */
static torch_tensor divide(torch_frame *f, const operation *o, torch_tensor values)
{
    const torch_tensor a = shifted(f, numbers_of(f, o->m[0], false), o->with.epsilon);
    const torch_tensor divisors =
        torch_call(f, "aten::maximum", "", A_TENSOR(a), A_TENSOR(torch_matrix(f, o->m[1])));
    (void)torch_call(f, "aten::div", "out", A_TENSOR(numbers_of(f, o->m[0], true)),
                     A_TENSOR(divisors), A_TENSOR(values));
    return torch_compared(f, "aten::le", divisors, 0.0);
}

static torch_tensor diagonals(torch_frame *f, torch_tensor blocks)
{
    return torch_call(f, "aten::diagonal", "", A_TENSOR(blocks), AN_INTEGER(0), AN_INTEGER(1),
                      AN_INTEGER(2));
}

/* The same for blocks of u features. */
static torch_tensor divide_blocks(torch_frame *f, const operation *o, int64_t u,
                                  torch_tensor values)
{
    torch_tensor failed = NULL;
    torch_tensor sums = NULL;
    const torch_tensor one = identity(f, u);
    const torch_tensor m = blocks_of(f, o->m[0], u, true);
    const torch_tensor l =
        factor(f, blocks_of(f, o->m[0], u, false), o->with.epsilon, one, &failed);
    if (o->with.value == VALUE_EXACT) {
        const torch_tensor t = inverse_of(f, l, one);
        sums = torch_sums(f, torch_times(f, times(f, u, t, m), t), MAYBE_INTEGERS(1, 2));
    } else {
        const torch_tensor pivots = diagonals(f, l);
        sums = torch_sums(f, torch_divided(f, diagonals(f, m), torch_times(f, pivots, pivots)),
                          MAYBE_INTEGERS(1));
    }
    torch_copy(f, torch_reshaped(f, sums, 2, (int64_t[]){1, o->m[2].columns}, (int64_t[]){1, 1}, 0),
               values);
    return failed;
}

KERNEL(unit_values)
{
    const int64_t u = block_features(o->m[0]);
    const torch_tensor values = torch_matrix(f, o->m[2]);
    const torch_tensor failed = u == 1 ? divide(f, o, values) : divide_blocks(f, o, u, values);
    (void)torch_call(f, "aten::maximum", "out", A_TENSOR(values), A_TENSOR(torch_number(f, 0.0)),
                     A_TENSOR(values));
    torch_put(f, failed, o->with.alpha, values);
    if (u > 1) {
        torch_put(f, torch_compared(f, "aten::gt", torch_matrix(f, o->m[1]), 0.0), 0.0, values);
    }
}

/* torch takes the first of several, and NaN before all others. */
KERNEL(choose_unit)
{
    const torch_tensor gone = torch_matrix(f, o->m[1]);
    const torch_tensor ranks =
        torch_sum(f, gone, torch_matrix(f, o->m[0]), o->with.largest ? -1.0 : 1.0);
    const torch_tensor least =
        torch_call(f, "aten::argmin", "", A_TENSOR(ranks), NOTHING, A_TRUTH(false));
    (void)torch_call(f, "aten::index_fill_", "int_Tensor", A_TENSOR(gone), AN_INTEGER(1),
                     A_TENSOR(least), A_TENSOR(torch_number(f, (double)INFINITY)));
    torch_copy(f, least, torch_matrix(f, o->m[2]));
}

/* -- one unit's elimination -------------------------------------------------------------------- */

/* The rows of A and M at the features `own`, [u], of elements of the lower triangle. */
static void copy_rows(torch_frame *f, const operation *o, int64_t u, torch_tensor own)
{
    const matrix rows = o->m[5];
    const torch_tensor column = torch_reshaped(f, own, 2, (int64_t[]){u, 1}, (int64_t[]){1, 1}, 0);
    const torch_tensor all = counting(f, rows.columns);
    const torch_tensor last = torch_call(f, "aten::maximum", "", A_TENSOR(column), A_TENSOR(all));
    const torch_tensor first = torch_call(f, "aten::minimum", "", A_TENSOR(column), A_TENSOR(all));
    for (int i = 0; i < 2; i++) {
        (void)torch_call(f, "aten::index", "Tensor_out", A_TENSOR(torch_matrix(f, o->m[1 + i])),
                         TENSORS(last, first),
                         A_TENSOR(torch_matrix(f, matrix_rows(rows, i * u, u))));
    }
}

/* U among the even columns of A and the odd ones of M, V among M's even ones. */
static void make_factors(torch_frame *f, int64_t u, torch_tensor own, matrix pairs, matrix factors)
{
    const int64_t width = pairs.rows;
    const int64_t shape[] = {2, u, width / 2};
    const int64_t turned[] = {1, 2 * u};
    const torch_tensor taken =
        torch_call(f, "aten::index_select", "", A_TENSOR(torch_matrix(f, pairs)), AN_INTEGER(1),
                   A_TENSOR(own));
    const torch_tensor to = torch_matrix(f, factors);
    torch_copy(f, torch_reshaped(f, taken, 2, shape + 1, turned, 0),
               torch_reshaped(f, to, 3, shape, (int64_t[]){u * width + 1, width, 2}, 0));
    torch_copy(f, torch_reshaped(f, taken, 2, shape + 1, turned, u),
               torch_reshaped(f, to, 2, shape + 1, (int64_t[]){width, 2}, u * width));
    torch_zero(f, torch_reshaped(f, to, 2, shape + 1, (int64_t[]){width, 2}, 1));
}

/* T = 1 / sqrt(A) of a single feature */
static torch_tensor inverse_root(torch_frame *f, const operation *o, torch_tensor a)
{
    const torch_tensor t = torch_unary(f, "aten::rsqrt", shifted(f, a, o->with.epsilon));
    return isnan(o->with.alpha)
               ? t
               : torch_call(f, "aten::nan_to_num", "", A_TENSOR(t), MAYBE_REAL(o->with.alpha),
                            MAYBE_REAL(o->with.alpha), NOTHING);
}

/* T, 0; -T^3 M / 2, T */
static void make_pair(torch_frame *f, const operation *o, torch_tensor a, torch_tensor m)
{
    const torch_tensor t = inverse_root(f, o, a);
    const torch_tensor half = torch_scaled(f, torch_times(f, t, t), -0.5);
    const torch_tensor mixed = torch_times(f, torch_times(f, t, m), half);
    const torch_tensor to = torch_view(f, o->m[7], 1, (int64_t[]){4}, (int64_t[]){1});
    (void)torch_call(f, "aten::cat", "out",
                     WHOLE_TENSORS(t, torch_zeros(f, GRAIL_DTYPE_F64, 1), mixed, t), AN_INTEGER(0),
                     A_TENSOR(to));
}

static torch_tensor turned(torch_frame *f, int64_t u, torch_tensor block)
{
    return u == 1 ? block
                  : torch_call(f, "aten::transpose", "int", A_TENSOR(block), AN_INTEGER(1),
                               AN_INTEGER(2));
}

/* The same of blocks [1, u, u], where T = L^-1. */
static void make_blocks(torch_frame *f, const operation *o, int64_t u, torch_tensor a,
                        torch_tensor m)
{
    torch_tensor failed = NULL;
    const int64_t shape[] = {2, u, u};
    const torch_tensor one = identity(f, u);
    const torch_tensor t = inverse_of(f, factor(f, a, o->with.epsilon, one, &failed), one);
    torch_put(f, failed, o->with.alpha, t);
    const torch_tensor half = torch_scaled(f, times(f, u, turned(f, u, t), t), -0.5);
    const torch_tensor mixed = times(f, u, times(f, u, t, m), half);
    const torch_tensor to = torch_matrix(f, o->m[7]);
    torch_copy(f, t, torch_reshaped(f, to, 3, shape, (int64_t[]){3 * u, 4 * u, 1}, 0));
    torch_copy(f, mixed,
               torch_reshaped(f, to, 3, (int64_t[]){1, u, u}, (int64_t[]){0, 4 * u, 1}, 2 * u));
    torch_zero(f, torch_reshaped(f, to, 2, shape + 1, (int64_t[]){4 * u, 1}, u));
}

static void make_transform(torch_frame *f, const operation *o, int64_t u, torch_tensor unit)
{
    const matrix blocks = o->m[3];
    const int64_t size = u * u;
    const int64_t shape[] = {1, u, u};
    const int64_t strides[] = {2 * size, u, 1};
    const int rank = u == 1 ? 1 : 3;
    const torch_tensor each = torch_view(f, blocks, 3, (int64_t[]){2, blocks.rows / 2, size},
                                         (int64_t[]){blocks.rows / 2 * size, size, 1});
    const torch_tensor own =
        torch_call(f, "aten::index_select", "", A_TENSOR(each), AN_INTEGER(1), A_TENSOR(unit));
    const torch_tensor a = torch_reshaped(f, own, rank, shape, strides, 0);
    const torch_tensor m = torch_reshaped(f, own, rank, shape, strides, size);
    if (u == 1) {
        make_pair(f, o, a, m);
    } else {
        make_blocks(f, o, u, a, m);
    }
}

KERNEL(read_unit)
{
    const matrix unit = o->m[0];
    const int64_t u = o->m[7].rows / 2;
    const torch_tensor features = features_of(f, unit, u);
    copy_rows(f, o, u, features);
    if (matrix_exists(o->m[4])) {
        make_factors(f, u, features, o->m[4], o->m[6]);
    }
    make_transform(f, o, u, u == 1 ? features : features_of(f, unit, 1));
}

/* blocks -= X^T Y for rows of each unit, [n, u, u] */
static void subtract(torch_frame *f, int64_t u, torch_tensor x, torch_tensor y, torch_tensor blocks)
{
    torch_copy(f, torch_sum(f, blocks, times(f, u, turned(f, u, x), y), -1.0), blocks);
}

/* Single features lose x x, and 2 x y. */
static void subtract_products(torch_frame *f, matrix pairs, matrix blocks)
{
    double factors[] = {-1.0, -2.0};
    const torch_tensor x = torch_matrix(f, matrix_rows(pairs, 0, 1));
    const torch_tensor y = torch_matrix(f, matrix_rows(pairs, 1, 1));
    const torch_tensor weights =
        torch_reshaped(f, torch_host_values(f, GRAIL_DTYPE_F64, 1, 2, factors), 1, (int64_t[]){2},
                       (int64_t[]){1}, 0);
    (void)torch_call_many(f, "aten::_foreach_addcmul_", "Tensor", 0, NULL,
                          WHOLE_TENSORS(numbers_of(f, blocks, false), numbers_of(f, blocks, true)),
                          WHOLE_TENSORS(x, x), WHOLE_TENSORS(x, y), A_TENSOR(weights));
}

KERNEL(subtract_pairs)
{
    const matrix pairs = o->m[0];
    const matrix blocks = o->m[1];
    const int64_t u = pairs.rows / 2;
    const int64_t shape[] = {pairs.columns / u, u, u};
    const int64_t strides[] = {u, 2 * pairs.columns, 1};
    if (u == 1) {
        subtract_products(f, pairs, blocks);
        return;
    }
    const torch_tensor x = torch_view(f, pairs, 3, shape, strides);
    const torch_tensor y = torch_view(f, matrix_rows(pairs, 1, 2 * u - 1), 3, shape, strides);
    subtract(f, u, x, x, blocks_of(f, blocks, u, false));
    subtract(f, u, x, y, blocks_of(f, blocks, u, true));
    subtract(f, u, y, x, blocks_of(f, blocks, u, true));
}
