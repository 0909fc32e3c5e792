#include "pipeline/network/fisher.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "base/profile.h"
#include "base/random.h"
#include "exec/next_token.h"
#include "graph/operators.h"
#include "pipeline/network/keeping.h"
#include "pipeline/network/part_input.h"
#include "pipeline/network/sections.h"
#include "stats/chunk_sums.h"

#include <math.h>
#include <stdio.h>

enum { MOST_WINDOWS = 16, WINDOWS_ONE_IN = 4, MOST_IMAGES = 128, IMAGES_AT_ONCE = 32 };

typedef struct fisher_task {
    const calibration_network *network;
    bool *wanted;       /* [value_count] outputs of the consumers; owned */
    matrix *sums;       /* [node_count] of the session; borrowed */
    matrix *parts;      /* [node_count] the same of one part of the samples; owned */
    int64_t *rows;      /* [node_count] of `sums`; owned */
    int64_t *part_rows; /* [node_count] of `parts`; owned */
    parameter_store
        *weights; /* as the model has them, so that they can be dropped at will; owned */
    sections sections;
    int64_t *samples; /* [sample_count], owned */
    int64_t sample_count;
} fisher_task;

static void task_fini(fisher_task *t)
{
    for (int i = 0; t->parts != NULL && i < t->network->cut->graph->node_count; i++) {
        matrix_free(&t->parts[i]);
    }
    memory_free(t->parts);
    memory_free(t->rows);
    memory_free(t->part_rows);
    sections_fini(&t->sections);
    parameter_store_free(t->weights);
    memory_free(t->wanted);
    memory_free(t->samples);
}

/* -- what is measured -------------------------------------------------------------------------- */

static grail_status want_consumer(fisher_task *t, int reader)
{
    const graph *g = t->network->cut->graph;
    const int64_t outputs = g->parameters[g->nodes[reader].weight].shape[0];
    t->wanted[g->nodes[reader].output] = true;
    return matrix_exists(t->sums[reader])
               ? GRAIL_OK /* the consumer of another part */
               : matrix_new_zero(t->network->request->backend, GRAIL_DTYPE_F64, outputs, outputs,
                                 &t->sums[reader]);
}

/* All sites have one, for other runs of the session. The way back ends with the block of the first
 * one.
 */
static grail_status find_consumers(fisher_task *t)
{
    const cutting *cut = t->network->cut;
    const graph *g = cut->graph;
    int first = g->node_count;
    CHECK(memory_new(&t->wanted, (size_t)g->value_count, sizeof t->wanted[0]));
    for (int i = 0; i < cut->plan->count; i++) {
        const site *s = cut_site(cut, i);
        if (site_has_metric(cut->plan, i, s)) {
            const int reader = s->consumers[0].node;
            first = reader < first ? reader : first;
            CHECK(want_consumer(t, reader));
        }
    }
    while (t->sections.first < t->sections.count &&
           t->sections.of[t->sections.first].end <= first) {
        t->sections.first++;
    }
    return GRAIL_OK;
}

int64_t fisher_samples(const graph *g, int64_t count)
{
    const bool images = g->input_kind == INPUT_IMAGES;
    const int64_t most = images ? MOST_IMAGES : MOST_WINDOWS;
    const int64_t some = images ? count : (count + WINDOWS_ONE_IN - 1) / WINDOWS_ONE_IN;
    return some < most ? some : most;
}

/* Evenly among those that do not judge. */
static grail_status choose_samples(fisher_task *t)
{
    int64_t count = 0;
    CHECK(passes_trained_samples(&t->network->passes, &count, &t->samples));
    t->sample_count = fisher_samples(t->network->cut->graph, count);
    for (int64_t i = 0; i < t->sample_count; i++) {
        t->samples[i] = t->samples[i * count / t->sample_count];
    }
    return GRAIL_OK;
}

/* -- sums -------------------------------------------------------------------------------------- */

static grail_status need_part(fisher_task *t, int reader)
{
    const matrix sum = t->sums[reader];
    return matrix_exists(t->parts[reader]) ? GRAIL_OK
                                           : matrix_new_zero(sum.owner, GRAIL_DTYPE_F64, sum.rows,
                                                             sum.columns, &t->parts[reader]);
}

static chunk_sums sums_of(fisher_task *t, int reader)
{
    chunk_sums s = {.part_rows = &t->part_rows[reader], .total_rows = &t->rows[reader]};
    chunk_sums_append_triangle(&s, &t->parts[reader], &t->sums[reader]);
    return s;
}

/* Adds what the first `ranks` have of one consumer, a part of the samples each. */
static grail_status fold(fisher_task *t, int reader, int ranks)
{
    CHECK(need_part(t, reader));
    const chunk_sums s = sums_of(t, reader);
    CHECK(chunk_sums_fold_ranks(t->network->passes.comm, ranks, &s));
    matrix_free(&t->parts[reader]);
    return GRAIL_OK;
}

