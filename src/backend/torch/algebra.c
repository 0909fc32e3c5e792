/* Dense algebra in f64, on the device. */
#include "backend/torch/kernels.h"

#include <math.h>

#define NO_PIVOT 0x1p52

enum {
    PANEL = 8192,     /* rows that are converted to f64 at once */
    CACHED = 1 << 16, /* values of them that stay in a processor's cache */
    STRIP = 256       /* of a triangle */
};

/* Rows of x to convert to f64 at once. */
static int64_t panel_of(matrix x)
{
    const bool fits = torch_device_of(x.owner).index >= 0 || x.columns * PANEL <= CACHED;
    return fits ? PANEL : CACHED / x.columns + 1;
}

/* A[i, i] as a list. */
static torch_tensor diagonal_of(torch_frame *f, matrix a)
{
    return torch_view(f, a, 1, &a.rows, (int64_t[]){a.stride + 1});
}

/* The lower triangle from this diagonal on, zeros elsewhere, whatever stands there; or the upper
 * one. */
static torch_tensor lower_of(torch_frame *f, torch_tensor a, int64_t diagonal)
{
    return torch_call(f, "aten::tril", "", A_TENSOR(a), AN_INTEGER(diagonal));
}

static torch_tensor upper_of(torch_frame *f, torch_tensor a, int64_t diagonal)
{
    return torch_call(f, "aten::triu", "", A_TENSOR(a), AN_INTEGER(diagonal));
}

static torch_tensor panel_in_f64(torch_frame *f, matrix m, int64_t begin, int64_t rows)
{
    const torch_tensor own = torch_matrix(f, matrix_rows(m, begin, rows));
    return m.type == GRAIL_DTYPE_F64 ? own : torch_as(f, GRAIL_DTYPE_F64, own);
}

KERNEL(column_sums)
{
    const matrix x = o->m[0];
    const torch_tensor sum = torch_matrix(f, o->m[2]);
    const torch_tensor square = torch_matrix(f, o->m[3]);
    const int before = f->count;
    const int64_t step = panel_of(x);
    for (int64_t begin = 0; begin < x.rows && f->status == GRAIL_OK; begin += step) {
        const int64_t rows = smaller(step, x.rows - begin);
        const torch_tensor panel = panel_in_f64(f, x, begin, rows);
        torch_tensor weighted = panel;
        if (matrix_exists(o->m[1])) {
            const matrix column = matrix_reshape(o->m[1], x.rows, 1);
            weighted = torch_times(f, panel, torch_matrix(f, matrix_rows(column, begin, rows)));
        }
        if (sum != NULL) {
            torch_add(f, torch_sums(f, weighted, MAYBE_INTEGERS(0)), 1.0, sum);
        }
        if (square != NULL) {
            torch_add(f, torch_sums(f, torch_times(f, weighted, panel), MAYBE_INTEGERS(0)), 1.0,
                      square);
        }
        torch_forget(f, before);
    }
}

/* Rows of A times those of B, in f64. */
static torch_tensor products(torch_frame *f, matrix a, matrix b, int64_t begin, int64_t rows)
{
    const torch_tensor left = panel_in_f64(f, a, begin, rows);
    const bool is_square = a.memory == b.memory && a.stride == b.stride;
    return torch_times(f, left, is_square ? left : panel_in_f64(f, b, begin, rows));
}

KERNEL(row_dots)
{
    const matrix a = o->m[0];
    const int64_t step = panel_of(a);
    for (int64_t begin = 0; begin < a.rows && f->status == GRAIL_OK; begin += step) {
        const int64_t rows = smaller(step, a.rows - begin);
        const torch_tensor out = torch_view(f, matrix_columns(o->m[2], begin, rows), 2,
                                            (int64_t[]){rows, 1}, (int64_t[]){1, 1});
        (void)torch_call(f, "aten::sum", "IntList_out",
                         A_TENSOR(products(f, a, o->m[1], begin, rows)), MAYBE_INTEGERS(1),
                         A_TRUTH(true), NOTHING, A_TENSOR(out));
        torch_forget(f, 0);
    }
}

