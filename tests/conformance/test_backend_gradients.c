/* Gradients of products, norms, rotations and divergence, and the step of an optimiser: against
 * finite differences of the forward operation in f64, or their formula. */
#include "base/parallel.h"
#include "conformance/slopes.h"

#include <string.h>

/* What parameters' gradients hold before. */
static const float already = 2.5F;

static float *filled(int64_t count, float value)
{
    float *out = normals(count, 0, 0.0);
    for (int64_t i = 0; i < count; i++) {
        out[i] = value;
    }
    return out;
}

/* -- products ---------------------------------------------------------------------------------- */

typedef struct product_shape {
    int64_t m, n, k;
} product_shape;

static void naive_product(bool transpose_a, bool transpose_b, product_shape s, const float *a,
                          const float *b, double beta, double *expected, double *scale)
{
    for (int64_t i = 0; i < s.m * s.n; i++) {
        const int64_t row = i / s.n;
        const int64_t column = i % s.n;
        expected[i] = beta * (double)already;
        scale[i] = fabs(expected[i]);
        for (int64_t p = 0; p < s.k; p++) {
            const double left = (double)a[transpose_a ? p * s.m + row : row * s.k + p];
            const double right = (double)b[transpose_b ? column * s.k + p : p * s.n + column];
            expected[i] += left * right;
            scale[i] += fabs(left * right);
        }
    }
}

/* C = A B and C (+)= A^T B, which gradients are, have the operands of other products. */
static bool is_of_gradients(bool transpose_a, bool transpose_b, double beta)
{
    return !transpose_b && (beta == 0.0 || (transpose_a && beta == 1.0));
}

static float *operands(const backend *b, bool rounds, int64_t count, uint64_t seed)
{
    float *values = normals(count, seed, 1.0);
    for (int64_t i = 0; rounds && i < count; i++) {
        values[i] = (float)as_operand(b, values[i]);
    }
    return values;
}

static void check_product(backend *b, bool transpose_a, bool transpose_b, product_shape s,
                          double beta)
{
    const bool rounds = is_of_gradients(transpose_a, transpose_b, beta);
    float *x = normals(s.m * s.k, 1, 1.0);
    float *w = normals(s.k * s.n, 2, 1.0);
    float *rounded_x = operands(b, rounds, s.m * s.k, 1);
    float *rounded_w = operands(b, rounds, s.k * s.n, 2);
    float *before = filled(s.m * s.n, already);
    double *expected = doubles(s.m * s.n, 0.0);
    double *scale = doubles(s.m * s.n, 0.0);
    naive_product(transpose_a, transpose_b, s, rounded_x, rounded_w, beta, expected, scale);
    matrix bx = transpose_a ? values_of(b, s.k, s.m, x) : values_of(b, s.m, s.k, x);
    matrix bw = transpose_b ? values_of(b, s.n, s.k, w) : values_of(b, s.k, s.n, w);
    matrix by = beta == 0.0 ? blank_values(b, s.m, s.n) : values_of(b, s.m, s.n, before);
    assert_ok(matrix_product(transpose_a, transpose_b, bx, bw, beta, by));
    double *y = results_of(by);
    /* errors of parts have any sign, so that they stay far below 3 * 2^-16 */
    const double of_parts = strcmp(backend_precision(b), "bf16x3") == 0 ? 0x1p-18 : 0.0;
    assert_all_near(b, "product", s.m * s.n, y, expected, scale, 32.0 * rounding(b) + of_parts);
    free_blocks(x, w, rounded_x, rounded_w, before, expected, scale, y);
    free_matrices(&bx, &bw, &by);
}

BACKEND_TEST(test_a_product_takes_either_factor_transposed)
{
    static const product_shape shapes[] = {
        {0, 3, 2},   {3, 0, 2},     {1, 1, 1},     {5, 7, 0},     {3, 5, 7},     {67, 33, 19},
        {300, 1, 5}, {1, 300, 130}, {261, 70, 50}, {2100, 3, 67}, {67, 3, 2100}, {160, 96, 700}};
    static const double betas[] = {0.0, 1.0, -0.5};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int way = 0; way < 12; way++) {
            check_product(b, (way & 1) != 0, (way & 2) != 0, shapes[i], betas[way / 4]);
        }
    }
}

