#include "graph/operators.h"

#include <math.h>
#include <string.h>

grail_status graph_create(graph **out)
{
    graph *g = NULL;
    CHECK(memory_new(&g, 1, sizeof *g));
    g->value_count = 1;
    g->input = 0;
    g->output = GRAPH_NONE;
    g->channels = IMAGE_CHANNELS;
    *out = g;
    return GRAIL_OK;
}

static void drop_outputs(graph *g)
{
    while (g->output_count > 0) {
        graph_output *last = &g->outputs[--g->output_count];
        memory_free(last->name);
        memory_free(last->stands_for);
    }
}

void graph_free(graph *g)
{
    if (g == NULL) {
        return;
    }
    for (int p = 0; p < g->parameter_count; p++) {
        memory_free(g->parameters[p].name);
        memory_free(g->parameters[p].tensor);
    }
    memory_free(g->parameters);
    slot_table_fini(&g->names);
    drop_outputs(g);
    memory_free(g->outputs);
    while (g->input_count > 0) {
        memory_free(g->inputs[--g->input_count].name);
    }
    memory_free(g->inputs);
    memory_free(g->pinned);
    memory_free(g->nodes);
    memory_free(g->value_source);
    memory_free(g->last_use);
    memory_free(g->routes);
    for (int t = 0; t < g->table_count; t++) {
        memory_free(g->tables[t]);
    }
    memory_free(g->tables);
    for (int r = 0; r < g->region_count; r++) {
        region_free(g->regions[r]);
    }
    memory_free(g->regions);
    memory_free(g);
}

static uint64_t hash_of(const void *parameters, int32_t p)
{
    const char *name = ((const graph_parameter *)parameters)[p].name;
    return slot_hash(name, strlen(name));
}

static bool has_name(const void *parameters, int32_t p, const void *name)
{
    return strcmp(((const graph_parameter *)parameters)[p].name, name) == 0;
}

static int32_t *name_slot(const graph *g, const char *name)
{
    return slot_table_find(&g->names, slot_hash(name, strlen(name)), has_name, g->parameters, name);
}

int graph_find_parameter(const graph *g, const char *name)
{
    return g->names.count == 0 ? GRAPH_NONE : *name_slot(g, name);
}

int64_t weight_taps(const graph_parameter *weight)
{
    return weight->rank == 4 ? weight->shape[2] * weight->shape[3] : 1;
}

bool graph_parameter_is_gone(const graph_parameter *p)
{
    return p->shape[0] == 0;
}

/* Adds `wanted`, whose names are not set yet. An existing parameter of that name must have the same
 * shape. */
static grail_status add_parameter(graph *g, const char *name, const char *tensor,
                                  const graph_parameter *wanted, int *out)
{
    grail_status status = GRAIL_OK;
    graph_parameter added = *wanted;
    const int found = graph_find_parameter(g, name);
    if (found != GRAPH_NONE) {
        const graph_parameter *p = &g->parameters[found];
        if (p->rank != wanted->rank || memcmp(p->shape, wanted->shape, sizeof p->shape) != 0) {
            FAIL(GRAIL_ERROR_INTERNAL, "parameter '%s' is used with two shapes", name);
        }
        *out = found;
        return GRAIL_OK;
    }
    TRY(slot_table_reserve(&g->names, hash_of, g->parameters));
    TRY(memory_reserve(&g->parameters, (size_t)g->parameter_count + 1, sizeof g->parameters[0]));
    TRY(memory_copy_string(&added.name, name));
    TRY(memory_copy_string(&added.tensor, tensor));
    g->parameters[g->parameter_count] = added;
    slot_table_fill(&g->names, name_slot(g, added.name), g->parameter_count);
    *out = g->parameter_count++;
    added = (graph_parameter){0};
out:
    memory_free(added.name);
    memory_free(added.tensor);
    return status;
}

grail_status graph_add_stored(graph *g, const char *name, const char *tensor,
                              const storage_map *map, int rank, const int64_t shape[], int *out)
{
    graph_parameter wanted = {.map = *map, .rank = rank};
    if (!isfinite(map->scale) || !isfinite(map->offset)) {
        return error_set(GRAIL_ERROR_INTERNAL,
                         "parameter '%s' is stored with scale %g and offset %g, expected finite "
                         "numbers",
                         name, map->scale, map->offset);
    }
    memcpy(wanted.shape, shape, (size_t)rank * sizeof shape[0]);
    return add_parameter(g, name, tensor, &wanted, out);
}

