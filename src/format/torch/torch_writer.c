/* Writes torch checkpoints in the zip format: archive/data.pkl, byteorder and version, then a
 * storage for every tensor. */
#include "format/torch/torch_file.h"

#include "format/torch/torch_internal.h"
#include "format/torch/torch_pickle.h"
#include "format/torch/zip_layout.h"

#include <string.h>

static grail_status declare(tensor_writer *writer, int64_t count, const tensor_view tensors[])
{
    CHECK(tensor_writer_declare(writer, count, tensors));
    for (int64_t i = 0; i < count; i++) {
        if (torch_dtype_for(tensors[i].dtype) == NULL) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "tensor '%s': torch has no dtype for %s; write safetensors",
                             tensors[i].name, grail_dtype_name(tensors[i].dtype));
        }
    }
    return tensor_writer_index(writer);
}

static grail_status add_text(zip_layout *layout, const char *name, const char *text)
{
    return zip_layout_add(layout, name, text, strlen(text));
}

static grail_status add_storage(zip_layout *layout, int64_t key, size_t bytes)
{
    char *name = NULL;
    grail_status status = memory_format(&name, "archive/data/%lld", (long long)key);
    if (status == GRAIL_OK) {
        status = zip_layout_add(layout, name, NULL, bytes);
    }
    memory_free(name);
    return status;
}

static grail_status add_members(zip_layout *zip, const tensor_writer *writer, const char *wrapper,
                                const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    buffer object = {0};
    buffer_init(&object, TORCH_LARGEST_PICKLE);
    TRY(torch_pickle_append(wrapper, writer->count, tensors, &object));
    TRY(zip_layout_add(zip, "archive/data.pkl", object.bytes, object.size));
    TRY(add_text(zip, "archive/byteorder", "little"));
    TRY(add_text(zip, "archive/version", "3\n"));
    for (int64_t i = 0; i < writer->count; i++) {
        TRY(add_storage(zip, i, writer->items[i].bytes));
    }
    TRY(zip_layout_finish(zip));
out:
    buffer_fini(&object);
    return status;
}

/* Tensor i is storage i, and the last members are the storages. */
static void take_layout(zip_layout *zip, tensor_writer *writer)
{
    for (int64_t i = 0; i < writer->count; i++) {
        const zip_place *place = &zip->members[zip->count - writer->count + i];
        tensor_slot *slot = &writer->items[i];
        slot->place = place->data;
        slot->checksums[0] = place->header_crc;
        slot->checksums[1] = place->directory_crc;
    }
    writer->layout = (file_layout){
        .bytes = zip->bytes.bytes,
        .pieces = zip->pieces,
        .piece_count = zip->piece_count,
        .seal = zip->seal,
        .file_size = zip->file_size,
    };
    writer->bytes = zip->bytes;
    writer->pieces = zip->pieces;
    zip->bytes = (buffer){0};
    zip->pieces = NULL;
}

static grail_status lay_out(tensor_writer *writer, const void *wrapper, int64_t count,
                            const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    zip_layout zip;
    zip_layout_init(&zip);
    TRY(declare(writer, count, tensors));
    TRY(add_members(&zip, writer, wrapper, tensors));
    take_layout(&zip, writer);
out:
    zip_layout_fini(&zip);
    return status;
}

grail_status torch_writer_open(const char *path, const char *wrapper, int64_t count,
                               const tensor_view tensors[], layout_start start, tensor_writer **out)
{
    return tensor_writer_open(path, lay_out, wrapper, count, tensors, start, out);
}
