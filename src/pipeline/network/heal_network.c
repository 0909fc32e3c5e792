#include "pipeline/network/heal_network.h"

#include "graph/operators.h"
#include "heal/loss.h"
#include "pipeline/network/keeping.h"
#include "pipeline/network/part_input.h"
#include "pipeline/network/sections.h"
#include "pipeline/request/regions.h"

/* -- the dense network ------------------------------------------------------------------------- */

enum { NOBODY = -1 };

/* What was computed of the dense network. Text does not change, so each sample is run up to the
 * head when it is first asked for, on the host one at a time so that its values do not depend on
 * what is asked for with it, which on a device they do by rounding; these are kept where those of
 * all samples fit into memory. The one of several ranks that asks first keeps it, and gives it to
 * others that ask later. A visitor of a pass (pass.h) would run samples that no step asks for
 * before the time is over, and batches instead of single ones, which have other bits. */
typedef struct dense_outputs {
    const heal_setting *setting; /* borrowed */
    int begin;                   /* node of the head; 0: samples change */
    sample_stream kept;          /* before the head, a batch for each sample */
    bool keeps;                  /* on all ranks alike */
    bool releases;               /* its weights, block by block: a device has no room for them */
    int *holders;                /* [samples] rank that keeps each, NOBODY where none does; owned */
    int64_t *widths;             /* columns of the values that are kept; owned */
} dense_outputs;

/* Whether the values before node `begin` fit for all samples. */
static grail_status kept_fits(const heal_setting *s, int begin, bool *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = s->dense->graph;
    const calibration *samples = s->samples;
    double elements = 0.0;
    int *live = NULL;
    int64_t *sizes = NULL;
    TRY(memory_new(&live, (size_t)g->value_count, sizeof live[0]));
    TRY(memory_new(&sizes, (size_t)g->value_count, sizeof sizes[0]));
    TRY(value_elements(g, samples->positions, sizes));
    const int count = graph_live_values(g, begin, live);
    for (int i = 0; i < count; i++) {
        elements += (double)sizes[live[i]];
    }
    *out = bytes_fit(s->backend,
                     elements * (double)samples->count * (double)backend_value_size(s->backend),
                     s->memory);
out:
    memory_free(live);
    memory_free(sizes);
    return status;
}

/* The dense network's values are as wide as its graph says. */
static grail_status find_widths(dense_outputs *d)
{
    grail_status status = GRAIL_OK;
    const graph *g = d->setting->dense->graph;
    int64_t *widths = NULL;
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(memory_new(&d->widths, (size_t)d->kept.live_count, sizeof d->widths[0]));
    TRY(graph_widths(g, widths));
    for (int i = 0; i < d->kept.live_count; i++) {
        d->widths[i] = widths[d->kept.live[i]];
    }
out:
    memory_free(widths);
    return status;
}

static grail_status dense_init(const heal_setting *s, bool releases, dense_outputs *d)
{
    const graph *g = s->dense->graph;
    int first = 0;
    *d = (dense_outputs){.setting = s, .releases = releases};
    if (g->input_kind == INPUT_IMAGES) { /* which change */
        return GRAIL_OK;
    }
    graph_block_range(g, g->block_count - 1, &first, &d->begin);
    CHECK(kept_fits(s, d->begin, &d->keeps));
    CHECK(comm_broadcast(s->comm, 0, &d->keeps, sizeof d->keeps));
    CHECK(memory_new(&d->holders, (size_t)s->samples->count, sizeof d->holders[0]));
    for (int64_t i = 0; i < s->samples->count; i++) {
        d->holders[i] = NOBODY;
    }
    CHECK(sample_stream_init(&d->kept, g, s->backend, s->samples->count));
    CHECK(sample_stream_move_begin(&d->kept, d->begin));
    sample_stream_move_end(&d->kept);
    return find_widths(d);
}

static void dense_fini(dense_outputs *d)
{
    sample_stream_fini(&d->kept);
    memory_free(d->holders);
    memory_free(d->widths);
    *d = (dense_outputs){0};
}

/* Runs nodes [begin, end), which are whole blocks and what lies before or behind them. */
static grail_status run_dense(const dense_outputs *d, int begin, int end)
{
    const network_run *dense = d->setting->dense;
    for (int block = GRAPH_NONE; d->releases && block <= dense->graph->block_count; block++) {
        int first = 0;
        int last = 0;
        graph_block_range(dense->graph, block, &first, &last);
        if (first >= begin && last <= end && first < last) {
            CHECK(execution_run(dense->execution, dense->parameters, first, last));
            parameter_store_release_range(dense->parameters, first, last);
        }
    }
    return d->releases ? GRAIL_OK : execution_run(dense->execution, dense->parameters, begin, end);
}

