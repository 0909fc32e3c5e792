/* The weights of ONNX models as files of tensors: what is read, and written in their place. */
#include "onnx_bytes.h"

#include "base/file.h"
#include "format/onnx/onnx_weights.h"

#include <stdio.h>
#include <string.h>

/* The graph with everything, as a file, and its weights. */
typedef struct fixture {
    char *directory, *path;
    buffer graph, model;
    tensor_file *weights;
} fixture;

static void setup(fixture *f)
{
    *f = (fixture){.directory = support_temporary_directory()};
    buffer_init(&f->graph, 1 << 16);
    buffer_init(&f->model, 1 << 16);
    put_graph(&f->graph);
    put_model(&f->model, &f->graph, 17, NO_MORE);
    assert_ok(path_join(&f->path, f->directory, "written.onnx"));
    assert_ok(onnx_weights_open_bytes("m.onnx", f->model.bytes, f->model.size, &f->weights));
}

static void teardown(fixture *f)
{
    tensor_file_close(f->weights);
    buffer_fini(&f->graph);
    buffer_fini(&f->model);
    support_remove_tree(f->directory);
    memory_free(f->directory);
    memory_free(f->path);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, f, setup, teardown, name)

static grail_status open_writer(const fixture *f, const onnx_integer_list *integers,
                                const tensor_view *tensor, layout_start start, tensor_writer **out)
{
    return onnx_weights_writer_open(f->path, onnx_weights_model(f->weights), integers, 1, tensor,
                                    start, out);
}

FIXTURE_TEST(constants_of_floats_are_weights)
{
    const float t[2] = {0.5F, 1.0F};
    assert_int_equal(f->weights->count, 4);
    assert_non_null(tensor_file_find(f->weights, "half"));
    assert_null(tensor_file_find(f->weights, "shape"));
    assert_null(tensor_file_find(f->weights, "t")->data); /* numbers, until they are loaded */
    assert_ok(tensor_file_load(f->weights));
    assert_memory_equal(tensor_file_find(f->weights, "t")->data, t, sizeof t);
    assert_int_equal(tensor_file_find(f->weights, "b")->dtype, GRAIL_DTYPE_F16);
}

FIXTURE_TEST(what_keeps_its_shape_keeps_its_bytes)
{
    const tensor_view *w = tensor_file_find(f->weights, "w");
    tensor_writer *writer = NULL;
    tensor_file *read = NULL;
    file_map written = {0};
    assert_ok(open_writer(f, NULL, w, LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_put(writer, "w", w->data, w->bytes));
    assert_fails(onnx_weights_open(f->path, &read), GRAIL_ERROR_FORMAT, "written.onnx");
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    assert_ok(file_map_open(&written, f->path));
    assert_int_equal(written.size, f->model.size);
    assert_memory_equal(written.data, f->model.bytes, written.size);
    file_map_close(&written);
    assert_fails(open_writer(f, NULL, w, LAYOUT_NEW, &writer), GRAIL_ERROR_EXISTS, "written.onnx");
}

FIXTURE_TEST(narrow_tensors_and_other_integers_are_read_again)
{
    const float row[3] = {7, 8, 9};
    const int64_t shape[2] = {-1, 1};
    tensor_view w = *tensor_file_find(f->weights, "w");
    const onnx_file *model = onnx_weights_model(f->weights);
    int64_t values[2] = {shape[0], shape[1]};
    onnx_integers one = {.tensor = model->values[onnx_file_find(model, "shape")].tensor,
                         .values = values};
    const onnx_integer_list integers = {.items = &one, .count = 1};
    tensor_writer *writer = NULL;
    tensor_file *read = NULL;
    int64_t found[2];
    w.shape[0] = 1;
    assert_ok(open_writer(f, &integers, &w, LAYOUT_NEW, &writer));
    tensor_writer_close(writer);
    assert_ok(open_writer(f, &integers, &w, LAYOUT_CONTINUED, &writer));
    assert_ok(tensor_writer_put(writer, "w", row, sizeof row));
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    assert_ok(onnx_weights_open(f->path, &read));
    assert_int_equal(tensor_file_find(read, "w")->shape[0], 1);
    assert_memory_equal(tensor_file_find(read, "w")->data, row, sizeof row);
    model = onnx_weights_model(read);
    assert_ok(onnx_tensor_integers(
        &model->tensors[model->values[onnx_file_find(model, "shape")].tensor], found));
    assert_memory_equal(found, shape, sizeof shape);
    tensor_file_close(read);
    values[1] = 2;
    assert_fails(open_writer(f, &integers, &w, LAYOUT_CONTINUED, &writer), GRAIL_ERROR_EXISTS,
                 "was prepared for other tensors");
}

FIXTURE_TEST(tensors_that_the_model_lacks_are_refused)
{
    tensor_view w = *tensor_file_find(f->weights, "w");
    tensor_writer *writer = NULL;
    w.dtype = GRAIL_DTYPE_F16;
    assert_fails(open_writer(f, NULL, &w, LAYOUT_NEW, &writer), GRAIL_ERROR_ARGUMENT,
                 "has no tensor 'w' of type F16");
    w.name = "q";
    assert_fails(open_writer(f, NULL, &w, LAYOUT_NEW, &writer), GRAIL_ERROR_ARGUMENT,
                 "has no tensor 'q'");
}

static grail_status write_once(void *context)
{
    const fixture *f = context;
    tensor_file *read = NULL;
    tensor_writer *writer = NULL;
    tensor_view w = *tensor_file_find(f->weights, "w");
    grail_status status = onnx_weights_open_bytes("m.onnx", f->model.bytes, f->model.size, &read);
    remove(f->path);
    w.shape[0] = 1;
    status = status == GRAIL_OK ? open_writer(f, NULL, &w, LAYOUT_NEW, &writer) : status;
    tensor_writer_close(writer);
    tensor_file_close(read);
    return status;
}

FIXTURE_TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(write_once, f);
}
