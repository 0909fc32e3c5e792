/* Parameter stores: a thin layer over a parent over the checkpoint. */
#include "unit/pipeline/lab_model.h"

#include "backend/operations.h"
#include "exec/parameters.h"
#include "support/guarded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    grail_model *model;
    parameter_store *root, *thin;
    int up, norm; /* of layer 0: [80, 64] and [64] */
} fixture;

static void open_stores(fixture *f, const char *directory, backend *b)
{
    assert_ok(grail_model_open(directory, &f->model));
    assert_ok(parameter_store_create(f->model, b, NULL, &f->root));
    assert_ok(parameter_store_create(f->model, b, f->root, &f->thin));
    f->up = graph_find_parameter(f->model->graph, "model.layers.0.mlp.up_proj.weight");
    f->norm = graph_find_parameter(f->model->graph, "model.layers.0.input_layernorm.weight");
}

static void setup(fixture *f, const char *golden, backend *b)
{
    open_stores(f, lab_golden(golden), b);
}

static void teardown(fixture *f)
{
    parameter_store_free(f->thin);
    parameter_store_free(f->root);
    parameter_store_free(NULL);
    grail_model_close(f->model);
}

OWNS(fixture, teardown)

TEST(a_parameter_is_read_from_the_checkpoint_at_its_first_use)
{
    OWNED(fixture) f;
    float expected[80 * 64];
    double values[80 * 64];
    const parameter_entry *entry = NULL;
    const parameter_entry *again = NULL;
    setup(&f, "llama3-bf16", backend_reference());
    assert_false(matrix_exists(f.root->entries[f.up].values));
    assert_ok(parameter_store_get(f.thin, f.up, &entry));
    assert_ptr_equal(entry, &f.root->entries[f.up]); /* the root keeps it, for all layers */
    assert_false(matrix_exists(f.thin->entries[f.up].values));
    assert_int_equal(entry->shape[0], 80);
    assert_int_equal(entry->shape[1], 64);
    assert_ok(model_parameter_f32(f.model, f.up, expected));
    assert_int_equal(entry->values.rows, 80);
    assert_int_equal(entry->values.columns, 64);
    assert_ok(matrix_download(entry->values, values));
    for (int i = 0; i < 80 * 64; i++) {
        assert_true(values[i] == (double)expected[i]);
    }
    assert_ok(parameter_store_get(f.root, f.up, &again));
    assert_ptr_equal(again, entry);
}

/* Those of Linears that are stored so; a table that a head shares, vectors and F32 are held as
 * values. */
TEST(weights_of_bf16_stay_so_where_products_take_them)
{
    OWNED(backend) *b = NULL;
    fixture f;
    float expected[80 * 64];
    float *values = NULL;
    int64_t count = 0;
    const parameter_entry *entry = NULL;
    if (backend_open("cpu", &(backend_options){.precision = "bf16"}, &b) != GRAIL_OK) {
        print_message("skipped: %s\n", grail_error_message());
        skip();
    }
    setup(&f, "llama3-bf16", b);
    const int table = graph_find_parameter(f.model->graph, "model.embed_tokens.weight");
    assert_ok(parameter_store_get(f.thin, table, &entry));
    assert_false(matrix_is_ordered(entry->values));
    assert_ok(parameter_store_get(f.thin, f.norm, &entry));
    assert_false(matrix_is_ordered(entry->values));
    assert_ok(parameter_store_get(f.thin, f.up, &entry));
    assert_true(matrix_is_ordered(entry->values));
    assert_ok(model_parameter_f32(f.model, f.up, expected));
    assert_ok(parameter_store_read_f32(f.thin, f.up, &values, &count));
    assert_memory_equal(values, expected, sizeof expected);
    assert_ok(parameter_store_own(f.thin, f.up));
    entry = &f.thin->entries[f.up];
    assert_true(matrix_exists(entry->values) && !matrix_is_ordered(entry->values));
    assert_ok(matrix_download_f32(entry->values, values));
    assert_memory_equal(values, expected, sizeof expected);
    assert_ok(parameter_store_set(f.thin, f.up, (const int64_t[]){80, 64}, expected));
    assert_true(matrix_is_ordered(entry->values));
    assert_ok(parameter_store_own(f.thin, f.up)); /* of an ordered own entry, too */
    assert_false(matrix_is_ordered(entry->values));
    memory_free(values);
    teardown(&f);
    setup(&f, "llama3", b); /* stored in F32 */
    assert_ok(parameter_store_get(f.thin, f.up, &entry));
    assert_false(matrix_is_ordered(entry->values));
    teardown(&f);
}

