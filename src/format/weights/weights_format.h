/* A format that weights are written in: how its files are called, laid out and filled. */
#ifndef GRAIL_FORMAT_WEIGHTS_WEIGHTS_FORMAT_H
#define GRAIL_FORMAT_WEIGHTS_WEIGHTS_FORMAT_H

#include "format/weights/checkpoint.h"

/** All functions are required. A writer is what `open` makes; `close` frees it. */
struct weights_format {
    const char *name;
    /** Base name, owned, of what is written for file `file` of `like`. If `like` is in another
     * format, all its tensors are written to one file, that for its file 0. */
    grail_status (*file_name)(const checkpoint *like, int file, bool same_format, char **out);
    /** Lays out `count` tensors (name, dtype, rank, shape are read; data is ignored) at `path`, for
     * file `file` of `like`. No reader opens the file until it is sealed. */
    grail_status (*open)(const char *path, const checkpoint *like, int file, int64_t count,
                         const tensor_view tensors[], layout_start start, void **out);
    /** Writes the complete tensor `name`, once; `bytes` must equal its size. */
    grail_status (*put)(void *writer, const char *name, const void *data, size_t bytes);
    /** Reads the complete tensor `name` back, as this writer or an earlier one wrote it. */
    grail_status (*get)(const void *writer, const char *name, void *data, size_t bytes);
    /** Flushes everything to disk. */
    grail_status (*flush)(const void *writer);
    /** Seals the file, so that readers open it. All tensors must have been put. */
    grail_status (*seal)(const void *writer);
    void (*close)(void *writer); /* NULL is allowed */
};

#define WEIGHTS_FORMAT(name) extern const weights_format weights_format_##name;
#include "format/weights/weights_format_list.h"
#undef WEIGHTS_FORMAT

#endif
