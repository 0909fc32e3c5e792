#include "exec/tape.h"

#include "backend/operations.h"
#include "exec/ops/operator_code.h"
#include "graph/operators.h"

#include <string.h>

grail_status tape_create(const graph *g, backend *b, matrix_pool *pool, tape **out)
{
    const size_t values = (size_t)g->value_count;
    CHECK(memory_new(out, 1, sizeof **out));
    tape *t = *out;
    CHECK(execution_create(g, b, pool, &t->execution));
    CHECK(memory_new(&t->pinned, values, sizeof t->pinned[0]));
    CHECK(memory_new(&t->reached, values, sizeof t->reached[0]));
    CHECK(memory_new(&t->gradients, values, sizeof t->gradients[0]));
    t->execution->pinned = t->pinned;
    return GRAIL_OK;
}

static void drop_gradients(tape *t)
{
    for (int v = 0; t->gradients != NULL && v < t->execution->graph->value_count; v++) {
        matrix_pool_give(t->execution->pool, &t->gradients[v]);
    }
}

void tape_free(tape *t)
{
    if (t == NULL) {
        return;
    }
    drop_gradients(t);
    execution_free(t->execution);
    memory_free(t->pinned);
    memory_free(t->reached);
    memory_free(t->gradients);
    memory_free(t);
}

grail_status tape_drop(tape *t)
{
    drop_gradients(t);
    return execution_begin(t->execution, (batch_shape){0}, (batch_input){0});
}

execution *tape_execution(tape *t)
{
    return t->execution;
}

/* -- forward ----------------------------------------------------------------------------------- */

static bool is_visited(const tape *t, int value)
{
    return t->visitor.wanted != NULL && t->visitor.wanted[value];
}

grail_status tape_forward(tape *t, parameter_store *store, const gradient_store *wanted,
                          bool inputs_too, int begin, int end)
{
    t->begin = begin;
    t->end = end;
    drop_gradients(t);
    /* The values whose gradients are needed: those that depend on a wanted parameter or, with
     * `inputs_too`, on a value made before the first node. The network's own input has none. */
    const graph *g = t->execution->graph;
    for (int v = 0; v < g->value_count; v++) {
        const int source = g->value_source[v];
        t->reached[v] = inputs_too && v != g->input && source < t->begin;
    }
    for (int i = t->begin; i < t->end; i++) {
        const node *n = &g->nodes[i];
        int used[NODE_MAX_PARAMETERS];
        const int count = node_parameters(n, used);
        bool reached = is_visited(t, n->output);
        for (int j = 0; j < count; j++) {
            reached = reached || matrix_exists(gradient_of(wanted, used[j]));
        }
        for (int k = 0; k < n->input_count; k++) {
            reached = reached || t->reached[n->inputs[k]];
        }
        t->reached[n->output] = reached;
    }
    memset(t->pinned, 0, (size_t)g->value_count * sizeof t->pinned[0]);
    for (int i = t->begin; i < t->end; i++) {
        const node *n = &g->nodes[i];
        if (!t->reached[n->output]) {
            continue;
        }
        for (int k = 0; k < n->input_count && operator_of(n)->looks_at_inputs; k++) {
            t->pinned[n->inputs[k]] = true;
        }
        t->pinned[n->output] = t->pinned[n->output] || operator_of(n)->looks_at_output;
    }
    return execution_run(t->execution, store, begin, end);
}

/* -- backward ---------------------------------------------------------------------------------- */

grail_status tape_give(tape *t, int value, matrix *gradient)
{
    matrix *held = &t->gradients[value];
    if (!matrix_exists(*held)) {
        *held = *gradient;
        *gradient = no_matrix;
        return GRAIL_OK;
    }
    CHECK(matrix_add(*held, *gradient, *held));
    matrix_pool_give(t->execution->pool, gradient);
    return GRAIL_OK;
}

static grail_status settle(gradient_store *s, int parameter)
{
    if (parameter == GRAPH_NONE || !s->cleared[parameter]) {
        return GRAIL_OK;
    }
    s->cleared[parameter] = false;
    return matrix_zero(s->gradients[parameter]);
}

/* A Linear can write over the gradient of its weight. */
static grail_status settle_for(const node *n, gradient_store *gradients, node_back *b)
{
    if (node_is_linear(n) && matrix_count(b->dy) > 0) {
        b->replaces = gradients->cleared[n->weight];
        gradients->cleared[n->weight] = false;
    }
    CHECK(settle(gradients, n->weight));
    return settle(gradients, n->bias);
}

