/* Rounding of W[--outputs 4096, --width 11008] to --type Q4_0 (or Q8_0, Q4_K, W4_G128) with error
 * feedback: the factorisation of its inputs' Gram matrix, and the rows. --runs 3 --threads N. Two
 * reports, in f64 flops: width^3 / 3 and outputs width^2. */
#include "bench.h"

#include "solve/feedback.h"

#include <string.h>

typedef struct feedback_case {
    int64_t outputs, width;
    grail_dtype type;
    matrix original; /* [width, width] */
    matrix gram;     /* what feedback_init takes over */
    feedback rounding;
    float *first, *weights; /* [outputs, width] as they come, and rounded */
    void *stored;
} feedback_case;

static void copy_gram(void *context)
{
    feedback_case *c = context;
    feedback_fini(&c->rounding);
    c->gram = bench_matrix(GRAIL_DTYPE_F64, c->width, c->width);
    bench_check(matrix_copy(c->original, c->gram));
}

static void factorise(void *context)
{
    feedback_case *c = context;
    bench_check(feedback_init(&c->gram, &c->rounding));
}

static void copy_weights(void *context)
{
    const feedback_case *c = context;
    memcpy(c->weights, c->first, (size_t)(c->outputs * c->width) * sizeof c->first[0]);
}

static void round_rows(void *context)
{
    const feedback_case *c = context;
    bench_check(feedback_round(&c->rounding, c->type, c->outputs, c->weights, c->stored));
}

/* X^T X of random X[n / 4, n], which damping alone makes definite. */
static matrix gram_matrix(int64_t n)
{
    matrix gram = bench_matrix(GRAIL_DTYPE_F64, n, n);
    matrix x = bench_normal_matrix(n / 4, n, 1);
    bench_check(matrix_zero(gram));
    bench_check(matrix_gram(x, gram));
    matrix_free(&x);
    return gram;
}

static grail_dtype type_option(int count, char **arguments)
{
    static const grail_dtype types[] = {GRAIL_DTYPE_Q4_0, GRAIL_DTYPE_Q8_0, GRAIL_DTYPE_Q4_K,
                                        GRAIL_DTYPE_W4_G128};
    for (int i = 1; i + 1 < count; i += 2) {
        for (size_t t = 0; strcmp(arguments[i], "--type") == 0 && t < 4; t++) {
            if (strcmp(arguments[i + 1], grail_dtype_name(types[t])) == 0) {
                return types[t];
            }
        }
    }
    return types[0];
}

static void allocate(feedback_case *c)
{
    size_t bytes = 0;
    const int64_t elements = c->outputs * c->width;
    matrix normal = bench_normal_matrix(c->outputs, c->width, 2);
    bench_check(memory_new_unset(&c->first, (size_t)elements, sizeof c->first[0]));
    bench_check(memory_new_unset(&c->weights, (size_t)elements, sizeof c->weights[0]));
    if (!dtype_bytes(c->type, elements, &bytes)) {
        bench_check(error_set(GRAIL_ERROR_SHAPE, "the width does not fill blocks"));
    }
    bench_check(memory_new_unset((unsigned char **)&c->stored, bytes, 1));
    bench_check(matrix_download_f32(normal, c->first));
    matrix_free(&normal);
}

static json_t *report_of(const feedback_case *c, const char *name)
{
    return json_pack("{s:s, s:s, s:I, s:I}", "bench", name, "type", grail_dtype_name(c->type),
                     "width", (json_int_t)c->width, "outputs", (json_int_t)c->outputs);
}

int main(int count, char **arguments)
{
    bench_set_threads(count, arguments);
    feedback_case c = {.outputs = bench_option(count, arguments, "outputs", 4096),
                       .width = bench_option(count, arguments, "width", 11008),
                       .type = type_option(count, arguments)};
    const int64_t runs = bench_option(count, arguments, "runs", 3);
    const double n = (double)c.width;
    c.original = gram_matrix(c.width);
    allocate(&c);
    json_t *report = report_of(&c, "feedback_factor");
    bench_run(report, runs, n * n * n / 3.0, BENCH_DGEMM, copy_gram, factorise, &c);
    bench_print(report);
    report = report_of(&c, "feedback_round");
    bench_run(report, runs, (double)c.outputs * n * n, BENCH_DGEMM, copy_weights, round_rows, &c);
    bench_print(report);
    feedback_fini(&c.rounding);
    matrix_free(&c.original);
    memory_free(c.first);
    memory_free(c.weights);
    memory_free(c.stored);
    return 0;
}
