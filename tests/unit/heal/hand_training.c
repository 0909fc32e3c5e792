#include "hand_training.h"

#include "backend/operations.h"

void hand_training_init(hand_training *h, backend *b, grail_dtype stored)
{
    const bool trained[HAND_PARAMETERS] = {true, true, true, true};
    *h = (hand_training){0};
    hand_begin(&h->n);
    h->n.view.dtype = stored;
    const int y = hand_linear(&h->n, "linear", 3, 4, h->n.g->input);
    hand_end(&h->n, b, hand_norm(&h->n, NODE_LAYER_NORM, "norm", 4, y));
    assert_int_equal(h->n.g->parameter_count, HAND_PARAMETERS);
    assert_ok(parameter_store_create(&h->n.model, b, h->n.store, &h->store));
    assert_ok(optimizer_create(h->n.g, h->store, trained, &h->o));
    assert_int_equal(h->o->count, HAND_PARAMETERS);
}

void hand_training_fini(hand_training *h)
{
    optimizer_free(h->o);
    parameter_store_free(h->store);
    hand_fini(&h->n);
}

static matrix values_of(const hand_training *h, int parameter)
{
    const parameter_entry *entry = NULL;
    assert_ok(parameter_store_get(h->store, parameter, &entry));
    return entry->values;
}

int64_t hand_count(const hand_training *h, int parameter)
{
    return matrix_count(values_of(h, parameter));
}

void hand_values(const hand_training *h, int parameter, double *out)
{
    float values[HAND_MOST];
    const matrix m = values_of(h, parameter);
    if (m.type == GRAIL_DTYPE_F64) {
        assert_ok(matrix_download(m, out));
        return;
    }
    assert_ok(matrix_download(m, values));
    for (int64_t i = 0; i < matrix_count(m); i++) {
        out[i] = (double)values[i];
    }
}

void hand_add_gradient(const hand_training *h, int parameter, const double *values)
{
    host_view v = {0};
    const matrix m = gradient_of(h->o->gradients, parameter);
    assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_UPDATES, &v));
    for (int64_t i = 0; i < matrix_count(m); i++) {
        ((double *)v.values)[i] += values[i];
    }
    assert_ok(host_view_close(&v));
}
