#include "exec/execution.h"

#include "base/stop.h"
#include "exec/ops/operator_code.h"
#include "graph/operators.h"

#include <math.h>

#include <stdio.h>
#include <string.h>

batch_shape sequence_batch(int64_t sequences, int64_t length)
{
    return (batch_shape){.samples = sequences, .positions = {.height = length, .width = 1}};
}

/* Values of 16 bits hold no integers above 256, or 2048. */
static grail_status check_integers(const graph *g, const backend *b)
{
    return graph_holds_integers(g) && element_size(backend_type(b)) < sizeof(float)
               ? error_set(GRAIL_ERROR_UNSUPPORTED,
                           "the network reads integers beside other inputs, which values in %s do "
                           "not hold exactly; compute in f32",
                           backend_precision(b))
               : GRAIL_OK;
}

grail_status execution_create(const graph *g, backend *b, matrix_pool *pool, execution **out)
{
    CHECK(check_integers(g, b));
    CHECK(memory_new(out, 1, sizeof **out));
    execution *e = *out;
    *e = (execution){.graph = g, .backend = b, .pool = pool};
    CHECK(memory_new(&e->routed, (size_t)g->value_count, sizeof e->routed[0]));
    CHECK(memory_new(&e->values, (size_t)g->value_count, sizeof e->values[0]));
    CHECK(memory_new(&e->kept, (size_t)g->value_count, sizeof e->kept[0]));
    CHECK(memory_new(&e->widths, (size_t)g->value_count, sizeof e->widths[0]));
    CHECK(memory_new(&e->taken, (size_t)g->value_count, sizeof e->taken[0]));
    return memory_new(&e->extents, (size_t)g->value_count, sizeof e->extents[0]);
}

static void drop_value(execution *e, int value)
{
    routed_lists_fini(&e->routed[value]);
    matrix_pool_give(e->pool, &e->values[value]);
}

static void drop_values(execution *e)
{
    for (int v = 0; e->values != NULL && v < e->graph->value_count; v++) {
        drop_value(e, v);
    }
}

void execution_free(execution *e)
{
    if (e == NULL) {
        return;
    }
    drop_values(e);
    for (int v = 0; e->kept != NULL && v < e->graph->value_count; v++) {
        matrix_free(&e->kept[v]);
    }
    memory_free(e->values);
    memory_free(e->kept);
    memory_free(e->routed);
    memory_free(e->taken);
    memory_free(e->widths);
    memory_free(e->extents);
    memory_free(e);
}

grail_status execution_begin(execution *e, batch_shape shape, batch_input input)
{
    drop_values(e);
    memset(e->taken, 0, (size_t)e->graph->value_count * sizeof e->taken[0]);
    e->shape = shape;
    e->input = input;
    if (shape.samples == 0) {
        memset(e->extents, 0, (size_t)e->graph->value_count * sizeof e->extents[0]);
        return GRAIL_OK;
    }
    CHECK(graph_extents(e->graph, shape.positions, e->extents));
    for (int v = 0; v < e->graph->value_count; v++) {
        const extent *x = &e->extents[v];
        size_t rows = 0;
        if (!size_multiply((size_t)x->height, (size_t)x->width, &rows) ||
            !size_multiply(rows, (size_t)e->shape.samples, &rows) || rows > INT64_MAX) {
            return error_set(
                GRAIL_ERROR_MEMORY,
                "a batch of %lld samples with %lld x %lld positions each is too large to address",
                (long long)e->shape.samples, (long long)x->height, (long long)x->width);
        }
    }
    if (input.pixels != NULL) {
        matrix place = {0};
        CHECK(execution_make(e, e->graph->input, e->graph->channels, &place));
        CHECK(matrix_upload_f32(place, input.pixels));
    }
    return GRAIL_OK;
}

int64_t execution_rows(const execution *e, int value)
{
    const int route = e->graph->routes[value];
    if (route != GRAPH_NONE) {
        return e->taken[route];
    }
    return e->shape.samples * e->extents[value].height * e->extents[value].width;
}

matrix execution_value(const execution *e, int value)
{
    return e->values[value];
}

grail_status execution_make(execution *e, int value, int64_t columns, matrix *out)
{
    drop_value(e, value);
    e->widths[value] = columns;
    CHECK(matrix_pool_take(e->pool, execution_rows(e, value), columns, &e->values[value]));
    *out = e->values[value];
    return GRAIL_OK;
}

grail_status execution_put(execution *e, int value, matrix m)
{
    const int route = e->graph->routes[value];
    matrix place = {0};
    if (route != GRAPH_NONE) {
        e->taken[route] = m.rows;
    }
    CHECK(execution_make(e, value, m.columns, &place));
    return matrix_copy(m, place);
}

void execution_adopt(execution *e, int value, matrix *m)
{
    const int route = e->graph->routes[value];
    if (route != GRAPH_NONE) {
        e->taken[route] = m->rows;
    }
    drop_value(e, value);
    e->widths[value] = m->columns;
    e->values[value] = *m;
    *m = no_matrix;
}

