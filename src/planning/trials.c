#include "planning/trials.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "eval/comparison.h"
#include "graph/operators.h"
#include "heal/loss.h"
#include "pipeline/compression.h"
#include "pipeline/network/pass.h"
#include "pipeline/ranks.h"
#include "planning/shared.h"

/* -- how far a narrowed network is from the dense one ------------------------------------------ */

/* Rows whose outputs are computed at once: a large vocabulary takes much memory. */
enum { PANEL_ROWS = 256 };

typedef struct judgement {
    comparison_sums sums; /* of several outputs kl and rows alone: what add_outputs sums */
    comparison_sums part; /* of the chunk that is judged */
    const calibration_network *network;
    const node *head;   /* a Linear that both networks end in, which is run here; or NULL */
    matrix part_kl, kl; /* [1, 1] f64 sums for the one output of logits, owned; else none, and
                           `part` and `sums` hold what is added */
} judgement;

static grail_status add_rows(judgement *j, matrix dense, matrix narrow)
{
    if (!matrix_exists(j->kl)) {
        return comparison_add(dense, narrow, &j->part);
    }
    j->part.rows += dense.rows;
    return divergence_add(narrow, dense, 0.0, no_matrix, j->part_kl);
}

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

/* The outputs are made a panel of rows after the other. */
static grail_status add_through_head(judgement *j)
{
    grail_status status = GRAIL_OK;
    const calibration_network *n = j->network;
    const node *head = j->head;
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
        TRY(add_rows(j, left, right));
    }
out:
    matrix_free(&dense);
    matrix_free(&narrow);
    return status;
}

/* How far one output of one sample is from the dense one: what is 0 there counts as lost. */
static grail_status sample_distance(matrix dense, matrix narrow, bool is_logits, double *out)
{
    comparison_sums s = {0};
    CHECK(comparison_add(dense, narrow, &s));
    *out = is_logits          ? s.kl / (double)s.rows
           : s.energy > 0.0   ? s.distance / s.energy
           : s.distance > 0.0 ? 1.0
                              : 0.0;
    return GRAIL_OK;
}

/* The mean of the outputs, for each sample by itself. */
static grail_status add_outputs(judgement *j, const execution *dense, const execution *narrow)
{
    const graph *g = narrow->graph;
    const int64_t samples = narrow->shape.samples;
    for (int i = 0; i < g->output_count; i++) {
        const matrix a = execution_value(dense, g->outputs[i].value);
        const matrix b = execution_value(narrow, g->outputs[i].value);
        const int64_t rows = a.rows / samples;
        for (int64_t s = 0; s < samples; s++) {
            double distance = 0.0;
            CHECK(sample_distance(matrix_rows(a, s * rows, rows), matrix_rows(b, s * rows, rows),
                                  g->outputs[i].is_logits, &distance));
            j->part.kl += distance / g->output_count;
        }
    }
    j->part.rows += samples;
    return GRAIL_OK;
}

static grail_status add_batch(const execution *e, void *user)
{
    judgement *j = user;
    const execution *dense = j->network->dense.execution;
    if (e->graph->output_count > 1) {
        return add_outputs(j, dense, e);
    }
    return j->head != NULL ? add_through_head(j)
                           : add_rows(j, execution_value(dense, e->graph->output),
                                      execution_value(e, e->graph->output));
}

static chunk_sums sums_of(void *user, bool held_out)
{
    judgement *j = user;
    chunk_sums sums = {.part_rows = &j->part.rows, .total_rows = &j->sums.rows};
    (void)held_out;
    if (matrix_exists(j->kl)) {
        chunk_sums_append_matrix(&sums, &j->part_kl, &j->kl);
        return sums;
    }
    chunk_sums_append_number(&sums, &j->part.kl, &j->sums.kl);
    chunk_sums_append_number(&sums, &j->part.distance, &j->sums.distance);
    chunk_sums_append_number(&sums, &j->part.energy, &j->sums.energy);
    return sums;
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

static grail_status judgement_init(calibration_network *network, bool is_mean, judgement *j)
{
    const graph *g = network->request->graph;
    const node *last = &g->nodes[g->node_count - 1];
    backend *b = network->request->backend;
    *j = (judgement){.network = network};
    /* A head that was fitted to the dense network's output has been run there already. */
    if (node_is_linear(last) && g->output_count == 1 &&
        network->dense.stream.position < g->node_count &&
        network->current.stream.position < g->node_count) {
        j->head = last;
    }
    if (!is_mean || g->output_count > 1) {
        return GRAIL_OK;
    }
    CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 1, &j->part_kl));
    return matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 1, &j->kl);
}

