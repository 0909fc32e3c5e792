/* Opens torch checkpoints of both formats and returns their tensors. */
#include "format/torch/torch_internal.h"

#include <string.h>

static bool is_zip(const void *bytes, size_t size)
{
    return size >= 4 && memcmp(bytes, "PK\x03\x04", 4) == 0;
}

/* Before the legacy format, torch wrote tar archives. */
static grail_status refuse_other(const void *bytes, size_t size)
{
    enum { TAR_MAGIC = 257 };
    if (size > TAR_MAGIC + 5 && memcmp((const char *)bytes + TAR_MAGIC, "ustar", 5) == 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "is a tar archive, the format of torch before 0.1.10; load it and save it "
                         "again with a newer torch");
    }
    return error_set(GRAIL_ERROR_FORMAT, "is not a torch checkpoint");
}

static grail_status read_file(torch_file *file)
{
    if (is_zip(file->bytes, file->size)) {
        CHECK(torch_read_zip(file));
    } else if (torch_is_legacy(file->bytes, file->size)) {
        CHECK(torch_read_legacy(file));
    } else {
        CHECK(refuse_other(file->bytes, file->size));
    }
    return torch_collect(file);
}

grail_status torch_file_open_bytes(const char *name, const void *bytes, size_t size,
                                   torch_file **out)
{
    grail_status status = GRAIL_OK;
    torch_file *file = NULL;
    TRY(memory_new(&file, 1, sizeof *file));
    file->bytes = bytes;
    file->size = size;
    TRY(error_in(read_file(file), "%s", name));
    *out = file;
    file = NULL;
out:
    torch_file_close(file);
    return status;
}

static grail_status open_map(const char *path, const file_map *map, void *out)
{
    torch_file **file = out;
    CHECK(torch_file_open_bytes(path, map->data, map->size, file));
    (*file)->map = *map;
    return GRAIL_OK;
}

grail_status torch_file_open(const char *path, torch_file **out)
{
    return file_map_for(path, open_map, out);
}

static void free_texts(char *texts[], int64_t count)
{
    for (int64_t i = 0; texts != NULL && i < count; i++) {
        memory_free(texts[i]);
    }
    memory_free(texts);
}

void torch_file_close(torch_file *file)
{
    if (file == NULL) {
        return;
    }
    free_texts(file->keys, file->storage_count);
    free_texts(file->names, file->count);
    for (int64_t i = 0; i < file->owned_count; i++) {
        memory_free(file->owned[i]);
    }
    memory_free(file->owned);
    memory_free(file->pending);
    name_index_fini(&file->storage_index);
    memory_free(file->storages);
    memory_free(file->tensors);
    pickle_close(file->object);
    zip_reader_close(file->zip);
    file_map_close(&file->map);
    memory_free(file);
}

file_identity torch_file_identity(const torch_file *file)
{
    return file->map.identity;
}

int64_t torch_file_count(const torch_file *file)
{
    return file->count;
}

const tensor_view *torch_file_at(const torch_file *file, int64_t i)
{
    return i >= 0 && i < file->count ? &file->tensors[i] : NULL;
}

/* Releases only mapped data: a copy would have to be made again. */
void torch_file_release(const torch_file *file, const tensor_view *tensor)
{
    const uintptr_t begin = (uintptr_t)file->bytes;
    const uintptr_t at = (uintptr_t)tensor->data;
    if (at >= begin && at - begin <= file->size && tensor->bytes <= file->size - (at - begin)) {
        file_map_release(&file->map, at - begin, tensor->bytes);
    }
}

const char *torch_file_wrapper(const torch_file *file)
{
    return file->wrapper;
}

bool torch_file_is_script(const torch_file *file)
{
    return file->is_script;
}
