/* The arithmetic of an operation, from the shapes of its matrices. */
#include "backend/kind.h"

static double count_of(matrix m)
{
    return (double)m.rows * (double)m.columns;
}

/* Scores and values of all heads; of a causal mask a half. */
static double attention_work(const operation *o)
{
    const attention_shape *s = o->with.attention;
    const double pairs = (double)s->sequences * (double)s->length * (double)s->length;
    const double seen = s->bidirectional ? pairs : 0.5 * pairs;
    return 2.0 * seen * (double)(o->m[0].columns + o->m[3].columns);
}

double operation_work(const operation *o)
{
    const matrix *m = o->m;
    const double rows = (double)m[0].rows;
    const double columns = (double)m[0].columns;
    switch (o->slot) {
    case SLOT_linear: /* each row of the weight has as many elements as are read for an output */
        return 2.0 * count_of(m[3]) * columns;
    case SLOT_conv2d:
        return 2.0 * count_of(m[4]) * (double)m[1].columns;
    case SLOT_conv2d_gradient:
        return 2.0 * count_of(m[2]) * (double)m[1].columns *
               ((matrix_exists(m[3]) ? 1.0 : 0.0) + (matrix_exists(m[4]) ? 1.0 : 0.0));
    case SLOT_attention:
        return attention_work(o);
    case SLOT_attention_gradient:
        return 2.5 * attention_work(o);
    case SLOT_product:
    case SLOT_gemm:
        return 2.0 * count_of(m[2]) * (o->with.transpose_a ? rows : columns);
    case SLOT_gram: /* a triangle */
        return rows * columns * (columns + 1.0);
    case SLOT_cross:
        return 2.0 * count_of(m[2]) * rows;
    case SLOT_add_symmetric:
        return rows * columns * (columns + 1.0);
    case SLOT_cholesky:
        return rows * rows * rows / 3.0;
    case SLOT_cholesky_invert:
        return 2.0 * rows * rows * rows / 3.0;
    case SLOT_cholesky_solve:
    case SLOT_cholesky_multiply:
        return 2.0 * count_of(m[1]) * rows;
    default:
        return 0.0;
    }
}
