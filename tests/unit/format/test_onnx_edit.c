/* Writing ONNX files again: byte for byte without a change, and with one everything else as it was.
 * The real files are those of ../shared/data. */
#include "onnx_bytes.h"

#include "format/onnx/onnx_edit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    buffer graph, model;
    onnx_file *file, *result;
    onnx_edit *edit;
    char *directory;
    char path[512];
} fixture;

static void setup(fixture *f)
{
    *f = (fixture){.directory = support_temporary_directory()};
    buffer_init(&f->graph, 1 << 24);
    buffer_init(&f->model, 1 << 24);
    put_graph(&f->graph);
    put_model(&f->model, &f->graph, 17, MORE("\x72\x0A\x0A\x03key\x12\x03val\xF8\x3F\x07"));
    snprintf(f->path, sizeof f->path, "%s/out.onnx", f->directory);
}

static void teardown(fixture *f)
{
    onnx_edit_free(f->edit);
    onnx_file_close(f->result);
    onnx_file_close(f->file);
    buffer_fini(&f->graph);
    buffer_fini(&f->model);
    support_remove_tree(f->directory);
    memory_free(f->directory);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, f, setup, teardown, name)

static void begin(fixture *f)
{
    assert_ok(onnx_file_open_bytes("m", f->model.bytes, f->model.size, &f->file));
    assert_ok(onnx_edit_create(f->file, &f->edit));
}

static void finish(fixture *f, int64_t largest)
{
    assert_ok(onnx_edit_write(f->edit, f->path, largest));
    assert_ok(onnx_file_open(f->path, &f->result));
}

static const onnx_value *value_of(const onnx_file *file, const char *name)
{
    const int64_t i = onnx_file_find(file, name);
    assert_true(i >= 0);
    return &file->values[i];
}

static int64_t tensor_of(const onnx_file *file, const char *name)
{
    assert_true(value_of(file, name)->tensor >= 0);
    return value_of(file, name)->tensor;
}

static void assert_reals(const onnx_file *file, const char *name, int count, const float *expected)
{
    float values[64];
    assert_int_equal(file->tensors[tensor_of(file, name)].view.shape[0], count);
    assert_ok(onnx_tensor_f32(&file->tensors[tensor_of(file, name)], values));
    for (int i = 0; i < count; i++) {
        assert_near(values[i], expected[i], 0);
    }
}

/* first, first + 1, ... */
static grail_status give_numbers(void *context, int64_t first, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = *(const float *)context + (float)(first + i);
    }
    return GRAIL_OK;
}

static void assert_same_file(const char *path, byte_range expected)
{
    OWNED(file_map) map = {0};
    assert_ok(file_map_open(&map, path));
    assert_int_equal(map.size, expected.size);
    assert_memory_equal(map.data, expected.bytes, expected.size);
}

static void assert_same_nodes(const fixture *f, int64_t first, int64_t count, int64_t other)
{
    for (int64_t i = 0; i < count; i++) {
        const byte_range old = f->file->nodes[first + i].field;
        const byte_range new = f->result->nodes[other + i].field;
        assert_int_equal(old.size, new.size);
        assert_memory_equal(old.bytes, new.bytes, old.size);
    }
}

FIXTURE_TEST(without_a_change_every_byte_stays)
{
    begin(f);
    finish(f, ONNX_LARGEST_FILE);
    assert_same_file(f->path, f->file->bytes);
}

/* Also where the file is larger than asked: it was so before. */
FIXTURE_TEST(without_a_change_the_limit_does_not_matter)
{
    begin(f);
    finish(f, 10);
    assert_same_file(f->path, f->file->bytes);
    assert_int_equal(support_names_in(f->directory), 1);
}

