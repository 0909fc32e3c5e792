#include "planning/judge.h"

#include "backend/operations.h"
#include "eval/comparison.h"
#include "graph/operators.h"
#include "pipeline/compression.h"
#include "pipeline/network/carry.h"
#include "pipeline/ranks.h"
#include "planning/shared.h"

/* Rows whose outputs are computed at once: a large vocabulary takes much memory. */
enum { PANEL_ROWS = 256 };

/* The outputs of both networks, a panel of rows after the other. */
typedef struct judgement {
    calibration_network *network;
    comparison_sums *sums; /* of the chunk that is judged */
} judgement;

/* The head's product for some rows of its input. */
static grail_status apply_head(const network_run *run, const node *head, int64_t begin, matrix out)
{
    const parameter_entry *weight = NULL;
    const parameter_entry *bias = NULL;
    const matrix x = execution_value(run->execution, head->inputs[0]);
    CHECK(parameter_store_get(run->parameters, head->weight, &weight));
    if (head->bias != GRAPH_NONE) {
        CHECK(parameter_store_get(run->parameters, head->bias, &bias));
    }
    return matrix_linear(matrix_rows(x, begin, out.rows), weight->values,
                         bias == NULL ? no_matrix : bias->values, out);
}

/* A network that ends in a Linear: its outputs are made panel by panel. */
static grail_status add_through_head(judgement *j, const node *head)
{
    grail_status status = GRAIL_OK;
    const calibration_network *n = j->network;
    matrix dense = no_matrix;
    matrix narrow = no_matrix;
    const int64_t rows = execution_value(n->dense.execution, head->inputs[0]).rows;
    const int64_t width = n->request->graph->parameters[head->weight].shape[0];
    const int64_t panel = rows < PANEL_ROWS ? rows : PANEL_ROWS;
    backend *b = n->request->backend;
    TRY(matrix_new(b, backend_type(b), panel, width, &dense));
    TRY(matrix_new(b, backend_type(b), panel, width, &narrow));
    for (int64_t begin = 0; begin < rows; begin += panel) {
        const int64_t count = begin + panel < rows ? panel : rows - begin;
        const matrix left = matrix_rows(dense, 0, count);
        const matrix right = matrix_rows(narrow, 0, count);
        TRY(apply_head(&n->dense, head, begin, left));
        TRY(apply_head(&n->current, head, begin, right));
        TRY(comparison_add(left, right, j->sums));
    }
out:
    matrix_free(&dense);
    matrix_free(&narrow);
    return status;
}

static grail_status judge_batch(judgement *j, int64_t batch)
{
    const calibration_network *n = j->network;
    const graph *g = n->request->graph;
    const node *last = &g->nodes[g->node_count - 1];
    /* A head that was fitted to the dense network's output has been run there already. */
    const bool through_head = node_is_linear(last) && n->dense.stream.position < g->node_count &&
                              n->current.stream.position < g->node_count;
    const int end = through_head ? g->node_count - 1 : g->node_count;
    CHECK(run_batch(n, &j->network->dense, batch, end));
    CHECK(run_batch(n, &j->network->current, batch, end));
    return through_head
               ? add_through_head(j, last)
               : comparison_add(execution_value(n->dense.execution, last->output),
                                execution_value(n->current.execution, last->output), j->sums);
}

static grail_status check_batches(const compression_request *request)
{
    for (int64_t batch = 0; batch < request->samples->batch_count; batch++) {
        if (request_judges_batch(request, batch)) {
            return GRAIL_OK;
        }
    }
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT,
                  "the budgets search and divergence keep a quarter of the samples apart to judge "
                  "widths, but "
                  "%lld samples make only "
                  "%lld batches, expected 4 or more; give more samples, or another budget",
                  (long long)request->samples->count, (long long)request->samples->batch_count);
    return error_about(status, "read.samples budget");
}

