/* Selection by removal cost at one site: a random Gram matrix of order --width 1024 (condition
 * about 40), units of --features 1, of which --keep 70 percent stay, read by --outputs 512 rows.
 * --selector obs (with a random target), gram-css, slimgpt or ziplm; all four without it. --runs 1
 * --threads N, on --backend NAME. One report for each, in useful f64 flops:
 *
 *   costs   n^3 / 3 Cholesky, 2 n^3 / 3 inverse, O n^2 W^T W, 2 O n^2 refit to the target
 *   gains   2 O n^2 W G, O n^2 its square
 *   both    3 u r^2 for each unit of u features that is taken when r features are left behind it:
 *           half of the symmetric updates of A (rank u) and M (rank 2 u)
 *
 * The peak is that of matrix_gemm on square matrices of up to 4096 rows, just before and after each
 * run. Ratios are by the clock and by processor time, which other work on the machine disturbs
 * less. */
#include "bench.h"

#include "base/parallel.h"
#include "reduce/selector.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct select_case {
    int64_t units, features, kept, outputs;
    int64_t width; /* n */
    matrix gram;   /* [n, n] f64 */
    matrix target; /* [O, n] f64 cross sums */
    float *weight; /* [O, n] */
    double *means; /* zeros */
    graph graph;
    node consumer;
    graph_parameter parameter;
    site_end end;
    site site;
    input_statistics input;
    site_view view;
} select_case;

static grail_status borrow_weight(void *context, int parameter, const float **out, float **owned)
{
    (void)parameter;
    *out = context;
    *owned = NULL;
    return GRAIL_OK;
}

static void describe(select_case *c)
{
    c->graph = (graph){.nodes = &c->consumer, .node_count = 1, .parameters = &c->parameter};
    c->consumer = (node){.kind = NODE_LINEAR, .bias = GRAPH_NONE};
    c->parameter = (graph_parameter){.rank = 2, .shape = {c->outputs, c->width}};
    c->end = (site_end){.features_per_unit = c->features};
    c->site = (site){.kind = c->features > 1 ? SITE_HEADS : SITE_FFN,
                     .units = c->units,
                     .groups = 1,
                     .subunits = 1,
                     .consumers = &c->end,
                     .consumer_count = 1};
    c->view = (site_view){.graph = &c->graph,
                          .site = &c->site,
                          .kept = c->kept,
                          .backend = c->gram.owner,
                          .weights = {.borrow = borrow_weight, .context = c->weight},
                          .inputs = &c->input,
                          .input_count = 1};
}

/* X^T X + n / 10 I for random X[n, n] */
static matrix random_gram(int64_t n)
{
    const matrix gram = bench_matrix(GRAIL_DTYPE_F64, n, n);
    matrix x = bench_normal_matrix(n, n, 1);
    bench_check(matrix_zero(gram));
    bench_check(matrix_gram(x, gram));
    bench_check(matrix_shift_diagonal(0.1 * (double)n, gram));
    matrix_free(&x);
    return gram;
}

static void fill(select_case *c)
{
    matrix random = bench_normal_matrix(c->outputs, c->width, 2);
    bench_check(memory_new(&c->weight, (size_t)matrix_count(random), sizeof c->weight[0]));
    bench_check(memory_new(&c->means, (size_t)(c->width + c->outputs), sizeof c->means[0]));
    bench_check(matrix_download(random, c->weight));
    c->gram = random_gram(c->width);
    c->target = bench_matrix(GRAIL_DTYPE_F64, c->outputs, c->width);
    matrix_free(&random);
    random = bench_normal_matrix(c->outputs, c->width, 3);
    bench_check(matrix_zero(c->target));
    bench_check(matrix_add_scaled((double)c->width, random, c->target));
    matrix_free(&random);
}

/* A selector takes over what it is given. */
static void give_statistics(bool target, select_case *c)
{
    c->input = (input_statistics){.width = c->width, .weight = 1.0, .means = c->means};
    c->input.gram = bench_matrix(GRAIL_DTYPE_F64, c->width, c->width);
    bench_check(matrix_copy(c->gram, c->input.gram));
    if (target) {
        c->input.cross = bench_matrix(GRAIL_DTYPE_F64, c->outputs, c->width);
        bench_check(matrix_copy(c->target, c->input.cross));
        c->input.target_means = c->means;
    }
}

/* Seconds by the clock and of all threads' processor time. */
typedef struct lap {
    double clock, processor;
} lap;