/* A device is read once, behind all batches. */
static grail_status judge(calibration_network *network, judgement *j)
{
    const graph *g = network->request->graph;
    const int end = j->head != NULL ? g->node_count - 1 : g->node_count;
    const visitor v = {.node = end, .add = add_batch, .sums = sums_of, .user = j};
    const pass p = {.end = end,
                    .stays = true,
                    .in_order = true,
                    .judges = true,
                    .with_dense = true,
                    .dense_end = end,
                    .visitors = &v,
                    .visitor_count = 1};
    CHECK(pass_run(&network->passes, &p));
    return matrix_exists(j->kl) ? matrix_download(j->kl, &j->sums.kl) : GRAIL_OK;
}

grail_status judge_divergence(calibration_network *network, double *out)
{
    grail_status status = GRAIL_OK;
    grail_model_facts facts = {0};
    judgement j = {0};
    const comparison_sums *s = &j.sums;
    CHECK(check_batches(network->request));
    CHECK(grail_model_describe(network->request->model, &facts));
    const bool is_mean = facts.gives_features == 0 || network->request->graph->output_count > 1;
    TRY(judgement_init(network, is_mean, &j));
    TRY(judge(network, &j));
    if (is_mean && s->rows == 0) {
        FAIL(GRAIL_ERROR_NUMERIC, "no output of the narrowed network could be judged");
    }
    *out = is_mean ? s->kl / (double)s->rows : (s->energy > 0.0 ? s->distance / s->energy : 0.0);
out:
    matrix_free(&j.part_kl);
    matrix_free(&j.kl);
    return status;
}

/* -- where trials begin ------------------------------------------------------------------------ */

static grail_compress_options trial_options(const grail_compress_options *options)
{
    grail_compress_options in_memory = *options;
    in_memory.output.path = NULL;
    in_memory.run.observer = NULL;
    return in_memory;
}

static grail_status open_dense(trial_start *s)
{
    const request_purpose purpose = {.kept = s->units, .reads_samples = true, .judges = true};
    const grail_compress_options options = trial_options(s->options);
    CHECK(request_open(&options, purpose, &s->request));
    return network_create(s->request, s->options->run.memory, &s->network);
}

void trial_start_fini(trial_start *s)
{
    network_free(s->network);
    request_close(s->request);
    *s = (trial_start){0};
}

/* The first block that is cut; GRAPH_NONE where the trial needs the samples before node 0. */
static int first_block(const compression_request *trial)
{
    int first = trial->graph->block_count;
    for (int i = 0; i < trial->plan.count; i++) {
        const site *s = site_at(trial, i);
        if (site_is_cut(&trial->plan, i)) {
            const bool waits =
                site_is_chosen_openly(&trial->plan, i, s) || site_spans_blocks(trial->graph, s);
            first = waits ? GRAPH_NONE : s->block < first ? s->block : first;
        }
    }
    return trial->plan.loop == LOOP_CLOSED && first < trial->graph->block_count ? first
                                                                                : GRAPH_NONE;
}

static grail_status put(const sample_stream *from, sample_stream *to)
{
    sample_stream_fini(to);
    return sample_stream_copy(from, to);
}

grail_status trial_start_give(trial_start *s, calibration_network *trial)
{
    int begin = 0;
    int end = 0;
    const int block = first_block(trial->request);
    if (block < 0 || s->options->read.session == NULL) {
        return GRAIL_OK;
    }
    if (s->request == NULL) {
        CHECK(open_dense(s));
    }
    graph_block_range(s->request->graph, block, &begin, &end);
    if (begin < s->network->current.stream.position) {
        return GRAIL_OK;
    }
    CHECK(pass_to(&s->network->passes, begin, GRAPH_NONE));
    for (int passed = GRAPH_NONE; passed < block; passed++) {
        network_release_block(s->network, passed);
    }
    CHECK(put(&s->network->current.stream, &trial->current.stream));
    return trial->passes.has_dense_stream ? put(&s->network->current.stream, &trial->dense.stream)
                                          : GRAIL_OK;
}

/* -- a trial ----------------------------------------------------------------------------------- */

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

grail_status trials_tell(const grail_plan_options *options, double began,
                         const grail_plan_trial *trial, bool *stopped)
{
    unsigned char ends = 0;
    if (options->observer != NULL && options->observer(options->observer_user, trial) != 0) {
        ends = 1;
    }
    if (options->seconds > 0.0 && clock_seconds() - began >= options->seconds) {
        ends = 1;
    }
    CHECK(comm_broadcast(options->compress.run.comm, 0, &ends, sizeof ends));
    *stopped = *stopped || ends != 0;
    return GRAIL_OK;
}
