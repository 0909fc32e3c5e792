/* A file of gguf-py: its keys, and its blocks against the values of gguf-py (make_gguf_golden.py).
 */
#include "support/support.h"

#include "format/gguf/gguf.h"
#include "tensor/quantize.h"

#include <stdio.h>
#include <string.h>

static tensor_file *open_golden(void)
{
    tensor_file *file = NULL;
    assert_ok(gguf_open(GRAIL_SOURCE_DIR "/tests/golden/gguf/blocks.gguf", &file));
    return file;
}

TEST(test_blocks_have_the_values_of_gguf_py)
{
    static const char *const types[] = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0",
                                        "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
    enum { ROWS = 3, COLUMNS = 512 };
    static float values[ROWS * COLUMNS];
    OWNED(tensor_file) *file = open_golden();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.values", types[i]);
        const tensor_view *stored = tensor_file_find(file, types[i]);
        const tensor_view *expected = tensor_file_find(file, name);
        assert_non_null(stored);
        assert_non_null(expected);
        assert_string_equal(grail_dtype_name(stored->dtype), types[i]);
        assert_int_equal(stored->rank, 2);
        assert_int_equal(stored->shape[0], ROWS);
        assert_int_equal(stored->shape[1], COLUMNS);
        assert_ok(convert_to_f32(stored->dtype, stored->data, ROWS * COLUMNS, values));
        assert_memory_equal(values, expected->data, sizeof values);
        assert_int_equal(find_non_finite_stored(stored->dtype, stored->data, ROWS * COLUMNS), -1);
    }
    assert_int_equal(file->count, 2 * sizeof types / sizeof types[0] + 11);
}

TEST(values_are_quantised_as_by_ggml)
{
    static const grail_dtype types[] = {GRAIL_DTYPE_Q4_0, GRAIL_DTYPE_Q5_0, GRAIL_DTYPE_Q8_0,
                                        GRAIL_DTYPE_Q4_K, GRAIL_DTYPE_Q6_K};
    static const char *const sources[] = {"F32", "special"};
    static const char *const results[] = {"made", "special"};
    static unsigned char made[12 * 512 * 34 / 32];
    OWNED(tensor_file) *file = open_golden();
    for (size_t i = 0; i < 2 * sizeof types / sizeof types[0]; i++) {
        char name[32];
        const grail_dtype type = types[i / 2];
        snprintf(name, sizeof name, "%s.%s", results[i % 2], grail_dtype_name(type));
        const tensor_view *source = tensor_file_find(file, sources[i % 2]);
        const tensor_view *expected = tensor_file_find(file, name);
        const int64_t elements = source->shape[0] * source->shape[1];
        assert_true(dtype_is_quantiser(type));
        assert_ok(blocks_from_f32(type, source->data, elements / dtype_block(type), made));
        assert_memory_equal(made, expected->data, expected->bytes);
    }
}

/* Codes that are taken out of blocks and put into others give the same values. */
TEST(blocks_are_made_of_single_codes)
{
    static const grail_dtype types[] = {GRAIL_DTYPE_Q4_0, GRAIL_DTYPE_Q5_0, GRAIL_DTYPE_Q8_0,
                                        GRAIL_DTYPE_Q4_K, GRAIL_DTYPE_Q6_K};
    OWNED(tensor_file) *file = open_golden();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        block_grid grid;
        float values[LARGEST_BLOCK];
        float again[LARGEST_BLOCK];
        unsigned char block[LARGEST_BLOCK];
        const tensor_view *stored = tensor_file_find(file, grail_dtype_name(types[i]));
        const size_t bytes = stored->bytes / (size_t)(3 * 512 / dtype_block(types[i]));
        const unsigned char *source = (const unsigned char *)stored->data + 5 * bytes;
        memcpy(block, source, bytes);
        blocks_to_f32(types[i], source, 1, values);
        block_read_grid(types[i], source, &grid);
        for (int j = 0; j < (int)dtype_block(types[i]); j++) {
            block_put(types[i], block, j, grid.most);
            block_put(types[i], block, j, block_nearest(&grid, j, values[j]));
        }
        blocks_to_f32(types[i], block, 1, again);
        assert_memory_equal(again, values, (size_t)dtype_block(types[i]) * sizeof values[0]);
    }
}

