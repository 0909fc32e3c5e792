/* Logits of images that are given as pixels. */
#include "base/name_list.h"
#include "eval/logits.h"
#include "exec/compute.h"
#include "exec/execution.h"
#include "format/weights/safetensors.h"

#include <grail/eval.h>

#include <string.h>

static grail_status find_pixels(const tensor_file *file, const char *path, const tensor_view **out)
{
    const tensor_view *pixels = tensor_file_find(file, "pixels");
    if (pixels == NULL || pixels->dtype != GRAIL_DTYPE_F32 || pixels->rank != 4 ||
        pixels->shape[3] != IMAGE_CHANNELS) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "%s: expected a tensor 'pixels' of type F32 and shape [images, height, width, %d]",
            path, IMAGE_CHANNELS);
    }
    *out = pixels;
    return GRAIL_OK;
}

static grail_status check_model(const grail_model *model)
{
    return model->graph->input_kind == INPUT_IMAGES
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT, "'%s' reads text, not images", model->path);
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

static grail_status store_outputs(const execution *e, const char *path)
{
    grail_status status = GRAIL_OK;
    const matrix y = execution_value(e, e->graph->output);
    const int64_t shape[] = {y.rows, y.columns};
    host_view v = {0};
    TRY(host_view_open(y, GRAIL_DTYPE_F32, HOST_READS, &v));
    TRY(logits_store(path, 2, shape, v.values));
out:
    host_view_drop(&v);
    return status;
}

grail_status grail_pixel_logits_write(const grail_model *model, const char *pixels_path,
                                      const grail_compute *compute, const char *path)
{
    grail_status status = GRAIL_OK;
    backend *b = NULL;
    tensor_file *file = NULL;
    const tensor_view *pixels = NULL;
    matrix_pool *pool = NULL;
    parameter_store *store = NULL;
    execution *e = NULL;
    TRY(name_check_ending(path, "a safetensors file", ".safetensors"));
    TRY(check_model(model));
    TRY(compute_open(compute, model, &b));
    TRY(safetensors_open(pixels_path, &file));
    TRY(find_pixels(file, pixels_path, &pixels));
    TRY(matrix_pool_create(b, &pool));
    TRY(parameter_store_create(model, b, NULL, &store));
    TRY(execution_create(model->graph, b, pool, &e));
    TRY(run_all(model, e, store, pixels));
    TRY(store_outputs(e, path));
out:
    execution_free(e);
    parameter_store_free(store);
    matrix_pool_free(pool);
    backend_close(b);
    tensor_file_close(file);
    return status;
}
