#include "pipeline/network/regional.h"

#include "backend/operations.h"
#include "exec/tape.h"
#include "pipeline/network/heal_input.h"
#include "stats/row_squares.h"

#include <math.h>

/* -- regions ----------------------------------------------------------------------------------- */

static grail_status find_outputs(const graph *g, region *r)
{
    CHECK(memory_new(&r->outputs, (size_t)g->value_count, sizeof r->outputs[0]));
    const int count = graph_live_values(g, r->end, r->outputs);
    for (int i = 0; i < count; i++) {
        if (g->value_source[r->outputs[i]] >= r->begin) {
            r->outputs[r->output_count++] = r->outputs[i];
        }
    }
    return GRAIL_OK;
}

static grail_status find_samples(const compression_request *request, region *r)
{
    const calibration *c = request->samples;
    CHECK(memory_new_unset(&r->samples, (size_t)c->count, sizeof r->samples[0]));
    for (int64_t i = 0; i < c->count; i++) {
        if (!request_judges_batch(request, calibration_batch_of(c, i))) {
            r->samples[r->sample_count++] = i;
        }
    }
    return GRAIL_OK;
}

grail_status region_init(const compression_request *request, int block, region *out)
{
    *out = (region){.block = block};
    graph_block_range(request->graph, block, &out->begin, &out->end);
    CHECK(find_outputs(request->graph, out));
    return find_samples(request, out);
}

void region_fini(region *r)
{
    memory_free(r->outputs);
    memory_free(r->samples);
    *r = (region){0};
}

grail_status region_place(const calibration_network *network, int64_t sample, execution *e)
{
    const sample_part part = {.samples = &sample, .count = 1};
    const compression_request *request = network->request;
    const sample_pick pick = {.samples = &sample, .count = 1, .firsts = request->samples->firsts};
    CHECK(execution_begin(e, part_shape(request, &part), (batch_input){0}));
    return sample_stream_pick(&network->current.stream, &pick, e);
}

/* -- gradients --------------------------------------------------------------------------------- */

bool site_needs_gradients(const compression_request *request, int index)
{
    const unsigned needs = site_decision_needs(&request->plan, index, site_at(request, index));
    return site_is_cut(&request->plan, index) && (needs & NEEDS_GRADIENTS) != 0;
}

/* Sums of squared gradients while the samples pass. */
typedef struct gradient_sums {
    calibration_network *network;
    region region;
    tape *tape;
    gradient_store *gradients; /* of one sample */
    matrix *squares;           /* [parameter_count] f64 sums over the samples, owned */
    bool any;
} gradient_sums;

static void sums_fini(gradient_sums *s)
{
    const int count = s->gradients == NULL ? 0 : s->gradients->count;
    for (int p = 0; s->squares != NULL && p < count; p++) {
        matrix_free(&s->squares[p]);
    }
    memory_free(s->squares);
    gradient_store_free(s->gradients);
    tape_free(s->tape);
    region_fini(&s->region);
}

static grail_status want_consumer(gradient_sums *s, int node_index)
{
    const compression_request *request = s->network->request;
    const int weight = request->graph->nodes[node_index].weight;
    CHECK(gradient_store_want(s->gradients, s->network->current.parameters, weight));
    const matrix like = gradient_of(s->gradients, weight);
    CHECK(matrix_new_zero(request->backend, GRAIL_DTYPE_F64, like.rows, like.columns,
                          &s->squares[weight]));
    s->any = true;
    return GRAIL_OK;
}

static grail_status want_consumers(gradient_sums *s, int block)
{
    const compression_request *request = s->network->request;
    for (int i = 0; i < request->plan.count; i++) {
        const site *cut = site_at(request, i);
        const bool wanted = cut->block == block && site_needs_gradients(request, i);
        for (int k = 0; wanted && k < cut->consumer_count; k++) {
            CHECK(want_consumer(s, cut->consumers[k].node));
        }
    }
    return GRAIL_OK;
}

static grail_status sums_init(calibration_network *network, int block, gradient_sums *s)
{
    const compression_request *request = network->request;
    const graph *g = request->graph;
    *s = (gradient_sums){.network = network};
    CHECK(memory_new(&s->squares, (size_t)g->parameter_count, sizeof s->squares[0]));
    CHECK(gradient_store_create(g, request->backend, &s->gradients));
    CHECK(want_consumers(s, block));
    if (s->any) {
        CHECK(region_init(request, block, &s->region));
        CHECK(tape_create(g, request->backend, network->pool, &s->tape));
    }
    return GRAIL_OK;
}

