/* Queries on an open model: parameters as f32, facts, sites. */
#include "arch/model.h"

#include "arch/activation_names.h"
#include "arch/model_config.h"
#include "arch/model_preparation.h"
#include "graph/operators.h"
#include "tensor/packed.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

grail_status model_add_notice(grail_model *model, const char *format, ...)
{
    char text[NOTICE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    CHECK(
        memory_reserve(&model->notices, (size_t)model->notice_count + 1, sizeof model->notices[0]));
    CHECK(memory_copy_string(&model->notices[model->notice_count], text));
    model->notice_count++;
    return GRAIL_OK;
}

static int64_t elements_of(const graph_parameter *p)
{
    int64_t elements = 0;
    return shape_elements(p->rank, p->shape, &elements) ? elements : 0;
}

int64_t model_parameter_elements(const grail_model *model, int index)
{
    return elements_of(&model->graph->parameters[index]);
}

grail_status model_error_non_finite(const grail_model *model, const tensor_view *tensor,
                                    int64_t element)
{
    const checkpoint *c = model->checkpoint;
    const int file = checkpoint_file_of(c, checkpoint_index_of(c, tensor->name));
    const bool has_files = checkpoint_directory(c) != NULL;
    return error_set(GRAIL_ERROR_NUMERIC,
                     "%s%s%s: tensor '%s' holds a NaN or infinity at element %lld; the checkpoint "
                     "is damaged",
                     has_files ? checkpoint_directory(c) : checkpoint_path(c), has_files ? "/" : "",
                     has_files ? checkpoint_file_name(c, file) : "", tensor->name,
                     (long long)element);
}

grail_status model_parameter_f32(const grail_model *model, int index, float *out)
{
    const stored_matrix stored = graph_stored(&model->graph->parameters[index]);
    const tensor_view *tensor = model->tensors[index];
    CHECK(checkpoint_need(model->checkpoint, tensor));
    CHECK(storage_read(&stored, tensor, out));
    const int64_t bad = find_non_finite(out, model_parameter_elements(model, index));
    if (bad >= 0) {
        const int64_t element = storage_element(&stored, tensor, bad);
        return stored.map.inverts && isinf(out[bad])
                   ? error_set(GRAIL_ERROR_NUMERIC,
                               "%s: values are divided by tensor '%s', which is 0 or next to it at "
                               "element %lld",
                               checkpoint_path(model->checkpoint), tensor->name, (long long)element)
                   : model_error_non_finite(model, tensor, element);
    }
    checkpoint_release(model->checkpoint, tensor);
    return GRAIL_OK;
}

grail_status model_parameter_stored(const grail_model *model, int index, const void **out)
{
    const tensor_view *tensor = model->tensors[index];
    *out = NULL;
    if (!storage_is_plain(&model->graph->parameters[index].map) || tensor_is_packed(tensor)) {
        return GRAIL_OK;
    }
    CHECK(checkpoint_need(model->checkpoint, tensor));
    const int64_t bad =
        find_non_finite_stored(tensor->dtype, tensor->data, model_parameter_elements(model, index));
    if (bad >= 0) {
        return model_error_non_finite(model, tensor, bad);
    }
    *out = tensor->data;
    return GRAIL_OK;
}

grail_dtype model_written_dtype(const grail_model *model, const tensor_view *tensor)
{
    if (tensor_is_packed(tensor)) {
        return GRAIL_DTYPE_BF16; /* which has all of their values */
    }
    if (dtype_block(tensor->dtype) == 1) {
        return tensor->dtype;
    }
    return model->written_blocks == GRAIL_DTYPE_COUNT ? GRAIL_DTYPE_F32 : model->written_blocks;
}

bool model_names_its_class(const grail_model *model)
{
    return model->config_name != NULL && strcmp(model->config_name, MODEL_CONFIG_NAME) == 0;
}

grail_status model_result_name(const grail_model *model, int64_t i, char **out, size_t *begin)
{
    const checkpoint *c = model->checkpoint;
    const architecture *a = model->architecture;
    if (!model->is_text_tower) {
        /* from_pretrained knows no names of wrappers */
        const char *plain = checkpoint_plain_name(c, i);
        const bool to_class = model_names_its_class(model) && checkpoint_index_of(c, plain) == i;
        *begin =
            to_class ? (size_t)(checkpoint_own_name(c, i) - plain) : checkpoint_own_begin(c, i);
        return memory_copy_string(out, to_class ? plain : checkpoint_at(c, i)->name);
    }
    const char *base = checkpoint_is_inside(c, i) ? a->base(a) : "";
    *begin = strlen(base);
    return memory_format(out, "%s%s", base, checkpoint_own_name(c, i));
}

grail_status model_check_written(const grail_model *model)
{
    for (int64_t i = 0; i < checkpoint_count(model->checkpoint); i++) {
        const tensor_view *tensor = checkpoint_at(model->checkpoint, i);
        if (dtype_block(tensor->dtype) > 1 && model->written_blocks == GRAIL_DTYPE_COUNT) {
            const grail_status status = error_set(
                GRAIL_ERROR_ARGUMENT,
                "%s: tensor '%s' is quantised (%s); choose the type that weights of the result "
                "have, f16 for example, and let grail quantize round the result",
                checkpoint_path(model->checkpoint), tensor->name, grail_dtype_name(tensor->dtype));
            return error_about(status, "type");
        }
    }
    return GRAIL_OK;
}

extent model_image_extent(const grail_model *model)
{
    enum { USUAL_SIDE = 224 };
    if (model->graph->image.height > 0) {
        return model->graph->image;
    }
    const int64_t known = model->preparation == NULL ? 0 : model->preparation->what.side;
    const int64_t side = known > 0 ? known : USUAL_SIDE;
    return (extent){.height = side, .width = side};
}

extent model_usual_positions(const grail_model *model)
{
    return model->graph->input_kind == INPUT_IMAGES ? model_image_extent(model)
                                                    : (extent){.height = 1, .width = 1};
}

grail_dtype model_first_dtype(const grail_model *m)
{
    return m->graph->parameter_count == 0 ? GRAIL_DTYPE_F32 : m->tensors[0]->dtype;
}

grail_dtype model_usual_dtype(const grail_model *m)
{
    int64_t counts[GRAIL_DTYPE_COUNT + 1] = {0};
    int best = (int)model_first_dtype(m);
    for (int p = 0; p < m->graph->parameter_count; p++) {
        const int dtype = (int)m->tensors[p]->dtype;
        counts[dtype] += elements_of(&m->graph->parameters[p]);
        best = counts[dtype] > counts[best] ? dtype : best;
    }
    return (grail_dtype)best;
}

grail_region_facts grail_model_region_at(const grail_model *model, int i)
{
    const graph *g = model->graph;
    grail_region_facts facts = {.node = NULL};
    for (int k = 0; k < g->node_count && i >= 0 && facts.node == NULL; k++) {
        const node *n = &g->nodes[k];
        if (n->kind != NODE_OPAQUE || i-- > 0) {
            continue;
        }
        facts = (grail_region_facts){.node = region_name(n->region),
                                     .reason = region_reason(n->region),
                                     .nodes = region_node_count(n->region),
                                     .channels = region_width(n->region)};
        for (int j = 0; j < n->input_count; j++) {
            facts.channels += n->inputs[j] == g->input ? 0 : region_input_width(n->region, j);
        }
    }
    return facts;
}

grail_status grail_model_describe(const grail_model *model, grail_model_facts *out)
{
    return model_describe_graph(model, model->graph, out);
}

grail_status model_describe_graph(const grail_model *model, const graph *g, grail_model_facts *out)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    extent *extents = NULL;
    grail_model_facts facts = {
        .directory = model->path,
        .architecture = model->architecture->name,
        .dtype = grail_dtype_name(model_usual_dtype(model)),
        .blocks = g->block_count,
        .vocabulary = g->vocabulary,
        .context = model->context,
        .gives_features = graph_gives_features(g) ? 1 : 0,
        .reads_images = g->input_kind == INPUT_IMAGES ? 1 : 0,
        .parameters = model->outside_parameters,
        .bytes = model->outside_bytes,
        .activation_notice = model->activation_notice[0] == 0 ? NULL : model->activation_notice,
        .notices = (const char *const *)model->notices,
        .notice_count = model->notice_count,
        .outputs = g->output_count,
        .inputs = g->input_count,
    };
    const extent positions = model_usual_positions(model);
    const size_t cache_bits = dtype_bits(model_first_dtype(model));
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(memory_new(&extents, (size_t)g->value_count, sizeof extents[0]));
    TRY(graph_widths(g, widths));
    TRY(graph_extents(model->graph, positions, extents));
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        facts.macs_per_token += node_products(g, n, extents[n->output]);
        if (n->kind == NODE_ACTIVATION && facts.activation == NULL) { /* as all others are */
            facts.activation = activation_name(n->activation);
        }
        if (operator_of(n)->axis == AXIS_HEADS && !n->attention.bidirectional) {
            /* What runs quantised weights keeps keys and values in F16. */
            facts.kv_bytes_per_token += (widths[n->inputs[1]] + widths[n->inputs[2]]) *
                                        (int64_t)(cache_bits == 0 ? 16 : cache_bits) / 8;
        }
    }
    for (int p = 0; p < g->parameter_count; p++) {
        const tensor_view *tensor = model->tensors[p];
        const int64_t elements = elements_of(&g->parameters[p]);
        /* in the network itself as it is stored, otherwise as a result holds it */
        const grail_dtype dtype =
            g == model->graph ? tensor->dtype : model_written_dtype(model, tensor);
        size_t bytes = 0;
        (void)dtype_bytes(dtype, elements, &bytes);
        facts.parameters += elements;
        facts.bytes += (int64_t)bytes;
    }
    if (facts.reads_images) {
        facts.image_side = positions.height;
        facts.image_width = positions.width;
        facts.preset = model->preparation == NULL ? NULL : model->preparation->what.name;
        facts.classes = model->graph->classes;
        facts.channels = model->graph->channels;
    }
    *out = facts;
