#include "exec/parameters.h"

#include "backend/operations.h"
#include "base/profile.h"

#include <stdio.h>
#include <string.h>

grail_status parameter_store_create(const grail_model *model, backend *b, parameter_store *parent,
                                    parameter_store **out)
{
    CHECK(memory_new(out, 1, sizeof **out));
    parameter_store *store = *out;
    *store = (parameter_store){.model = model, .backend = b, .parent = parent};
    return memory_new(&store->entries, (size_t)model->graph->parameter_count,
                      sizeof store->entries[0]);
}

static void drop_entry(parameter_store *store, int index)
{
    parameter_entry *entry = &store->entries[index];
    matrix_free(&entry->values);
    matrix_free(&entry->ordered);
    entry->changes = false;
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
    memory_free(store->sources);
    parameter_store_free(store->home);
    memory_free(store);
}

static bool lies_at_home(const parameter_store *store, int index)
{
    return store->home != NULL && matrix_exists(store->home->entries[index].values);
}

bool parameter_store_owns(const parameter_store *store, int index)
{
    return matrix_exists(store->entries[index].values) || lies_at_home(store, index);
}

static int source_of(const parameter_store *store, int index)
{
    return store->sources == NULL ? index : store->sources[index];
}

bool parameter_store_is_moved(const parameter_store *store, int index)
{
    return source_of(store, index) != index;
}

grail_status parameter_store_stand_in(parameter_store *store, int index, int source)
{
    const int count = store->model->graph->parameter_count;
    if (store->sources == NULL) {
        CHECK(memory_new_unset(&store->sources, (size_t)count, sizeof store->sources[0]));
        for (int p = 0; p < count; p++) {
            store->sources[p] = p;
        }
    }
    drop_entry(store, index);
    store->sources[index] = source;
    return GRAIL_OK;
}

/* Whether the result has another dtype for it than the model has. */
static bool is_written_otherwise(const parameter_store *store, int index)
{
    return store->written != NULL && store->written[index] != GRAIL_DTYPE_COUNT;
}

/* What a checkpoint holds in the type of values stays so, and weights that it holds in bf16 do
 * where the backend multiplies them so. All else is held with all its digits. */
static grail_dtype type_of(const parameter_store *store, int index)
{
    const grail_dtype type = backend_weight_type(store->backend);
    const graph *g = store->model->graph;
    const bool stays = store->model->tensors[index]->dtype == type &&
                       !is_written_otherwise(store, index) &&
                       !storage_is_affine(&g->parameters[index].map) &&
                       (type == backend_type(store->backend) || graph_is_linear_weight(g, index));
    return stays ? type : backend_master_type(store->backend);
}

/* Room for a parameter's values, [rows, the rest], or [1, n] for a vector. */
static grail_status new_values(const parameter_store *store, int index, const int64_t shape[],
                               matrix *out)
{
    const graph_parameter *p = &store->model->graph->parameters[index];
    const grail_dtype type = type_of(store, source_of(store, index));
    int64_t columns = 0;
    if (p->rank == 1) {
        return matrix_new(store->backend, type, 1, shape[0], out);
    }
    if (!shape_elements(p->rank - 1, shape + 1, &columns)) {
        return error_set(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", p->name);
    }
    return matrix_new(store->backend, type, shape[0], columns, out);
}

static grail_status load_values(const grail_model *model, int index, matrix values)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    TRY(host_view_open(values, GRAIL_DTYPE_F32, HOST_WRITES, &v));
    TRY(model_parameter_f32(model, index, v.values));
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    return status;
}

/* From the mapped file as it is stored, without a copy as values where it is stored plainly. */
static grail_status load_stored(const grail_model *model, int index, matrix weight)
{
    const void *stored = NULL;
    CHECK(model_parameter_stored(model, index, &stored));
    if (stored == NULL) {
        return load_values(model, index, weight);
    }
    CHECK(matrix_upload(weight, stored));
    checkpoint_release(model->checkpoint, model->tensors[index]);
    return GRAIL_OK;
}

