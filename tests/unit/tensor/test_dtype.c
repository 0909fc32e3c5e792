/* Element types and the arithmetic of shapes. */
#include "support/support.h"

#include "tensor/tensor.h"

#include <string.h>

TEST(test_every_name_is_found_again)
{
    for (int i = 0; i < GRAIL_DTYPE_Q4_0; i++) {
        grail_dtype found = GRAIL_DTYPE_COUNT;
        assert_true(dtype_from_name(grail_dtype_name((grail_dtype)i), &found));
        assert_int_equal(found, i);
        assert_true(dtype_bits(found) >= 4 && dtype_bits(found) <= 64);
    }
}

TEST(test_safetensors_has_no_names_of_blocks)
{
    grail_dtype found = GRAIL_DTYPE_COUNT;
    for (int i = GRAIL_DTYPE_Q4_0; i < GRAIL_DTYPE_COUNT; i++) {
        assert_false(dtype_from_name(grail_dtype_name((grail_dtype)i), &found));
        assert_int_equal(dtype_bits((grail_dtype)i), 0);
        assert_true(dtype_is_readable((grail_dtype)i));
    }
}

TEST(test_blocks_are_complete)
{
    size_t bytes = 0;
    assert_int_equal(dtype_block(GRAIL_DTYPE_Q6_K), 256);
    assert_int_equal(dtype_block(GRAIL_DTYPE_F16), 1);
    assert_true(dtype_bytes(GRAIL_DTYPE_Q6_K, 512, &bytes));
    assert_int_equal(bytes, 420);
    assert_false(dtype_bytes(GRAIL_DTYPE_Q6_K, 128, &bytes));
    assert_false(dtype_bytes(GRAIL_DTYPE_Q8_0, INT64_MAX - 31, &bytes));
}

TEST(test_names_are_case_sensitive_and_whole)
{
    grail_dtype found = GRAIL_DTYPE_COUNT;
    assert_false(dtype_from_name("f32", &found));
    assert_false(dtype_from_name("F3", &found));
    assert_false(dtype_from_name("", &found));
    assert_int_equal(found, GRAIL_DTYPE_COUNT);
}

TEST(test_an_unknown_dtype_has_a_name_and_no_size)
{
    size_t bytes = 0;
    assert_non_null(grail_dtype_name(GRAIL_DTYPE_COUNT));
    assert_int_equal(dtype_bits(GRAIL_DTYPE_COUNT), 0);
    assert_false(dtype_bytes(GRAIL_DTYPE_COUNT, 1, &bytes));
}

TEST(test_weights_are_the_three_float_types)
{
    int weights = 0;
    for (int i = 0; i < GRAIL_DTYPE_COUNT; i++) {
        weights += dtype_is_weight((grail_dtype)i) ? 1 : 0;
    }
    assert_int_equal(weights, 3);
    assert_true(dtype_is_weight(GRAIL_DTYPE_F32));
    assert_true(dtype_is_weight(GRAIL_DTYPE_F16));
    assert_true(dtype_is_weight(GRAIL_DTYPE_BF16));
}

TEST(test_a_scalar_has_one_element)
{
    int64_t count = 0;
    assert_true(shape_elements(0, NULL, &count));
    assert_int_equal(count, 1);
}

TEST(test_shape_products_are_checked)
{
    int64_t count = -7;
    assert_true(shape_elements(3, (const int64_t[]){2, 3, 4}, &count));
    assert_int_equal(count, 24);
    assert_true(shape_elements(3, (const int64_t[]){0, INT64_MAX, INT64_MAX}, &count));
    assert_int_equal(count, 0);
    assert_false(shape_elements(3, (const int64_t[]){INT64_MAX, INT64_MAX, 0}, &count));
    assert_false(shape_elements(2, (const int64_t[]){2, -1}, &count));
    assert_false(shape_elements(2, (const int64_t[]){0, -1}, &count));
    assert_int_equal(count, 0);
}

TEST(test_bytes_are_checked)
{
    size_t bytes = 0;
    assert_true(dtype_bytes(GRAIL_DTYPE_F16, 3, &bytes));
    assert_int_equal(bytes, 6);
    assert_true(dtype_bytes(GRAIL_DTYPE_F4, 4, &bytes));
    assert_int_equal(bytes, 2);
    assert_false(dtype_bytes(GRAIL_DTYPE_F4, 3, &bytes));
    assert_false(dtype_bytes(GRAIL_DTYPE_F64, INT64_MAX, &bytes));
    assert_false(dtype_bytes(GRAIL_DTYPE_F32, -1, &bytes));
    assert_int_equal(bytes, 2);
}

TEST(test_shapes_print_within_their_buffer)
{
    char text[32];
    const int64_t shape[] = {2, 30, 4};
    assert_string_equal(shape_text(3, shape, text, sizeof text), "[2, 30, 4]");
    assert_string_equal(shape_text(0, NULL, text, sizeof text), "[]");
    for (size_t size = 1; size < 11; size++) {
        memset(text, '#', sizeof text);
        shape_text(3, shape, text, size);
        assert_int_equal(strlen(text), size - 1);
        assert_int_equal(text[size], '#');
    }
}
