/* Weights in torch files of the zip format, under the key that the file which was read has. */
#include "format/torch/torch_file.h"
#include "format/weights/checkpoint_locate.h"
#include "format/weights/weights_format.h"

#include <string.h>

/* "a.pt" -> "a.pth" */
static grail_status with_usual_ending(const char *name, char **out)
{
    const char *dot = strrchr(name, '.');
    const size_t length = dot == NULL ? strlen(name) : (size_t)(dot - name);
    return memory_format(out, "%.*s.pth", (int)length, name);
}

static grail_status file_name(const checkpoint *like, int file, bool same_format, char **out)
{
    const char *name = checkpoint_file_name(like, file);
    if (!same_format) {
        return with_usual_ending(checkpoint_is_sharded(like) ? CHECKPOINT_SINGLE_NAME : name, out);
    }
    return checkpoint_is_torch_name(name) ? memory_copy_string(out, name)
                                          : with_usual_ending(name, out);
}

static grail_status open_writer(const char *path, const checkpoint *like, int file,
                                const written_form *form, int64_t count,
                                const tensor_view tensors[], layout_start start,
                                tensor_writer **out)
{
    (void)form;
    return torch_writer_open(path, checkpoint_wrapper(like, file), count, tensors, start, out);
}

const weights_format weights_format_torch = {
    .name = "torch", .file_name = file_name, .open = open_writer};