static grail_status load_entry(parameter_store *store, int index)
{
    grail_status status = GRAIL_OK;
    matrix values = {0};
    parameter_entry *entry = &store->entries[index];
    const graph_parameter *p = &store->model->graph->parameters[index];
    const int source = source_of(store, index);
    TRY(new_values(store, index, p->shape, &values));
    TRY(element_size(values.type) == 2 ? load_stored(store->model, source, values)
                                       : load_values(store->model, source, values));
    memcpy(entry->shape, p->shape, sizeof entry->shape);
    entry->is_stored = values.type == store->model->tensors[source]->dtype &&
                       storage_is_plain(&store->model->graph->parameters[source].map);
    entry->values = values;
    values = (matrix){0};
out:
    matrix_free(&values);
    return status;
}

/* From host memory; a weight of Linears in the type in which the backend multiplies it. */
static grail_status load_from_home(parameter_store *store, int index)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *from = &store->home->entries[index];
    const graph *g = store->model->graph;
    const grail_dtype type = graph_is_linear_weight(g, index) ? backend_weight_type(store->backend)
                                                              : backend_master_type(store->backend);
    parameter_entry *entry = &store->entries[index];
    matrix values = {0};
    host_view v = {0};
    TRY(host_view_open(from->values, GRAIL_DTYPE_F32, HOST_READS, &v));
    TRY(matrix_new(store->backend, type, from->values.rows, from->values.columns, &values));
    TRY(matrix_upload_f32(values, v.values));
    memcpy(entry->shape, from->shape, sizeof entry->shape);
    entry->is_stored = false;
    entry->values = values;
    values = no_matrix;
out:
    host_view_drop(&v);
    matrix_free(&values);
    return status;
}

/* The nearest store that has an entry, or the root. */
static parameter_store *store_of(parameter_store *store, int index)
{
    parameter_store *s = store;
    while (!parameter_store_owns(s, index) && s->parent != NULL) {
        s = s->parent;
    }
    return s;
}

grail_status parameter_store_get(parameter_store *store, int index, const parameter_entry **out)
{
    parameter_store *s = store_of(store, index);
    if (!matrix_exists(s->entries[index].values)) {
        const profile_kind before = profile_enter(PROFILE_WEIGHTS);
        const grail_status status =
            lies_at_home(s, index) ? load_from_home(s, index) : load_entry(s, index);
        profile_enter(before);
        CHECK(status);
    }
    *out = &s->entries[index];
    return GRAIL_OK;
}

/* Whether the backend multiplies by values in an order of its own. */
static bool has_order(const parameter_store *store)
{
    return backend_weight_type(store->backend) != backend_type(store->backend);
}

static grail_status order_entry(parameter_entry *entry)
{
    const matrix values = entry->values;
    if (!matrix_exists(entry->ordered)) {
        CHECK(matrix_new(values.owner, backend_weight_type(values.owner), values.rows,
                         values.columns, &entry->ordered));
    }
    return matrix_copy(values, entry->ordered);
}

grail_status parameter_store_get_weight(parameter_store *store, int index, matrix *out)
{
    const parameter_entry *found = NULL;
    CHECK(parameter_store_get(store, index, &found));
    parameter_entry *entry = &store_of(store, index)->entries[index];
    if (has_order(store) && !entry->changes && !matrix_is_ordered(entry->values) &&
        !matrix_exists(entry->ordered)) {
        CHECK(order_entry(entry));
    }
    *out = matrix_exists(entry->ordered) ? entry->ordered : entry->values;
    return GRAIL_OK;
}

grail_status parameter_store_order(parameter_store *store, int index)
{
    return has_order(store) ? order_entry(&store->entries[index]) : GRAIL_OK;
}