grail_status graph_add_parameter(graph *g, const char *name, int rank, const int64_t shape[],
                                 int *out)
{
    return graph_add_stored(g, name, name, &(storage_map){0}, rank, shape, out);
}

stored_matrix graph_stored(const graph_parameter *p)
{
    stored_matrix m = {.map = p->map, .rank = p->rank};
    memcpy(m.shape, p->shape, sizeof m.shape);
    return m;
}

bool graph_is_table(const graph *g, int parameter)
{
    bool found = false;
    for (int i = 0; i < g->node_count; i++) {
        if (g->nodes[i].weight == parameter && !operator_of(&g->nodes[i])->gathers) {
            return false;
        }
        found = found || g->nodes[i].weight == parameter;
    }
    return found;
}

bool graph_is_linear_weight(const graph *g, int parameter)
{
    bool found = false;
    for (int i = 0; i < g->node_count; i++) {
        int used[NODE_MAX_PARAMETERS];
        const node *n = &g->nodes[i];
        const int count = node_parameters(n, used);
        for (int k = 0; k < count; k++) {
            const bool reads = used[k] == parameter;
            if (reads && (!node_is_linear(n) || n->weight != parameter)) {
                return false;
            }
            found = found || reads;
        }
    }
    return found;
}

node node_of(node_kind kind, int block, int left, int right)
{
    node n;
    memset(&n, 0, sizeof n); /* all attributes, whichever its kind has */
    n.kind = kind;
    n.block = block;
    n.input_count = (left != GRAPH_NONE) + (right != GRAPH_NONE);
    n.inputs[0] = left;
    n.inputs[1] = right;
    n.weight = GRAPH_NONE;
    n.bias = GRAPH_NONE;
    n.mean = GRAPH_NONE;
    n.variance = GRAPH_NONE;
    if (operator_of(&n)->moves_window) {
        n.window = (window2d)WINDOW2D(1, 1, 1, 0, 1);
    }
    return n;
}

/* The name of a node's weight, or of its kind. */
static const char *node_label(const graph *g, const node *n)
{
    return n->weight == GRAPH_NONE ? operator_of(n)->name : g->parameters[n->weight].name;
}

/* Whether it reads as many values as its kind does, each of which is there. */
static grail_status check_inputs(const graph *g, const node *n)
{
    const operator_rules *rules = operator_of(n);
    const bool fits = n->input_count == rules->inputs ||
                      (n->input_count > rules->inputs && n->input_count <= rules->most_inputs);
    if (!fits) {
        return error_set(GRAIL_ERROR_INTERNAL,
                         "node %d ('%s', kind %s) reads %d values, expected %d as its row in "
                         "operator_list.h says",
                         g->node_count, node_label(g, n), rules->name, n->input_count,
                         rules->inputs);
    }
    for (int i = 0; i < n->input_count; i++) {
        if (n->inputs[i] < 0 || n->inputs[i] >= g->value_count) {
            return error_set(GRAIL_ERROR_INTERNAL,
                             "node %d ('%s', kind %s) reads value %d, expected one of the %d that "
                             "nodes before it make",
                             g->node_count, node_label(g, n), rules->name, n->inputs[i],
                             g->value_count);
        }
    }
    return GRAIL_OK;
}

grail_status graph_add_node(graph *g, const node *n, int *out)
{
    CHECK(check_inputs(g, n));
    CHECK(memory_reserve(&g->nodes, (size_t)g->node_count + 1, sizeof g->nodes[0]));
    node *added = &g->nodes[g->node_count++];
    *added = *n;
    added->output = g->value_count++;
    if (n->block >= g->block_count) {
        g->block_count = n->block + 1;
    }
    *out = added->output;
    return GRAIL_OK;
}

grail_status graph_own_table(graph *g, double **table)
{
    CHECK(memory_reserve(&g->tables, (size_t)g->table_count + 1, sizeof g->tables[0]));
    g->tables[g->table_count++] = *table;
    *table = NULL;
    return GRAIL_OK;
}

grail_status graph_own_region(graph *g, region **r)
{
    CHECK(memory_reserve(&g->regions, (size_t)g->region_count + 1, sizeof g->regions[0]));
    g->regions[g->region_count++] = *r;
    *r = NULL;
    return GRAIL_OK;
}

