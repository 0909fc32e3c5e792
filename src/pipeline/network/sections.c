#include "pipeline/network/sections.h"

#include "backend/operations.h"

static void give_kept(const sections *s, section *one)
{
    for (int i = 0; one->kept != NULL && i < one->count; i++) {
        matrix_pool_give(s->pool, &one->kept[i]);
    }
}

void sections_fini(sections *s)
{
    for (int i = 0; i < s->count; i++) {
        give_kept(s, &s->of[i]);
        memory_free(s->of[i].live);
        memory_free(s->of[i].kept);
    }
    memory_free(s->of);
    gradient_store_free(s->none);
    gradient_store_free(s->own);
    tape_free(s->tape);
    *s = (sections){0};
}

grail_status sections_drop(sections *s)
{
    for (int i = 0; i < s->count; i++) {
        give_kept(s, &s->of[i]);
    }
    return tape_drop(s->tape);
}

static grail_status add_section(const graph *g, int begin, int end, sections *s)
{
    section *one = &s->of[s->count++];
    *one = (section){.begin = begin, .end = end};
    CHECK(memory_new(&one->live, (size_t)g->value_count, sizeof one->live[0]));
    const int count = graph_live_values(g, begin, one->live);
    for (int i = 0; i < count; i++) {
        if (one->live[i] != g->input) {
            one->live[one->count++] = one->live[i];
        }
    }
    return memory_new(&one->kept, (size_t)one->count, sizeof one->kept[0]);
}

grail_status sections_init(const graph *g, parameter_store *parameters, matrix_pool *pool,
                           bool in_one, sections *out)
{
    *out = (sections){.parameters = parameters, .pool = pool};
    CHECK(gradient_store_create(g, parameters->backend, &out->none));
    CHECK(gradient_store_create(g, parameters->backend, &out->own));
    CHECK(tape_create(g, parameters->backend, pool, &out->tape));
    CHECK(memory_new(&out->of, (size_t)g->block_count + 2, sizeof out->of[0]));
    if (in_one) {
        return add_section(g, 0, g->node_count, out);
    }
    for (int block = GRAPH_NONE; block <= g->block_count; block++) {
        int begin = 0;
        int end = 0;
        graph_block_range(g, block, &begin, &end);
        if (begin < end) {
            CHECK(add_section(g, begin, end, out));
        }
    }
    return GRAIL_OK;
}

static grail_status keep_inputs(const sections *s, section *one)
{
    for (int i = 0; i < one->count; i++) {
        const matrix v = execution_value(tape_execution(s->tape), one->live[i]);
        CHECK(matrix_pool_take(s->pool, v.rows, v.columns, &one->kept[i]));
        CHECK(matrix_copy(v, one->kept[i]));
    }
    return GRAIL_OK;
}

/* Puts the kept inputs of a section into the execution. */
static grail_status place_inputs(const sections *s, const section *one)
{
    for (int i = 0; i < one->count; i++) {
        CHECK(execution_put(tape_execution(s->tape), one->live[i], one->kept[i]));
    }
    return GRAIL_OK;
}

static grail_status run_section(const sections *s, int index, const gradient_store *wanted)
{
    return tape_forward(s->tape, s->parameters, wanted, index > s->first, s->of[index].begin,
                        s->of[index].end);
}

static void release(const sections *s, int index)
{
    if (s->releases) {
        parameter_store_release_range(s->parameters, s->of[index].begin, s->of[index].end);
    }
}

/* Through all sections but the last without a way back. */
grail_status sections_forward(sections *s, const gradient_store *wanted)
{
    const int last = s->count - 1;
    for (int i = 0; i < last; i++) {
        CHECK(keep_inputs(s, &s->of[i]));
        CHECK(tape_forward(s->tape, s->parameters, s->none, false, s->of[i].begin, s->of[i].end));
        release(s, i);
    }
    CHECK(keep_inputs(s, &s->of[last]));
    return run_section(s, last, wanted);
}

