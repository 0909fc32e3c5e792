#include "stats/statistics.h"

#include "base/file.h"
#include "format/weights/safetensors.h"
#include "support/matrices.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 20, WIDTH = 5, OUTPUTS = 2 };

static grail_statistics *random_statistics(int64_t outputs)
{
    float z[ROWS * WIDTH];
    float y[ROWS * OUTPUTS];
    support_fill_normal(z, ROWS * WIDTH, 1);
    support_fill_normal(y, ROWS * OUTPUTS, 2);
    grail_statistics *s = NULL;
    assert_ok(grail_statistics_create(WIDTH, outputs, &s));
    assert_ok(grail_statistics_accumulate(s, ROWS, z, WIDTH, outputs > 0 ? y : NULL, outputs));
    return s;
}

static char *path_in(const char *directory, const char *name)
{
    char *path = NULL;
    assert_ok(path_join(&path, directory, name));
    return path;
}

static void assert_same_values(matrix a, matrix b)
{
    OWNED(double) *left = support_values(a);
    OWNED(double) *right = support_values(b);
    assert_int_equal(a.rows, b.rows);
    assert_int_equal(a.columns, b.columns);
    assert_memory_equal(left, right, (size_t)matrix_count(a) * sizeof *left);
}

static void assert_round_trip(int64_t outputs)
{
    OWNED(temporary) directory = support_temporary_directory();
    OWNED(char) *path = path_in(directory, "s.safetensors");
    OWNED(grail_statistics) *s = random_statistics(outputs);
    assert_ok(grail_statistics_save(s, path));
    OPENED(grail_statistics, loaded, grail_statistics_load(path, &loaded));
    assert_int_equal(loaded->width, WIDTH);
    assert_int_equal(loaded->outputs, outputs);
    assert_int_equal(loaded->count, ROWS);
    assert_near(grail_statistics_mean(loaded, 1), grail_statistics_mean(s, 1), 0.0);
    assert_same_values(loaded->gram, s->gram);
    assert_same_values(loaded->sum, s->sum);
    assert_true(matrix_exists(loaded->cross) == (outputs > 0));
    if (outputs > 0) {
        assert_same_values(loaded->cross, s->cross);
        assert_same_values(loaded->target_sum, s->target_sum);
        assert_same_values(loaded->target_square, s->target_square);
    }
}

TEST(loading_gives_what_was_saved)
{
    assert_round_trip(OUTPUTS);
}

TEST(statistics_without_a_target_load_without_one)
{
    assert_round_trip(0);
}

