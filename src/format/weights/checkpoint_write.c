/* Writes a checkpoint with the tensors of another. All files are laid out at once, so a disk
 * that is too small shows before any work is done. */
#include "format/weights/checkpoint.h"

#include "base/file.h"
#include "base/json.h"
#include "format/weights/weights_format.h"

#include <string.h>

typedef struct written_file {
    char *path;
    tensor_writer *writer; /* NULL until it is open */
} written_file;

struct checkpoint_writer {
    const checkpoint *like;       /* borrowed; says which file has which tensor */
    const weights_format *format; /* never NULL */
    const gguf_pairs *pairs;      /* borrowed while it opens */
    written_file *files;          /* in the order of the files of `like`, or one */
    int file_count;
    char **names; /* [tensors of `like`]: the names that are written; NULL: left out */
};

static const weights_format *resolve(const checkpoint *like, const weights_format *format)
{
    return format == NULL ? checkpoint_format(like) : format;
}

static bool is_same_format(const checkpoint *like, const weights_format *format)
{
    return resolve(like, format) == checkpoint_format(like);
}

/* All files of a checkpoint in another format become one. */
static int written_count(const checkpoint *like, const weights_format *format)
{
    return is_same_format(like, format) ? checkpoint_file_count(like) : 1;
}

static bool has_index(const checkpoint *like, const weights_format *format)
{
    return checkpoint_is_sharded(like) && is_same_format(like, format);
}

/* The file in which tensor i is written. */
static int written_place(const checkpoint *like, const weights_format *format, int64_t i)
{
    return is_same_format(like, format) ? checkpoint_file_of(like, i) : 0;
}

/* Base name of a file to write. */
static grail_status written_name(const checkpoint *like, const weights_format *format, int file,
                                 char **out)
{
    return resolve(like, format)->file_name(like, file, is_same_format(like, format), out);
}

static grail_status written_path(const char *directory, const checkpoint *like,
                                 const weights_format *format, int file, char **out)
{
    char *name = NULL;
    grail_status status = written_name(like, format, file, &name);
    if (status == GRAIL_OK) {
        status = path_join(out, directory, name);
    }
    memory_free(name);
    return status;
}

static grail_status copy_names(const tensor_view shapes[], checkpoint_writer *writer)
{
    const int64_t count = checkpoint_count(writer->like);
    CHECK(memory_new(&writer->names, (size_t)count, sizeof(char *)));
    for (int64_t i = 0; i < count; i++) {
        if (shapes[i].name != NULL) {
            CHECK(memory_copy_string(&writer->names[i], shapes[i].name));
        }
    }
    return GRAIL_OK;
}

static bool is_in_file(const checkpoint_writer *writer, int64_t i, int file)
{
    return writer->names[i] != NULL && written_place(writer->like, writer->format, i) == file;
}

/* The tensors of one file, in the order of `like`. */
static grail_status select_shapes(const checkpoint_writer *writer, int file,
                                  const tensor_view shapes[], tensor_view **out, int64_t *out_count)
{
    const checkpoint *like = writer->like;
    tensor_view *selected = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        count += is_in_file(writer, i, file) ? 1 : 0;
    }
    CHECK(memory_new(&selected, (size_t)count, sizeof *selected));
    int64_t next = 0;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        if (is_in_file(writer, i, file)) {
            selected[next++] = shapes[i];
        }
    }
    *out = selected;
    *out_count = count;
    return GRAIL_OK;
}

static grail_status open_one(checkpoint_writer *writer, const char *directory, int file,
                             const tensor_view shapes[], layout_start start)
{
    grail_status status = GRAIL_OK;
    tensor_view *selected = NULL;
    int64_t count = 0;
    written_file *written = &writer->files[file];
    TRY(written_path(directory, writer->like, writer->format, file, &written->path));
    TRY(select_shapes(writer, file, shapes, &selected, &count));
    TRY(writer->format->open(written->path, writer->like, file, writer->pairs, count, selected,
                             start, &written->writer));
out:
    memory_free(selected);
    return status;
}

static grail_status total_size(const checkpoint *like, const tensor_view shapes[], int64_t *out)
{
    int64_t total = 0;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        int64_t elements = 0;
        size_t bytes = 0;
        if (shapes[i].name == NULL) {
            continue;
        }
        if (!shape_elements(shapes[i].rank, shapes[i].shape, &elements) ||
            !dtype_bytes(shapes[i].dtype, elements, &bytes) ||
            __builtin_add_overflow(total, bytes, &total)) {
            return error_set(GRAIL_ERROR_ARGUMENT, "the tensors take more than 2^63 bytes");
        }
    }
    *out = total;
    return GRAIL_OK;
}

