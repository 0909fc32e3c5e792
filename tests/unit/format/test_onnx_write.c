/* ONNX files written and read back: protocol buffers, tensors in one file and in two. */
#include "support/onnx_reader.h"

#include "format/onnx/onnx_write.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct fixture {
    char *directory;
    char path[512], data[512];
} fixture;

static void setup(fixture *f)
{
    f->directory = support_temporary_directory();
    snprintf(f->path, sizeof f->path, "%s/net.onnx", f->directory);
    snprintf(f->data, sizeof f->data, "%s/net.onnx.data", f->directory);
}

static void teardown(fixture *f)
{
    support_remove_tree(f->directory);
    memory_free(f->directory);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, f, setup, teardown, name)

static const float weight[6] = {1.0F, -2.0F, 3.0F, -4.0F, 5.0F, -6.0F};
static const float bias[2] = {0.5F, 0.25F};

/* logits = pixels weight^T + bias, with everything that a node can have. */
static grail_status declare(onnx_writer *w, int *tensors)
{
    const int64_t any[] = {ONNX_ANY_SIZE, 3};
    const int64_t out[] = {ONNX_ANY_SIZE, 2};
    const char *const gemm[] = {"pixels", "fc.weight", "fc.bias"};
    const onnx_attribute attributes[] = {
        {.name = "transB", .kind = ONNX_INTEGER, .integer = 1},
        {.name = "beta", .kind = ONNX_REAL, .real = 1.0},
        {.name = "perm", .kind = ONNX_INTEGERS, .integers = any, .count = 2}};
    const onnx_node n = {.operator_name = "Gemm",
                         .input_count = 3,
                         .inputs = gemm,
                         .output_count = 1,
                         .outputs = (const char *const[]){"logits"},
                         .attribute_count = 3,
                         .attributes = attributes};
    CHECK(onnx_add_input(w, "pixels", 2, any));
    CHECK(onnx_add_node(w, &n));
    CHECK(onnx_add_output(w, "logits", 2, out));
    CHECK(onnx_add_integers(w, "shape", 2, (const int64_t[]){-1, INT64_MAX}));
    CHECK(onnx_add_integers(w, "zero", -1, (const int64_t[]){0}));
    CHECK(onnx_add_real(w, "half", 0.5));
    CHECK(onnx_add_tensor(w, "fc.weight", 2, (const int64_t[]){2, 3}, &tensors[0]));
    return onnx_add_tensor(w, "fc.bias", 1, (const int64_t[]){2}, &tensors[1]);
}

static grail_status write_file(const char *path, int64_t largest)
{
    OWNED(onnx_writer) *w = NULL;
    int tensors[2];
    CHECK(onnx_writer_create(&w));
    CHECK(declare(w, tensors));
    CHECK(onnx_begin(w, path, largest));
    CHECK(onnx_put(w, tensors[1], 0, 2, bias));
    CHECK(onnx_put(w, tensors[0], 2, 4, weight + 2)); /* in any order, in pieces */
    CHECK(onnx_put(w, tensors[0], 0, 2, weight));
    return onnx_finish(w);
}

static void assert_declared(const onnx_file_read *r)
{
    assert_int_equal(r->ir_version, 8);
    assert_int_equal(r->opset, 17);
    assert_string_equal(r->input, "pixels");
    assert_int_equal(r->input_shape[0], -1);
    assert_int_equal(r->input_shape[1], 3);
    assert_string_equal(r->output, "logits");
    assert_int_equal(r->output_shape[1], 2);
    assert_int_equal(r->node_count, 1);
    assert_string_equal(r->nodes[0].type, "Gemm");
    assert_int_equal(r->nodes[0].input_count, 3);
    assert_string_equal(r->nodes[0].inputs[1], "fc.weight");
    assert_string_equal(r->nodes[0].output, "logits");
    assert_int_equal(r->nodes[0].attribute_count, 3);
    assert_int_equal(r->tensor_count, 5);
}

FIXTURE_TEST(a_model_comes_back_as_it_was_declared)
{
    assert_ok(write_file(f->path, ONNX_LARGEST_FILE));
    const onnx_file_read *r = onnx_read(f->path);
    assert_declared(r);
    const onnx_read_tensor *t = onnx_find_tensor(r, "fc.weight");
    assert_int_equal(t->type, 1);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->bytes, sizeof weight);
    assert_memory_equal(t->raw, weight, sizeof weight);
    assert_memory_equal(onnx_find_tensor(r, "fc.bias")->raw, bias, sizeof bias);
    assert_int_equal(access(f->data, F_OK), -1);
}

