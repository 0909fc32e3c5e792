#include "pipeline/request/narrowed.h"

#include "pipeline/request/dropped.h"

static void plan_shapes(const plan *p, const parameter_cut *cuts, graph *narrowed)
{
    for (int i = 0; i < narrowed->parameter_count; i++) {
        int64_t *shape = narrowed->parameters[i].shape;
        const cut_axis *rows = &cuts[i].rows;
        const cut_axis *columns = &cuts[i].columns;
        if (rows->site != GRAPH_NONE) {
            shape[0] = p->sites[rows->site].kept * rows->features;
        }
        if (columns->site != GRAPH_NONE) {
            const plan_site *planned = &p->sites[columns->site];
            shape[1] = shape[1] / planned->units * planned->kept;
        }
    }
}

static grail_status check_widths(const graph *narrowed)
{
    int64_t *widths = NULL;
    grail_status status = memory_new(&widths, (size_t)narrowed->value_count, sizeof widths[0]);
    if (status == GRAIL_OK) {
        status = graph_widths(narrowed, widths);
    }
    memory_free(widths);
    return status;
}

void narrowed_fini(narrowed_model *narrowed)
{
    graph_free(narrowed->graph);
    json_decref(narrowed->config);
    memory_free(narrowed->block_number);
    *narrowed = (narrowed_model){0};
}

grail_status narrowed_describe(const grail_model *model, const site_list *sites, const plan *p,
                               const parameter_cut *cuts, narrowed_model *out)
{
    grail_status status = GRAIL_OK;
    const architecture *a = model->architecture;
    narrowed_model n = {0};
    TRY(a->build(a, model->path, model->config, model->checkpoint, &n.graph));
    plan_shapes(p, cuts, n.graph);
    TRY(dropped_take_out(sites, p, n.graph));
    TRY(check_widths(n.graph));
    TRY(memory_new(&n.block_number, (size_t)n.graph->block_count, sizeof n.block_number[0]));
    n.blocks_left = dropped_number_blocks(n.graph, n.block_number);
    n.config = json_deep_copy(model->config);
    if (n.config == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory while copying the configuration");
    }
    if (anything_is_cut(p)) {
        TRY(a->describe_narrowed(a, n.graph, n.config));
    }
    TRY(a->judge_loaders(a, n.config, n.graph, n.verdicts));
    if (n.graph->input_kind == INPUT_IMAGES) {
        judge_weights_file(model->checkpoint, n.verdicts);
    }
    *out = n;
    n = (narrowed_model){0};
out:
    narrowed_fini(&n);
    return status;
}
