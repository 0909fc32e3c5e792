/* What the number of threads may change: rounding between counts, nothing at equal counts. */
#include "backend/operations.h"
#include "base/parallel.h"
#include "conformance/conformance.h"

#include <pthread.h>

/* Runs some operations on fixed inputs; the f64 results are owned by the caller. */
typedef double *(*fixed_run)(backend *b, int64_t *count);

/* The first values of a packed matrix as a row. */
static matrix first_values(matrix m, int64_t count)
{
    return matrix_columns(matrix_reshape(m, 1, matrix_count(m)), 0, count);
}

static double *run_linear(backend *b, int64_t *count)
{
    enum { ROWS = 150, IN = 70, OUT = 1100 };
    float *x = normals(ROWS * IN, 1, 1.0);
    float *w = normals(OUT * IN, 2, 1.0);
    matrix bx = values_of(b, ROWS, IN, x);
    matrix bw = values_of(b, OUT, IN, w);
    matrix y = blank_values(b, ROWS, OUT);
    assert_ok(matrix_linear(bx, bw, first_values(bw, OUT), y));
    *count = ROWS * OUT;
    double *out = results_of(y);
    free_blocks(x, w);
    free_matrices(&bx, &bw, &y);
    return out;
}

static double *run_attention(backend *b, int64_t *count)
{
    const attention_shape s = {2, 300, 4, 2, 8, 0, false, 0.3, 0.0, 0, 0, 0};
    const int64_t rows = s.sequences * s.length;
    const int64_t width = s.query_heads * s.head_dim;
    float *x = normals(rows * width, 3, 1.0);
    matrix q = values_of(b, rows, width, x);
    matrix k = values_of(b, rows, s.kv_heads * s.head_dim, x);
    matrix y = blank_values(b, rows, width);
    assert_ok(matrix_attention(&s, q, k, k, y, no_matrix, no_matrix));
    *count = rows * width;
    double *out = results_of(y);
    memory_free(x);
    free_matrices(&q, &k, &y);
    return out;
}

/* RMS norm, rotation and activation, one after another. */
static double *run_rows(backend *b, int64_t *count)
{
    enum { ROWS = 700, HEAD_DIM = 46, WIDTH = 3 * HEAD_DIM };
    double *frequency = doubles(HEAD_DIM / 2, 0.01);
    float *x = normals(ROWS * WIDTH, 4, 1.0);
    const rope_shape rope = {.sequences = 1,
                             .length = ROWS,
                             .head_dim = HEAD_DIM,
                             .turned = HEAD_DIM,
                             .factor = 1.0,
                             .frequency = frequency};
    matrix weight = values_of(b, 1, WIDTH, x);
    matrix input = values_of(b, ROWS, WIDTH, x);
    matrix y = blank_values(b, ROWS, WIDTH);
    assert_ok(matrix_rms_norm(1e-6, input, weight, y));
    assert_ok(matrix_rope(&rope, y));
    assert_ok(matrix_activate(ACTIVATION_SILU, y, y));
    *count = ROWS * WIDTH;
    double *out = results_of(y);
    free_blocks(frequency, x);
    free_matrices(&weight, &input, &y);
    return out;
}

