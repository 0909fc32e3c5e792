/* Token ids from .npy files: the headers that numpy writes, and what is refused. */
#include "support/support.h"

#include "base/buffer.h"
#include "format/text/npy.h"

#include <stdio.h>

/* A version-1 file: numpy pads so that the elements begin at a multiple of 64. */
static buffer make_file(const char *dict, const void *data, size_t size)
{
    buffer file = {.maximum = 1 << 16};
    assert_ok(buffer_append(&file, "\x93NUMPY\x01\x00\x00\x00", 10));
    assert_ok(buffer_append_string(&file, dict));
    while (file.size % 64 != 63) {
        assert_ok(buffer_append_string(&file, " "));
    }
    assert_ok(buffer_append_string(&file, "\n"));
    file.bytes[8] = (unsigned char)(file.size - 10);
    file.bytes[9] = (unsigned char)((file.size - 10) >> 8);
    assert_ok(buffer_append(&file, data, size));
    return file;
}

static grail_status read_file(buffer *file)
{
    npy_ids ids = {0};
    OWNED(int32_t) *values = NULL;
    grail_status status = npy_read_header(file->bytes, file->size, &ids);
    assert_true((status == GRAIL_OK) == (ids.data != NULL));
    if (status == GRAIL_OK) {
        assert_ok(memory_new(&values, (size_t)ids.count, sizeof values[0]));
        status = npy_read_ids(&ids, 0, ids.count, values);
    }
    return status;
}

static grail_status read_made(const char *dict, const void *data, size_t size)
{
    OWNED(buffer) file = make_file(dict, data, size);
    return read_file(&file);
}

static const char plain_dict[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";

static void expect(buffer *file, int64_t count, const int32_t values[], int64_t row)
{
    npy_ids ids = {0};
    int32_t *read = NULL;
    assert_ok(npy_read_header(file->bytes, file->size, &ids));
    assert_int_equal(ids.count, count);
    assert_int_equal(ids.row, row);
    assert_ok(memory_new(&read, (size_t)count, sizeof read[0]));
    for (int64_t i = 0; i < count; i++) { /* one by one: from any place */
        assert_ok(npy_read_ids(&ids, i, 1, &read[i]));
    }
    assert_memory_equal(read, values, (size_t)count * sizeof *values);
    memory_free(read);
}

TEST(test_every_integer_width_is_read)
{
    static const char *const dtypes[] = {"|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"};
    const int32_t values[] = {1, 0, 127};
    for (size_t k = 0; k < 8; k++) {
        const size_t width = (size_t)1 << (k / 2);
        char dict[128];
        unsigned char data[24] = {0};
        for (size_t i = 0; i < 3; i++) {
            data[i * width] = (unsigned char)values[i];
        }
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }",
                 dtypes[k]);
        OWNED(buffer) file = make_file(dict, data, 3 * width);
        expect(&file, 3, values, 0);
    }
}

TEST(test_rows_of_a_matrix_are_kept_apart)
{
    const int32_t values[] = {1, 2, 3, 4, 5, INT32_MAX};
    OWNED(buffer)
    file = make_file("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", values,
                     sizeof values);
    expect(&file, 6, values, 3);
}

TEST(test_fields_come_in_any_order_and_quotes)
{
    const int32_t values[] = {7, 8, 9};
    OWNED(buffer)
    file = make_file("{\"shape\": (3,),'fortran_order':True,  \"descr\":'<i4'}", values,
                     sizeof values);
    expect(&file, 3, values, 0);
}

TEST(test_versions_two_and_three_have_a_longer_length)
{
    const int32_t values[] = {7, 8, 9};
    for (int version = 2; version <= 3; version++) {
        OWNED(buffer) file = {.maximum = 1 << 16};
        assert_ok(buffer_append(&file, "\x93NUMPY\x00\x00\x00\x00\x00\x00", 12));
        assert_ok(buffer_append(&file, plain_dict, sizeof plain_dict - 1));
        file.bytes[6] = (unsigned char)version;
        file.bytes[8] = sizeof plain_dict - 1;
        assert_ok(buffer_append(&file, values, sizeof values));
        expect(&file, 3, values, 0);
    }
}