TEST(an_own_entry_hides_the_parents_and_is_rounded_as_stored)
{
    static const float exact[] = {1.0F, -0.5F, 3.0F};
    const float third = 1.0F / 3.0F;
    const int64_t shape[1] = {3};
    const float values[] = {third, exact[1], exact[2]};
    OWNED(fixture) f;
    float *read = NULL;
    int64_t count = 0;
    setup(&f, "llama3-bf16", backend_host());
    assert_ok(parameter_store_set(f.thin, f.norm, shape, values));
    assert_ok(parameter_store_read_f32(f.thin, f.norm, &read, &count));
    assert_int_equal(count, 3);
    assert_true(read[0] != third && fabsf(read[0] - third) < 0.002F); /* 8 bits of BF16 */
    assert_true(read[1] == exact[1] && read[2] == exact[2]);
    memory_free(read);
    assert_ok(parameter_store_read_f32(f.root, f.norm, &read, &count));
    assert_int_equal(count, 64);
    memory_free(read);
}

/* Parameters of 1 + w: read, held as values where w is held as bf16, set as the tensor will give
 * them, and their rows gathered, also as a part of a table. */
TEST(an_offset_is_added_to_what_is_stored)
{
    OWNED(backend) *b = NULL;
    OWNED(fixture) f;
    float stored[80 * 64];
    float values[80 * 64];
    float *read = NULL;
    int64_t count = 0;
    OWNED(matrix) rows = {0};
    const int32_t ids[] = {7, 2};
    if (backend_open("cpu", &(backend_options){.precision = "bf16"}, &b) != GRAIL_OK) {
        assert_ok(backend_open("cpu", &(backend_options){.precision = "f32"}, &b));
    }
    setup(&f, "llama3-bf16", b);
    assert_ok(model_parameter_f32(f.model, f.up, stored));
    storage_map *map = &f.model->graph->parameters[f.up].map;
    map->offset = 1.0;
    assert_ok(parameter_store_read_f32(f.thin, f.up, &read, &count));
    for (int i = 0; i < 80 * 64; i++) {
        assert_true(read[i] == 1.0F + stored[i]);
    }
    assert_ok(parameter_store_set(f.thin, f.up, (const int64_t[]){80, 64}, read));
    memory_free(read);
    assert_ok(parameter_store_read_f32(f.thin, f.up, &read, &count));
    for (int i = 0; i < 80 * 64; i++) {
        assert_true(read[i] == 1.0F + stored[i]);
    }
    memory_free(read);
    for (int i = 0; i < 80 * 64; i++) {
        values[i] = 1.0F + 0x1p-10F + 0x1p-20F; /* more bits than bf16 has */
    }
    assert_ok(parameter_store_set(f.thin, f.up, (const int64_t[]){80, 64}, values));
    assert_ok(parameter_store_read_f32(f.thin, f.up, &read, &count));
    assert_true(read[0] == 1.0F + 0x1p-10F);
    memory_free(read);
    parameter_store_release_range(f.root, 0, f.model->graph->node_count);
    parameter_store_release_range(f.thin, 0, f.model->graph->node_count);
    f.model->graph->parameters[f.up].shape[0] = 40;
    map->rows = storage_rows(40, 40).rows;
    assert_ok(matrix_new(b, GRAIL_DTYPE_F32, 2, 64, &rows));
    assert_ok(parameter_store_gather_rows(f.thin, f.up, ids, rows));
    assert_ok(matrix_download_f32(rows, values));
    for (int i = 0; i < 2 * 64; i++) {
        assert_true(values[i] == 1.0F + stored[(40 + ids[i / 64]) * 64 + i % 64]);
    }
    assert_fails(parameter_store_gather_rows(f.thin, f.up, (const int32_t[]){0, 40}, rows),
                 GRAIL_ERROR_ARGUMENT, "token id 40");
}

TEST(what_is_released_is_read_again)
{
    const parameter_entry *entry = NULL;
    OWNED(fixture) f;
    int begin = 0;
    int end = 0;
    setup(&f, "llama3", backend_host());
    assert_ok(parameter_store_get(f.root, f.up, &entry));
    assert_ok(parameter_store_get(f.root, f.norm, &entry));
    graph_block_range(f.model->graph, 1, &begin, &end);
    parameter_store_release_range(f.root, begin, end);
    assert_true(matrix_exists(f.root->entries[f.up].values));
    graph_block_range(f.model->graph, 0, &begin, &end);
    parameter_store_release_range(f.root, begin, end);
    assert_false(matrix_exists(f.root->entries[f.up].values));
    assert_false(matrix_exists(f.root->entries[f.norm].values));
    assert_ok(parameter_store_get(f.root, f.up, &entry));
    assert_true(matrix_exists(entry->values));
}

