#include "pipeline/network/keeping.h"

bool bytes_fit(const backend *b, double bytes, int64_t memory)
{
    return bytes <= (memory > 0 ? (double)memory : 0.5 * (double)backend_room(b)); /* unknown: 0 */
}

/* The number of elements per sample of the widest input of a site's consumers. */
static double widest_input(const cutting *cut, int index, const extent *extents)
{
    const site *s = cut_site(cut, index);
    double widest = 0.0;
    for (int k = 0; site_is_cut(cut->plan, index) && k < s->consumer_count; k++) {
        const extent *x = &extents[cut->graph->nodes[s->consumers[k].node].inputs[0]];
        const int64_t features =
            site_wide_units(cut->plan, index) * s->consumers[k].features_per_unit;
        const double elements = (double)features * (double)x->height * (double)x->width;
        widest = elements > widest ? elements : widest;
    }
    return widest;
}

grail_status activations_fit(const cutting *cut, const calibration *samples, const backend *b,
                             int64_t memory, bool *out)
{
    grail_status status = GRAIL_OK;
    extent *extents = NULL;
    double widest = 0.0;
    if (samples->count > 0) {
        TRY(memory_new(&extents, (size_t)cut->graph->value_count, sizeof extents[0]));
        TRY(graph_extents(cut->graph, samples->positions, extents));
    }
    for (int i = 0; samples->count > 0 && i < cut->plan->count; i++) {
        const double elements = widest_input(cut, i, extents);
        widest = elements > widest ? elements : widest;
    }
    *out = bytes_fit(b, widest * (double)samples->count * (double)backend_value_size(b), memory);
out:
    memory_free(extents);
    return status;
}

grail_status value_elements(const graph *g, extent positions, int64_t *elements)
{
    grail_status status = GRAIL_OK;
    extent *extents = NULL;
    TRY(memory_new(&extents, (size_t)g->value_count, sizeof extents[0]));
    TRY(graph_extents(g, positions, extents));
    TRY(graph_widths(g, elements));
    for (int v = 0; v < g->value_count; v++) {
        elements[v] *= extents[v].height * extents[v].width;
    }
out:
    memory_free(extents);
    return status;
}

grail_status tape_fits(const graph *g, const backend *b, extent positions, int64_t samples,
                       int64_t others, int64_t memory, bool *out)
{
    const double of_outputs = 3.0; /* the dense network's, and the gradients of loss and head */
    grail_status status = GRAIL_OK;
    int64_t *elements = NULL;
    double sum = 0.0;
    TRY(memory_new(&elements, (size_t)g->value_count, sizeof elements[0]));
    TRY(value_elements(g, positions, elements));
    for (int v = 0; v < g->value_count; v++) {
        sum += (double)elements[v];
    }
    for (int i = 0; i < g->output_count; i++) {
        sum += of_outputs * (double)elements[g->outputs[i].value];
    }
    *out = bytes_fit(b, (sum * (double)samples + (double)others) * (double)backend_value_size(b),
                     memory);
out:
    memory_free(elements);
    return status;
}