FIXTURE_TEST(tensors_get_other_shapes_and_values)
{
    static const float ten = 10;
    static const float values[] = {10, 11, 12};
    const int64_t shape[] = {1, 3};
    begin(f);
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "w"), 2, shape, give_numbers,
                               (void *)(uintptr_t)&ten));
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "b"), 1, shape, give_numbers,
                               (void *)(uintptr_t)&ten));
    finish(f, ONNX_LARGEST_FILE);
    const onnx_file *r = f->result;
    assert_int_equal(r->tensors[tensor_of(r, "v")].view.shape[0], 1);
    assert_int_equal(r->tensors[tensor_of(r, "v")].view.bytes, sizeof values);
    assert_memory_equal(r->tensors[tensor_of(r, "w")].view.data, values, sizeof values);
    assert_int_equal(r->tensors[tensor_of(r, "b")].view.dtype, GRAIL_DTYPE_F16);
    assert_reals(r, "b", 1, values);
    assert_int_equal(value_of(r, "w")->shape[0], 1); /* as an input, too */
    assert_int_equal(value_of(r, "y")->rank, -1);    /* was said of the old shape */
    assert_int_equal(value_of(r, "z")->rank, -1);
    assert_int_equal(value_of(r, "out")->rank, 2);
    assert_same_nodes(f, 0, 7, 0);
    assert_memory_equal(r->metadata[0].value.bytes, "val", 3);
    const byte_range end = {f->file->bytes.bytes + f->file->bytes.size - 3, 3};
    assert_memory_equal(r->bytes.bytes + r->bytes.size - 3, end.bytes, 3); /* an unknown field */
    const byte_range w = r->tensors[tensor_of(r, "w")].message;
    assert_non_null(memmem(w.bytes, w.size,
                           "\x62\x03"
                           "doc",
                           5));
}

FIXTURE_TEST(what_is_said_of_shapes_stays_where_only_values_change)
{
    static const float ten = 10;
    const int64_t shape[] = {2, 3};
    begin(f);
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "w"), 2, shape, give_numbers,
                               (void *)(uintptr_t)&ten));
    finish(f, ONNX_LARGEST_FILE);
    assert_int_equal(value_of(f->result, "y")->rank, 2);
    assert_int_equal(f->result->bytes.size, f->file->bytes.size);
}

/* What is said of the values that nodes 4 to 6 make: z, i (which has a subgraph that reads y) and
 * more. */
static void say_shapes(fixture *f)
{
    const int64_t one = 1;
    assert_ok(onnx_put_value(&f->graph, GRAPH_VALUE, "i", ONNX_FLOAT, 1, &one));
    assert_ok(onnx_put_value(&f->graph, GRAPH_VALUE, "half", ONNX_FLOAT, 1, &one));
    put_node(&f->graph, "Reshape", "x shape", "shaped", NO_MORE);
    assert_ok(onnx_put_value(&f->graph, GRAPH_VALUE, "shaped", ONNX_FLOAT, 1, &one));
    f->model.size = 0;
    put_model(&f->model, &f->graph, 17, NO_MORE);
}

FIXTURE_TEST(what_a_change_reaches_loses_what_is_said_of_its_shape)
{
    static const float ten = 10;
    const int64_t shape[] = {1, 3};
    const int64_t values[] = {3, -1};
    say_shapes(f);
    begin(f);
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "w"), 2, shape, give_numbers,
                               (void *)(uintptr_t)&ten));
    finish(f, ONNX_LARGEST_FILE);
    assert_int_equal(value_of(f->result, "i")->rank, -1); /* through the subgraph */
    assert_int_equal(value_of(f->result, "half")->rank, 1);
    assert_int_equal(value_of(f->result, "shaped")->rank, 1);
    onnx_edit_free(f->edit);
    onnx_file_close(f->result);
    f->result = NULL;
    f->edit = NULL;
    assert_int_equal(remove(f->path), 0);
    assert_ok(onnx_edit_create(f->file, &f->edit));
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "half"), 1, shape, give_numbers,
                               (void *)(uintptr_t)&ten));
    assert_ok(onnx_edit_integers(f->edit, tensor_of(f->file, "shape"), 1, &(int64_t){2}, values));
    finish(f, ONNX_LARGEST_FILE);
    assert_int_equal(value_of(f->result, "half")->rank, -1);
    assert_int_equal(value_of(f->result, "z")->rank, -1);
    assert_int_equal(value_of(f->result, "y")->rank, 2);
    assert_int_equal(value_of(f->result, "shaped")->rank, -1); /* integers may be a shape */
}