static grail_status back_node(tape *t, parameter_store *store, gradient_store *gradients, int index)
{
    grail_status status = GRAIL_OK;
    const node *n = &t->execution->graph->nodes[index];
    const operator_code *code = operator_code_of(n);
    matrix *dy = &t->gradients[n->output];
    if (!t->reached[n->output] || !matrix_exists(*dy)) {
        return GRAIL_OK;
    }
    const profile_kind before = profile_enter(node_profile(n));
    node_back b = {.dweight = gradient_of(gradients, n->weight),
                   .dbias = gradient_of(gradients, n->bias),
                   .dy = *dy};
    *dy = no_matrix;
    TRY(settle_for(n, gradients, &b));
    for (int i = 0; i < n->input_count; i++) {
        b.reaches[i] = t->reached[n->inputs[i]];
    }
    if (is_visited(t, n->output)) {
        TRY(t->visitor.visit(t->visitor.user, n->output, b.dy));
    }
    TRY(execution_describe(t->execution, store, index, &b.run));
    if (code->back == NULL) {
        FAIL(GRAIL_ERROR_INTERNAL, "there is no way back through the network's input");
    }
    TRY(code->back(&b));
    for (int i = 0; i < b.run.node->input_count; i++) {
        if (b.reaches[i] && matrix_exists(b.dx[i])) {
            TRY(tape_give(t, b.run.node->inputs[i], &b.dx[i]));
        }
    }
out:
    profile_enter(before);
    matrix_pool_give(t->execution->pool, &b.dy);
    for (int i = 0; i < NODE_MAX_INPUTS; i++) {
        matrix_pool_give(t->execution->pool, &b.dx[i]);
    }
    return status;
}

grail_status tape_seed(tape *t, int value, matrix gradient)
{
    grail_status status = GRAIL_OK;
    matrix copy = {0};
    TRY(matrix_pool_take(t->execution->pool, gradient.rows, gradient.columns, &copy));
    TRY(matrix_copy(gradient, copy));
    TRY(tape_give(t, value, &copy));
out:
    matrix_pool_give(t->execution->pool, &copy);
    return status;
}

grail_status tape_backward(tape *t, parameter_store *store, gradient_store *gradients)
{
    for (int i = t->end - 1; i >= t->begin; i--) {
        CHECK(back_node(t, store, gradients, i));
    }
    return GRAIL_OK;
}

matrix tape_gradient(const tape *t, int value)
{
    return t->gradients[value];
}

grail_status gradient_store_create(const graph *g, backend *b, gradient_store **out)
{
    CHECK(memory_new(out, 1, sizeof **out));
    gradient_store *s = *out;
    *s = (gradient_store){.count = g->parameter_count, .backend = b};
    CHECK(memory_new(&s->cleared, (size_t)s->count, sizeof s->cleared[0]));
    return memory_new(&s->gradients, (size_t)s->count, sizeof s->gradients[0]);
}

void gradient_store_free(gradient_store *s)
{
    if (s == NULL) {
        return;
    }
    for (int p = 0; s->gradients != NULL && p < s->count; p++) {
        matrix_free(&s->gradients[p]);
    }
    memory_free(s->gradients);
    memory_free(s->cleared);
    memory_free(s);
}

grail_status gradient_store_want(gradient_store *s, parameter_store *parameters, int parameter)
{
    const parameter_entry *entry = NULL;
    CHECK(parameter_store_get(parameters, parameter, &entry));
    matrix_free(&s->gradients[parameter]);
    return matrix_new_zero(s->backend, backend_master_type(s->backend), entry->values.rows,
                           entry->values.columns, &s->gradients[parameter]);
}

matrix gradient_of(const gradient_store *s, int parameter)
{
    return parameter == GRAPH_NONE ? no_matrix : s->gradients[parameter];
}

grail_status gradient_store_clear(gradient_store *s)
{
    for (int p = 0; p < s->count; p++) {
        s->cleared[p] = matrix_exists(s->gradients[p]);
    }
    return s->of_tape ? GRAIL_OK : gradient_store_settle(s);
}

grail_status gradient_store_settle(gradient_store *s)
{
    for (int p = 0; p < s->count; p++) {
        CHECK(settle(s, p));
    }
    return GRAIL_OK;
}