grail_status graph_pin(graph *g, int value)
{
    CHECK(memory_reserve(&g->pinned, (size_t)g->pinned_count + 1, sizeof g->pinned[0]));
    g->pinned[g->pinned_count++] = value;
    return GRAIL_OK;
}

static grail_status index_values(graph *g)
{
    const size_t values = (size_t)g->value_count;
    CHECK(memory_resize(&g->value_source, values, sizeof g->value_source[0]));
    CHECK(memory_resize(&g->last_use, values, sizeof g->last_use[0]));
    CHECK(memory_resize(&g->routes, values, sizeof g->routes[0]));
    for (int v = 0; v < g->value_count; v++) {
        g->value_source[v] = GRAPH_NONE;
        g->last_use[v] = GRAPH_NONE;
        g->routes[v] = GRAPH_NONE;
    }
    for (int n = 0; n < g->node_count; n++) {
        g->value_source[g->nodes[n].output] = n;
        g->routes[g->nodes[n].output] = node_route(g, &g->nodes[n]);
        for (int i = 0; i < g->nodes[n].input_count; i++) {
            g->last_use[g->nodes[n].inputs[i]] = n;
        }
    }
    for (int i = 0; i < g->output_count; i++) {
        g->last_use[g->outputs[i].value] = g->node_count;
    }
    return GRAIL_OK;
}

grail_status graph_add_output(graph *g, int value, const char *name, bool is_logits)
{
    graph_output output = {.value = value, .is_logits = is_logits};
    CHECK(memory_reserve(&g->outputs, (size_t)g->output_count + 1, sizeof g->outputs[0]));
    CHECK(name == NULL ? GRAIL_OK : memory_copy_string(&output.name, name));
    g->outputs[g->output_count++] = output;
    g->output = g->outputs[0].value;
    return GRAIL_OK;
}

grail_status graph_stand_for(graph *g, int i, const char *name)
{
    char *before = g->outputs[i].stands_for;
    char *names = NULL;
    CHECK(memory_format(&names, "%s%s%.100s", before == NULL ? "" : before,
                        before == NULL ? "" : ", ", name));
    memory_free(before);
    g->outputs[i].stands_for = names;
    return GRAIL_OK;
}

grail_status graph_add_input(graph *g, const char *name, int64_t rows)
{
    graph_input input = {.rows = rows, .padding = GRAPH_NONE};
    CHECK(memory_reserve(&g->inputs, (size_t)g->input_count + 1, sizeof g->inputs[0]));
    CHECK(memory_copy_string(&input.name, name));
    g->inputs[g->input_count++] = input;
    return GRAIL_OK;
}

grail_status graph_finish(graph *g, int output)
{
    drop_outputs(g); /* of a graph that is finished again */
    CHECK(graph_add_output(g, output, NULL, !graph_gives_features(g)));
    return graph_index(g);
}

grail_status graph_index(graph *g)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    /* Nodes after the last block have its number plus one as block, see graph_block_range. */
    g->block_count = g->node_count > 0 ? g->nodes[g->node_count - 1].block : 0;
    TRY(index_values(g));
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(graph_widths(g, widths));
    for (int n = 0; n < g->node_count; n++) {
        TRY(node_check_rows(g, &g->nodes[n]));
    }
out:
    memory_free(widths);
    return status;
}

void graph_integer_range(const graph_input *input, int64_t *least, int64_t *most)
{
    *least = input->rows > 0 || input->are_truths ? 0 : -GRAPH_LARGEST_INTEGER;
    *most = input->are_truths ? 1 : input->rows > 0 ? input->rows - 1 : GRAPH_LARGEST_INTEGER;
}

bool graph_holds_integers(const graph *g)
{
    bool found = false;
    for (int i = 0; i < g->input_count; i++) {
        found = found || (g->inputs[i].are_integers && g->inputs[i].channels > 0);
    }
    return found;
}

bool graph_gives_features(const graph *g)
{
    return g->output_count > 0             ? !g->outputs[0].is_logits
           : g->input_kind == INPUT_IMAGES ? g->classes == 0
                                           : g->gives_hidden;
}

int graph_sole_reader(const graph *g, int value)
{
    int reader = GRAPH_NONE;
    for (int i = g->value_source[value] + 1; i <= g->last_use[value] && i < g->node_count; i++) {
        for (int k = 0; k < g->nodes[i].input_count; k++) {
            if (g->nodes[i].inputs[k] == value) {
                if (reader != GRAPH_NONE) {
                    return GRAPH_NONE;
                }
                reader = i;
            }
        }
    }
    return g->last_use[value] == g->node_count ? GRAPH_NONE : reader;
}

