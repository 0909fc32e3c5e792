/* Products of values and of statistics. */
#include "backend/torch/kernels.h"

/* Rows whose products are summed in f32 before they are added in f64; and the strips of columns of
 * a lower triangle, whose products save almost half of those of a square. */
enum { PANEL = 4096, NARROW_PANEL = 8192 };

/* Values of 16 bits have larger errors of their own. */
static int64_t panel_of(matrix x)
{
    return torch_is_narrow(x) ? NARROW_PANEL : PANEL;
}

static torch_tensor turned(torch_frame *f, bool transpose, matrix m)
{
    const torch_tensor t = torch_matrix(f, m);
    return transpose ? torch_transposed(f, t) : t;
}

KERNEL(linear)
{
    const matrix bias = o->m[2];
    if (matrix_exists(bias)) {
        torch_copy(f, torch_matrix(f, bias), torch_matrix(f, o->m[3]));
    }
    torch_multiply(f, o->m[0], torch_matrix(f, o->m[0]), o->m[1], turned(f, true, o->m[1]), 1.0,
                   matrix_exists(bias) ? 1.0 : 0.0, o->m[3]);
}

static void multiply(torch_frame *f, const operation *o, double alpha)
{
    torch_multiply(f, o->m[0], turned(f, o->with.transpose_a, o->m[0]), o->m[1],
                   turned(f, o->with.transpose_b, o->m[1]), alpha, o->with.beta, o->m[2]);
}

KERNEL(product)
{
    multiply(f, o, 1.0);
}

KERNEL(gemm)
{
    multiply(f, o, o->with.alpha);
}

/* C[m, n] += Y^T X of some rows; with `lower` only where the row of C is no smaller than the
 * column. */
static void add_panel(torch_frame *f, matrix y, matrix x, bool lower, matrix c)
{
    const int before = f->count;
    const torch_tensor into = torch_matrix(f, c);
    torch_tensor product = torch_product_of(f, y, turned(f, true, y), x, torch_matrix(f, x));
    if (lower) {
        product = torch_call(f, "aten::tril", "", A_TENSOR(product), AN_INTEGER(0));
    }
    torch_add(f, product, 1.0, into);
    torch_forget(f, before);
}

KERNEL(cross)
{
    const matrix y = o->m[0];
    const int64_t panel = panel_of(y);
    for (int64_t begin = 0; begin < y.rows && f->status == GRAIL_OK; begin += panel) {
        const int64_t rows = smaller(panel, y.rows - begin);
        add_panel(f, matrix_rows(y, begin, rows), matrix_rows(o->m[1], begin, rows), false,
                  o->m[2]);
    }
}

KERNEL(gram)
{
    const matrix x = o->m[0];
    const matrix g = o->m[1];
    const int64_t n = x.columns;
    const int64_t strip = torch_strip(n);
    const int64_t rows = panel_of(x);
    for (int64_t begin = 0; begin < x.rows && f->status == GRAIL_OK; begin += rows) {
        const matrix panel = matrix_rows(x, begin, smaller(rows, x.rows - begin));
        for (int64_t first = 0; first < n; first += strip) {
            const int64_t count = smaller(strip, n - first);
            add_panel(f, matrix_columns(panel, first, n - first),
                      matrix_columns(panel, first, count), true,
                      matrix_columns(matrix_rows(g, first, n - first), first, count));
        }
    }
}
