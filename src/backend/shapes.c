#include "backend/shapes.h"

grail_status wrong_shape(operation_slot slot)
{
    return error_set(GRAIL_ERROR_INTERNAL, "operation '%s': the shapes of its matrices disagree",
                     operation_name((int)slot));
}

bool same_shape(matrix a, matrix b)
{
    return a.rows == b.rows && a.columns == b.columns;
}

bool is_square(matrix a)
{
    return a.rows == a.columns;
}

bool has_columns(matrix m, int64_t columns)
{
    return !matrix_exists(m) || m.columns == columns;
}

bool product_fits(bool transpose_a, bool transpose_b, matrix a, matrix b, matrix c)
{
    const int64_t inner = transpose_a ? a.rows : a.columns;
    return (transpose_a ? a.columns : a.rows) == c.rows &&
           (transpose_b ? b.rows : b.columns) == c.columns &&
           (transpose_b ? b.columns : b.rows) == inner;
}

bool attention_fits(const attention_shape *s, matrix q, matrix k, matrix v, matrix out)
{
    const int64_t rows = s->sequences * s->length;
    return q.rows == rows && k.rows == rows && same_shape(k, v) && same_shape(q, out) &&
           q.columns == s->query_heads * s->head_dim && k.columns == s->kv_heads * s->head_dim;
}

bool has_positions(const conv_shape *s, matrix x)
{
    return x.rows == s->samples * s->in.height * s->in.width && x.columns == s->channels_in;
}

bool window_fits(const conv_shape *s, matrix x, matrix y)
{
    return has_positions(s, x) && y.rows == s->samples * s->out.height * s->out.width &&
           y.columns == s->channels_out;
}

bool convolution_fits(const conv_shape *s, matrix x, matrix weight, matrix y)
{
    const int64_t taps = s->window.kernel_height * s->window.kernel_width;
    return window_fits(s, x, y) && weight.rows == s->channels_out &&
           weight.columns == s->channels_in * taps;
}

bool positions_fit(const position_shape *s, matrix x, matrix y)
{
    return x.rows == s->samples * s->in.height * s->in.width &&
           y.rows == s->samples * s->out.height * s->out.width;
}
