/* Weights of bf16 in the order of an instance, and products with them. */
#include "conformance/conformance.h"

static const int64_t shapes[][3] = {/* rows, in, out */
                                    {0, 3, 4},      {3, 0, 5},     {3, 5, 0},      {1, 1, 1},
                                    {1, 7, 5},      {3, 64, 1},    {17, 31, 13},   {129, 257, 67},
                                    {1, 33, 2100},  {2100, 5, 37}, {300, 16, 700}, {64, 48, 48},
                                    {5, 4096, 130}, {40, 130, 64}, {40, 64, 3300}};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static backend *open_bf16(void)
{
    backend *b = NULL;
    const grail_status status = backend_open("cpu", &(backend_options){.precision = "bf16"}, &b);
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        print_message("skipped: %s\n", grail_error_message());
        skip();
    }
    assert_ok(status);
    return b;
}

/* Normals that bf16 holds. */
static float *rounded_normals(const backend *b, int64_t count, uint64_t seed)
{
    float *values = normals(count, seed, 1.0);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)as_operand(b, values[i]);
    }
    return values;
}

static matrix ordered_of(backend *b, int64_t rows, int64_t columns, const float *values)
{
    matrix m = {0};
    assert_ok(matrix_new(b, GRAIL_DTYPE_BF16, rows, columns, &m));
    assert_true(matrix_is_ordered(m));
    assert_ok(matrix_upload_f32(m, values));
    return m;
}

TEST(a_weight_comes_back_as_it_was)
{
    OWNED(backend) *b = open_bf16();
    for (int i = 0; i < SHAPES; i++) {
        const int64_t in = shapes[i][1];
        const int64_t out = shapes[i][2];
        float *values = rounded_normals(b, out * in, 1);
        float *back = normals(out * in, 2, 1.0);
        matrix weight = ordered_of(b, out, in, values);
        assert_ok(matrix_download_f32(weight, back));
        assert_memory_equal(back, values, (size_t)(out * in) * sizeof values[0]);
        matrix copy = blank_values(b, out, in);
        assert_ok(matrix_copy(weight, copy));
        assert_ok(matrix_download_f32(copy, back));
        assert_memory_equal(back, values, (size_t)(out * in) * sizeof values[0]);
        free_blocks(values, back);
        free_matrices(&weight, &copy);
    }
}

TEST(a_weight_takes_half_the_memory_of_values)
{
    enum { OUT = 1024, IN = 768 };
    OWNED(backend) *b = open_bf16();
    matrix weight = {0};
    assert_int_equal(backend_weight_type(b), GRAIL_DTYPE_BF16);
    assert_int_equal(backend_weight_type(backend_host()), GRAIL_DTYPE_F32);
    assert_int_equal(backend_weight_type(backend_reference()), GRAIL_DTYPE_F64);
    assert_ok(matrix_new(b, GRAIL_DTYPE_BF16, OUT, IN, &weight));
    assert_int_equal(backend_bytes(b), 2 * OUT * IN);
    matrix_free(&weight);
    assert_int_equal(backend_bytes(b), 0);
}

/* The same bits from both, since products round a weight of values to the same bf16. */
TEST(a_product_is_that_with_the_same_values)
{
    OWNED(backend) *b = open_bf16();
    for (int i = 0; i < SHAPES; i++) {
        const int64_t rows = shapes[i][0];
        const int64_t in = shapes[i][1];
        const int64_t out = shapes[i][2];
        float *x = normals(rows * in, 1, 1.0);
        float *w = normals(out * in, 2, 1.0);
        float *bias = normals(out, 3, 1.0);
        matrix bx = values_of(b, rows, in, x);
        matrix values = values_of(b, out, in, w);
        matrix ordered = ordered_of(b, out, in, w);
        matrix bb = values_of(b, 1, out, bias);
        matrix y = blank_values(b, rows, out);
        matrix z = blank_values(b, rows, out);
        assert_ok(matrix_linear(bx, values, i % 2 == 0 ? bb : no_matrix, y));
        assert_ok(matrix_linear(bx, ordered, i % 2 == 0 ? bb : no_matrix, z));
        double *expected = results_of(y);
        double *actual = results_of(z);
        assert_memory_equal(actual, expected, (size_t)(rows * out) * sizeof actual[0]);
        free_blocks(x, w, bias, expected, actual);
        free_matrices(&bx, &values, &ordered, &bb, &y, &z);
    }
}

