/* The search for NaN and infinity, in one reading of the values. */
#include "backend/torch/kernels.h"

/* Above every index, and exact beside each of them in f64. */
static const double find_rank = 0x1p52;

/* What is searched of a matrix. */
static torch_tensor searched(torch_frame *f, const operation *o)
{
    const torch_tensor x = torch_matrix(f, o->m[0]);
    return o->with.lower ? torch_call(f, "aten::tril", "", A_TENSOR(x), AN_INTEGER(0)) : x;
}

/* [1] f64: the rank less the index of the first NaN or infinity; 0 where all is finite. A product
 * with zeros is NaN for rows with one of either and 0 for others, and torch takes NaN for the
 * largest number, but for the smaller of two only where both are. */
static torch_tensor code_of(torch_frame *f, const operation *o, double rank)
{
    const matrix m = o->m[0];
    const torch_tensor x = searched(f, o);
    torch_tensor first[2]; /* the mark of a row, and which */
    const torch_tensor marks =
        torch_call(f, "aten::mv", "", A_TENSOR(x), A_TENSOR(torch_zeros(f, m.type, m.columns)));
    (void)torch_call_many(f, "aten::max", "dim", 2, first, A_TENSOR(marks), AN_INTEGER(0),
                          A_TRUTH(true));
    const torch_tensor row =
        torch_call(f, "aten::index_select", "", A_TENSOR(x), AN_INTEGER(0), A_TENSOR(first[1]));
    const torch_tensor column = torch_call(
        f, "aten::argmax", "", A_TENSOR(torch_scaled(f, row, 0.0)), NOTHING, A_TRUTH(false));
    const torch_tensor begin = torch_sum(f, torch_number(f, rank), first[1], -(double)m.columns);
    return torch_call(f, "aten::fmin", "", A_TENSOR(first[0]),
                      A_TENSOR(torch_sum(f, begin, column, -1.0)));
}

KERNEL(find_non_finite)
{
    double found = 0.0;
    if (matrix_count(o->m[0]) > 0) {
        found = torch_item(f, code_of(f, o, find_rank));
    }
    *o->with.index = found > 0.0 ? (int64_t)(find_rank - found) : -1;
}

KERNEL(mark_non_finite)
{
    if (matrix_count(o->m[0]) > 0) {
        const torch_tensor status = torch_view(f, o->m[1], 1, (int64_t[]){1}, (int64_t[]){1});
        (void)torch_call(f, "aten::maximum", "out", A_TENSOR(status),
                         A_TENSOR(code_of(f, o, o->with.alpha)), A_TENSOR(status));
    }
}