out:
    memory_free(widths);
    memory_free(extents);
    return status;
}

grail_status grail_model_input(const grail_model *model, int i, grail_input_facts *out)
{
    const graph *g = model->graph;
    if (i < 0 || i >= g->input_count) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the network names %d inputs, no number %d",
                         g->input_count, i);
    }
    const graph_input *input = &g->inputs[i];
    *out = (grail_input_facts){.name = input->name,
                               .channels = input->channels,
                               .height = input->positions.height,
                               .width = input->positions.width,
                               .rows = input->rows,
                               .dimensions = input->rank,
                               .is_integer = input->are_integers ? 1 : 0};
    return GRAIL_OK;
}

grail_status grail_model_output(const grail_model *model, int i, grail_output_facts *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = model->graph;
    const extent positions = model_usual_positions(model);
    int64_t *widths = NULL;
    extent *extents = NULL;
    if (i < 0 || i >= g->output_count) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the network has %d outputs, no number %d",
                         g->output_count, i);
    }
    const graph_output *o = &g->outputs[i];
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(memory_new(&extents, (size_t)g->value_count, sizeof extents[0]));
    TRY(graph_widths(g, widths));
    TRY(graph_extents(g, positions, extents));
    *out = (grail_output_facts){.name = o->name,
                                .width = widths[o->value],
                                .rows = {extents[o->value].height, extents[o->value].width},
                                .is_logits = o->is_logits ? 1 : 0};