/* *out = ||Y||_F of all outputs of the region. */
static grail_status norm_of_outputs(const gradient_sums *s, double *out)
{
    double sum = 0.0;
    for (int i = 0; i < s->region.output_count; i++) {
        CHECK(
            add_row_squares(execution_value(tape_execution(s->tape), s->region.outputs[i]), &sum));
    }
    *out = sqrt(sum);
    return GRAIL_OK;
}

/* Gives Y / norm, the gradient of the norm, to the tape. */
static grail_status seed_norm(const gradient_sums *s, double norm)
{
    grail_status status = GRAIL_OK;
    matrix_pool *pool = s->network->pool;
    matrix seed = {0};
    for (int i = 0; i < s->region.output_count; i++) {
        const matrix y = execution_value(tape_execution(s->tape), s->region.outputs[i]);
        TRY(matrix_pool_take(pool, y.rows, y.columns, &seed));
        TRY(matrix_scale(1.0 / norm, y, seed));
        TRY(tape_seed(s->tape, s->region.outputs[i], seed));
        matrix_pool_give(pool, &seed);
    }
out:
    matrix_pool_give(pool, &seed);
    return status;
}

/* sums += gradient^2 */
static grail_status add_squares(matrix_pool *pool, matrix gradient, matrix sums)
{
    grail_status status = GRAIL_OK;
    matrix squares = {0};
    TRY(matrix_pool_take(pool, gradient.rows, gradient.columns, &squares));
    TRY(matrix_multiply(gradient, gradient, squares));
    TRY(matrix_add_scaled(1.0, squares, sums));
out:
    matrix_pool_give(pool, &squares);
    return status;
}

static grail_status add_sample(gradient_sums *s, int64_t sample)
{
    const region *r = &s->region;
    parameter_store *weights = s->network->current.parameters;
    double norm = 0.0;
    CHECK(region_place(s->network, sample, tape_execution(s->tape)));
    CHECK(tape_forward(s->tape, weights, s->gradients, false, r->begin, r->end));
    CHECK(norm_of_outputs(s, &norm));
    if (!isfinite(norm)) {
        return error_set(
            GRAIL_ERROR_NUMERIC,
            "block %d: the norm of its output for sample %lld is %g; look for NaN or infinity in "
            "the weights",
            r->block, (long long)sample, norm);
    }
    if (norm == 0.0) { /* has no gradient, and nothing to lose */
        return GRAIL_OK;
    }
    CHECK(seed_norm(s, norm));
    CHECK(gradient_store_clear(s->gradients));
    CHECK(tape_backward(s->tape, weights, s->gradients));
    for (int p = 0; p < s->gradients->count; p++) {
        if (matrix_exists(s->squares[p])) {
            CHECK(add_squares(s->network->pool, gradient_of(s->gradients, p), s->squares[p]));
        }
    }
    return GRAIL_OK;
}

/* *out = sqrt(squares / samples), owned even after a failure. */
static grail_status root_of_mean(int64_t samples, matrix squares, float **out)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    const int64_t count = matrix_count(squares);
    TRY(memory_new_unset(out, (size_t)count, sizeof **out));
    TRY(host_view_open(squares, GRAIL_DTYPE_F64, HOST_READS, &v));
    for (int64_t i = 0; i < count; i++) {
        (*out)[i] = (float)sqrt(((const double *)v.values)[i] / (double)samples);
    }
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    return status;
}

static grail_status keep_roots(gradient_sums *s, regional_gradients *out)
{
    const int count = s->network->request->graph->parameter_count;
    CHECK(memory_new(&out->of, (size_t)count, sizeof out->of[0]));
    out->count = count;
    for (int p = 0; p < count; p++) {
        if (matrix_exists(s->squares[p])) {
            CHECK(root_of_mean(s->region.sample_count, s->squares[p], &out->of[p]));
            matrix_free(&s->squares[p]);
        }
    }
    return GRAIL_OK;
}

grail_status regional_gradients_measure(calibration_network *network, int block)
{
    grail_status status = GRAIL_OK;
    gradient_sums s = {0};
    regional_gradients_fini(&network->regional);
    TRY(sums_init(network, block, &s));
    for (int64_t i = 0; i < s.region.sample_count; i++) {
        TRY(add_sample(&s, s.region.samples[i]));
    }
    if (s.any) {
        TRY(keep_roots(&s, &network->regional));
    }
out:
    sums_fini(&s);
    matrix_pool_clear(network->pool);
    return status;
}

const float *regional_gradients_of(const calibration_network *network, int parameter)
{
    return network->regional.of == NULL ? NULL : network->regional.of[parameter];
}