KERNEL(add_products)
{
    const matrix a = o->m[0];
    const torch_tensor sum = torch_matrix(f, o->m[2]);
    const int before = f->count;
    const int64_t step = panel_of(a);
    for (int64_t begin = 0; begin < a.rows && f->status == GRAIL_OK; begin += step) {
        const int64_t rows = smaller(step, a.rows - begin);
        const torch_tensor panel = matrix_exists(o->m[1])
                                       ? products(f, a, o->m[1], begin, rows)
                                       : torch_matrix(f, matrix_rows(a, begin, rows));
        torch_add(f, torch_sums(f, panel, MAYBE_INTEGERS(0, 1)), 1.0, sum);
        torch_forget(f, before);
    }
}

KERNEL(normalise)
{
    const torch_tensor x = torch_matrix(f, o->m[0]);
    const torch_tensor norm = torch_matrix(f, o->m[1]);
    (void)torch_call(f, "aten::norm", "out", A_TENSOR(x), NOTHING, INTEGERS(0, 1), A_TRUTH(true),
                     A_TENSOR(norm));
    (void)torch_call(f, "aten::div", "out", A_TENSOR(x), A_TENSOR(norm), A_TENSOR(x));
}

/* The inverse of a root that is 0, or of none, is made 0 behind. */
KERNEL(inverse_roots)
{
    const torch_tensor y = torch_matrix(f, o->m[1]);
    torch_limit(f, o->with.alpha, o->with.beta, torch_matrix(f, o->m[0]), y);
    const torch_tensor roots = torch_unary(f, "aten::sqrt", y);
    const torch_tensor none =
        torch_unary(f, "aten::logical_not", torch_compared(f, "aten::gt", roots, 0.0));
    torch_copy(f, torch_unary(f, "aten::reciprocal", roots), y);
    torch_put(f, none, 0.0, y);
}

KERNEL(roots)
{
    const torch_tensor x = torch_matrix(f, o->m[0]);
    const torch_tensor quotient = torch_divided(f, x, torch_number(f, o->with.alpha));
    const torch_tensor sum = torch_shifted(f, quotient, o->with.beta);
    torch_copy(f, torch_unary(f, "aten::sqrt", sum), torch_matrix(f, o->m[1]));
}

KERNEL(limit_roots)
{
    const torch_tensor x = torch_matrix(f, o->m[1]);
    const torch_tensor y = torch_matrix(f, o->m[2]);
    const torch_tensor most = torch_scaled(f, torch_matrix(f, o->m[0]), o->with.alpha);
    const torch_tensor longer = torch_call(f, "aten::gt", "Tensor", A_TENSOR(x), A_TENSOR(most));
    const torch_tensor stays = torch_unary(f, "aten::logical_not", longer);
    const torch_tensor none =
        torch_unary(f, "aten::logical_not", torch_compared(f, "aten::gt", most, 0.0));
    torch_copy(f, torch_unary(f, "aten::sqrt", torch_divided(f, most, x)), y);
    torch_put(f, stays, 1.0, y);
    torch_put(f, none, 1.0, y);
}

KERNEL(gap_share)
{
    const torch_tensor target = torch_matrix(f, o->m[1]);
    const torch_tensor lost = torch_divided(f, torch_matrix(f, o->m[0]), target);
    const torch_tensor share = torch_shifted(f, torch_scaled(f, lost, -1.0), 1.0);
    torch_limit(f, 0.0, 1.0, share, share);
    torch_put(f, torch_unary(f, "aten::logical_not", torch_compared(f, "aten::gt", target, 0.0)),
              1.0, share);
    torch_copy(f, share, torch_matrix(f, o->m[2]));
}

/* [1, 1], of at least one number. */
static torch_tensor median_of(torch_frame *f, matrix x)
{
    const int64_t count = matrix_count(x);
    const torch_tensor all = torch_matrix(f, matrix_reshape(x, 1, count));
    torch_tensor found[2]; /* and where */
    return torch_call_many(f, "aten::kthvalue", "", 2, found, A_TENSOR(all),
                           AN_INTEGER(count / 2 + 1), AN_INTEGER(1), A_TRUTH(true));
}

KERNEL(median)
{
    const torch_tensor out = torch_matrix(f, o->m[1]);
    if (o->m[0].columns == 0) {
        torch_zero(f, out);
    } else {
        torch_copy(f, median_of(f, o->m[0]), out);
    }
}

KERNEL(inverses)
{
    const torch_tensor x = torch_matrix(f, o->m[0]);
    const torch_tensor y = torch_matrix(f, o->m[1]);
    const torch_tensor none = torch_unary(f, "aten::logical_not", x);
    torch_copy(f, torch_unary(f, "aten::reciprocal", x), y);
    torch_put(f, none, 0.0, y);
}