/* Computes some samples up to the head. */
static grail_status compute(dense_outputs *d, const sample_part *part)
{
    grail_status status = GRAIL_OK;
    const heal_setting *s = d->setting;
    const network_run *dense = s->dense;
    part_input input = {0};
    TRY(part_input_copy(s->samples, part, 0, 0, &input));
    TRY(execution_begin(dense->execution, part_shape(s->samples, part), part_input_batch(&input)));
    TRY(run_dense(d, 0, d->begin));
    for (int64_t i = 0; i < part->count; i++) {
        TRY(sample_stream_keep(&d->kept, part->samples[i], dense->execution, i));
    }
out:
    part_input_fini(&input);
    return status;
}

/* Drops what was kept of a sample before keeping the rest of it failed. */
static void dense_drop_incomplete(dense_outputs *d)
{
    for (int64_t i = 0; d->begin > 0 && i < d->setting->samples->count; i++) {
        if (!sample_stream_holds(&d->kept, i)) {
            sample_stream_drop(&d->kept, i);
        }
    }
}

static bool is_listed(int64_t sample, int64_t count, const int64_t *list)
{
    int64_t i = 0;
    while (i < count && list[i] != sample) {
        i++;
    }
    return i < count;
}

/* Computes, on rank `runner`, what no rank keeps of a part. Called by all ranks. Where a
 * computation failed before, its holder makes it now. */
static grail_status dense_prepare(dense_outputs *d, const sample_part *part, int runner)
{
    grail_status status = GRAIL_OK;
    const int rank = comm_rank(d->setting->comm);
    const int64_t most = samples_at_once(d->setting);
    int64_t *missing = NULL;
    int64_t count = 0;
    TRY(memory_new_unset(&missing, (size_t)most, sizeof missing[0]));
    for (int64_t i = 0; d->begin > 0 && i < part->count; i++) {
        const int64_t sample = part->samples[i];
        int *holder = &d->holders[sample];
        *holder = *holder == NOBODY || !d->keeps ? runner : *holder;
        if (*holder == rank && !sample_stream_holds(&d->kept, sample) &&
            !is_listed(sample, count, missing)) {
            missing[count++] = sample;
        }
        if (count == most || (count > 0 && i + 1 == part->count)) {
            TRY(compute(d, &(sample_part){.samples = missing, .count = count}));
            count = 0;
        }
    }
out:
    memory_free(missing);
    return status;
}

/* Puts what is kept of a part into the runner's execution of the dense network. Called by all. */
static grail_status dense_place(dense_outputs *d, const sample_part *part, int runner)
{
    const heal_setting *s = d->setting;
    const sample_pick pick = {.samples = part->samples,
                              .count = part->count,
                              .comm = s->comm,
                              .holders = d->holders,
                              .widths = d->widths,
                              .runner = runner};
    const bool runs = comm_rank(s->comm) == runner;
    if (d->begin == 0) {
        return GRAIL_OK;
    }
    if (runs) {
        CHECK(execution_begin(s->dense->execution, part_shape(s->samples, part), (batch_input){0}));
    }
    CHECK(sample_stream_pick(&d->kept, &pick, s->dense->execution));
    for (int64_t i = 0; !d->keeps && runs && i < part->count; i++) {
        sample_stream_drop(&d->kept, part->samples[i]);
    }
    return GRAIL_OK;
}

/* Leaves the outputs for the placed part in that execution; `input` is the part's. */
static grail_status dense_run(dense_outputs *d, const sample_part *part, const part_input *input)
{
    const network_run *dense = d->setting->dense;
    if (d->begin == 0) {
        CHECK(execution_begin(dense->execution, part_shape(d->setting->samples, part),
                              part_input_batch(input)));
    }
    return run_dense(d, d->begin, dense->graph->node_count);
}

/* -- what is trained --------------------------------------------------------------------------- */

typedef struct network_task {
    const heal_setting *setting;
    dense_outputs dense;
    heal_training training;
    bool *hidden;      /* of values: behind what gradients do not go through; owned */
    sections sections; /* of the current network */
} network_task;

static void task_fini(network_task *t)
{
    memory_free(t->hidden);
    sections_fini(&t->sections);
    dense_fini(&t->dense);
    heal_training_fini(&t->training);
}

/* A device takes embeddings from a table that lies there, not rows of a file at each step. */
static grail_status hold_tables(const network_run *run)
{
    const parameter_entry *ignored = NULL;
    for (int i = 0; i < run->graph->node_count; i++) {
        const node *n = &run->graph->nodes[i];
        if (operator_of(n)->gathers) {
            CHECK(parameter_store_get(run->parameters, n->weight, &ignored));
        }
    }
    return GRAIL_OK;
}

