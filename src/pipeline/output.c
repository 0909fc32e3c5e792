/* What is written: narrow tensors, config.json, tokenizer and generation files, plan.json. */
#include "pipeline/compression.h"

#include "base/file.h"

#include <dirent.h>
#include <string.h>

static void narrow_end(graph *narrowed, const site_end *end, int axis, int64_t features)
{
    const node *n = &narrowed->nodes[end->node];
    narrowed->parameters[n->weight].shape[axis] = features;
    if (axis == 0 && n->bias != GRAPH_NONE) {
        narrowed->parameters[n->bias].shape[0] = features;
    }
}

static void plan_shapes(grail_compression *c)
{
    for (int i = 0; i < c->sites->list.count; i++) {
        const site *s = &c->sites->list.sites[i];
        const int64_t kept = c->plan.sites[i].kept;
        for (int p = 0; p < s->producer_count; p++) {
            narrow_end(c->narrowed, &s->producers[p], 0, kept * s->producers[p].features_per_unit);
        }
        for (int k = 0; k < s->consumer_count; k++) {
            narrow_end(c->narrowed, &s->consumers[k], 1, kept * s->consumers[k].features_per_unit);
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

static bool anything_is_cut(const grail_compression *c)
{
    for (int i = 0; i < c->sites->list.count; i++) {
        if (site_is_cut(c, i)) {
            return true;
        }
    }
    return false;
}

grail_status describe_result(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const architecture *a = c->model->architecture;
    TRY(a->build(a, c->output, c->model->config, &c->narrowed));
    plan_shapes(c);
    TRY(check_widths(c->narrowed));
    c->config = json_deep_copy(c->model->config);
    if (c->config == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory while copying the configuration");
    }
    if (anything_is_cut(c)) {
        TRY(a->describe_narrowed(c->narrowed, c->config));
    }
    TRY(a->judge_loaders(c->config, c->narrowed, c->verdicts));
out:
    return status;
}

static grail_status mark_blocks(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const graph *g = c->model->graph;
    TRY(memory_new(&c->parameter_block, (size_t)g->parameter_count, sizeof c->parameter_block[0]));
    for (int p = 0; p < g->parameter_count; p++) {
        c->parameter_block[p] = GRAPH_NONE;
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        const bool inside = n->block >= 0 && n->block < g->block_count;
        if (inside && n->weight != GRAPH_NONE) {
            c->parameter_block[n->weight] = n->block;
        }
        if (inside && n->bias != GRAPH_NONE) {
            c->parameter_block[n->bias] = n->block;
        }
    }
out:
    return status;
}

static int parameter_of_tensor(const grail_compression *c, const tensor_view *tensor)
{
    return graph_find_parameter(c->model->graph, tensor->name);
}

grail_status open_output(grail_compression *c, bool resume)
{
    grail_status status = GRAIL_OK;
    tensor_view *shapes = NULL;
    const checkpoint *like = c->model->checkpoint;
    const int64_t count = checkpoint_count(like);
    TRY(mark_blocks(c));
    TRY(memory_new(&shapes, (size_t)count, sizeof shapes[0]));
    for (int64_t i = 0; i < count; i++) {
        shapes[i] = *checkpoint_at(like, i);
        const int p = parameter_of_tensor(c, checkpoint_at(like, i));
        if (p != GRAPH_NONE) {
            memcpy(shapes[i].shape, c->narrowed->parameters[p].shape,
                   (size_t)shapes[i].rank * sizeof shapes[i].shape[0]);
        }
    }
    TRY(checkpoint_writer_open(c->partial, like, shapes, resume, &c->writer));
out:
    memory_free(shapes);
    return status;
}

static bool has_own_entry(const grail_compression *c, int parameter)
{
    return c->current->entries[parameter].data != NULL;
}

/* A changed parameter as stored; what was not touched is copied byte for byte. */
static grail_status write_changed(grail_compression *c, int parameter)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    void *stored = NULL;
    int64_t count = 0;
    size_t bytes = 0;
    const tensor_view *tensor = c->model->tensors[parameter];
    TRY(parameter_store_read_f32(c->current, parameter, &values, &count));
    if (!dtype_bytes(tensor->dtype, count, &bytes)) {
        FAIL(GRAIL_ERROR_SHAPE, "tensor '%s' is too large", tensor->name);
    }
    TRY(memory_new_unset(&stored, bytes, 1));
    TRY(convert_from_f32(tensor->dtype, values, count, stored));
    TRY(checkpoint_writer_put(c->writer, tensor->name, stored, bytes));
out:
    memory_free(values);
    memory_free(stored);
    return status;
}

grail_status write_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = c->model->checkpoint;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        const tensor_view *tensor = checkpoint_at(like, i);
        const int p = parameter_of_tensor(c, tensor);
        if ((p == GRAPH_NONE ? GRAPH_NONE : c->parameter_block[p]) != block) {
            continue;
        }
        if (p != GRAPH_NONE && has_own_entry(c, p)) {
            TRY(write_changed(c, p));
        } else {
            TRY(checkpoint_writer_put(c->writer, tensor->name, tensor->data, tensor->bytes));
            checkpoint_release(like, tensor);
        }
    }
    TRY(checkpoint_writer_sync(c->writer));
out:
    return status;
}

/* Small files beside the weights; weights in other formats stay behind, they are not narrow. */
static bool is_companion(const char *name)
{
    static const char *const suffixes[] = {".json", ".model", ".txt", ".jinja", ".tiktoken"};
    static const char *const others[] = {"config.json", "plan.json", "report.json"};
    if (name[0] == '.' || strstr(name, ".index.json") != NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(name, others[i]) == 0) {
            return false;
        }
    }
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (strcmp(dot, suffixes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static grail_status copy_companion(const char *from, const char *to, const char *name)
{
    grail_status status = GRAIL_OK;
    char *source = NULL;
    char *copy = NULL;
    TRY(path_join(&source, from, name));
    TRY(path_join(&copy, to, name));
    TRY(file_copy(source, copy));
out:
    memory_free(source);
    memory_free(copy);
    return status;
}

static grail_status copy_companions(const grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const char *from = checkpoint_directory(c->model->checkpoint);
    DIR *directory = opendir(from);
    if (directory == NULL) {
        return error_from_errno("cannot list", from);
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(directory)) != NULL) {
        if (is_companion(entry->d_name)) {
            TRY(copy_companion(from, c->partial, entry->d_name));
        }
    }
out:
    closedir(directory);
    return status;
}

static grail_status write_json(const grail_compression *c, const char *name, const json_t *value)
{
    char *path = NULL;
    grail_status status = path_join(&path, c->partial, name);
    if (status == GRAIL_OK) {
        status = json_write_file(path, value);
    }
    memory_free(path);
    return status;
}

grail_status write_companions(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    TRY(copy_companions(c));
    TRY(plan_to_json(&c->plan, &c->sites->list, &document));
    TRY(write_json(c, "plan.json", document));
    TRY(write_json(c, "config.json", c->config));
out:
    json_decref(document);
    return status;
}