FIXTURE_TEST(constants_come_back)
{
    const int64_t shape[] = {-1, INT64_MAX};
    const int64_t zero = 0;
    const float half = 0.5F;
    assert_ok(write_file(f->path, ONNX_LARGEST_FILE));
    const onnx_file_read *r = onnx_read(f->path);
    const onnx_read_tensor *t = onnx_find_tensor(r, "shape");
    assert_int_equal(t->type, 7);
    assert_int_equal(t->rank, 1);
    assert_int_equal(t->bytes, sizeof shape);
    assert_memory_equal(t->raw, shape, sizeof shape);
    t = onnx_find_tensor(r, "zero");
    assert_int_equal(t->rank, 0);
    assert_memory_equal(t->raw, &zero, sizeof zero);
    t = onnx_find_tensor(r, "half");
    assert_int_equal(t->type, 1);
    assert_int_equal(t->rank, 0);
    assert_memory_equal(t->raw, &half, sizeof half);
}

FIXTURE_TEST(a_large_model_has_its_tensors_in_a_second_file)
{
    OWNED(file_map) data = {0};
    assert_ok(write_file(f->path, 100));
    const onnx_file_read *r = onnx_read(f->path);
    assert_declared(r);
    assert_ok(file_map_open(&data, f->data));
    const onnx_read_tensor *t = onnx_find_tensor(r, "fc.weight");
    assert_null(t->raw);
    assert_string_equal(t->location, "net.onnx.data");
    assert_int_equal(t->length, sizeof weight);
    assert_memory_equal(data.data + t->offset, weight, sizeof weight);
    t = onnx_find_tensor(r, "fc.bias");
    assert_int_equal(t->offset, 4096); /* on a page of its own */
    assert_memory_equal(data.data + t->offset, bias, sizeof bias);
    assert_non_null(onnx_find_tensor(r, "shape")->raw);
}

/* The file of the first test has a size; one byte less does not hold it. */
FIXTURE_TEST(the_limit_is_that_of_the_whole_file)
{
    assert_ok(write_file(f->path, ONNX_LARGEST_FILE));
    const int64_t size = (int64_t)onnx_read(f->path)->map.size;
    assert_int_equal(remove(f->path), 0);
    assert_ok(write_file(f->path, size));
    assert_int_equal(access(f->data, F_OK), -1);
    assert_int_equal(remove(f->path), 0);
    assert_ok(write_file(f->path, size - 1));
    assert_int_equal(access(f->data, F_OK), 0);
}

FIXTURE_TEST(an_existing_file_is_left_alone)
{
    support_write_file(f->directory, "net.onnx", "x", 1);
    assert_fails(write_file(f->path, ONNX_LARGEST_FILE), GRAIL_ERROR_EXISTS, "net.onnx' exists");
    assert_int_equal(remove(f->path), 0);
    support_write_file(f->directory, "net.onnx.data", "x", 1);
    assert_fails(write_file(f->path, 100), GRAIL_ERROR_EXISTS, "net.onnx.data' exists");
    assert_int_equal(access(f->path, F_OK), -1);
}

TEST(what_was_not_finished_leaves_nothing)
{
    fixture f;
    for (int split = 0; split < 2; split++) {
        onnx_writer *w = NULL;
        int tensors[2];
        setup(&f);
        assert_ok(onnx_writer_create(&w));
        assert_ok(declare(w, tensors));
        assert_ok(onnx_begin(w, f.path, split ? 100 : ONNX_LARGEST_FILE));
        assert_ok(onnx_put(w, tensors[1], 0, 2, bias));
        assert_int_equal(access(f.path, F_OK), -1);
        onnx_writer_free(w);
        assert_int_equal(rmdir(f.directory), 0); /* empty */
        memory_free(f.directory);
    }
}

FIXTURE_TEST(values_beyond_a_tensor_are_refused)
{
    int tensors[2];
    OPENED(onnx_writer, w, onnx_writer_create(&w));
    assert_ok(declare(w, tensors));
    assert_ok(onnx_begin(w, f->path, ONNX_LARGEST_FILE));
    assert_fails(onnx_put(w, tensors[1], 1, 2, bias), GRAIL_ERROR_INTERNAL, "'fc.bias'");
}

TEST(a_directory_that_is_missing_is_named)
{
    assert_fails(write_file("/nonexistent/net.onnx", ONNX_LARGEST_FILE), GRAIL_ERROR_IO,
                 "cannot create '/nonexistent/net.onnx'");
}

static grail_status write_once(void *path)
{
    remove(path);
    return write_file(path, ONNX_LARGEST_FILE);
}

FIXTURE_TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(write_once, f->path);
}
