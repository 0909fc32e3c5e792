/* Reading GGUF files: what is read, and every refusal. tests/golden/test_gguf.c reads a file of
 * another program. */
#include "support/support.h"

#include "base/bytes.h"
#include "format/gguf/gguf.h"

#include <string.h>

enum { ROOM = 1 << 10 };

typedef struct image {
    unsigned char bytes[ROOM];
    size_t size;
} image;

/* What a file claims. Zeros stand for what a sound file has. */
typedef struct claims {
    const char *magic;
    uint64_t version, tensors, keys; /* UINT64_MAX: 0 */
    const char *key, *second_key;
    uint64_t key_length, value_type, alignment;
    const char *name;
    uint64_t rank, rows, columns, type, offset; /* of the second tensor */
    size_t cut;                                 /* bytes missing at the end */
} claims;

static uint64_t or (uint64_t claim, uint64_t sound)
{
    return claim == 0 ? sound : claim == UINT64_MAX ? 0 : claim;
}

static void put(image *file, size_t width, uint64_t value)
{
    assert_true(file->size + width <= ROOM);
    store_little(file->bytes + file->size, width, value);
    file->size += width;
}

static void put_bytes(image *file, const void *bytes, size_t size)
{
    assert_true(file->size + size <= ROOM);
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
}

static void put_text(image *file, const char *text)
{
    put(file, 8, strlen(text));
    put_bytes(file, text, strlen(text));
}

static void put_tensor(image *file, const char *name, uint64_t rows, uint64_t columns,
                       uint64_t type, uint64_t offset)
{
    put_text(file, name);
    put(file, 4, 2);
    put(file, 8, columns);
    put(file, 8, rows);
    put(file, 4, type);
    put(file, 8, offset);
}

/* Two keys, and tensors "a" F32 [2, 3] and "b" Q8_0 [1, 32]. */
static image make(const claims *c)
{
    image file = {.size = 0};
    const char *key = c->key == NULL ? "general.alignment" : c->key;
    put_bytes(&file, c->magic == NULL ? "GGUF" : c->magic, 4);
    put(&file, 4, or (c->version, 3));
    put(&file, 8, or (c->tensors, 2));
    put(&file, 8, or (c->keys, 2));
    put(&file, 8, or (c->key_length, strlen(key)));
    put_bytes(&file, key, strlen(key));
    put(&file, 4, or (c->value_type, GGUF_U32));
    put(&file, 4, or (c->alignment, 32));
    put_text(&file, c->second_key == NULL ? "second" : c->second_key);
    put(&file, 4, GGUF_TEXT);
    put_text(&file, "its value");
    put_tensor(&file, "a", 2, 3, 0, 0);
    const size_t begin = file.size;
    put_tensor(&file, c->name == NULL ? "b" : c->name, or (c->rows, 1), or (c->columns, 32),
               or (c->type, 8), or (c->offset, 32));
    store_little(file.bytes + begin + 8 + strlen(c->name == NULL ? "b" : c->name), 4,
                 or (c->rank, 2));
    file.size += file.size % 32 == 0 ? 0 : 32 - file.size % 32;
    for (int i = 0; i < 32 + 34; i++) {
        put(&file, 1, (uint64_t)i);
    }
    file.size -= c->cut;
    return file;
}

static grail_status open_image(const image *file)
{
    OWNED(tensor_file) *opened = NULL;
    const grail_status status = gguf_open_bytes("x.gguf", file->bytes, file->size, &opened);
    assert_true((status == GRAIL_OK) == (opened != NULL));
    return status;
}

TEST(test_tensors_lie_where_the_file_says)
{
    for (uint64_t version = 2; version <= 3; version++) {
        const image file = make(&(claims){.version = version});
        OPENED(tensor_file, opened, gguf_open_bytes("x", file.bytes, file.size, &opened));
        assert_int_equal(opened->count, 2);
        const tensor_view *a = tensor_file_find(opened, "a");
        const tensor_view *b = tensor_file_find(opened, "b");
        assert_int_equal(a->dtype, GRAIL_DTYPE_F32);
        assert_int_equal(a->shape[0], 2); /* the innermost dimension is stored first */
        assert_int_equal(a->shape[1], 3);
        assert_int_equal(a->bytes, 24);
        assert_int_equal(((const unsigned char *)a->data)[1], 1);
        assert_int_equal(b->dtype, GRAIL_DTYPE_Q8_0);
        assert_int_equal(b->bytes, 34);
        assert_int_equal(((const unsigned char *)b->data)[0], 32);
    }
}

