#include "unit/arch/onnx_lab.h"

#include <stdio.h>

grail_status open_onnx_graph(const char *directory, const buffer *body, int64_t opset,
                             const grail_model_options *options, grail_model **out)
{
    char path[512];
    OWNED(buffer) model;
    grail_model *opened = NULL;
    buffer_init(&model, 1 << 16);
    put_model(&model, body, opset, NO_MORE);
    snprintf(path, sizeof path, "%s/net.onnx", directory);
    support_write_file(directory, "net.onnx", (const char *)model.bytes, model.size);
    const grail_status status = grail_model_open_with(path, options, out == NULL ? &opened : out);
    grail_model_close(opened);
    if (out == NULL) {
        remove(path);
    }
    return status;
}
