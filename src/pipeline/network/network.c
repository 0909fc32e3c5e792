#include "pipeline/network/network.h"

#include "graph/operators.h"
#include "pipeline/network/keeping.h"
#include "pipeline/network/narrow.h"
#include "pipeline/request/experts.h"

#include <string.h>

static grail_status create_run(const compression_request *request, const grail_model *model,
                               parameter_store *parent, matrix_pool *pool, network_run *out)
{
    backend *b = request->backend;
    const graph *g = out->sliced.nodes == NULL ? model->graph : &out->sliced;
    out->graph = g;
    CHECK(parameter_store_create(model, b, parent, &out->parameters));
    CHECK(execution_create(g, b, pool, &out->execution));
    return sample_stream_init(&out->stream, g, b, request->samples->batch_count);
}

/* Gives the current network a graph of its own where slices may take other runs of channels there,
 * or zeros be fewer. */
static grail_status copy_slices(const cutting *cut, network_run *current)
{
    const graph *g = cut->graph;
    bool slices = false;
    for (int i = 0; i < g->node_count; i++) {
        const axis_rule rule = operator_of(&g->nodes[i])->axis;
        slices = slices || rule == AXIS_SLICE || rule == AXIS_FRESH;
    }
    if (!slices) {
        return GRAIL_OK;
    }
    current->sliced = *g;
    current->sliced.nodes = NULL;
    CHECK(memory_new_unset(&current->sliced.nodes, (size_t)g->node_count, sizeof g->nodes[0]));
    memcpy(current->sliced.nodes, g->nodes, (size_t)g->node_count * sizeof g->nodes[0]);
    cuts_place_nodes(g, cut->axes, cut->plan, false, current->sliced.nodes);
    return GRAIL_OK;
}

static void free_run(network_run *run)
{
    sample_stream_fini(&run->stream);
    execution_free(run->execution);
    parameter_store_free(run->parameters);
    memory_free(run->sliced.nodes);
}

/* A dense target and a judgement need the dense network to run beside the current one. */
static bool wants_dense_stream(const compression_request *request)
{
    const compensation *how = &request->plan.compensation;
    const bool aims_at_it =
        compensation_uses_dense(how) ||
        (how->enabled && plan_drops_experts(&request->sites->list, &request->plan));
    return request->samples->batch_count > 0 &&
           (heals(&request->heal) || ((aims_at_it || request->judges != JUDGES_NOTHING) &&
                                      request->plan.loop == LOOP_CLOSED));
}

/* Serves a layer that lacks experts: with a local target the dense one begins with what the current
 * network has there. */
static void keep_input_of_experts(calibration_network *n)
{
    const compression_request *request = n->request;
    for (int i = 0; i < request->plan.count; i++) {
        if (site_at(request, i)->kind == SITE_EXPERTS && site_is_cut(&request->plan, i) &&
            !compensation_uses_dense(&request->plan.compensation)) {
            const branch_list branches = site_branches(request->graph, site_at(request, i));
            n->shares[branches_input(request->graph, &branches)] = true;
            n->shares[branches_sum(request->graph, &branches)] = true;
        }
    }
}

/* Shares that route rows stay until the dense network has followed. */
static grail_status keep_shares(calibration_network *n)
{
    const graph *g = n->request->graph;
    const int dense = n->dense.execution->graph->value_count; /* a teacher's may be more */
    n->order_count = dense > g->value_count ? dense : g->value_count;
    CHECK(memory_new(&n->shares, (size_t)g->value_count, sizeof n->shares[0]));
    CHECK(memory_new(&n->orders, (size_t)n->order_count, sizeof(n->orders[0])));
    n->dense.execution->orders = (const int64_t *const *)n->orders;
    keep_input_of_experts(n);
    for (int i = 0; i < g->node_count; i++) {
        if (operator_of(&g->nodes[i])->rows == ROWS_TAKEN) {
            n->shares[g->nodes[i].inputs[1]] = true;
        }
    }
    n->current.execution->pinned = n->shares;
    return GRAIL_OK;
}

/* The layers of which experts go, whose sums the dense network makes up for. */
static grail_status find_lacking(calibration_network *n)
{
    const cutting *cut = n->cut;
    CHECK(memory_new(&n->lacking, (size_t)cut->plan->count + 1, sizeof n->lacking[0]));
    for (int i = 0; cut->plan->compensation.enabled && i < cut->plan->count; i++) {
        if (cut_site(cut, i)->kind == SITE_EXPERTS && site_is_cut(cut->plan, i)) {
            n->lacking[n->passes.lacking_count++] = site_branches(cut->graph, cut_site(cut, i));
        }
    }
    n->passes.lacking = n->lacking;
    n->passes.lacks_locally = !compensation_uses_dense(&cut->plan->compensation);
    return GRAIL_OK;
}

static grail_status describe_passes(calibration_network *n)
{
    const compression_request *request = n->request;
    sample_passes *p = &n->passes;
    p->dense = &n->dense;
    p->current = &n->current;
    p->pool = n->pool;
    p->samples = request->samples;
    p->comm = request->comm;
    p->has_teacher = request->teacher != NULL;
    p->judges = request->judges;
    p->has_dense_stream = wants_dense_stream(request);
    p->progress = (progress){.observer = request->observer,
                             .step_observer = request->step_observer,
                             .user = request->observer_user,
                             .graph = request->graph,
                             .batches = request->samples->batch_count};
    return find_lacking(n);
}

