#include "pipeline/network/heal_network.h"

#include "base/clock.h"
#include "exec/tape.h"
#include "heal/loss.h"
#include "pipeline/network/heal_dense.h"
#include "pipeline/network/keeping.h"

/* The nodes are run in sections. Forward, only what lies between them is kept; on the way back each
 * section but the last is run again. Where the values of all nodes fit, there is one. */
typedef struct section {
    int begin, end; /* nodes */
    int *live;      /* [count] values made before `begin` that it or a later one reads; owned */
    int count;
    matrix *kept; /* [count] of the pool; their gradients on the way back */
} section;

typedef struct network_task {
    calibration_network *network;
    section *sections; /* [section_count] */
    int section_count;
    heal_dense dense;
    bool is_divergence;
    heal_training training;
    gradient_store *none;
    tape *tape;
} network_task;

static void task_fini(network_task *t)
{
    for (int s = 0; s < t->section_count; s++) {
        for (int i = 0; i < t->sections[s].count; i++) {
            matrix_pool_give(t->network->pool, &t->sections[s].kept[i]);
        }
        memory_free(t->sections[s].live);
        memory_free(t->sections[s].kept);
    }
    memory_free(t->sections);
    heal_dense_fini(&t->dense);
    heal_training_fini(&t->training);
    gradient_store_free(t->none);
    tape_free(t->tape);
}

/* -- preparation ------------------------------------------------------------------------------- */

static grail_status add_section(network_task *t, int begin, int end)
{
    const graph *g = t->network->request->graph;
    section *s = &t->sections[t->section_count++];
    *s = (section){.begin = begin, .end = end};
    CHECK(memory_new(&s->live, (size_t)g->value_count, sizeof s->live[0]));
    const int count = graph_live_values(g, begin, s->live);
    for (int i = 0; i < count; i++) {
        if (s->live[i] != g->input) {
            s->live[s->count++] = s->live[i];
        }
    }
    return memory_new(&s->kept, (size_t)s->count, sizeof s->kept[0]);
}

/* Else one for the nodes before the blocks, one for each block, one for those behind. */
static grail_status make_sections(network_task *t)
{
    bool fits = false;
    const graph *g = t->network->request->graph;
    CHECK(memory_new(&t->sections, (size_t)g->block_count + 2, sizeof t->sections[0]));
    CHECK(tape_fits(t->network->request, t->training.parts.size, t->network->memory, &fits));
    if (fits) {
        return add_section(t, 0, g->node_count);
    }
    for (int block = GRAPH_NONE; block <= g->block_count; block++) {
        int begin = 0;
        int end = 0;
        graph_block_range(g, block, &begin, &end);
        if (begin < end) {
            CHECK(add_section(t, begin, end));
        }
    }
    return GRAIL_OK;
}

static grail_status task_init(calibration_network *network, network_task *t)
{
    const compression_request *request = network->request;
    const graph *g = request->graph;
    *t = (network_task){.network = network, .is_divergence = !graph_gives_features(g)};
    CHECK(network_rewind(network));
    CHECK(heal_training_init(network, GRAPH_NONE, GRAPH_NONE, 0, g->node_count, &t->training));
    CHECK(make_sections(t));
    CHECK(heal_dense_init(network, &t->dense));
    CHECK(gradient_store_create(g, request->backend, &t->none));
    return tape_create(g, request->backend, network->pool, &t->tape);
}

/* -- the narrow network ------------------------------------------------------------------------ */

static grail_status keep_inputs(const network_task *t, section *s)
{
    for (int i = 0; i < s->count; i++) {
        const matrix v = execution_value(tape_execution(t->tape), s->live[i]);
        CHECK(matrix_pool_take(t->network->pool, v.rows, v.columns, &s->kept[i]));
        CHECK(matrix_copy(v, s->kept[i]));
    }
    return GRAIL_OK;
}

/* Puts the kept inputs of a section into the execution. */
static grail_status place_inputs(const network_task *t, section *s)
{
    for (int i = 0; i < s->count; i++) {
        CHECK(execution_put(tape_execution(t->tape), s->live[i], s->kept[i]));
    }
    return GRAIL_OK;
}

/* Forward through all sections but the last, without a way back. */
static grail_status run_forward(const network_task *t)
{
    for (int i = 0; i + 1 < t->section_count; i++) {
        CHECK(keep_inputs(t, &t->sections[i]));
        CHECK(tape_forward(t->tape, t->network->current.parameters, t->none, false,
                           t->sections[i].begin, t->sections[i].end));
    }
    return keep_inputs(t, &t->sections[t->section_count - 1]);
}

/* The gradients of a section's inputs take the place of the inputs. */
static grail_status take_gradients(const network_task *t, section *s)
{
    for (int i = 0; i < s->count; i++) {
        const matrix gradient = tape_gradient(t->tape, s->live[i]);
        CHECK(matrix_exists(gradient) ? matrix_copy(gradient, s->kept[i])
                                      : matrix_zero(s->kept[i]));
    }
    return GRAIL_OK;
}

/* Seeds the outputs of section `index` with the gradients that the next one left. */
static grail_status seed_outputs(const network_task *t, int index)
{
    section *next = &t->sections[index + 1];
    for (int i = 0; i < next->count; i++) {
        CHECK(tape_seed(t->tape, next->live[i], next->kept[i]));
        matrix_pool_give(t->network->pool, &next->kept[i]);
    }
    return GRAIL_OK;
}

