#include "exec/fuse.h"

#include "graph/operators.h"

#include <math.h>

struct fused_network {
    graph graph; /* parameters and outputs are those of the network's graph; nodes and indices are
                    owned */
    grail_model model;
    tensor_view stored;          /* the stored form of folded parameters: f32 */
    const tensor_view **tensors; /* [parameter_count], `stored`, but of tables the network's */
    parameter_store *store;      /* folded parameters over the network's store */
};

const graph *fused_network_graph(const fused_network *f)
{
    return &f->graph;
}

parameter_store *fused_network_store(fused_network *f)
{
    return f->store;
}

/* -- finding what to fuse ---------------------------------------------------------------------- */

/* A convolution and the nodes done in the same pass; GRAPH_NONE for those that are missing. */
typedef struct chain {
    int convolution, norm, addition, limit;
    int last; /* the node whose place the chain takes */
} chain;

typedef struct survey {
    const graph *g;
    int *uses;   /* [parameter_count] how many nodes use it */
    bool *taken; /* [node_count] part of a chain */
} survey;

/* The only node that reads node `index`'s output, when it is what is asked for and in no chain yet.
 */
static int free_reader(const survey *s, int index, bool (*is_wanted)(const node *n))
{
    const int reader = graph_sole_reader(s->g, s->g->nodes[index].output);
    const bool fits = reader != GRAPH_NONE && is_wanted(&s->g->nodes[reader]) && !s->taken[reader];
    return fits ? reader : GRAPH_NONE;
}

/* Whether no other node uses the node's parameters, so that their values may be changed. */
static bool owns_parameters(const survey *s, const node *n)
{
    int parameters[NODE_MAX_PARAMETERS];
    const int count = node_parameters(n, parameters);
    for (int p = 0; p < count; p++) {
        if (s->uses[parameters[p]] != 1) {
            return false;
        }
    }
    return true;
}

static bool is_limit(const node *n)
{
    return node_ceiling(n) != 0.0;
}

/* Marks the node as the chain's new end, if there is one. */
static void extend(survey *s, chain *c, int index)
{
    if (index != GRAPH_NONE) {
        s->taken[c->last] = true;
        s->taken[index] = true;
        c->last = index;
    }
}

static chain find_chain(survey *s, int convolution)
{
    chain c = {.convolution = convolution,
               .addition = GRAPH_NONE,
               .limit = GRAPH_NONE,
               .last = convolution};
    const int norm = free_reader(s, c.last, node_has_moments);
    const node *nodes = s->g->nodes;
    const bool owned = norm != GRAPH_NONE && owns_parameters(s, &nodes[c.last]) &&
                       owns_parameters(s, &nodes[norm]);
    c.norm = owned ? norm : GRAPH_NONE;
    extend(s, &c, c.norm);
    if (node_is_map(&s->g->nodes[convolution])) {
        c.addition = free_reader(s, c.last, node_is_sum);
        extend(s, &c, c.addition);
    }
    const node_kind kind = nodes[convolution].kind;
    if (kind == NODE_CONV2D || kind == NODE_DEPTHWISE) { /* others have no ceiling */
        c.limit = free_reader(s, c.last, is_limit);
        extend(s, &c, c.limit);
    }
    return c;
}

/* -- folding batch norm ------------------------------------------------------------------------ */

/* conv(x) W^T + b, then (. - mean) factor + beta with factor = gamma / sqrt(variance + epsilon), is
 * conv(x) (factor W)^T + (b - mean) factor + beta. Values are computed in f64 and set as f32. */
typedef struct folding {
    float *weight, *bias, *gamma, *beta, *mean, *variance; /* NULL where there is none */
    int64_t weights, channels;
} folding;

static void folding_fini(folding *f)
{
    float *const owned[] = {f->weight, f->bias, f->gamma, f->beta, f->mean, f->variance};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        memory_free(owned[i]);
    }
}

static grail_status read_optional(parameter_store *store, int parameter, float **out)
{
    int64_t count = 0;
    return parameter == GRAPH_NONE ? GRAIL_OK
                                   : parameter_store_read_f32(store, parameter, out, &count);
}

static double value_or(const float *values, int64_t i, double fallback)
{
    return values == NULL ? fallback : (double)values[i];
}

/* Sets the folded parameters over the network's own; the bias takes the place of the norm's mean,
 * which has its shape and no other user. */
