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
    return onnx_weights_writer_open(f->path, onnx_weights_model(f->weights),
                                    onnx_weights_copies(f->weights), false, integers, 1, tensor,
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

/* y <- Gemm(x, w, b), z <- Gemm(y, w): w is read twice. What Resizes read is no weight. */
static void read_twice(fixture *f, char ir_version)
{
    static const float values[4] = {1, 2, 3, 4};
    const int64_t square[] = {2, 2};
    tensor_file_close(f->weights);
    f->weights = NULL;
    f->graph.size = f->model.size = 0;
    assert_ok(onnx_put_value(&f->graph, GRAPH_INPUT, "x", ONNX_FLOAT, 2, square));
    put_tensor(&f->graph, GRAPH_INITIALIZER, "w", ONNX_FLOAT, 2, square, values, sizeof values,
               NO_MORE);
    put_tensor(&f->graph, GRAPH_INITIALIZER, "w.2", ONNX_FLOAT, 1, square, values, 8, NO_MORE);
    put_node(&f->graph, "Gemm", "x w w.2", "y", NO_MORE);
    put_node(&f->graph, "Gemm", "y w", "z", NO_MORE);
    put_node(&f->graph, "Resize", "z _ w.2", "r", NO_MORE);
    put_node(&f->graph, "Resize", "z w.2 w.2", "s", NO_MORE);
    put_model(&f->model, &f->graph, 17, NO_MORE);
    assert_int_equal(f->model.bytes[1], 8);
    f->model.bytes[1] = (unsigned char)ir_version;
    assert_ok(onnx_weights_open_bytes("m.onnx", f->model.bytes, f->model.size, &f->weights));
}

static const float written[4] = {5, 6, 7, 8};

static void write_twice(const fixture *f, bool tied, int64_t rows)
{
    tensor_view both[] = {*tensor_file_find(f->weights, "w"), *tensor_file_find(f->weights, "w.3")};
    both[1].shape[0] = rows;
    OPENED(tensor_writer, writer,
           onnx_weights_writer_open(f->path, onnx_weights_model(f->weights),
                                    onnx_weights_copies(f->weights), tied, NULL, 2, both,
                                    LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_put(writer, "w", both[0].data, both[0].bytes));
    assert_ok(tensor_writer_put(writer, "w.3", tied ? both[0].data : written,
                                (size_t)rows * 2 * sizeof written[0]));
    assert_ok(tensor_writer_seal(writer));
}

FIXTURE_TEST(what_two_nodes_read_becomes_two_tensors)
{
    for (char ir_version = 3; ir_version < 5; ir_version++) {
        read_twice(f, ir_version);
        assert_int_equal(f->weights->count, 3);
        assert_ptr_equal(tensor_file_find(f->weights, "w.3")->data,
                         tensor_file_find(f->weights, "w")->data);
        remove(f->path);
        write_twice(f, false, 1);
        OPENED(tensor_file, read, onnx_weights_open(f->path, &read));
        const onnx_file *model = onnx_weights_model(read);
        const int64_t value = onnx_file_find(model, "w.3");
        assert_int_equal(model->nodes[1].inputs[1], value);
        assert_int_equal(model->nodes[0].inputs[1], onnx_file_find(model, "w"));
        assert_int_equal(model->values[value].is_input, ir_version < 4);
        assert_int_equal(tensor_file_find(read, "w.3")->shape[0], 1);
        assert_memory_equal(tensor_file_find(read, "w.3")->data, written, 2 * sizeof written[0]);
        assert_memory_equal(tensor_file_find(read, "w")->data,
                            tensor_file_find(f->weights, "w")->data, sizeof written);
        assert_int_equal(onnx_weights_copies(read)->count, 0);
    }
}

FIXTURE_TEST(what_two_nodes_read_stays_one_where_nothing_changes)
{
    OWNED(file_map) map = {0};
    read_twice(f, 8);
    write_twice(f, true, 2);
    assert_ok(file_map_open(&map, f->path));
    assert_int_equal(map.size, f->model.size);
    assert_memory_equal(map.data, f->model.bytes, map.size);
}

static grail_status write_once(void *context)
{
    const fixture *f = context;
    OWNED(tensor_file) *read = NULL;
    OWNED(tensor_writer) *writer = NULL;
    tensor_view w = *tensor_file_find(f->weights, "w");
    grail_status status = onnx_weights_open_bytes("m.onnx", f->model.bytes, f->model.size, &read);
    remove(f->path);
    w.shape[0] = 1;
    status = status == GRAIL_OK ? open_writer(f, NULL, &w, LAYOUT_NEW, &writer) : status;
    return status;
}

static grail_status write_two(void *context)
{
    const fixture *f = context;
    OWNED(tensor_file) *read = NULL;
    OWNED(tensor_writer) *writer = NULL;
    grail_status status = onnx_weights_open_bytes("m.onnx", f->model.bytes, f->model.size, &read);
    remove(f->path);
    if (status == GRAIL_OK) {
        status =
            onnx_weights_writer_open(f->path, onnx_weights_model(read), onnx_weights_copies(read),
                                     false, NULL, read->count, read->tensors, LAYOUT_NEW, &writer);
    }
    return status;
}

FIXTURE_TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(write_once, f);
    read_twice(f, 3);
    support_fail_each_allocation(write_two, f);
}
