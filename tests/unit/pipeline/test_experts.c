/* Runs on networks with experts: rows count by their shares, experts that no token reaches, experts
 * of different widths, and routers that overflow. */
#include "lab.h"

#include "format/weights/checkpoint.h"
#include "pipeline/network/observation.h"
#include "pipeline/request/consumer_tail.h"

#include <grail/gram.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAST = 3 }; /* of the 4 experts of the golden mixtral */

/* -- rows -------------------------------------------------------------------------------------- */

static int node_with(const graph *g, const char *weight)
{
    const int parameter = graph_find_parameter(g, weight);
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].weight == parameter) {
            return n;
        }
    }
    fail_msg("no node has '%s'", weight);
    return 0;
}

typedef struct probe {
    grail_model *model;
    matrix_pool *pool;
    parameter_store *store;
    execution *e;
} probe;

/* Runs the model on some ids up to the node that has `weight`, whose index it returns. */
static int probe_open(probe *p, const char *name, const char *weight, bool *pinned)
{
    static const int32_t ids[] = {3, 9, 27, 81, 5, 15, 45, 39, 21, 63, 70, 2, 6, 18, 54, 66};
    enum { COUNT = sizeof ids / sizeof ids[0] };
    *p = (probe){0};
    assert_ok(grail_model_open(lab_golden(name), &p->model));
    const graph *g = p->model->graph;
    const int n = node_with(g, weight);
    assert_ok(matrix_pool_create(backend_reference(), &p->pool));
    assert_ok(parameter_store_create(p->model, backend_reference(), NULL, &p->store));
    assert_ok(execution_create(g, backend_reference(), p->pool, &p->e));
    memset(pinned, 1, 4096 * sizeof pinned[0]);
    p->e->pinned = pinned;
    assert_ok(execution_begin(p->e, sequence_batch(1, COUNT), (batch_input){.ids = ids}));
    assert_ok(execution_run(p->e, p->store, 0, n));
    return n;
}

static void probe_close(probe *p)
{
    execution_free(p->e);
    parameter_store_free(p->store);
    matrix_pool_free(p->pool);
    grail_model_close(p->model);
}

/* The scores that made the shares which a consumer's rows are put back by. */
static matrix scores_of(const probe *p, int consumer)
{
    const graph *g = p->model->graph;
    const consumer_tail tail = consumer_tail_of(g, consumer);
    assert_true(tail.put != GRAPH_NONE);
    const node *put = &g->nodes[tail.put];
    assert_int_equal(tail.skip, put->inputs[2]);
    return execution_value(p->e, g->nodes[g->value_source[put->inputs[1]]].inputs[0]);
}

/* root[rows] of a consumer, which has these factors. */
static void read_factors(const probe *p, int consumer, int64_t rows, double *root)
{
    row_factors factors = {0};
    const consumer_tail tail = consumer_tail_of(p->model->graph, consumer);
    assert_ok(row_factors_find(p->e, &tail, &factors));
    assert_true(factors.exist && factors.of.columns == rows);
    assert_ok(matrix_download(factors.of, root));
    row_factors_fini(&factors);
}

/* In the golden mixtral the softmax over two scores is that of their difference. */
TEST(rows_of_an_expert_count_by_their_shares)
{
    static bool pinned[4096];
    enum { EXPERTS = 4, ROWS = 16 };
    probe p;
    double root[ROWS];
    double scores[ROWS * EXPERTS];
    const int n =
        probe_open(&p, "mixtral", "model.layers.1.mlp.experts.2.down_proj.weight", pinned);
    const int64_t rows = execution_rows(p.e, p.model->graph->nodes[n].inputs[0]);
    assert_true(rows > 0 && rows < ROWS);
    read_factors(&p, n, rows, root);
    assert_ok(matrix_download(scores_of(&p, n), scores));
    int64_t found = 0;
    for (int r = 0; r < ROWS; r++) {
        const double *row = scores + r * EXPERTS;
        double best = -INFINITY;
        int before = 0;
        for (int o = 0; o < EXPERTS; o++) {
            before += row[o] > row[2] ? 1 : 0;
            best = o != 2 && row[o] > best ? row[o] : best;
        }
        if (before < 2) {
            assert_true(found < rows);
            assert_near(root[found++], 1.0 / (1.0 + exp(best - row[2])), 1e-9);
        }
    }
    assert_int_equal(found, rows);
    probe_close(&p);
}

