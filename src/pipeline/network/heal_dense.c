#include "pipeline/network/heal_dense.h"

#include "pipeline/network/keeping.h"

enum { NOBODY = -1 };

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

/* The dense network's values are as wide as its graph says. */
static grail_status find_widths(heal_dense *d)
{
    grail_status status = GRAIL_OK;
    const graph *g = d->network->dense.graph;
    int64_t *widths = NULL;
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(memory_new(&d->widths, (size_t)d->kept.live_count, sizeof d->widths[0]));
    TRY(graph_widths(g, widths));
    for (int i = 0; i < d->kept.live_count; i++) {
        d->widths[i] = widths[d->kept.live[i]];
    }
out:
    memory_free(widths);
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
    CHECK(comm_broadcast(network->request->comm, 0, &d->keeps, sizeof d->keeps));
    CHECK(memory_new(&d->holders, (size_t)network->request->samples->count, sizeof d->holders[0]));
    for (int64_t i = 0; i < network->request->samples->count; i++) {
        d->holders[i] = NOBODY;
    }
    CHECK(sample_stream_init(&d->kept, g, network->request->backend,
                             network->request->samples->count));
    CHECK(sample_stream_move_begin(&d->kept, d->begin));
    sample_stream_move_end(&d->kept);
    return find_widths(d);
}

void heal_dense_fini(heal_dense *d)
{
    sample_stream_fini(&d->kept);
    memory_free(d->holders);
    memory_free(d->widths);
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

/* Where a computation failed before, its holder makes it now. */
grail_status heal_dense_prepare(heal_dense *d, const sample_part *part, int runner)
{
    const int rank = comm_rank(d->network->request->comm);
    for (int64_t i = 0; d->begin > 0 && i < part->count; i++) {
        int *holder = &d->holders[part->samples[i]];
        *holder = *holder == NOBODY || !d->keeps ? runner : *holder;
        if (*holder == rank && !sample_stream_holds(&d->kept, part->samples[i])) {
            CHECK(compute(d, part->samples[i]));
        }
    }
    return GRAIL_OK;
}

grail_status heal_dense_place(heal_dense *d, const sample_part *part, int runner)
{
    const compression_request *request = d->network->request;
    const sample_pick pick = {.samples = part->samples,
                              .count = part->count,
                              .comm = request->comm,
                              .holders = d->holders,
                              .widths = d->widths,
                              .runner = runner};
    const bool runs = comm_rank(request->comm) == runner;
    if (d->begin == 0) {
        return GRAIL_OK;
    }
    if (runs) {
        CHECK(execution_begin(d->network->dense.execution, part_shape(request, part),
                              (batch_input){0}));
    }
    CHECK(sample_stream_pick(&d->kept, &pick, d->network->dense.execution));
    for (int64_t i = 0; !d->keeps && runs && i < part->count; i++) {
        sample_stream_drop(&d->kept, part->samples[i]);
    }
    return GRAIL_OK;
}

grail_status heal_dense_run(heal_dense *d, const sample_part *part, const heal_input *input)
{
    const calibration_network *n = d->network;
    execution *e = n->dense.execution;
    if (d->begin == 0) {
        CHECK(execution_begin(e, part_shape(n->request, part), heal_batch_input(input)));
    }
    return execution_run(e, n->dense.parameters, d->begin, n->dense.graph->node_count);
}