static grail_status task_init(const heal_setting *s, network_task *t)
{
    const graph *g = s->current->graph;
    bool fits = false;
    *t = (network_task){.setting = s};
    CHECK(heal_training_init(s, GRAPH_NONE, GRAPH_NONE, 0, g->node_count, &t->training));
    CHECK(regions_hide(g, 0, g->node_count, &t->hidden, &t->training.region));
    CHECK(tape_fits(s->wide, s->backend, s->samples->positions, t->training.part_samples, 0,
                    s->memory, &fits));
    const bool in_one = fits && !t->training.streams;
    CHECK(sections_init(g, s->current->parameters, s->pool, in_one, &t->sections));
    t->sections.releases = t->training.streams;
    if (fits && backend_is_host(s->backend)) { /* what the tape keeps, again for each part */
        CHECK(matrix_pool_widen(s->pool, g->value_count));
    }
    if (!backend_is_host(s->backend) && !t->training.streams) {
        CHECK(hold_tables(s->dense));
        CHECK(hold_tables(s->current));
    }
    CHECK(dense_init(s, t->training.streams, &t->dense));
    tape_execution(t->sections.tape)->settles_later = true;
    return GRAIL_OK;
}

/* -- the narrow network ------------------------------------------------------------------------ */

/* Rows whose distances are relative to their lengths together: a single position of a map of few
 * channels may be next to nothing, which says nothing of the map. */
static int64_t rows_at_once(const network_task *t, int value, int64_t channels)
{
    enum { FEW = 16 };
    const execution *e = t->setting->dense->execution;
    const bool is_map = e->graph->input_kind == INPUT_IMAGES && channels < FEW;
    return is_map ? e->extents[value].height * e->extents[value].width : 1;
}

/* The distances of so many rows at once, each counting as all of these. */
static grail_status add_distances(matrix y, matrix target, int64_t at_once, double scale,
                                  matrix gradient, matrix sum)
{
    grail_status status = GRAIL_OK;
    const int64_t rows = y.rows / at_once;
    const int64_t columns = y.columns * at_once;
    matrix own = {0};
    if (at_once == 1) {
        return distance_add(y, target, scale, gradient, sum);
    }
    if (matrix_exists(sum)) {
        TRY(matrix_new_zero(sum.owner, GRAIL_DTYPE_F64, 1, 1, &own));
    }
    TRY(distance_add(matrix_reshape(y, rows, columns), matrix_reshape(target, rows, columns),
                     (double)at_once * scale,
                     matrix_exists(gradient) ? matrix_reshape(gradient, rows, columns) : no_matrix,
                     own));
    TRY(matrix_exists(sum) ? matrix_add_scaled((double)at_once, own, sum) : GRAIL_OK);
out:
    matrix_free(&own);
    return status;
}

static grail_status add_output_loss(const network_task *t, int i, double scale, matrix sum)
{
    grail_status status = GRAIL_OK;
    const network_run *dense = t->setting->dense;
    matrix_pool *pool = t->setting->pool;
    const graph_output *output = &t->setting->current->graph->outputs[i];
    const matrix y = execution_value(tape_execution(t->sections.tape), output->value);
    const matrix target = execution_value(dense->execution, dense->graph->outputs[i].value);
    const bool gives = scale > 0.0 && !t->hidden[output->value];
    matrix gradient = {0};
    if (gives) {
        TRY(matrix_pool_take(pool, y.rows, y.columns, &gradient));
    }
    TRY(output->is_logits ? divergence_add(y, target, gives ? scale : 0.0, gradient, sum)
                          : add_distances(y, target, rows_at_once(t, output->value, y.columns),
                                          gives ? scale : 0.0, gradient, sum));
    if (gives) {
        TRY(tape_give(t->sections.tape, output->value, &gradient));
    }
out:
    matrix_pool_give(pool, &gradient);
    return status;
}

/* Adds `share` times that, of one of several outputs. */
static grail_status add_share(const network_task *t, int i, double share, double scale, matrix sum)
{
    grail_status status = GRAIL_OK;
    matrix own = {0};
    if (matrix_exists(sum)) {
        TRY(matrix_new_zero(sum.owner, GRAIL_DTYPE_F64, 1, 1, &own));
    }
    TRY(add_output_loss(t, i, share * scale, own));
    TRY(matrix_exists(sum) ? matrix_add_scaled(share, own, sum) : GRAIL_OK);
out:
    matrix_free(&own);
    return status;
}