TEST(test_a_value_of_another_type_is_refused)
{
    const image file = make(&(claims){0});
    int64_t integer = 0;
    double real = 0;
    bool flag = false;
    char *text = NULL;
    OPENED(tensor_file, opened, gguf_open_bytes("x", file.bytes, file.size, &opened));
    const gguf_metadata *m = gguf_metadata_of(opened);
    assert_fails(gguf_get_integer(m, "second", 0, &integer), GRAIL_ERROR_FORMAT,
                 "key 'second' is text, expected an integer");
    assert_fails(gguf_get_real(m, "second", 0, &real), GRAIL_ERROR_FORMAT, "expected a number");
    assert_fails(gguf_get_boolean(m, "second", true, &flag), GRAIL_ERROR_FORMAT,
                 "expected a boolean");
    assert_fails(gguf_get_text(m, "general.alignment", &text), GRAIL_ERROR_FORMAT,
                 "key 'general.alignment' is u32, expected a text");
}

typedef struct refusal {
    claims claims;
    grail_status status;
    const char *text;
} refusal;

static const refusal refusals[] = {
    {{.magic = "GGML"}, GRAIL_ERROR_FORMAT, "x.gguf: does not begin with \"GGUF\""},
    {{.magic = "\0\0\0\0"}, GRAIL_ERROR_FORMAT, "is unfinished"},
    {{.version = 1}, GRAIL_ERROR_UNSUPPORTED, "of version 1; grail reads versions 2 and 3"},
    {{.version = 4}, GRAIL_ERROR_UNSUPPORTED, "of version 4"},
    {{.version = UINT64_MAX}, GRAIL_ERROR_UNSUPPORTED, "of version 0"},
    {{.version = 3U << 24}, GRAIL_ERROR_UNSUPPORTED, "big-endian machine"},
    {{.keys = 1U << 30}, GRAIL_ERROR_FORMAT, "claims 1073741824 keys"},
    {{.keys = UINT64_MAX - 1}, GRAIL_ERROR_FORMAT, "claims 18446744073709551614 keys"},
    {{.keys = 40}, GRAIL_ERROR_FORMAT, "claims 40 keys"},
    {{.keys = 3}, GRAIL_ERROR_FORMAT, "truncated?"},
    {{.tensors = UINT64_MAX - 1}, GRAIL_ERROR_FORMAT, "claims 18446744073709551614 tensors"},
    {{.tensors = 20}, GRAIL_ERROR_FORMAT, "claims 20 tensors"},
    {{.key_length = UINT64_MAX - 1}, GRAIL_ERROR_FORMAT, "truncated?"},
    {{.key_length = UINT64_MAX}, GRAIL_ERROR_FORMAT, "a key before byte 32 has 0 bytes"},
    {{.key = "general.\xff"
             "lignment"},
     GRAIL_ERROR_FORMAT,
     "a NUL byte, or is no UTF-8"},
    {{.second_key = "general.alignment"},
     GRAIL_ERROR_FORMAT,
     "key 'general.alignment' occurs twice"},
    {{.value_type = 13}, GRAIL_ERROR_FORMAT, "key 'general.alignment': its type 13 is unknown"},
    {{.value_type = GGUF_I32}, GRAIL_ERROR_FORMAT, "'general.alignment' is not of type u32"},
    {{.value_type = GGUF_BOOL}, GRAIL_ERROR_FORMAT, "its boolean is stored as 32, expected 0 or 1"},
    {{.value_type = GGUF_TEXT}, GRAIL_ERROR_FORMAT, "truncated?"},
    {{.value_type = GGUF_ARRAY, .alignment = GGUF_ARRAY},
     GRAIL_ERROR_UNSUPPORTED,
     "array of arrays"},
    {{.value_type = GGUF_ARRAY, .alignment = 99}, GRAIL_ERROR_FORMAT, "its type 99 is unknown"},
    {{.alignment = UINT64_MAX}, GRAIL_ERROR_FORMAT, "'general.alignment' is 0, expected a power"},
    {{.alignment = 24}, GRAIL_ERROR_FORMAT, "'general.alignment' is 24, expected a power"},
    {{.name = ""}, GRAIL_ERROR_FORMAT, "the name of a tensor before byte"},
    {{.name = "a"}, GRAIL_ERROR_FORMAT, "tensor 'a' occurs twice"},
    {{.rank = 5}, GRAIL_ERROR_FORMAT, "tensor 'b': has 5 dimensions, more than the allowed 4"},
    {{.rows = UINT64_MAX - 1}, GRAIL_ERROR_FORMAT, "dimension 0 is 18446744073709551614"},
    {{.rows = INT64_MAX}, GRAIL_ERROR_FORMAT, "take 2^61 bytes or more"},
    {{.columns = 33}, GRAIL_ERROR_FORMAT, "[1, 33] elements of Q8_0 do not fill its blocks of 32"},
    {{.type = 4}, GRAIL_ERROR_FORMAT, "its type 4 is unknown"},
    {{.type = 1000}, GRAIL_ERROR_FORMAT, "its type 1000 is unknown"},
    {{.type = 23}, GRAIL_ERROR_UNSUPPORTED, "has type IQ4_XS, which grail does not read"},
    {{.offset = 64}, GRAIL_ERROR_FORMAT, "lies at byte 64 of the data, expected 32"},
    {{.offset = UINT64_MAX}, GRAIL_ERROR_FORMAT, "lies at byte 0 of the data, expected 32"},
    {{.offset = 33}, GRAIL_ERROR_FORMAT, "expected 32: behind the one before it"},
    {{.cut = 1}, GRAIL_ERROR_FORMAT, "tensor 'b' ends at byte 66 of the data, but the data has 65"},
    {{.rows = 1U << 20}, GRAIL_ERROR_FORMAT, "truncated?"},
};

