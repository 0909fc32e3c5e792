/* What the number of threads may change: rounding between counts, nothing at equal counts. */
#include "base/parallel.h"
#include "conformance/conformance.h"

#include <pthread.h>
#include <string.h>

/* Runs one slot on fixed inputs; the f64 results are owned by the caller. */
typedef double *(*slot_run)(const backend *b, int64_t *count);

static double *run_linear(const backend *b, int64_t *count)
{
    enum { ROWS = 150, IN = 70, OUT = 1100 };
    float *x = normals(ROWS * IN, 1, 1.0);
    float *w = normals(OUT * IN, 2, 1.0);
    void *bx = elements(b, ROWS * IN, x);
    void *bw = elements(b, OUT * IN, w);
    void *y = blank(b, ROWS * OUT);
    b->linear(ROWS, IN, OUT, bx, bw, bw, y);
    *count = ROWS * OUT;
    double *out = results(b, *count, y);
    void *const owned[] = {x, w, bx, bw, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
    return out;
}

static double *run_attention(const backend *b, int64_t *count)
{
    const attention_shape s = {2, 300, 4, 2, 8, 0, false, 0.3};
    const int64_t queries = s.sequences * s.length * s.query_heads * s.head_dim;
    const int64_t keys = s.sequences * s.length * s.kv_heads * s.head_dim;
    float *x = normals(queries, 3, 1.0);
    void *q = elements(b, queries, x);
    void *k = elements(b, keys, x);
    void *y = blank(b, queries);
    assert_ok(b->attention(&s, q, k, k, y));
    *count = queries;
    double *out = results(b, *count, y);
    void *const owned[] = {x, q, k, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
    return out;
}

/* RMS norm, rotation and activation, one after another. */
static double *run_rows(const backend *b, int64_t *count)
{
    enum { ROWS = 700, HEADS = 3, HEAD_DIM = 46, WIDTH = HEADS * HEAD_DIM };
    double *frequency = doubles(HEAD_DIM / 2, 0.01);
    float *x = normals(ROWS * WIDTH, 4, 1.0);
    void *weight = elements(b, WIDTH, x);
    void *input = elements(b, ROWS * WIDTH, x);
    void *y = blank(b, ROWS * WIDTH);
    b->rms_norm(ROWS, WIDTH, WIDTH, 1e-6, input, weight, y);
    b->rope(1, ROWS, HEADS, HEAD_DIM, frequency, y);
    b->activation(ACTIVATION_SILU, ROWS * WIDTH, y, y);
    *count = ROWS * WIDTH;
    double *out = results(b, *count, y);
    void *const owned[] = {frequency, x, weight, input, y};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
    return out;
}

/* Convolution, batch norm and pooling, one after another. */
static double *run_images(const backend *b, int64_t *count)
{
    enum { SAMPLES = 3, SIDE = 33, HALF = 17, IN = 13, OUT = 21, TAPS = 9 };
    const conv_shape conv = {.samples = SAMPLES,
                             .in = {SIDE, SIDE},
                             .out = {SIDE, SIDE},
                             .channels_in = IN,
                             .channels_out = OUT,
                             .window = {3, 3, 1, 1, 1}};
    const conv_shape pool = {.samples = SAMPLES,
                             .in = {SIDE, SIDE},
                             .out = {HALF, HALF},
                             .channels_in = OUT,
                             .channels_out = OUT,
                             .window = {3, 3, 2, 1, 1}};
    float *x = normals(SAMPLES * SIDE * SIDE * IN, 7, 1.0);
    void *input = elements(b, SAMPLES * SIDE * SIDE * IN, x);
    void *weight = elements(b, OUT * IN * TAPS, x);
    void *middle = blank(b, SAMPLES * SIDE * SIDE * OUT);
    void *y = blank(b, SAMPLES * HALF * HALF * OUT);
    void *variance = elements(b, OUT, (float[OUT]){1.0F, 2.0F});
    assert_ok(b->conv2d(&conv, input, weight, NULL, NULL, middle));
    b->batch_norm(SAMPLES * SIDE * SIDE, OUT, 1e-3, middle, weight, variance, NULL, NULL, middle);
    assert_ok(b->max_pool(&pool, middle, y));
    *count = SAMPLES * HALF * HALF * OUT;
    double *out = results(b, *count, y);
    void *const owned[] = {x, input, weight, middle, y, variance};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
    return out;
}

/* Layer norm, patches, mean and unit length. */
static double *run_tokens(const backend *b, int64_t *count)
{
    enum { SAMPLES = 5, SIDE = 12, WIDTH = 300, TAPS = 9 };
    const conv_shape shape = {.samples = SAMPLES,
                              .in = {SIDE, SIDE},
                              .out = {SIDE, SIDE},
                              .channels_in = WIDTH,
                              .window = {3, 3, 1, 1, 1}};
    const int64_t rows = SAMPLES * SIDE * SIDE;
    float *x = normals(rows * WIDTH, 8, 1.0);
    void *y = elements(b, rows * WIDTH, x);
    void *patches = blank(b, rows * WIDTH * TAPS);
    void *mean = blank(b, SAMPLES * WIDTH * TAPS);
    b->layer_norm(rows, WIDTH, 1e-6, y, NULL, NULL, y);
    b->patches(&shape, y, 0, SAMPLES * SIDE, patches);
    b->mean_positions(SAMPLES, SIDE * SIDE, WIDTH * TAPS, patches, mean);
    b->unit_length(SAMPLES, WIDTH * TAPS, mean, mean);
    *count = SAMPLES * WIDTH * TAPS;
    double *out = results(b, *count, mean);
    void *const owned[] = {x, y, patches, mean};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
    return out;
}

static double *run_cross_entropy(const backend *b, int64_t *count)
{
    enum { ROWS = 200, VOCABULARY = 999 };
    static const int32_t target[ROWS] = {1, 5, 7};
    float *x = normals(ROWS * VOCABULARY, 5, 1.0);
    void *logits = elements(b, ROWS * VOCABULARY, x);
    double *out = doubles(ROWS, NAN);
    b->cross_entropy(ROWS, VOCABULARY, logits, target, out);
    *count = ROWS;
    memory_free(logits);
    memory_free(x);
    return out;
}

static double *run_gram_of(const backend *b, int64_t rows, int64_t width, int64_t *count)
{
    float *x = normals(rows * width, 6, 1.0);
    void *bx = elements(b, rows * width, x);
    double *out = doubles(width * width, 0.0);
    assert_ok(b->gram(rows, width, bx, width, out));
    b->column_sums(rows, width, bx, width, out, out + width);
    *count = width * width;
    memory_free(bx);
    memory_free(x);
    return out;
}

static double *run_narrow_gram(const backend *b, int64_t *count)
{
    return run_gram_of(b, 10007, 13, count);
}

static double *run_wide_gram(const backend *b, int64_t *count)
{
    return run_gram_of(b, 50, 900, count);
}

/* Gram, Cholesky and solve. */
static double *run_ridge(const backend *b, int64_t *count)
{
    enum { N = 400, ROWS = 300 };
    double *a = run_gram_of(b, N + 50, N, count);
    double *right = doubles(ROWS * N, 1.0);
    for (int64_t i = 0; i < N; i++) {
        a[i * N + i] += (double)N;
    }
    assert_int_equal(b->cholesky(N, a, N), -1);
    b->cholesky_solve(ROWS, N, a, N, right, N);
    b->gemm(true, false, N, N, ROWS, 1.0, right, N, right, N, 0.0, a, N);
    *count = N * N;
    memory_free(right);
    return a;
}

static const slot_run runs[] = {run_linear,      run_attention, run_rows,
                                run_images,      run_tokens,    run_cross_entropy,
                                run_narrow_gram, run_wide_gram, run_ridge};

static double *run_with(const backend *b, slot_run run, int threads, int64_t *count)
{
    const int before = parallel_threads();
    parallel_set_threads(threads);
    double *out = run(b, count);
    parallel_set_threads(before);
    return out;
}

static void test_thread_counts_agree_but_for_rounding(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            int64_t count = 0;
            double *one = run_with(b, runs[i], 1, &count);
            for (int threads = 2; threads <= 5; threads++) {
                double *many = run_with(b, runs[i], threads, &count);
                double *scale = doubles(count, norm_of(count, one) / sqrt((double)count));
                assert_all_near(b, "on several threads", count, many, one, scale, 1e-5);
                memory_free(scale);
                memory_free(many);
            }
            memory_free(one);
        }
    }
}

