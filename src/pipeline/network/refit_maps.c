#include "pipeline/network/refit_maps.h"

#include "backend/operations.h"
#include "graph/operators.h"
#include "pipeline/network/compensate.h"
#include "pipeline/network/observation.h"
#include "pipeline/network/pass.h"
#include "pipeline/network/target.h"
#include "pipeline/request/consumer_tail.h"
#include "solve/drift.h"

#include <string.h>

/* -- by drift ---------------------------------------------------------------------------------- */

/* The sums of the value that maps read. */
typedef struct drifted_value {
    int node; /* the first map */
    const execution *dense;
    drift_sums fit, held;
    drift_sums part; /* of the chunk whose batches are being added */
} drifted_value;

static grail_status has_dense_weight(const sample_passes *passes, int weight, bool *out)
{
    grail_status status = GRAIL_OK;
    parameter_store *stores[2] = {passes->current->parameters, passes->dense->parameters};
    float *values[2] = {NULL, NULL};
    int64_t counts[2] = {0};
    *out = parameter_store_inherits(stores[0], stores[1], weight);
    for (int i = 0; !*out && i < 2; i++) {
        TRY(parameter_store_read_f32(stores[i], weight, &values[i], &counts[i]));
    }
    *out = *out || (counts[0] == counts[1] &&
                    memcmp(values[0], values[1], (size_t)counts[0] * sizeof(float)) == 0);
out:
    memory_free(values[0]);
    memory_free(values[1]);
    return status;
}

/* Rows of its weight are those of the dense network, too: nothing was merged. *outputs grows. */
static grail_status map_serves(const cutting *cut, const sample_passes *passes, int node_index,
                               int64_t *outputs, int64_t *width, bool *out)
{
    const graph *g = cut->graph;
    *out = false;
    if (!node_is_linear(&g->nodes[node_index]) ||
        consumer_tail_of(g, node_index).skip != GRAPH_NONE) {
        return GRAIL_OK;
    }
    const observation o = observation_of_map(cut, node_index);
    *outputs += o.layout.rows;
    *width = o.layout.features;
    return o.target == OBSERVES_DENSE_OUTPUT && o.goal.value == GRAPH_NONE
               ? has_dense_weight(passes, g->nodes[node_index].weight, out)
               : GRAIL_OK;
}

/* Sums over rows take O H products for a target of O outputs, and 1.5 H^2 for the drift, of whose
 * squares one triangle is added. */
/* Whether `count` maps from node `first` on, which read one value, can be refitted so, and are
 * with fewer products: Linears with the dense network's weights, all features of its input, and
 * their own outputs as target. */
static grail_status refit_drift_serves(const cutting *cut, const sample_passes *passes, int first,
                                       int count, bool *out)
{
    int64_t outputs = 0;
    int64_t width = 0;
    *out = true;
    for (int i = 0; *out && i < count; i++) {
        CHECK(map_serves(cut, passes, first + i, &outputs, &width, out));
    }
    *out = *out && 2 * outputs > 3 * width;
    return GRAIL_OK;
}

static grail_status add_rows(const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    drifted_value *v = user;
    matrix x = {0};
    const int value = e->graph->nodes[v->node].inputs[0];
    const matrix dense = execution_value(v->dense, value);
    TRY(matrix_pool_take(e->pool, dense.rows, dense.columns, &x));
    TRY(matrix_copy(dense, x));
    TRY(drift_sums_accumulate(&v->part, execution_value(e, value), x));
out:
    matrix_pool_give(e->pool, &x);
    return status;
}

static chunk_sums sums_of(void *user, bool held_out)
{
    drifted_value *v = user;
    return drift_chunk_sums(&v->part, held_out ? &v->held : &v->fit);
}

static grail_status take_sums(sample_passes *passes, int64_t width, drifted_value *v)
{
    const visitor adds = {.add = add_rows, .sums = sums_of, .user = v};
    CHECK(drift_sums_create(v->dense->backend, width, &v->fit));
    CHECK(drift_sums_create(v->dense->backend, width, &v->held));
    CHECK(drift_sums_create(v->dense->backend, width, &v->part));
    CHECK(pass_visit(passes, v->node, v->node, adds));
    matrix_pool_clear(passes->pool);
    drift_sums_fini(&v->part);
    CHECK(drift_sums_settle(&v->fit));
    return drift_sums_settle(&v->held);
}

/* Carries the sample streams to the maps, and fits and sets them. */
static grail_status refit_drift(const cutting *cut, int first, int count, sample_passes *passes,
                                const site_result *results, refit_list *refits)
{
    grail_status status = GRAIL_OK;
    drifted_value v = {.node = first, .dense = passes->dense->execution};
    TRY(take_sums(passes, map_layout_of(cut, first).features, &v));
    for (int i = first; i < first + count; i++) {
        TRY(compensate_drifted_map(cut, i, &v.fit, &v.held, passes, results, refits));
    }
out:
    drift_sums_fini(&v.fit);
    drift_sums_fini(&v.held);
    drift_sums_fini(&v.part);
    return status;
}

/* -- by sums of targets ------------------------------------------------------------------------ */