grail_status sections_forward_alone(sections *s)
{
    for (int i = 0; i < s->count; i++) {
        CHECK(tape_forward(s->tape, s->parameters, s->none, false, s->of[i].begin, s->of[i].end));
        release(s, i);
    }
    return GRAIL_OK;
}

/* The gradients of a section's inputs take the place of the inputs. */
static grail_status take_gradients(const sections *s, section *one)
{
    for (int i = 0; i < one->count; i++) {
        const matrix gradient = tape_gradient(s->tape, one->live[i]);
        CHECK(matrix_exists(gradient) ? matrix_copy(gradient, one->kept[i])
                                      : matrix_zero(one->kept[i]));
    }
    return GRAIL_OK;
}

/* Seeds the outputs of section `index` with the gradients that the next one left. */
static grail_status seed_outputs(const sections *s, int index)
{
    section *next = &s->of[index + 1];
    for (int i = 0; i < next->count; i++) {
        CHECK(tape_seed(s->tape, next->live[i], next->kept[i]));
    }
    give_kept(s, next);
    return GRAIL_OK;
}

/* Adds the gradient of a parameter, which the device has, to those in host memory. */
static grail_status send_home(const sections *s, int parameter, const gradient_store *gradients)
{
    grail_status status = GRAIL_OK;
    matrix *own = &s->own->gradients[parameter];
    const matrix sum = gradient_of(gradients, parameter);
    matrix part = {0};
    float *values = NULL;
    TRY(memory_new_unset(&values, (size_t)matrix_count(*own), sizeof values[0]));
    TRY(matrix_download_f32(*own, values));
    TRY(matrix_import(sum.owner, GRAIL_DTYPE_F32, sum.rows, sum.columns, sum.columns, values,
                      &part));
    TRY(matrix_add(sum, part, sum));
out:
    matrix_free(own);
    matrix_free(&part);
    memory_free(values);
    return status;
}

/* Makes room on the device for the gradients of a section's parameters alone. */
static grail_status back_by_way_of_own(const sections *s, int index, gradient_store *gradients)
{
    const graph *g = tape_execution(s->tape)->graph;
    for (int n = s->of[index].begin; n < s->of[index].end; n++) {
        int used[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[n], used);
        for (int i = 0; i < count; i++) {
            if (matrix_exists(gradient_of(gradients, used[i])) &&
                !matrix_exists(gradient_of(s->own, used[i]))) {
                CHECK(gradient_store_want(s->own, s->parameters, used[i]));
            }
        }
    }
    CHECK(tape_backward(s->tape, s->parameters, s->own));
    for (int p = 0; p < g->parameter_count; p++) {
        CHECK(matrix_exists(gradient_of(s->own, p)) ? send_home(s, p, gradients) : GRAIL_OK);
    }
    return GRAIL_OK;
}

static grail_status back_section(const sections *s, int index, gradient_store *gradients)
{
    CHECK(gradients->backend == s->own->backend ? tape_backward(s->tape, s->parameters, gradients)
                                                : back_by_way_of_own(s, index, gradients));
    release(s, index);
    return take_gradients(s, &s->of[index]);
}

/* The first section has no inputs but the network's, which stay with the execution. */
grail_status sections_back(sections *s, batch_shape shape, batch_input input,
                           gradient_store *gradients)
{
    CHECK(back_section(s, s->count - 1, gradients));
    for (int i = s->count - 2; i >= s->first; i--) {
        CHECK(execution_begin(tape_execution(s->tape), shape, input));
        CHECK(place_inputs(s, &s->of[i]));
        CHECK(run_section(s, i, gradients));
        CHECK(seed_outputs(s, i));
        CHECK(back_section(s, i, gradients));
    }
    for (int i = 0; i <= s->first && i < s->count; i++) {
        give_kept(s, &s->of[i]);
    }
    return GRAIL_OK;
}
