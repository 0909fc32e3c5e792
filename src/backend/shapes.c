#include "backend/shapes.h"

#include "graph/graph.h"

#include <math.h>

bool same_shape(matrix a, matrix b)
{
    return a.rows == b.rows && a.columns == b.columns;
}

bool is_square(matrix a)
{
    return a.rows == a.columns;
}

bool is_row(matrix m, int64_t columns)
{
    return m.rows > 0 && m.columns == columns;
}

bool has_columns(matrix m, int64_t columns)
{
    return !matrix_exists(m) || is_row(m, columns);
}

bool has_shape(matrix m, matrix like)
{
    return !matrix_exists(m) || same_shape(m, like);
}

bool spreads_to(matrix b, matrix y)
{
    return (b.columns == y.columns || b.columns == 1) &&
           (b.rows > 0 ? y.rows % b.rows == 0 : y.rows == 0);
}

bool groups_fit(matrix x, matrix weight)
{
    return weight.rows > 0 && weight.columns > 0 && x.columns % weight.columns == 0;
}

bool product_fits(bool transpose_a, bool transpose_b, matrix a, matrix b, matrix c)
{
    const int64_t inner = transpose_a ? a.rows : a.columns;
    return (transpose_a ? a.columns : a.rows) == c.rows &&
           (transpose_b ? b.rows : b.columns) == c.columns &&
           (transpose_b ? b.columns : b.rows) == inner;
}

bool rotation_fits(const rope_shape *s, matrix x)
{
    return x.rows == s->sequences * s->length && x.columns % s->head_dim == 0 && s->turned >= 0 &&
           s->first >= 0 && s->turned <= s->head_dim && s->turned % 2 == 0;
}

bool attention_fits(const attention_shape *s, matrix q, matrix k, matrix v, matrix out)
{
    const int64_t rows = s->sequences * s->length;
    const bool groups = s->kv_heads == 0 ? s->query_heads == 0 : s->query_heads % s->kv_heads == 0;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t keys = s->sequences * attention_room(s);
    return groups && s->earlier >= 0 && attention_room(s) >= attention_keys(s) && q.rows == rows &&
           k.rows == keys && v.rows == keys && out.rows == rows &&
           q.columns == s->query_heads * s->head_dim && k.columns == s->kv_heads * s->head_dim &&
           out.columns == s->query_heads * value_dim && v.columns == s->kv_heads * value_dim;
}

bool biases_fit(const attention_shape *s, matrix biases)
{
    const bool by_distance = attention_goes_by_distance(s, biases);
    const int64_t positions = by_distance ? (biases.columns + 1) / 2 : biases.columns;
    return !matrix_exists(biases) ||
           (s->cap == 0.0 && positions >= attention_keys(s) &&
            (by_distance           ? biases.columns % 2 == 1
             : s->query_heads == 0 ? biases.rows == 0
                                   : biases.rows % (s->query_heads * positions) == 0));
}

static bool has_positions(const conv_shape *s, matrix x)
{
    return x.rows == s->samples * s->in.height * s->in.width && x.columns == s->channels_in;
}

bool patches_fit(const conv_shape *s, int64_t begin, int64_t end, matrix x, matrix p)
{
    return has_positions(s, x) && begin >= 0 && end <= s->samples * s->out.height &&
           p.columns == s->channels_in * window_taps(&s->window) &&
           p.rows == (end - begin) * s->out.width;
}

/* Whether the window lies inside the padded input at every output position. */
static bool window_reaches(const window2d *w, extent in, extent out)
{
    if (w->height.stride <= 0 || w->width.stride <= 0) {
        return false;
    }
    const extent most = window_positions(w, in);
    return out.height <= most.height && out.width <= most.width;
}

bool window_fits(const conv_shape *s, matrix x, matrix y)
{
    return has_positions(s, x) && window_reaches(&s->window, s->in, s->out) &&
           y.rows == s->samples * s->out.height * s->out.width && y.columns == s->channels_out;
}

bool averages_fit(const conv_shape *s, matrix x, matrix y)
{
    return window_fits(s, x, y) && x.columns == y.columns && s->window.height.dilation == 1 &&
           s->window.width.dilation == 1;
}

bool convolution_fits(const conv_shape *s, matrix x, matrix weight, matrix y)
{
    const int64_t groups = conv_groups(s);
    return window_fits(s, x, y) && s->channels_in % groups == 0 && s->channels_out % groups == 0 &&
           weight.rows == s->channels_out &&
           weight.columns == s->channels_in / groups * window_taps(&s->window);
}

bool kernels_fit(const conv_shape *s, matrix x, matrix weight, matrix y)
{
    return window_fits(s, x, y) && x.columns == y.columns && weight.rows == y.columns &&
           weight.columns == window_taps(&s->window);
}

/* Whether the axis of a window that copies has none but positions of the input. */
static bool copies_along(const window_axis *a)
{
    return a->before == 0 && a->behind == 0 && a->stride > 0;
}

static bool positions_fit(const position_shape *s, matrix x, matrix y)
{
    return copies_along(&s->window.height) && copies_along(&s->window.width) &&
           !s->window.rounds_up && x.rows == s->samples * s->in.height * s->in.width &&
           y.rows == s->samples * s->out.height * s->out.width;
}

bool shortcut_fits(const position_shape *s, matrix x, matrix y)
{
    return positions_fit(s, x, y) && window_reaches(&s->window, s->in, s->out) && s->pad >= 0 &&
           y.columns == x.columns + 2 * s->pad;
}

bool windows_fit(const position_shape *s, matrix x, matrix y)
{
    const window2d *w = &s->window;
    if (!positions_fit(s, x, y) || w->height.dilation != 1 || w->width.dilation != 1) {
        return false;
    }
    const extent most = window_positions(w, s->in);
    return s->out.height * s->out.width <= most.height * most.width &&
           y.columns == x.columns * window_taps(w);
}

bool indices_fit(const int64_t *indices, int64_t count, int64_t below)
{
    for (int64_t i = 0; indices != NULL && i < count; i++) {
        if (indices[i] < 0 || indices[i] >= below) {
            return false;
        }
    }
    return indices != NULL || count <= below;
}

bool units_fit(int64_t units, const int64_t *labels, int64_t features, int64_t folded)
{
    return units > 0 && features >= units && features % units == 0 &&
           indices_fit(labels, units, folded / (features / units));
}

bool is_one(matrix m)
{
    return m.rows == 1 && m.columns == 1;
}

int64_t block_features(matrix blocks)
{
    return (int64_t)lround(sqrt((double)blocks.columns));
}

bool blocks_fit(matrix blocks, int64_t columns)
{
    const int64_t u = block_features(blocks);
    return u > 0 && blocks.columns == u * u && blocks.rows * u == 2 * columns;
}

bool factors_fit(matrix factors, matrix rows, matrix pairs)
{
    return matrix_exists(factors) == matrix_exists(pairs) &&
           (!matrix_exists(pairs) ||
            (pairs.rows % 2 == 0 && product_fits(false, false, factors, pairs, rows)));
}
