#include "pipeline/network/heal_dense.h"

#include "pipeline/network/keeping.h"

/* Whether the values before node `begin` fit for all samples. */
static grail_status kept_fits(const calibration_network *network, int begin, bool *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = network->dense.graph;
    const calibration *samples = network->request->samples;
    double elements = 0.0;
    int *live = NULL;
    int64_t *sizes = NULL;
    TRY(memory_new(&live, (size_t)g->value_count, sizeof live[0]));
    TRY(memory_new(&sizes, (size_t)g->value_count, sizeof sizes[0]));
    TRY(value_elements(g, samples->positions, sizes));
    const int count = graph_live_values(g, begin, live);
    for (int i = 0; i < count; i++) {
        elements += (double)sizes[live[i]];
    }
    *out = bytes_fit(elements * (double)samples->count *
                         (double)backend_value_size(network->request->backend),
                     network->memory);
out:
    memory_free(live);
    memory_free(sizes);
    return status;
}

grail_status heal_dense_init(calibration_network *network, heal_dense *d)
{
    const graph *g = network->dense.graph;
    int first = 0;
    *d = (heal_dense){.network = network};
    if (g->input_kind == INPUT_IMAGES) { /* which change */
        return GRAIL_OK;
    }
    graph_block_range(g, g->block_count - 1, &first, &d->begin);
    CHECK(kept_fits(network, d->begin, &d->keeps));
    CHECK(sample_stream_init(&d->kept, g, network->request->backend,
                             network->request->samples->count));
    CHECK(sample_stream_move_begin(&d->kept, d->begin));
    sample_stream_move_end(&d->kept);
    return GRAIL_OK;
}

void heal_dense_fini(heal_dense *d)
{
    sample_stream_fini(&d->kept);
    *d = (heal_dense){0};
}

/* Computes one sample up to the head. */
static grail_status compute(heal_dense *d, int64_t sample)
{
    grail_status status = GRAIL_OK;
    const calibration_network *n = d->network;
    const sample_part part = {.samples = &sample, .count = 1};
    heal_input input = {0};
    TRY(heal_input_of(n->request, &part, 0, 0, &input));
    TRY(execution_begin(n->dense.execution, part_shape(n->request, &part),
                        heal_batch_input(&input)));
    TRY(execution_run(n->dense.execution, n->dense.parameters, 0, d->begin));
    TRY(sample_stream_keep(&d->kept, sample, n->dense.execution));
out:
    heal_input_fini(&input);
    return status;
}

/* Places the values before the head in the execution. */
static grail_status place_kept(heal_dense *d, const sample_part *part)
{
    const calibration_network *n = d->network;
    for (int64_t i = 0; i < part->count; i++) {
        if (!sample_stream_holds(&d->kept, part->samples[i])) {
            CHECK(compute(d, part->samples[i]));
        }
    }
    CHECK(execution_begin(n->dense.execution, part_shape(n->request, part), (batch_input){0}));
    CHECK(sample_stream_pick(&d->kept, 1, part->samples, part->count, n->dense.execution));
    for (int64_t i = 0; !d->keeps && i < part->count; i++) {
        sample_stream_drop(&d->kept, part->samples[i]);
    }
    return GRAIL_OK;
}

grail_status heal_dense_run(heal_dense *d, const sample_part *part, const heal_input *input)
{
    const calibration_network *n = d->network;
    execution *e = n->dense.execution;
    CHECK(d->begin > 0 ? place_kept(d, part)
                       : execution_begin(e, part_shape(n->request, part), heal_batch_input(input)));
    return execution_run(e, n->dense.parameters, d->begin, n->dense.graph->node_count);
}
