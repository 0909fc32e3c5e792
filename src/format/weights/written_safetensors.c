/* Weights in safetensors files. */
#include "format/weights/safetensors.h"
#include "format/weights/weights_format.h"

static grail_status file_name(const checkpoint *like, int file, bool same_format, char **out)
{
    return memory_copy_string(out, same_format ? checkpoint_file_name(like, file)
                                               : CHECKPOINT_SINGLE_NAME);
}

static grail_status open_writer(const char *path, const checkpoint *like, int file,
                                const written_form *form, int64_t count,
                                const tensor_view tensors[], layout_start start,
                                tensor_writer **out)
{
    (void)form;
    (void)like;
    (void)file;
    return safetensors_writer_open(path, count, tensors, start, out);
}

const weights_format weights_format_safetensors = {
    .name = "safetensors", .file_name = file_name, .open = open_writer};
