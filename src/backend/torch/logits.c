/* What rows of logits say: f32 exponentials, f64 sums. */
#include "backend/torch/kernels.h"

#include <math.h>

static torch_tensor largest_of(torch_frame *f, torch_tensor x)
{
    return torch_call(f, "aten::amax", "", A_TENSOR(x), INTEGERS(1), A_TRUTH(true));
}

/* exp(x - shift) */
static torch_tensor exponentials(torch_frame *f, torch_tensor x, torch_tensor shift)
{
    const torch_tensor e = torch_sum(f, x, shift, -1.0);
    (void)torch_call(f, "aten::exp", "out", A_TENSOR(e), A_TENSOR(e));
    return e;
}

/* -- cross entropy ----------------------------------------------------------------------------- */

typedef struct entropy_columns {
    torch_tensor largest, total, target; /* [rows, 1] in f64 */
} entropy_columns;

/* The fields of sums whose rows lie `stride` apart. */
static entropy_columns columns_of(torch_frame *f, torch_tensor sums, int64_t rows, int64_t stride)
{
    const int64_t shape[] = {rows, 1};
    const int64_t strides[] = {stride, 1};
    return (entropy_columns){torch_reshaped(f, sums, 2, shape, strides, 0),
                             torch_reshaped(f, sums, 2, shape, strides, 1),
                             torch_reshaped(f, sums, 2, shape, strides, 2)};
}

/* The sums before these logits. */
static entropy_columns sums_before(torch_frame *f, const operation *o)
{
    static const entropy_sums none = {-HUGE_VAL, 0.0, 0.0};
    const int64_t rows = o->m[0].rows;
    return o->with.begin == 0
               ? columns_of(f, torch_values(f, GRAIL_DTYPE_F64, 3, &none), rows, 0)
               : columns_of(f, torch_values(f, GRAIL_DTYPE_F64, 3 * rows, o->with.entropy), rows,
                            3);
}

/* The logit of each row's target where the panel holds it, else what was there. */
static torch_tensor target_of(torch_frame *f, const operation *o, torch_tensor x,
                              torch_tensor before)
{
    const int64_t rows = o->m[0].rows;
    const torch_tensor listed =
        torch_as(f, GRAIL_DTYPE_F64, torch_values(f, GRAIL_DTYPE_I32, rows, o->with.target));
    const torch_tensor column =
        torch_sum(f, torch_reshaped(f, listed, 2, (int64_t[]){rows, 1}, (int64_t[]){1, 1}, 0),
                  torch_number(f, (double)o->with.begin), -1.0);
    const torch_tensor within = torch_empty(f, GRAIL_DTYPE_F64, rows, 1);
    torch_limit(f, 0.0, (double)(o->m[0].columns - 1), column, within);
    const torch_tensor logit =
        torch_call(f, "aten::gather", "", A_TENSOR(x), AN_INTEGER(1),
                   A_TENSOR(torch_as(f, GRAIL_DTYPE_I64, within)), A_TRUTH(false));
    const torch_tensor is_here =
        torch_call(f, "aten::eq", "Tensor", A_TENSOR(column), A_TENSOR(within));
    return torch_call(f, "aten::where", "self", A_TENSOR(is_here), A_TENSOR(logit),
                      A_TENSOR(before));
}

KERNEL(cross_entropy)
{
    const matrix logits = o->m[0];
    if (matrix_count(logits) > 0) {
        const torch_tensor x = torch_wide(f, logits);
        const entropy_columns before = sums_before(f, o);
        const torch_tensor sums = torch_empty(f, GRAIL_DTYPE_F64, logits.rows, 3);
        const entropy_columns now = columns_of(f, sums, logits.rows, 3);
        const torch_tensor largest =
            torch_call(f, "aten::maximum", "", A_TENSOR(largest_of(f, x)),
                       A_TENSOR(torch_as(f, GRAIL_DTYPE_F32, before.largest)));
        const torch_tensor shrunk =
            torch_times(f, exponentials(f, before.largest, largest), before.total);
        torch_copy(f, largest, now.largest);
        torch_copy(f, target_of(f, o, x, before.target), now.target);
        torch_copy(f,
                   torch_sum(f, torch_sums(f, exponentials(f, x, largest), MAYBE_INTEGERS(1)),
                             shrunk, 1.0),
                   now.total);
        torch_copy(f, sums, torch_host_values(f, GRAIL_DTYPE_F64, logits.rows, 3, o->with.entropy));
    }
}

