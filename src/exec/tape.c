#include "exec/node_back.h"
#include "graph/operators.h"

#include <string.h>

grail_status tape_create(const graph *g, backend *b, matrix_pool *pool, tape **out)
{
    grail_status status = GRAIL_OK;
    tape *t = NULL;
    const size_t values = (size_t)g->value_count;
    TRY(memory_new(&t, 1, sizeof *t));
    TRY(execution_create(g, b, pool, &t->execution));
    TRY(memory_new(&t->pinned, values, sizeof t->pinned[0]));
    TRY(memory_new(&t->reached, values, sizeof t->reached[0]));
    TRY(memory_new(&t->gradients, values, sizeof t->gradients[0]));
    t->execution->pinned = t->pinned;
    *out = t;
    t = NULL;
out:
    tape_free(t);
    return status;
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

execution *tape_execution(tape *t)
{
    return t->execution;
}

/* -- forward ----------------------------------------------------------------------------------- */

static bool wants_parameter(const gradient_store *wanted, const node *n)
{
    int used[NODE_MAX_PARAMETERS];
    const int count = node_parameters(n, used);
    bool wants = false;
    for (int i = 0; i < count; i++) {
        wants = wants || matrix_exists(gradient_of(wanted, used[i]));
    }
    return wants;
}

/* The values whose gradients are needed: those that depend on a wanted parameter or, with
 * `inputs_too`, on a value made before the first node. The network's own input has none. */
static void find_reached(tape *t, const gradient_store *wanted, bool inputs_too)
{
    const graph *g = t->execution->graph;
    for (int v = 0; v < g->value_count; v++) {
        const int source = g->value_source[v];
        t->reached[v] = inputs_too && v != g->input && source < t->begin;
    }
    for (int i = t->begin; i < t->end; i++) {
        const node *n = &g->nodes[i];
        bool reached = wants_parameter(wanted, n);
        for (int k = 0; k < n->input_count; k++) {
            reached = reached || t->reached[n->inputs[k]];
        }
        t->reached[n->output] = reached;
    }
}

static void find_pinned(tape *t)
{
    const graph *g = t->execution->graph;
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
}

grail_status tape_forward(tape *t, parameter_store *store, const gradient_store *wanted,
                          bool inputs_too, int begin, int end)
{
    t->begin = begin;
    t->end = end;
    drop_gradients(t);
    find_reached(t, wanted, inputs_too);
    find_pinned(t);
    return execution_run(t->execution, store, begin, end);
}

/* -- backward ---------------------------------------------------------------------------------- */

bool back_reaches(const node_back *b, int input)
{
    return b->tape->reached[b->node->inputs[input]];
}

matrix back_value(const node_back *b, int input)
{
    return execution_value(b->tape->execution, b->node->inputs[input]);
}

/* Takes *gradient over. */
static grail_status give(tape *t, int value, matrix *gradient)
{
    grail_status status = GRAIL_OK;
    matrix *held = &t->gradients[value];
    if (!matrix_exists(*held)) {
        *held = *gradient;
        *gradient = no_matrix;
        return GRAIL_OK;
    }
    TRY(matrix_add(*held, *gradient, *held));
    matrix_pool_give(t->execution->pool, gradient);
out:
    return status;
}

grail_status back_give(node_back *b, int input, matrix *gradient)
{
    return give(b->tape, b->node->inputs[input], gradient);
}

grail_status back_new(const node_back *b, int input, matrix *out)
{
    const matrix x = back_value(b, input);
    return matrix_pool_take(b->tape->execution->pool, x.rows, x.columns, out);
}

grail_status back_add_column_sums(const node_back *b, matrix x, matrix sum)
{
    grail_status status = GRAIL_OK;
    matrix_pool *pool = b->tape->execution->pool;
    matrix exact = {0};
    matrix rounded = {0};
    if (!matrix_exists(sum)) {
        return GRAIL_OK;
    }
    TRY(matrix_new_zero(x.owner, GRAIL_DTYPE_F64, 1, x.columns, &exact));
    TRY(matrix_column_sums(x, exact, no_matrix));
    TRY(matrix_pool_take(pool, 1, x.columns, &rounded));
    TRY(matrix_copy(exact, rounded));
    TRY(matrix_add(sum, rounded, sum));
out:
    matrix_free(&exact);
    matrix_pool_give(pool, &rounded);
    return status;
}

static grail_status back_kind(node_back *b)
{
    switch (b->node->kind) {
    case NODE_LINEAR:
        return back_linear(b);
    case NODE_ATTENTION:
        return back_attention(b);
    case NODE_ROPE:
        return back_rope(b);
    case NODE_ACTIVATION:
        return back_activation(b);
    case NODE_MULTIPLY:
        return back_multiply(b);
    case NODE_ADD:
        return back_add(b);
    case NODE_RMS_NORM:
    case NODE_BATCH_NORM:
    case NODE_LAYER_NORM:
    case NODE_UNIT_LENGTH:
        return back_norm(b);
    case NODE_CONV2D:
        return back_conv2d(b);
    case NODE_MAX_POOL:
        return back_max_pool(b);
    case NODE_MEAN:
        return back_mean(b);
    case NODE_SHORTCUT:
        return back_shortcut(b);
    case NODE_CLASS_TOKEN:
        return back_class_token(b);
    case NODE_POSITIONS:
        return back_positions(b);
    case NODE_FIRST_TOKEN:
        return back_first_token(b);
    case NODE_EMBEDDING:
        return back_embedding(b);
    case NODE_PATCHES:
        break;
    }
    return error_set(GRAIL_ERROR_INTERNAL, "there is no way back through the network's input");
}

static grail_status back_node(tape *t, parameter_store *store, gradient_store *gradients, int index)
{
    grail_status status = GRAIL_OK;
    const node *n = &t->execution->graph->nodes[index];
    matrix *dy = &t->gradients[n->output];
    if (!t->reached[n->output] || !matrix_exists(*dy)) {
        return GRAIL_OK;
    }
    node_back b = {.tape = t,
                   .node = n,
                   .dweight = gradient_of(gradients, n->weight),
                   .dbias = gradient_of(gradients, n->bias),
                   .dy = *dy};
    *dy = no_matrix;
    TRY(node_entries_get(store, n, &b.entries));
    TRY(back_kind(&b));
out:
    matrix_pool_give(t->execution->pool, &b.dy);
    return status;
}

grail_status tape_seed(tape *t, int value, matrix gradient)
{
    grail_status status = GRAIL_OK;
    matrix copy = {0};
    TRY(matrix_pool_take(t->execution->pool, gradient.rows, gradient.columns, &copy));
    TRY(matrix_copy(gradient, copy));
    TRY(give(t, value, &copy));
out:
    matrix_pool_give(t->execution->pool, &copy);
    return status;
}

grail_status tape_backward(tape *t, parameter_store *store, gradient_store *gradients)
{
    grail_status status = GRAIL_OK;
    for (int i = t->end - 1; i >= t->begin; i--) {
        TRY(back_node(t, store, gradients, i));
    }
out:
    return status;
}

matrix tape_gradient(const tape *t, int value)
{
    return t->gradients[value];
}
