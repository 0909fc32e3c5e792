#include "heal/ordered_weights.h"

#include "backend/operations.h"

#include <string.h>

static grail_status add_entry(const optimizer *o, parameter_store *store, int parameter)
{
    const parameter_entry *values = &o->parameters->entries[parameter];
    parameter_entry *ordered = &store->entries[parameter];
    memcpy(ordered->shape, values->shape, sizeof ordered->shape);
    return matrix_new(store->backend, GRAIL_DTYPE_BF16, values->values.rows, values->values.columns,
                      &ordered->values);
}

grail_status ordered_weights_init(const optimizer *o, const graph *g, ordered_weights *out)
{
    backend *b = o->parameters->backend;
    *out = (ordered_weights){.optimizer = o, .changes = -1};
    if (backend_weight_type(b) == backend_type(b)) {
        return GRAIL_OK;
    }
    CHECK(parameter_store_create(o->parameters->model, b, o->parameters, &out->store));
    for (int i = 0; i < o->count; i++) {
        if (graph_is_linear_weight(g, o->of[i].index)) {
            CHECK(add_entry(o, out->store, o->of[i].index));
        }
    }
    return GRAIL_OK;
}

void ordered_weights_fini(ordered_weights *w)
{
    parameter_store_free(w->store);
    *w = (ordered_weights){0};
}

grail_status ordered_weights_update(ordered_weights *w)
{
    const optimizer *o = w->optimizer;
    if (w->store == NULL || w->changes == o->changes) {
        return GRAIL_OK;
    }
    for (int i = 0; i < o->count; i++) {
        const matrix ordered = w->store->entries[o->of[i].index].values;
        if (matrix_exists(ordered)) {
            CHECK(matrix_copy(o->parameters->entries[o->of[i].index].values, ordered));
        }
    }
    w->changes = o->changes;
    return GRAIL_OK;
}
