/* Writing a checkpoint with the files and names of another. All files are laid out at once, so a
 * disk that is too small shows before any work is done; the index is written last of these. */
#include "format/checkpoint.h"

#include "base/file.h"
#include "base/json.h"

#include <string.h>
#include <unistd.h>

typedef struct written_file {
    char *path;
    bool created; /* by this writer, rather than continued */
    safetensors_writer *tensors;
} written_file;

struct checkpoint_writer {
    const checkpoint *like; /* borrowed: where each name goes */
    written_file *files;    /* in the order of the files of `like` */
    int file_count;
};

static grail_status check_names(const checkpoint *like, const tensor_view shapes[])
{
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        const char *expected = checkpoint_at(like, i)->name;
        if (strcmp(shapes[i].name, expected) != 0) {
            return error_set(GRAIL_ERROR_ARGUMENT, "shape %lld is for tensor '%s', not '%s'",
                             (long long)i, expected, shapes[i].name);
        }
    }
    return GRAIL_OK;
}

/* The tensors of one file, in the order of `like`. */
static grail_status select_shapes(const checkpoint *like, int file, const tensor_view shapes[],
                                  tensor_view **out, int64_t *out_count)
{
    tensor_view *selected = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        count += checkpoint_file_of(like, i) == file ? 1 : 0;
    }
    const grail_status status = memory_new(&selected, (size_t)count, sizeof *selected);
    if (status != GRAIL_OK) {
        return status;
    }
    int64_t next = 0;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        if (checkpoint_file_of(like, i) == file) {
            selected[next++] = shapes[i];
        }
    }
    *out = selected;
    *out_count = count;
    return GRAIL_OK;
}

static grail_status open_one(checkpoint_writer *writer, const char *directory, int file,
                             const tensor_view shapes[], bool resume)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    tensor_view *selected = NULL;
    int64_t count = 0;
    TRY(path_join(&path, directory, checkpoint_file_name(writer->like, file)));
    TRY(select_shapes(writer->like, file, shapes, &selected, &count));
    const bool existed = file_exists(path);
    TRY(safetensors_writer_open(path, count, selected, resume, &writer->files[file].tensors));
    writer->files[file].created = !existed;
    writer->files[file].path = path;
    path = NULL;
out:
    memory_free(path);
    memory_free(selected);
    return status;
}

static grail_status total_size(const checkpoint *like, const tensor_view shapes[], int64_t *out)
{
    int64_t total = 0;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        int64_t elements = 0;
        size_t bytes = 0;
        if (!shape_elements(shapes[i].rank, shapes[i].shape, &elements) ||
            !dtype_bytes(shapes[i].dtype, elements, &bytes) ||
            __builtin_add_overflow(total, bytes, &total)) {
            return error_set(GRAIL_ERROR_ARGUMENT, "the tensors take more than 2^63 bytes");
        }
    }
    *out = total;
    return GRAIL_OK;
}

/* {"metadata": {"total_size": bytes of all tensors}, "weight_map": {tensor: file}} */
static grail_status write_index(const checkpoint *like, const char *directory,
                                const tensor_view shapes[])
{
    grail_status status = GRAIL_OK;
    int64_t total = 0;
    char *path = NULL;
    json_t *document = json_object();
    json_t *metadata = json_object();
    json_t *map = json_object();
    TRY(total_size(like, shapes, &total));
    TRY(json_put(document, "metadata", json_incref(metadata)));
    TRY(json_put(metadata, "total_size", json_integer(total)));
    TRY(json_put(document, "weight_map", json_incref(map)));
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        const char *file = checkpoint_file_name(like, checkpoint_file_of(like, i));
        TRY(json_put(map, checkpoint_at(like, i)->name, json_string(file)));
    }
    TRY(path_join(&path, directory, CHECKPOINT_INDEX_NAME));
    TRY(json_write_file(path, document));
out:
    json_decref(document);
    json_decref(metadata);
    json_decref(map);
    memory_free(path);
    return status;
}

static void remove_created(const checkpoint_writer *writer)
{
    for (int f = 0; f < writer->file_count; f++) {
        if (writer->files[f].created) {
            unlink(writer->files[f].path);
        }
    }
}

grail_status checkpoint_writer_open(const char *directory, const checkpoint *like,
                                    const tensor_view shapes[], bool resume,
                                    checkpoint_writer **out)
{
    grail_status status = GRAIL_OK;
    checkpoint_writer *writer = NULL;
    TRY(check_names(like, shapes));
    TRY(memory_new(&writer, 1, sizeof *writer));
    writer->like = like;
    TRY(memory_new(&writer->files, (size_t)checkpoint_file_count(like), sizeof *writer->files));
    writer->file_count = checkpoint_file_count(like);
    for (int f = 0; f < writer->file_count; f++) {
        TRY(open_one(writer, directory, f, shapes, resume));
    }
    if (checkpoint_is_sharded(like)) {
        TRY(write_index(like, directory, shapes));
    }
    *out = writer;
    writer = NULL;
out:
    if (writer != NULL) {
        remove_created(writer);
    }
    checkpoint_writer_close(writer);
    return status;
}

grail_status checkpoint_writer_put(checkpoint_writer *writer, const char *name, const void *data,
                                   size_t bytes)
{
    const int64_t i = checkpoint_index_of(writer->like, name);
    if (i < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the checkpoint has no tensor '%s' to write", name);
    }
    const int file = checkpoint_file_of(writer->like, i);
    return safetensors_writer_put(writer->files[file].tensors, name, data, bytes);
}

grail_status checkpoint_writer_sync(checkpoint_writer *writer)
{
    grail_status status = GRAIL_OK;
    for (int f = 0; f < writer->file_count && status == GRAIL_OK; f++) {
        status = safetensors_writer_sync(writer->files[f].tensors);
    }
    return status;
}

void checkpoint_writer_close(checkpoint_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (int f = 0; f < writer->file_count; f++) {
        safetensors_writer_close(writer->files[f].tensors);
        memory_free(writer->files[f].path);
    }
    memory_free(writer->files);
    memory_free(writer);
}
