/* Routers: which outputs each row takes, and their shares, in f64. */
#include "backend/torch/kernels.h"

#include <math.h>

/* What a router makes of all rows; [rows, outputs] each. */
typedef struct routed {
    torch_tensor taken; /* 1 at the chosen ones, 0 elsewhere */
    torch_tensor part;  /* of what the row's shares are parts of, 0 where nothing counts */
    torch_tensor inner; /* 1 - sigmoid(score); NULL without one */
} routed;

/* t[rows, n] sorted from the largest on along its columns, of equal ones the first; *places are
 * where they were. */
static torch_tensor sorted(torch_frame *f, torch_tensor t, torch_tensor *places)
{
    torch_tensor made[2];
    (void)torch_call_many(f, "aten::sort", "stable", 2, made, A_TENSOR(t), MAYBE_INTEGER(1),
                          AN_INTEGER(1), A_TRUTH(true));
    if (places != NULL) {
        *places = made[1];
    }
    return made[0];
}

/* The first `count` columns of t[rows, n]. */
static torch_tensor first_columns(torch_frame *f, torch_tensor t, int64_t rows, int64_t n,
                                  int64_t count)
{
    return torch_reshaped(f, t, 2, (int64_t[]){rows, count}, (int64_t[]){n, 1}, 0);
}

static torch_tensor reshaped(torch_frame *f, torch_tensor t, int64_t rows, int64_t columns)
{
    return torch_reshaped(f, t, 2, (int64_t[]){rows, columns}, (int64_t[]){columns, 1}, 0);
}

/* 1 at the `most` largest of each row of t[rows, n], 0 elsewhere. */
static torch_tensor mark_largest(torch_frame *f, torch_tensor t, int64_t rows, int64_t n,
                                 int64_t most)
{
    torch_tensor places = NULL;
    const int64_t count = smaller(most, n);
    const torch_tensor mark = torch_fill(f, torch_empty(f, GRAIL_DTYPE_F64, rows, n), 0.0);
    const torch_tensor ones = torch_fill(f, torch_empty(f, GRAIL_DTYPE_F64, rows, count), 1.0);
    (void)sorted(f, t, &places);
    (void)torch_call(f, "aten::scatter_", "src", A_TENSOR(mark), AN_INTEGER(1),
                     A_TENSOR(first_columns(f, places, rows, n, count)), A_TENSOR(ones));
    return mark;
}

/* rank[rows, outputs] <- -infinity outside of the chosen groups */
static void leave_groups(torch_frame *f, const route_attributes *how, int64_t rows, int64_t outputs,
                         torch_tensor rank)
{
    const int64_t groups = how->groups;
    const int64_t size = outputs / groups;
    const int64_t best = smaller(how->best, size);
    const torch_tensor own = reshaped(f, rank, rows * groups, size);
    const torch_tensor largest = first_columns(f, sorted(f, own, NULL), rows * groups, size, best);
    const torch_tensor sums = reshaped(f, torch_sums(f, largest, MAYBE_INTEGERS(1)), rows, groups);
    const torch_tensor chosen = mark_largest(f, sums, rows, groups, how->chosen_groups);
    const torch_tensor left =
        torch_unary(f, "aten::logical_not", reshaped(f, chosen, rows * groups, 1));
    torch_put(f, left, -HUGE_VAL, own);
}

static routed find_parts(torch_frame *f, const route_attributes *how, matrix x, matrix added)
{
    routed out = {0};
    torch_tensor size = NULL;
    const torch_tensor scores = torch_as(f, GRAIL_DTYPE_F64, torch_matrix(f, x));
    if (how->sigmoid) {
        size = torch_unary(f, "aten::sigmoid", scores);
        out.inner = torch_sum(f, torch_number(f, 1.0), size, -1.0);
    } else {
        const torch_tensor largest =
            torch_call(f, "aten::amax", "", A_TENSOR(scores), INTEGERS(1), A_TRUTH(true));
        size = torch_unary(f, "aten::exp", torch_sum(f, scores, largest, -1.0));
    }
    torch_tensor rank = torch_as(f, GRAIL_DTYPE_F64, how->sigmoid ? size : scores);
    if (matrix_exists(added)) {
        rank = torch_sum(f, rank, torch_as(f, GRAIL_DTYPE_F64, torch_matrix(f, added)), 1.0);
    }
    if (how->groups > 0) {
        leave_groups(f, how, x.rows, x.columns, rank);
    }
    out.taken = mark_largest(f, rank, x.rows, x.columns, how->chosen);
    out.part = how->over_all ? size : torch_times(f, size, out.taken);
    if (!(how->sigmoid && how->over_all)) {
        out.part = torch_divided(f, out.part, torch_sums(f, out.part, MAYBE_INTEGERS(1)));
    }
    return out;
}

static double scale_of(const route_attributes *how)
{
    return how->scale == 0.0 ? 1.0 : how->scale;
}

KERNEL(route)
{
    const matrix y = o->m[2];
    if (matrix_count(y) == 0) {
        return;
    }
    const routed r = find_parts(f, o->with.route, o->m[0], o->m[1]);
    torch_tensor shares = torch_scaled(f, torch_times(f, r.part, r.taken), scale_of(o->with.route));
    if (o->with.columns != NULL) {
        const torch_tensor order = torch_list(f, GRAIL_DTYPE_I64, y.columns, o->with.columns);
        shares = torch_call(f, "aten::index_select", "", A_TENSOR(shares), AN_INTEGER(1),
                            A_TENSOR(order));
    }
    torch_copy(f, shares, torch_matrix(f, y));
}

KERNEL(route_gradient)
{
    const route_attributes *how = o->with.route;
    if (matrix_count(o->m[0]) == 0) {
        return;
    }
    const routed r = find_parts(f, how, o->m[0], o->m[1]);
    torch_tensor dy = torch_as(f, GRAIL_DTYPE_F64, torch_matrix(f, o->m[2]));
    if (!(how->sigmoid && how->over_all)) {
        const torch_tensor sum = torch_sums(f, torch_times(f, r.part, dy), MAYBE_INTEGERS(1));
        dy = torch_sum(f, dy, sum, -1.0);
    }
    torch_tensor dx = torch_scaled(f, torch_times(f, r.part, dy), scale_of(how));
    dx = r.inner == NULL ? dx : torch_times(f, dx, r.inner);
    torch_copy(f, dx, torch_matrix(f, o->m[3]));
}
