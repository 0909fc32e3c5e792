/* Gram matrix of f32 activations: --width 4096 --rows 8192 --runs 5 --bf16 0 (1: bf16, 2:
 * bf16-gram) --threads N. The flops
 * are those of the symmetric product, rows * width * (width + 1). */
#include "bench.h"

typedef struct gram_case {
    int64_t rows;
    int64_t width;
    matrix x;
    matrix g;
} gram_case;

static void add_gram(void *context)
{
    const gram_case *c = context;
    bench_check(matrix_gram(c->x, c->g));
}

int main(int count, char **arguments)
{
    bench_set_threads(count, arguments);
    bench_set_precision(count, arguments);
    gram_case c = {.rows = bench_option(count, arguments, "rows", 8192),
                   .width = bench_option(count, arguments, "width", 4096)};
    c.x = bench_normal_matrix(c.rows, c.width, 1);
    c.g = bench_matrix(GRAIL_DTYPE_F64, c.width, c.width);
    bench_check(matrix_zero(c.g));
    const double flops = (double)c.rows * (double)c.width * (double)(c.width + 1);
    json_t *report = json_pack("{s:s, s:I, s:I}", "bench", "gram", "rows", (json_int_t)c.rows,
                               "width", (json_int_t)c.width);
    bench_run(report, bench_option(count, arguments, "runs", 5), flops, BENCH_SGEMM, NULL, add_gram,
              &c);
    bench_print(report);
    matrix_free(&c.g);
    matrix_free(&c.x);
    return 0;
}