void parameter_store_forget_order(parameter_store *store, int index)
{
    matrix_free(&store->entries[index].ordered);
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

static grail_dtype written_dtype(const parameter_store *store, int index)
{
    return is_written_otherwise(store, index)
               ? store->written[index]
               : model_written_dtype(store->model, store->model->tensors[index]);
}

/* Rounds f32 values to those that the tensor will give, so that the samples pass through exactly
 * the weights that the finished checkpoint holds. */
static grail_status round_to_stored(const parameter_store *store, int index, int64_t count,
                                    float *values)
{
    const storage_map *map = &store->model->graph->parameters[index].map;
    const grail_dtype dtype = written_dtype(store, index);
    return dtype_block(dtype) > 1 ? GRAIL_OK
                                  : error_in(storage_round(map, dtype, count, values),
                                             "tensor '%s'", store->model->tensors[index]->name);
}

/* The same where the values lie, by a dtype that a device rounds to. */
static grail_status round_on_device(const parameter_store *store, int index, grail_dtype dtype,
                                    matrix values)
{
    char text[WATCH_TEXT];
    snprintf(text, sizeof text, "tensor '%.*s': NaN, infinity or a value beyond the range of %s",
             WATCH_TEXT / 2, store->model->tensors[index]->name, grail_dtype_name(dtype));
    CHECK(error_in(matrix_round_to(dtype, values), "tensor '%s'",
                   store->model->tensors[index]->name));
    return matrix_watch(values, 0, text);
}

grail_status parameter_store_round(const parameter_store *store, int index, matrix values)
{
    grail_status status = GRAIL_OK;
    const grail_dtype dtype = written_dtype(store, index);
    const bool is_plain = !storage_is_affine(&store->model->graph->parameters[index].map);
    host_view v = {0};
    if (is_plain && dtype == GRAIL_DTYPE_F32 && backend_type(store->backend) != GRAIL_DTYPE_F64) {
        return GRAIL_OK;
    }
    if (is_plain && (dtype == GRAIL_DTYPE_F16 || dtype == GRAIL_DTYPE_BF16) &&
        !backend_is_host(store->backend)) {
        return round_on_device(store, index, dtype, values);
    }
    TRY(host_view_open(values, GRAIL_DTYPE_F32, HOST_UPDATES, &v));
    TRY(round_to_stored(store, index, matrix_count(values), v.values));
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    return status;
}

/* Takes the values over. */
static void put_entry(parameter_store *store, int index, const int64_t shape[], matrix *values)
{
    parameter_entry *entry = &store->entries[index];
    drop_entry(store, index);
    entry->is_stored = false;
    entry->values = *values;
    *values = no_matrix;
    memcpy(entry->shape, shape,
           (size_t)store->model->graph->parameters[index].rank * sizeof shape[0]);
}

grail_status parameter_store_set(parameter_store *store, int index, const int64_t shape[],
                                 const float *values)
{
    grail_status status = GRAIL_OK;
    matrix copy = {0};
    host_view v = {0};
    int64_t count = 0;
    const graph_parameter *p = &store->model->graph->parameters[index];
    if (lies_at_home(store, index)) {
        drop_entry(store, index);
        return parameter_store_set(store->home, index, shape, values);
    }
    TRY(entry_elements(store, index, shape, &count));
    const int64_t bad = find_non_finite(values, count);
    TRY(bad < 0 ? GRAIL_OK
                : error_set(GRAIL_ERROR_NUMERIC,
                            "the new tensor '%s' holds a NaN or infinity at element %lld", p->name,
                            (long long)bad));
    TRY(new_values(store, index, shape, &copy));
    TRY(host_view_open(copy, GRAIL_DTYPE_F32, HOST_WRITES, &v));
    memcpy(v.values, values, (size_t)count * sizeof values[0]);
    TRY(round_to_stored(store, index, count, v.values));
    TRY(host_view_close(&v));
    put_entry(store, index, shape, &copy);
out:
    host_view_drop(&v);
    matrix_free(&copy);
    return status;
}

/* Whether values of this type are as the tensor will give them. */
static bool is_rounded(const parameter_store *store, int index, grail_dtype type)
{
    const grail_dtype dtype = written_dtype(store, index);
    return dtype_block(dtype) > 1 ||
           (dtype == type && !storage_is_affine(&store->model->graph->parameters[index].map));
}

grail_status parameter_store_set_matrix(parameter_store *store, int index, const int64_t shape[],
                                        matrix values)
{
    grail_status status = GRAIL_OK;
    matrix copy = {0};
    host_view v = {0};
    bool finite = false;
    if (!backend_is_host(store->backend) && !lies_at_home(store, index)) {
        TRY(new_values(store, index, shape, &copy));
        TRY(matrix_copy(matrix_reshape(values, copy.rows, copy.columns), copy));
        TRY(matrices_are_finite(1, &copy, (const bool[]){false}, &finite));
    }
    if (finite) {
        TRY(is_rounded(store, index, copy.type) ? GRAIL_OK
                                                : parameter_store_round(store, index, copy));
        put_entry(store, index, shape, &copy);
    } else { /* which tells of what is not */
        TRY(host_view_open(values, GRAIL_DTYPE_F32, HOST_READS, &v));
        TRY(parameter_store_set(store, index, shape, v.values));
    }
out:
    host_view_drop(&v);
    matrix_free(&copy);
    return status;
}

grail_status parameter_store_set_zero(parameter_store *store, int index)
{
    grail_status status = GRAIL_OK;
    float *zeros = NULL;
    if (index == GRAPH_NONE) {
        return GRAIL_OK;
    }
    TRY(memory_new(&zeros, (size_t)model_parameter_elements(store->model, index), sizeof zeros[0]));
    TRY(parameter_store_set(store, index, store->model->graph->parameters[index].shape, zeros));
out:
    memory_free(zeros);
    return status;
}

grail_status parameter_store_own(parameter_store *store, int index)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *entry = NULL;
    parameter_entry *own = &store->entries[index];
    matrix values = {0};
    TRY(parameter_store_get(store, index, &entry));
    const grail_dtype type = backend_master_type(store->backend);
    own->is_stored = false;
    if (entry == own && entry->values.type == type) {
        matrix_free(&own->ordered);
        own->changes = true;
        return GRAIL_OK;
    }
    TRY(matrix_new(store->backend, type, entry->values.rows, entry->values.columns, &values));
    TRY(matrix_copy(entry->values, values));
    if (entry != own) {
        memcpy(own->shape, entry->shape, sizeof own->shape);
    }
    drop_entry(store, index);
    own->values = values;
    own->changes = true;
    values = no_matrix;
out:
    matrix_free(&values);
    return status;
}