/* The gradient of a pooling, and that of the convolution before it: of X, then of the weight. */
static double *run_image_gradients(backend *b, int64_t *count)
{
    enum { SAMPLES = 5, SIDE = 17, HALF = 9, IN = 33, OUT = 37, TAPS = 9 };
    const conv_shape conv = {.samples = SAMPLES,
                             .in = {SIDE, SIDE},
                             .out = {SIDE, SIDE},
                             .channels_in = IN,
                             .channels_out = OUT,
                             .window = WINDOW2D(3, 3, 1, 1, 1)};
    const conv_shape pool = {.samples = SAMPLES,
                             .in = {SIDE, SIDE},
                             .out = {HALF, HALF},
                             .channels_in = OUT,
                             .channels_out = OUT,
                             .window = WINDOW2D(3, 3, 2, 1, 1)};
    enum { INPUTS = SAMPLES * SIDE * SIDE * IN, WEIGHTS = OUT * IN * TAPS };
    float *x = normals(SAMPLES * SIDE * SIDE * OUT, 7, 1.0);
    float *small = normals(INPUTS, 8, 0.125); /* makes both gradients about as large */
    matrix input = values_of(b, SAMPLES * SIDE * SIDE, IN, small);
    matrix middle = values_of(b, SAMPLES * SIDE * SIDE, OUT, x);
    matrix dy = values_of(b, SAMPLES * HALF * HALF, OUT, x);
    matrix dmiddle = blank_values(b, SAMPLES * SIDE * SIDE, OUT);
    matrix both = blank_values(b, 1, INPUTS + WEIGHTS);
    const matrix dx = matrix_reshape(matrix_columns(both, 0, INPUTS), SAMPLES * SIDE * SIDE, IN);
    const matrix dweight = matrix_reshape(matrix_columns(both, INPUTS, WEIGHTS), OUT, IN * TAPS);
    matrix weight = values_of(b, OUT, IN * TAPS, x);
    assert_ok(matrix_copy(weight, dweight));
    assert_ok(matrix_max_pool_gradient(&pool, middle, dy, dmiddle));
    assert_ok(matrix_conv2d_gradient(&conv, input, weight, dmiddle, dx, dweight, no_matrix));
    *count = INPUTS + WEIGHTS;
    double *out = results_of(both);
    free_blocks(x, small);
    free_matrices(&input, &middle, &dy, &dmiddle, &both, &weight);
    return out;
}

/* Convolution, batch norm and pooling, one after another. */
static double *run_images(backend *b, int64_t *count)
{
    enum { SAMPLES = 3, SIDE = 17, HALF = 9, IN = 33, OUT = 37, TAPS = 9 };
    const conv_shape conv = {.samples = SAMPLES,
                             .in = {SIDE, SIDE},
                             .out = {SIDE, SIDE},
                             .channels_in = IN,
                             .channels_out = OUT,
                             .window = WINDOW2D(3, 3, 1, 1, 1)};
    const conv_shape pool = {.samples = SAMPLES,
                             .in = {SIDE, SIDE},
                             .out = {HALF, HALF},
                             .channels_in = OUT,
                             .channels_out = OUT,
                             .window = WINDOW2D(3, 3, 2, 1, 1)};
    float *x = normals(SAMPLES * SIDE * SIDE * IN, 7, 1.0);
    matrix input = values_of(b, SAMPLES * SIDE * SIDE, IN, x);
    matrix weight = values_of(b, OUT, IN * TAPS, x);
    matrix middle = blank_values(b, SAMPLES * SIDE * SIDE, OUT);
    matrix y = blank_values(b, SAMPLES * HALF * HALF, OUT);
    matrix variance = values_of(b, 1, OUT, (float[OUT]){1.0F, 2.0F});
    assert_ok(matrix_conv2d(&conv, 0.0, input, weight, no_matrix, no_matrix, middle));
    assert_ok(matrix_batch_norm(1e-3, middle, first_values(weight, OUT), variance, no_matrix,
                                no_matrix, middle));
    assert_ok(matrix_max_pool(&pool, middle, y));
    *count = SAMPLES * HALF * HALF * OUT;
    double *out = results_of(y);
    memory_free(x);
    free_matrices(&input, &weight, &middle, &y, &variance);
    return out;
}

/* Layer norm, patches, mean and unit length. */
static double *run_tokens(backend *b, int64_t *count)
{
    enum { SAMPLES = 5, SIDE = 12, WIDTH = 300, TAPS = 9 };
    const conv_shape shape = {.samples = SAMPLES,
                              .in = {SIDE, SIDE},
                              .out = {SIDE, SIDE},
                              .channels_in = WIDTH,
                              .window = WINDOW2D(3, 3, 1, 1, 1)};
    const int64_t rows = SAMPLES * SIDE * SIDE;
    float *x = normals(rows * WIDTH, 8, 1.0);
    matrix y = values_of(b, rows, WIDTH, x);
    matrix patches = blank_values(b, rows, WIDTH * TAPS);
    matrix mean = blank_values(b, SAMPLES, WIDTH * TAPS);
    assert_ok(matrix_layer_norm(1e-6, y, no_matrix, no_matrix, y));
    assert_ok(matrix_patches(&shape, 0, SAMPLES * SIDE, y, patches));
    assert_ok(matrix_mean_positions(patches, mean));
    assert_ok(matrix_unit_length(mean, mean));
    *count = SAMPLES * WIDTH * TAPS;
    double *out = results_of(mean);
    memory_free(x);
    free_matrices(&y, &patches, &mean);
    return out;
}

