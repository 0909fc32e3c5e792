/* The search for NaN and infinity. */
#include "backend/torch/kernels.h"

#include <math.h>

/* 0 where a row is finite, else NaN: its sum is not finite then, and sums in f64 do not overflow.
 */
static torch_tensor marks_of_rows(torch_frame *f, matrix m, torch_tensor x)
{
    const torch_tensor sums = torch_sums(f, x, MAYBE_INTEGERS(1));
    return torch_scaled(f, torch_reshaped(f, sums, 1, &m.rows, (int64_t[]){1}, 0), 0.0);
}

/* 0 where all is finite, else NaN: for all elements, or along dimensions. One aminmax of rows takes
 * five times as long as both of these on a processor. */
static torch_tensor marks_of(torch_frame *f, torch_tensor x, torch_argument along)
{
    const torch_tensor low = torch_call(f, "aten::amin", "", A_TENSOR(x), along, A_TRUTH(false));
    const torch_tensor high = torch_call(f, "aten::amax", "", A_TENSOR(x), along, A_TRUTH(false));
    return torch_sum(f, torch_scaled(f, low, 0.0), torch_scaled(f, high, 0.0), 1.0);
}

/* Index of the first NaN: torch takes it for the largest number. */
static torch_tensor first_of(torch_frame *f, torch_tensor marks)
{
    return torch_call(f, "aten::argmax", "", A_TENSOR(marks), NOTHING, A_TRUTH(false));
}

/* Where the first one is, if there is one; and NaN where it is there. */
typedef struct place {
    torch_tensor row, column, mark;
} place;

static torch_tensor taken(torch_frame *f, torch_tensor x, torch_tensor row)
{
    return torch_call(f, "aten::index_select", "", A_TENSOR(x), AN_INTEGER(0), A_TENSOR(row));
}

static place place_of(torch_frame *f, matrix m, torch_tensor x)
{
    place p = {0};
    const torch_tensor marks =
        torch_is_narrow(m) ? marks_of_rows(f, m, x) : marks_of(f, x, INTEGERS(1));
    p.row = first_of(f, marks);
    p.column = first_of(f, torch_scaled(f, taken(f, x, p.row), 0.0));
    p.mark = taken(f, marks, p.row);
    return p;
}

static int64_t find(torch_frame *f, matrix m, torch_tensor x)
{
    if (!isnan(torch_item(f, marks_of(f, x, INTEGERS(0, 1))))) {
        return -1;
    }
    const place p = place_of(f, m, x);
    return (int64_t)torch_item(f, p.row) * m.columns + (int64_t)torch_item(f, p.column);
}

/* What is searched of a matrix. */
static torch_tensor searched(torch_frame *f, const operation *o)
{
    const torch_tensor x = torch_matrix(f, o->m[0]);
    return o->with.lower ? torch_call(f, "aten::tril", "", A_TENSOR(x), AN_INTEGER(0)) : x;
}

grail_status torch_run_find_non_finite(const operation *o)
{
    const matrix m = o->m[0];
    torch_frame f = torch_begin(m.owner);
    *o->with.index = -1;
    if (matrix_count(m) > 0) {
        *o->with.index = find(&f, m, searched(&f, o));
    }
    return torch_end(&f);
}

grail_status torch_run_mark_non_finite(const operation *o)
{
    const matrix m = o->m[0];
    torch_frame f = torch_begin(m.owner);
    if (matrix_count(m) == 0) {
        return GRAIL_OK;
    }
    const place p = place_of(&f, m, searched(&f, o));
    const torch_tensor index = torch_sum(&f, torch_as(&f, GRAIL_DTYPE_F64, p.column),
                                         torch_as(&f, GRAIL_DTYPE_F64, p.row), (double)m.columns);
    const torch_tensor found =
        torch_sum(&f, torch_scaled(&f, index, -1.0), torch_number(&f, o->with.alpha), 1.0);
    const torch_tensor code = torch_reshaped(&f, found, 1, (int64_t[]){1}, (int64_t[]){1}, 0);
    torch_put(&f, torch_unary(&f, "aten::isfinite", p.mark), 0.0, code);
    const torch_tensor status = torch_matrix(&f, o->m[1]);
    (void)torch_call(&f, "aten::maximum", "out", A_TENSOR(status), A_TENSOR(code),
                     A_TENSOR(status));
    return torch_end(&f);
}
