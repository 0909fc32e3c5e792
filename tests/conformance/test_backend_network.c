/* Conversion, linear, norm, rotary embedding, activations, arithmetic, cross entropy. */
#include "conformance/conformance.h"

#include <string.h>

static void test_conversion_is_exact_both_ways(void **state)
{
    (void)state;
    const float values[] = {0.0F, -0.0F, 1.0F, -3.25F, 1e-40F, 3.4e38F, INFINITY, 0.1F};
    enum { COUNT = sizeof values / sizeof values[0] };
    FOR_EACH_BACKEND(b)
    {
        void *x = elements(b, COUNT, values);
        float back[COUNT];
        b->to_f32(COUNT, x, back);
        assert_memory_equal(back, values, sizeof values);
        b->to_f32(0, x, back);
        memory_free(x);
    }
}

/* expected = X W^T + bias and scale = |X| |W|^T + |bias|, the size that rounding errors have. */
static void naive_linear(int64_t rows, int64_t in, int64_t out, const float *x, const float *w,
                         const float *bias, double *expected, double *scale)
{
    for (int64_t i = 0; i < rows * out; i++) {
        const float *row = x + i / out * in;
        const float *weight = w + i % out * in;
        expected[i] = bias == NULL ? 0.0 : (double)bias[i % out];
        scale[i] = fabs(expected[i]);
        for (int64_t p = 0; p < in; p++) {
            expected[i] += (double)row[p] * (double)weight[p];
            scale[i] += fabs((double)row[p] * (double)weight[p]);
        }
    }
}

static void check_linear(const backend *b, int64_t rows, int64_t in, int64_t out, bool has_bias)
{
    float *x = normals(rows * in, 1, 1.0);
    float *w = normals(out * in, 2, 1.0);
    float *bias = normals(out, 3, 1.0);
    double *expected = doubles(rows * out, 0.0);
    double *scale = doubles(rows * out, 0.0);
    naive_linear(rows, in, out, x, w, has_bias ? bias : NULL, expected, scale);
    void *bx = elements(b, rows * in, x);
    void *bw = elements(b, out * in, w);
    void *bbias = elements(b, out, bias);
    void *by = blank(b, rows * out);
    b->linear(rows, in, out, bx, bw, has_bias ? bbias : NULL, by);
    double *y = results(b, rows * out, by);
    assert_all_near(b, "linear", rows * out, y, expected, scale, 32.0 * rounding(b));
    void *const owned[] = {x, w, bias, expected, scale, bx, bw, bbias, by, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_linear_matches_its_formula_in_every_shape(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {0, 3, 4},    {3, 4, 0},      {2, 0, 3},     {1, 1, 1},      {1, 7, 5},     {3, 64, 1},
        {17, 31, 13}, {129, 257, 67}, {1, 33, 2100}, {1100, 5, 131}, {300, 16, 700}};
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            check_linear(b, shapes[i][0], shapes[i][1], shapes[i][2], false);
            check_linear(b, shapes[i][0], shapes[i][1], shapes[i][2], true);
        }
    }
}