const int64_t *parameter_store_shape(parameter_store *store, int index)
{
    const parameter_store *s = store_of(store, index);
    return matrix_exists(s->entries[index].values) ? s->entries[index].shape
           : lies_at_home(s, index)                ? s->home->entries[index].shape
                                                   : s->model->graph->parameters[index].shape;
}

/* Whether there are values of an entry, and they are not read from the file as well without the
 * device. */
static bool reads_entry(const parameter_store *s, int index)
{
    const parameter_entry *entry = &s->entries[index];
    return matrix_exists(entry->values) && !(entry->is_stored && !backend_is_host(s->backend));
}

grail_status parameter_store_read_f32(parameter_store *store, int index, float **out,
                                      int64_t *elements)
{
    grail_status status = GRAIL_OK;
    const parameter_store *nearest = store_of(store, index);
    const parameter_store *s = lies_at_home(nearest, index) ? nearest->home : nearest;
    float *values = NULL;
    int64_t count = 0;
    TRY(entry_elements(store, index, parameter_store_shape(store, index), &count));
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(reads_entry(s, index) ? matrix_download_f32(s->entries[index].values, values)
                              : model_parameter_f32(s->model, source_of(s, index), values));
    *out = values;
    *elements = count;
    values = NULL;
out:
    memory_free(values);
    return status;
}

grail_status parameter_store_copy(parameter_store *store, int index, matrix out)
{
    const parameter_entry *entry = NULL;
    CHECK(parameter_store_get(store, index, &entry));
    return matrix_copy(entry->values,
                       matrix_reshape(out, entry->values.rows, entry->values.columns));
}

bool parameter_store_inherits(const parameter_store *store, const parameter_store *dense, int index)
{
    return store->parent == dense && !parameter_store_owns(store, index);
}

grail_status parameter_store_borrow_f32(parameter_store *store, int index, const float **out,
                                        float **owned)
{
    const parameter_entry *entry = NULL;
    host_view v = {0};
    int64_t count = 0;
    if (!backend_is_host(store->backend)) {
        CHECK(parameter_store_read_f32(store, index, owned, &count));
        *out = *owned;
        return GRAIL_OK;
    }
    CHECK(parameter_store_get(store, index, &entry));
    CHECK(host_view_open(entry->values, GRAIL_DTYPE_F32, HOST_READS, &v));
    *out = v.values;
    *owned = v.copy;
    return GRAIL_OK;
}