/* The chunks of this rank: of[chunk]. */
static grail_status judge_own(judgement *j, comparison_sums *of)
{
    const compression_request *request = j->network->request;
    const int64_t count = calibration_chunk_count(request->samples);
    for (int64_t i = comm_rank(request->comm); i < count; i += comm_size(request->comm)) {
        const calibration_chunk chunk = calibration_chunk_at(request->samples, i);
        j->sums = &of[i];
        for (int64_t batch = chunk.first; batch < chunk.end; batch++) {
            CHECK(request_judges_batch(request, batch) ? judge_batch(j, batch) : GRAIL_OK);
        }
    }
    return GRAIL_OK;
}

/* The sums of chunks are added in their order, whoever judged them. */
static grail_status judge_all(judgement *j, comparison_sums *out)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = j->network->request;
    const int64_t count = calibration_chunk_count(request->samples);
    comparison_sums *of = NULL;
    TRY(memory_new(&of, (size_t)count, sizeof of[0]));
    TRY(comm_settle(request->comm, judge_own(j, of)));
    for (int64_t i = 0; i < count; i++) {
        TRY(comm_broadcast_next(request->comm, (int)(i % comm_size(request->comm)), &of[i],
                                sizeof of[i]));
        out->kl += of[i].kl;
        out->rows += of[i].rows;
        out->distance += of[i].distance;
        out->energy += of[i].energy;
    }
out:
    memory_free(of);
    return status;
}

grail_status judge_divergence(calibration_network *network, double *out)
{
    const batch_shape none = {0};
    grail_model_facts facts = {0};
    judgement j = {.network = network};
    comparison_sums sums = {0};
    CHECK(check_batches(network->request));
    CHECK(grail_model_describe(network->request->model, &facts));
    const bool of_classes = facts.gives_features == 0;
    CHECK(judge_all(&j, &sums));
    CHECK(execution_begin(network->dense.execution, none, (batch_input){0}));
    CHECK(execution_begin(network->current.execution, none, (batch_input){0}));
    if (of_classes && sums.rows == 0) {
        return error_set(GRAIL_ERROR_NUMERIC, "no output of the narrowed network could be judged");
    }
    *out = of_classes ? sums.kl / (double)sums.rows
                      : (sums.energy > 0.0 ? sums.distance / sums.energy : 0.0);
    return GRAIL_OK;
}

/* What a rank does by itself, up to the network that is run; *known tells that the session has the
 * divergence, which needs none. The caller closes both, also after a failure. */
static grail_status open_trial(const grail_compress_options *options, request_purpose purpose,
                               char key[HASH_TEXT_SIZE], grail_compression *c, bool *known,
                               double *out)
{
    CHECK(request_open(options, purpose, &c->request));
    CHECK(check_batches(c->request));
    CHECK(shared_trial_key(c->request, options, key));
    *known = shared_divergence_find(c->request, key, out);
    return *known ? GRAIL_OK : network_create(c->request, options->run.memory, &c->network);
}

static grail_status run_trial(grail_compression *c, const char *key, trial_start *start,
                              double *out)
{
    CHECK(ranks_begin(c));
    if (start != NULL) {
        CHECK(comm_settle(c->request->comm, trial_start_give(start, c->network)));
    }
    CHECK(grail_compression_run(c));
    CHECK(judge_divergence(c->network, out));
    return shared_divergence_keep(c->request, key, *out);
}

grail_status judge_widths(const grail_compress_options *options, const int64_t *kept,
                          trial_start *start, double *out)
{
    grail_status status = GRAIL_OK;
    grail_compression c = {.state = RUN_OPEN};
    const request_purpose purpose = {.kept = kept, .reads_samples = true, .judges = true};
    const grail_compress_options in_memory = trial_options(options);
    char key[HASH_TEXT_SIZE];
    bool known = false;
    TRY(comm_settle(options->run.comm, open_trial(&in_memory, purpose, key, &c, &known, out)));
    TRY(known ? GRAIL_OK : run_trial(&c, key, start, out));
out:
    network_free(c.network);
    request_close(c.request);
    return status;
}