/* Several threads share the sum of the few elements. */
TEST(test_a_small_product_may_be_a_long_sum)
{
    const int before = parallel_threads();
    FOR_EACH_BACKEND(b)
    {
        for (int threads = 1; threads <= 4; threads++) {
            parallel_set_threads(threads);
            for (int way = 0; way < 8; way++) {
                check_product(b, (way & 1) != 0, (way & 2) != 0, (product_shape){3, 5, 9001},
                              way / 4);
            }
        }
        parallel_set_threads(before);
    }
}

/* -- norms ------------------------------------------------------------------------------------- */

typedef struct norm_case {
    int64_t rows, width, group;
    double epsilon, offset;
    bool weight, dx, dweight, dbias, in_place;
} norm_case;

/* A norm's gradients on one backend. dx is dy where that is wanted. */
typedef struct norm_run {
    matrix x, weight, mean, variance, dy, apart, dx, dweight, dbias;
} norm_run;

/* The inputs 0, 1, 2 are x, weight, bias. */
typedef struct norm_kind {
    const char *name;
    slope_function forward;
    grail_status (*gradient)(const norm_case *c, const norm_run *r);
    bool has_bias;
} norm_kind;

static void rms_forward(const void *context, const matrix *inputs, matrix y)
{
    const norm_case *c = context;
    assert_ok(matrix_rms_norm(c->epsilon, inputs[0], inputs[1], y));
}

static grail_status rms_gradient(const norm_case *c, const norm_run *r)
{
    return matrix_rms_norm_gradient(c->epsilon, r->x, r->weight, r->dy, r->dx, r->dweight);
}

static void layer_forward(const void *context, const matrix *inputs, matrix y)
{
    const norm_case *c = context;
    assert_ok(matrix_layer_norm(c->epsilon, inputs[0], inputs[1], inputs[2], y));
}

static grail_status layer_gradient(const norm_case *c, const norm_run *r)
{
    return matrix_layer_norm_gradient(c->epsilon, r->x, r->weight, r->dy, r->dx, r->dweight,
                                      r->dbias);
}

static void unit_forward(const void *context, const matrix *inputs, matrix y)
{
    assert_ok(matrix_unit_length(inputs[0], y));
}

static grail_status unit_gradient(const norm_case *c, const norm_run *r)
{
    return matrix_unit_length_gradient(r->x, r->dy, r->dx);
}

static float *means(int64_t width)
{
    return normals(width, 31, 1.0);
}

static float *variances(int64_t width)
{
    float *out = normals(width, 32, 1.0);
    for (int64_t i = 0; i < width; i++) {
        out[i] = 0.1F + out[i] * out[i];
    }
    return out;
}

static void batch_forward(const void *context, const matrix *inputs, matrix y)
{
    const norm_case *c = context;
    float *mean = means(c->width);
    float *variance = variances(c->width);
    matrix bm = values_of(y.owner, 1, c->width, mean);
    matrix bv = values_of(y.owner, 1, c->width, variance);
    assert_ok(matrix_batch_norm(c->epsilon, inputs[0], bm, bv, inputs[1], inputs[2], y));
    free_blocks(mean, variance);
    free_matrices(&bm, &bv);
}

static grail_status batch_gradient(const norm_case *c, const norm_run *r)
{
    return matrix_batch_norm_gradient(c->epsilon, r->x, r->mean, r->variance, r->weight, r->dy,
                                      r->dx, r->dweight, r->dbias);
}

static const norm_kind rms = {"rms_norm", rms_forward, rms_gradient, false};
static const norm_kind layer = {"layer_norm", layer_forward, layer_gradient, true};
static const norm_kind batch = {"batch_norm", batch_forward, batch_gradient, true};
static const norm_kind unit = {"unit_length", unit_forward, unit_gradient, false};

static norm_run norm_run_new(backend *b, const norm_case *c, const float *x, const float *weight,
                             const float *dy)
{
    float *mean = means(c->width);
    float *variance = variances(c->width);
    float *before = filled(c->group, already);
    norm_run r = {.x = values_of(b, c->rows, c->width, x),
                  .weight = c->weight ? values_of(b, 1, c->group, weight) : no_matrix,
                  .mean = values_of(b, 1, c->width, mean),
                  .variance = values_of(b, 1, c->width, variance),
                  .dy = values_of(b, c->rows, c->width, dy),
                  .apart = blank_values(b, c->rows, c->width),
                  .dweight = c->dweight ? parameters_of(b, c->group, before) : no_matrix,
                  .dbias = c->dbias ? parameters_of(b, c->group, before) : no_matrix};
    r.dx = !c->dx ? no_matrix : c->in_place ? r.dy : r.apart;
    free_blocks(mean, variance, before);
    return r;
}