static lap now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (lap){bench_now(), (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
}

static lap since(lap start)
{
    const lap end = now();
    return (lap){end.clock - start.clock, end.processor - start.processor};
}

/* Times a square product; `flops` are added. */
static lap time_product(int64_t width, double *flops)
{
    enum { LARGEST = 4096 };
    const int64_t n = width < LARGEST ? width : LARGEST;
    matrix a = bench_matrix(GRAIL_DTYPE_F64, n, n);
    matrix b = bench_matrix(GRAIL_DTYPE_F64, n, n);
    matrix c = bench_matrix(GRAIL_DTYPE_F64, n, n);
    bench_check(matrix_zero(a));
    bench_check(matrix_zero(b));
    bench_check(matrix_gemm(false, false, 1.0, a, b, 0.0, c)); /* to warm up */
    const lap start = now();
    bench_check(matrix_gemm(false, false, 1.0, a, b, 0.0, c));
    const lap spent = since(start);
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&c);
    *flops += 2.0 * (double)n * (double)n * (double)n;
    return spent;
}

static double useful_flops(const select_case *c, bool gains, bool target)
{
    const double n = (double)c->width;
    const double weights = (double)c->outputs * n * n;
    double flops = gains ? 3.0 * weights : n * n * n + weights + (target ? 2.0 * weights : 0.0);
    const int64_t taken = gains ? c->kept : c->units - c->kept;
    for (int64_t i = 0; i < taken; i++) {
        const double left = (double)((c->units - i - 1) * c->features);
        flops += 3.0 * (double)c->features * left * left;
    }
    return flops;
}

static lap time_selection(select_case *c, const selector *rule)
{
    grail_reducer *reducer = NULL;
    const bool target = (rule->needs(&c->site) & NEEDS_TARGET) != 0;
    give_statistics(target, c);
    const lap start = now();
    bench_check(rule->decide(&c->view, &reducer));
    const lap spent = since(start);
    grail_reducer_free(reducer);
    matrix_free(&c->input.gram);
    matrix_free(&c->input.cross);
    return spent;
}

static void report_selection(select_case *c, const selector *rule, int64_t runs)
{
    const bool gains = strcmp(rule->name, "gram-css") == 0;
    const bool target = (rule->needs(&c->site) & NEEDS_TARGET) != 0;
    const double flops = useful_flops(c, gains, target);
    for (int64_t run = 0; run < runs; run++) {
        double product_flops = 0.0;
        const lap before = time_product(c->width, &product_flops);
        const lap spent = time_selection(c, rule);
        const lap after = time_product(c->width, &product_flops);
        const double peak = product_flops / (before.clock + after.clock);
        const double processor_peak = product_flops / (before.processor + after.processor);
        bench_print(json_pack("{s:s, s:s, s:I, s:I, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                              "bench", "select", "selector", rule->name, "width",
                              (json_int_t)c->width, "kept", (json_int_t)c->kept, "outputs",
                              (json_int_t)c->outputs, "threads", parallel_threads(), "flops", flops,
                              "seconds", spent.clock, "processor_seconds", spent.processor,
                              "gflops", 1e-9 * flops / spent.clock, "peak_gflops", 1e-9 * peak,
                              "ratio", flops / spent.clock / peak, "processor_ratio",
                              flops / spent.processor / processor_peak));
    }
}

/* Whether "--selector NAME" names another one. */
static bool is_left_out(int count, char **arguments, const char *name)
{
    for (int i = 1; i + 1 < count; i++) {
        if (strcmp(arguments[i], "--selector") == 0) {
            return strcmp(arguments[i + 1], name) != 0;
        }
    }
    return false;
}

int main(int count, char **arguments)
{
    static const char *const names[] = {"obs", "gram-css", "slimgpt", "ziplm"};
    bench_set_threads(count, arguments);
    bench_set_backend(count, arguments);
    select_case c = {.features = bench_option(count, arguments, "features", 1),
                     .outputs = bench_option(count, arguments, "outputs", 512)};
    c.units = bench_option(count, arguments, "width", 1024) / c.features;
    c.width = c.units * c.features;
    c.kept = c.units * bench_option(count, arguments, "keep", 70) / 100;
    fill(&c);
    describe(&c);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const selector *rule = NULL;
        if (!is_left_out(count, arguments, names[i])) {
            bench_check(selector_from_name(names[i], &rule));
            report_selection(&c, rule, bench_option(count, arguments, "runs", 1));
        }
    }
    matrix_free(&c.gram);
    matrix_free(&c.target);
    memory_free(c.weight);
    memory_free(c.means);
    return 0;
}