out:
    memory_free(widths);
    memory_free(extents);
    return status;
}

grail_status grail_model_sites(const grail_model *model, grail_gqa_mode mode, grail_site_list **out)
{
    grail_status status = GRAIL_OK;
    grail_site_list *sites = NULL;
    const graph *g = model->graph;
    TRY(memory_new(&sites, 1, sizeof *sites));
    TRY(sites_derive(g, mode == GRAIL_GQA_KV_GROUPS ? GQA_KV_GROUPS : GQA_QUERY_PER_GROUP,
                     &sites->list));
    TRY(memory_new(&sites->facts, (size_t)sites->list.count, sizeof sites->facts[0]));
    for (int i = 0; i < sites->list.count; i++) {
        const site *s = &sites->list.sites[i]; /* experts have a producer alone: their router */
        const site_end *end = s->consumer_count > 0 ? &s->consumers[0] : &s->producers[0];
        sites->facts[i] = (grail_site_facts){
            .name = s->name,
            .kind = site_kind_name(s->kind),
            .block = s->block,
            .units = s->units,
            .features_per_unit = end->features_per_unit,
            .width = s->units * end->features_per_unit,
            .groups = s->groups,
            .outputs = g->parameters[g->nodes[end->node].weight].shape[0],
            .parameters_per_unit = site_parameters_per_unit(g, s),
        };
    }
    *out = sites;
    sites = NULL;
out:
    grail_site_list_free(sites);
    return status;
}

void grail_site_list_free(grail_site_list *sites)
{
    if (sites != NULL) {
        site_list_fini(&sites->list);
        memory_free(sites->facts);
        memory_free(sites);
    }
}

int grail_site_list_count(const grail_site_list *sites)
{
    return sites->list.count;
}

grail_site_facts grail_site_list_at(const grail_site_list *sites, int i)
{
    return sites->facts[i];
}

/* -- its digest -------------------------------------------------------------------------------- */

grail_status grail_model_digest(const grail_model *model, char out[HASH_TEXT_SIZE])
{
    enum { BYTES = 512 };
    hash_state state;
    hash_begin(&state);
    for (int64_t i = 0; i < checkpoint_count(model->checkpoint); i++) {
        const tensor_view *t = checkpoint_at(model->checkpoint, i);
        CHECK(checkpoint_need(model->checkpoint, t));
        const size_t some = t->bytes < BYTES ? t->bytes : BYTES;
        hash_add(&state, t->name, strlen(t->name) + 1);
        hash_add(&state, &t->dtype, sizeof t->dtype);
        hash_add(&state, t->shape, (size_t)t->rank * sizeof t->shape[0]);
        if (t->data != NULL && some > 0) {
            hash_add(&state, t->data, some);
            hash_add(&state, (const char *)t->data + (t->bytes - some), some);
        }
        checkpoint_release(model->checkpoint, t);
    }
    hash_end(&state, out);
    return GRAIL_OK;
}