static void norm_run_free(norm_run *r)
{
    free_matrices(&r->x, &r->weight, &r->mean, &r->variance, &r->dy, &r->apart, &r->dweight,
                  &r->dbias);
}

static void check_norm(backend *b, const norm_kind *kind, norm_case c)
{
    const int64_t count = c.rows * c.width;
    float *x = normals(count, 3, 2.0);
    float *weight = normals(c.group, 4, 1.0);
    float *bias = filled(c.group, 0.0F);
    float *dy = normals(count, 5, 1.0);
    for (int64_t i = 0; i < count; i++) {
        x[i] += (float)c.offset;
    }
    const slope_input inputs[SLOPE_INPUTS] = {{c.rows, c.width, x},
                                              {1, c.group, c.weight || c.dweight ? weight : NULL},
                                              {1, c.group, kind->has_bias ? bias : NULL}};
    /* A weight that is missing is one of ones. */
    for (int64_t i = 0; !c.weight && i < c.group; i++) {
        weight[i] = 1.0F;
    }
    slopes s = slopes_new(kind->forward, &c, inputs, c.rows, c.width, dy);
    norm_run r = norm_run_new(b, &c, x, weight, dy);
    const double tolerance = slope_tolerance(b, 32.0 + 8.0 * fabs(c.offset));
    assert_ok(kind->gradient(&c, &r));
    if (c.dx) {
        assert_slopes(kind->name, &s, 0, 0.0, r.dx, tolerance);
    }
    if (c.dweight) {
        assert_slopes(kind->name, &s, 1, (double)already, r.dweight, tolerance);
    }
    if (c.dbias) {
        assert_slopes(kind->name, &s, 2, (double)already, r.dbias, tolerance);
    }
    norm_run_free(&r);
    slopes_free(&s);
    free_blocks(x, weight, bias, dy);
}