FIXTURE_TEST(constants_of_nodes_change)
{
    static const float ten = 10;
    const int64_t shape[] = {3};
    const int64_t values[] = {0, -1, 7};
    int64_t read[3];
    begin(f);
    assert_ok(onnx_edit_integers(f->edit, tensor_of(f->file, "shape"), 1, shape, values));
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "half"), 0, NULL, give_numbers,
                               (void *)(uintptr_t)&ten));
    finish(f, ONNX_LARGEST_FILE);
    const onnx_tensor *t = &f->result->tensors[tensor_of(f->result, "shape")];
    assert_int_equal(t->view.shape[0], 3);
    assert_ok(onnx_tensor_integers(t, read));
    assert_memory_equal(read, values, sizeof values);
    float half = 0;
    assert_ok(onnx_tensor_f32(&f->result->tensors[tensor_of(f->result, "half")], &half));
    assert_near(half, 10, 0);
    assert_same_nodes(f, 2, 5, 2);
    assert_int_equal(value_of(f->result, "y")->rank, 2); /* does not read them */
}

FIXTURE_TEST(nodes_are_removed_added_and_get_attributes)
{
    begin(f);
    const onnx_file_node *gemm = &f->file->nodes[3];
    const onnx_attribute attributes[] = {gemm->node.attributes[0],
                                         {.name = "alpha", .kind = ONNX_REAL, .real = 0.5}};
    const onnx_node relu = {.operator_name = "Relu",
                            .name = "new",
                            .input_count = 1,
                            .inputs = (const char *const[]){"y"},
                            .output_count = 1,
                            .outputs = (const char *const[]){"z"}};
    onnx_node last = relu;
    last.outputs = (const char *const[]){"more"};
    assert_ok(onnx_edit_attributes(f->edit, 3, 2, attributes));
    onnx_edit_remove(f->edit, 4);
    assert_ok(onnx_edit_insert(f->edit, 4, &relu));
    assert_ok(onnx_edit_insert(f->edit, 7, &last));
    finish(f, ONNX_LARGEST_FILE);
    assert_int_equal(f->result->node_count, 8);
    const onnx_file_node *new = &f->result->nodes[3];
    assert_int_equal(new->node.attribute_count, 2);
    assert_int_equal(onnx_node_attribute(new, "transB")->integer, 1);
    assert_near(onnx_node_attribute(new, "alpha")->real, 0.5, 0);
    assert_non_null(memmem(new->field.bytes, new->field.size,
                           "\x32\x03"
                           "doc",
                           5));
    assert_true(onnx_node_is(&f->result->nodes[4], "Relu"));
    assert_string_equal(f->result->nodes[4].node.name, "new");
    assert_same_nodes(f, 5, 2, 5);
    assert_true(onnx_node_is(&f->result->nodes[7], "Relu"));
    assert_int_equal(value_of(f->result, "y")->rank, -1);
}

/* What was computed is a tensor in place of its node, and what that alone read goes. */
static grail_status fold_gemm(const onnx_file *file, unsigned char **out, size_t *size)
{
    grail_status status = GRAIL_OK;
    static const float values[] = {1, 2, 3, 4};
    const tensor_view y = {
        .name = "y", .dtype = GRAIL_DTYPE_F32, .rank = 2, .shape = {2, 2}, .data = values};
    onnx_edit *e = NULL;
    TRY(onnx_edit_create(file, &e));
    onnx_edit_remove(e, 2);
    onnx_edit_remove(e, 3);
    onnx_edit_drop(e, file->values[onnx_file_find(file, "w")].tensor);
    TRY(onnx_edit_add_values(e, &y));
    TRY(onnx_edit_gather(e, out, size));
out:
    onnx_edit_free(e);
    return status;
}

FIXTURE_TEST(a_tensor_takes_the_place_of_a_node)
{
    float values[4];
    unsigned char *bytes = NULL;
    size_t size = 0;
    begin(f);
    const int64_t tensors = f->file->initializer_count;
    assert_ok(fold_gemm(f->file, &bytes, &size));
    assert_ok(onnx_file_open_bytes("folded", bytes, size, &f->result));
    assert_int_equal(f->result->node_count, 5);
    assert_int_equal(f->result->initializer_count, tensors);
    assert_int_equal(onnx_file_find(f->result, "w"), -1); /* nor is it an input any more */
    assert_int_equal(f->result->input_count, 1);
    const onnx_value *y = value_of(f->result, "y");
    assert_true(y->node < 0 && y->tensor >= 0);
    assert_int_equal(y->rank, -1); /* what was said of the node's */
    assert_ok(onnx_tensor_f32(&f->result->tensors[y->tensor], values));
    assert_near(values[3], 4, 0);
    onnx_file_close(f->result);
    f->result = NULL;
    memory_free(bytes);
}

