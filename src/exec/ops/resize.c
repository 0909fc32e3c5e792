#include "exec/ops/operator_code.h"

#include <math.h>

/* What positions along an axis are made of: of `count` others each, of which position i has
 * share[k * made + i] of the one at from[k * made + i]. */
typedef struct shares {
    int64_t there, made, count;
    int64_t *from; /* owned */
    double *share; /* owned; all 1 where it is NULL */
} shares;

static void shares_fini(shares *s)
{
    memory_free(s->from);
    memory_free(s->share);
}

static double coordinate_of(const resize_attributes *r, double scale, int64_t in, int64_t out,
                            int64_t i)
{
    switch (r->coordinates) {
    case RESIZE_ASYMMETRIC:
        return (double)i / scale;
    case RESIZE_ALIGN_CORNERS:
        return out == 1 ? 0.0 : (double)i * (double)(in - 1) / (double)(out - 1);
    case RESIZE_HALF_PIXEL_OR_0:
        return out == 1 ? 0.0 : ((double)i + 0.5) / scale - 0.5;
    case RESIZE_HALF_PIXEL:
        break;
    }
    return ((double)i + 0.5) / scale - 0.5;
}

static int64_t position_at(resize_values values, double x, int64_t in)
{
    const double at = values == RESIZE_CEIL            ? ceil(x)
                      : values == RESIZE_NEAREST_LOWER ? ceil(x - 0.5)
                      : values == RESIZE_NEAREST_UPPER ? floor(x + 0.5)
                                                       : floor(x);
    return at < 0.0 ? 0 : at > (double)(in - 1) ? in - 1 : (int64_t)at;
}

static grail_status share_out(const resize_attributes *r, double scale, int64_t in, int64_t out,
                              shares *s)
{
    const bool linear = r->values == RESIZE_LINEAR;
    *s = (shares){.there = in, .made = out, .count = linear ? 2 : 1};
    CHECK(memory_new(&s->from, (size_t)(s->count * out), sizeof s->from[0]));
    if (linear) {
        CHECK(memory_new(&s->share, (size_t)(2 * out), sizeof s->share[0]));
    }
    for (int64_t i = 0; i < out; i++) {
        const double x =
            coordinate_of(r, scale == 0.0 ? (double)out / (double)in : scale, in, out, i);
        s->from[i] = position_at(r->values, x, in);
        if (linear) {
            const double behind = fmin(fmax(x, 0.0), (double)(in - 1)) - (double)s->from[i];
            s->from[out + i] = s->from[i] + 1 < in ? s->from[i] + 1 : s->from[i];
            s->share[i] = 1.0 - behind;
            s->share[out + i] = behind;
        }
    }
    return GRAIL_OK;
}

/* What each position gets back: as many shares as that which went into most; others are 0. */
static grail_status turn(const shares *s, shares *back)
{
    grail_status status = GRAIL_OK;
    int64_t *found = NULL;
    *back = (shares){.there = s->made, .made = s->there};
    TRY(memory_new(&found, (size_t)s->there, sizeof found[0]));
    for (int64_t e = 0; e < s->count * s->made; e++) {
        const int64_t got = ++found[s->from[e]];
        back->count = got > back->count ? got : back->count;
    }
    TRY(memory_new(&back->from, (size_t)(back->count * s->there), sizeof back->from[0]));
    TRY(memory_new(&back->share, (size_t)(back->count * s->there), sizeof back->share[0]));
    for (int64_t e = s->count * s->made - 1; e >= 0; e--) {
        const int64_t at = s->from[e];
        const int64_t place = --found[at] * s->there + at;
        back->from[place] = e % s->made;
        back->share[place] = s->share == NULL ? 1.0 : s->share[e];
    }
out:
    memory_free(found);
    return status;
}

/* to <- shares k of `from`, whose rows are those of the axis with `inner` rows for each. */
static grail_status take_shares(const shares *s, int64_t k, int64_t inner, matrix from, matrix to)
{
    grail_status status = GRAIL_OK;
    int64_t *rows = NULL;
    matrix column = {0};
    host_view v = {0};
    TRY(memory_new(&rows, (size_t)to.rows, sizeof rows[0]));
    for (int64_t i = 0; i < to.rows; i++) {
        const int64_t at = s->from[k * s->made + i / inner % s->made];
        rows[i] = (i / inner / s->made * s->there + at) * inner + i % inner;
    }
    TRY(matrix_gather(rows, NULL, from, to));
    if (s->share != NULL && to.rows > 0) {
        TRY(matrix_new(to.owner, to.type, to.rows, 1, &column));
        TRY(host_view_open(column, GRAIL_DTYPE_F32, HOST_WRITES, &v));
        for (int64_t i = 0; i < to.rows; i++) {
            ((float *)v.values)[i] = (float)s->share[k * s->made + i / inner % s->made];
        }
        TRY(host_view_close(&v));
        TRY(matrix_multiply(to, column, to));
    }
out:
    host_view_drop(&v);
    matrix_free(&column);
    memory_free(rows);
    return status;
}

static grail_status resize_axis(matrix_pool *pool, const shares *s, int64_t inner, matrix from,
                                matrix to)
{
    grail_status status = GRAIL_OK;
    matrix more = {0};
    TRY(take_shares(s, 0, inner, from, to));
    TRY(s->count > 1 ? matrix_pool_take(pool, to.rows, to.columns, &more) : GRAIL_OK);
    for (int64_t k = 1; k < s->count; k++) {
        TRY(take_shares(s, k, inner, from, more));
        TRY(matrix_add(to, more, to));
    }
out:
    matrix_pool_give(pool, &more);
    return status;
}

/* Along the height, then along the width; on the way back the other way round. */
static grail_status resize(const node_run *r, bool back, matrix from, matrix to)
{
    grail_status status = GRAIL_OK;
    const resize_attributes *how = &r->node->resize;
    shares along[2] = {0};
    shares turned[2] = {0};
    matrix half = {0};
    TRY(share_out(how, how->scale_height, r->in.height, r->out.height, &along[0]));
    TRY(share_out(how, how->scale_width, r->in.width, r->out.width, &along[1]));
    TRY(back ? turn(&along[0], &turned[0]) : GRAIL_OK);
    TRY(back ? turn(&along[1], &turned[1]) : GRAIL_OK);
    TRY(matrix_pool_take(r->pool, r->samples * r->out.height * r->in.width, from.columns, &half));
    if (back) {
        TRY(resize_axis(r->pool, &turned[1], 1, from, half));
        TRY(resize_axis(r->pool, &turned[0], r->in.width, half, to));
    } else {
        TRY(resize_axis(r->pool, &along[0], r->in.width, from, half));
        TRY(resize_axis(r->pool, &along[1], 1, half, to));
    }
out:
    matrix_pool_give(r->pool, &half);
    for (int i = 0; i < 2; i++) {
        shares_fini(&along[i]);
        shares_fini(&turned[i]);
    }
    return status;
}

static grail_status run_resize(const node_run *r)
{
    return resize(r, false, r->x[0], r->y);
}

static grail_status back_resize(node_back *b)
{
    CHECK(back_new(b, 0));
    return resize(&b->run, true, b->dy, b->dx[0]);
}

const operator_code operator_resize = {run_resize, back_resize};
