#include "pipeline/network/heal_block.h"

#include "base/clock.h"
#include "exec/tape.h"
#include "heal/loss.h"
#include "pipeline/network/heal_input.h"
#include "pipeline/network/heal_training.h"
#include "pipeline/network/pass.h"
#include "pipeline/network/target.h"

#include <math.h>

/* A value behind the block and the dense network's value that it should equal. */
typedef struct goal {
    int value, dense;
} goal;

typedef struct block_task {
    calibration_network *network;
    int block, last_block, begin, end;
    goal *goals; /* [goal_count] */
    int goal_count;
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
    memory_free(t->goals);
}

/* -- what is trained, towards what ------------------------------------------------------------- */

/* Pairs the values that live behind the block with those of the dense sample stream. Where that one
 * is ahead, behind sublayers that are dropped, there is one of each. */
static grail_status find_goals(block_task *t)
{
    grail_status status = GRAIL_OK;
    const graph *g = t->network->request->graph;
    const sample_stream *dense = &t->network->dense.stream;
    int *live = NULL;
    TRY(memory_new(&live, (size_t)g->value_count, sizeof live[0]));
    const int count = graph_live_values(g, t->end, live);
    TRY(memory_new(&t->goals, (size_t)count, sizeof t->goals[0]));
    for (int i = 0; i < count; i++) {
        if (g->value_source[live[i]] >= t->begin) {
            t->goals[t->goal_count++] = (goal){.value = live[i], .dense = live[i]};
        }
    }
    const bool same_place = t->network->dense.graph == g && dense->position == t->end;
    if (same_place) {
        goto out;
    }
    if (t->goal_count != 1 || dense->live_count != 1) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "cannot heal block %d: %d values leave it, and the dense network has %d there; heal "
             "the model instead",
             t->last_block, t->goal_count, dense->live_count);
    }
    t->goals[0].dense = dense->live[0];
out:
    memory_free(live);
    return status;
}

static grail_status task_init(calibration_network *network, int first, int last, block_task *t)
{
    int ignored = 0;
    const compression_request *request = network->request;
    *t = (block_task){.network = network, .block = first, .last_block = last};
    graph_block_range(request->graph, first, &t->begin, &ignored);
    graph_block_range(request->graph, last, &ignored, &t->end);
    CHECK(pass_to(network, t->begin, network_dense_end(network, last)));
    CHECK(find_goals(t));
    CHECK(heal_training_init(network, first, last, t->begin, t->end, &t->training));
    CHECK(streams_holders(request, &t->holders));
    CHECK(stream_widths(request->comm, &network->dense.stream, &t->dense_widths));
    CHECK(stream_widths(request->comm, &network->current.stream, &t->current_widths));
    CHECK(gradient_store_create(request->graph, request->backend, &t->none));
    return tape_create(request->graph, request->backend, network->pool, &t->tape);
}

/* -- losses ------------------------------------------------------------------------------------ */

/* Gives the runner a part of the samples before the block, and the dense values behind it. */
static grail_status place(void *user, const sample_part *part, int runner)
{
    const block_task *t = user;
    const calibration_network *n = t->network;
    const calibration *samples = n->request->samples;
    execution *dense = n->dense.execution;
    execution *e = tape_execution(t->tape);
    sample_pick pick = {.samples = part->samples,
                        .count = part->count,
                        .firsts = samples->firsts,
                        .comm = n->request->comm,
                        .holders = t->holders,
                        .widths = t->dense_widths,
                        .runner = runner};
    if (comm_rank(n->request->comm) == runner) {
        const batch_shape shape = part_shape(n->request, part);
        CHECK(execution_begin(dense, shape, (batch_input){0}));
        CHECK(execution_begin(e, shape, (batch_input){0}));
    }
    CHECK(sample_stream_pick(&n->dense.stream, &pick, dense));
    pick.widths = t->current_widths;
    return sample_stream_pick(&n->current.stream, &pick, e);
}

/* Adds the distances of all rows of the placed part; *rows counts them. With a scale above 0 their
 * gradients are given to the tape. */