TEST(rows_of_the_shared_expert_count_by_its_gate)
{
    static bool pinned[4096];
    probe p;
    double root[16];
    double gate[16];
    const int n =
        probe_open(&p, "qwen2-moe", "model.layers.0.mlp.shared_expert.down_proj.weight", pinned);
    const graph *g = p.model->graph;
    const consumer_tail tail = consumer_tail_of(g, n);
    assert_int_equal(tail.put, GRAPH_NONE);
    assert_int_equal(tail.skip, g->nodes[graph_sole_reader(g, g->nodes[n + 1].output)].inputs[0]);
    read_factors(&p, n, 16, root);
    const int linear = node_with(g, "model.layers.0.mlp.shared_expert_gate.weight");
    assert_ok(matrix_download(execution_value(p.e, g->nodes[linear].output), gate));
    for (int r = 0; r < 16; r++) {
        assert_near(root[r], 1.0 / (1.0 + exp(-gate[r])), 1e-9);
    }
    probe_close(&p);
}

/* -- runs -------------------------------------------------------------------------------------- */

/* A mixtral of one expert per token, whose last one's score is between two others'. */
static void write_unreached(const lab *l, const char *name)
{
    OWNED(lab_model) m;
    lab_read(&m, lab_golden("mixtral"));
    lab_set_integer(&m, "num_experts_per_tok", 1);
    lab_tensor *router = lab_find(&m, 1, "block_sparse_moe.gate.weight");
    const int64_t width = router->shape[1];
    for (int64_t i = 0; i < width; i++) {
        router->values[LAST * width + i] = (router->values[i] + router->values[width + i]) / 2.0F;
    }
    lab_write(&m, lab_path(l, name), GRAIL_DTYPE_F32);
}

/* Every column of the narrow matrix is one of the dense one, in their order. */
static void assert_some_columns(const lab_tensor *dense, const lab_tensor *narrow)
{
    int64_t column = 0;
    assert_int_equal(dense->shape[0], narrow->shape[0]);
    for (int64_t k = 0; k < narrow->shape[1]; k++, column++) {
        bool same = false;
        for (; column < dense->shape[1] && !same; column += same ? 0 : 1) {
            same = true;
            for (int64_t r = 0; r < dense->shape[0]; r++) {
                same = same && dense->values[r * dense->shape[1] + column] ==
                                   narrow->values[r * narrow->shape[1] + k];
            }
        }
        assert_true(same);
    }
}

LAB_TEST(an_expert_that_no_token_reaches_is_cut_plainly_and_named)
{
    static const char unreached[] = "model.layers.1.mlp.experts.3.down_proj";
    static const char *const modes[] = {"none", "grail", "full"};
    write_unreached(l, "dense");
    for (int i = 0; i < 3; i++) {
        OWNED(lab_model) dense;
        OWNED(lab_model) narrow;
        grail_compress_options options =
            lab_options(l, lab_path(l, "dense"), lab_path(l, modes[i]));
        options.fit.compensate = modes[i];
        options.cut.selector = i == 2 ? "obs" : "wanda";
        assert_ok(lab_compress(&options));
        json_t *report = read_json(options.output.path, "report.json");
        const json_t *sites = json_object_get(report, "sites");
        int missed = 0;
        for (size_t s = 0; s < json_array_size(sites); s++) {
            const json_t *one = json_array_get(sites, s);
            const char *fallback = json_string_value(json_object_get(one, "fallback"));
            const bool is_last =
                strcmp(json_string_value(json_object_get(one, "site")), unreached) == 0;
            assert_int_equal(strcmp(fallback, "not reached") == 0, is_last);
            missed += is_last ? 1 : 0;
            assert_true(json_is_false(json_object_get(one, "tied")));
        }
        assert_int_equal(missed, 1);
        json_decref(report);
        lab_read(&dense, lab_path(l, "dense"));
        lab_read(&narrow, options.output.path);
        assert_some_columns(lab_find(&dense, 1, "block_sparse_moe.experts.3.w2.weight"),
                            lab_find(&narrow, 1, "block_sparse_moe.experts.3.w2.weight"));
    }
}