TEST(test_other_versions_are_refused)
{
    OWNED(buffer) file = make_file(plain_dict, "abcdefghijkl", 12);
    file.bytes[6] = 4;
    assert_fails(read_file(&file), GRAIL_ERROR_UNSUPPORTED, "version 4");
    file.bytes[6] = 0;
    assert_fails(read_file(&file), GRAIL_ERROR_UNSUPPORTED, "version 0");
}

TEST(test_every_truncation_is_refused)
{
    OWNED(buffer) file = make_file(plain_dict, "\1\0\0\0\2\0\0\0\3\0\0\0", 12);
    const size_t whole = file.size;
    for (file.size = 0; file.size < whole; file.size++) {
        assert_int_equal(read_file(&file), GRAIL_ERROR_FORMAT);
    }
    file.size = 60;
    assert_fails(read_file(&file), GRAIL_ERROR_FORMAT,
                 "the header ends at byte 128, but the file has 60 bytes: truncated?");
    file.size = whole;
    assert_ok(read_file(&file));
    assert_ok(buffer_append(&file, "x", 1));
    assert_fails(read_file(&file), GRAIL_ERROR_FORMAT, "bytes, but 13 bytes follow it");
}

TEST(test_malformed_headers_are_refused)
{
    static const char *const dicts[] = {
        "",
        "{}",
        "{'descr': '<i4', 'fortran_order': False}",
        "{'descr': '<i4', 'shape': (3,)}",
        "{'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<i4', 'fortran_order': Maybe, 'shape': (3,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3 3)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<i4, 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<i4' 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), 'other': 1}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)",
        "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,)}",
    };
    for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; i++) {
        assert_fails(read_made(dicts[i], "abcdefghijkl", 12), GRAIL_ERROR_FORMAT,
                     "the header does not have the form that numpy writes");
    }
}

TEST(test_other_dtypes_are_refused_with_the_remedy)
{
    static const char *const dtypes[] = {"<f4", ">i4", "|b1", "<U3", "<i16", "<c8", "=i4", "", "<"};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        char dict[128];
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }",
                 dtypes[i]);
        assert_fails(read_made(dict, "abcdefghijkl", 12), GRAIL_ERROR_UNSUPPORTED,
                     "save them as int32");
    }
}

TEST(test_other_shapes_are_refused)
{
    assert_fails(read_made("{'descr': '<i4', 'fortran_order': False, 'shape': ()}", "abcd", 4),
                 GRAIL_ERROR_UNSUPPORTED, "no dimensions");
    assert_fails(
        read_made("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1, 1)}", "abcd", 4),
        GRAIL_ERROR_UNSUPPORTED, "more than 2 dimensions");
    assert_fails(read_made("{'descr': '<i4', 'fortran_order': True, 'shape': (1, 1)}", "abcd", 4),
                 GRAIL_ERROR_UNSUPPORTED, "Fortran order");
    assert_fails(read_made("{'descr': '<i4', 'fortran_order': False, 'shape': (0,)}", "", 0),
                 GRAIL_ERROR_FORMAT, "holds no ids");
    assert_fails(
        read_made("{'descr': '<i4', 'fortran_order': False, 'shape': (5000000000, 5000000000)}", "",
                  0),
        GRAIL_ERROR_FORMAT, "has a shape that is too large for any file");
    assert_fails(
        read_made("{'descr': '<i8', 'fortran_order': False, 'shape': (2305843009213693952,)}", "",
                  0),
        GRAIL_ERROR_FORMAT, "the header declares");
}

TEST(test_ids_that_are_not_tokens_are_named)
{
    const int32_t negative[] = {1, 2, -3};
    assert_fails(read_made(plain_dict, negative, sizeof negative), GRAIL_ERROR_FORMAT,
                 "id -3 at index 2");
    const int64_t large[] = {1, (int64_t)INT32_MAX + 1};
    assert_fails(
        read_made("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", large, sizeof large),
        GRAIL_ERROR_FORMAT, "id 2147483648 at index 1");
    const uint64_t huge[] = {UINT64_MAX};
    assert_fails(
        read_made("{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}", huge, sizeof huge),
        GRAIL_ERROR_FORMAT, "id 18446744073709551615 at index 0");
    assert_fails(read_made("{'descr': '|i1', 'fortran_order': False, 'shape': (1,)}", "\xff", 1),
                 GRAIL_ERROR_FORMAT, "id -1 at index 0");
    assert_ok(read_made("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", "\xff", 1));
}