static grail_status add_distances(const block_task *t, double scale, double *sum, int64_t *rows)
{
    grail_status status = GRAIL_OK;
    matrix_pool *pool = t->network->pool;
    matrix gradient = {0};
    matrix target = {0};
    for (int i = 0; i < t->goal_count; i++) {
        const matrix y = execution_value(tape_execution(t->tape), t->goals[i].value);
        TRY(dense_value(t->network, t->goals[i].value, t->goals[i].dense, &target));
        if (scale > 0.0) {
            TRY(matrix_pool_take(pool, y.rows, y.columns, &gradient));
        }
        TRY(distance_add(y, target, scale, gradient, sum));
        if (scale > 0.0) {
            TRY(tape_seed(t->tape, t->goals[i].value, gradient));
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
    for (int i = 0; i < t->goal_count; i++) {
        const extent *x = &tape_execution(t->tape)->extents[t->goals[i].value];
        rows += x->height * x->width;
    }
    return rows;
}

static grail_status run(void *user, const sample_part *part, int64_t step, int64_t mean_over,
                        double *sum, int64_t *rows)
{
    const block_task *t = user;
    const calibration_network *n = t->network;
    gradient_store *gradients = t->training.optimizer->gradients;
    const bool trains = mean_over > 0;
    (void)part;
    (void)step;
    CHECK(tape_forward(t->tape, n->current.parameters, trains ? gradients : t->none, false,
                       t->begin, t->end));
    CHECK(
        add_distances(t, trains ? 1.0 / (double)(mean_over * rows_of_sample(t)) : 0.0, sum, rows));
    return trains ? tape_backward(t->tape, n->current.parameters, gradients) : GRAIL_OK;
}

/* -- the training ------------------------------------------------------------------------------ */

/* What is left for blocks: half of all is kept for the network where it is healed. */
static double seconds_left(const calibration_network *network)
{
    const heal_options *h = &network->request->heal;
    return (h->network ? 0.5 * h->seconds : h->seconds) - network->healings.seconds;
}

/* The share of these blocks, where all that are not trained yet have even ones. */
static double share_of(const calibration_network *network, int first, int last)
{
    return seconds_left(network) * (double)(last - first + 1) /
           (double)(network->request->graph->block_count - first);
}

bool heal_block_has_time(const calibration_network *network, int block)
{
    int first = 0;
    int last = 0;
    const compression_request *request = network->request;
    const healing_list *list = &network->healings;
    const grail_healing *before = list->count > 0 ? &list->made[list->count - 1] : NULL;
    const double set_up = before != NULL && before->steps == 0 ? before->seconds : 0.0;
    if (block >= request->graph->block_count) {
        return false;
    }
    heal_group_of(&request->heal, block, request->graph->block_count, &first, &last);
    return share_of(network, first, last) > set_up;
}

grail_status heal_wait(calibration_network *network, int first)
{
    int begin = 0;
    int end = 0;
    if (!heal_block_has_time(network, first)) {
        return GRAIL_OK;
    }
    graph_block_range(network->request->graph, first, &begin, &end);
    CHECK(pass_to(network, begin, GRAPH_NONE));
    return sample_stream_copy(&network->current.stream, &network->before_group);
}

/* Puts the current sample stream before the blocks again, where it was kept there. */
static void go_back(calibration_network *network)
{
    if (network->before_group.graph != NULL) {
        sample_stream_fini(&network->current.stream);
        network->current.stream = network->before_group;
        network->before_group = (sample_stream){0};
    }
}

grail_status heal_blocks(calibration_network *network, int first, int last)
{
    grail_status status = GRAIL_OK;
    block_task t = {0};
    const double begun = clock_seconds();
    if (!heal_block_has_time(network, first)) {
        return heal_training_skip(network, first, last);
    }
    go_back(network);
    TRY(task_init(network, first, last, &t));
    if (t.training.optimizer->count > 0 && t.goal_count > 0) {
        t.training.rate = network->request->heal.block_rate;
        t.training.seconds = share_of(network, first, last);
        t.training.begun = begun;
        t.training.parts.loss = (heal_loss){.place = place, .run = run, .user = &t};
        TRY(heal_training_run(&t.training));
    }
out:
    task_fini(&t);
    matrix_pool_clear(network->pool);
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        error_prefix(first == last ? "healing of block %d" : "healing of blocks %d to %d", first,
                     last);
    }
    return status;
}