BACKEND_TEST(test_rms_norm_gradients_are_the_slopes)
{
    static const norm_case cases[] = {
        {1, 1, 1, 1.0, 0.0, true, true, true, false, false},
        {7, 13, 13, 1e-5, 0.0, true, true, true, false, false},
        {7, 13, 13, 1e-5, 0.0, true, true, false, false, true},
        {5, 60, 12, 1e-5, 0.0, true, true, true, false, true}, /* five heads */
        {3, 4099, 4099, 1e-5, 0.5, true, true, true, false, false},
        {900, 40, 8, 1e-5, 0.0, true, true, true, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_norm(b, &rms, cases[i]);
    }
}

BACKEND_TEST(test_layer_norm_gradients_are_the_slopes)
{
    static const norm_case cases[] = {
        {7, 13, 13, 1e-5, 0.0, true, true, true, true, false},
        {7, 13, 13, 1e-5, 0.0, true, true, false, true, true},
        {7, 13, 13, 1e-5, 0.0, true, true, true, false, true},
        {7, 33, 33, 1e-5, 0.0, false, true, false, true, true},
        {7, 33, 33, 1e-5, 0.0, false, true, true, false, false},
        {7, 33, 33, 1e-5, 0.0, false, true, false, false, false},
        {4, 50, 50, 1e-5, 100.0, true, true, true, true, false},
        {3, 4099, 4099, 1e-5, 0.5, true, true, true, true, true},
        {2500, 19, 19, 1e-5, 0.0, true, true, true, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_norm(b, &layer, cases[i]);
    }
}

BACKEND_TEST(test_batch_norm_gradients_are_the_slopes)
{
    static const norm_case cases[] = {
        {1, 1, 1, 1e-5, 0.0, true, true, true, true, false},
        {9, 13, 13, 1e-5, 0.0, true, true, true, true, true},
        {9, 13, 13, 1e-5, 0.0, true, false, true, false, false},
        {9, 13, 13, 1e-5, 0.0, true, false, false, true, false},
        {9, 13, 13, 1e-5, 0.0, false, true, false, false, true},
        {9, 33, 33, 1e-3, 0.0, false, true, true, true, false},
        {4, 1031, 1031, 1e-5, 0.0, true, true, true, true, true},
        {2500, 19, 19, 1e-5, 0.0, true, true, true, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_norm(b, &batch, cases[i]);
    }
}

BACKEND_TEST(test_unit_length_gradients_are_the_slopes)
{
    static const norm_case cases[] = {
        {7, 13, 13, 0.0, 0.0, false, true, false, false, false},
        {7, 33, 33, 0.0, 0.0, false, true, false, false, true},
        {2, 4099, 4099, 0.0, 0.3, false, true, false, false, false},
        {900, 40, 40, 0.0, 0.0, false, true, false, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_norm(b, &unit, cases[i]);
    }
}

/* Where the length is below its bound the row is only scaled. */
BACKEND_TEST(test_unit_length_scales_a_vanishing_row)
{
    static const float x[] = {0.0F, 0.0F, 1e-20F, 0.0F};
    static const float dy[] = {1e-10F, -3e-10F, 2e-10F, 1e-10F};
    matrix bx = values_of(b, 2, 2, x);
    matrix g = values_of(b, 2, 2, dy);
    assert_ok(matrix_unit_length_gradient(bx, g, g));
    double expected[4];
    for (int i = 0; i < 4; i++) {
        expected[i] = (double)held(b, dy[i]) * 1e12;
    }
    assert_matrix_near("unit_length", g, expected, 300.0 * 8.0 * rounding(b));
    free_matrices(&bx, &g);
}

/* No rows: parameters' gradients stay as they are. */
BACKEND_TEST(test_norms_of_nothing_add_nothing)
{
    static const norm_kind *const kinds[] = {&rms, &layer, &batch, &unit};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const norm_case c = {0, 5, 5, 1e-5, 0.0, true, true, true, kinds[i]->has_bias, false};
        const float none[5] = {0.0F};
        const double before[] = {2.5, 2.5, 2.5, 2.5, 2.5};
        norm_run r = norm_run_new(b, &c, none, none, none);
        assert_ok(kinds[i]->gradient(&c, &r));
        assert_matrix_near(kinds[i]->name, r.dweight, before, 0.0);
        norm_run_free(&r);
    }
}

/* Sums over so many rows that each part of them is several blocks, and that f32 would not do. */
BACKEND_TEST(test_parameters_sum_over_very_many_rows)
{
    enum { ROWS = 400000, WIDTH = 7, COUNT = ROWS * WIDTH };
    const float mean[WIDTH] = {0.0F, 1.0F, 2.0F};
    const float variance[WIDTH] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F};
    const float zeros[WIDTH] = {0.0F};
    double dweight[WIDTH] = {0.0};
    double dbias[WIDTH] = {0.0};
    float *x = normals(COUNT, 33, 1.0);
    float *dy = normals(COUNT, 34, 1.0);
    for (int i = 0; i < COUNT; i++) {
        const int c = i % WIDTH;
        x[i] = held(b, x[i] + 3.0F);
        dy[i] = held(b, dy[i] + 1.0F);
        dweight[c] += (double)dy[i] * ((double)x[i] - (double)mean[c]) / sqrt((double)variance[c]);
        dbias[c] += (double)dy[i];
    }
    matrix bx = values_of(b, ROWS, WIDTH, x);
    matrix bdy = values_of(b, ROWS, WIDTH, dy);
    matrix m = values_of(b, 1, WIDTH, mean);
    matrix v = values_of(b, 1, WIDTH, variance);
    matrix w = parameters_of(b, WIDTH, zeros);
    matrix bias = parameters_of(b, WIDTH, zeros);
    assert_ok(matrix_batch_norm_gradient(0.0, bx, m, v, no_matrix, bdy, no_matrix, w, bias));
    double *sums = results_of(w);
    double *bias_sums = results_of(bias);
    const double tolerance = fmax(1e-13, 2.0 * rounding_of(w.type));
    assert_all_near(b, "dweight", WIDTH, sums, dweight, dweight, tolerance);
    assert_all_near(b, "dbias", WIDTH, bias_sums, dbias, dbias, tolerance);
    free_blocks(x, dy, sums, bias_sums);
    free_matrices(&bx, &bdy, &m, &v, &w, &bias);
}

typedef struct kernel_run {
    const norm_kind *kind;
    norm_case c;
    norm_run r;
} kernel_run;

static grail_status run_kernel(void *context)
{
    const kernel_run *k = context;
    return k->kind->gradient(&k->c, &k->r);
}

BACKEND_TEST(test_norm_gradients_report_lack_of_memory)
{
    static const norm_kind *const kinds[] = {&rms, &layer, &batch};
    const float some[4] = {1.0F, 2.0F, 3.0F, -1.0F};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kernel_run k = {.kind = kinds[i],
                        .c = {2, 2, 2, 1e-5, 0.0, true, true, true, kinds[i]->has_bias, false}};
        k.r = norm_run_new(b, &k.c, some, some, some);
        support_fail_each_allocation(run_kernel, &k);
        norm_run_free(&k.r);
    }
}

/* -- rotations --------------------------------------------------------------------------------- */

/* A rotation's gradient is the rotation back: it undoes it, and (R x) . y = x . (R^T y). */
TEST(test_a_rotation_back_undoes_a_rotation)
{
    enum { SEQUENCES = 3, LENGTH = 71, HEADS = 2, HEAD_DIM = 10 };
    enum { ROWS = SEQUENCES * LENGTH, WIDTH = HEADS * HEAD_DIM, COUNT = ROWS * WIDTH };
    static const double frequency[HEAD_DIM / 2] = {1.0, 0.3, 0.1, 0.03, 0.01};
    rope_shape shape = {.sequences = SEQUENCES,
                        .length = LENGTH,
                        .head_dim = HEAD_DIM,
                        .turned = HEAD_DIM,
                        .factor = 1.0,
                        .frequency = frequency};
    float *x = normals(COUNT, 8, 1.0);
    float *y = normals(COUNT, 9, 1.0);
    FOR_EACH_BACKEND(b)
    {
        matrix bx = values_of(b, ROWS, WIDTH, x);
        matrix by = values_of(b, ROWS, WIDTH, y);
        double there = 0.0;
        double back = 0.0;
        shape.backward = false;
        assert_ok(matrix_rope(&shape, bx));
        double *turned = results_of(bx);
        shape.backward = true;
        assert_ok(matrix_rope(&shape, bx));
        assert_ok(matrix_rope(&shape, by));
        double *turned_back = results_of(by);
        double *returned = results_of(bx);
        for (int i = 0; i < COUNT; i++) {
            assert_near(returned[i], (double)x[i], 32.0 * rounding(b));
            there += turned[i] * (double)y[i];
            back += (double)x[i] * turned_back[i];
        }
        assert_near(there, back, COUNT * rounding(b));
        free_blocks(turned, turned_back, returned);
        free_matrices(&bx, &by);
    }
    free_blocks(x, y);
}

/* -- divergence -------------------------------------------------------------------------------- */

/* log softmax of a row */
static void log_softmax(int64_t classes, const float *x, double *out)
{
    double largest = -INFINITY;
    double total = 0.0;
    for (int64_t i = 0; i < classes; i++) {
        largest = fmax(largest, (double)x[i]);
    }
    for (int64_t i = 0; i < classes; i++) {
        total += exp((double)x[i] - largest);
    }
    for (int64_t i = 0; i < classes; i++) {
        out[i] = (double)x[i] - largest - log(total);
    }
}

typedef enum gradient_place { GRADIENT_APART, GRADIENT_OVER_LOGITS, NO_GRADIENT } gradient_place;

static void check_divergence(backend *b, int64_t rows, int64_t classes, const float *target,
                             const float *logits, gradient_place place)
{
    const double scale = 0.7;
    double *p = doubles(classes, 0.0);
    double *q = doubles(classes, 0.0);
    double *expected = doubles(rows, 0.0);
    double *size = doubles(rows, 0.0);
    double *slope = doubles(rows * classes, 0.0);
    for (int64_t r = 0; r < rows; r++) {
        log_softmax(classes, target + r * classes, p);
        log_softmax(classes, logits + r * classes, q);
        for (int64_t i = 0; i < classes; i++) {
            const double term = exp(p[i]) > 0.0 ? exp(p[i]) * (p[i] - q[i]) : 0.0;
            expected[r] += term;
            size[r] += fabs(term) + exp(p[i]);
            slope[r * classes + i] = scale * (exp(q[i]) - exp(p[i]));
        }
    }
    matrix t = values_of(b, rows, classes, target);
    matrix z = values_of(b, rows, classes, logits);
    matrix apart = blank_values(b, rows, classes);
    const matrix gradient = place == NO_GRADIENT ? no_matrix : place == GRADIENT_APART ? apart : z;
    matrix of_rows = matrix_of(b, GRAIL_DTYPE_F64, 1, rows, expected);
    assert_ok(matrix_divergence(t, z, scale, gradient, of_rows));
    double *actual = results_of(of_rows);
    assert_all_near(b, "divergence", rows, actual, expected, size, 16.0 * rounding(b));
    if (place != NO_GRADIENT) {
        assert_matrix_near("gradient of the divergence", gradient, slope, 16.0 * rounding(b));
    }
    free_blocks(p, q, expected, size, slope, actual);
    free_matrices(&t, &z, &apart, &of_rows);
}

TEST(test_divergence_and_its_gradient)
{
    static const int64_t shapes[][2] = {{0, 5}, {1, 1}, {7, 3}, {13, 67}, {5, 511}, {3, 4099}};
    float *target = normals(3 * 4099, 10, 2.0);
    float *logits = normals(3 * 4099, 11, 3.0);
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            check_divergence(b, shapes[i][0], shapes[i][1], target, logits, GRADIENT_APART);
            check_divergence(b, shapes[i][0], shapes[i][1], target, logits, GRADIENT_OVER_LOGITS);
            check_divergence(b, shapes[i][0], shapes[i][1], target, logits, NO_GRADIENT);
            check_divergence(b, shapes[i][0], shapes[i][1], target, target, GRADIENT_APART);
        }
    }
    free_blocks(target, logits);
}

