#include "pipeline/network/heal_block.h"

#include "exec/tape.h"
#include "heal/loss.h"
#include "pipeline/network/part_input.h"
#include "pipeline/network/pass.h"
#include "pipeline/network/target.h"

typedef struct block_task {
    const heal_setting *setting;
    const healed_blocks *blocks;
    int begin, end; /* nodes */
    heal_training training;
    int *holders; /* [batches] rank that holds the sample streams of each; owned */
    int64_t *dense_widths, *current_widths; /* columns of the streams' values; owned */
    gradient_store *none;
    tape *tape;
} block_task;

static void task_fini(block_task *t)
{
    heal_training_fini(&t->training);
    gradient_store_free(t->none);
    tape_free(t->tape);
    memory_free(t->holders);
    memory_free(t->dense_widths);
    memory_free(t->current_widths);
}

static grail_status task_init(const heal_setting *s, const healed_blocks *blocks, block_task *t)
{
    int ignored = 0;
    const graph *g = s->current->graph;
    *t = (block_task){.setting = s, .blocks = blocks};
    graph_block_range(g, blocks->first, &t->begin, &ignored);
    graph_block_range(g, blocks->last, &ignored, &t->end);
    CHECK(heal_training_init(s, blocks->first, blocks->last, t->begin, t->end, &t->training));
    CHECK(streams_holders(s->samples, s->comm, &t->holders));
    CHECK(stream_widths(s->comm, &s->dense->stream, &t->dense_widths));
    CHECK(stream_widths(s->comm, &s->current->stream, &t->current_widths));
    CHECK(gradient_store_create(g, s->backend, &t->none));
    CHECK(tape_create(g, s->backend, s->pool, &t->tape));
    tape_execution(t->tape)->settles_later = true;
    return GRAIL_OK;
}

/* Begins the runner's part. A first block may read the images themselves, which no stream holds. */
static grail_status begin_part(const block_task *t, const sample_part *part)
{
    grail_status status = GRAIL_OK;
    const heal_setting *s = t->setting;
    const graph *g = s->current->graph;
    const batch_shape shape = part_shape(s->samples, part);
    part_input input = {0};
    TRY(execution_begin(s->dense->execution, shape, (batch_input){0}));
    if (g->input_kind == INPUT_IMAGES && g->last_use[g->input] >= t->begin) {
        TRY(part_input_copy(s->samples, part, 0, 0, &input));
    }
    TRY(execution_begin(tape_execution(t->tape), shape, part_input_batch(&input)));
out:
    part_input_fini(&input); /* its pixels are the execution's now */
    return status;
}

/* Gives the runner a part of the samples before the block, and the dense values behind it. */
static grail_status place(void *user, const sample_part *part, int runner)
{
    const block_task *t = user;
    const heal_setting *s = t->setting;
    execution *dense = s->dense->execution;
    execution *e = tape_execution(t->tape);
    sample_pick pick = {.samples = part->samples,
                        .count = part->count,
                        .firsts = s->samples->firsts,
                        .comm = s->comm,
                        .holders = t->holders,
                        .widths = t->dense_widths,
                        .runner = runner};
    if (comm_rank(s->comm) == runner) {
        CHECK(begin_part(t, part));
    }
    CHECK(sample_stream_pick(&s->dense->stream, &pick, dense));
    pick.widths = t->current_widths;
    return sample_stream_pick(&s->current->stream, &pick, e);
}

/* *out, which belongs to the pool, becomes what a value should equal in the placed part. */
static grail_status take_target(const heal_setting *s, const heal_goal *goal, matrix *out)
{
    const matrix in = execution_value(s->dense->execution, goal->dense);
    const grail_reducer *r = goal->reducer;
    CHECK(
        matrix_pool_take(s->pool, in.rows, r == NULL ? in.columns : r->kept * goal->features, out));
    return r == NULL ? matrix_copy(in, *out) : reduce_value(r, goal->features, in, *out);
}

/* Adds the distances of all rows of the placed part to the sum; *rows counts them. With a scale
 * above 0 their gradients are given to the tape. */
static grail_status add_distances(const block_task *t, double scale, matrix sum, int64_t *rows)
{
    grail_status status = GRAIL_OK;
    matrix_pool *pool = t->setting->pool;
    matrix gradient = {0};
    matrix target = {0};
    for (int i = 0; i < t->blocks->goal_count; i++) {
        const heal_goal *goal = &t->blocks->goals[i];
        const matrix y = execution_value(tape_execution(t->tape), goal->value);
        TRY(take_target(t->setting, goal, &target));
        if (scale > 0.0) {
            TRY(matrix_pool_take(pool, y.rows, y.columns, &gradient));
        }
        TRY(distance_add(y, target, scale, gradient, sum));
        if (scale > 0.0) {
            TRY(tape_seed(t->tape, goal->value, gradient));
        }
        *rows += y.rows;
        matrix_pool_give(pool, &gradient);
        matrix_pool_give(pool, &target);
    }
out:
    matrix_pool_give(pool, &gradient);
    matrix_pool_give(pool, &target);
    return status;
}

/* Rows of all goals of one sample. */
static int64_t rows_of_sample(const block_task *t)
{
    int64_t rows = 0;
    for (int i = 0; i < t->blocks->goal_count; i++) {
        const extent *x = &tape_execution(t->tape)->extents[t->blocks->goals[i].value];
        rows += x->height * x->width;
    }
    return rows;
}

static grail_status watch_outputs(const block_task *t, int64_t step)
{
    for (int i = 0; i < t->blocks->goal_count; i++) {
        const int value = t->blocks->goals[i].value;
        CHECK(watch_step(t->setting, step, execution_value(tape_execution(t->tape), value)));
    }
    return GRAIL_OK;
}

static grail_status run(void *user, const sample_part *part, int64_t step, int64_t mean_over,
                        matrix sum, int64_t *rows)
{
    const block_task *t = user;
    parameter_store *parameters = t->setting->current->parameters;
    gradient_store *gradients = t->training.optimizer->gradients;
    const bool trains = mean_over > 0;
    (void)part;
    tape_execution(t->tape)->unwatched = trains && steps_are_unwatched(t->setting);
    CHECK(tape_forward(t->tape, parameters, trains ? gradients : t->none, false, t->begin, t->end));
    CHECK(add_distances(t, trains ? step_scale(t->setting, mean_over, rows_of_sample(t)) : 0.0, sum,
                        rows));
    if (!trains) {
        return GRAIL_OK;
    }
    CHECK(watch_outputs(t, step));
    return tape_backward(t->tape, parameters, gradients);
}

static grail_status drop(void *user)
{
    const block_task *t = user;
    CHECK(execution_begin(t->setting->dense->execution, (batch_shape){0}, (batch_input){0}));
    return tape_drop(t->tape);
}

grail_status heal_block_train(const heal_setting *s, const healed_blocks *blocks)
{
    grail_status status = GRAIL_OK;
    block_task t = {0};
    TRY(task_init(s, blocks, &t));
    if (t.training.optimizer->count > 0 && blocks->goal_count > 0) {
        t.training.rate = s->options->block_rate;
        t.training.seconds = blocks->seconds;
        t.training.begun = blocks->begun;
        t.training.loss = (heal_loss){.place = place, .run = run, .drop = drop, .user = &t};
        TRY(heal_training_run(&t.training));
    }
out:
    task_fini(&t);
    return status;
}
