/* Weights in safetensors files. */
#include "format/weights/safetensors.h"
#include "format/weights/weights_format.h"

static grail_status file_name(const checkpoint *like, int file, bool same_format, char **out)
{
    return memory_copy_string(out, same_format ? checkpoint_file_name(like, file)
                                               : CHECKPOINT_SINGLE_NAME);
}

static grail_status open_writer(const char *path, const checkpoint *like, int file, int64_t count,
                                const tensor_view tensors[], layout_start start, void **out)
{
    (void)like;
    (void)file;
    safetensors_writer *writer = NULL;
    const grail_status status = safetensors_writer_open(path, count, tensors, start, &writer);
    *out = writer;
    return status;
}

static grail_status put(void *writer, const char *name, const void *data, size_t bytes)
{
    return safetensors_writer_put(writer, name, data, bytes);
}

static grail_status get(const void *writer, const char *name, void *data, size_t bytes)
{
    return safetensors_writer_get(writer, name, data, bytes);
}

static grail_status flush(const void *writer)
{
    return safetensors_writer_flush(writer);
}

static grail_status seal(const void *writer)
{
    return safetensors_writer_seal(writer);
}

static void close_writer(void *writer)
{
    safetensors_writer_close(writer);
}

const weights_format weights_format_safetensors = {.name = "safetensors",
                                                   .file_name = file_name,
                                                   .open = open_writer,
                                                   .put = put,
                                                   .get = get,
                                                   .flush = flush,
                                                   .seal = seal,
                                                   .close = close_writer};
