/* From matrices to the kernels of gradients. */
#include "backend/host/kernels.h"

static const gradient_kernels *kernels_of(const backend *b)
{
    return &((const host_kernels *)b->kind->kernels)->gradients;
}

grail_status host_product(backend *b, const operation *o)
{
    const operation_settings *s = &o->with;
    const matrix *m = o->m;
    return kernels_of(b)->product(s->transpose_a, s->transpose_b, m[2].rows, m[2].columns,
                                  s->transpose_a ? m[0].rows : m[0].columns, m[0].memory,
                                  m[1].memory, s->beta, m[2].memory);
}

grail_status host_rms_norm_gradient(backend *b, const operation *o)
{
    const matrix *m = o->m;
    return kernels_of(b)->rms_norm(m[0].rows, m[0].columns, m[1].columns, o->with.epsilon,
                                   m[0].memory, m[1].memory, m[2].memory, m[3].memory, m[4].memory);
}

grail_status host_layer_norm_gradient(backend *b, const operation *o)
{
    const matrix *m = o->m;
    return kernels_of(b)->layer_norm(m[0].rows, m[0].columns, o->with.epsilon, m[0].memory,
                                     m[1].memory, m[2].memory, m[3].memory, m[4].memory,
                                     m[5].memory);
}

grail_status host_batch_norm_gradient(backend *b, const operation *o)
{
    const matrix *m = o->m;
    return kernels_of(b)->batch_norm(m[0].rows, m[0].columns, o->with.epsilon, m[0].memory,
                                     m[1].memory, m[2].memory, m[3].memory, m[4].memory,
                                     m[5].memory, m[6].memory, m[7].memory);
}

grail_status host_unit_length_gradient(backend *b, const operation *o)
{
    const matrix *m = o->m;
    kernels_of(b)->unit_length(m[0].rows, m[0].columns, m[0].memory, m[1].memory, m[2].memory);
    return GRAIL_OK;
}

grail_status host_attention_gradient(backend *b, const operation *o)
{
    const matrix *m = o->m;
    return kernels_of(b)->attention(o->with.attention, m[0].memory, m[1].memory, m[2].memory,
                                    m[3].memory, m[4].memory, m[5].memory, m[6].memory,
                                    m[7].memory);
}

grail_status host_activate_gradient(backend *b, const operation *o)
{
    const matrix *m = o->m;
    kernels_of(b)->activation(o->with.activation, matrix_count(m[0]), m[0].memory, m[1].memory,
                              m[2].memory);
    return GRAIL_OK;
}

grail_status host_conv2d_gradient(backend *b, const operation *o)
{
    const matrix *m = o->m;
    return kernels_of(b)->conv2d(o->with.conv, m[0].memory, m[1].memory, m[2].memory, m[3].memory,
                                 m[4].memory, m[5].memory);
}

grail_status host_max_pool_gradient(backend *b, const operation *o)
{
    const matrix *m = o->m;
    return kernels_of(b)->max_pool(o->with.conv, m[0].memory, m[1].memory, m[2].memory);
}

grail_status host_divergence(backend *b, const operation *o)
{
    const matrix *m = o->m;
    kernels_of(b)->divergence(m[0].rows, m[0].columns, m[0].memory, m[1].memory, o->with.alpha,
                              m[2].memory, o->with.divergence);
    return GRAIL_OK;
}

grail_status host_descend(backend *b, const operation *o)
{
    const matrix *m = o->m;
    kernels_of(b)->descend(o->with.descent, matrix_count(m[3]), m[0].memory, m[1].memory,
                           m[2].memory, m[3].memory);
    return GRAIL_OK;
}