/* Linears that read one value, and the sums of all their targets side by side. */
typedef struct map_group {
    observation *maps; /* [count], without statistics until they are fitted; owned */
    int count;
    int64_t outputs; /* of all */
    grail_statistics *fit, *held;
    grail_statistics *part; /* of the chunk whose batches are being added */
    target_source from;
} map_group;

static void map_group_fini(map_group *g)
{
    for (int i = 0; g->maps != NULL && i < g->count; i++) {
        observation_fini(&g->maps[i]);
    }
    memory_free(g->maps);
    grail_statistics_free(g->fit);
    grail_statistics_free(g->held);
    grail_statistics_free(g->part);
    *g = (map_group){0};
}

static grail_status map_group_init(const cutting *cut, parameter_store *current, int first,
                                   int count, map_group *g)
{
    backend *b = current->backend;
    CHECK(memory_new(&g->maps, (size_t)count, sizeof g->maps[0]));
    g->count = count;
    for (int i = 0; i < count; i++) {
        CHECK(observation_read_map(cut, current, first + i, &g->maps[i]));
        g->outputs += g->maps[i].layout.rows;
    }
    CHECK(statistics_create(b, g->maps[0].layout.features, g->outputs, &g->fit));
    CHECK(statistics_create(b, g->maps[0].layout.features, g->outputs, &g->held));
    return statistics_create(b, g->maps[0].layout.features, g->outputs, &g->part);
}

/* The targets of all maps for the current batch, in columns of y. */
static grail_status gather_targets(const map_group *g, matrix_pool *pool, matrix y)
{
    grail_status status = GRAIL_OK;
    matrix own = {0};
    int64_t column = 0;
    for (int i = 0; i < g->count; i++) {
        observation *o = &g->maps[i];
        TRY(dense_target(&g->from, o->node, o->goal.value, &o->drift_scale, &own));
        TRY(matrix_copy(own, matrix_columns(y, column, own.columns)));
        column += own.columns;
        matrix_pool_give(pool, &own);
    }
out:
    matrix_pool_give(pool, &own);
    return status;
}

static grail_status add_group(const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    const map_group *g = user;
    matrix y = {0};
    const matrix z = execution_value(e, e->graph->nodes[g->maps[0].node].inputs[0]);
    TRY(matrix_pool_take(e->pool, z.rows, g->outputs, &y));
    TRY(gather_targets(g, e->pool, y));
    TRY(statistics_accumulate(g->part, z, y));
out:
    matrix_pool_give(e->pool, &y);
    return status;
}

static chunk_sums sums_of_group(void *user, bool held_out)
{
    const map_group *g = user;
    return chunk_sums_of_statistics(g->part, held_out ? g->held : g->fit);
}

static grail_status fit_group(map_group *g, sample_passes *passes, refit_list *refits)
{
    int64_t first = 0;
    for (int i = 0; i < g->count; i++) {
        observation *o = &g->maps[i];
        CHECK(statistics_of_outputs(g->fit, first, o->layout.rows, &o->fit));
        CHECK(statistics_of_outputs(g->held, first, o->layout.rows, &o->held));
        CHECK(compensate_map(g->from.cut, o, passes, g->from.results, refits));
        first += o->layout.rows;
        observation_fini(o);
    }
    return GRAIL_OK;
}

/* The node that the dense network must have run up to for all targets. */
static int dense_end_of(const map_group *g)
{
    int end = GRAPH_NONE;
    for (int i = 0; i < g->count; i++) {
        const int own = observation_dense_end(&g->maps[i]);
        end = own > end ? own : end;
    }
    return end;
}

static grail_status refit_group(const cutting *cut, int first, int count, sample_passes *passes,
                                const site_result *results, refit_list *refits)
{
    grail_status status = GRAIL_OK;
    map_group g = {
        .from = {
            .cut = cut, .results = results, .dense = passes->dense, .current = passes->current}};
    const visitor v = {.add = add_group, .sums = sums_of_group, .user = &g};
    TRY(map_group_init(cut, passes->current->parameters, first, count, &g));
    TRY(pass_visit(passes, first, dense_end_of(&g), v));
    matrix_pool_clear(passes->pool);
    grail_statistics_free(g.part);
    g.part = NULL;
    TRY(fit_group(&g, passes, refits));
out:
    map_group_fini(&g);
    return status;
}

static grail_status refit_one(const cutting *cut, int node_index, sample_passes *passes,
                              const site_result *results, refit_list *refits)
{
    grail_status status = GRAIL_OK;
    observation o = {0};
    TRY(observation_init_map(cut, passes->current->parameters, node_index, &o));
    TRY(observation_take(passes, cut, results, &o));
    TRY(compensate_map(cut, &o, passes, results, refits));
out:
    observation_fini(&o);
    return status;
}

grail_status refit_maps(const cutting *cut, int first, int count, sample_passes *passes,
                        const site_result *results, refit_list *refits)
{
    bool by_drift = false;
    CHECK(refit_drift_serves(cut, passes, first, count, &by_drift));
    if (by_drift) {
        return refit_drift(cut, first, count, passes, results, refits);
    }
    return count > 1 ? refit_group(cut, first, count, passes, results, refits)
                     : refit_one(cut, first, passes, results, refits);
}