FIXTURE_TEST(changes_that_do_not_fit_are_refused)
{
    static const float huge = 1e30F;
    const int64_t shape[] = {2, 3};
    begin(f);
    assert_fails(onnx_edit_tensor(f->edit, tensor_of(f->file, "shape"), 1, shape, NULL, NULL),
                 GRAIL_ERROR_INTERNAL, "'shape'");
    assert_fails(onnx_edit_integers(f->edit, tensor_of(f->file, "w"), 1, shape, shape),
                 GRAIL_ERROR_INTERNAL, "'w'");
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "b"), 1, shape, give_numbers,
                               (void *)(uintptr_t)&huge));
    assert_fails(onnx_edit_write(f->edit, f->path, ONNX_LARGEST_FILE), GRAIL_ERROR_NUMERIC,
                 "tensor 'b': ");
    onnx_edit_free(f->edit);
    assert_ok(onnx_edit_create(f->file, &f->edit));
    assert_ok(onnx_edit_integers(f->edit, tensor_of(f->file, "shape"), 1, shape, shape));
    assert_ok(onnx_edit_attributes(f->edit, 0, 1, f->file->nodes[0].node.attributes));
    assert_fails(onnx_edit_write(f->edit, f->path, ONNX_LARGEST_FILE), GRAIL_ERROR_INTERNAL,
                 "node 0: a changed tensor is lost");
    onnx_edit_free(f->edit);
    f->edit = NULL;
    assert_int_equal(support_names_in(f->directory), 0);
}

/* -- values in other files --------------------------------------------------------------------- */

static void put_outside(buffer *graph, const char *name, int64_t count, const char *file,
                        uint64_t offset)
{
    OWNED(buffer) fields;
    buffer_init(&fields, 1 << 16);
    assert_ok(onnx_put_location(&fields, file, offset, (uint64_t)count * 4));
    put_tensor(graph, GRAPH_INITIALIZER, name, ONNX_FLOAT, 1, &count, NULL, 0,
               (more){fields.bytes, fields.size});
}

/* "a" and "b" in d.bin, "c" in e.bin, in the directory "in"; opens them. */
static void begin_outside(fixture *f)
{
    static const float d[] = {0, 1, 2, 3, 4, 5};
    static const float e[300] = {9, 8};
    char directory[512];
    char path[600];
    snprintf(directory, sizeof directory, "%s/in", f->directory);
    assert_int_equal(mkdir(directory, 0777), 0);
    support_write_file(directory, "d.bin", d, sizeof d);
    support_write_file(directory, "e.bin", e, sizeof e);
    put_outside(&f->graph, "a1", 2, "d.bin", 4);
    put_outside(&f->graph, "a2", 3, "d.bin", 12);
    put_outside(&f->graph, "a3", 300, "e.bin", 0);
    f->model.size = 0;
    put_model(&f->model, &f->graph, 17, NO_MORE);
    support_write_file(directory, "m.onnx", f->model.bytes, f->model.size);
    snprintf(path, sizeof path, "%s/m.onnx", directory);
    assert_ok(onnx_file_open(path, &f->file));
    assert_ok(onnx_edit_create(f->file, &f->edit));
}

FIXTURE_TEST(other_files_are_copied)
{
    char path[600];
    begin_outside(f);
    finish(f, ONNX_LARGEST_FILE);
    assert_same_file(f->path, f->file->bytes);
    for (int i = 0; i < 2; i++) {
        const file_map *map = &f->file->data_files[i].map;
        snprintf(path, sizeof path, "%s/%s", f->directory, f->file->data_files[i].location);
        assert_same_file(path, (byte_range){map->data, map->size});
    }
}

