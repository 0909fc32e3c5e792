/* Writing safetensors files: layout, identity with what is read back, resuming, full disks. */
#include "support/place.h"
#include "support/support.h"

#include "base/file.h"
#include "format/tensor_limits.h"
#include "format/weights/safetensors.h"
#include "support/json_memory.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_TEST(name) PLACE_TEST_OF("model.safetensors", name)

static tensor_view declare(const char *name, grail_dtype dtype, int rank, int64_t a, int64_t b)
{
    return (tensor_view){.name = name, .dtype = dtype, .rank = rank, .shape = {a, b}};
}

/* A file of these tensors, all zero, as far as they can be laid out. */
static grail_status open_writer(const place *p, int64_t count, const tensor_view tensors[],
                                layout_start start)
{
    OWNED(tensor_writer) *writer = NULL;
    const grail_status status = safetensors_writer_open(p->path, count, tensors, start, &writer);
    assert_true((status == GRAIL_OK) == (writer != NULL));
    if (status == GRAIL_OK) {
        assert_ok(tensor_writer_seal(writer));
    }
    return status;
}

static bool directory_is_empty(const place *p)
{
    return rmdir(p->directory) == 0;
}

PLACE_TEST(test_what_is_written_is_read_back)
{
    const tensor_view tensors[] = {
        declare("small", GRAIL_DTYPE_U8, 1, 3, 0),
        declare("z \"quoted\" \\ \u00e9\n", GRAIL_DTYPE_F32, 2, 2, 3),
        declare("scalar", GRAIL_DTYPE_I64, 0, 0, 0),
        declare("empty", GRAIL_DTYPE_BF16, 2, 0, 5),
        declare("a", GRAIL_DTYPE_F32, 1, 1, 0),
    };
    static const char *const order[] = {"scalar", "a", "z \"quoted\" \\ \u00e9\n", "empty",
                                        "small"};
    static const unsigned char data[24] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                           13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
    const size_t sizes[] = {3, 24, 8, 0, 4};
    tensor_writer *writer = NULL;
    assert_ok(safetensors_writer_open(p->path, 5, tensors, LAYOUT_NEW, &writer));
    for (int i = 4; i >= 0; i--) {
        assert_ok(tensor_writer_put(writer, tensors[i].name, data, sizes[i]));
    }
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);

    OPENED(tensor_file, file, safetensors_open(p->path, &file));
    assert_int_equal(file->count, 5);
    for (int64_t i = 0; i < 5; i++) {
        assert_string_equal(file->tensors[i].name, order[i]);
        const tensor_view *found = tensor_file_find(file, tensors[i].name);
        assert_non_null(found);
        assert_int_equal(found->dtype, tensors[i].dtype);
        assert_int_equal(found->rank, tensors[i].rank);
        assert_memory_equal(found->shape, tensors[i].shape, sizeof found->shape);
        assert_int_equal(found->bytes, sizes[i]);
        assert_memory_equal(found->data, data, sizes[i]);
    }
}

