/* Causal attention in f32, or of bf16: --length 2048 --heads 32 --kv-heads 8 --head-dim 64 --window
 * 0
 * --sequences 1 --runs 5 --bf16 0 --threads N. The flops are those of the scores and weighted sums
 * that are visible. */
#include "bench.h"

typedef struct attention_case {
    attention_shape shape;
    matrix q;
    matrix k;
    matrix v;
    matrix out;
} attention_case;

static void attend(void *context)
{
    const attention_case *c = context;
    bench_check(matrix_attention(&c->shape, c->q, c->k, c->v, c->out, no_matrix, no_matrix));
}

/* Pairs of query and key that are not masked, in one head of one sequence. */
static double visible_pairs(const attention_shape *s)
{
    double pairs = 0.0;
    for (int64_t i = 0; i < s->length; i++) {
        pairs += (double)(s->window > 0 && i >= s->window ? s->window : i + 1);
    }
    return pairs;
}

int main(int count, char **arguments)
{
    bench_set_threads(count, arguments);
    bench_set_precision(count, arguments);
    attention_case c = {.shape = {.sequences = bench_option(count, arguments, "sequences", 1),
                                  .length = bench_option(count, arguments, "length", 2048),
                                  .query_heads = bench_option(count, arguments, "heads", 32),
                                  .kv_heads = bench_option(count, arguments, "kv-heads", 8),
                                  .head_dim = bench_option(count, arguments, "head-dim", 64),
                                  .window = bench_option(count, arguments, "window", 0),
                                  .scale = 0.125}};
    const attention_shape *s = &c.shape;
    const int64_t rows = s->sequences * s->length;
    c.q = bench_normal_matrix(rows, s->query_heads * s->head_dim, 1);
    c.k = bench_normal_matrix(rows, s->kv_heads * s->head_dim, 2);
    c.v = bench_normal_matrix(rows, s->kv_heads * s->head_dim, 3);
    c.out = bench_matrix(GRAIL_DTYPE_F32, rows, s->query_heads * s->head_dim);
    const double flops =
        4.0 * visible_pairs(s) * (double)(s->sequences * s->query_heads) * (double)s->head_dim;
    json_t *report =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "bench", "attention", "sequences",
                  (json_int_t)s->sequences, "length", (json_int_t)s->length, "heads",
                  (json_int_t)s->query_heads, "kv_heads", (json_int_t)s->kv_heads, "head_dim",
                  (json_int_t)s->head_dim, "window", (json_int_t)s->window);
    bench_run(report, bench_option(count, arguments, "runs", 5), flops, BENCH_SGEMM, NULL, attend,
              &c);
    bench_print(report);
    matrix_free(&c.out);
    matrix_free(&c.v);
    matrix_free(&c.k);
    matrix_free(&c.q);
    return 0;
}
