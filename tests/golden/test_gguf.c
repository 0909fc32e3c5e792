/* A file of gguf-py: its keys, and its blocks against the values of gguf-py (make_gguf_golden.py).
 */
#include "support/support.h"

#include "format/gguf/gguf.h"
#include "tensor/blocks.h"

#include <stdio.h>
#include <string.h>

static tensor_file *open_golden(void)
{
    tensor_file *file = NULL;
    assert_ok(gguf_open(GRAIL_SOURCE_DIR "/tests/golden/gguf/blocks.gguf", &file));
    return file;
}

static void test_blocks_have_the_values_of_gguf_py(void **state)
{
    (void)state;
    static const char *const types[] = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0",
                                        "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
    enum { ROWS = 3, COLUMNS = 512 };
    static float values[ROWS * COLUMNS];
    tensor_file *file = open_golden();
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
    assert_int_equal(file->count, 2 * sizeof types / sizeof types[0] + 1);
    tensor_file_close(file);
}

static void values_are_quantised_as_by_gguf_py(void **state)
{
    (void)state;
    enum { BLOCKS = 3 * 512 / 32 };
    static unsigned char made[BLOCKS * 34];
    tensor_file *file = open_golden();
    f32_to_q8_0(tensor_file_find(file, "F32")->data, BLOCKS, made);
    assert_memory_equal(made, tensor_file_find(file, "made.Q8_0")->data, sizeof made);
    tensor_file_close(file);
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

static void test_numbers_of_every_type_are_read(void **state)
{
    (void)state;
    tensor_file *file = open_golden();
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
    tensor_file_close(file);
}

static void test_texts_and_arrays_are_read(void **state)
{
    (void)state;
    static const char *const expected[] = {"a", "", "Ġthe"};
    tensor_file *file = open_golden();
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
    tensor_file_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_have_the_values_of_gguf_py),
        cmocka_unit_test(values_are_quantised_as_by_gguf_py),
        cmocka_unit_test(test_numbers_of_every_type_are_read),
        cmocka_unit_test(test_texts_and_arrays_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