void execution_take(execution *e, int value, matrix *out)
{
    *out = e->values[value];
    e->values[value] = no_matrix;
    drop_value(e, value);
}

static grail_status list_rows(const execution *e, int shares)
{
    routed_lists *of = &e->routed[shares];
    if (of->begin != NULL) {
        return GRAIL_OK;
    }
    const grail_status status = routed_lists_make(e->values[shares], of);
    if (status != GRAIL_OK) {
        routed_lists_fini(of);
    }
    return status;
}

grail_status execution_routed(const execution *e, int shares, int64_t output, routed_rows *out)
{
    CHECK(list_rows(e, shares));
    *out = routed_rows_of(&e->routed[shares], output);
    return GRAIL_OK;
}

grail_status execution_put_shares(execution *e, int shares, const execution *from)
{
    CHECK(list_rows(from, shares));
    CHECK(execution_put(e, shares, from->values[shares]));
    const grail_status status = routed_lists_copy(&from->routed[shares], &e->routed[shares]);
    if (status != GRAIL_OK) {
        routed_lists_fini(&e->routed[shares]);
    }
    return status;
}

/* Whether nothing reads a value after node `index`. */
static bool is_done_with(const execution *e, int value, int index)
{
    return e->graph->last_use[value] == index && !(e->pinned != NULL && e->pinned[value]);
}

/* The input whose memory the node's output may take over, or GRAPH_NONE. */
static int input_taken_over(const execution *e, int index, int64_t columns)
{
    const node *n = &e->graph->nodes[index];
    const in_place_rule rule = operator_of(n)->in_place;
    const int end = rule == IN_PLACE_NEVER ? 0 : n->input_count;
    const int first = rule == IN_PLACE_THIRD ? 2 : rule == IN_PLACE_SECOND ? 1 : 0;
    for (int i = first; i < end; i++) {
        const matrix *x = &e->values[n->inputs[i]];
        const bool fits = x->columns == columns && x->rows == execution_rows(e, n->output);
        if (fits && is_done_with(e, n->inputs[i], index) &&
            (i == 0 || n->inputs[i] != n->inputs[0])) {
            return n->inputs[i];
        }
    }
    return GRAPH_NONE;
}

static grail_status make_output(execution *e, int index, node_run *r)
{
    const node *n = &e->graph->nodes[index];
    int64_t in[NODE_MAX_INPUTS];
    for (int i = 0; i < NODE_MAX_INPUTS; i++) {
        in[i] = r->x[i].columns;
    }
    const int64_t columns = node_width(n, r->weight_shape, in);
    const int taken = input_taken_over(e, index, columns);
    if (taken == GRAPH_NONE) {
        return execution_make(e, n->output, columns, &r->y);
    }
    e->widths[n->output] = columns;
    e->values[n->output] = e->values[taken];
    r->y = e->values[taken];
    return GRAIL_OK;
}

grail_status execution_watch(const graph *g, const node *n, int64_t first, matrix y)
{
    char text[WATCH_TEXT];
    char block[32] = "";
    if (n->block >= 0 && n->block < g->block_count) {
        snprintf(block, sizeof block, "block %d: ", n->block);
    }
    const bool is_named = n->kind == NODE_OPAQUE; /* with its own marks */
    const char *name = n->weight != GRAPH_NONE ? g->parameters[n->weight].name
                       : is_named              ? region_name(n->region)
                                               : "attention";
    snprintf(text, sizeof text,
             is_named ? "%sthe output of %s, which ONNX Runtime computes, is NaN or infinite"
                      : "%sthe output of '%s' is NaN or infinite",
             block, name);
    return matrix_watch(y, first, text);
}

static grail_status get_values(parameter_store *store, int parameter, matrix *out)
{
    const parameter_entry *entry = NULL;
    const grail_status status =
        parameter == GRAPH_NONE ? GRAIL_OK : parameter_store_get(store, parameter, &entry);
    *out = entry == NULL ? no_matrix : entry->values;
    return status;
}