static void write_plan(const lab *l, const char *name, const char *format)
{
    FILE *file = fopen(lab_path(l, name), "w");
    assert_non_null(file);
    fprintf(file, "{\"grail_plan\": 1, \"sites\": [");
    for (int e = 0; e < 4; e++) {
        fprintf(file, format, e > 0 ? ", " : "", e, 4 + 2 * e);
    }
    fprintf(file, "]}");
    assert_int_equal(fclose(file), 0);
}

/* grail opens what it wrote; of stacked experts it is refused before anything runs. */
LAB_TEST(experts_may_have_different_widths)
{
    static const char format[] =
        "%s{\"site\": \"model.layers.1.mlp.experts.%d.down_proj\", \"kept\": %d}";
    write_plan(l, "plan.json", format);
    const char *model = lab_f32(l, "olmoe", "dense");
    grail_compress_options options = lab_options(l, model, lab_path(l, "out"));
    grail_compress_options_init(&options);
    options.read.model = model;
    options.read.text.path = l->calibration;
    options.output.path = lab_path(l, "out");
    options.amount.plan = lab_path(l, "plan.json");
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    const grail_comparison c = compare_models(model, options.output.path, "cpu");
    assert_int_equal(c.identity_checked, 1);
    assert_near(c.identity_max_abs, 0.0, 1e-5);
    options.read.model = lab_golden("granitemoe");
    options.output.path = lab_path(l, "refused");
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "layer 1: its experts lie in one tensor and cannot have different widths");
}

/* The dense and the narrowed network choose experts apart, but fits are of the same rows. */
LAB_TEST(fits_are_of_the_rows_that_the_narrowed_network_chooses)
{
    static const char *const models[] = {"mixtral", "qwen2-moe", "granitemoe"};
    for (int i = 0; i < 3; i++) {
        grail_site_report sites[32];
        grail_compress_options options =
            lab_options(l, lab_golden(models[i]), lab_path(l, models[i]));
        options.fit.refit = "all";
        options.fit.token_weights = "stream";
        const int count = lab_compress_reports(&options, sites, 32);
        for (int s = 0; s < count; s++) {
            assert_true(sites[s].kept == sites[s].units || lab_is_repaired(&sites[s]));
        }
    }
}

LAB_TEST(files_of_statistics_are_refused)
{
    const grail_gram_options where = {.path = lab_path(l, "statistics.gguf")};
    grail_compress_options run = lab_options(l, lab_golden("mixtral"), NULL);
    assert_fails(grail_gram_write(&run, &where, NULL), GRAIL_ERROR_UNSUPPORTED,
                 "block 0 has experts, whose rows count by their shares");
}

LAB_TEST(a_router_that_overflows_is_named)
{
    lab_model m;
    lab_read(&m, lab_golden("mixtral"));
    lab_tensor *router = lab_find(&m, 1, "block_sparse_moe.gate.weight");
    for (int64_t i = 0; i < router->shape[1]; i++) {
        router->values[i] = 3e38F;
    }
    lab_write(&m, lab_path(l, "dense"), GRAIL_DTYPE_F32);
    grail_compress_options options = lab_options(l, lab_path(l, "dense"), lab_path(l, "overflows"));
    assert_fails(lab_compress(&options), GRAIL_ERROR_NUMERIC,
                 "block 1: the output of 'model.layers.1.mlp.gate.weight' is NaN or infinite");
    router->values[5] = NAN;
    lab_write(&m, lab_path(l, "nan"), GRAIL_DTYPE_F32);
    lab_fini(&m);
    options.read.model = lab_path(l, "nan");
    options.output.path = lab_path(l, "nan-out");
    assert_fails(lab_compress(&options), GRAIL_ERROR_NUMERIC,
                 "model.layers.1.block_sparse_moe.gate.weight");
}
