/* Sums and products element by element, of rows and columns that are spread, and the step of an
 * optimiser. */
#include "backend/torch/kernels.h"

/* A matrix with its rows in `groups` of as many that follow each other. */
static torch_tensor grouped(torch_frame *f, matrix m, int64_t groups)
{
    const int64_t size = m.rows / groups;
    return torch_view(f, m, 3, (int64_t[]){groups, size, m.columns},
                      (int64_t[]){size * m.stride, m.stride, 1});
}

KERNEL(multiply)
{
    const int64_t groups = o->m[1].rows;
    if (groups > 0) {
        torch_times_into(f, grouped(f, o->m[0], groups), grouped(f, o->m[1], groups),
                         grouped(f, o->m[2], groups));
    }
}

/* Y = A + sign B */
static void sum(torch_frame *f, const operation *o, double sign)
{
    const int64_t groups = o->m[1].rows;
    if (groups > 0) {
        torch_copy(f, torch_sum(f, grouped(f, o->m[0], groups), grouped(f, o->m[1], groups), sign),
                   grouped(f, o->m[2], groups));
    }
}

KERNEL(add)
{
    sum(f, o, 1.0);
}

KERNEL(subtract)
{
    sum(f, o, -1.0);
}

void torch_add(torch_frame *f, torch_tensor x, double factor, torch_tensor to)
{
    torch_add_times(f, x, torch_list(f, GRAIL_DTYPE_F64, 1, &(double){1.0}), factor, to);
}

/* Factors have the type that is computed in: products of mixed types go one by one. */
KERNEL(scale_rows)
{
    torch_tensor factors = torch_transposed(f, torch_matrix(f, o->m[0]));
    if (o->m[1].type != GRAIL_DTYPE_F64) {
        factors = torch_as(f, GRAIL_DTYPE_F32, factors);
    }
    torch_times_into(f, torch_matrix(f, o->m[1]), factors, torch_matrix(f, o->m[2]));
}

KERNEL(scale)
{
    const torch_tensor factor = torch_fill(f, torch_empty(f, GRAIL_DTYPE_F64, 1, 1), o->with.alpha);
    torch_times_into(f, factor, torch_matrix(f, o->m[0]), torch_matrix(f, o->m[1]));
}

/* Y = X A, rounded once, or X. */
static void multiply_or_copy(torch_frame *f, matrix x, matrix a, matrix y)
{
    if (matrix_exists(a)) {
        torch_times_into(f, torch_matrix(f, x), torch_matrix(f, a), torch_matrix(f, y));
    } else {
        torch_copy(f, torch_matrix(f, x), torch_matrix(f, y));
    }
}

KERNEL(spread_gradient)
{
    const matrix db = o->m[2];
    if (db.rows == o->m[0].rows && db.columns == o->m[0].columns) { /* nothing is spread */
        multiply_or_copy(f, o->m[0], o->m[1], db);
    } else if (db.rows > 0) {
        torch_tensor terms = grouped(f, o->m[0], db.rows);
        if (matrix_exists(o->m[1])) {
            terms = torch_as(f, GRAIL_DTYPE_F64, terms);
            torch_times_into(f, terms, grouped(f, o->m[1], db.rows), terms);
        }
        torch_copy(f,
                   torch_sums(f, terms, db.columns == 1 ? MAYBE_INTEGERS(1, 2) : MAYBE_INTEGERS(1)),
                   grouped(f, db, db.rows));
    }
}

/* m <- decay m + (1 - decay) x. The weight is made on the device and has the type of m: older
 * releases take no other. */
static void average(torch_frame *f, double decay, torch_tensor x, torch_tensor m)
{
    const torch_tensor weight = torch_fill(f, torch_empty(f, GRAIL_DTYPE_F32, 1, 1), 1.0 - decay);
    (void)torch_call(f, "aten::lerp_", "Tensor", A_TENSOR(m), A_TENSOR(x), A_TENSOR(weight));
}

/* torch's own step, which reads and writes each element once: its formula is ours, without a decay
 * of the weights. It reads the number of the step from the device, as f32. */
static void descend_fused(torch_frame *f, const operation *o)
{
    const descent *step = o->with.descent;
    const torch_argument none = {.kind = TORCH_WHOLE_TENSORS};
    const torch_tensor count =
        torch_fill(f, torch_empty(f, GRAIL_DTYPE_F32, 1, 1), (double)step->steps);
    (void)torch_call_many(
        f, "aten::_fused_adamw_", "", 0, NULL, WHOLE_TENSORS(torch_matrix(f, o->m[3])),
        WHOLE_TENSORS(torch_matrix(f, o->m[0])), WHOLE_TENSORS(torch_matrix(f, o->m[1])),
        WHOLE_TENSORS(torch_matrix(f, o->m[2])), none,
        WHOLE_TENSORS(torch_reshaped(f, count, 0, NULL, NULL, 0)), A_REAL(step->rate),
        A_REAL(step->first_decay), A_REAL(step->second_decay), A_REAL(0.0), A_REAL(step->epsilon),
        A_TRUTH(false), A_TRUTH(false), NOTHING, NOTHING);
}

static bool is_fused(const operation *o)
{
    const grail_dtype type = GRAIL_DTYPE_F32;
    return o->with.descent->steps > 0 && matrix_count(o->m[3]) > 0 && matrix_exists(o->m[1]) &&
           o->m[0].type == type && o->m[1].type == type && o->m[2].type == type &&
           o->m[3].type == type;
}

KERNEL(descend)
{
    const descent *step = o->with.descent;
    const double length = step->rate / step->first_share;
    if (is_fused(o)) {
        descend_fused(f, o);
        return;
    }
    const torch_tensor gradient = torch_matrix(f, o->m[0]);
    const torch_tensor first = torch_matrix(f, o->m[1]);
    const torch_tensor second = torch_matrix(f, o->m[2]);
    const torch_tensor weight = torch_matrix(f, o->m[3]);
    if (matrix_exists(o->m[1])) {
        average(f, step->first_decay, gradient, first);
    }
    const torch_tensor scratch = torch_times(f, gradient, gradient);
    average(f, step->second_decay, scratch, second);
    torch_times_into(f, second, torch_number(f, 1.0 / step->second_share), scratch);
    (void)torch_call(f, "aten::sqrt", "out", A_TENSOR(scratch), A_TENSOR(scratch));
    const torch_tensor divisor = torch_shifted(f, scratch, step->epsilon);
    const torch_tensor direction = matrix_exists(o->m[1]) ? first : gradient;
    (void)torch_call(f, "aten::div", "out", A_TENSOR(direction), A_TENSOR(divisor),
                     A_TENSOR(scratch));
    torch_copy(f, torch_sum(f, weight, scratch, -length), weight);
}
