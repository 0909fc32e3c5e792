/* Weights in ONNX files: in the model that they were read from. */
#include "format/onnx/onnx_weights.h"
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
    const onnx_file *model = checkpoint_onnx(like);
    (void)file;
    if (model == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: weights of another format have no nodes to be written with as ONNX",
                         checkpoint_path(like));
    }
    return onnx_weights_writer_open(path, model, checkpoint_onnx_copies(like), form->keeps_values,
                                    form->integers, count, tensors, start, out);
}

const weights_format weights_format_onnx = {
    .name = "onnx", .file_name = file_name, .open = open_writer};