/* With a scale above 0 the gradient of the outputs is given to the tape. */
static grail_status add_loss(const network_task *t, double scale, double *sum, int64_t *rows)
{
    grail_status status = GRAIL_OK;
    const calibration_network *n = t->network;
    const int output = n->request->graph->output;
    const matrix y = execution_value(tape_execution(t->tape), output);
    const matrix target = execution_value(n->dense.execution, n->dense.graph->output);
    matrix gradient = {0};
    if (scale > 0.0) {
        TRY(matrix_pool_take(n->pool, y.rows, y.columns, &gradient));
    }
    TRY(t->is_divergence ? divergence_add(y, target, scale, gradient, sum)
                         : distance_add(y, target, scale, gradient, sum));
    if (scale > 0.0) {
        TRY(tape_seed(t->tape, output, gradient));
    }
    *rows += y.rows;
out:
    matrix_pool_give(n->pool, &gradient);
    return status;
}

static grail_status run_section(const network_task *t, int index, const gradient_store *wanted)
{
    const section *s = &t->sections[index];
    return tape_forward(t->tape, t->network->current.parameters, wanted, index > 0, s->begin,
                        s->end);
}

static grail_status back_section(const network_task *t, int index)
{
    CHECK(tape_backward(t->tape, t->network->current.parameters, t->training.optimizer->gradients));
    return take_gradients(t, &t->sections[index]);
}

/* Forward and back for one part, whose dense outputs are there. The first section has no inputs but
 * the network's, which stay with the execution. */
static grail_status part_gradients(const network_task *t, const sample_part *part,
                                   const heal_input *input, double scale, double *sum,
                                   int64_t *rows)
{
    execution *e = tape_execution(t->tape);
    const batch_shape shape = part_shape(t->network->request, part);
    const int last = t->section_count - 1;
    CHECK(execution_begin(e, shape, heal_batch_input(input)));
    CHECK(run_forward(t));
    CHECK(run_section(t, last, t->training.optimizer->gradients));
    CHECK(add_loss(t, scale, sum, rows));
    CHECK(back_section(t, last));
    for (int i = last - 1; i >= 0; i--) {
        CHECK(execution_begin(e, shape, heal_batch_input(input)));
        CHECK(place_inputs(t, &t->sections[i]));
        CHECK(run_section(t, i, t->training.optimizer->gradients));
        CHECK(seed_outputs(t, i));
        CHECK(back_section(t, i));
    }
    return GRAIL_OK;
}

/* Rows of the output of one sample. */
static int64_t rows_of_sample(const network_task *t)
{
    const extent *x = &t->network->dense.execution->extents[t->network->dense.graph->output];
    return x->height * x->width;
}

/* Forward alone, for a loss without gradients. */
static grail_status part_loss(const network_task *t, const sample_part *part,
                              const heal_input *input, double *sum, int64_t *rows)
{
    const compression_request *request = t->network->request;
    CHECK(execution_begin(tape_execution(t->tape), part_shape(request, part),
                          heal_batch_input(input)));
    CHECK(tape_forward(t->tape, t->network->current.parameters, t->none, false, 0,
                       request->graph->node_count));
    return add_loss(t, 0.0, sum, rows);
}

static grail_status prepare(void *user, const sample_part *part, int runner)
{
    network_task *t = user;
    return heal_dense_prepare(&t->dense, part, runner);
}

static grail_status place(void *user, const sample_part *part, int runner)
{
    network_task *t = user;
    return heal_dense_place(&t->dense, part, runner);
}

/* Images change with each step, but not those of a loss that is shown. */
static grail_status run(void *user, const sample_part *part, int64_t step, int64_t mean_over,
                        double *sum, int64_t *rows)
{
    grail_status status = GRAIL_OK;
    network_task *t = user;
    const compression_request *request = t->network->request;
    heal_input input = {0};
    TRY(heal_input_of(request, part, mean_over > 0 ? request->plan.seed + 1 : 0, step, &input));
    TRY(heal_dense_run(&t->dense, part, &input));
    if (mean_over > 0) {
        TRY(part_gradients(t, part, &input, 1.0 / (double)(mean_over * rows_of_sample(t)), sum,
                           rows));
    } else {
        TRY(part_loss(t, part, &input, sum, rows));
    }
out:
    heal_input_fini(&input);
    return status;
}

grail_status heal_network(calibration_network *network, const heal_memory *memory)
{
    grail_status status = GRAIL_OK;
    network_task t = {0};
    const heal_options *h = &network->request->heal;
    const double begun = clock_seconds();
    const double seconds = h->seconds - network->healings.seconds;
    TRY(task_init(network, &t));
    t.training.rate = h->network_rate;
    t.training.seconds = seconds;
    t.training.begun = begun;
    t.training.memory = *memory;
    t.training.parts.loss = (heal_loss){.prepare = prepare, .place = place, .run = run, .user = &t};
    TRY(heal_training_run(&t.training));
    TRY(network_rewind(network));
out:
    if (t.network != NULL) {
        task_fini(&t);
    }
    matrix_pool_clear(network->pool);
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        error_prefix("healing of the network");
    }
    return status;
}