/* Norms, attention and a product of many rows, one after another; the result is the sum of what the
 * product and the parameters of the norms get. */
static double *run_gradients(backend *b, int64_t *count)
{
    enum { SEQUENCES = 200, LENGTH = 25, ROWS = SEQUENCES * LENGTH, HEAD_DIM = 12 };
    enum { WIDTH = 4 * HEAD_DIM };
    const attention_shape s = {SEQUENCES, LENGTH, 4, 2, HEAD_DIM, 0, false, 0.3, 0.0, 0, 0, 0};
    float *x = normals(ROWS * WIDTH, 11, 1.0);
    matrix q = values_of(b, ROWS, WIDTH, x);
    matrix g = values_of(b, ROWS, WIDTH, x);
    matrix dq = blank_values(b, ROWS, WIDTH);
    matrix keys = blank_values(b, 2 * ROWS, WIDTH / 2);
    matrix weight = values_of(b, 1, WIDTH, x);
    matrix sums = values_of(b, WIDTH, WIDTH, x);
    const matrix k = matrix_reshape(q, 2 * ROWS, WIDTH / 2);
    assert_ok(matrix_layer_norm_gradient(1e-5, q, weight, g, g, matrix_rows(sums, 0, 1),
                                         matrix_rows(sums, 1, 1)));
    assert_ok(matrix_attention_gradient(&s, q, matrix_rows(k, 0, ROWS), matrix_rows(k, ROWS, ROWS),
                                        q, g, dq, matrix_rows(keys, 0, ROWS),
                                        matrix_rows(keys, ROWS, ROWS), no_matrix, no_matrix,
                                        no_matrix));
    assert_ok(matrix_rms_norm_gradient(1e-5, matrix_reshape(keys, ROWS, WIDTH), weight, dq, dq,
                                       matrix_rows(sums, 2, 1)));
    assert_ok(matrix_product(true, false, dq, g, 1.0, sums));
    *count = WIDTH * WIDTH;
    double *out = results_of(sums);
    memory_free(x);
    free_matrices(&q, &g, &dq, &keys, &weight, &sums);
    return out;
}

static double *run_cross_entropy(backend *b, int64_t *count)
{
    enum { ROWS = 200, VOCABULARY = 999 };
    static const int32_t target[ROWS] = {1, 5, 7};
    OWNED(float) *x = normals(ROWS * VOCABULARY, 5, 1.0);
    OWNED(matrix) logits = values_of(b, ROWS, VOCABULARY, x);
    entropy_sums sums[ROWS];
    double *out = doubles(ROWS, NAN);
    assert_ok(matrix_cross_entropy(logits, 0, target, sums));
    assert_ok(matrix_cross_entropy(logits, VOCABULARY, target, sums));
    for (int i = 0; i < ROWS; i++) {
        out[i] = entropy_of(&sums[i]);
    }
    *count = ROWS;
    return out;
}

/* The Gram, and sums in its first rows. */
static matrix gram_of(backend *b, int64_t rows, int64_t width)
{
    float *x = normals(rows * width, 6, 1.0);
    double *zeros = doubles(width * width, 0.0);
    OWNED(matrix) bx = values_of(b, rows, width, x);
    const matrix g = matrix_of(b, GRAIL_DTYPE_F64, width, width, zeros);
    assert_ok(matrix_gram(bx, g));
    assert_ok(matrix_column_sums(bx, no_matrix, matrix_rows(g, 0, 1), matrix_rows(g, 1, 1)));
    free_blocks(x, zeros);
    return g;
}

static double *results_and_free(matrix m, int64_t *count)
{
    double *out = results_of(m);
    *count = matrix_count(m);
    matrix_free(&m);
    return out;
}

