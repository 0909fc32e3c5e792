/* The facts of a run: totals once it is open, results of each site once it is done. */
#include "pipeline/compression.h"

int grail_compression_site_count(const grail_compression *c)
{
    return c->request->sites->list.count;
}

grail_site_report grail_compression_site(const grail_compression *c, int i)
{
    return i >= 0 && i < grail_compression_site_count(c) ? c->network->results[i].report
                                                         : (grail_site_report){0};
}

grail_compression_totals grail_compression_totals_get(const grail_compression *c)
{
    const gguf_target *target = c->request->narrowed.target;
    grail_compression_totals t = {
        .shortfall = target == NULL ? "" : target->shortfall,
        .precision = backend_precision(c->request->backend),
        .samples_at_once = c->network->passes.samples_at_once,
        .samples = c->request->samples->count,
        .drawn_samples = c->request->samples->drawn,
        .context = c->request->samples->windows.length,
        .blocks_done = c->blocks_recorded,
        .calibration_tokens =
            window_start(&c->request->samples->windows, c->request->samples->windows.count),
        .documents = c->request->samples->windows.starts != NULL ? 1 : 0,
        .full_documents = windows_full(&c->request->samples->windows),
        .calibrate_seconds = c->network->passes.calibrate_seconds,
        .compensate_seconds = c->network->passes.compensate_seconds,
    };
    const grail_model *teacher = c->request->teacher;
    if (grail_model_describe(teacher != NULL ? teacher : c->request->model, &t.dense) != GRAIL_OK) {
        return t;
    }
    grail_model_facts narrow = {0};
    if (model_describe_graph(c->request->model, c->request->narrowed.graph, &narrow) == GRAIL_OK) {
        t.parameters = narrow.parameters;
        t.bytes = narrow.bytes - rounded_types_saving(&c->request->rounded, c->request->model,
                                                      c->request->narrowed.graph);
        t.macs_per_token = narrow.macs_per_token;
        t.kv_bytes_per_token = narrow.kv_bytes_per_token;
    }
    return t;
}

int grail_compression_healing(const grail_compression *c, int i, grail_healing *out)
{
    if (i < 0 || i >= c->network->healings.count) {
        return 0;
    }
    *out = c->network->healings.made[i];
    return 1;
}

int grail_compression_loader(const grail_compression *c, int i, const char **loader, int *loads,
                             const char **reason)
{
    if (i < 0 || i >= LOADER_COUNT) {
        return 0;
    }
    *loader = c->request->narrowed.verdicts[i].loader;
    *loads = c->request->narrowed.verdicts[i].loads ? 1 : 0;
    *reason = c->request->narrowed.verdicts[i].reason;
    return 1;
}
