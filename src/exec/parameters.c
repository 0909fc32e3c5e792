#include "exec/parameters.h"

#include <string.h>

grail_status parameter_store_create(const grail_model *model, const backend *b,
                                    parameter_store *parent, parameter_store **out)
{
    grail_status status = GRAIL_OK;
    parameter_store *store = NULL;
    TRY(memory_new(&store, 1, sizeof *store));
    *store = (parameter_store){.model = model, .backend = b, .parent = parent};
    TRY(memory_new(&store->entries, (size_t)model->graph->parameter_count,
                   sizeof store->entries[0]));
    *out = store;
    store = NULL;
out:
    parameter_store_free(store);
    return status;
}

static void drop_entry(parameter_store *store, int index)
{
    memory_free(store->entries[index].data);
    store->entries[index].data = NULL;
}

void parameter_store_free(parameter_store *store)
{
    if (store == NULL) {
        return;
    }
    for (int p = 0; store->entries != NULL && p < store->model->graph->parameter_count; p++) {
        drop_entry(store, p);
    }
    memory_free(store->entries);
    memory_free(store);
}

grail_status elements_from_f32(const backend *b, int64_t count, float **values, void **out)
{
    if (b->element_size == sizeof(float)) {
        *out = *values;
        *values = NULL;
        return GRAIL_OK;
    }
    void *data = NULL;
    const grail_status status = memory_new_unset(&data, (size_t)count, b->element_size);
    if (status == GRAIL_OK) {
        b->from_f32(count, *values, data);
        *out = data;
    }
    return status;
}

static grail_status load_entry(parameter_store *store, int index)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    parameter_entry *entry = &store->entries[index];
    const graph_parameter *p = &store->model->graph->parameters[index];
    const int64_t count = model_parameter_elements(store->model, index);
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(model_parameter_f32(store->model, index, values));
    TRY(elements_from_f32(store->backend, count, &values, &entry->data));
    memcpy(entry->shape, p->shape, sizeof entry->shape);
out:
    memory_free(values);
    return status;
}

grail_status parameter_store_get(parameter_store *store, int index, const parameter_entry **out)
{
    parameter_store *s = store;
    while (s->entries[index].data == NULL && s->parent != NULL) {
        s = s->parent;
    }
    if (s->entries[index].data == NULL) {
        const grail_status status = load_entry(s, index);
        if (status != GRAIL_OK) {
            return status;
        }
    }
    *out = &s->entries[index];
    return GRAIL_OK;
}

static grail_status entry_elements(const parameter_store *store, int index, const int64_t shape[],
                                   int64_t *out)
{
    const graph_parameter *p = &store->model->graph->parameters[index];
    if (!shape_elements(p->rank, shape, out)) {
        return error_set(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", p->name);
    }
    return GRAIL_OK;
}

/* Rounds f32 values to the dtype they will be stored in, so that the samples pass through exactly
 * the weights that the finished checkpoint holds. */
static grail_status round_to_stored(const tensor_view *tensor, int64_t count, float *values)
{
    grail_status status = GRAIL_OK;
    void *stored = NULL;
    if (tensor->dtype == GRAIL_DTYPE_F32) {
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&stored, (size_t)count, dtype_bits(tensor->dtype) / 8));
    TRY(convert_from_f32(tensor->dtype, values, count, stored));
    TRY(convert_to_f32(tensor->dtype, stored, count, values));
out:
    if (status != GRAIL_OK) {
        error_prefix("tensor '%s'", tensor->name);
    }
    memory_free(stored);
    return status;
}

grail_status parameter_store_set(parameter_store *store, int index, const int64_t shape[],
                                 const float *values)
{
    grail_status status = GRAIL_OK;
    float *copy = NULL;
    void *data = NULL;
    int64_t count = 0;
    const graph_parameter *p = &store->model->graph->parameters[index];
    TRY(entry_elements(store, index, shape, &count));
    TRY(memory_new_unset(&copy, (size_t)count, sizeof copy[0]));
    memcpy(copy, values, (size_t)count * sizeof copy[0]);
    const int64_t bad = find_non_finite(copy, count);
    if (bad >= 0) {
        FAIL(GRAIL_ERROR_NUMERIC, "the new tensor '%s' holds a NaN or infinity at element %lld",
             p->name, (long long)bad);
    }
    TRY(round_to_stored(store->model->tensors[index], count, copy));
    TRY(elements_from_f32(store->backend, count, &copy, &data));
    drop_entry(store, index);
    store->entries[index].data = data;
    memcpy(store->entries[index].shape, shape, (size_t)p->rank * sizeof shape[0]);
out:
    memory_free(copy);
    return status;
}

grail_status parameter_store_read_f32(parameter_store *store, int index, float **out,
                                      int64_t *elements)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *entry = NULL;
    float *values = NULL;
    int64_t count = 0;
    TRY(parameter_store_get(store, index, &entry));
    TRY(entry_elements(store, index, entry->shape, &count));
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    store->backend->to_f32(count, entry->data, values);
    *out = values;
    *elements = count;
    values = NULL;
out:
    memory_free(values);
    return status;
}

grail_status parameter_store_borrow_f32(parameter_store *store, int index, const float **out,
                                        float **owned)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *entry = NULL;
    int64_t elements = 0;
    if (store->backend->element_size == sizeof **out) {
        TRY(parameter_store_get(store, index, &entry));
        *out = entry->data;
    } else {
        TRY(parameter_store_read_f32(store, index, owned, &elements));
        *out = *owned;
    }
out:
    return status;
}

grail_status parameter_store_gather_rows(parameter_store *store, int index, int64_t count,
                                         const int32_t *ids, void *out)
{
    grail_status status = GRAIL_OK;
    const tensor_view *table = store->model->tensors[index];
    const graph_parameter *p = &store->model->graph->parameters[index];
    const int64_t columns = table->shape[1];
    const size_t stored_row = (size_t)columns * dtype_bits(table->dtype) / 8;
    const size_t row = (size_t)columns * store->backend->element_size;
    float *values = NULL;
    if (!storage_is_plain(&p->map)) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "cannot read rows of '%s', which shares tensor '%s'", p->name,
             p->tensor);
    }
    TRY(memory_new_unset(&values, (size_t)columns, sizeof values[0]));
    for (int64_t r = 0; r < count; r++) {
        if (ids[r] < 0 || ids[r] >= table->shape[0]) {
            FAIL(GRAIL_ERROR_ARGUMENT,
                 "token id %d at position %lld is outside the vocabulary of %lld", ids[r],
                 (long long)r, (long long)table->shape[0]);
        }
        TRY(convert_to_f32(table->dtype,
                           (const unsigned char *)table->data + (size_t)ids[r] * stored_row,
                           columns, values));
        if (find_non_finite(values, columns) >= 0) {
            FAIL(GRAIL_ERROR_NUMERIC,
                 "tensor '%s' holds a NaN or infinity in row %d; the "
                 "checkpoint is damaged",
                 table->name, ids[r]);
        }
        store->backend->from_f32(columns, values, (unsigned char *)out + (size_t)r * row);
    }
out:
    memory_free(values);
    return status;
}

void parameter_store_release_range(parameter_store *store, int begin, int end)
{
    for (int n = begin; n < end; n++) {
        int used[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&store->model->graph->nodes[n], used);
        for (int i = 0; i < count; i++) {
            drop_entry(store, used[i]);
        }
    }
}
