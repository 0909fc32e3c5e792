#include "pipeline/network/regional.h"

#include "backend/operations.h"
#include "base/random.h"
#include "pipeline/network/column_sums.h"
#include "pipeline/network/heal_training.h"

#include <math.h>
#include <stdio.h>

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

grail_status region_init(const cutting *cut, sample_passes *passes, int block, region *out)
{
    *out = (region){.cut = cut, .passes = passes, .block = block};
    graph_block_range(cut->graph, block, &out->begin, &out->end);
    CHECK(find_outputs(cut->graph, out));
    return passes_trained_samples(passes, &out->sample_count, &out->samples);
}

void region_fini(region *r)
{
    memory_free(r->outputs);
    memory_free(r->samples);
    *r = (region){0};
}

grail_status region_place(const region *r, int64_t sample, execution *e)
{
    const sample_part part = {.samples = &sample, .count = 1};
    const sample_pick pick = {.samples = &sample, .count = 1, .firsts = r->passes->samples->firsts};
    CHECK(execution_begin(e, part_shape(r->passes->samples, &part), (batch_input){0}));
    return sample_stream_pick(&r->passes->current->stream, &pick, e);
}

/* -- gradients --------------------------------------------------------------------------------- */

/* Whether a site is cut in this block, by a selector that needs gradients. */
static bool needs_gradients(const cutting *cut, int index, int block)
{
    const site *s = cut_site(cut, index);
    return s->block == block && site_is_cut(cut->plan, index) &&
           (site_decision_needs(cut->plan, index, s) & NEEDS_GRADIENTS) != 0;
}

static bool has_site(const cutting *cut, int block)
{
    bool has = false;
    for (int i = 0; i < cut->plan->count; i++) {
        has = has || needs_gradients(cut, i, block);
    }
    return has;
}

/* Sums of squared gradients while the samples pass: one after the other, since the gradient of one
 * is squared. A visitor of a pass (pass.h) is shown batches. */
