#include "exec/gradient_store.h"

#include "backend/operations.h"

grail_status gradient_store_create(const graph *g, backend *b, gradient_store **out)
{
    CHECK(memory_new(out, 1, sizeof **out));
    gradient_store *s = *out;
    *s = (gradient_store){.count = g->parameter_count, .backend = b};
    return memory_new(&s->gradients, (size_t)s->count, sizeof s->gradients[0]);
}

void gradient_store_free(gradient_store *s)
{
    if (s == NULL) {
        return;
    }
    for (int p = 0; s->gradients != NULL && p < s->count; p++) {
        matrix_free(&s->gradients[p]);
    }
    memory_free(s->gradients);
    memory_free(s);
}

grail_status gradient_store_want(gradient_store *s, parameter_store *parameters, int parameter)
{
    const parameter_entry *entry = NULL;
    CHECK(parameter_store_get(parameters, parameter, &entry));
    matrix_free(&s->gradients[parameter]);
    return matrix_new_zero(s->backend, backend_type(s->backend), entry->values.rows,
                           entry->values.columns, &s->gradients[parameter]);
}

matrix gradient_of(const gradient_store *s, int parameter)
{
    return parameter == GRAPH_NONE ? no_matrix : s->gradients[parameter];
}

grail_status gradient_store_clear(gradient_store *s)
{
    for (int p = 0; p < s->count; p++) {
        if (matrix_exists(s->gradients[p])) {
            CHECK(matrix_zero(s->gradients[p]));
        }
    }
    return GRAIL_OK;
}
