#include "pipeline/network/refit_maps.h"

#include "backend/operations.h"
#include "pipeline/network/compensate.h"
#include "pipeline/network/observe.h"
#include "pipeline/network/pass.h"
#include "pipeline/network/refit_drift.h"
#include "pipeline/network/target.h"

/* Linears that read one value, and the sums of all their targets side by side. */
typedef struct map_group {
    observation *maps; /* [count], without statistics until they are fitted; owned */
    int count;
    int64_t outputs; /* of all */
    grail_statistics *fit, *held;
    grail_statistics *part; /* of the chunk whose batches are being added */
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

static grail_status map_group_init(const calibration_network *network, int first, int count,
                                   map_group *g)
{
    backend *b = network->request->backend;
    CHECK(memory_new(&g->maps, (size_t)count, sizeof g->maps[0]));
    g->count = count;
    for (int i = 0; i < count; i++) {
        CHECK(observation_read_map(network, first + i, &g->maps[i]));
        g->outputs += g->maps[i].layout.rows;
    }
    CHECK(statistics_create(b, g->maps[0].layout.features, g->outputs, &g->fit));
    CHECK(statistics_create(b, g->maps[0].layout.features, g->outputs, &g->held));
    return statistics_create(b, g->maps[0].layout.features, g->outputs, &g->part);
}

/* The targets of all maps for the current batch, in columns of y. */
static grail_status gather_targets(const calibration_network *network, const map_group *g, matrix y)
{
    grail_status status = GRAIL_OK;
    matrix own = {0};
    int64_t column = 0;
    for (int i = 0; i < g->count; i++) {
        TRY(dense_target(network, g->maps[i].node, g->maps[i].goal.value, &own));
        TRY(matrix_copy(own, matrix_columns(y, column, own.columns)));
        column += own.columns;
        matrix_pool_give(network->pool, &own);
    }
out:
    matrix_pool_give(network->pool, &own);
    return status;
}

static grail_status add_group(calibration_network *network, const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    const map_group *g = user;
    matrix y = {0};
    const matrix z = execution_value(e, e->graph->nodes[g->maps[0].node].inputs[0]);
    TRY(matrix_pool_take(network->pool, z.rows, g->outputs, &y));
    TRY(gather_targets(network, g, y));
    TRY(statistics_accumulate(g->part, z, y));
out:
    matrix_pool_give(network->pool, &y);
    return status;
}

static chunk_sums sums_of_group(void *user, bool held_out)
{
    const map_group *g = user;
    return chunk_sums_of_statistics(g->part, held_out ? g->held : g->fit);
}

static grail_status fit_group(calibration_network *network, map_group *g)
{
    int64_t first = 0;
    for (int i = 0; i < g->count; i++) {
        observation *o = &g->maps[i];
        CHECK(statistics_of_outputs(g->fit, first, o->layout.rows, &o->fit));
        CHECK(statistics_of_outputs(g->held, first, o->layout.rows, &o->held));
        CHECK(compensate_map(network, o));
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

static grail_status refit_group(calibration_network *network, int first, int count)
{
    grail_status status = GRAIL_OK;
    map_group g = {0};
    const visitor v = {.add = add_group, .sums = sums_of_group, .user = &g};
    TRY(map_group_init(network, first, count, &g));
    TRY(pass_visit(network, first, dense_end_of(&g), v));
    matrix_pool_clear(network->pool);
    grail_statistics_free(g.part);
    g.part = NULL;
    TRY(fit_group(network, &g));
out:
    map_group_fini(&g);
    return status;
}

static grail_status refit_one(calibration_network *network, int node_index)
{
    grail_status status = GRAIL_OK;
    observation o = {0};
    TRY(observation_init_map(network, node_index, &o));
    TRY(observation_take(network, &o));
    TRY(compensate_map(network, &o));
out:
    observation_fini(&o);
    return status;
}

grail_status refit_maps(calibration_network *network, int first, int count)
{
    bool by_drift = false;
    CHECK(refit_drift_serves(network, first, count, &by_drift));
    if (by_drift) {
        return refit_drift(network, first, count);
    }
    return count > 1 ? refit_group(network, first, count) : refit_one(network, first);
}
