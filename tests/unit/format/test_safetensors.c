/* Reading safetensors files: every row of the reference reader's behaviour, and the stricter rules.
 */
#include "support/support.h"

#include "base/file.h"
#include "format/tensor_limits.h"
#include "format/weights/safetensors.h"
#include "support/json_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 12 };

/* A file built from a header and zero bytes of data. */
typedef struct image {
    unsigned char bytes[ROOM];
    size_t size;
} image;

static image make_sized(const char *header, size_t header_size, size_t data_size)
{
    image file = {.size = 8 + header_size + data_size};
    assert_true(file.size <= ROOM);
    for (size_t i = 0; i < 8; i++) {
        file.bytes[i] = (unsigned char)((uint64_t)header_size >> (8 * i));
    }
    memcpy(file.bytes + 8, header, header_size);
    for (size_t i = 0; i < data_size; i++) {
        file.bytes[8 + header_size + i] = (unsigned char)i;
    }
    return file;
}

static grail_status open_image(const image *file)
{
    OWNED(tensor_file) *opened = NULL;
    const grail_status status =
        safetensors_open_bytes("x.safetensors", file->bytes, file->size, &opened);
    assert_true((status == GRAIL_OK) == (opened != NULL));
    return status;
}

static grail_status open_header(const char *header, size_t data_size)
{
    const image file = make_sized(header, strlen(header), data_size);
    return open_image(&file);
}

TEST(test_two_tensors_are_read_in_the_order_of_the_data)
{
    static const char header[] =
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[3,11]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";
    const image file = make_sized(header, sizeof header - 1, 11);
    OPENED(tensor_file, opened, safetensors_open_bytes("x", file.bytes, file.size, &opened));
    assert_int_equal(opened->count, 2);
    const tensor_view *a = &opened->tensors[0];
    const tensor_view *b = &opened->tensors[1];
    assert_string_equal(a->name, "a");
    assert_string_equal(b->name, "b");
    assert_int_equal(b->dtype, GRAIL_DTYPE_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 1);
    assert_int_equal(b->bytes, 8);
    assert_int_equal(((const unsigned char *)b->data)[0], 3);
    assert_ptr_equal(tensor_file_find(opened, "b"), b);
    assert_ptr_equal(tensor_file_find(opened, "a"), a);
    assert_null(tensor_file_find(opened, "c"));
}

TEST(test_lengths_of_the_header_are_checked)
{
    image file = make_sized("{}", 2, 0);
    for (size_t size = 0; size < 8; size++) {
        file.size = size;
        assert_fails(open_image(&file), GRAIL_ERROR_FORMAT, "x.safetensors: has");
    }
    file = make_sized("", 0, 0);
    assert_fails(open_image(&file), GRAIL_ERROR_FORMAT,
                 "is unfinished: the length of its header is 0");
    file = make_sized("{}", 2, 0);
    file.bytes[0] = 3;
    assert_fails(open_image(&file), GRAIL_ERROR_FORMAT,
                 "the header ends at byte 11, but the file has 10 bytes: truncated?");
    memset(file.bytes, 0xff, 8);
    assert_fails(open_image(&file), GRAIL_ERROR_FORMAT, "claims a header of");
    const uint32_t above = 100000001;
    memset(file.bytes, 0, 8);
    memcpy(file.bytes, &above, sizeof above);
    assert_fails(open_image(&file), GRAIL_ERROR_FORMAT, "claims a header of 100000001");
}

typedef struct accepted {
    const char *why;
    const char *header;
    size_t data_size;
    int64_t tensors;
} accepted;

#define U8_AT(name, shape, begin, end)                                                             \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