grail_status execution_describe(execution *e, parameter_store *store, int index, node_run *out)
{
    const node *n = &e->graph->nodes[index];
    *out = (node_run){
        .node = n,
        .y = e->values[n->output],
        .samples = e->shape.samples,
        .in = e->extents[n->inputs[0]],
        .out = e->extents[n->output],
        .image = e->extents[e->graph->input],
        .kept = &e->kept[n->output],
        .pool = e->pool,
        .store = store,
        .ids = e->input.ids,
        .past = e->past,
        .kept_keys = e->past == NULL ? NULL : &e->past->keys[index],
        .order = e->orders == NULL ? NULL : e->orders[n->output],
    };
    for (int i = 0; i < n->input_count; i++) {
        out->x[i] = e->values[n->inputs[i]];
        out->each[i] = e->extents[n->inputs[i]];
        out->rows[i] = execution_rows(e, n->inputs[i]);
        out->columns[i] = e->widths[n->inputs[i]];
    }
    if (operator_of(n)->axis == AXIS_ROUTED && matrix_exists(out->x[1])) {
        CHECK(execution_routed(e, n->inputs[1], n->share, &out->routed));
    }
    if (operator_of(n)->gathers) {
        out->weight_shape = e->graph->parameters[n->weight].shape;
        return GRAIL_OK;
    }
    const parameter_entry *weight = NULL;
    CHECK(get_values(store, n->weight, &out->weight));
    CHECK(get_values(store, n->bias, &out->bias));
    CHECK(get_values(store, n->mean, &out->mean));
    CHECK(get_values(store, n->variance, &out->variance));
    if (n->weight != GRAPH_NONE) {
        CHECK(parameter_store_get(store, n->weight, &weight));
        const int64_t more = weight->shape[0] - e->graph->parameters[n->weight].shape[0];
        out->weight_shape = weight->shape;
        out->behind = more > 0 ? more : 0;
    }
    return GRAIL_OK;
}

/* Whether what it makes is limited in the same pass. What is NaN then comes from sums that
 * overflowed, and is searched for behind the next node. */
static bool is_bounded(const node *n)
{
    return (n->kind == NODE_CONV2D || n->kind == NODE_DEPTHWISE) && n->ceiling > 0.0 &&
           isfinite(n->ceiling);
}

/* The node at `index` with what the next one, before `end`, limits its output to, when it can do
 * that in the same pass and nothing else reads the output. */
static node with_limit_behind(const execution *e, int index, int end)
{
    node n = e->graph->nodes[index];
    const node *next = index + 1 < end ? &e->graph->nodes[index + 1] : NULL;
    if ((n.kind == NODE_CONV2D || n.kind == NODE_DEPTHWISE) && n.ceiling == 0.0 && next != NULL &&
        next->inputs[0] == n.output && is_done_with(e, n.output, index + 1)) {
        n.ceiling = node_ceiling(next);
    }
    return n;
}

/* Makes the output of node `index`, which limits its input, of an input that is limited already. */
static void take_limited(execution *e, int index)
{
    const node *n = &e->graph->nodes[index];
    matrix taken = {0};
    execution_take(e, n->inputs[0], &taken);
    drop_value(e, n->output);
    e->widths[n->output] = taken.columns;
    e->values[n->output] = taken;
}

/* Runs node `index`, as `n` has it. */
static grail_status run_node(execution *e, parameter_store *store, int index, const node *n)
{
    grail_status status = GRAIL_OK;
    node_run r;
    const profile_kind before = profile_enter(node_profile(n));
    for (int i = 0; i < n->input_count && !operator_of(n)->gathers; i++) {
        const bool is_ids = n->inputs[i] == e->graph->input && e->input.ids != NULL;
        if (!is_ids && !matrix_exists(e->values[n->inputs[i]])) {
            FAIL(GRAIL_ERROR_INTERNAL, "node %d was run without its input %d", index, i);
        }
    }
    TRY(execution_describe(e, store, index, &r));
    r.node = n;
    if (operator_of(n)->rows == ROWS_TAKEN) {
        e->taken[n->output] = r.routed.count;
    }
    TRY(make_output(e, index, &r));
    status = operator_code_of(n)->run(&r);
    if (status == GRAIL_ERROR_NUMERIC && n->weight != GRAPH_NONE) {
        error_prefix("input or weight of '%s'", e->graph->parameters[n->weight].name);
    }
    TRY(status);
    if (operator_of(n)->may_overflow && !is_bounded(n) && !e->unwatched) {
        TRY(execution_watch(e->graph, n, 0, e->values[n->output]));
    }
    /* a buffer that became the output stays */
    for (int i = 0; i < n->input_count; i++) {
        const int input = n->inputs[i];
        if (is_done_with(e, input, index) && matrix_exists(e->values[input])) {
            if (e->values[input].allocation == e->values[n->output].allocation) {
                e->values[input] = (matrix){0};
            } else {
                drop_value(e, input);
            }
        }
    }
out:
    profile_enter(before);
    if (status != GRAIL_OK) {
        /* A node that failed may have made its output in an input's buffer, which must not be
         * dropped twice.
         */
        for (int i = 0; i < n->input_count; i++) {
            if (e->values[n->inputs[i]].allocation == e->values[n->output].allocation) {
                e->values[n->inputs[i]] = (matrix){0};
            }
        }
    }
    return status;
}

grail_status execution_run(execution *e, parameter_store *store, int begin, int end)
{
    grail_status status = GRAIL_OK;
    for (int i = begin; i < end && status == GRAIL_OK; i++) {
        const node n = with_limit_behind(e, i, end);
        status = stop_check();
        status = status == GRAIL_OK ? run_node(e, store, i, &n) : status;
        if (status == GRAIL_OK && n.ceiling != e->graph->nodes[i].ceiling) {
            take_limited(e, ++i);
        }
    }
    return e->settles_later ? status : backend_settle(e->backend, status);
}
