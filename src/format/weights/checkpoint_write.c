/* Writing a checkpoint with the names of another. All files are laid out at once, so a disk that is
 * too small shows before any work is done; the index is written last of these. */
#include "format/weights/checkpoint.h"

#include "base/file.h"
#include "base/json.h"
#include "format/torch/torch_file.h"
#include "format/weights/checkpoint_locate.h"

#include <string.h>
#include <unistd.h>

/* Either writer is NULL. */
typedef struct written_file {
    char *path;
    bool created; /* by this writer, rather than continued */
    safetensors_writer *tensors;
    torch_writer *torch;
} written_file;

struct checkpoint_writer {
    const checkpoint *like; /* borrowed: where each name goes */
    checkpoint_kind kind;
    written_file *files; /* in the order of the files of `like`, or one */
    int file_count;
};

/* What becomes of the files of `like`. */
static checkpoint_kind resolve_kind(const checkpoint *like, checkpoint_kind kind)
{
    return kind == CHECKPOINT_LIKE ? checkpoint_kind_of(like) : kind;
}

static bool is_merged(const checkpoint *like, checkpoint_kind kind)
{
    return resolve_kind(like, kind) != checkpoint_kind_of(like);
}

static int written_count(const checkpoint *like, checkpoint_kind kind)
{
    return is_merged(like, kind) ? 1 : checkpoint_file_count(like);
}

/* The file in which tensor i is written. */
static int written_place(const checkpoint *like, checkpoint_kind kind, int64_t i)
{
    return is_merged(like, kind) ? 0 : checkpoint_file_of(like, i);
}

/* "a.pt" -> "a.pth" */
static grail_status torch_name(const char *name, char **out)
{
    const char *dot = strrchr(name, '.');
    const size_t length = dot == NULL ? strlen(name) : (size_t)(dot - name);
    return memory_format(out, "%.*s.pth", (int)length, name);
}

/* Base name of a file to write. */
static grail_status written_name(const checkpoint *like, checkpoint_kind kind, int file, char **out)
{
    const char *name = checkpoint_file_name(like, file);
    if (!is_merged(like, kind)) {
        const bool keeps = resolve_kind(like, kind) == CHECKPOINT_SAFETENSORS ||
                           (checkpoint_is_torch_name(name) && !checkpoint_is_script(like, file));
        return keeps ? memory_copy_string(out, name) : torch_name(name, out);
    }
    if (resolve_kind(like, kind) == CHECKPOINT_SAFETENSORS) {
        return memory_copy_string(out, CHECKPOINT_SINGLE_NAME);
    }
    return torch_name(checkpoint_is_sharded(like) ? CHECKPOINT_SINGLE_NAME : name, out);
}

static grail_status written_path(const char *directory, const checkpoint *like,
                                 checkpoint_kind kind, int file, char **out)
{
    char *name = NULL;
    grail_status status = written_name(like, kind, file, &name);
    if (status == GRAIL_OK) {
        status = path_join(out, directory, name);
    }
    memory_free(name);
    return status;
}

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
static grail_status select_shapes(const checkpoint_writer *writer, int file,
                                  const tensor_view shapes[], tensor_view **out, int64_t *out_count)
{
    const checkpoint *like = writer->like;
    tensor_view *selected = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        count += written_place(like, writer->kind, i) == file ? 1 : 0;
    }
    const grail_status status = memory_new(&selected, (size_t)count, sizeof *selected);
    if (status != GRAIL_OK) {
        return status;
    }
    int64_t next = 0;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        if (written_place(like, writer->kind, i) == file) {
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
    written_file *written = &writer->files[file];
    TRY(written_path(directory, writer->like, writer->kind, file, &path));
    TRY(select_shapes(writer, file, shapes, &selected, &count));
    const bool existed = file_exists(path);
    if (resolve_kind(writer->like, writer->kind) == CHECKPOINT_SAFETENSORS) {
        TRY(safetensors_writer_open(path, count, selected, resume, &written->tensors));
    } else {
        TRY(torch_writer_open(path, checkpoint_wrapper(writer->like, file), count, selected, resume,
                              &written->torch));
    }
    written->created = !existed;
    written->path = path;
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
static grail_status write_index(const checkpoint_writer *writer, const char *directory,
                                const tensor_view shapes[])
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = writer->like;
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
        const char *file = writer->files[checkpoint_file_of(like, i)].path;
        TRY(json_put(map, checkpoint_at(like, i)->name, json_text(strrchr(file, '/') + 1)));
    }
    TRY(path_join(&path, directory, checkpoint_index_name(like)));
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
                                    checkpoint_kind kind, const tensor_view shapes[], bool resume,
                                    checkpoint_writer **out)
{
    grail_status status = GRAIL_OK;
    checkpoint_writer *writer = NULL;
    TRY(check_names(like, shapes));
    TRY(memory_new(&writer, 1, sizeof *writer));
    writer->like = like;
    writer->kind = kind;
    const int count = written_count(like, kind);
    TRY(memory_new(&writer->files, (size_t)count, sizeof *writer->files));
    writer->file_count = count;
    for (int f = 0; f < count; f++) {
        TRY(open_one(writer, directory, f, shapes, resume));
    }
    if (checkpoint_is_sharded(like) && !is_merged(like, kind)) {
        TRY(write_index(writer, directory, shapes));
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
    const char *stored = checkpoint_at(writer->like, i)->name;
    const written_file *file = &writer->files[written_place(writer->like, writer->kind, i)];
    return file->torch != NULL ? torch_writer_put(file->torch, stored, data, bytes)
                               : safetensors_writer_put(file->tensors, stored, data, bytes);
}

grail_status checkpoint_writer_sync(checkpoint_writer *writer)
{
    grail_status status = GRAIL_OK;
    for (int f = 0; f < writer->file_count && status == GRAIL_OK; f++) {
        const written_file *file = &writer->files[f];
        status = file->torch != NULL ? torch_writer_sync(file->torch)
                                     : safetensors_writer_sync(file->tensors);
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
        torch_writer_close(writer->files[f].torch);
        memory_free(writer->files[f].path);
    }
    memory_free(writer->files);
    memory_free(writer);
}

static void remove_with_temporary(const char *path)
{
    char *temporary = NULL;
    if (memory_format(&temporary, "%s.tmp", path) == GRAIL_OK) {
        unlink(temporary);
    }
    memory_free(temporary);
    unlink(path);
}

void checkpoint_remove_written(const char *directory, const checkpoint *like, checkpoint_kind kind)
{
    char *path = NULL;
    for (int f = 0; f < written_count(like, kind); f++) {
        if (written_path(directory, like, kind, f, &path) == GRAIL_OK) {
            remove_with_temporary(path);
        }
        memory_free(path);
        path = NULL;
    }
    if (checkpoint_is_sharded(like) && !is_merged(like, kind) &&
        path_join(&path, directory, checkpoint_index_name(like)) == GRAIL_OK) {
        remove_with_temporary(path);
    }
    memory_free(path);
}
