#include "arch/model.h"

#include "base/file.h"

#include <string.h>

enum { CONFIG_MAXIMUM = 16 << 20 };

static grail_status load_config(const char *directory, json_t **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    if (!file_is_directory(directory)) {
        FAIL(GRAIL_ERROR_IO, "'%s' is not a directory; give a Hugging Face model directory",
             directory);
    }
    TRY(path_join(&path, directory, "config.json"));
    TRY(json_read_file(path, CONFIG_MAXIMUM, out));
    if (!json_is_object(*out)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: not a JSON object", path);
    }
out:
    memory_free(path);
    return status;
}

static grail_status bind_parameter(grail_model *m, int index)
{
    const graph_parameter *wanted = &m->graph->parameters[index];
    const char *directory = checkpoint_directory(m->checkpoint);
    const tensor_view *found = checkpoint_find(m->checkpoint, wanted->name);
    if (found == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: tensor '%s' is missing, which config.json asks for", directory,
                         wanted->name);
    }
    if (found->rank != wanted->rank ||
        memcmp(found->shape, wanted->shape, (size_t)found->rank * sizeof found->shape[0]) != 0) {
        char expected[64];
        char stored[64];
        return error_set(GRAIL_ERROR_SHAPE, "%s: tensor '%s' has shape %s, config.json asks for %s",
                         directory, wanted->name,
                         shape_text(found->rank, found->shape, stored, sizeof stored),
                         shape_text(wanted->rank, wanted->shape, expected, sizeof expected));
    }
    if (!dtype_is_weight(found->dtype)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: tensor '%s' has dtype %s; F32, F16 and BF16 are supported (an "
                         "already quantised checkpoint cannot be narrowed)",
                         directory, wanted->name, grail_dtype_name(found->dtype));
    }
    m->tensors[index] = found;
    return GRAIL_OK;
}

/* A weight that the graph does not read would silently change the answer, so it is refused. */
static grail_status refuse_unknown_tensors(const grail_model *m)
{
    for (int64_t i = 0; i < checkpoint_count(m->checkpoint); i++) {
        const tensor_view *tensor = checkpoint_at(m->checkpoint, i);
        if (graph_find_parameter(m->graph, tensor->name) == GRAPH_NONE &&
            !m->architecture->is_ignorable(tensor->name)) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: tensor '%s' is not part of a %s network as config.json describes "
                             "it (a bias switched off there, or another architecture?)",
                             checkpoint_directory(m->checkpoint), tensor->name,
                             m->architecture->name);
        }
    }
    return GRAIL_OK;
}

grail_status grail_model_open(const char *directory, grail_model **out)
{
    grail_status status = GRAIL_OK;
    grail_model *m = NULL;
    char *source = NULL;
    TRY(memory_new(&m, 1, sizeof *m));
    TRY(path_join(&source, directory, "config.json"));
    TRY(load_config(directory, &m->config));
    TRY(architecture_find(source, m->config, &m->architecture));
    TRY(m->architecture->build(m->architecture, source, m->config, &m->graph));
    m->context = m->architecture->context(m->architecture, m->config);
    TRY(checkpoint_open(directory, &m->checkpoint));
    TRY(memory_new(&m->tensors, (size_t)m->graph->parameter_count, sizeof m->tensors[0]));
    for (int p = 0; p < m->graph->parameter_count; p++) {
        TRY(bind_parameter(m, p));
    }
    TRY(refuse_unknown_tensors(m));
    *out = m;
    m = NULL;
out:
    memory_free(source);
    grail_model_close(m);
    return status;
}

void grail_model_close(grail_model *model)
{
    if (model == NULL) {
        return;
    }
    checkpoint_close(model->checkpoint);
    json_decref(model->config);
    graph_free(model->graph);
    memory_free(model->tensors);
    memory_free(model);
}

int64_t model_parameter_elements(const grail_model *model, int index)
{
    const graph_parameter *p = &model->graph->parameters[index];
    int64_t elements = 0;
    return shape_elements(p->rank, p->shape, &elements) ? elements : 0;
}

grail_status model_parameter_f32(const grail_model *model, int index, float *out)
{
    const tensor_view *tensor = model->tensors[index];
    const int64_t count = model_parameter_elements(model, index);
    const grail_status status = convert_to_f32(tensor->dtype, tensor->data, count, out);
    if (status != GRAIL_OK) {
        return status;
    }
    const int64_t bad = find_non_finite(out, count);
    if (bad >= 0) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "%s: tensor '%s' holds a NaN or infinity at element "
                         "%lld; the checkpoint is damaged",
                         checkpoint_directory(model->checkpoint), tensor->name, (long long)bad);
    }
    checkpoint_release(model->checkpoint, tensor);
    return GRAIL_OK;
}

static void count_node(const grail_model *m, const int64_t *widths, const node *n,
                       size_t element_bytes, grail_model_facts *facts)
{
    if (n->kind == NODE_LINEAR) {
        const int64_t *shape = m->graph->parameters[n->weight].shape;
        facts->macs_per_token += shape[0] * shape[1];
    }
    if (n->kind == NODE_ATTENTION) {
        facts->kv_bytes_per_token +=
            (widths[n->inputs[1]] + widths[n->inputs[2]]) * (int64_t)element_bytes;
    }
}

grail_status grail_model_describe(const grail_model *model, grail_model_facts *out)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    const graph *g = model->graph;
    grail_model_facts facts = {
        .directory = checkpoint_directory(model->checkpoint),
        .architecture = model->architecture->name,
        .dtype = grail_dtype_name(model->tensors[0]->dtype),
        .blocks = g->block_count,
        .vocabulary = g->vocabulary,
        .context = model->context,
    };
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(graph_widths(g, widths));
    const size_t element_bytes = dtype_bits(model->tensors[0]->dtype) / 8;
    for (int n = 0; n < g->node_count; n++) {
        count_node(model, widths, &g->nodes[n], element_bytes, &facts);
    }
    for (int p = 0; p < g->parameter_count; p++) {
        facts.parameters += model_parameter_elements(model, p);
        facts.bytes += (int64_t)model->tensors[p]->bytes;
    }
    *out = facts;
out:
    memory_free(widths);
    return status;
}

static grail_site_facts site_facts(const graph *g, const site *s)
{
    const site_end *consumer = &s->consumers[0];
    return (grail_site_facts){
        .name = s->name,
        .kind = site_kind_name(s->kind),
        .block = s->block,
        .units = s->units,
        .features_per_unit = consumer->features_per_unit,
        .width = s->units * consumer->features_per_unit,
        .groups = s->groups,
        .outputs = g->parameters[g->nodes[consumer->node].weight].shape[0],
        .parameters_per_unit = site_parameters_per_unit(g, s),
    };
}

grail_status grail_model_sites(const grail_model *model, grail_gqa_mode mode, grail_site_list **out)
{
    grail_status status = GRAIL_OK;
    grail_site_list *sites = NULL;
    TRY(memory_new(&sites, 1, sizeof *sites));
    TRY(sites_derive(model->graph,
                     mode == GRAIL_GQA_KV_GROUPS ? GQA_KV_GROUPS : GQA_QUERY_PER_GROUP,
                     &sites->list));
    TRY(memory_new(&sites->facts, (size_t)sites->list.count, sizeof sites->facts[0]));
    for (int i = 0; i < sites->list.count; i++) {
        sites->facts[i] = site_facts(model->graph, &sites->list.sites[i]);
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