TEST(test_what_the_rules_forbid_is_refused)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const image file = make(&refusals[i].claims);
        assert_fails(open_image(&file), refusals[i].status, refusals[i].text);
        assert_non_null(strpbrk(grail_error_message(), ";?"));
        assert_true(refusals[i].status != GRAIL_ERROR_FORMAT ||
                    strstr(grail_error_message(), "; the file is damaged or incomplete") != NULL);
    }
}

TEST(test_a_file_cut_anywhere_is_refused)
{
    const image whole = make(&(claims){0});
    assert_ok(open_image(&whole));
    for (size_t size = 0; size < whole.size; size++) {
        image file = whole;
        file.size = size;
        memset(file.bytes + size, 0xaa, ROOM - size);
        assert_fails(open_image(&file), GRAIL_ERROR_FORMAT, "x.gguf: ");
    }
}

/* 2^61 + 1 numbers of 8 bytes would take 8 bytes, modulo 2^64. */
TEST(test_lengths_of_arrays_are_checked)
{
    static const uint64_t counts[] = {(UINT64_C(1) << 61) + 1, UINT64_MAX, 1000};
    enum { COUNT_AT = 24 + 8 + 17 + 4 + 4 }; /* behind the key, its type and that of the elements */
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        image file = make(&(claims){.value_type = GGUF_ARRAY, .alignment = GGUF_U64});
        store_little(file.bytes + COUNT_AT, 8, counts[i]);
        assert_fails(open_image(&file), GRAIL_ERROR_FORMAT, "the value at byte 65 takes");
        store_little(file.bytes + COUNT_AT - 4, 4, GGUF_TEXT);
        assert_fails(open_image(&file), GRAIL_ERROR_FORMAT, "truncated?");
    }
}

TEST(test_a_part_of_a_network_is_refused)
{
    image file = make(&(claims){.key = "split.count", .alignment = 3});
    assert_fails(open_image(&file), GRAIL_ERROR_UNSUPPORTED,
                 "is one of 3 files of a network; join them with gguf-split --merge");
}

static grail_status open_for_allocation_test(void *context)
{
    return open_image(context);
}

TEST(test_every_failing_allocation_is_reported)
{
    image file = make(&(claims){0});
    support_fail_each_allocation(open_for_allocation_test, &file);
}