/* -- divergence -------------------------------------------------------------------------------- */

/* softmax(x) = e / total, log_sum = log sum exp x */
typedef struct softmax {
    torch_tensor e;
    torch_tensor total, log_sum; /* [rows, 1] in f64 */
} softmax;

static softmax softmax_of(torch_frame *f, torch_tensor x)
{
    const torch_tensor largest = largest_of(f, x);
    const torch_tensor e = exponentials(f, x, largest);
    const torch_tensor total = torch_sums(f, e, MAYBE_INTEGERS(1));
    return (softmax){e, total, torch_sum(f, torch_unary(f, "aten::log", total), largest, 1.0)};
}

/* sum p (log p - log q), p = softmax(x), q = softmax(z). A class without weight has none, however
 * far apart its logits are. */
static torch_tensor divergence_of(torch_frame *f, torch_tensor x, const softmax *p, torch_tensor z,
                                  const softmax *q)
{
    const torch_tensor terms = torch_sum(f, x, z, -1.0);
    const torch_tensor is_empty =
        torch_call(f, "aten::eq", "Tensor", A_TENSOR(p->e), A_TENSOR(torch_number(f, 0.0)));
    torch_times_into(f, terms, p->e, terms);
    torch_put(f, is_empty, 0.0, terms);
    const torch_tensor mean = torch_divided(f, torch_sums(f, terms, MAYBE_INTEGERS(1)), p->total);
    return torch_sum(f, mean, torch_sum(f, p->log_sum, q->log_sum, -1.0), -1.0);
}

/* e <- factor softmax */
static void weigh(torch_frame *f, const softmax *s, double factor)
{
    const torch_tensor share = torch_divided(f, torch_number(f, factor), s->total);
    torch_times_into(f, s->e, torch_as(f, GRAIL_DTYPE_F32, share), s->e);
}

static void compare_rows(torch_frame *f, const operation *o, int64_t begin, int64_t rows)
{
    const torch_tensor x = torch_wide(f, matrix_rows(o->m[0], begin, rows));
    const torch_tensor z = torch_wide(f, matrix_rows(o->m[1], begin, rows));
    const softmax p = softmax_of(f, x);
    const softmax q = softmax_of(f, z);
    const int before = f->count;
    torch_copy(f, divergence_of(f, x, &p, z, &q),
               torch_view(f, matrix_columns(o->m[3], begin, rows), 2, (int64_t[]){rows, 1},
                          (int64_t[]){1, 1}));
    torch_forget(f, before);
    if (matrix_exists(o->m[2])) {
        weigh(f, &p, o->with.alpha);
        weigh(f, &q, o->with.alpha);
        torch_copy(f, torch_sum(f, q.e, p.e, -1.0),
                   torch_matrix(f, matrix_rows(o->m[2], begin, rows)));
    }
}

KERNEL(divergence)
{
    enum { AT_ONCE = 1 << 26 }; /* logits, for which six times as many numbers of f32 are made */
    const matrix logits = o->m[1];
    if (matrix_count(logits) == 0) {
        torch_zero(f, torch_matrix(f, o->m[3]));
        return;
    }
    const int64_t step = AT_ONCE / logits.columns + 1;
    for (int64_t begin = 0; begin < logits.rows && f->status == GRAIL_OK; begin += step) {
        compare_rows(f, o, begin, smaller(step, logits.rows - begin));
        torch_forget(f, 0);
    }
}