TEST(borrowing_copies_only_where_elements_are_not_f32)
{
    backend *const backends[] = {backend_host(), backend_reference()};
    for (int i = 0; i < 2; i++) {
        const float *values = NULL;
        float expected[80 * 64];
        OWNED(fixture) f;
        setup(&f, "llama3-bf16", backends[i]);
        OPENED(float, owned, parameter_store_borrow_f32(f.thin, f.up, &values, &owned));
        assert_int_equal(owned != NULL, i == 1);
        assert_ok(model_parameter_f32(f.model, f.up, expected));
        assert_memory_equal(values, expected, sizeof expected);
    }
}

TEST(new_values_must_be_finite_and_fit_the_stored_dtype)
{
    const int64_t shape[1] = {2};
    const float nan[] = {1.0F, NAN};
    const float large[] = {1.0F, 1e6F};
    OWNED(fixture) f;
    setup(&f, "llama-mha", backend_host()); /* F16 */
    assert_fails(parameter_store_set(f.thin, f.norm, shape, nan), GRAIL_ERROR_NUMERIC,
                 "the new tensor 'model.layers.0.input_layernorm.weight' holds a NaN or infinity "
                 "at element 1");
    assert_fails(parameter_store_set(f.thin, f.norm, shape, large), GRAIL_ERROR_NUMERIC,
                 "tensor 'model.layers.0.input_layernorm.weight'");
    assert_false(matrix_exists(f.thin->entries[f.norm].values));
}

/* On the host, on a device's own memory, and on PyTorch in values of F32, BF16 and F16. */
static backend *open_device(int i)
{
    static const char *const names[] = {"cpu",       "ref",       "guarded",
                                        "torch:cpu", "torch:cpu", "torch:cpu"};
    static const char *const precisions[] = {NULL, NULL, NULL, "f32", "bf16", "f16"};
    backend *b = NULL;
    guarded_add();
    if (i < 3 || getenv("GRAIL_TORCH") != NULL) {
        assert_ok(backend_open(names[i], &(backend_options){.precision = precisions[i]}, &b));
    }
    return b;
}

enum { DEVICES = 6 };

TEST(what_no_store_holds_is_read_from_the_checkpoint_alone)
{
    for (int i = 0; i < DEVICES; i++) {
        float expected[80 * 64];
        float *values = NULL;
        int64_t count = 0;
        OWNED(backend) *b = open_device(i);
        if (b == NULL) {
            continue;
        }
        OWNED(fixture) f;
        setup(&f, "llama3-bf16", b);
        assert_ok(model_parameter_f32(f.model, f.up, expected));
        assert_int_equal(parameter_store_shape(f.thin, f.up)[0], 80);
        assert_ok(parameter_store_read_f32(f.thin, f.up, &values, &count));
        assert_int_equal(count, 80 * 64);
        assert_memory_equal(values, expected, sizeof expected);
        assert_false(matrix_exists(f.root->entries[f.up].values));
        assert_int_equal(backend_bytes(b), 0);
        memory_free(values);
        assert_ok(parameter_store_set(f.thin, f.up, (const int64_t[]){2, 64}, expected));
        assert_int_equal(parameter_store_shape(f.thin, f.up)[0], 2);
    }
}

/* A matrix is set as its values are: the same bits, and the same words of what no tensor can hold.
 * A device tells of what it rounds later, in words that name the tensor. */
static void check_matrix_of(backend *b, const char *golden)
{
    enum { COUNT = 3 * 64 };
    const int64_t shape[] = {3, 64};
    const float bad[] = {INFINITY, 3.4e38F, NAN};
    OWNED(fixture) f;
    float values[COUNT];
    int64_t count = 0;
    matrix m = {0};
    setup(&f, golden, b);
    support_fill_normal(values, COUNT, 5);
    for (int i = 0; i < COUNT / 4; i++) {
        values[i] = ldexpf(values[i], -20); /* subnormal in F16 */
    }
    values[9] = -0.0F;
    assert_ok(parameter_store_set(f.root, f.up, shape, values));
    assert_ok(matrix_import(b, GRAIL_DTYPE_F32, 3, 64, 64, values, &m));
    assert_ok(parameter_store_set_matrix(f.thin, f.up, shape, m));
    matrix_free(&m);
    assert_int_equal(f.thin->entries[f.up].values.type, f.root->entries[f.up].values.type);
    assert_int_equal(f.thin->entries[f.up].shape[0], 3);
    OPENED(float, expected, parameter_store_read_f32(f.root, f.up, &expected, &count));
    OPENED(float, found, parameter_store_read_f32(f.thin, f.up, &found, &count));
    assert_int_equal(count, COUNT);
    assert_memory_equal(found, expected, COUNT * sizeof found[0]);
    for (int i = 0; i < 3; i++) {
        values[7] = bad[i];
        char words[256] = "";
        const grail_status status = parameter_store_set(f.root, f.up, shape, values);
        snprintf(words, sizeof words, "%s", status == GRAIL_OK ? "" : grail_error_message());
        assert_ok(matrix_import(b, GRAIL_DTYPE_F32, 3, 64, 64, values, &m));
        assert_int_equal(backend_settle(b, parameter_store_set_matrix(f.thin, f.up, shape, m)),
                         status);
        if (backend_is_host(b) || i != 1) {
            assert_string_equal(status == GRAIL_OK ? "" : grail_error_message(), words);
        } else if (status != GRAIL_OK) {
            assert_non_null(strstr(grail_error_message(), "mlp.up_proj.weight"));
        }
        assert_true(status != GRAIL_OK || i == 1); /* F32 holds the second one */
        matrix_free(&m);
    }
}

