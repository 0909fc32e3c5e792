/* Opens torch checkpoints and returns their tensors. */
#include "format/torch/torch_internal.h"

#include <string.h>

/* The number that files of torch before 1.6 begin with, as a pickle. Source:
 * torch/serialization.py, MAGIC_NUMBER. */
static const unsigned char legacy_magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                             0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

/* Before that format torch wrote tar archives. */
static grail_status refuse_other(const void *bytes, size_t size)
{
    enum { TAR_MAGIC = 257 };
    if (size >= sizeof legacy_magic && memcmp(bytes, legacy_magic, sizeof legacy_magic) == 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is in the format of torch before 1.6, which is not read" TORCH_REMEDY);
    }
    if (size > TAR_MAGIC + 5 && memcmp((const char *)bytes + TAR_MAGIC, "ustar", 5) == 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is a tar archive, the format of torch before 0.1.10; load it and save it "
                         "again with a newer torch");
    }
    return error_set(GRAIL_ERROR_FORMAT, "is not a torch checkpoint");
}

static grail_status read_file(torch_file *file)
{
    if (file->list->size < 4 || memcmp(file->list->bytes, "PK\x03\x04", 4) != 0) {
        return refuse_other(file->list->bytes, file->list->size);
    }
    CHECK(torch_read_zip(file));
    return torch_collect(file);
}

static void free_parts(void *parts)
{
    torch_file *file = parts;
    for (int64_t i = 0; i < file->owned_count; i++) {
        memory_free(file->owned[i]);
    }
    memory_free(file->owned);
    memory_free(file->pending);
    name_index_fini(&file->storage_index);
    memory_free(file->storages);
    pickle_close(file->object);
    zip_reader_close(file->zip);
    memory_free(file);
}

static grail_status read_tensors(tensor_file *list)
{
    torch_file *file = NULL;
    CHECK(memory_new(&file, 1, sizeof *file));
    file->list = list;
    list->parts = file;
    list->free_parts = free_parts;
    list->load = torch_load;
    return read_file(file);
}

grail_status torch_file_open_bytes(const char *name, const void *bytes, size_t size,
                                   tensor_file **out)
{
    return tensor_file_open_bytes(name, bytes, size, read_tensors, out);
}

grail_status torch_file_open(const char *path, tensor_file **out)
{
    return tensor_file_open(path, read_tensors, out);
}
