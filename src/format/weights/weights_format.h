/* A format that weights are written in: how its files are called and laid out. */
#ifndef GRAIL_FORMAT_WEIGHTS_WEIGHTS_FORMAT_H
#define GRAIL_FORMAT_WEIGHTS_WEIGHTS_FORMAT_H

#include "format/tensor_writer.h"
#include "format/weights/checkpoint.h"

/** All functions are required. */
struct weights_format {
    const char *name;
    /** Base name, owned, of what is written for file `file` of `like`. If `like` is in another
     * format, all its tensors are written to one file, that for its file 0. */
    grail_status (*file_name)(const checkpoint *like, int file, bool same_format, char **out);
    /** Opens a writer that lays out `count` tensors (name, dtype, rank, shape are read; data is
     * ignored) at `path`, for file `file` of `like`. `form` has what a
     * format holds beside tensors; NULL there is what `like` has. No reader opens the file until it
     * is sealed. */
    grail_status (*open)(const char *path, const checkpoint *like, int file,
                         const written_form *form, int64_t count, const tensor_view tensors[],
                         layout_start start, tensor_writer **out);
};

#define WEIGHTS_FORMAT(name) extern const weights_format weights_format_##name;
#include "format/weights/weights_format_list.h"
#undef WEIGHTS_FORMAT

#endif