static const accepted accepted_rows[] = {
    {"no tensors", "{}", 0, 0},
    {"whitespace around", " \t\r\n{} \n\t\r", 0, 0},
    {"header length not a multiple of 8, F32 at an odd offset",
     "{" U8_AT("a", "1", "0", "1") ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
                                   "\"data_offsets\":[1,5]}}",
     5, 2},
    {"metadata of strings", "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"}}", 0, 0},
    {"null metadata", "{\"__metadata__\":null}", 0, 0},
    {"unknown field in an entry",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"extra\":{\"k\":7}}}", 1, 1},
    {"zero before a product that overflows",
     "{" U8_AT("a", "0,9223372036854775807,9223372036854775807", "0", "0") "}", 0, 1},
    {"even count of F4", "{\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 3, 1},
    {"four F6", "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3, 1},
    {"empty tensors sharing a place",
     "{" U8_AT("a", "4", "0", "4") "," U8_AT("b", "0", "4", "4") "," U8_AT(
         "c", "0,3", "4", "4") "," U8_AT("d", "2", "4", "6") "}",
     6, 4},
    {"empty name", "{" U8_AT("", "1", "0", "1") "}", 1, 1},
    {"escaped name", "{" U8_AT("\\u0061\\\"\\\\", "1", "0", "1") "}", 1, 1},
    {"brackets inside a name", "{" U8_AT("[[[[\\\"[[[[{{{{", "1", "0", "1") "}", 1, 1},
    {"scalar", "{\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, 1},
    {"eight dimensions", "{" U8_AT("a", "1,1,1,1,1,1,1,2", "0", "2") "}", 2, 1},
};

TEST(test_what_the_reference_accepts_is_accepted)
{
    for (size_t i = 0; i < sizeof accepted_rows / sizeof accepted_rows[0]; i++) {
        const accepted *row = &accepted_rows[i];
        const image file = make_sized(row->header, strlen(row->header), row->data_size);
        OWNED(tensor_file) *opened = NULL;
        if (safetensors_open_bytes("x", file.bytes, file.size, &opened) != GRAIL_OK) {
            fail_msg("%s: %s", row->why, grail_error_message());
        }
        assert_int_equal(opened->count, row->tensors);
        for (int64_t k = 0; k < row->tensors; k++) {
            const tensor_view *view = &opened->tensors[k];
            assert_ptr_equal(tensor_file_find(opened, view->name), view);
        }
    }
}

TEST(test_names_are_compared_after_unescaping)
{
    static const char header[] = "{" U8_AT("\\u0061\\u00e9\\ud83d\\ude00", "1", "0", "1") "}";
    const image file = make_sized(header, sizeof header - 1, 1);
    OPENED(tensor_file, opened, safetensors_open_bytes("x", file.bytes, file.size, &opened));
    assert_non_null(tensor_file_find(opened, "a\u00e9\U0001f600"));
}

typedef struct refused {
    const char *header;
    size_t data_size;
    const char *text; /* in the message */
} refused;

static const refused refused_rows[] = {
    /* coverage of the data */
    {"{" U8_AT("a", "2", "0", "2") "," U8_AT("b", "2", "3", "5") "}", 5, "hole"},
    {"{" U8_AT("a", "2", "1", "3") "}", 3, "begins at byte 1 of the data"},
    {"{" U8_AT("a", "2", "0", "2") "," U8_AT("b", "2", "1", "3") "}", 3, "overlap"},
    {"{" U8_AT("a", "2", "0", "2") "," U8_AT("b", "2", "0", "2") "}", 2, "overlap"},
    {"{" U8_AT("a", "2", "2", "0") "}", 2, "begins at byte 2 but ends at 0"},
    {"{" U8_AT("a", "2", "0", "2") "}", 3,
     "the tensors end at byte 2 of the data, but the data has 3 bytes"},
    {"{" U8_AT("a", "2", "0", "2") "}", 1,
     "tensor 'a': ends at byte 2 of the data, but the data has 1 bytes: truncated?"},
    {"{}", 1, "the tensors end at byte 0 of the data, but the data has 1 bytes"},
    {"{" U8_AT("a", "8", "0", "8") "," U8_AT("b", "0", "4", "4") "}", 8, "overlap"},
    /* JSON */
    {"[]", 0, "not a JSON object"},
    {"{} x", 0, "not valid JSON"},
    {"{\"a\":1,}", 0, "not valid JSON"},
    {"{\"a\":7}", 0, "tensor 'a': its entry in the header is not a JSON object"},
    {"{" U8_AT("a", "1", "0", "1") "," U8_AT("a", "1", "0", "1") "}", 1, "duplicate"},
    {"{" U8_AT("a", "1", "0", "1") "," U8_AT("\\u0061", "1", "1", "2") "}", 2, "duplicate"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "duplicate"},
    {"{" U8_AT("a\nb", "1", "0", "1") "}", 1, "not valid JSON"},
    {"{" U8_AT("\\ud800", "1", "0", "1") "}", 1, "not valid JSON"},
    {"{" U8_AT("\xff", "1", "0", "1") "}", 1, "not valid JSON"},
    {"{" U8_AT("\xc0\xaf", "1", "0", "1") "}", 1, "not valid JSON"},
    {"{" U8_AT("a\\u0000", "1", "0", "1") "}", 1, "not valid JSON"},
    {"\xef\xbb\xbf{}", 0, "not valid JSON"},
    {"{\"a\":{\"x\":[[1]]}}", 0, "deeper than 3 levels"},
    /* metadata */
    {"{\"__metadata__\":{\"a\":1}}", 0, "\"a\" is not a string"},
    {"{\"__metadata__\":{\"a\":{}}}", 0, "\"a\" is not a string"},
    {"{\"__metadata__\":[]}", 0, "is not an object"},
    /* fields */
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"dtype\" is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "\"shape\" is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "\"data_offsets\" is missing"},
    {"{\"a\":{\"dtype\":\"u8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"u8\" is unknown"},
    {"{\"a\":{\"dtype\":\"Q4\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"Q4\" is unknown"},
    {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"dtype\" is missing"},
    {"{" U8_AT("a", "-1", "0", "1") "}", 1, "dimension 0 is not an integer of 0 or more"},
    {"{" U8_AT("a", "1,1.0", "0", "1") "}", 1, "dimension 1 is not an integer of 0 or more"},
    {"{" U8_AT("a", "1e0", "0", "1") "}", 1, "dimension 0 is not an integer of 0 or more"},
    {"{" U8_AT("a", "\"1\"", "0", "1") "}", 1, "dimension 0 is not an integer of 0 or more"},
    {"{" U8_AT("a", "1", "0", "1,1") "}", 1, "\"data_offsets\""},
    {"{" U8_AT("a", "1", "0", "-1") "}", 1, "\"data_offsets\""},
    {"{" U8_AT("a", "1", "0", "1.0") "}", 1, "\"data_offsets\""},
    /* sizes */
    {"{" U8_AT("a", "3", "0", "2") "}", 2,
     "[3] elements of U8 take 3 bytes, but its data_offsets give it 2"},
    {"{" U8_AT("a", "9223372036854775807,9223372036854775807,0", "0", "0") "}", 0,
     "do not fill their last byte, or take 2^61 bytes or more"},
    {"{" U8_AT("a", "18446744073709551615,18446744073709551615,0", "0", "0") "}", 0,
     "too big integer"},
    {"{" U8_AT("a", "0,18446744073709551615,18446744073709551615", "0", "0") "}", 0,
     "too big integer"},
    {"{" U8_AT("a", "18446744073709551616", "0", "0") "}", 0, "too big integer"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
     "do not fill their last byte, or take 2^61 bytes or more"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
     "do not fill their last byte, or take 2^61 bytes or more"},
    {"{\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1,
     "do not fill their last byte, or take 2^61 bytes or more"},
};

TEST(test_what_the_rules_forbid_is_refused)
{
    for (size_t i = 0; i < sizeof refused_rows / sizeof refused_rows[0]; i++) {
        const refused *row = &refused_rows[i];
        assert_fails(open_header(row->header, row->data_size), GRAIL_ERROR_FORMAT, row->text);
        assert_ptr_equal(strstr(grail_error_message(), "x.safetensors: "), grail_error_message());
    }
}

TEST(test_nine_dimensions_are_not_supported)
{
    assert_fails(open_header("{" U8_AT("a", "1,1,1,1,1,1,1,1,1", "0", "1") "}", 1),
                 GRAIL_ERROR_UNSUPPORTED, "has 9 dimensions, more than the supported 8");
}

TEST(test_nul_bytes_after_the_header_are_refused)
{
    const image file = make_sized("{}\0\0\0\0\0\0", 8, 0);
    assert_fails(open_image(&file), GRAIL_ERROR_FORMAT, "not valid JSON");
}

/* Whether a file is mapped into this process. */
static bool is_mapped(const char *path)
{
    OWNED(buffer) maps;
    buffer_init(&maps, (size_t)1 << 24);
    const int descriptor = file_open(AT_FDCWD, "/proc/self/maps", O_RDONLY);
    char piece[4096];
    ssize_t got = 0;
    while ((got = read(descriptor, piece, sizeof piece)) > 0) {
        assert_ok(buffer_append(&maps, piece, (size_t)got));
    }
    close(descriptor);
    return strstr((const char *)maps.bytes, path) != NULL;
}

DIRECTORY_TEST(test_a_refused_file_does_not_stay_mapped)
{
    static const char nothing[] = "\x08\0\0\0\0\0\0\0{}      ";
    OWNED(tensor_file) *opened = NULL;
    support_write_file(directory, "some.safetensors", "contents", 8);
    OPENED(char, path, path_join(&path, directory, "some.safetensors"));
    assert_fails(safetensors_open(path, &opened), GRAIL_ERROR_FORMAT, "some.safetensors");
    assert_false(is_mapped(path));
    support_write_file(directory, "some.safetensors", nothing, sizeof nothing - 1);
    assert_ok(safetensors_open(path, &opened));
    assert_true(is_mapped(path));
}

DIRECTORY_TEST(test_an_empty_file_is_refused_by_path)
{
    char *path = NULL;
    tensor_file *opened = NULL;
    support_write_file(directory, "empty.safetensors", "", 0);
    assert_ok(path_join(&path, directory, "empty.safetensors"));
    assert_fails(safetensors_open(path, &opened), GRAIL_ERROR_FORMAT, "truncated?");
    memory_free(path);
    assert_ok(path_join(&path, directory, "missing.safetensors"));
    assert_fails(safetensors_open(path, &opened), GRAIL_ERROR_IO, "missing.safetensors");
    assert_fails(safetensors_open(directory, &opened), GRAIL_ERROR_IO, "not a regular file");
    memory_free(path);
}

/* 16 bytes of name and entry each, all over the cap: only the walk before parsing can refuse this
 * without building a tree of it. */
TEST(test_too_many_tensors_are_refused_before_parsing)
{
    OWNED(buffer) bytes = {.maximum = 1 << 26};
    assert_ok(buffer_append(&bytes, "\0\0\0\0\0\0\0\0{", 9));
    for (int i = 0; i <= TENSOR_MOST_IN_FILE + 1; i++) {
        assert_ok(buffer_format(&bytes, "%s\"%d\":0", i == 0 ? "" : ",", i));
    }
    assert_ok(buffer_append_string(&bytes, "}"));
    const uint32_t length = (uint32_t)(bytes.size - 8);
    memcpy(bytes.bytes, &length, sizeof length);
    tensor_file *opened = NULL;
    memory_fail_after(-1);
    assert_fails(safetensors_open_bytes("x", bytes.bytes, bytes.size, &opened), GRAIL_ERROR_FORMAT,
                 "lists more than 1000000 tensors");
    assert_true(memory_allocation_count() < 4);
}

TEST(test_an_overlong_name_is_refused)
{
    OWNED(buffer) bytes = {.maximum = 1 << 16};
    assert_ok(buffer_append(&bytes, "\0\0\0\0\0\0\0\0{\"", 10));
    for (int i = 0; i <= TENSOR_LONGEST_NAME; i++) {
        assert_ok(buffer_append_string(&bytes, "n"));
    }
    assert_ok(buffer_append_string(&bytes,
                                   "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"));
    const uint32_t length = (uint32_t)(bytes.size - 8);
    memcpy(bytes.bytes, &length, sizeof length);
    tensor_file *opened = NULL;
    assert_fails(safetensors_open_bytes("x", bytes.bytes, bytes.size, &opened), GRAIL_ERROR_FORMAT,
                 "name has 4097 bytes");
}

TEST(test_forty_thousand_tensors_are_found_by_name)
{
    enum { COUNT = 40000 };
    OWNED(buffer) bytes = {.maximum = 1 << 24};
    assert_ok(buffer_append(&bytes, "\0\0\0\0\0\0\0\0{", 9));
    for (int i = 0; i < COUNT; i++) {
        const int place = (i * 7919) % COUNT;
        assert_ok(buffer_format(&bytes,
                                "%s\"layer.%d\":{\"dtype\":\"U8\",\"shape\":[1],"
                                "\"data_offsets\":[%d,%d]}",
                                i == 0 ? "" : ",", i, place, place + 1));
    }
    assert_ok(buffer_append_string(&bytes, "}"));
    const uint32_t length = (uint32_t)(bytes.size - 8);
    memcpy(bytes.bytes, &length, sizeof length);
    assert_ok(buffer_reserve(&bytes, COUNT));
    memset(bytes.bytes + bytes.size, 0, COUNT);
    OWNED(tensor_file) *opened = NULL;
    assert_ok(safetensors_open_bytes("x", bytes.bytes, bytes.size + COUNT, &opened));
    char name[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "layer.%d", i);
        const tensor_view *view = tensor_file_find(opened, name);
        assert_ptr_equal(view, &opened->tensors[(i * 7919) % COUNT]);
        assert_string_equal(view->name, name);
    }
}

TEST(test_released_pages_can_be_read_again)
{
    const char *path = support_shared_data("stories260k/model.safetensors");
    if (path == NULL) {
        print_message("test_released_pages_can_be_read_again needs stories260k\n");
        skip();
    }
    OPENED(tensor_file, opened, safetensors_open(path, &opened));
    assert_true(opened->count > 40);
    for (int64_t i = 0; i < opened->count; i++) {
        const tensor_view *view = &opened->tensors[i];
        const unsigned char before = ((const unsigned char *)view->data)[view->bytes / 2];
        tensor_file_release(opened, view);
        assert_int_equal(((const unsigned char *)view->data)[view->bytes / 2], before);
    }
}

static grail_status open_for_allocation_test(void *context)
{
    return open_image(context);
}

TEST(test_every_failing_allocation_is_reported)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"}," U8_AT(
        "a name of more than sixteen bytes", "1", "0", "1") "," U8_AT("b", "1,2", "1", "3") "}";
    image file = make_sized(header, sizeof header - 1, 3);
    support_fail_each_allocation(open_for_allocation_test, &file);
}

CMFixtureFunction support_setup = json_memory_use;