static grail_status check_ids(int64_t count, const int32_t *ids, int64_t rows)
{
    for (int64_t r = 0; r < count; r++) {
        if (ids[r] < 0 || ids[r] >= rows) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "token id %d at position %lld is outside the vocabulary of %lld",
                             ids[r], (long long)r, (long long)rows);
        }
    }
    return GRAIL_OK;
}

static grail_status gather_entry(const parameter_entry *entry, const int32_t *ids, matrix out)
{
    grail_status status = GRAIL_OK;
    int64_t *rows = NULL;
    TRY(check_ids(out.rows, ids, entry->values.rows));
    TRY(memory_new_unset(&rows, (size_t)out.rows, sizeof rows[0]));
    for (int64_t r = 0; r < out.rows; r++) {
        rows[r] = ids[r];
    }
    TRY(matrix_gather(rows, NULL, entry->values, out));
out:
    memory_free(rows);
    return status;
}

static grail_status gather_from_home(const parameter_store *store, int index, const int32_t *ids,
                                     matrix out)
{
    grail_status status = GRAIL_OK;
    matrix rows = {0};
    host_view v = {0};
    TRY(matrix_new(store->home->backend, GRAIL_DTYPE_F32, out.rows, out.columns, &rows));
    TRY(gather_entry(&store->home->entries[index], ids, rows));
    TRY(host_view_open(rows, GRAIL_DTYPE_F32, HOST_READS, &v));
    TRY(matrix_upload_f32(out, v.values));
out:
    host_view_drop(&v);
    matrix_free(&rows);
    return status;
}

static grail_status gather_stored(const parameter_store *store, int index, const int32_t *ids,
                                  matrix out)
{
    grail_status status = GRAIL_OK;
    const tensor_view *table = store->model->tensors[index];
    const stored_matrix stored = graph_stored(&store->model->graph->parameters[index]);
    const int64_t columns = stored.shape[1];
    host_view v = {0};
    TRY(check_ids(out.rows, ids, stored.shape[0]));
    TRY(checkpoint_need(store->model->checkpoint, table));
    TRY(host_view_open(out, GRAIL_DTYPE_F32, HOST_WRITES, &v));
    for (int64_t r = 0; r < out.rows; r++) {
        float *values = (float *)v.values + r * columns;
        TRY(storage_read_row(&stored, table, ids[r], values));
        if (find_non_finite(values, columns) >= 0) {
            FAIL(GRAIL_ERROR_NUMERIC,
                 "tensor '%s' holds a NaN or infinity in row %d; the "
                 "checkpoint is damaged",
                 table->name, ids[r]);
        }
    }
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    return status;
}

grail_status parameter_store_gather_rows(parameter_store *store, int index, const int32_t *ids,
                                         matrix out)
{
    const parameter_store *s = store_of(store, index);
    const parameter_entry *entry = &s->entries[index];
    return matrix_exists(entry->values) ? gather_entry(entry, ids, out)
           : lies_at_home(s, index)     ? gather_from_home(s, index, ids, out)
                                        : gather_stored(store, index, ids, out);
}

/* With all its digits, in host memory; as an own entry there. */
static grail_status take_home(parameter_store *store, int index)
{
    grail_status status = GRAIL_OK;
    backend *host = store->home->backend;
    parameter_entry *at_home = &store->home->entries[index];
    float *values = NULL;
    int64_t count = 0;
    const int64_t *shape = parameter_store_shape(store, index);
    const int rank = store->model->graph->parameters[index].rank;
    const int64_t rows = rank == 1 ? 1 : shape[0];
    TRY(parameter_store_read_f32(store, index, &values, &count));
    memcpy(at_home->shape, shape, sizeof at_home->shape);
    TRY(matrix_new(host, backend_master_type(host), rows, count / rows, &at_home->values));
    TRY(matrix_upload_f32(at_home->values, values));
    drop_entry(store, index);
out:
    memory_free(values);
    return status;
}

grail_status parameter_store_move_home(parameter_store *store, const bool *wanted)
{
    if (store->home == NULL) {
        CHECK(parameter_store_create(store->model, backend_host(), NULL, &store->home));
        store->home->written = store->written;
    }
    for (int p = 0; p < store->model->graph->parameter_count; p++) {
        if ((wanted[p] || matrix_exists(store->entries[p].values)) && !lies_at_home(store, p)) {
            CHECK(take_home(store, p));
        }
    }
    return GRAIL_OK;
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