/* One rank adds at once; several exchange what they have behind the way back. */
static grail_status add_rows(void *user, int value, matrix gradient)
{
    fisher_task *t = user;
    const int reader = t->network->cut->graph->value_source[value];
    CHECK(need_part(t, reader));
    const profile_kind before = profile_enter(PROFILE_STATISTICS);
    const grail_status status = matrix_gram(gradient, t->parts[reader]);
    profile_enter(before);
    CHECK(status);
    t->part_rows[reader] += gradient.rows;
    return comm_is_shared(t->network->passes.comm) ? GRAIL_OK : fold(t, reader, 1);
}

/* Windows may differ in length. */
static int64_t samples_of_part(const calibration_network *network)
{
    return network->cut->graph->input_kind == INPUT_IMAGES ? IMAGES_AT_ONCE : 1;
}

static int64_t all_weights(const grail_model *model)
{
    int64_t count = 0;
    for (int p = 0; p < model->graph->parameter_count; p++) {
        count += model_parameter_elements(model, p);
    }
    return count;
}

static grail_status task_init(calibration_network *network, fisher_task *t)
{
    const graph *g = network->cut->graph;
    const compression_request *request = network->request;
    bool fits = false;
    *t = (fisher_task){.network = network, .sums = request->session->metrics};
    CHECK(memory_new(&t->parts, (size_t)g->node_count, sizeof t->parts[0]));
    CHECK(memory_new(&t->rows, (size_t)g->node_count, sizeof t->rows[0]));
    CHECK(memory_new(&t->part_rows, (size_t)g->node_count, sizeof t->part_rows[0]));
    CHECK(tape_fits(g, request->backend, request->samples->positions, samples_of_part(network),
                    all_weights(request->model), network->memory, &fits));
    CHECK(parameter_store_create(request->model, request->backend, NULL, &t->weights));
    CHECK(sections_init(g, t->weights, network->pool, fits, &t->sections));
    t->sections.releases = !fits;
    CHECK(find_consumers(t));
    CHECK(choose_samples(t));
    t->sections.tape->visitor =
        (gradient_visitor){.wanted = t->wanted, .visit = add_rows, .user = t};
    return GRAIL_OK;
}

/* -- the gradients of outputs ------------------------------------------------------------------ */

/* Rows of an output, which become their gradients. */
typedef struct output_rows {
    float *values; /* [., width] */
    int64_t width;
    bool are_logits;
    uint64_t seed, sequence; /* of the first row */
} output_rows;

static void draw_direction(float *row, int64_t width, random_state *random)
{
    double square = 0.0;
    for (int64_t i = 0; i < width; i++) {
        square += (double)row[i] * (double)row[i];
    }
    for (int64_t i = 0; i < width; i++) {
        row[i] = square > 0.0 ? (float)(random_normal(random) / sqrt(square)) : 0.0F;
    }
}

static void draw_rows(int64_t begin, int64_t end, void *context)
{
    const output_rows *o = context;
    for (int64_t r = begin; r < end; r++) {
        random_state random;
        random_seed(&random, o->seed, o->sequence + (uint64_t)r);
        (o->are_logits ? next_token_gradient : draw_direction)(o->values + r * o->width, o->width,
                                                               &random);
    }
}

static grail_status seed_output(const fisher_task *t, int output, int64_t sample)
{
    grail_status status = GRAIL_OK;
    enum { ROWS = 8 };
    const graph_output *o = &t->network->cut->graph->outputs[output];
    const matrix y = execution_value(tape_execution(t->sections.tape), o->value);
    matrix gradient = {0};
    host_view view = {0};
    TRY(matrix_pool_take(t->network->pool, y.rows, y.columns, &gradient));
    TRY(matrix_copy(y, gradient));
    TRY(host_view_open(gradient, GRAIL_DTYPE_F32, HOST_UPDATES, &view));
    output_rows rows = {.values = view.values,
                        .width = y.columns,
                        .are_logits = o->is_logits,
                        .seed = t->network->cut->plan->seed,
                        .sequence = (uint64_t)sample << 32 | (uint64_t)output << 24};
    parallel_for(y.rows, ROWS, draw_rows, &rows);
    TRY(host_view_close(&view));
    TRY(tape_seed(t->sections.tape, o->value, gradient));
out:
    host_view_drop(&view);
    matrix_pool_give(t->network->pool, &gradient);
    return status;
}

/* -- the pass ---------------------------------------------------------------------------------- */

