/* From matrices to kernels. */
#include "backend/host/kernels.h"

static const host_kernels *kernels_of(const backend *b)
{
    return b->kind->kernels;
}

grail_status host_linear(backend *b, const operation *o)
{
    const matrix *m = o->m;
    const host_kernels *k = kernels_of(b);
    return (m[1].type == b->kind->type ? k->linear : k->weights.linear)(
        m[0].rows, m[0].columns, m[1].rows, m[0].memory, m[1].memory, m[2].memory, m[3].memory);
}

grail_status host_rms_norm(backend *b, const operation *o)
{
    const matrix *m = o->m;
    kernels_of(b)->rms_norm(m[0].rows, m[0].columns, m[1].columns, o->with.epsilon, m[0].memory,
                            m[1].memory, m[2].memory);
    return GRAIL_OK;
}

grail_status host_rope(backend *b, const operation *o)
{
    const rope_shape *s = o->with.rope;
    kernels_of(b)->rope(s, o->m[0].columns / s->head_dim, o->m[0].memory);
    return GRAIL_OK;
}

grail_status host_attention(backend *b, const operation *o)
{
    const matrix *m = o->m;
    return kernels_of(b)->attention(o->with.attention, m[0].memory, m[1].memory, m[2].memory,
                                    m[3].memory);
}

grail_status host_activate(backend *b, const operation *o)
{
    kernels_of(b)->activation(o->with.activation, matrix_count(o->m[0]), o->m[0].memory,
                              o->m[1].memory);
    return GRAIL_OK;
}

typedef void (*combine_kernel)(int64_t count, const void *a, const void *b, void *y);

static combine_kernel combination(const host_kernels *k, operation_slot slot)
{
    return slot == SLOT_multiply ? k->multiply : slot == SLOT_add ? k->add : k->subtract;
}

grail_status host_combine(backend *b, const operation *o)
{
    const matrix *m = o->m;
    const combine_kernel combine = combination(kernels_of(b), o->slot);
    if (matrix_is_packed(m[0]) && matrix_is_packed(m[1]) && matrix_is_packed(m[2])) {
        combine(matrix_count(m[0]), m[0].memory, m[1].memory, m[2].memory);
        return GRAIL_OK;
    }
    for (int64_t r = 0; r < m[0].rows; r++) {
        combine(m[0].columns, host_row(m[0], r), host_row(m[1], r), host_row(m[2], r));
    }
    return GRAIL_OK;
}

grail_status host_cross_entropy(backend *b, const operation *o)
{
    kernels_of(b)->cross_entropy(o->m[0].rows, o->m[0].columns, o->m[0].memory, o->with.begin,
                                 o->with.target, o->with.entropy);
    return GRAIL_OK;
}

grail_status host_conv2d(backend *b, const operation *o)
{
    const matrix *m = o->m;
    const conv_epilogue epilogue = {.residual = m[3].memory, .relu = o->with.relu};
    const bool has_more = epilogue.residual != NULL || epilogue.relu;
    return kernels_of(b)->conv2d(o->with.conv, m[0].memory, m[1].memory, m[2].memory,
                                 has_more ? &epilogue : NULL, m[4].memory);
}

grail_status host_patches(backend *b, const operation *o)
{
    kernels_of(b)->patches(o->with.conv, o->m[0].memory, o->with.begin, o->with.end,
                           o->m[1].memory);
    return GRAIL_OK;
}

grail_status host_max_pool(backend *b, const operation *o)
{
    return kernels_of(b)->max_pool(o->with.conv, o->m[0].memory, o->m[1].memory);
}

grail_status host_mean_positions(backend *b, const operation *o)
{
    const matrix *m = o->m;
    const int64_t samples = m[1].rows;
    if (samples > 0) {
        kernels_of(b)->mean_positions(samples, m[0].rows / samples, m[0].columns, m[0].memory,
                                      m[1].memory);
    }
    return GRAIL_OK;
}

grail_status host_batch_norm(backend *b, const operation *o)
{
    const matrix *m = o->m;
    kernels_of(b)->batch_norm(m[0].rows, m[0].columns, o->with.epsilon, m[0].memory, m[1].memory,
                              m[2].memory, m[3].memory, m[4].memory, m[5].memory);
    return GRAIL_OK;
}

grail_status host_layer_norm(backend *b, const operation *o)
{
    const matrix *m = o->m;
    kernels_of(b)->layer_norm(m[0].rows, m[0].columns, o->with.epsilon, m[0].memory, m[1].memory,
                              m[2].memory, m[3].memory);
    return GRAIL_OK;
}

grail_status host_unit_length(backend *b, const operation *o)
{
    kernels_of(b)->unit_length(o->m[0].rows, o->m[0].columns, o->m[0].memory, o->m[1].memory);
    return GRAIL_OK;
}

grail_status host_gram(backend *b, const operation *o)
{
    const matrix x = o->m[0];
    return kernels_of(b)->gram(x.rows, x.columns, x.memory, x.stride, o->m[1].memory);
}

grail_status host_cross(backend *b, const operation *o)
{
    const matrix y = o->m[0];
    const matrix x = o->m[1];
    return kernels_of(b)->cross(x.rows, y.columns, y.memory, y.stride, x.columns, x.memory,
                                x.stride, o->m[2].memory);
}

grail_status host_column_sums(backend *b, const operation *o)
{
    const matrix x = o->m[0];
    kernels_of(b)->column_sums(x.rows, x.columns, x.memory, x.stride, o->m[1].memory,
                               o->m[2].memory);
    return GRAIL_OK;
}

grail_status host_gemm(backend *b, const operation *o)
{
    const operation_settings *s = &o->with;
    const matrix *m = o->m;
    kernels_of(b)->gemm(s->transpose_a, s->transpose_b, m[2].rows, m[2].columns,
                        s->transpose_a ? m[0].rows : m[0].columns, s->alpha, m[0].memory,
                        m[0].stride, m[1].memory, m[1].stride, s->beta, m[2].memory, m[2].stride);
    return GRAIL_OK;
}

grail_status host_add_symmetric(backend *b, const operation *o)
{
    const matrix *m = o->m;
    kernels_of(b)->add_symmetric(m[2].rows, m[0].rows, o->with.alpha, m[0].memory, m[0].stride,
                                 m[1].memory, m[1].stride, m[2].memory, m[2].stride);
    return GRAIL_OK;
}

grail_status host_cholesky(backend *b, const operation *o)
{
    const matrix a = o->m[0];
    *o->with.index = kernels_of(b)->cholesky(a.rows, a.memory, a.stride);
    return GRAIL_OK;
}

grail_status host_cholesky_solve(backend *b, const operation *o)
{
    const matrix l = o->m[0];
    const matrix x = o->m[1];
    kernels_of(b)->cholesky_solve(x.rows, l.rows, l.memory, l.stride, x.memory, x.stride);
    return GRAIL_OK;
}

grail_status host_cholesky_invert(backend *b, const operation *o)
{
    const matrix l = o->m[0];
    kernels_of(b)->cholesky_invert(l.rows, l.memory, l.stride);
    return host_fill_upper(b, o);
}

grail_status host_eigen(backend *b, const operation *o)
{
    return kernels_of(b)->eigen(o->m[0].rows, o->m[0].memory, o->m[1].memory);
}
