/* The search for NaN and infinity. */
#include "backend/torch/kernels.h"

#include <math.h>

/* 0 where all is finite, else NaN: for all elements, or along a dimension. */
static torch_tensor marks_of(torch_frame *f, torch_tensor x, torch_argument along)
{
    torch_tensor ends[2] = {NULL};
    (void)torch_call_many(f, "aten::aminmax", "", 2, ends, A_TENSOR(x), along, A_TRUTH(false));
    return torch_sum(f, torch_scaled(f, ends[0], 0.0), torch_scaled(f, ends[1], 0.0), 1.0);
}

/* Index of the first NaN: torch takes it for the largest number. */
static torch_tensor first_of(torch_frame *f, torch_tensor marks)
{
    return torch_call(f, "aten::argmax", "", A_TENSOR(marks), NOTHING, A_TRUTH(false));
}

static int64_t find(torch_frame *f, torch_tensor x, int64_t columns)
{
    if (!isnan(torch_item(f, marks_of(f, x, NOTHING)))) {
        return -1;
    }
    const torch_argument rows = {.kind = TORCH_OPTIONAL_INTEGER, .is.integer = 1};
    const torch_tensor marks = marks_of(f, x, rows);
    const torch_tensor row = first_of(f, marks);
    const torch_tensor values =
        torch_call(f, "aten::index_select", "", A_TENSOR(x), AN_INTEGER(0), A_TENSOR(row));
    const torch_tensor column = first_of(f, torch_scaled(f, values, 0.0));
    return (int64_t)torch_item(f, row) * columns + (int64_t)torch_item(f, column);
}

grail_status torch_run_find_non_finite(const operation *o)
{
    const matrix m = o->m[0];
    torch_frame f = torch_begin(m.owner);
    *o->with.index = -1;
    if (matrix_count(m) > 0) {
        const torch_tensor x = torch_matrix(&f, m);
        const torch_tensor lower =
            o->with.lower ? torch_call(&f, "aten::tril", "", A_TENSOR(x), AN_INTEGER(0)) : x;
        *o->with.index = find(&f, lower, m.columns);
    }
    return torch_end(&f);
}