PLACE_TEST(test_the_header_is_what_the_reference_writes)
{
    static const char expected[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
        "\"h\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[8,10]}}";
    const tensor_view tensors[] = {
        declare("h", GRAIL_DTYPE_F16, 1, 1, 0),
        declare("w", GRAIL_DTYPE_F32, 2, 1, 2),
    };
    assert_ok(open_writer(p, 2, tensors, LAYOUT_NEW));
    OWNED(buffer) bytes = {0};
    assert_ok(file_read(p->path, 4096, &bytes));
    assert_int_equal(bytes.bytes[0] % 8, 0);
    assert_int_equal(bytes.size, 8 + bytes.bytes[0] + 10);
    assert_memory_equal(bytes.bytes + 8, expected, sizeof expected - 1);
    for (size_t i = 8 + sizeof expected - 1; i < 8U + bytes.bytes[0]; i++) {
        assert_int_equal(bytes.bytes[i], ' ');
    }
}

PLACE_TEST(test_no_tensors_make_a_valid_file)
{
    assert_ok(open_writer(p, 0, NULL, LAYOUT_NEW));
    OPENED(tensor_file, file, safetensors_open(p->path, &file));
    assert_int_equal(file->count, 0);
}

PLACE_TEST(test_wrong_puts_are_refused)
{
    const tensor_view tensors[] = {declare("a", GRAIL_DTYPE_U8, 1, 4, 0)};
    OWNED(tensor_writer) *writer = NULL;
    assert_ok(safetensors_writer_open(p->path, 1, tensors, LAYOUT_NEW, &writer));
    assert_fails(tensor_writer_put(writer, "b", "abcd", 4), GRAIL_ERROR_ARGUMENT,
                 "has no place for a tensor 'b'");
    assert_fails(tensor_writer_put(writer, "a", "abc", 3), GRAIL_ERROR_SHAPE,
                 "takes 4 bytes, but 3 are given");
    assert_ok(tensor_writer_put(writer, "a", "abcd", 4));
    assert_fails(tensor_writer_put(writer, "a", "abcd", 4), GRAIL_ERROR_ARGUMENT, "a second time");
}

PLACE_TEST(test_impossible_declarations_leave_no_file)
{
    const tensor_view twice[] = {declare("a", GRAIL_DTYPE_U8, 1, 4, 0),
                                 declare("b", GRAIL_DTYPE_U8, 1, 4, 0),
                                 declare("a", GRAIL_DTYPE_F32, 1, 4, 0)};
    assert_fails(open_writer(p, 3, twice, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT, "'a' is given twice");
    const tensor_view reserved = declare("__metadata__", GRAIL_DTYPE_U8, 1, 4, 0);
    assert_fails(open_writer(p, 1, &reserved, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT, "reserved");
    const tensor_view latin = declare("\xe9", GRAIL_DTYPE_U8, 1, 4, 0);
    assert_fails(open_writer(p, 1, &latin, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT,
                 "not UTF-8 at byte 0");
    char name[TENSOR_LONGEST_NAME + 2] = {0};
    memset(name, 'n', TENSOR_LONGEST_NAME + 1);
    const tensor_view overlong = declare(name, GRAIL_DTYPE_U8, 1, 4, 0);
    assert_fails(open_writer(p, 1, &overlong, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT,
                 "more than 4096 bytes");
    const tensor_view negative = declare("n", GRAIL_DTYPE_U8, 1, -4, 0);
    assert_fails(open_writer(p, 1, &negative, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT,
                 "[-4] elements of U8");
    const tensor_view odd = declare("o", GRAIL_DTYPE_F4, 1, 3, 0);
    assert_fails(open_writer(p, 1, &odd, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT,
                 "do not fill their last byte, or take 2^61 bytes or more");
    const tensor_view deep = declare("d", GRAIL_DTYPE_U8, 9, 1, 1);
    assert_fails(open_writer(p, 1, &deep, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT, "rank 9");
    const int64_t most = (int64_t)1 << 60;
    const tensor_view huge[] = {
        declare("w", GRAIL_DTYPE_U8, 1, most, 0), declare("x", GRAIL_DTYPE_U8, 1, most, 0),
        declare("y", GRAIL_DTYPE_U8, 1, most, 0), declare("z", GRAIL_DTYPE_U8, 1, most, 0)};
    assert_fails(open_writer(p, 4, huge, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT,
                 "more bytes than a file");
    assert_fails(open_writer(p, -1, NULL, LAYOUT_NEW), GRAIL_ERROR_ARGUMENT, "-1 tensors");
    assert_true(directory_is_empty(p));
}

PLACE_TEST(test_an_existing_file_is_left_alone)
{
    const tensor_view tensor = declare("a", GRAIL_DTYPE_U8, 1, 4, 0);
    support_write_file(p->directory, "model.safetensors", "precious", 8);
    assert_fails(open_writer(p, 1, &tensor, LAYOUT_NEW), GRAIL_ERROR_EXISTS, "already exists");
    assert_fails(open_writer(p, 1, &tensor, LAYOUT_CONTINUED), GRAIL_ERROR_EXISTS, "other tensors");
    OWNED(buffer) bytes = {0};
    assert_ok(file_read(p->path, 100, &bytes));
    assert_string_equal((const char *)bytes.bytes, "precious");
}

PLACE_TEST(test_a_file_with_the_same_header_is_continued)
{
    const tensor_view tensors[] = {declare("a", GRAIL_DTYPE_U8, 1, 4, 0),
                                   declare("b", GRAIL_DTYPE_U8, 1, 4, 0)};
    tensor_writer *writer = NULL;
    char found[4] = "";
    assert_fails(open_writer(p, 2, tensors, LAYOUT_CONTINUED), GRAIL_ERROR_IO, "cannot open");
    assert_ok(safetensors_writer_open(p->path, 2, tensors, LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_put(writer, "a", "1234", 4));
    assert_ok(tensor_writer_flush(writer));
    tensor_writer_close(writer);
    assert_ok(safetensors_writer_open(p->path, 2, tensors, LAYOUT_CONTINUED, &writer));
    assert_ok(tensor_writer_get(writer, "a", found, 4));
    assert_memory_equal(found, "1234", 4);
    assert_fails(tensor_writer_get(writer, "a", found, 3), GRAIL_ERROR_SHAPE, "takes 4 bytes");
    assert_ok(tensor_writer_put(writer, "b", "5678", 4));
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    assert_ok(open_writer(p, 2, tensors, LAYOUT_CONTINUED)); /* once more */
    OPENED(tensor_file, file, safetensors_open(p->path, &file));
    assert_memory_equal(file->tensors[0].data, "12345678", 8);
}

PLACE_TEST(test_no_reader_opens_what_is_not_sealed)
{
    const tensor_view tensor = declare("a", GRAIL_DTYPE_U8, 1, 4, 0);
    OWNED(tensor_writer) *writer = NULL;
    OWNED(tensor_file) *file = NULL;
    assert_ok(safetensors_writer_open(p->path, 1, &tensor, LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_put(writer, "a", "1234", 4));
    assert_fails(safetensors_open(p->path, &file), GRAIL_ERROR_FORMAT,
                 "is unfinished: the length of its header is 0");
    assert_ok(tensor_writer_seal(writer));
    assert_ok(tensor_writer_seal(writer));
    assert_ok(safetensors_open(p->path, &file));
}

PLACE_TEST(test_a_whole_file_appears_when_it_is_complete)
{
    tensor_view tensor = declare("a", GRAIL_DTYPE_U8, 1, 4, 0);
    tensor_file *file = NULL;
    tensor.data = "1234";
    tensor.bytes = 4;
    assert_ok(safetensors_write_file(p->path, false, 1, &tensor));
    assert_fails(safetensors_write_file(p->path, false, 1, &tensor), GRAIL_ERROR_EXISTS, "exists");
    tensor.data = "5678";
    assert_ok(safetensors_write_file(p->path, true, 1, &tensor));
    assert_ok(safetensors_open(p->path, &file));
    assert_memory_equal(file->tensors[0].data, "5678", 4);
    tensor_file_close(file);
    tensor.bytes = 3;
    assert_fails(safetensors_write_file(p->path, true, 1, &tensor), GRAIL_ERROR_SHAPE,
                 "3 are given");
    assert_int_equal(unlink(p->path), 0);
    assert_true(directory_is_empty(p));
}

PLACE_TEST(test_a_file_of_other_shapes_or_size_is_not_continued)
{
    const tensor_view four = declare("a", GRAIL_DTYPE_U8, 1, 4, 0);
    const tensor_view square = declare("a", GRAIL_DTYPE_U8, 2, 2, 2);
    assert_ok(open_writer(p, 1, &four, LAYOUT_NEW));
    assert_fails(open_writer(p, 1, &square, LAYOUT_CONTINUED), GRAIL_ERROR_EXISTS, "remove it");
    assert_ok(open_writer(p, 1, &four, LAYOUT_CONTINUED));
    struct stat info;
    assert_int_equal(stat(p->path, &info), 0);
    assert_int_equal(truncate(p->path, info.st_size - 1), 0);
    assert_fails(open_writer(p, 1, &four, LAYOUT_CONTINUED), GRAIL_ERROR_EXISTS, "remove it");
}

PLACE_TEST(test_a_missing_directory_is_named)
{
    assert_int_equal(rmdir(p->directory), 0);
    assert_fails(open_writer(p, 0, NULL, LAYOUT_NEW), GRAIL_ERROR_IO, p->path);
}

/* A file-size limit stands for the full disk: both show when the space is reserved. */
PLACE_TEST(test_a_full_disk_shows_at_open_and_leaves_nothing)
{
    const tensor_view tensor = declare("a", GRAIL_DTYPE_U8, 1, 1 << 20, 0);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = before;
    small.rlim_cur = 1 << 16;
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tensor_writer *writer = NULL;
    const grail_status status = safetensors_writer_open(p->path, 1, &tensor, LAYOUT_NEW, &writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, previous);
    assert_null(writer);
    assert_fails(status, GRAIL_ERROR_SPACE, "cannot reserve space for");
    assert_true(directory_is_empty(p));
}

static grail_status write_for_allocation_test(void *context)
{
    const place *p = context;
    const tensor_view tensors[] = {declare("a", GRAIL_DTYPE_U8, 1, 4, 0),
                                   declare("another name", GRAIL_DTYPE_F32, 2, 2, 1)};
    OWNED(tensor_writer) *writer = NULL;
    unlink(p->path);
    grail_status status = safetensors_writer_open(p->path, 2, tensors, LAYOUT_NEW, &writer);
    if (status == GRAIL_OK) {
        status = tensor_writer_put(writer, "a", "1234", 4);
    }
    return status;
}

PLACE_TEST(test_every_failing_allocation_is_reported)
{
    support_fail_each_allocation(write_for_allocation_test, p);
}

CMFixtureFunction support_setup = json_memory_use;