grail_status network_create(const compression_request *request, int64_t memory,
                            calibration_network **out)
{
    CHECK(memory_new(out, 1, sizeof **out));
    calibration_network *n = *out;
    n->request = request;
    n->cut = &request->cut;
    n->memory = memory;
    /* a block that is healed begins again and again where its sample stream waits */
    if (!request->heal.blocks) {
        CHECK(activations_fit(&request->cut, request->samples, request->backend, memory,
                              &n->passes.keep_activations));
    }
    CHECK(matrix_pool_create(request->backend, &n->pool));
    const grail_model *teacher = request->teacher;
    CHECK(
        create_run(request, teacher == NULL ? request->model : teacher, NULL, n->pool, &n->dense));
    CHECK(copy_slices(n->cut, &n->current));
    CHECK(create_run(request, request->model, teacher == NULL ? n->dense.parameters : NULL, n->pool,
                     &n->current));
    n->current.parameters->written = request_written_dtypes(request);
    CHECK(describe_passes(n));
    CHECK(keep_shares(n));
    CHECK(site_results_create(request->sites->facts, &request->plan, &n->results));
    CHECK(memory_new(&n->chosen, (size_t)request->plan.count, sizeof(n->chosen[0])));
    CHECK(memory_new(&n->rounded, (size_t)request->graph->parameter_count, sizeof(n->rounded[0])));
    return refits_init(&request->cut, request->drifts_by_rounding, &n->refits);
}

void network_free(calibration_network *network)
{
    if (network == NULL) {
        return;
    }
    regional_gradients_fini(&network->regional);
    refits_fini(&network->refits);
    healing_list_fini(&network->healings);
    site_results_free(network->results, network->request->plan.count);
    for (int i = 0; network->chosen != NULL && i < network->request->plan.count; i++) {
        grail_reducer_free(network->chosen[i]);
    }
    memory_free(network->chosen);
    for (int p = 0; network->rounded != NULL && p < network->request->graph->parameter_count; p++) {
        memory_free(network->rounded[p]);
    }
    memory_free(network->rounded);
    sample_stream_fini(&network->before_group);
    free_run(&network->current);
    memory_free(network->shares);
    memory_free(network->lacking);
    for (int v = 0; network->orders != NULL && v < network->order_count; v++) {
        memory_free(network->orders[v]);
    }
    memory_free(network->orders);
    free_run(&network->dense);
    matrix_pool_free(network->pool);
    memory_free(network);
}

int network_dense_end(const calibration_network *network, int block)
{
    int begin = 0;
    int end = 0;
    graph_block_range(network->dense.graph, block, &begin, &end);
    return end;
}

grail_status network_rewind(calibration_network *network)
{
    network_run *const runs[] = {&network->dense, &network->current};
    for (int i = 0; i < 2; i++) {
        sample_stream_fini(&runs[i]->stream);
        CHECK(sample_stream_init(&runs[i]->stream, runs[i]->graph, network->request->backend,
                                 network->request->samples->batch_count));
    }
    return GRAIL_OK;
}

static void release_rounded(calibration_network *network, int begin, int end)
{
    for (int n = begin; n < end; n++) {
        const int weight = network->request->graph->nodes[n].weight;
        if (weight != GRAPH_NONE) {
            memory_free(network->rounded[weight]);
            network->rounded[weight] = NULL;
        }
    }
}

void network_release_block(calibration_network *network, int block)
{
    int begin = 0;
    int end = 0;
    graph_block_range(network->request->graph, block, &begin, &end);
    release_rounded(network, begin, end);
    if (!network->request->heal.network) {
        parameter_store_release_range(network->current.parameters, begin, end);
    }
    graph_block_range(network->dense.graph, block, &begin, &end);
    parameter_store_release_range(network->dense.parameters, begin, end);
    matrix_pool_clear(network->pool);
}

bool parameter_is_changed(const calibration_network *network, int parameter)
{
    const parameter_cut *axes = &network->cut->axes[parameter];
    return parameter_store_owns(network->current.parameters, parameter) ||
           parameter_store_is_moved(network->dense.parameters, parameter) ||
           axes->rows.site != GRAPH_NONE || axes->columns.site != GRAPH_NONE;
}

grail_status narrow_parameter(const calibration_network *network, int parameter, float **out)
{
    int64_t shape[PARAMETER_MAX_RANK];
    int64_t count = 0;
    CHECK(narrow_values(network->cut, network->results, network->current.parameters, parameter,
                        GRAPH_NONE, shape, out));
    return *out != NULL
               ? GRAIL_OK
               : parameter_store_read_f32(network->current.parameters, parameter, out, &count);
}

grail_status narrow_store(const calibration_network *network, parameter_store **out)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    float *values = NULL;
    TRY(parameter_store_create(request->model, request->backend, network->dense.parameters, out));
    (*out)->written = request_written_dtypes(request);
    for (int p = 0; p < request->graph->parameter_count; p++) {
        const bool gone = graph_parameter_is_gone(&request->narrowed.graph->parameters[p]);
        if (!gone && parameter_is_changed(network, p)) {
            TRY(narrow_parameter(network, p, &values));
            TRY(parameter_store_set(*out, p, request->narrowed.graph->parameters[p].shape, values));
            memory_free(values);
            values = NULL;
        }
    }
out:
    memory_free(values);
    return status;
}