static grail_status fold_norm(fused_network *network, const node *convolution, const node *norm)
{
    grail_status status = GRAIL_OK;
    folding f = {0};
    const parameter_entry *weight = NULL;
    TRY(parameter_store_get(network->store->parent, convolution->weight, &weight));
    TRY(parameter_store_read_f32(network->store->parent, convolution->weight, &f.weight,
                                 &f.weights));
    TRY(parameter_store_read_f32(network->store->parent, norm->mean, &f.mean, &f.channels));
    TRY(read_optional(network->store->parent, norm->variance, &f.variance));
    TRY(read_optional(network->store->parent, convolution->bias, &f.bias));
    TRY(read_optional(network->store->parent, norm->weight, &f.gamma));
    TRY(read_optional(network->store->parent, norm->bias, &f.beta));
    for (int64_t c = 0; c < f.channels; c++) {
        if (!((double)f.variance[c] + norm->norm.epsilon > 0.0)) {
            FAIL(GRAIL_ERROR_NUMERIC,
                 "tensor '%s' holds the variance %g for channel %lld, expected a "
                 "positive number; the checkpoint is damaged",
                 network->graph.parameters[norm->variance].name, (double)f.variance[c],
                 (long long)c);
        }
    }
    /* The folded weight replaces `weight`, the folded bias `mean`. */
    const int64_t row = f.channels == 0 ? 0 : f.weights / f.channels;
    for (int64_t c = 0; c < f.channels; c++) {
        const double factor =
            value_or(f.gamma, c, 1.0) / sqrt((double)f.variance[c] + norm->norm.epsilon);
        for (int64_t i = c * row; i < (c + 1) * row; i++) {
            f.weight[i] = (float)((double)f.weight[i] * factor);
        }
        f.mean[c] = (float)((value_or(f.bias, c, 0.0) - (double)f.mean[c]) * factor +
                            value_or(f.beta, c, 0.0));
    }
    TRY(parameter_store_set(network->store, convolution->weight, weight->shape, f.weight));
    TRY(parameter_store_set(network->store, norm->mean, &f.channels, f.mean));
out:
    folding_fini(&f);
    return status;
}

/* -- the fused graph --------------------------------------------------------------------------- */

static grail_status fuse_chain(fused_network *network, const graph *g, const chain *c, node *out)
{
    node fused = g->nodes[c->convolution];
    fused.output = g->nodes[c->last].output;
    fused.block = g->nodes[c->last].block;
    fused.ceiling = c->limit == GRAPH_NONE ? 0.0 : node_ceiling(&g->nodes[c->limit]);
    if (c->norm != GRAPH_NONE) {
        CHECK(fold_norm(network, &g->nodes[c->convolution], &g->nodes[c->norm]));
        fused.bias = g->nodes[c->norm].mean;
    }
    if (c->addition != GRAPH_NONE) {
        const int own = g->nodes[c->norm == GRAPH_NONE ? c->convolution : c->norm].output;
        const int *inputs = g->nodes[c->addition].inputs;
        fused.inputs[fused.input_count++] = inputs[0] == own ? inputs[1] : inputs[0];
    }
    *out = fused;
    return GRAIL_OK;
}

/* Every node outside the chains, and each chain as one node where its last node was. */
static grail_status fuse_nodes(fused_network *network, survey *s)
{
    grail_status status = GRAIL_OK;
    const graph *g = s->g;
    chain *ends = NULL; /* [node_count] the chain that ends at a node */
    TRY(memory_new(&ends, (size_t)g->node_count, sizeof ends[0]));
    for (int i = 0; i < g->node_count; i++) {
        ends[i].last = GRAPH_NONE;
    }
    for (int i = 0; i < g->node_count; i++) {
        if (node_has_kernels(g, &g->nodes[i])) {
            const chain c = find_chain(s, i);
            ends[c.last] = c;
        }
    }
    for (int i = 0; i < g->node_count; i++) {
        node *out = &network->graph.nodes[network->graph.node_count];
        if (!s->taken[i]) {
            *out = g->nodes[i];
            network->graph.node_count++;
        } else if (ends[i].last == i) {
            TRY(fuse_chain(network, g, &ends[i], out));
            network->graph.node_count++;
        }
    }
out:
    memory_free(ends);
    return status;
}

grail_status fused_network_create(parameter_store *store, fused_network **out)
{
    grail_status status = GRAIL_OK;
    const graph *g = store->model->graph;
    survey s = {.g = g};
    TRY(memory_new(&s.uses, (size_t)g->parameter_count, sizeof s.uses[0]));
    TRY(memory_new(&s.taken, (size_t)g->node_count, sizeof s.taken[0]));
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(n, parameters);
        for (int p = 0; p < count; p++) {
            s.uses[parameters[p]]++;
        }
    }
    TRY(memory_new(out, 1, sizeof **out));
    fused_network *network = *out;
    network->graph = *g;
    network->graph.nodes = NULL;
    network->graph.value_source = NULL;
    network->graph.last_use = NULL;
    network->graph.routes = NULL;
    network->graph.node_count = 0;
    TRY(memory_new(&network->graph.nodes, (size_t)g->node_count, sizeof g->nodes[0]));
    network->stored = (tensor_view){.name = "a fused parameter", .dtype = GRAIL_DTYPE_F32};
    network->model = *store->model;
    TRY(memory_new(&network->tensors, (size_t)network->graph.parameter_count,
                   sizeof network->tensors[0]));
    for (int p = 0; p < network->graph.parameter_count; p++) {
        network->tensors[p] = graph_is_table(g, p) ? store->model->tensors[p] : &network->stored;
    }
    network->model.tensors = network->tensors;
    network->model.graph = &network->graph;
    TRY(parameter_store_create(&network->model, store->backend, store, &network->store));
    TRY(fuse_nodes(network, &s));
    TRY(graph_index(&network->graph));
out:
    memory_free(s.uses);
    memory_free(s.taken);
    return status;
}

void fused_network_free(fused_network *f)
{
    if (f == NULL) {
        return;
    }
    parameter_store_free(f->store);
    memory_free(f->tensors);
    memory_free(f->graph.nodes);
    memory_free(f->graph.value_source);
    memory_free(f->graph.last_use);
    memory_free(f->graph.routes);
    memory_free(f);
}