FIXTURE_TEST(other_files_in_which_a_tensor_changes_are_laid_out_anew)
{
    static const float ten = 10;
    static const float a1[] = {10};
    static const float a2[] = {3, 4, 5};
    const int64_t one = 1;
    begin_outside(f);
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "a1"), 1, &one, give_numbers,
                               (void *)(uintptr_t)&ten));
    finish(f, ONNX_LARGEST_FILE);
    assert_reals(f->result, "a1", 1, a1);
    assert_reals(f->result, "a2", 3, a2);
    assert_int_equal(f->result->tensors[tensor_of(f->result, "a2")].offset, 4096);
    assert_int_equal(f->result->data_files[0].map.size, 4096 + 12);
    assert_memory_equal(f->result->data_files[0].map.data + 4, "\0\0\0\0", 4); /* not the old */
    const file_map *map = &f->file->data_files[1].map;
    char path[600];
    snprintf(path, sizeof path, "%s/e.bin", f->directory);
    assert_same_file(path, (byte_range){map->data, map->size});
}

/* A model that passes the limit gives its larger initializers away, unchanged ones, too; those that
 * have a file stay there. */
FIXTURE_TEST(a_large_model_has_its_values_beside_it)
{
    enum { COUNT = 70000 }; /* several chunks */
    static const float one = 1;
    static const float w[] = {1, 2, 3, 4, 5, 6};
    static const float a2[] = {3, 4, 5};
    static float values[COUNT];
    static float read[COUNT];
    const int64_t count = COUNT;
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)i;
    }
    put_tensor(&f->graph, GRAPH_INITIALIZER, "large", ONNX_FLOAT, 1, &count, values, sizeof values,
               NO_MORE);
    put_tensor(&f->graph, GRAPH_INITIALIZER, "other", ONNX_FLOAT, 1, &count, values, sizeof values,
               NO_MORE);
    begin_outside(f);
    assert_ok(onnx_edit_tensor(f->edit, tensor_of(f->file, "other"), 1, &count, give_numbers,
                               (void *)(uintptr_t)&one));
    finish(f, 2048);
    const onnx_file *r = f->result;
    assert_true(r->bytes.size < 2048);
    assert_int_equal(r->data_file_count, 3);
    assert_string_equal(r->data_files[0].location, "out.onnx.data");
    assert_string_equal(r->data_files[1].location, "d.bin");
    assert_string_equal(r->data_files[2].location, "e.bin"); /* although it is large */
    assert_memory_equal(r->tensors[tensor_of(r, "large")].view.data, values, sizeof values);
    assert_ok(onnx_tensor_f32(&r->tensors[tensor_of(r, "other")], read));
    for (int i = 0; i < COUNT; i++) {
        assert_near(read[i], i + 1, 0);
    }
    assert_memory_equal(r->tensors[tensor_of(r, "w")].view.data, w, sizeof w);
    assert_reals(r, "a2", 3, a2);
}

FIXTURE_TEST(files_that_exist_are_left_alone)
{
    begin_outside(f);
    support_write_file(f->directory, "e.bin", "x", 1);
    assert_fails(onnx_edit_write(f->edit, f->path, ONNX_LARGEST_FILE), GRAIL_ERROR_EXISTS,
                 "e.bin' exists");
    onnx_edit_free(f->edit);
    f->edit = NULL;
    assert_int_equal(support_names_in(f->directory), 2); /* that and "in" */
}

static grail_status fold_once(void *context)
{
    const fixture *f = context;
    unsigned char *bytes = NULL;
    size_t size = 0;
    const grail_status status = fold_gemm(f->file, &bytes, &size);
    memory_free(bytes);
    return status;
}