/* The mean over the outputs, each the mean of its rows, times rows of the first one. With a scale
 * above 0 the gradients of the outputs that are not hidden are given to the tape. */
static grail_status add_loss(const network_task *t, double scale, matrix sum, int64_t *rows)
{
    const graph *g = t->setting->current->graph;
    const execution *e = tape_execution(t->sections.tape);
    const int64_t first = execution_rows(e, g->output);
    *rows += first;
    if (g->output_count == 1) {
        return add_output_loss(t, 0, scale, sum);
    }
    for (int i = 0; i < g->output_count; i++) {
        const double own = (double)execution_rows(e, g->outputs[i].value);
        CHECK(add_share(t, i, (double)first / own / g->output_count, scale, sum));
    }
    return GRAIL_OK;
}

/* Forward and back for one part, whose dense outputs are there. */
static grail_status part_gradients(network_task *t, const sample_part *part,
                                   const part_input *input, int64_t step, double scale, matrix sum,
                                   int64_t *rows)
{
    execution *e = tape_execution(t->sections.tape);
    gradient_store *gradients = t->training.optimizer->gradients;
    const batch_shape shape = part_shape(t->setting->samples, part);
    CHECK(execution_begin(e, shape, part_input_batch(input)));
    CHECK(sections_forward(&t->sections, gradients));
    for (int i = 0; i < e->graph->output_count; i++) {
        CHECK(watch_step(t->setting, step, execution_value(e, e->graph->outputs[i].value)));
    }
    CHECK(add_loss(t, scale, sum, rows));
    return sections_back(&t->sections, shape, part_input_batch(input), gradients);
}

/* Rows of the first output of one sample. */
static int64_t rows_of_sample(const network_task *t)
{
    const extent *x = &t->setting->dense->execution->extents[t->setting->dense->graph->output];
    return x->height * x->width;
}

/* Forward alone, for a loss without gradients. */
static grail_status part_loss(network_task *t, const sample_part *part, const part_input *input,
                              matrix sum, int64_t *rows)
{
    const heal_setting *s = t->setting;
    CHECK(execution_begin(tape_execution(t->sections.tape), part_shape(s->samples, part),
                          part_input_batch(input)));
    CHECK(sections_forward_alone(&t->sections));
    return add_loss(t, 0.0, sum, rows);
}

static grail_status prepare(void *user, const sample_part *part, int runner)
{
    network_task *t = user;
    return dense_prepare(&t->dense, part, runner);
}

static grail_status place(void *user, const sample_part *part, int runner)
{
    network_task *t = user;
    return dense_place(&t->dense, part, runner);
}

/* Images change with each step, but not those of a loss that is shown. */
static grail_status run(void *user, const sample_part *part, int64_t step, int64_t mean_over,
                        matrix sum, int64_t *rows)
{
    grail_status status = GRAIL_OK;
    network_task *t = user;
    const uint64_t seed = mean_over > 0 ? t->setting->plan->seed + 1 : 0;
    part_input input = {0};
    TRY(part_input_copy(t->setting->samples, part, seed, step, &input));
    TRY(dense_run(&t->dense, part, &input));
    TRY(optimizer_order_weights(t->training.optimizer, t->setting->current->graph));
    tape_execution(t->sections.tape)->unwatched = mean_over > 0 && steps_are_unwatched(t->setting);
    if (mean_over > 0) {
        TRY(part_gradients(t, part, &input, step,
                           step_scale(t->setting, mean_over, rows_of_sample(t)), sum, rows));
    } else {
        TRY(part_loss(t, part, &input, sum, rows));
    }
out:
    part_input_fini(&input);
    return status;
}

static grail_status drop(void *user)
{
    network_task *t = user;
    dense_drop_incomplete(&t->dense);
    CHECK(execution_begin(t->setting->dense->execution, (batch_shape){0}, (batch_input){0}));
    return sections_drop(&t->sections);
}

grail_status heal_network_train(const heal_setting *s, const heal_memory *memory,
                                const heal_limits *limits)
{
    grail_status status = GRAIL_OK;
    network_task t = {0};
    TRY(task_init(s, &t));
    t.training.rate = s->options->network_rate;
    t.training.seconds = limits->seconds;
    t.training.begun = limits->begun;
    t.training.until = limits->until;
    t.training.memory = *memory;
    t.training.loss =
        (heal_loss){.prepare = prepare, .place = place, .run = run, .drop = drop, .user = &t};
    s->dense->execution->settles_later = true;
    TRY(heal_training_run(&t.training));
out:
    s->dense->execution->settles_later = false;
    task_fini(&t);
    matrix_pool_narrow(s->pool);
    return status;
}
