/* Element types and the arithmetic of shapes. */
#include "support/support.h"

#include "tensor/tensor.h"

#include <string.h>

static void test_every_name_is_found_again(void **state)
{
    (void)state;
    for (int i = 0; i < GRAIL_DTYPE_Q4_0; i++) {
        grail_dtype found = GRAIL_DTYPE_COUNT;
        assert_true(dtype_from_name(grail_dtype_name((grail_dtype)i), &found));
        assert_int_equal(found, i);
        assert_true(dtype_bits(found) >= 4 && dtype_bits(found) <= 64);
    }
}

static void test_safetensors_has_no_names_of_blocks(void **state)
{
    (void)state;
    grail_dtype found = GRAIL_DTYPE_COUNT;
    for (int i = GRAIL_DTYPE_Q4_0; i < GRAIL_DTYPE_COUNT; i++) {
        assert_false(dtype_from_name(grail_dtype_name((grail_dtype)i), &found));
        assert_int_equal(dtype_bits((grail_dtype)i), 0);
        assert_true(dtype_is_readable((grail_dtype)i));
    }
}

static void test_blocks_are_complete(void **state)
{
    (void)state;
    size_t bytes = 0;
    assert_int_equal(dtype_block(GRAIL_DTYPE_Q6_K), 256);
    assert_int_equal(dtype_block(GRAIL_DTYPE_F16), 1);
    assert_true(dtype_bytes(GRAIL_DTYPE_Q6_K, 512, &bytes));
    assert_int_equal(bytes, 420);
    assert_false(dtype_bytes(GRAIL_DTYPE_Q6_K, 128, &bytes));
    assert_false(dtype_bytes(GRAIL_DTYPE_Q8_0, INT64_MAX - 31, &bytes));
}

static void test_names_are_case_sensitive_and_whole(void **state)
{
    (void)state;
    grail_dtype found = GRAIL_DTYPE_COUNT;
    assert_false(dtype_from_name("f32", &found));
    assert_false(dtype_from_name("F3", &found));
    assert_false(dtype_from_name("", &found));
    assert_int_equal(found, GRAIL_DTYPE_COUNT);
}

static void test_an_unknown_dtype_has_a_name_and_no_size(void **state)
{
    (void)state;
    size_t bytes = 0;
    assert_non_null(grail_dtype_name(GRAIL_DTYPE_COUNT));
    assert_int_equal(dtype_bits(GRAIL_DTYPE_COUNT), 0);
    assert_false(dtype_bytes(GRAIL_DTYPE_COUNT, 1, &bytes));
}

static void test_weights_are_the_three_float_types(void **state)
{
    (void)state;
    int weights = 0;
    for (int i = 0; i < GRAIL_DTYPE_COUNT; i++) {
        weights += dtype_is_weight((grail_dtype)i) ? 1 : 0;
    }
    assert_int_equal(weights, 3);
    assert_true(dtype_is_weight(GRAIL_DTYPE_F32));
    assert_true(dtype_is_weight(GRAIL_DTYPE_F16));
    assert_true(dtype_is_weight(GRAIL_DTYPE_BF16));
}

static void test_a_scalar_has_one_element(void **state)
{
    (void)state;
    int64_t count = 0;
    assert_true(shape_elements(0, NULL, &count));
    assert_int_equal(count, 1);
}

static void test_shape_products_are_checked(void **state)
{
    (void)state;
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

static void test_bytes_are_checked(void **state)
{
    (void)state;
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

static void test_shapes_print_within_their_buffer(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name_is_found_again),
        cmocka_unit_test(test_safetensors_has_no_names_of_blocks),
        cmocka_unit_test(test_blocks_are_complete),
        cmocka_unit_test(test_names_are_case_sensitive_and_whole),
        cmocka_unit_test(test_an_unknown_dtype_has_a_name_and_no_size),
        cmocka_unit_test(test_weights_are_the_three_float_types),
        cmocka_unit_test(test_a_scalar_has_one_element),
        cmocka_unit_test(test_shape_products_are_checked),
        cmocka_unit_test(test_bytes_are_checked),
        cmocka_unit_test(test_shapes_print_within_their_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