KERNEL(inverse_bounded)
{
    if (matrix_count(o->m[0]) > 0) {
        const torch_tensor y = torch_matrix(f, o->m[1]);
        const torch_tensor median = median_of(f, o->m[0]);
        const torch_tensor most = torch_scaled(f, median, o->with.beta);
        torch_put(f, torch_compared(f, "aten::le", median, 0.0), HUGE_VAL, most);
        const torch_tensor least = torch_scaled(f, median, o->with.alpha);
        const torch_tensor raised =
            torch_call(f, "aten::fmax", "", A_TENSOR(torch_matrix(f, o->m[0])), A_TENSOR(least));
        const torch_tensor bounded =
            torch_call(f, "aten::fmin", "", A_TENSOR(raised), A_TENSOR(most));
        const torch_tensor none = torch_compared(f, "aten::le", bounded, 0.0);
        torch_copy(f, torch_unary(f, "aten::reciprocal", bounded), y);
        torch_put(f, none, 0.0, y);
    }
}

/* The logarithm of 0 is -inf, and its power 0. */
KERNEL(nearest_powers)
{
    const torch_tensor x = torch_matrix(f, o->m[0]);
    const torch_tensor exponent = torch_unary(f, "aten::log2", x);
    torch_copy(f, torch_unary(f, "aten::exp2", torch_unary(f, "aten::round", exponent)), x);
}

/* The strict upper triangle is scratch, so whole blocks on the diagonal may be added to. */
KERNEL(add_symmetric)
{
    const matrix a = o->m[2];
    const int64_t strip = torch_strip(a.columns);
    for (int64_t first = 0; first < a.columns && f->status == GRAIL_OK; first += strip) {
        const int64_t count = smaller(strip, a.columns - first);
        const int64_t rest = a.columns - first;
        torch_add_product(
            f, torch_transposed(f, torch_matrix(f, matrix_columns(o->m[0], first, rest))),
            torch_matrix(f, matrix_columns(o->m[1], first, count)), o->with.alpha, 1.0,
            torch_matrix(f, matrix_columns(matrix_rows(a, first, rest), first, count)));
        torch_forget(f, 0);
    }
}

KERNEL(add_scaled)
{
    torch_add(f, torch_matrix(f, o->m[0]), o->with.alpha, torch_matrix(f, o->m[1]));
}

KERNEL(add_outer)
{
    const torch_tensor x = torch_transposed(f, torch_matrix(f, o->m[0]));
    const torch_tensor y = torch_matrix(f, o->m[1]);
    const torch_tensor a = torch_matrix(f, o->m[2]);
    if (o->with.lower) {
        torch_add(f, lower_of(f, torch_times(f, x, y), 0), o->with.alpha, a);
    } else {
        torch_add_product(f, x, y, o->with.alpha, 1.0, a);
    }
}

KERNEL(diagonal)
{
    torch_copy(f, diagonal_of(f, o->m[0]), torch_matrix(f, o->m[1]));
}

KERNEL(set_diagonal)
{
    torch_copy(f, torch_view(f, o->m[0], 1, &o->m[0].columns, (int64_t[]){1}),
               diagonal_of(f, o->m[1]));
}

KERNEL(shift_diagonal)
{
    const torch_tensor diagonal = diagonal_of(f, o->m[0]);
    torch_copy(f, torch_shifted(f, diagonal, o->with.alpha), diagonal);
}

/* Fills one triangle of A from the other one, a strip of rows after the other: beside the block on
 * the diagonal as a copy, in it as a sum with zeros. */
static void fill(torch_frame *f, const operation *o, bool upper)
{
    const matrix a = o->m[0];
    for (int64_t begin = 0; begin < a.rows && f->status == GRAIL_OK; begin += STRIP) {
        const int64_t end = smaller(begin + STRIP, a.rows);
        const matrix strip = matrix_rows(a, begin, end - begin);
        const torch_tensor right = torch_matrix(f, matrix_columns(strip, end, a.rows - end));
        const torch_tensor below = torch_transposed(
            f,
            torch_matrix(f, matrix_columns(matrix_rows(a, end, a.rows - end), begin, end - begin)));
        const torch_tensor own = torch_matrix(f, matrix_columns(strip, begin, end - begin));
        const torch_tensor turned = torch_transposed(f, own);
        torch_copy(f, upper ? below : right, upper ? right : below);
        torch_copy(f,
                   upper ? torch_sum(f, lower_of(f, own, 0), upper_of(f, turned, 1), 1.0)
                         : torch_sum(f, upper_of(f, own, 0), lower_of(f, turned, -1), 1.0),
                   own);
        torch_forget(f, 0);
    }
}

