/* What is written: narrow tensors, config.json, tokenizer and generation files, plan.json. */
#include "pipeline/compression.h"

#include "arch/model_config.h"
#include "base/file.h"
#include "pipeline/network/narrow.h"

#include <dirent.h>
#include <string.h>

static grail_status mark_blocks(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const graph *g = c->request->graph;
    TRY(memory_new(&c->output->parameter_block, (size_t)g->parameter_count,
                   sizeof c->output->parameter_block[0]));
    for (int p = 0; p < g->parameter_count; p++) {
        c->output->parameter_block[p] = GRAPH_NONE;
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(n, parameters);
        for (int k = 0; k < count && n->block < g->block_count; k++) {
            c->output->parameter_block[parameters[k]] = n->block;
        }
    }
out:
    return status;
}

/* Which parameters each tensor holds: the first, and behind each parameter the next part of the
 * same tensor, in the order of their rows. */
static grail_status index_parts(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = c->request->model->checkpoint;
    const int64_t tensors = checkpoint_count(like);
    const int count = c->request->graph->parameter_count;
    TRY(memory_new(&c->output->tensor_parameter, (size_t)tensors,
                   sizeof c->output->tensor_parameter[0]));
    TRY(memory_new(&c->output->next_part, (size_t)count, sizeof c->output->next_part[0]));
    for (int64_t i = 0; i < tensors; i++) {
        c->output->tensor_parameter[i] = GRAPH_NONE;
    }
    for (int p = count - 1; p >= 0; p--) {
        const int64_t i = checkpoint_index_of(like, c->request->model->tensors[p]->name);
        c->output->next_part[p] = c->output->tensor_parameter[i];
        c->output->tensor_parameter[i] = p;
    }
out:
    return status;
}

/* The shape of a tensor of the result: leading dimensions of 1 that the parameter has not stay. */
static void narrow_shape(const grail_compression *c, int64_t index, int64_t *shape)
{
    int64_t rows = 0;
    int p = c->output->tensor_parameter[index];
    if (p == GRAPH_NONE || c->request->narrowed.graph->parameters[p].transposed) {
        return; /* outside the graph, or never cut */
    }
    const graph_parameter *narrow = &c->request->narrowed.graph->parameters[p];
    const int leading = checkpoint_at(c->request->model->checkpoint, index)->rank - narrow->rank;
    for (int d = 0; d < narrow->rank; d++) {
        shape[leading + d] = narrow->shape[d];
    }
    for (; p != GRAPH_NONE; p = c->output->next_part[p]) {
        rows += c->request->narrowed.graph->parameters[p].shape[0];
    }
    if (narrow->part) {
        shape[leading] = rows;
    }
}

grail_status open_output(grail_compression *c, bool resume)
{
    grail_status status = GRAIL_OK;
    tensor_view *shapes = NULL;
    const checkpoint *like = c->request->model->checkpoint;
    const int64_t count = checkpoint_count(like);
    TRY(mark_blocks(c));
    TRY(index_parts(c));
    TRY(memory_new(&shapes, (size_t)count, sizeof shapes[0]));
    for (int64_t i = 0; i < count; i++) {
        shapes[i] = *checkpoint_at(like, i);
        narrow_shape(c, i, shapes[i].shape);
    }
    TRY(checkpoint_writer_open(c->output->partial, like, CHECKPOINT_LIKE, shapes, resume,
                               &c->output->writer));
out:
    memory_free(shapes);
    return status;
}

/* One part's values as stored, behind what is there already. */
static grail_status append_stored(grail_compression *c, int parameter, const tensor_view *tensor,
                                  buffer *out)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    void *stored = NULL;
    int64_t count = 0;
    size_t bytes = 0;
    const graph_parameter *narrow = &c->request->narrowed.graph->parameters[parameter];
    TRY(narrow_parameter(c->network, parameter, &values));
    if (!shape_elements(narrow->rank, narrow->shape, &count) ||
        !dtype_bytes(tensor->dtype, count, &bytes)) {
        FAIL(GRAIL_ERROR_SHAPE, "tensor '%s' is too large", tensor->name);
    }
    TRY(memory_new_unset(&stored, bytes, 1));
    TRY(convert_from_f32(tensor->dtype, values, count, stored));
    TRY(buffer_append(out, stored, bytes));
out:
    memory_free(values);
    memory_free(stored);
    return status;
}

/* A changed tensor as stored; what was not touched is copied byte for byte. */
static grail_status write_changed(grail_compression *c, int64_t index)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    const tensor_view *tensor = checkpoint_at(c->request->model->checkpoint, index);
    buffer_init(&bytes, SIZE_MAX / 2);
    for (int p = c->output->tensor_parameter[index]; p != GRAPH_NONE; p = c->output->next_part[p]) {
        TRY(append_stored(c, p, tensor, &bytes));
    }
    TRY(checkpoint_writer_put(c->output->writer, tensor->name, bytes.bytes, bytes.size));
out:
    buffer_fini(&bytes);
    return status;
}

static bool tensor_is_changed(const grail_compression *c, int64_t index)
{
    for (int p = c->output->tensor_parameter[index]; p != GRAPH_NONE; p = c->output->next_part[p]) {
        if (parameter_is_changed(c->network, p)) {
            return true;
        }
    }
    return false;
}

grail_status write_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = c->request->model->checkpoint;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        const tensor_view *tensor = checkpoint_at(like, i);
        const int p = c->output->tensor_parameter[i];
        if ((p == GRAPH_NONE ? GRAPH_NONE : c->output->parameter_block[p]) != block) {
            continue;
        }
        if (tensor_is_changed(c, i)) {
            TRY(write_changed(c, i));
        } else {
            TRY(checkpoint_writer_put(c->output->writer, tensor->name, tensor->data,
                                      tensor->bytes));
            checkpoint_release(like, tensor);
        }
    }
    TRY(checkpoint_writer_sync(c->output->writer));
out:
    return status;
}

/* Small files beside the weights; weights in other formats stay behind, they are not narrow. */
static bool is_companion(const char *name)
{
    static const char *const suffixes[] = {".json", ".model", ".txt", ".jinja", ".tiktoken"};
    static const char *const others[] = {MODEL_CONFIG_NAME, MODEL_GRAIL_NAME, "plan.json",
                                         "report.json"};
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
    const char *from = checkpoint_directory(c->request->model->checkpoint);
    DIR *directory = opendir(from);
    if (directory == NULL) {
        return error_from_errno("cannot list", from);
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(directory)) != NULL) {
        if (is_companion(entry->d_name)) {
            TRY(copy_companion(from, c->output->partial, entry->d_name));
        }
    }
out:
    closedir(directory);
    return status;
}

static grail_status write_json(const grail_compression *c, const char *name, const json_t *value)
{
    char *path = NULL;
    grail_status status = path_join(&path, c->output->partial, name);
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
    const char *config = c->request->model->config_name;
    const bool own_config = config != NULL && strcmp(config, MODEL_CONFIG_NAME) == 0;
    if (own_config) {
        TRY(copy_companions(c));
    }
    TRY(plan_to_json(&c->request->plan, &c->request->sites->list, &document));
    TRY(write_json(c, "plan.json", document));
    TRY(write_json(c, own_config ? MODEL_CONFIG_NAME : MODEL_GRAIL_NAME,
                   c->request->narrowed.config));
out:
    json_decref(document);
    return status;
}
