/* Logits of complete windows, or of images that are given as pixels, written for comparison with
 * another implementation. */
#include "base/name_list.h"
#include "base/output_file.h"

#include "arch/model_text.h"
#include "eval/forward.h"
#include "eval/measuring.h"
#include "format/weights/safetensors.h"

#include <grail/eval.h>

#include <string.h>

static grail_status collect_window(forward_pass *f, int64_t window, int64_t width, int64_t length,
                                   float *out)
{
    for (int64_t from = 0; from < length; from += FORWARD_ROWS) {
        const int64_t left = length - from;
        const int64_t rows = left < FORWARD_ROWS ? left : FORWARD_ROWS;
        matrix logits = {0};
        CHECK(forward_logits(f, window, from, rows, &logits));
        CHECK(matrix_download_f32(logits, out + from * width));
    }
    return GRAIL_OK;
}

/* A tensor F32 of that shape. */
static grail_status describe_logits(const char *path, const char *name, int rank,
                                    const int64_t shape[], tensor_view *out)
{
    int64_t elements = 0;
    *out = (tensor_view){.name = name, .dtype = GRAIL_DTYPE_F32, .rank = rank};
    if (!shape_elements(rank, shape, &elements) ||
        !dtype_bytes(out->dtype, elements, &out->bytes)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: cannot store this many logits in one file",
                         path);
    }
    memcpy(out->shape, shape, (size_t)rank * sizeof shape[0]);
    return GRAIL_OK;
}

grail_status grail_logits_write(const grail_model *model, const grail_text_source *source,
                                const grail_compute *compute, const char *path)
{
    grail_status status = GRAIL_OK;
    measured_network n = {0};
    token_windows windows = {0};
    forward_pass f = {0};
    float *logits = NULL;
    tensor_view view = {0};
    char hash[65];
    int64_t width = 0;
    TRY(name_check_ending(path, "a safetensors file", ".safetensors"));
    TRY(output_file_check_free(path));
    TRY(graph_output_width(model->graph, &width));
    TRY(measured_open(model, NULL, compute, &n));
    TRY(model_read_windows(model, source, &windows, hash));
    if (windows.starts != NULL) {
        FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT,
                   "%s: each window of an encoder is a document, and these have different lengths; "
                   "give token ids in a .npy file, whose rows have one length",
                   source->path);
    }
    TRY(forward_begin(&f, model, n.store, &windows, 0, windows.count));
    const int64_t length = forward_length(&f, 0, 0);
    TRY(memory_new_unset(&logits, (size_t)(windows.count * length * width), sizeof logits[0]));
    for (int64_t w = 0; w < windows.count; w++) {
        TRY(collect_window(&f, w, width, length, logits + w * length * width));
    }
    TRY(describe_logits(path, "logits", 3, (const int64_t[]){windows.count, length, width}, &view));
    view.data = logits;
    TRY(safetensors_write_file(path, false, 1, &view));
out:
    forward_end(&f);
    measured_close(&n);
    memory_free(logits);
    token_windows_fini(&windows);
    return status;
}

static grail_status find_pixels(const tensor_file *file, const char *path, int64_t channels,
                                const tensor_view **out)
{
    const tensor_view *pixels = tensor_file_find(file, "pixels");
    if (pixels == NULL || pixels->dtype != GRAIL_DTYPE_F32 || pixels->rank != 4 ||
        pixels->shape[3] != channels) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "%s: expected a tensor 'pixels' of type F32 and shape [images, height, width, "
            "%lld]",
            path, (long long)channels);
    }
    *out = pixels;
    return GRAIL_OK;
}

/* Runs the entire network on all images at once. */
static grail_status run_all(const grail_model *model, execution *e, parameter_store *store,
                            const tensor_view *pixels)
{
    grail_status status = GRAIL_OK;
    const batch_shape shape = {
        .samples = pixels->shape[0],
        .positions = {.height = pixels->shape[1], .width = pixels->shape[2]}};
    float *aligned = NULL; /* a mapped tensor may lie anywhere */
    TRY(memory_new_unset(&aligned, pixels->bytes, 1));
    memcpy(aligned, pixels->data, pixels->bytes);
    TRY(execution_begin(e, shape, (batch_input){.pixels = aligned}));
    TRY(execution_run(e, store, 0, model->graph->node_count));
out:
    memory_free(aligned);
    return status;
}

/* [samples, channels], or [samples, height, width, channels] of a map. */
static grail_status describe_output(const execution *e, const graph_output *o, const char *path,
                                    tensor_view *out)
{
    const matrix y = execution_value(e, o->value);
    const extent *x = &e->extents[o->value];
    const int64_t shape[] = {e->shape.samples, x->height, x->width, y.columns};
    const int64_t flat[] = {y.rows, y.columns};
    const bool is_map = x->height * x->width > 1;
    return describe_logits(path, e->graph->output_count == 1 ? "logits" : o->name, is_map ? 4 : 2,
                           is_map ? shape : flat, out);
}

/* Every output of a network that has run. */
static grail_status store_outputs(const execution *e, const char *path)
{
    grail_status status = GRAIL_OK;
    const graph *g = e->graph;
    host_view *values = NULL;
    tensor_view *views = NULL;
    TRY(memory_new(&values, (size_t)g->output_count, sizeof values[0]));
    TRY(memory_new(&views, (size_t)g->output_count, sizeof views[0]));
    for (int i = 0; i < g->output_count; i++) {
        TRY(describe_output(e, &g->outputs[i], path, &views[i]));
        TRY(host_view_open(execution_value(e, g->outputs[i].value), GRAIL_DTYPE_F32, HOST_READS,
                           &values[i]));
        views[i].data = values[i].values;
    }
    TRY(safetensors_write_file(path, false, g->output_count, views));
out:
    for (int i = 0; values != NULL && i < g->output_count; i++) {
        host_view_drop(&values[i]);
    }
    memory_free(values);
    memory_free(views);
    return status;
}

grail_status grail_pixel_logits_write(const grail_model *model, const char *pixels_path,
                                      const grail_compute *compute, const char *path)
{
    grail_status status = GRAIL_OK;
    measured_network n = {0};
    tensor_file *file = NULL;
    const tensor_view *pixels = NULL;
    matrix_pool *pool = NULL;
    execution *e = NULL;
    TRY(name_check_ending(path, "a safetensors file", ".safetensors"));
    TRY(output_file_check_free(path));
    if (model->graph->input_kind != INPUT_IMAGES) {
        FAIL(GRAIL_ERROR_ARGUMENT, "'%s' reads text, not images", model->path);
    }
    TRY(measured_open(model, NULL, compute, &n));
    TRY(safetensors_open(pixels_path, &file));
    TRY(find_pixels(file, pixels_path, model->graph->channels, &pixels));
    TRY(matrix_pool_create(n.backend, &pool));
    TRY(execution_create(model->graph, n.backend, pool, &e));
    TRY(run_all(model, e, n.store, pixels));
    TRY(store_outputs(e, path));
out:
    execution_free(e);
    matrix_pool_free(pool);
    measured_close(&n); /* the memory of the pool is its backend's */
    tensor_file_close(file);
    return status;
}
