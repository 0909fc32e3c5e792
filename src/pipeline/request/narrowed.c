#include "pipeline/request/narrowed.h"

#include "arch/onnx_network.h"
#include "format/weights/weights_format.h"
#include "pipeline/request/dropped.h"

static void plan_shapes(const graph *dense, const plan *p, const parameter_cut *cuts,
                        graph *narrowed)
{
    for (int i = 0; i < narrowed->parameter_count; i++) {
        int64_t *shape = narrowed->parameters[i].shape;
        const int64_t taps = weight_taps(&narrowed->parameters[i]);
        shape[0] = cut_narrow_place(p, &cuts[i].rows, shape[0]);
        shape[1] = cut_narrow_place(p, &cuts[i].columns, shape[1] * taps) / taps;
    }
    cuts_place_nodes(dense, cuts, p, true, narrowed->nodes);
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
    buffer_fini(&narrowed->loader_text);
    onnx_integer_list_fini(&narrowed->integers);
    if (narrowed->pairs != NULL) {
        gguf_pairs_fini(narrowed->pairs);
        memory_free(narrowed->pairs);
    }
    if (narrowed->target != NULL) {
        gguf_target_fini(narrowed->target);
        memory_free(narrowed->target);
    }
    *narrowed = (narrowed_model){0};
}

const weights_format *narrowed_format(const narrowed_model *narrowed)
{
    return narrowed->target == NULL ? NULL : &weights_format_gguf;
}

static grail_status describe_gguf(const grail_model *model, const grail_gguf_options *file,
                                  narrowed_model *n)
{
    if (file == NULL && checkpoint_metadata(model->checkpoint) == NULL) {
        return GRAIL_OK;
    }
    CHECK(memory_new(&n->pairs, 1, sizeof *n->pairs));
    gguf_pairs_init(n->pairs);
    if (file == NULL) {
        return gguf_describe_narrowed(model, n->graph, n->pairs);
    }
    CHECK(memory_new(&n->target, 1, sizeof *n->target));
    return gguf_target_init(model, n->graph, file, n->pairs, n->target);
}

/* A result that is a GGUF file has no other file. */
static grail_status describe_loader_file(const architecture *a, narrowed_model *n)
{
    buffer_init(&n->loader_text, SIZE_MAX / 4);
    return n->pairs != NULL || a->loader_file == NULL
               ? GRAIL_OK
               : a->loader_file(a, n->config, n->graph, &n->loader_file, &n->loader_text);
}

static grail_status judge(const grail_model *model, narrowed_model *n)
{
    const architecture *a = model->architecture;
    CHECK(a->judge_loaders(a, n->config, model->graph, n->graph, n->verdicts));
    if (n->pairs != NULL) {
        const gguf_family *family = n->target == NULL ? NULL : n->target->family;
        CHECK(family != NULL ? GRAIL_OK : gguf_family_of_narrowed(model, n->graph, &family));
        gguf_judge_loaders(family, model->config, n->graph, n->verdicts);
    }
    if (model->has_foreign_names) {
        judge_foreign_names(checkpoint_prefix(model->checkpoint), n->verdicts);
    }
    if (n->graph->input_kind == INPUT_IMAGES || checkpoint_onnx(model->checkpoint) != NULL) {
        judge_weights_file(model->checkpoint, n->verdicts);
    }
    return GRAIL_OK;
}

grail_status narrowed_describe(const grail_model *model, const site_list *sites, const plan *p,
                               const parameter_cut *cuts, const grail_gguf_options *file,
                               narrowed_model *out)
{
    const architecture *a = model->architecture;
    *out = (narrowed_model){0};
    CHECK(a->build(a, model->path, model->config, model->checkpoint, &out->graph));
    graph *g = out->graph;
    plan_shapes(model->graph, p, cuts, g);
    CHECK(dropped_take_out(model->graph, sites, p, g));
    CHECK(check_widths(g));
    CHECK(memory_new(&out->block_number, (size_t)g->block_count, sizeof out->block_number[0]));
    out->blocks_left = dropped_number_blocks(g, out->block_number);
    out->config = json_deep_copy(model->config);
    if (out->config == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while copying the configuration");
    }
    if (anything_is_cut(p)) {
        CHECK(a->describe_narrowed(a, g, out->config));
    }
    CHECK(describe_gguf(model, file, out));
    CHECK(onnx_network_integers(model->checkpoint, g, &out->integers));
    CHECK(describe_loader_file(a, out));
    return judge(model, out);
}
