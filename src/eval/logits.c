/* Logits of complete windows, written for comparison with another implementation. */
#include "eval/logits.h"
#include "base/name_list.h"
#include "exec/compute.h"

#include "arch/model_text.h"
#include "eval/forward.h"
#include "format/weights/safetensors.h"

#include <grail/eval.h>

#include <string.h>

static grail_status collect_window(forward_pass *f, int64_t window, int64_t width, float *out)
{
    for (int64_t from = 0; from < f->windows->length; from += FORWARD_ROWS) {
        const int64_t left = f->windows->length - from;
        const int64_t rows = left < FORWARD_ROWS ? left : FORWARD_ROWS;
        matrix logits = {0};
        CHECK(forward_logits(f, window, from, rows, &logits));
        CHECK(matrix_download_f32(logits, out + from * width));
    }
    return GRAIL_OK;
}

grail_status logits_store(const char *path, int rank, const int64_t shape[], const float *values)
{
    tensor_view view = {.name = "logits", .dtype = GRAIL_DTYPE_F32, .rank = rank, .data = values};
    int64_t elements = 0;
    if (!shape_elements(rank, shape, &elements) ||
        !dtype_bytes(view.dtype, elements, &view.bytes)) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: cannot store this many logits in one file",
                         path);
    }
    memcpy(view.shape, shape, (size_t)rank * sizeof shape[0]);
    return safetensors_write_file(path, false, 1, &view);
}

grail_status grail_logits_write(const grail_model *model, const grail_text_source *source,
                                const grail_compute *compute, const char *path)
{
    grail_status status = GRAIL_OK;
    backend *b = NULL;
    token_windows windows = {0};
    parameter_store *store = NULL;
    forward_pass f = {0};
    float *logits = NULL;
    char hash[65];
    int64_t width = 0;
    TRY(name_check_ending(path, "a safetensors file", ".safetensors"));
    TRY(graph_output_width(model->graph, &width));
    TRY(compute_open(compute, model, &b));
    TRY(model_read_windows(model, source, &windows, hash));
    if (windows.starts != NULL) {
        FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT,
                   "%s: each window of an encoder is a document, and these have different lengths; "
                   "give token ids in a .npy file, whose rows have one length",
                   source->path);
    }
    TRY(parameter_store_create(model, b, NULL, &store));
    TRY(memory_new_unset(&logits, (size_t)(windows.count * windows.length * width),
                         sizeof logits[0]));
    TRY(forward_begin(&f, model, store, &windows, 0, windows.count));
    for (int64_t w = 0; w < windows.count; w++) {
        TRY(collect_window(&f, w, width, logits + w * windows.length * width));
    }
    TRY(logits_store(path, 3, (const int64_t[]){windows.count, windows.length, width}, logits));
out:
    forward_end(&f);
    parameter_store_free(store);
    backend_close(b);
    memory_free(logits);
    token_windows_fini(&windows);
    return status;
}