static void check_rms_norm(const backend *b, int64_t rows, int64_t width, int64_t group,
                           double epsilon, bool in_place)
{
    float *x = normals(rows * width, 4, 2.0);
    float *w = normals(group, 5, 1.0);
    double *expected = doubles(rows * width, 0.0);
    for (int64_t i = 0; i < rows * width; i++) {
        const float *start = x + i / group * group;
        double squares = 0.0;
        for (int64_t p = 0; p < group; p++) {
            squares += (double)start[p] * (double)start[p];
        }
        expected[i] = (double)w[i % group] * (double)x[i] / sqrt(squares / (double)group + epsilon);
    }
    void *bw = elements(b, group, w);
    void *bx = elements(b, rows * width, x);
    void *by = blank(b, rows * width);
    if (in_place) {
        memcpy(by, bx, (size_t)(rows * width) * b->element_size);
    }
    b->rms_norm(rows, width, group, epsilon, in_place ? by : bx, bw, by);
    double *y = results(b, rows * width, by);
    assert_all_near(b, "rms_norm", rows * width, y, expected, NULL, 64.0 * rounding(b));
    void *const owned[] = {x, w, expected, bw, bx, by, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_rms_norm_scales_groups_by_their_root_mean_square(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        check_rms_norm(b, 0, 8, 8, 1e-5, false);
        check_rms_norm(b, 1, 1, 1, 1e-5, false);
        check_rms_norm(b, 7, 37, 37, 1e-5, false);
        check_rms_norm(b, 3, 36, 12, 0.5, false);
        check_rms_norm(b, 211, 515, 103, 1e-6, true);
        check_rms_norm(b, 5, 4096, 4096, 1e-6, true);
    }
}

static void check_rope(const backend *b, int64_t sequences, int64_t length, int64_t heads,
                       int64_t head_dim, double base)
{
    const int64_t half = head_dim / 2;
    const int64_t count = sequences * length * heads * head_dim;
    float *x = normals(count, 6, 1.0);
    double *frequency = doubles(half, 0.0);
    double *expected = doubles(count, 0.0);
    for (int64_t k = 0; k < half; k++) {
        frequency[k] = pow(base, -(double)k / (double)half);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t d = i % head_dim;
        const double angle =
            (double)(i / (heads * head_dim) % length) * frequency[d < half ? d : d - half];
        expected[i] = d < half ? (double)x[i] * cos(angle) - (double)x[i + half] * sin(angle)
                               : (double)x[i] * cos(angle) + (double)x[i - half] * sin(angle);
    }
    void *bx = blank(b, count);
    void *input = elements(b, count, x);
    memcpy(bx, input, (size_t)count * b->element_size);
    b->rope(sequences, length, heads, head_dim, frequency, bx);
    double *y = results(b, count, bx);
    assert_all_near(b, "rope", count, y, expected, NULL, 32.0 * rounding(b));
    void *const owned[] = {x, frequency, expected, bx, input, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_rope_rotates_pairs_by_position_within_each_sequence(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        check_rope(b, 0, 5, 2, 4, 1e4);
        check_rope(b, 1, 1, 1, 2, 1e4);
        check_rope(b, 3, 37, 3, 10, 1e4);
        check_rope(b, 2, 9, 2, 258, 1e4);
        check_rope(b, 1, 9001, 1, 6, 10.0); /* large angles: fails when formed in f32 */
    }
}

static double naive_activation(activation_kind kind, double x)
{
    switch (kind) {
    case ACTIVATION_SILU:
        return x / (1.0 + exp(-x));
    case ACTIVATION_GELU:
        return x * 0.5 * erfc(-x / sqrt(2.0));
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_RELU:
        return fmax(x, 0.0);
    case ACTIVATION_QUICK_GELU:
        return x / (1.0 + exp(-1.702 * x));
    }
    return NAN;
}

static void check_activation(const backend *b, activation_kind kind, bool in_place)
{
    enum { COUNT = 70001, SPECIAL = 7 };
    static const float special[SPECIAL] = {0.0F, 1e-20F, -1e-20F, 50.0F, -50.0F, 1e4F, -1e4F};
    float *x = normals(COUNT, 7, 3.0);
    memcpy(x, special, sizeof special);
    double *expected = doubles(COUNT, 0.0);
    double *scale = doubles(COUNT, 0.0);
    for (int64_t i = 0; i < COUNT; i++) {
        expected[i] = naive_activation(kind, (double)x[i]);
        scale[i] = fabs((double)x[i]);
    }
    void *bx = elements(b, COUNT, x);
    void *by = blank(b, COUNT);
    if (in_place) {
        memcpy(by, bx, COUNT * b->element_size);
    }
    b->activation(kind, COUNT, in_place ? by : bx, by);
    double *y = results(b, COUNT, by);
    assert_all_near(b, "activation", COUNT, y, expected, scale, 8.0 * rounding(b));
    void *const owned[] = {x, expected, scale, bx, by, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_activations_match_their_formulas(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        for (int kind = ACTIVATION_SILU; kind <= ACTIVATION_QUICK_GELU; kind++) {
            check_activation(b, (activation_kind)kind, false);
            check_activation(b, (activation_kind)kind, true);
        }
    }
}

static void test_activations_pass_nan_on(void **state)
{
    (void)state;
    const float nan = NAN;
    FOR_EACH_BACKEND(b)
    {
        for (int kind = ACTIVATION_SILU; kind <= ACTIVATION_QUICK_GELU; kind++) {
            void *x = elements(b, 1, &nan);
            float y = 0.0F;
            b->activation((activation_kind)kind, 1, x, x);
            b->to_f32(1, x, &y);
            assert_true(isnan(y));
            memory_free(x);
        }
    }
}

/* Which operand the output of an arithmetic slot is. */
typedef enum aliasing { ALIAS_NONE, ALIAS_A, ALIAS_B } aliasing;

static void check_arithmetic(const backend *b, char operation, int64_t count, aliasing alias)
{
    float *x = normals(count, 8, 1.0);
    float *y = normals(count, 9, 1.0);
    double *expected = doubles(count, 0.0);
    for (int64_t i = 0; i < count; i++) {
        const double left = (double)x[i];
        const double right = (double)y[i];
        expected[i] = operation == '*'   ? left * right
                      : operation == '+' ? left + right
                                         : left - right;
    }
    void *bx = elements(b, count, x);
    void *by = elements(b, count, y);
    void *out = blank(b, count);
    if (alias != ALIAS_NONE) {
        memcpy(out, alias == ALIAS_A ? bx : by, (size_t)count * b->element_size);
    }
    void (*slot)(int64_t, const void *, const void *, void *) = operation == '*'   ? b->multiply
                                                                : operation == '+' ? b->add
                                                                                   : b->subtract;
    slot(count, alias == ALIAS_A ? out : bx, alias == ALIAS_B ? out : by, out);
    double *actual = results(b, count, out);
    assert_all_near(b, "arithmetic", count, actual, expected, NULL, 16.0 * rounding(b));
    void *const owned[] = {x, y, expected, bx, by, out, actual};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_arithmetic_may_overwrite_either_operand(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 17, 65539};
    static const char operations[] = {'*', '+', '-'};
    FOR_EACH_BACKEND(b)
    {
        for (int i = 0; i < 4 * 3 * 3; i++) {
            check_arithmetic(b, operations[i % 3], counts[i / 9], (aliasing)(i / 3 % 3));
        }
    }
}

static void check_cross_entropy(const backend *b, int64_t rows, int64_t vocabulary, double size)
{
    float *x = normals(rows * vocabulary, 10, size);
    int32_t *target = NULL;
    assert_ok(memory_new(&target, (size_t)rows, sizeof *target));
    double *expected = doubles(rows, 0.0);
    for (int64_t i = 0; i < rows; i++) {
        const float *row = x + i * vocabulary;
        target[i] = (int32_t)(i * 7 % vocabulary);
        double largest = -INFINITY;
        double sum = 0.0;
        for (int64_t v = 0; v < vocabulary; v++) {
            largest = fmax(largest, (double)row[v]);
        }
        for (int64_t v = 0; v < vocabulary; v++) {
            sum += exp((double)row[v] - largest);
        }
        expected[i] = log(sum) + largest - (double)row[target[i]];
    }
    void *bx = elements(b, rows * vocabulary, x);
    double *nll = doubles(rows, NAN);
    b->cross_entropy(rows, vocabulary, bx, target, nll);
    assert_all_near(b, "cross_entropy", rows, nll, expected, NULL, 16.0 * rounding(b) * (1 + size));
    void *const owned[] = {x, target, expected, bx, nll};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static void test_cross_entropy_is_the_negative_log_probability_of_the_target(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        check_cross_entropy(b, 0, 5, 1.0);
        check_cross_entropy(b, 1, 1, 1.0);
        check_cross_entropy(b, 3, 7, 1.0);
        check_cross_entropy(b, 41, 5003, 3.0);
        check_cross_entropy(b, 5, 40009, 1000.0); /* overflows unless the maximum is taken out */
    }
}

static int64_t find_at(const backend *b, int64_t count, int64_t at, float value)
{
    float *x = normals(count, 11, 1.0);
    if (at >= 0) {
        x[at] = value;
    }
    void *bx = elements(b, count, x);
    const int64_t found = b->find_non_finite(count, bx);
    memory_free(bx);
    memory_free(x);
    return found;
}

static void test_find_non_finite_gives_the_first_index(void **state)
{
    (void)state;
    enum { COUNT = 100003 };
    static const int64_t places[] = {-1, 0, 1, 15, 16, 40000, COUNT - 1};
    FOR_EACH_BACKEND(b)
    {
        assert_int_equal(find_at(b, 0, -1, 0.0F), -1);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            assert_int_equal(find_at(b, COUNT, places[i], NAN), places[i]);
            assert_int_equal(find_at(b, COUNT, places[i], -INFINITY), places[i]);
            assert_int_equal(find_at(b, COUNT, places[i], 3.4e38F), -1);
        }
    }
}

static void test_backends_are_found_by_name(void **state)
{
    (void)state;
    const backend *found = NULL;
    assert_ok(backend_find("cpu", &found));
    assert_ptr_equal(found, &backend_cpu);
    assert_ok(backend_find("ref", &found));
    assert_ptr_equal(found, &backend_ref);
    assert_fails(backend_find("gpu", &found), GRAIL_ERROR_ARGUMENT, "expected one of 'cpu', 'ref'");
    assert_ptr_equal(found, &backend_ref);
    assert_null(backend_at(-1));
    assert_null(backend_at(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversion_is_exact_both_ways),
        cmocka_unit_test(test_linear_matches_its_formula_in_every_shape),
        cmocka_unit_test(test_rms_norm_scales_groups_by_their_root_mean_square),
        cmocka_unit_test(test_rope_rotates_pairs_by_position_within_each_sequence),
        cmocka_unit_test(test_activations_match_their_formulas),
        cmocka_unit_test(test_activations_pass_nan_on),
        cmocka_unit_test(test_arithmetic_may_overwrite_either_operand),
        cmocka_unit_test(test_cross_entropy_is_the_negative_log_probability_of_the_target),
        cmocka_unit_test(test_find_non_finite_gives_the_first_index),
        cmocka_unit_test(test_backends_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