KERNEL(fill_upper)
{
    fill(f, o, true);
}

KERNEL(fill_lower)
{
    fill(f, o, false);
}

KERNEL(divide_columns)
{
    const torch_tensor a = torch_matrix(f, o->m[1]);
    torch_copy(f, torch_divided(f, a, torch_matrix(f, o->m[0])), a);
}

/* -- factors ----------------------------------------------------------------------------------- */

/* NO_PIVOT less the first place of a factor's diagonal that is no number, which the factorisation
 * need not have noticed; 0 where there is none. torch takes NaN for the largest number, but for the
 * smaller of two only where both are. */
static torch_tensor non_finite_code(torch_frame *f, torch_tensor diagonal)
{
    torch_tensor first[2]; /* 0 or NaN, and where */
    (void)torch_call_many(f, "aten::max", "dim", 2, first, A_TENSOR(torch_scaled(f, diagonal, 0.0)),
                          AN_INTEGER(0), A_TRUTH(true));
    return torch_call(f, "aten::fmin", "", A_TENSOR(first[0]),
                      A_TENSOR(torch_sum(f, torch_number(f, NO_PIVOT), first[1], -1.0)));
}

/* NO_PIVOT less the place of a pivot that is counted from 1; 0 where that is 0. */
static torch_tensor failure_code(torch_frame *f, torch_tensor place)
{
    return torch_times(f, torch_sum(f, torch_number(f, NO_PIVOT + 1.0), place, -1.0),
                       torch_unary(f, "aten::sign", place));
}

KERNEL(cholesky)
{
    int64_t *pivot = o->with.index;
    *pivot = -1;
    if (o->m[0].rows == 0) {
        return;
    }
    torch_tensor made[2]; /* the factor, zero above the diagonal, and where it failed, from 1 */
    const torch_tensor a = torch_matrix(f, o->m[0]);
    (void)torch_call_many(f, "aten::linalg_cholesky_ex", "", 2, made, A_TENSOR(a), A_TRUTH(false),
                          A_TRUTH(false));
    const torch_tensor above = upper_of(f, a, 1);
    torch_copy(f, made[0], a); /* from column to column: a sum of both orders would go slowly */
    torch_add(f, above, 1.0, a);
    const torch_tensor code = torch_call(f, "aten::maximum", "", A_TENSOR(failure_code(f, made[1])),
                                         A_TENSOR(non_finite_code(f, diagonal_of(f, o->m[0]))));
    const double found = torch_item(f, code); /* one reading for both */
    *pivot = found > 0.0 ? (int64_t)(NO_PIVOT - found) : -1;
}

KERNEL(cholesky_solve)
{
    const torch_tensor b = torch_matrix(f, o->m[1]);
    const torch_tensor x =
        torch_call(f, "aten::cholesky_solve", "", A_TENSOR(torch_transposed(f, b)),
                   A_TENSOR(torch_matrix(f, o->m[0])), A_TRUTH(false));
    torch_copy(f, torch_transposed(f, x), b);
}

KERNEL(cholesky_multiply)
{
    const torch_tensor l = lower_of(f, torch_matrix(f, o->m[0]), 0);
    const torch_tensor b = torch_matrix(f, o->m[1]);
    const torch_tensor half = torch_call(f, "aten::mm", "", A_TENSOR(b), A_TENSOR(l));
    torch_add_product(f, half, torch_transposed(f, l), 1.0, 0.0, b);
}

KERNEL(cholesky_invert)
{
    const torch_tensor l = torch_matrix(f, o->m[0]);
    torch_copy(f, torch_call(f, "aten::cholesky_inverse", "", A_TENSOR(l), A_TRUTH(false)), l);
}

KERNEL(eigen)
{
    torch_tensor made[2]; /* values, and vectors in columns */
    const torch_tensor a = torch_matrix(f, o->m[0]);
    (void)torch_call_many(f, "aten::linalg_eigh", "", 2, made, A_TENSOR(a), A_TEXT("L"));
    torch_copy(f, made[0], torch_matrix(f, o->m[1]));
    torch_copy(f, torch_transposed(f, made[1]), a);
}