static grail_status fill_index(const checkpoint *like, const tensor_view shapes[], json_t *document)
{
    int64_t total = 0;
    CHECK(total_size(like, shapes, &total));
    CHECK(json_put(document, "metadata", json_pack("{s:I}", "total_size", (json_int_t)total)));
    json_t *map = json_object();
    CHECK(json_put(document, "weight_map", map));
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        char *name = NULL;
        if (shapes[i].name != NULL) {
            CHECK(written_name(like, NULL, checkpoint_file_of(like, i), &name));
            const grail_status status = json_put(map, shapes[i].name, json_text(name));
            memory_free(name);
            CHECK(status);
        }
    }
    return GRAIL_OK;
}

grail_status checkpoint_written_index(const checkpoint *like, const tensor_view shapes[],
                                      json_t **out)
{
    json_t *document = json_object();
    const grail_status status = fill_index(like, shapes, document);
    if (status != GRAIL_OK) {
        json_decref(document);
        return status;
    }
    *out = document;
    return GRAIL_OK;
}

grail_status checkpoint_writer_open(const char *directory, const checkpoint *like,
                                    const weights_format *format, const gguf_pairs *pairs,
                                    const tensor_view shapes[], layout_start start,
                                    checkpoint_writer **out)
{
    grail_status status = GRAIL_OK;
    checkpoint_writer *writer = NULL;
    TRY(memory_new(&writer, 1, sizeof *writer));
    writer->like = like;
    writer->format = resolve(like, format);
    writer->pairs = pairs;
    TRY(copy_names(shapes, writer));
    const int count = written_count(like, format);
    TRY(memory_new(&writer->files, (size_t)count, sizeof *writer->files));
    writer->file_count = count;
    for (int f = 0; f < count; f++) {
        TRY(open_one(writer, directory, f, shapes, start));
    }
    *out = writer;
    writer = NULL;
out:
    checkpoint_writer_close(writer);
    return status;
}

static grail_status find_file(const checkpoint_writer *writer, const char *name,
                              const written_file **file, const char **stored)
{
    const int64_t i = checkpoint_index_of(writer->like, name);
    if (i < 0 || writer->names[i] == NULL) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the checkpoint has no tensor '%s' to write", name);
    }
    *stored = writer->names[i];
    *file = &writer->files[written_place(writer->like, writer->format, i)];
    return GRAIL_OK;
}

grail_status checkpoint_writer_put(checkpoint_writer *writer, const char *name, const void *data,
                                   size_t bytes)
{
    const written_file *file = NULL;
    const char *stored = NULL;
    CHECK(find_file(writer, name, &file, &stored));
    return tensor_writer_put(file->writer, stored, data, bytes);
}

grail_status checkpoint_writer_get(const checkpoint_writer *writer, const char *name, void *data,
                                   size_t bytes)
{
    const written_file *file = NULL;
    const char *stored = NULL;
    CHECK(find_file(writer, name, &file, &stored));
    return tensor_writer_get(file->writer, stored, data, bytes);
}

grail_status checkpoint_writer_flush(const checkpoint_writer *writer)
{
    for (int f = 0; f < writer->file_count; f++) {
        CHECK(tensor_writer_flush(writer->files[f].writer));
    }
    return GRAIL_OK;
}

grail_status checkpoint_writer_seal(const checkpoint_writer *writer)
{
    for (int f = 0; f < writer->file_count; f++) {
        CHECK(tensor_writer_seal(writer->files[f].writer));
    }
    return GRAIL_OK;
}

void checkpoint_writer_close(checkpoint_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (int f = 0; f < writer->file_count; f++) {
        tensor_writer_close(writer->files[f].writer);
        memory_free(writer->files[f].path);
    }
    for (int64_t i = 0; writer->names != NULL && i < checkpoint_count(writer->like); i++) {
        memory_free(writer->names[i]);
    }
    memory_free(writer->names);
    memory_free(writer->files);
    memory_free(writer);
}

int checkpoint_written_count(const checkpoint *like, const weights_format *format)
{
    return written_count(like, format) + (has_index(like, format) ? 1 : 0);
}

grail_status checkpoint_written_name(const checkpoint *like, const weights_format *format, int file,
                                     char **out)
{
    return file < written_count(like, format)
               ? written_name(like, format, file, out)
               : memory_copy_string(out, checkpoint_index_name(like));
}
