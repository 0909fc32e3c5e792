#include "pipeline/network/network.h"

#include "pipeline/network/keeping.h"

static grail_status create_run(const compression_request *request, parameter_store *parent,
                               matrix_pool *pool, network_run *out)
{
    grail_status status = GRAIL_OK;
    backend *b = request->backend;
    TRY(parameter_store_create(request->model, b, parent, &out->parameters));
    TRY(execution_create(request->graph, b, pool, &out->execution));
    TRY(sample_stream_init(&out->stream, request->graph, b, request->samples->batch_count));
out:
    return status;
}

static void free_run(network_run *run)
{
    sample_stream_fini(&run->stream);
    execution_free(run->execution);
    parameter_store_free(run->parameters);
}

/* A dense target and a judgement need the dense network to run beside the current one. */
static bool wants_dense_stream(const compression_request *request)
{
    const bool aims_at_it = compensation_uses_dense(&request->plan.compensation);
    return request->samples->batch_count > 0 && (aims_at_it || request->judges) &&
           request->plan.loop == LOOP_CLOSED;
}

grail_status network_create(const compression_request *request, int64_t memory,
                            calibration_network **out)
{
    grail_status status = GRAIL_OK;
    calibration_network *n = NULL;
    TRY(memory_new(&n, 1, sizeof *n));
    n->request = request;
    TRY(activations_fit(request, memory, &n->keep_activations));
    TRY(matrix_pool_create(request->backend, &n->pool));
    TRY(create_run(request, NULL, n->pool, &n->dense));
    TRY(create_run(request, n->dense.parameters, n->pool, &n->current));
    n->has_dense_stream = wants_dense_stream(request);
    TRY(site_results_create(request, &n->results));
    TRY(refits_init(request, &n->refits));
    *out = n;
    n = NULL;
out:
    network_free(n);
    return status;
}

void network_free(calibration_network *network)
{
    if (network == NULL) {
        return;
    }
    refits_fini(&network->refits);
    site_results_free(network->results, network->request->plan.count);
    free_run(&network->current);
    free_run(&network->dense);
    matrix_pool_free(network->pool);
    memory_free(network);
}

void network_release_block(calibration_network *network, int block)
{
    int begin = 0;
    int end = 0;
    graph_block_range(network->request->graph, block, &begin, &end);
    parameter_store_release_range(network->current.parameters, begin, end);
    parameter_store_release_range(network->dense.parameters, begin, end);
    matrix_pool_clear(network->pool);
}