static double *run_narrow_gram(backend *b, int64_t *count)
{
    return results_and_free(gram_of(b, 10007, 13), count);
}

static double *run_wide_gram(backend *b, int64_t *count)
{
    return results_and_free(gram_of(b, 50, 900), count);
}

/* Gram, Cholesky, solve, inverse and a symmetric product. */
static double *run_ridge(backend *b, int64_t *count)
{
    enum { N = 400, ROWS = 300 };
    int64_t pivot = 0;
    OWNED(double) *ones = doubles(ROWS * N, 1.0);
    OWNED(matrix) right = matrix_of(b, GRAIL_DTYPE_F64, ROWS, N, ones);
    const matrix a = gram_of(b, N + 50, N);
    assert_ok(matrix_shift_diagonal((double)N, a));
    assert_ok(matrix_cholesky(a, &pivot));
    assert_int_equal(pivot, -1);
    assert_ok(matrix_cholesky_solve(a, right));
    assert_ok(matrix_cholesky_invert(a));
    assert_ok(matrix_add_symmetric(1.0, right, right, a));
    assert_ok(matrix_fill_upper(a));
    return results_and_free(a, count);
}

/* Copies, folds and passes over f64 memory. */
static double *run_passes(backend *b, int64_t *count)
{
    enum { ROWS = 130, COLUMNS = 515, UNITS = 5 };
    static const int64_t labels[UNITS] = {2, 0, 1, 0, 2};
    static const double share[UNITS] = {0.5, 1.0, 0.5, 0.0, 0.0};
    float *x = normals(ROWS * COLUMNS, 9, 1.0);
    double *zeros = doubles(ROWS * COLUMNS, 0.0);
    matrix in = values_of(b, ROWS, COLUMNS, x);
    matrix y = matrix_of(b, GRAIL_DTYPE_F64, ROWS, COLUMNS, zeros);
    matrix z = matrix_of(b, GRAIL_DTYPE_F64, ROWS, COLUMNS, zeros);
    matrix dots = blank_of(b, GRAIL_DTYPE_F64, 1, ROWS);
    assert_ok(matrix_copy(in, y));
    assert_ok(matrix_add_scaled(0.3, in, z));
    assert_ok(matrix_fold_columns(UNITS, labels, share, y, z));
    assert_ok(matrix_fold_rows(UNITS, labels, share, z, y));
    assert_ok(matrix_row_dots(in, in, dots));
    assert_ok(matrix_scale_rows(dots, in, in));
    assert_ok(matrix_add_scaled(1.0, in, y));
    assert_ok(matrix_row_dots(y, z, dots));
    assert_ok(matrix_add_outer(false, 0.1, dots, matrix_rows(y, 3, 1), z));
    assert_ok(matrix_divide_columns(matrix_rows(y, 7, 1), z));
    assert_ok(matrix_fill_upper(matrix_columns(z, 0, ROWS)));
    assert_ok(matrix_add_scaled(1.0, y, z));
    free_blocks(x, zeros);
    free_matrices(&in, &y, &dots);
    return results_and_free(z, count);
}

static const fixed_run runs[] = {run_linear,        run_attention,       run_rows,
                                 run_images,        run_image_gradients, run_tokens,
                                 run_cross_entropy, run_narrow_gram,     run_wide_gram,
                                 run_ridge,         run_passes,          run_gradients};

static double *run_with(backend *b, fixed_run run, int threads, int64_t *count)
{
    const int before = parallel_threads();
    parallel_set_threads(threads);
    double *out = run(b, count);
    parallel_set_threads(before);
    return out;
}

BACKEND_TEST(test_thread_counts_agree_but_for_rounding)
{
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        int64_t count = 0;
        OWNED(double) *one = run_with(b, runs[i], 1, &count);
        for (int threads = 2; threads <= 5; threads++) {
            if (threads > 2 && !support_takes((int64_t)i + threads, 3)) {
                continue; /* each run on two threads, and on three, four or five */
            }
            OWNED(double) *many = run_with(b, runs[i], threads, &count);
            OWNED(double) *scale = doubles(count, norm_of(count, one) / sqrt((double)count));
            assert_all_near(b, "on several threads", count, many, one, scale,
                            fmax(1e-5, 4.0 * rounding(b)));
        }
    }
}