static grail_status add_part(fisher_task *t, const sample_part *part)
{
    grail_status status = GRAIL_OK;
    const calibration *samples = t->network->passes.samples;
    const batch_shape shape = part_shape(samples, part);
    part_input input = {0};
    TRY(part_input_copy(samples, part, 0, 0, &input));
    TRY(execution_begin(tape_execution(t->sections.tape), shape, part_input_batch(&input)));
    TRY(sections_forward(&t->sections, t->sections.none));
    for (int i = 0; i < t->network->cut->graph->output_count; i++) {
        TRY(seed_output(t, i, part->samples[0]));
    }
    TRY(sections_back(&t->sections, shape, part_input_batch(&input), t->sections.none));
out:
    part_input_fini(&input);
    return status;
}

/* Each rank adds a part, as far as they go. */
static grail_status add_turn(fisher_task *t, int64_t first)
{
    const grail_comm *comm = t->network->passes.comm;
    const int64_t most = samples_of_part(t->network);
    const int64_t begin = first + comm_rank(comm) * most;
    const int64_t left = t->sample_count - begin;
    if (left > 0) {
        const sample_part part = {.samples = t->samples + begin,
                                  .count = left < most ? left : most};
        CHECK(add_part(t, &part));
    }
    const int64_t parts = (t->sample_count - first + most - 1) / most;
    const int ranks = parts < comm_size(comm) ? (int)parts : comm_size(comm);
    for (int i = 0; comm_is_shared(comm) && i < t->network->cut->graph->node_count; i++) {
        CHECK(matrix_exists(t->sums[i]) ? fold(t, i, ranks) : GRAIL_OK);
    }
    return GRAIL_OK;
}

static grail_status add_parts(fisher_task *t)
{
    const grail_comm *comm = t->network->passes.comm;
    const int64_t turn = samples_of_part(t->network) * comm_size(comm);
    for (int64_t first = 0; first < t->sample_count; first += turn) {
        const int64_t done = first + turn < t->sample_count ? first + turn : t->sample_count;
        CHECK(add_turn(t, first));
        CHECK(progress_before(&t->network->passes.progress, GRAIL_STEP_METRIC,
                              (double)done / (double)t->sample_count));
    }
    return GRAIL_OK;
}

/* F + mean(diag F) I: errors of a cut are larger than what gradients tell of. */
static grail_status finish(fisher_task *t, int reader)
{
    grail_status status = GRAIL_OK;
    matrix *sum = &t->sums[reader];
    const chunk_sums sums = sums_of(t, reader);
    const graph *g = t->network->cut->graph;
    const int64_t width = sum->rows;
    double *diagonal = NULL;
    double mean = 0.0;
    TRY(chunk_sums_share(t->network->passes.comm, &sums));
    TRY(memory_new_unset(&diagonal, (size_t)width, sizeof diagonal[0]));
    TRY(matrix_download_diagonal(*sum, diagonal));
    for (int64_t i = 0; i < width; i++) {
        mean += diagonal[i] / (double)width;
    }
    if (!isfinite(mean)) {
        FAIL(GRAIL_ERROR_NUMERIC,
             "the gradients of the loss with respect to the output of '%s' are not finite; look "
             "for NaN or infinity in the weights, or choose without them",
             g->parameters[g->nodes[reader].weight].name);
    }
    TRY(matrix_shift_diagonal(mean == 0.0 ? 1.0 : mean, *sum));
    TRY(matrix_fill_upper(*sum));
out:
    memory_free(diagonal);
    return status;
}

/* Whether a decision takes a metric that the session has not. */
static bool is_lacking(const calibration_network *network)
{
    const compression_request *request = network->request;
    bool lacking = false;
    for (int i = 0; i < request->plan.count; i++) {
        const site *s = site_at(request, i);
        lacking = lacking || (site_takes_metric(&request->plan, i, s) &&
                              !matrix_exists(request->session->metrics[s->consumers[0].node]));
    }
    return lacking && request->samples->count > 0;
}

static void forget(const calibration_network *network)
{
    for (int i = 0; i < network->cut->graph->node_count; i++) {
        matrix_free(&network->request->session->metrics[i]);
    }
}

grail_status fisher_measure(calibration_network *network)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const double begun = clock_seconds();
    fisher_task t = {0};
    if (!cuts_take_metric(network->cut)) { /* statistics of other samples stay */
        return GRAIL_OK;
    }
    session_count(request->session, request->samples, request->judges, request->backend);
    if (!is_lacking(network)) {
        return GRAIL_OK;
    }
    forget(network);
    TRY(task_init(network, &t));
    TRY(add_parts(&t));
    for (int i = 0; i < network->cut->graph->node_count; i++) {
        TRY(matrix_exists(t.sums[i]) ? finish(&t, i) : GRAIL_OK);
    }
out:
    if (status != GRAIL_OK) {
        forget(network); /* nothing is left that is not finished */
    }
    task_fini(&t);
    matrix_pool_clear(network->pool);
    network->passes.calibrate_seconds += clock_seconds() - begun;
    return status;
}
