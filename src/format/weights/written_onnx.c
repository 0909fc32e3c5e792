/* Weights in ONNX files: in the model that they were read from. */
#include "format/onnx/onnx_weights.h"
#include "format/weights/checkpoint_internal.h"
#include "format/weights/weights_format.h"

static grail_status file_name(const checkpoint *like, int file, bool same_format, char **out)
{
    return memory_copy_string(out, same_format ? checkpoint_file_name(like, file) : "model.onnx");
}

static grail_status open_writer(const char *path, const checkpoint *like, int file,
                                const written_form *form, int64_t count,
                                const tensor_view tensors[], layout_start start,
                                tensor_writer **out)
{
    (void)file;
    if (checkpoint_onnx(like) == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: weights of another format have no nodes to be written with as ONNX",
                         checkpoint_path(like));
    }
    const tensor_file *folded = like->files[0].tensors;
    const tensor_file *source = form->keeps_values ? onnx_weights_source(folded) : folded;
    return onnx_weights_writer_open(path, onnx_weights_model(source), onnx_weights_copies(source),
                                    form->keeps_values, source == folded ? form->integers : NULL,
                                    count, tensors, start, out);
}

const weights_format weights_format_onnx = {
    .name = "onnx", .file_name = file_name, .open = open_writer};