typedef struct gradient_sums {
    region region;
    tape *tape;
    gradient_store *gradients; /* of one sample */
    matrix *squares;           /* [parameter_count] f64 sums over the samples, owned */
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

static grail_status want_consumer(gradient_sums *s, int weight)
{
    CHECK(gradient_store_want(s->gradients, s->region.passes->current->parameters, weight));
    const matrix like = gradient_of(s->gradients, weight);
    return matrix_new_zero(like.owner, GRAIL_DTYPE_F64, like.rows, like.columns,
                           &s->squares[weight]);
}

static grail_status sums_init(const cutting *cut, sample_passes *passes, int block,
                              gradient_sums *s)
{
    const graph *g = cut->graph;
    backend *b = passes->current->parameters->backend;
    *s = (gradient_sums){0};
    CHECK(region_init(cut, passes, block, &s->region));
    CHECK(memory_new(&s->squares, (size_t)g->parameter_count, sizeof s->squares[0]));
    CHECK(gradient_store_create(g, b, &s->gradients));
    for (int i = 0; i < cut->plan->count; i++) {
        const site *one = cut_site(cut, i);
        for (int k = 0; needs_gradients(cut, i, block) && k < one->consumer_count; k++) {
            CHECK(want_consumer(s, g->nodes[one->consumers[k].node].weight));
        }
    }
    return tape_create(g, b, passes->pool, &s->tape);
}

/* inverse[1, 1] = 1 / ||Y||_F of all outputs of the region; 0 where these are 0, which has no
 * gradient and nothing to lose. */
static grail_status invert_norm(const gradient_sums *s, int64_t sample, matrix inverse)
{
    char text[WATCH_TEXT];
    snprintf(
        text, sizeof text,
        "block %d: look for NaN or infinity in the weights: its output for sample %lld has one",
        s->region.block, (long long)sample);
    CHECK(matrix_zero(inverse));
    for (int i = 0; i < s->region.output_count; i++) {
        const matrix y = execution_value(tape_execution(s->tape), s->region.outputs[i]);
        CHECK(matrix_watch(y, 0, text));
        CHECK(matrix_add_products(y, y, inverse));
    }
    return matrix_inverse_roots(0.0, (double)INFINITY, inverse, inverse);
}

/* Gives Y / ||Y||_F, the gradient of the norm, to the tape. */
static grail_status seed_norm(const gradient_sums *s, matrix inverse)
{
    grail_status status = GRAIL_OK;
    matrix_pool *pool = s->region.passes->pool;
    matrix seed = {0};
    for (int i = 0; i < s->region.output_count; i++) {
        const matrix y = execution_value(tape_execution(s->tape), s->region.outputs[i]);
        const int64_t count = matrix_count(y);
        TRY(matrix_pool_take(pool, y.rows, y.columns, &seed));
        TRY(matrix_scale_rows(inverse, matrix_reshape(y, 1, count),
                              matrix_reshape(seed, 1, count)));
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

static grail_status add_sample(gradient_sums *s, int64_t sample, matrix inverse)
{
    const region *r = &s->region;
    parameter_store *weights = r->passes->current->parameters;
    CHECK(region_place(r, sample, tape_execution(s->tape)));
    CHECK(tape_forward(s->tape, weights, s->gradients, false, r->begin, r->end));
    CHECK(invert_norm(s, sample, inverse));
    CHECK(seed_norm(s, inverse));
    CHECK(gradient_store_clear(s->gradients));
    CHECK(tape_backward(s->tape, weights, s->gradients));
    for (int p = 0; p < s->gradients->count; p++) {
        if (matrix_exists(s->squares[p])) {
            CHECK(add_squares(r->passes->pool, gradient_of(s->gradients, p), s->squares[p]));
        }
    }
    return GRAIL_OK;
}

/* A device is read once, behind all samples. */
static grail_status add_samples(gradient_sums *s)
{
    grail_status status = GRAIL_OK;
    backend *b = s->region.passes->current->parameters->backend;
    matrix inverse = {0};
    TRY(matrix_new(b, GRAIL_DTYPE_F64, 1, 1, &inverse));
    tape_execution(s->tape)->settles_later = true;
    for (int64_t i = 0; i < s->region.sample_count; i++) {
        TRY(add_sample(s, s->region.samples[i], inverse));
    }
out:
    matrix_free(&inverse);
    return backend_settle(b, status);
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
    const int count = s->gradients->count;
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

grail_status regional_gradients_measure(const cutting *cut, sample_passes *passes, int block,
                                        regional_gradients *out)
{
    grail_status status = GRAIL_OK;
    gradient_sums s = {0};
    regional_gradients_fini(out);
    if (!has_site(cut, block)) {
        return GRAIL_OK;
    }
    TRY(sums_init(cut, passes, block, &s));
    TRY(add_samples(&s));
    TRY(keep_roots(&s, out));
out:
    sums_fini(&s);
    matrix_pool_clear(passes->pool);
    return status;
}

/* -- a training -------------------------------------------------------------------------------- */

enum { ROUNDS = 5, SAMPLES = 32 };

/* The authors' RMSprop. Its rate is absolute, so the steps are alike for all weights; the moments
 * last through all rounds. */
static const descent authors_step = {.rate = 3e-7,
                                     .first_decay = 0.0,
                                     .second_decay = 0.99,
                                     .first_share = 1.0,
                                     .second_share = 1.0,
                                     .epsilon = 1e-8};

/* Copies the current values of a parameter from `from` to `to`, as they will be stored. */
static grail_status copy_parameter(parameter_store *from, parameter_store *to, int parameter)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *entry = NULL;
    float *values = NULL;
    int64_t elements = 0;
    TRY(parameter_store_get(from, parameter, &entry));
    TRY(parameter_store_read_f32(from, parameter, &values, &elements));
    TRY(parameter_store_set(to, parameter, entry->shape, values));
out:
    memory_free(values);
    return status;
}

static grail_status add_parameter(regional_training *t, int parameter)
{
    CHECK(parameter_store_own(t->trained, parameter));
    CHECK(gradient_store_want(t->gradients, t->trained, parameter));
    const matrix like = gradient_of(t->gradients, parameter);
    return matrix_new_zero(like.owner, like.type, like.rows, like.columns, &t->moments[parameter]);
}

grail_status regional_training_init(const cutting *cut, sample_passes *passes, int block,
                                    const regional_gradients *measured, regional_training *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = cut->graph;
    parameter_store *own = passes->current->parameters;
    regional_training *t = out;
    bool *trained = NULL;
    *t = (regional_training){.measured = measured};
    TRY(region_init(cut, passes, block, &t->region));
    TRY(parameter_store_create(own->model, own->backend, own, &t->trained));
    TRY(gradient_store_create(g, own->backend, &t->gradients));
    TRY(memory_new(&t->moments, (size_t)g->parameter_count, sizeof t->moments[0]));
    TRY(memory_new(&t->decided, (size_t)cut->plan->count, sizeof t->decided[0]));
    TRY(tape_create(g, own->backend, passes->pool, &t->tape));
    TRY(mark_trained(g, cut->sites, cut->plan, t->region.begin, t->region.end, &trained));
    for (int p = 0; p < g->parameter_count; p++) {
        if (trained[p]) {
            TRY(add_parameter(t, p));
        }
    }
out:
    memory_free(trained);
    return status;
}

void regional_training_fini(regional_training *t)
{
    for (int p = 0; t->moments != NULL && p < t->gradients->count; p++) {
        matrix_free(&t->moments[p]);
    }
    for (int i = 0; t->decided != NULL && i < t->region.cut->plan->count; i++) {
        grail_reducer_free(t->decided[i]);
    }
    memory_free(t->moments);
    memory_free(t->decided);
    gradient_store_free(t->gradients);
    parameter_store_free(t->trained);
    tape_free(t->tape);
    region_fini(&t->region);
    *t = (regional_training){0};
}

/* -- decisions --------------------------------------------------------------------------------- */

/* The diagonal of the Gram matrix of a node's input. *diagonal is owned. */
static grail_status measure_input(const regional_training *t, int node_index, int64_t width,
                                  double **diagonal, double *rows)
{
    grail_status status = GRAIL_OK;
    const int value = t->region.cut->graph->nodes[node_index].inputs[0];
    column_sums s = {0};
    network_run run = *t->region.passes->current; /* its sample stream stays where it is */
    run.parameters = t->trained;
    TRY(memory_new(diagonal, (size_t)width, sizeof **diagonal));
    TRY(column_sums_init(t->trained->backend, value, width, false, &s));
    const visitor v = column_sums_visitor(&s, node_index);
    const pass p = {.run = &run,
                    .end = node_index,
                    .stays = true,
                    .in_order = true,
                    .visitors = &v,
                    .visitor_count = 1};
    TRY(pass_run(t->region.passes, &p));
    TRY(matrix_download(s.squares, *diagonal));
    *rows = (double)s.rows;
out:
    column_sums_fini(&s);
    return status;
}

/* Makes the columns of removed units zero in all consumers. */
static grail_status silence_units(const regional_training *t, const site *s, const grail_reducer *r)
{
    const graph *g = t->region.cut->graph;
    for (int k = 0; k < s->consumer_count; k++) {
        const int64_t u = s->consumers[k].features_per_unit;
        const int weight = g->nodes[s->consumers[k].node].weight;
        const matrix values = t->trained->entries[weight].values;
        for (int64_t j = 0; j < r->units; j++) {
            if (r->labels[j] < 0) {
                CHECK(matrix_zero(matrix_columns(values, j * u, u)));
            }
        }
    }
    return GRAIL_OK;
}

static grail_status decide_one(regional_training *t, int index)
{
    grail_status status = GRAIL_OK;
    const cutting *cut = t->region.cut;
    const site *s = cut_site(cut, index);
    const int reader = s->consumers[0].node;
    double *diagonal = NULL;
    input_statistics input = {
        .width = s->units * s->consumers[0].features_per_unit,
        .gradients = regional_gradients_of(t->measured, cut->graph->nodes[reader].weight)};
    TRY(measure_input(t, reader, input.width, &diagonal, &input.weight));
    input.rows = input.weight; /* without token weights */
    input.diagonal = diagonal;
    const site_view known = {.backend = t->trained->backend,
                             .comm = t->region.passes->comm,
                             .weights = weights_of_store(t->trained),
                             .inputs = &input,
                             .input_count = 1};
    grail_reducer_free(t->decided[index]);
    t->decided[index] = NULL;
    TRY(decide_site(cut, index, &known, &t->decided[index]));
    TRY(silence_units(t, s, t->decided[index]));
out:
    memory_free(diagonal);
    return status;
}

grail_status regional_training_decide(regional_training *t)
{
    for (int i = 0; i < t->region.cut->plan->count; i++) {
        if (needs_gradients(t->region.cut, i, t->region.block)) {
            CHECK(decide_one(t, i));
        }
    }
    return GRAIL_OK;
}

/* -- steps ------------------------------------------------------------------------------------- */

/* Runs both blocks on one sample; the trained one is to give gradients to `wanted`. */
static grail_status run_both(const regional_training *t, int64_t sample,
                             const gradient_store *wanted)
{
    const region *r = &t->region;
    const network_run *current = r->passes->current;
    CHECK(region_place(r, sample, current->execution));
    CHECK(execution_run(current->execution, current->parameters, r->begin, r->end));
    CHECK(region_place(r, sample, tape_execution(t->tape)));
    return tape_forward(t->tape, t->trained, wanted, false, r->begin, r->end);
}

/* *out = Y - T of one output. *out belongs to the pool. */
static grail_status difference_of(const regional_training *t, int value, matrix *out)
{
    const matrix y = execution_value(tape_execution(t->tape), value);
    CHECK(matrix_pool_take(t->region.passes->pool, y.rows, y.columns, out));
    return matrix_subtract(y, execution_value(t->region.passes->current->execution, value), *out);
}

/* Gives 2 (Y - T) to the tape. */
static grail_status seed_differences(const regional_training *t)
{
    grail_status status = GRAIL_OK;
    matrix seed = {0};
    for (int i = 0; i < t->region.output_count; i++) {
        TRY(difference_of(t, t->region.outputs[i], &seed));
        TRY(matrix_add(seed, seed, seed));
        TRY(tape_seed(t->tape, t->region.outputs[i], seed));
        matrix_pool_give(t->region.passes->pool, &seed);
    }
out:
    matrix_pool_give(t->region.passes->pool, &seed);
    return status;
}

static grail_status step(const regional_training *t, int64_t sample)
{
    CHECK(run_both(t, sample, t->gradients));
    CHECK(seed_differences(t));
    CHECK(gradient_store_clear(t->gradients));
    CHECK(tape_backward(t->tape, t->trained, t->gradients));
    for (int p = 0; p < t->gradients->count; p++) {
        if (matrix_exists(t->moments[p])) {
            CHECK(matrix_descend(&authors_step, gradient_of(t->gradients, p), no_matrix,
                                 t->moments[p], t->trained->entries[p].values));
        }
    }
    return GRAIL_OK;
}

/* The device is read once, behind all steps of a round. */
static void settle_later(const regional_training *t, bool later)
{
    t->region.passes->current->execution->settles_later = later;
    tape_execution(t->tape)->settles_later = later;
}

grail_status regional_training_round(regional_training *t, int round)
{
    grail_status status = GRAIL_OK;
    const region *r = &t->region;
    int64_t *order = NULL;
    random_state random;
    /* apart from the sequences of the selectors, which begin at 0 */
    const uint64_t sequence = (uint64_t)1 << 32 | (uint64_t)(r->block * ROUNDS + round);
    TRY(memory_new_unset(&order, (size_t)r->sample_count, sizeof order[0]));
    random_seed(&random, r->cut->plan->seed, sequence);
    random_permutation(&random, r->sample_count, order);
    settle_later(t, true);
    for (int64_t i = 0; i < r->sample_count && i < SAMPLES; i++) {
        TRY(step(t, r->samples[order[i]]));
    }
out:
    settle_later(t, false);
    memory_free(order);
    return backend_settle(t->trained->backend, status);
}

/* -- the training ------------------------------------------------------------------------------ */

/* Hands the decisions and the weights over. */
static grail_status hand_over(regional_training *t, site_result *results)
{
    const cutting *cut = t->region.cut;
    for (int p = 0; p < t->gradients->count; p++) {
        if (matrix_exists(t->moments[p])) {
            CHECK(copy_parameter(t->trained, t->region.passes->current->parameters, p));
        }
    }
    for (int i = 0; i < cut->plan->count; i++) {
        if (t->decided[i] != NULL) {
            grail_reducer *decided = t->decided[i];
            t->decided[i] = NULL;
            CHECK(site_take_decision(&results[i], cut_site(cut, i)->kind, decided));
        }
    }
    return GRAIL_OK;
}

grail_status regional_train(const cutting *cut, sample_passes *passes, int block,
                            const regional_gradients *measured, site_result *results)
{
    grail_status status = GRAIL_OK;
    regional_training t = {0};
    if (!has_site(cut, block)) {
        return GRAIL_OK;
    }
    TRY(regional_training_init(cut, passes, block, measured, &t));
    for (int round = 0; round < ROUNDS; round++) {
        TRY(regional_training_decide(&t));
        TRY(regional_training_round(&t, round));
    }
    TRY(regional_training_decide(&t));
    TRY(hand_over(&t, results));
out:
    regional_training_fini(&t);
    matrix_pool_clear(passes->pool);
    return error_in(status, "regional optimisation of block %d", block);
}