TEST(a_matrix_is_set_as_its_values_are)
{
    for (int i = 0; i < DEVICES; i++) {
        backend *b = open_device(i);
        if (b != NULL) {
            check_matrix_of(b, "llama3");      /* F32 */
            check_matrix_of(b, "llama3-bf16"); /* BF16 */
            check_matrix_of(b, "llama-mha");   /* F16 */
            backend_close(b);
        }
    }
}

DIRECTORY_TEST(a_damaged_checkpoint_is_named)
{
    lab_model m;
    OWNED(fixture) f;
    const parameter_entry *entry = NULL;
    char path[LAB_PATH];
    OWNED(matrix) row = {0};
    snprintf(path, sizeof path, "%s/model", directory);
    lab_read(&m, lab_golden("llama3"));
    lab_find(&m, 0, "mlp.up_proj.weight")->values[4] = NAN;
    for (int i = 0; i < m.count; i++) {
        if (strcmp(m.tensors[i].name, "model.embed_tokens.weight") == 0) {
            m.tensors[i].values[5 * 64 + 1] = INFINITY;
        }
    }
    lab_write(&m, path, GRAIL_DTYPE_F32);
    lab_fini(&m);
    open_stores(&f, path, backend_reference());
    assert_fails(parameter_store_get(f.thin, f.up, &entry), GRAIL_ERROR_NUMERIC,
                 "tensor 'model.layers.0.mlp.up_proj.weight' holds a NaN or infinity at element 4");
    const int32_t ids[] = {4, 5};
    assert_ok(matrix_new(backend_reference(), GRAIL_DTYPE_F64, 1, 64, &row));
    assert_ok(parameter_store_gather_rows(f.root, f.model->graph->nodes[0].weight, ids, row));
    assert_fails(parameter_store_gather_rows(f.root, f.model->graph->nodes[0].weight, ids + 1, row),
                 GRAIL_ERROR_NUMERIC,
                 "tensor 'model.embed_tokens.weight' holds a NaN or infinity in row 5");
}

DIRECTORY_TEST(so_is_one_whose_weights_stay_as_they_are_stored)
{
    lab_model m;
    OWNED(backend) *b = NULL;
    OWNED(fixture) f;
    const parameter_entry *entry = NULL;
    char path[LAB_PATH];
    if (backend_open("cpu", &(backend_options){.precision = "bf16"}, &b) != GRAIL_OK) {
        print_message("skipped: %s\n", grail_error_message());
        skip();
    }
    snprintf(path, sizeof path, "%s/model", directory);
    lab_read(&m, lab_golden("llama3"));
    lab_find(&m, 0, "mlp.up_proj.weight")->values[70] = INFINITY;
    lab_write(&m, path, GRAIL_DTYPE_BF16);
    lab_fini(&m);
    open_stores(&f, path, b);
    assert_fails(
        parameter_store_get(f.thin, f.up, &entry), GRAIL_ERROR_NUMERIC,
        "tensor 'model.layers.0.mlp.up_proj.weight' holds a NaN or infinity at element 70");
}

static grail_status use_stores(void *context)
{
    const grail_model *model = context;
    OWNED(parameter_store) *root = NULL;
    OWNED(parameter_store) *thin = NULL;
    const parameter_entry *entry = NULL;
    OWNED(float) *values = NULL;
    int64_t count = 0;
    const int norm = graph_find_parameter(model->graph, "model.norm.weight");
    CHECK(parameter_store_create(model, backend_reference(), NULL, &root));
    CHECK(parameter_store_create(model, backend_reference(), root, &thin));
    CHECK(parameter_store_get(thin, norm, &entry));
    CHECK(parameter_store_read_f32(thin, norm, &values, &count));
    return parameter_store_set(thin, norm, &count, values);
}

TEST(every_failing_allocation_is_survived)
{
    OPENED(grail_model, model, grail_model_open(lab_golden("llama3-bf16"), &model));
    support_fail_each_allocation(use_stores, model);
}
