/* Writes torch checkpoints in the zip format: archive/data.pkl, byteorder and version, then a
 * storage for every tensor. */
#include "format/torch/torch_file.h"

#include "base/checksum.h"
#include "base/file.h"
#include "format/tensor_slots.h"
#include "format/torch/torch_internal.h"
#include "format/torch/torch_pickle.h"
#include "format/torch/zip_layout.h"

#include <string.h>

struct torch_writer {
    tensor_slots slots; /* in the order given: tensor i is storage i */
    zip_layout zip;
    file_layout layout;
    int64_t first; /* index of the first tensor's member */
};

static grail_status declare(torch_writer *writer, const char *path, int64_t count,
                            const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    TRY(tensor_slots_declare(&writer->slots, path, count, tensors));
    for (int64_t i = 0; i < count; i++) {
        if (torch_dtype_for(tensors[i].dtype) == NULL) {
            FAIL(GRAIL_ERROR_UNSUPPORTED,
                 "tensor '%s': torch has no dtype for %s; write safetensors", tensors[i].name,
                 grail_dtype_name(tensors[i].dtype));
        }
    }
    TRY(tensor_slots_index(&writer->slots));
out:
    return status;
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

static grail_status lay_out(torch_writer *writer, const char *wrapper, const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    buffer object = {0};
    buffer_init(&object, TORCH_LARGEST_PICKLE);
    zip_layout *layout = &writer->zip;
    zip_layout_init(layout);
    TRY(torch_pickle_append(wrapper, writer->slots.count, tensors, &object));
    TRY(zip_layout_add(layout, "archive/data.pkl", object.bytes, object.size));
    TRY(add_text(layout, "archive/byteorder", "little"));
    TRY(add_text(layout, "archive/version", "3\n"));
    writer->first = layout->count;
    for (int64_t i = 0; i < writer->slots.count; i++) {
        TRY(add_storage(layout, i, writer->slots.items[i].bytes));
    }
    TRY(zip_layout_finish(layout));
out:
    buffer_fini(&object);
    return status;
}

static grail_status open_file(torch_writer *writer, layout_start start)
{
    writer->layout = (file_layout){
        .bytes = writer->zip.bytes.bytes,
        .pieces = writer->zip.pieces,
        .piece_count = writer->zip.piece_count,
        .seal = writer->zip.seal,
        .file_size = writer->zip.file_size,
    };
    return tensor_slots_open(&writer->slots, &writer->layout, start);
}

grail_status torch_writer_open(const char *path, const char *wrapper, int64_t count,
                               const tensor_view tensors[], layout_start start, torch_writer **out)
{
    grail_status status = GRAIL_OK;
    torch_writer *writer = NULL;
    TRY(memory_new(&writer, 1, sizeof *writer));
    status = declare(writer, path, count, tensors);
    if (status == GRAIL_OK) {
        status = lay_out(writer, wrapper, tensors);
    }
    if (status != GRAIL_OK) {
        error_prefix("%s", path);
        goto out;
    }
    TRY(open_file(writer, start));
    *out = writer;
    writer = NULL;
out:
    torch_writer_close(writer);
    return status;
}

/* Writes the bytes, then their checksum at both places. A run that is interrupted in between writes
 * the tensor again when it is resumed. */
static grail_status write_member(const torch_writer *writer, const zip_place *place,
                                 const void *data)
{
    grail_status status = GRAIL_OK;
    const uint32_t crc = checksum_crc32(data, place->size);
    const unsigned char bytes[] = {(unsigned char)crc, (unsigned char)(crc >> 8),
                                   (unsigned char)(crc >> 16), (unsigned char)(crc >> 24)};
    const int file = writer->slots.descriptor;
    const char *path = writer->slots.path;
    TRY(file_write_at(file, path, data, place->size, place->data));
    TRY(file_write_at(file, path, bytes, sizeof bytes, place->header_crc));
    TRY(file_write_at(file, path, bytes, sizeof bytes, place->directory_crc));
out:
    return status;
}

grail_status torch_writer_put(torch_writer *writer, const char *name, const void *data,
                              size_t bytes)
{
    int64_t i = 0;
    grail_status status = tensor_slots_find_unwritten(&writer->slots, name, bytes, &i);
    if (status == GRAIL_OK) {
        status = write_member(writer, &writer->zip.members[writer->first + i], data);
        writer->slots.items[i].written = status == GRAIL_OK;
    }
    return status;
}

grail_status torch_writer_get(const torch_writer *writer, const char *name, void *data,
                              size_t bytes)
{
    int64_t i = 0;
    const tensor_slots *slots = &writer->slots;
    const grail_status status = tensor_slots_find(slots, name, bytes, &i);
    return status == GRAIL_OK ? file_read_at(slots->descriptor, slots->path, data, bytes,
                                             writer->zip.members[writer->first + i].data)
                              : status;
}

grail_status torch_writer_flush(const torch_writer *writer)
{
    return tensor_slots_flush(&writer->slots);
}

grail_status torch_writer_seal(const torch_writer *writer)
{
    return tensor_slots_seal(&writer->slots);
}

void torch_writer_close(torch_writer *writer)
{
    if (writer != NULL) {
        tensor_slots_fini(&writer->slots);
        zip_layout_fini(&writer->zip);
        memory_free(writer);
    }
}
