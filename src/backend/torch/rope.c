/* Rotary embedding. */
#include "backend/torch/kernels.h"

/* first, first + 1, ... as a column of f64 */
static torch_tensor counted(torch_frame *f, int64_t first, int64_t count)
{
    const torch_tensor ones = torch_fill(f, torch_empty(f, GRAIL_DTYPE_F64, count, 1), 1.0);
    return torch_sum(f, torch_call(f, "aten::cumsum", "", A_TENSOR(ones), AN_INTEGER(0), NOTHING),
                     ones, (double)first - 1.0);
}

/* f(angles) * factor for the values of all heads of a row. */
static torch_tensor table(torch_frame *f, const rope_shape *s, const char *name,
                          torch_tensor angles, double factor)
{
    const torch_tensor all = torch_scaled(f, torch_unary(f, name, angles), factor);
    return torch_reshaped(f, torch_as(f, GRAIL_DTYPE_F32, all), 3,
                          (int64_t[]){s->length, 1, s->turned / 2},
                          (int64_t[]){s->turned / 2, s->turned / 2, 1}, 0);
}

/* Features begin .. begin + turned / 2 - 1 of every head. */
static torch_tensor half_of_heads(torch_frame *f, const rope_shape *s, matrix x, int64_t begin)
{
    const int64_t width = x.columns;
    return torch_view(f, matrix_columns(x, begin, s->turned / 2), 4,
                      (int64_t[]){s->sequences, s->length, width / s->head_dim, s->turned / 2},
                      (int64_t[]){s->length * width, width, s->head_dim, 1});
}

grail_status torch_run_rope(const operation *o)
{
    const rope_shape *s = o->with.rope;
    torch_frame f = torch_begin(o->m[0].owner);
    if (matrix_count(o->m[0]) == 0 || s->turned == 0) {
        return torch_end(&f);
    }
    const torch_tensor frequency = torch_list(&f, GRAIL_DTYPE_F64, s->turned / 2, s->frequency);
    const torch_tensor angles = torch_times(&f, counted(&f, s->first, s->length), frequency);
    const torch_tensor cosine = table(&f, s, "aten::cos", angles, s->factor);
    const torch_tensor sine =
        table(&f, s, "aten::sin", angles, s->backward ? -s->factor : s->factor);
    const torch_tensor first = half_of_heads(&f, s, o->m[0], 0);
    const torch_tensor second = half_of_heads(&f, s, o->m[0], s->turned / 2);
    const torch_tensor crossed = torch_times(&f, first, sine);
    const torch_tensor turned =
        torch_sum(&f, torch_times(&f, first, cosine), torch_times(&f, second, sine), -1.0);
    torch_copy(&f, torch_sum(&f, torch_times(&f, second, cosine), crossed, 1.0), second);
    torch_copy(&f, turned, first);
    return torch_end(&f);
}