void graph_block_range(const graph *g, int block, int *begin, int *end)
{
    int first = 0;
    while (first < g->node_count && g->nodes[first].block < block) {
        first++;
    }
    int last = first;
    while (last < g->node_count && g->nodes[last].block == block) {
        last++;
    }
    *begin = first;
    *end = last;
}

grail_status graph_widths(const graph *g, int64_t *widths)
{
    widths[g->input] = g->input_kind == INPUT_IMAGES ? g->channels : 1;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        int64_t in[NODE_MAX_INPUTS] = {0};
        for (int k = 0; k < n->input_count; k++) {
            in[k] = widths[n->inputs[k]];
        }
        const int64_t *weight = n->weight == GRAPH_NONE ? NULL : g->parameters[n->weight].shape;
        widths[n->output] = node_width(n, weight, in);
        CHECK(node_check(g, n, in));
    }
    return GRAIL_OK;
}

grail_status graph_output_width(const graph *g, int64_t *out)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(graph_widths(g, widths));
    *out = widths[g->output];
out:
    memory_free(widths);
    return status;
}

grail_status graph_extents(const graph *g, extent input, extent *extents)
{
    extents[g->input] = input;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        extent in[NODE_MAX_INPUTS + 1] = {[NODE_MAX_INPUTS] = input};
        for (int k = 0; k < n->input_count; k++) {
            in[k] = extents[n->inputs[k]];
        }
        CHECK(node_extent(g, n, in, &extents[n->output]));
    }
    return GRAIL_OK;
}

static int64_t larger_of(int64_t elements, int64_t width, extent positions)
{
    const int64_t own = width * positions.height * positions.width;
    return own > elements ? own : elements;
}

grail_status graph_largest_value(const graph *g, extent input, int begin, int end,
                                 int64_t *elements)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    extent *extents = NULL;
    *elements = 1;
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(memory_new(&extents, (size_t)g->value_count, sizeof extents[0]));
    TRY(graph_widths(g, widths));
    TRY(graph_extents(g, input, extents));
    if (begin == 0) {
        *elements = larger_of(*elements, widths[g->input], input);
    }
    for (int i = begin; i < end; i++) {
        const int v = g->nodes[i].output;
        *elements = larger_of(*elements, widths[v], extents[v]);
    }
out:
    memory_free(widths);
    memory_free(extents);
    return status;
}

int graph_live_values(const graph *g, int position, int *live)
{
    int count = 0;
    for (int v = 0; v < g->value_count; v++) {
        if (g->value_source[v] < position && g->last_use[v] >= position) {
            live[count++] = v;
        }
    }
    return count;
}

/* Whether a node outside [begin, end) reads a parameter. */
static bool is_read_outside(const graph *g, int begin, int end, int parameter)
{
    bool found = false;
    for (int n = 0; n < g->node_count && !found; n++) {
        int own[NODE_MAX_PARAMETERS];
        const int count = n >= begin && n < end ? 0 : node_parameters(&g->nodes[n], own);
        for (int i = 0; i < count; i++) {
            found = found || own[i] == parameter;
        }
    }
    return found;
}

static void remove_parameters(graph *g, int begin, int end)
{
    for (int n = begin; n < end; n++) {
        int own[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[n], own);
        for (int i = 0; i < count; i++) {
            int64_t *shape = g->parameters[own[i]].shape;
            if (!is_read_outside(g, begin, end, own[i])) {
                memset(shape, 0, PARAMETER_MAX_RANK * sizeof shape[0]);
            }
        }
    }
}

grail_status graph_bypass(graph *g, int begin, int end, int instead)
{
    const int value = g->nodes[end - 1].output;
    remove_parameters(g, begin, end);
    for (int n = end; n < g->node_count; n++) {
        for (int i = 0; i < g->nodes[n].input_count; i++) {
            int *input = &g->nodes[n].inputs[i];
            *input = *input == value ? instead : *input;
        }
    }
    for (int i = 0; i < g->output_count; i++) {
        graph_output *o = &g->outputs[i];
        o->value = o->value == value ? instead : o->value;
    }
    g->output = g->outputs[0].value;
    memmove(&g->nodes[begin], &g->nodes[end], (size_t)(g->node_count - end) * sizeof g->nodes[0]);
    g->node_count -= end - begin;
    return index_values(g);
}