static void test_equal_thread_counts_give_equal_bits(void **state)
{
    (void)state;
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            for (int threads = 1; threads <= 3; threads++) {
                int64_t count = 0;
                double *first = run_with(b, runs[i], threads, &count);
                double *second = run_with(b, runs[i], threads, &count);
                assert_memory_equal(first, second, (size_t)count * sizeof *first);
                memory_free(second);
                memory_free(first);
            }
        }
    }
}

typedef struct caller {
    const backend *b;
    slot_run run;
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

/* Each slot from all callers at once, and next to other slots. */
static void test_callers_do_not_disturb_each_other(void **state)
{
    (void)state;
    enum { CALLERS = 4, RUNS = sizeof runs / sizeof runs[0] };
    FOR_EACH_BACKEND(b)
    {
        for (size_t i = 0; i < RUNS; i++) {
            pthread_t threads[CALLERS];
            caller callers[CALLERS] = {0};
            for (size_t t = 0; t < CALLERS; t++) {
                callers[t] = (caller){.b = b, .run = runs[(i + t / 2) % RUNS]};
                assert_int_equal(pthread_create(&threads[t], NULL, call_repeatedly, &callers[t]),
                                 0);
            }
            for (size_t t = 0; t < CALLERS; t++) {
                assert_int_equal(pthread_join(threads[t], NULL), 0);
            }
            for (size_t t = 0; t < CALLERS; t++) {
                int64_t count = 0;
                double *alone = run_with(b, callers[t].run, 1, &count);
                assert_memory_equal(alone, callers[t].out, (size_t)count * sizeof *alone);
                memory_free(alone);
                memory_free(callers[t].out);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_counts_agree_but_for_rounding),
        cmocka_unit_test(test_equal_thread_counts_give_equal_bits),
        cmocka_unit_test(test_callers_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
