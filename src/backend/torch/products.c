/* Products of values and of statistics. */
#include "backend/torch/kernels.h"

/* Rows whose products are summed in f32 before they are added in f64. */
enum { PANEL = 1024 };

static torch_tensor turned(torch_frame *f, bool transpose, matrix m)
{
    const torch_tensor t = torch_matrix(f, m);
    return transpose ? torch_transposed(f, t) : t;
}

grail_status torch_run_linear(const operation *o)
{
    const matrix bias = o->m[2];
    torch_frame f = torch_begin(o->m[0].owner);
    const torch_tensor x = torch_matrix(&f, o->m[0]);
    const torch_tensor w = turned(&f, true, o->m[1]);
    const torch_tensor y = torch_matrix(&f, o->m[3]);
    if (matrix_exists(bias)) {
        torch_copy(&f, torch_matrix(&f, bias), y);
    }
    torch_add_product(&f, x, w, 1.0, matrix_exists(bias) ? 1.0 : 0.0, y);
    return torch_end(&f);
}

static grail_status run_product(const operation *o, double alpha)
{
    torch_frame f = torch_begin(o->m[0].owner);
    torch_add_product(&f, turned(&f, o->with.transpose_a, o->m[0]),
                      turned(&f, o->with.transpose_b, o->m[1]), alpha, o->with.beta,
                      torch_matrix(&f, o->m[2]));
    return torch_end(&f);
}

grail_status torch_run_product(const operation *o)
{
    return run_product(o, 1.0);
}

grail_status torch_run_gemm(const operation *o)
{
    return run_product(o, o->with.alpha);
}

/* into += Y^T X, panel by panel: products in f32, or as f64 where the values are. */
static void add_cross(torch_frame *f, matrix y, matrix x, torch_tensor into)
{
    const int before = f->count;
    for (int64_t begin = 0; begin < x.rows && f->status == GRAIL_OK; begin += PANEL) {
        const int64_t rows = x.rows - begin < PANEL ? x.rows - begin : PANEL;
        const torch_tensor left = turned(f, true, matrix_rows(y, begin, rows));
        const torch_tensor right = torch_matrix(f, matrix_rows(x, begin, rows));
        const torch_tensor product = torch_call(f, "aten::mm", "", A_TENSOR(left), A_TENSOR(right));
        torch_copy(f, torch_sum(f, into, product, 1.0), into);
        torch_forget(f, before);
    }
}

grail_status torch_run_cross(const operation *o)
{
    torch_frame f = torch_begin(o->m[0].owner);
    add_cross(&f, o->m[0], o->m[1], torch_matrix(&f, o->m[2]));
    return torch_end(&f);
}

/* The lower triangle in strips of columns, so that the upper one is left alone. */
grail_status torch_run_gram(const operation *o)
{
    torch_frame f = torch_begin(o->m[0].owner);
    const matrix x = o->m[0];
    const matrix g = o->m[1];
    const torch_tensor sum = torch_empty(&f, GRAIL_DTYPE_F64, x.columns, x.columns);
    torch_zero(&f, sum);
    add_cross(&f, x, x, sum);
    const torch_tensor lower = torch_call(&f, "aten::tril", "", A_TENSOR(sum), AN_INTEGER(0));
    const torch_tensor own = torch_matrix(&f, g);
    torch_copy(&f, torch_sum(&f, own, lower, 1.0), own);
    return torch_end(&f);
}
