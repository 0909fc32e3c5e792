#include "study/sweep/memory.h"

enum {
    PARAMETER_COPIES = 4,
    FOLDED_COPIES = 6,
    BATCH_IMAGES = 128, /* of the evaluation, as long as a value is not larger than this: */
    BATCH_BYTES = 128 << 20,
    BATCH_VALUES = 4, /* that live at the same time */
    STREAM_VALUES = 2
};

/* Widths at one consumer. */
typedef struct fit_size {
    double features, outputs;
} fit_size;

/* The full repair fits every tap of a convolution, to the dense network's stream. */
static bool is_full(const sweep_cell *cell)
{
    return cell->variant == SWEEP_FULL || cell->variant == SWEEP_FULL_REPAIR;
}

/* How much wider a cut axis is in the calibration network: the clusters of a folding stand behind
 * the units that they came from. */
static double widening(const sweep_cell *cell)
{
    return selector_folds(cell->selector) ? 2.0 - cell->sparsity : 1.0;
}

/* A kernel fit has one column for every tap of the convolution. */
static fit_size size_of_fit(const graph *g, const site *s, const site_end *consumer,
                            const sweep_cell *cell)
{
    const graph_parameter *weight = &g->parameters[g->nodes[consumer->node].weight];
    const bool each_tap = is_full(cell);
    double taps = 1.0;
    for (int d = 2; d < weight->rank; d++) {
        taps *= (double)weight->shape[d];
    }
    return (fit_size){
        .features = widening(cell) * (double)(s->units * consumer->features_per_unit) *
                    (each_tap ? taps : 1.0),
        .outputs = widening(cell) * (double)weight->shape[0] * (each_tap ? 1.0 : taps),
    };
}

static double statistics_bytes(const sweep_recipe *recipe, const graph *g, const site_list *sites,
                               const sweep_cell *cell)
{
    double largest = 0.0;
    double all = 0.0;
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        for (int c = 0; recipe->cuts[s->kind] && c < s->consumer_count; c++) {
            const fit_size f = size_of_fit(g, s, &s->consumers[c], cell);
            const double gram = f.features * f.features;
            const double one = 4.0 * gram + 2.0 * f.features * f.outputs;
            largest = one > largest ? one : largest;
            all += 2.0 * gram;
        }
    }
    return sizeof(double) * (largest + (cell->open_loop ? all : 0.0));
}

static double batch_bytes(double value)
{
    const double bytes = BATCH_IMAGES * value * sizeof(float);
    return BATCH_VALUES * (bytes < (double)BATCH_BYTES ? bytes : (double)BATCH_BYTES);
}

static bool takes_statistics(const sweep_cell *cell)
{
    return (cell->variant != SWEEP_NONE && cell->variant != SWEEP_REPAIR) ||
           selector_needs_statistics(cell->selector);
}

grail_status sweep_cell_bytes(const sweep_recipe *recipe, const grail_model *model,
                              const sweep_cell *cell, int64_t *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = model->graph;
    const int64_t side = model_image_side(model);
    const double pixels = (double)side * (double)side * IMAGE_CHANNELS;
    site_list sites = {0};
    int64_t largest = 0;
    double bytes = 0.0;
    TRY(sites_derive(g, GQA_KV_GROUPS, &sites));
    TRY(graph_largest_value(g, (extent){.height = side, .width = side}, &largest));
    const double value = widening(cell) * (double)largest;
    bytes += batch_bytes(value);
    const double copies = selector_folds(cell->selector) ? FOLDED_COPIES : PARAMETER_COPIES;
    for (int p = 0; p < g->parameter_count; p++) {
        bytes += copies * (double)sizeof(float) * (double)model_parameter_elements(model, p);
    }
    if (cell->variant != SWEEP_NONE || takes_statistics(cell)) {
        const double streams = is_full(cell) && !cell->open_loop ? 2.0 : 1.0;
        bytes += (double)cell->samples * sizeof(float) * (pixels + streams * STREAM_VALUES * value);
    }
    if (takes_statistics(cell)) {
        bytes += statistics_bytes(recipe, g, &sites, cell);
    }
    *out = bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
out:
    site_list_fini(&sites);
    return status;
}