static grail_status edit_once(void *context)
{
    fixture *f = context;
    grail_status status = GRAIL_OK;
    onnx_edit *e = NULL;
    static const float one = 1;
    const int64_t shape[] = {1, 3};
    char path[600];
    static const char *const names[] = {"out.onnx", "d.bin", "e.bin"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", f->directory, names[i]);
        remove(path);
    }
    TRY(onnx_edit_create(f->file, &e));
    TRY(onnx_edit_tensor(e, tensor_of(f->file, "w"), 2, shape, give_numbers,
                         (void *)(uintptr_t)&one));
    TRY(onnx_edit_integers(e, tensor_of(f->file, "shape"), 1, shape, shape));
    TRY(onnx_edit_tensor(e, tensor_of(f->file, "a1"), 1, shape, give_numbers,
                         (void *)(uintptr_t)&one));
    TRY(onnx_edit_attributes(e, 3, 1, f->file->nodes[3].node.attributes));
    TRY(onnx_edit_insert(e, 4, &f->file->nodes[3].node));
    TRY(onnx_edit_write(e, f->path, ONNX_LARGEST_FILE));
out:
    onnx_edit_free(e);
    if (status != GRAIL_OK && support_names_in(f->directory) != 1) {
        fail_msg("something is left of a failure");
    }
    return status;
}

FIXTURE_TEST(every_failing_allocation_is_survived)
{
    begin_outside(f);
    support_fail_each_allocation(edit_once, f);
    support_fail_each_allocation(fold_once, f);
}

/* -- real files -------------------------------------------------------------------------------- */

static const char *const real[] = {"ppocr/ch_PP-OCRv4_rec_infer.onnx",
                                   "ppocr/ch_ppocr_mobile_v2.0_cls_infer.onnx"};

FIXTURE_TEST(real_models_come_back_byte_for_byte)
{
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        const char *path = support_shared_data(real[i]);
        if (path == NULL) {
            print_message("[  SKIPPED ] %s: %s is not there\n", __func__, real[i]);
            skip();
        }
        assert_ok(onnx_file_open(path, &f->file));
        assert_ok(onnx_edit_create(f->file, &f->edit));
        finish(f, ONNX_LARGEST_FILE);
        assert_same_file(f->path, f->file->bytes);
        onnx_edit_free(f->edit);
        onnx_file_close(f->file);
        onnx_file_close(f->result);
        f->edit = NULL;
        f->file = f->result = NULL;
        assert_int_equal(remove(f->path), 0);
    }
}

static grail_status give_tensor(void *context, int64_t first, int64_t count, float *out)
{
    const float *values = context;
    memcpy(out, values + first, (size_t)count * sizeof *values);
    return GRAIL_OK;
}

/* Every float constant is replaced by itself; then the values, and all nodes that are no constants,
 * are what they were. */
FIXTURE_TEST(a_real_model_whose_tensors_are_all_replaced_has_the_same_values)
{
    const char *path = support_shared_data(real[1]);
    if (path == NULL) {
        print_message("[  SKIPPED ] %s: %s is not there\n", __func__, real[1]);
        skip();
    }
    assert_ok(onnx_file_open(path, &f->file));
    assert_ok(onnx_edit_create(f->file, &f->edit));
    OPENED(float, values, memory_new(&values, f->file->bytes.size, 1));
    OPENED(float, again, memory_new(&again, f->file->bytes.size, 1));
    float *next = values;
    for (int64_t i = 0; i < f->file->tensor_count; i++) {
        const tensor_view *view = &f->file->tensors[i].view;
        if (view->dtype == GRAIL_DTYPE_F32) {
            assert_ok(onnx_tensor_f32(&f->file->tensors[i], next));
            assert_ok(onnx_edit_tensor(f->edit, i, view->rank, view->shape, give_tensor, next));
            next += view->bytes / sizeof *next;
        }
    }
    assert_true(next - values > 100000);
    finish(f, ONNX_LARGEST_FILE);
    assert_int_equal(f->result->node_count, f->file->node_count);
    next = values;
    for (int64_t i = 0; i < f->result->tensor_count; i++) {
        const tensor_view *view = &f->result->tensors[i].view;
        assert_string_equal(view->name, f->file->tensors[i].view.name);
        if (view->dtype == GRAIL_DTYPE_F32) {
            assert_ok(onnx_tensor_f32(&f->result->tensors[i], again));
            assert_memory_equal(again, next, view->bytes);
            next += view->bytes / sizeof *next;
        }
    }
    for (int64_t i = 0; i < f->file->node_count; i++) {
        if (!onnx_node_is(&f->file->nodes[i], "Constant")) {
            assert_same_nodes(f, i, 1, i);
        }
    }
}