TEST(saving_replaces_the_file_and_leaves_no_other)
{
    OWNED(char) *directory = support_temporary_directory();
    OWNED(char) *path = path_in(directory, "s.safetensors");
    support_write_file(directory, "s.safetensors", "old", 3);
    OWNED(grail_statistics) *s = random_statistics(0);
    assert_ok(grail_statistics_save(s, path));
    OPENED(grail_statistics, loaded, grail_statistics_load(path, &loaded));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* A file of `count` tensors with zeroed data but for `first`. */
static char *write_tensors(const char *directory, int64_t count, const tensor_view *tensors,
                           const void *first)
{
    char *path = path_in(directory, "bad.safetensors");
    OWNED(tensor_writer) *writer = NULL;
    const double zeros[64] = {0};
    assert_ok(safetensors_writer_open(path, count, tensors, LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < count; i++) {
        assert_ok(
            tensor_writer_put(writer, tensors[i].name, i == 0 ? first : zeros, tensors[i].bytes));
    }
    assert_ok(tensor_writer_seal(writer));
    return path;
}

static void assert_load_fails(int64_t count, const tensor_view *tensors, const void *first,
                              grail_status code, const char *text)
{
    OWNED(temporary) directory = support_temporary_directory();
    OWNED(char) *path = write_tensors(directory, count, tensors, first);
    grail_statistics *loaded = NULL;
    assert_fails(grail_statistics_load(path, &loaded), code, text);
    assert_non_null(strstr(grail_error_message(), "bad.safetensors"));
    assert_null(loaded);
}

static const tensor_view gram2 = {
    .name = "gram", .dtype = GRAIL_DTYPE_F64, .rank = 2, .shape = {2, 2}, .bytes = 32};
static const tensor_view sum2 = {
    .name = "sum", .dtype = GRAIL_DTYPE_F64, .rank = 1, .shape = {2}, .bytes = 16};
static const tensor_view sum3 = {
    .name = "sum", .dtype = GRAIL_DTYPE_F64, .rank = 1, .shape = {3}, .bytes = 24};
static const tensor_view count0 = {.name = "count", .dtype = GRAIL_DTYPE_I64, .bytes = 8};

TEST(a_file_of_other_tensors_is_refused)
{
    const double zeros[4] = {0};
    assert_load_fails(1, &sum2, zeros, GRAIL_ERROR_FORMAT, "tensor 'gram' is missing");
}

TEST(a_missing_tensor_is_named)
{
    const double zeros[4] = {0};
    const tensor_view tensors[] = {gram2, count0};
    assert_load_fails(2, tensors, zeros, GRAIL_ERROR_FORMAT, "tensor 'sum' is missing");
}

TEST(a_wrong_shape_is_named_with_what_was_expected)
{
    const double zeros[4] = {0};
    const tensor_view tensors[] = {gram2, sum3, count0};
    assert_load_fails(3, tensors, zeros, GRAIL_ERROR_FORMAT,
                      "tensor 'sum' is F64 [3], expected F64 [2]");
}

TEST(a_negative_count_is_refused)
{
    const int64_t negative = -1;
    const tensor_view tensors[] = {count0, gram2, sum2};
    assert_load_fails(3, tensors, &negative, GRAIL_ERROR_FORMAT, "'count' holds -1");
}

TEST(a_nan_in_a_file_is_named)
{
    const double gram[4] = {1.0, 0.0, NAN, 1.0};
    const tensor_view tensors[] = {gram2, sum2, count0};
    assert_load_fails(3, tensors, gram, GRAIL_ERROR_NUMERIC, "feature 1 and feature 0");
}

TEST(a_missing_file_is_named)
{
    grail_statistics *loaded = NULL;
    assert_fails(grail_statistics_load("/nonexistent/s.safetensors", &loaded), GRAIL_ERROR_IO,
                 "/nonexistent/s.safetensors");
    OWNED(grail_statistics) *s = random_statistics(0);
    assert_fails(grail_statistics_save(s, "/nonexistent/s.safetensors"), GRAIL_ERROR_IO,
                 "/nonexistent/s.safetensors");
}

DIRECTORY_TEST(statistics_of_another_instance_are_saved_too)
{
    OWNED(char) *path = path_in(directory, "s.safetensors");
    OPENED(grail_statistics, s, statistics_create(on_ref, 2, 1, &s));
    support_set_element(s->gram, 1, 0, 3.0);
    support_set_element(s->cross, 0, 1, -5.0);
    assert_ok(grail_statistics_save(s, path));
    OPENED(grail_statistics, loaded, grail_statistics_load(path, &loaded));
    assert_ptr_equal(loaded->owner, backend_host());
    assert_near(grail_statistics_gram(loaded, 0, 1), 3.0, 0.0);
    assert_near(support_element(loaded->cross, 0, 1), -5.0, 0.0);
}

static grail_status save_and_load(void *context)
{
    OWNED(grail_statistics) *s = NULL;
    OWNED(grail_statistics) *loaded = NULL;
    const char *path = context;
    grail_status status = grail_statistics_create(1, 0, &s);
    if (status == GRAIL_OK) {
        status = grail_statistics_save(s, path);
    }
    if (status == GRAIL_OK) {
        status = grail_statistics_load(path, &loaded);
    }
    return status;
}

DIRECTORY_TEST(every_failing_allocation_is_survived)
{
    OWNED(char) *path = path_in(directory, "s.safetensors");
    support_fail_each_allocation(save_and_load, path);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