/* So are gradients of what is multiplied, in parts of the sum where that is long. */
TEST(a_product_with_a_weight_on_the_right_is_that_with_the_same_values)
{
    OWNED(backend) *b = open_bf16();
    for (int i = 0; i < SHAPES; i++) {
        const int64_t rows = shapes[i][0];
        const int64_t in = shapes[i][1];
        const int64_t out = shapes[i][2];
        float *dy = normals(rows * out, 1, 1.0);
        float *w = normals(out * in, 2, 1.0);
        matrix bdy = values_of(b, rows, out, dy);
        matrix values = values_of(b, out, in, w);
        matrix ordered = ordered_of(b, out, in, w);
        matrix dx = blank_values(b, rows, in);
        matrix of_ordered = blank_values(b, rows, in);
        assert_ok(matrix_product(false, false, bdy, values, 0.0, dx));
        assert_ok(matrix_product(false, false, bdy, ordered, 0.0, of_ordered));
        double *expected = results_of(dx);
        double *actual = results_of(of_ordered);
        assert_memory_equal(actual, expected, (size_t)(rows * in) * sizeof actual[0]);
        free_blocks(dy, w, expected, actual);
        free_matrices(&bdy, &values, &ordered, &dx, &of_ordered);
    }
}

TEST(products_say_what_bf16_cannot_hold)
{
    OWNED(backend) *b = open_bf16();
    const float large[] = {1.0F, 3.4e38F};
    const float odd[] = {NAN, INFINITY};
    matrix x = values_of(b, 1, 2, large);
    matrix y = blank_values(b, 1, 1);
    assert_fails(matrix_linear(x, x, no_matrix, y), GRAIL_ERROR_NUMERIC,
                 "beyond the range of BF16");
    matrix_free(&x);
    x = values_of(b, 1, 2, odd);
    assert_ok(matrix_linear(x, x, no_matrix, y));
    double *result = results_of(y);
    assert_true(isnan(result[0]));
    memory_free(result);
    free_matrices(&x, &y);
}

TEST(weights_are_read_by_products_alone)
{
    OWNED(backend) *b = open_bf16();
    float *values = rounded_normals(b, 12, 1);
    matrix weight = ordered_of(b, 3, 4, values);
    matrix y = blank_values(b, 3, 4);
    assert_fails(matrix_add(weight, y, y), GRAIL_ERROR_INTERNAL, "operation 'add': its matrix 0");
    assert_fails(matrix_gather(NULL, NULL, weight, y), GRAIL_ERROR_INTERNAL, "operation 'gather'");
    matrix none = {0};
    assert_fails(matrix_new(backend_host(), GRAIL_DTYPE_BF16, 3, 4, &none), GRAIL_ERROR_INTERNAL,
                 "the backend 'cpu' holds no weights of BF16 in f32");
    memory_free(values);
    free_matrices(&weight, &y);
}

static grail_status use_a_weight(void *context)
{
    backend *b = context;
    enum { SIZE = 40 };
    static const float values[SIZE * SIZE] = {1.0F};
    OWNED(matrix) weight = {0};
    OWNED(matrix) x = {0};
    OWNED(matrix) y = {0};
    CHECK(matrix_new(b, GRAIL_DTYPE_BF16, SIZE, SIZE, &weight));
    CHECK(matrix_upload_f32(weight, values));
    CHECK(matrix_new_zero(b, GRAIL_DTYPE_F32, SIZE, SIZE, &x));
    CHECK(matrix_new(b, GRAIL_DTYPE_F32, SIZE, SIZE, &y));
    CHECK(matrix_linear(x, weight, no_matrix, y));
    CHECK(matrix_linear(x, x, no_matrix, y));
    CHECK(matrix_product(false, false, x, weight, 0.0, y));
    CHECK(matrix_product(true, false, x, x, 1.0, y));
    return matrix_copy(weight, x);
}

TEST(failing_allocations_are_survived)
{
    OWNED(backend) *b = open_bf16();
    const int64_t before = memory_in_use();
    support_fail_each_allocation(use_a_weight, b);
    assert_int_equal(memory_in_use(), before);
    assert_int_equal(backend_bytes(b), 0);
}