/* A factor of a block is an F16. */
/* 1 / d would be infinite, and the code of a zero beside it no number. */
TEST(values_whose_factor_has_no_inverse_are_zeros)
{
    static const grail_dtype types[] = {GRAIL_DTYPE_Q4_0, GRAIL_DTYPE_Q5_0, GRAIL_DTYPE_Q8_0,
                                        GRAIL_DTYPE_Q4_K, GRAIL_DTYPE_Q6_K, GRAIL_DTYPE_W4_G32};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        unsigned char block[512] = {0};
        float values[256] = {0};
        const int64_t elements = dtype_block(types[t]);
        for (int64_t i = 1; i < elements; i += 2) {
            values[i] = i % 4 == 1 ? 1e-40F : -3e-44F;
        }
        assert_ok(blocks_from_f32(types[t], values, 1, block));
        blocks_to_f32(types[t], block, 1, values);
        for (int64_t i = 0; i < elements; i++) {
            assert_near((double)values[i], 0.0, 0.0);
        }
    }
}

TEST(values_beyond_the_factors_are_refused)
{
    static const grail_dtype types[] = {GRAIL_DTYPE_Q4_0, GRAIL_DTYPE_Q5_0, GRAIL_DTYPE_Q8_0,
                                        GRAIL_DTYPE_Q4_K, GRAIL_DTYPE_Q6_K};
    static float values[2 * 256];
    unsigned char made[2 * 256 * 2];
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char index[64];
        const int64_t block = dtype_block(types[i]);
        memset(values, 0, sizeof values);
        values[block + 7] = 3e38F;
        values[block + 9] = -3e38F;
        snprintf(index, sizeof index, "the values from index %d on are too large for %s",
                 (int)block, grail_dtype_name(types[i]));
        assert_fails(blocks_from_f32(types[i], values, 2, made), GRAIL_ERROR_NUMERIC, index);
    }
}

static void expect_integer(const gguf_metadata *m, const char *key, int64_t expected)
{
    int64_t found = 7;
    double real = 7;
    assert_ok(gguf_get_integer(m, key, 0, &found));
    assert_true(found == expected);
    assert_ok(gguf_get_real(m, key, 0, &real));
    assert_true(real == (double)expected);
}

TEST(test_numbers_of_every_type_are_read)
{
    OWNED(tensor_file) *file = open_golden();
    const gguf_metadata *m = gguf_metadata_of(file);
    double real = 0;
    bool flag = false;
    assert_int_equal(m->alignment, 64);
    expect_integer(m, "test.u8", 255);
    expect_integer(m, "test.i8", -128);
    expect_integer(m, "test.u16", 65535);
    expect_integer(m, "test.i16", -32768);
    expect_integer(m, "test.u32", 4294967295);
    expect_integer(m, "test.i32", -2147483647 - 1);
    expect_integer(m, "test.u64", INT64_MAX);
    expect_integer(m, "test.i64", INT64_MIN);
    assert_ok(gguf_get_real(m, "test.f32", 0, &real));
    assert_true(real == (double)0.1F);
    assert_ok(gguf_get_real(m, "test.f64", 0, &real));
    assert_true(real == 0.1);
    assert_ok(gguf_get_boolean(m, "test.yes", false, &flag));
    assert_true(flag);
    assert_ok(gguf_get_boolean(m, "test.no", true, &flag));
    assert_false(flag);
}

TEST(test_texts_and_arrays_are_read)
{
    static const char *const expected[] = {"a", "", "Ġthe"};
    OWNED(tensor_file) *file = open_golden();
    const gguf_metadata *m = gguf_metadata_of(file);
    char *text = NULL;
    const char *bytes = NULL;
    size_t size = 0;
    int64_t integer = 0;
    double real = 0;
    assert_ok(gguf_get_text(m, "test.text", &text));
    assert_string_equal(text, "Zürich");
    memory_free(text);
    assert_ok(gguf_get_text(m, "test.absent", &text));
    assert_null(text);
    gguf_walk walk = {.value = gguf_find(m, "test.texts")};
    for (size_t i = 0; i < 3; i++) {
        assert_true(gguf_walk_next(&walk, &bytes, &size));
        assert_int_equal(size, strlen(expected[i]));
        assert_memory_equal(bytes, expected[i], size);
    }
    assert_false(gguf_walk_next(&walk, &bytes, &size));
    assert_int_equal(gguf_find(m, "test.integers")->count, 3);
    assert_ok(gguf_integer_at(gguf_find(m, "test.integers"), 1, &integer));
    assert_int_equal(integer, -2);
    assert_ok(gguf_real_at(gguf_find(m, "test.reals"), 1, &real));
    assert_true(real == -1.5);
}