BACKEND_TEST(test_equal_thread_counts_give_equal_bits)
{
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        for (int threads = 1; threads <= 3; threads++) {
            if (threads != 2 && !support_takes((int64_t)i + threads / 2, 2)) {
                continue; /* each run on two threads, and on one or three */
            }
            int64_t count = 0;
            OWNED(double) *first = run_with(b, runs[i], threads, &count);
            OWNED(double) *second = run_with(b, runs[i], threads, &count);
            assert_memory_equal(first, second, (size_t)count * sizeof *first);
        }
    }
}

typedef struct caller {
    backend *b;
    fixed_run run;
    int64_t count;
    double *out;
} caller;

static void *call_repeatedly(void *context)
{
    enum { CALLS = 3 };
    caller *c = context;
    parallel_set_threads(1); /* of this caller alone */
    for (int i = 0; i < CALLS; i++) {
        memory_free(c->out);
        c->out = c->run(c->b, &c->count);
    }
    return NULL;
}

/* Each run from all callers at once, and next to other runs. */
BACKEND_TEST(test_callers_do_not_disturb_each_other)
{
    enum { CALLERS = 4, RUNS = sizeof runs / sizeof runs[0] };
    for (size_t i = 0; i < RUNS; i++) {
        if (!support_takes((int64_t)i, 2)) {
            continue; /* the next run takes its turn beside the one before */
        }
        pthread_t threads[CALLERS];
        caller callers[CALLERS] = {0};
        for (size_t t = 0; t < CALLERS; t++) {
            callers[t] = (caller){.b = b, .run = runs[(i + t / 2) % RUNS]};
            assert_int_equal(pthread_create(&threads[t], NULL, call_repeatedly, &callers[t]), 0);
        }
        for (size_t t = 0; t < CALLERS; t++) {
            assert_int_equal(pthread_join(threads[t], NULL), 0);
        }
        for (size_t t = 0; t < CALLERS; t++) {
            int64_t count = 0;
            double *alone = run_with(b, callers[t].run, 1, &count);
            if (has_foreign_memory(b)) { /* MKL's factors depend on the thread that asks */
                assert_all_near(b, "beside others", count, callers[t].out, alone, NULL, 1e-15);
            } else {
                assert_memory_equal(alone, callers[t].out, (size_t)count * sizeof *alone);
            }
            memory_free(alone);
            memory_free(callers[t].out);
        }
    }
}

/* One product of operands that all callers share. */
typedef struct shared_product {
    matrix x, weight, y;
} shared_product;

static void *multiply_repeatedly(void *context)
{
    enum { CALLS = 300 };
    const shared_product *p = context;
    parallel_set_threads(1);
    for (int i = 0; i < CALLS; i++) {
        assert_ok(matrix_linear(p->x, p->weight, no_matrix, p->y));
    }
    return NULL;
}

TEST(test_callers_may_share_operands)
{
    enum { CALLERS = 4, ROWS = 20, WIDTH = 30 };
    OWNED(float) *values = normals(ROWS * WIDTH, 10, 1.0);
    FOR_EACH_BACKEND(b)
    {
        matrix x = values_of(b, ROWS, WIDTH, values);
        matrix alone = blank_values(b, ROWS, ROWS);
        matrix together = blank_values(b, CALLERS * ROWS, ROWS);
        pthread_t threads[CALLERS];
        shared_product products[CALLERS];
        assert_ok(matrix_linear(x, x, no_matrix, alone));
        for (int t = 0; t < CALLERS; t++) {
            products[t] = (shared_product){x, x, matrix_rows(together, t * ROWS, ROWS)};
            assert_int_equal(pthread_create(&threads[t], NULL, multiply_repeatedly, &products[t]),
                             0);
        }
        double *expected = results_of(alone);
        for (int t = 0; t < CALLERS; t++) {
            assert_int_equal(pthread_join(threads[t], NULL), 0);
            OWNED(double) *one = results_of(products[t].y);
            assert_memory_equal(one, expected, ROWS * ROWS * sizeof *one);
        }
        memory_free(expected);
        free_matrices(&x, &alone, &together);
    }
}