/* Probabilities that vanish: the target's add nothing, the other's cost what the logits say. */
BACKEND_TEST(test_divergence_survives_extreme_logits)
{
    static const float target[] = {0.0F, -2000.0F, -INFINITY, 1.0F, 1e4F,
                                   0.0F, 0.0F,     -1e4F,     1.0F, 2.0F};
    static const float logits[] = {0.0F,  1000.0F, -INFINITY, -500.0F,  2.0F,
                                   -1e4F, 1e4F,    0.0F,      -3000.0F, 0.0F};
    check_divergence(b, 2, 5, target, logits, GRADIENT_APART);
    check_divergence(b, 2, 5, target, logits, GRADIENT_OVER_LOGITS);
}

/* -- descent ----------------------------------------------------------------------------------- */

/* With `counts` the shares are said to follow from the number of the step. */
static void check_descent(backend *b, int64_t count, bool has_first, bool counts)
{
    enum { STEPS = 3 };
    descent d = {.rate = 0.01,
                 .first_decay = has_first ? 0.9 : 0.0,
                 .second_decay = 0.99,
                 .first_share = 1.0,
                 .second_share = 1.0,
                 .epsilon = 1e-8};
    double *m = doubles(count, 0.0);
    double *v = doubles(count, 0.0);
    double *w = normal_doubles(count, 12);
    const grail_dtype type = backend_master_type(b);
    const double rounded = rounding_of(type);
    matrix first = has_first ? matrix_of(b, type, 1, count, m) : no_matrix;
    matrix second = matrix_of(b, type, 1, count, v);
    matrix weight = matrix_of(b, type, 1, count, w);
    for (int step = 1; step <= STEPS; step++) {
        OWNED(float) *g = normals(count, 12 + (uint64_t)step, 1e-3);
        d.first_share = has_first ? 1.0 - pow(0.9, step) : 1.0;
        d.second_share = 1.0 - pow(0.99, step);
        d.steps = counts ? step : 0;
        for (int64_t i = 0; i < count; i++) {
            m[i] = d.first_decay * m[i] + (1.0 - d.first_decay) * (double)g[i];
            v[i] = 0.99 * v[i] + (1.0 - 0.99) * (double)g[i] * (double)g[i];
            w[i] -= 0.01 * m[i] / d.first_share / (sqrt(v[i] / d.second_share) + 1e-8);
        }
        OWNED(matrix) gradient = parameters_of(b, count, g);
        assert_ok(matrix_descend(&d, gradient, first, second, weight));
    }
    if (has_first) {
        assert_matrix_near("first moment", first, m, 1e-2 * rounded);
    }
    assert_matrix_near("second moment", second, v, 1e-4 * rounded);
    assert_matrix_near("descended weight", weight, w, 32.0 * rounded);
    free_blocks(m, v, w);
    free_matrices(&first, &second, &weight);
}

BACKEND_TEST(test_descent_follows_its_formula)
{
    static const int64_t counts[] = {0, 1, 67, 70001};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        check_descent(b, counts[i], false, false);
        check_descent(b, counts[i], true, false);
        check_descent(b, counts[i], true, true);
    }
}
