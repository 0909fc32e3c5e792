/* Writes a checkpoint with the tensors of another. All files are laid out at once, so a disk
 * that is too small shows before any work is done. */
#include "format/weights/checkpoint.h"

#include "base/file.h"
#include "base/json.h"
#include "format/weights/packed_groups.h"
#include "format/weights/weights_format.h"
#include "format/weights/written_parts.h"
#include "tensor/groups.h"

#include <string.h>

struct checkpoint_writer {
    const checkpoint *like; /* borrowed; says which file has which tensor */
    written_form form;      /* its format counts to the end, the rest while it opens */
    tensor_writer **files;  /* in the order of the files of `like`, or one */
    int file_count;
    tensor_view *shapes; /* [tensors of `like`], with the names that are written, which are owned;
                            NULL: left out */
};

static const weights_format *resolve(const checkpoint *like, const weights_format *format)
{
    return format == NULL ? checkpoint_format(like) : format;
}

/* GGUF files whose types are chosen anew are other files, even where the source is one. */
static bool is_same_format(const checkpoint *like, const weights_format *format)
{
    return format == NULL ||
           (format == checkpoint_format(like) && checkpoint_metadata(like) == NULL);
}

/* All files of a checkpoint in another format become one. */
static int written_count(const checkpoint *like, const weights_format *format)
{
    return is_same_format(like, format) ? checkpoint_file_count(like) : 1;
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

/* The tensors of one file, in the order of `like`. */
typedef struct file_tensors {
    tensor_view *shapes; /* [count], owned */
    char **names;        /* [count], owned where they are no tensor's of `like` */
    size_t count;
} file_tensors;

static grail_status add_parts(written_parts *parts, file_tensors *t)
{
    const size_t all = t->count + (size_t)parts->count;
    CHECK(memory_reserve(&t->shapes, all, sizeof t->shapes[0]));
    CHECK(memory_reserve(&t->names, all, sizeof t->names[0]));
    for (int k = 0; k < parts->count; k++) {
        t->shapes[t->count] = parts->of[k];
        t->names[t->count++] = parts->names[k];
        parts->names[k] = NULL;
    }
    return GRAIL_OK;
}

static grail_status select_shapes(const checkpoint_writer *writer, int file, file_tensors *t)
{
    for (int64_t k = 0; k < checkpoint_count(writer->like); k++) {
        const int64_t i = writer->form.order == NULL ? k : writer->form.order[k];
        written_parts parts = {0};
        grail_status status = GRAIL_OK;
        if (writer->shapes[i].name != NULL &&
            written_place(writer->like, writer->form.format, i) == file) {
            status = written_parts_find(writer->like, i, &writer->shapes[i], &parts);
            status = status == GRAIL_OK ? add_parts(&parts, t) : status;
            written_parts_fini(&parts);
        }
        CHECK(status);
    }
    written_parts table = {.count = 1};
    if (writer->form.table == NULL) {
        return GRAIL_OK;
    }
    table.of[0] = *writer->form.table;
    return add_parts(&table, t);
}

static grail_status open_one(checkpoint_writer *writer, const char *directory, int file,
                             layout_start start)
{
    grail_status status = GRAIL_OK;
    file_tensors t = {0};
    char *name = NULL;
    char *path = NULL;
    TRY(written_name(writer->like, writer->form.format, file, &name));
    TRY(path_join(&path, directory, name));
    TRY(select_shapes(writer, file, &t));
    TRY(resolve(writer->like, writer->form.format)
            ->open(path, writer->like, file, &writer->form, (int64_t)t.count, t.shapes, start,
                   &writer->files[file]));
    if (writer->form.table != NULL) {
        TRY(tensor_writer_put(writer->files[file], writer->form.table->name,
                              writer->form.table->data, writer->form.table->bytes));
    }
out:
    memory_free(path);
    memory_free(name);
    for (size_t i = 0; i < t.count; i++) {
        memory_free(t.names[i]);
    }
    memory_free(t.names);
    memory_free(t.shapes);
    return status;
}

grail_status checkpoint_written_index(const checkpoint *like, const tensor_view shapes[],
                                      json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *document = json_object();
    json_t *metadata = json_object();
    json_t *map = json_object();
    written_parts parts = {0};
    char *name = NULL;
    int64_t total = 0;
    TRY(json_put(document, "metadata", json_incref(metadata)));
    TRY(json_put(document, "weight_map", json_incref(map)));
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        if (shapes[i].name == NULL) {
            continue;
        }
        written_parts_fini(&parts);
        memory_free(name);
        name = NULL;
        TRY(written_parts_find(like, i, &shapes[i], &parts));
        TRY(written_name(like, NULL, checkpoint_file_of(like, i), &name));
        for (int k = 0; k < parts.count; k++) {
            const tensor_view *part = &parts.of[k];
            size_t bytes = 0;
            TRY(json_put(map, part->name, json_text(name)));
            if (!shape_bytes(part->dtype, part->rank, part->shape, &bytes) ||
                __builtin_add_overflow(total, bytes, &total)) {
                FAIL(GRAIL_ERROR_ARGUMENT, "the tensors take more than 2^63 bytes");
            }
        }
    }
    TRY(json_put(metadata, "total_size", json_integer((json_int_t)total)));
    *out = json_incref(document);
out:
    written_parts_fini(&parts);
    memory_free(name);
    json_decref(map);
    json_decref(metadata);
    json_decref(document);
    return status;
}

grail_status checkpoint_writer_open(const char *directory, const checkpoint *like,
                                    const written_form *form, const tensor_view shapes[],
                                    layout_start start, checkpoint_writer **out)
{
    grail_status status = GRAIL_OK;
    checkpoint_writer *writer = NULL;
    TRY(memory_new(&writer, 1, sizeof *writer));
    writer->like = like;
    writer->form = form == NULL ? (written_form){0} : *form;
    TRY(memory_new(&writer->shapes, (size_t)checkpoint_count(like), sizeof writer->shapes[0]));
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        char *name = NULL;
        TRY(shapes[i].name == NULL ? GRAIL_OK : memory_copy_string(&name, shapes[i].name));
        writer->shapes[i] = shapes[i];
        writer->shapes[i].name = name;
    }
    const int count = written_count(like, writer->form.format);
    TRY(memory_new(&writer->files, (size_t)count, sizeof *writer->files));
    writer->file_count = count;
    for (int f = 0; f < count; f++) {
        TRY(open_one(writer, directory, f, start));
    }
    *out = writer;
    writer = NULL;
out:
    checkpoint_writer_close(writer);
    return status;
}

static grail_status find_tensor(const checkpoint_writer *writer, const char *name, size_t bytes,
                                int64_t *index, tensor_writer **file)
{
    const int64_t i = checkpoint_index_of(writer->like, name);
    size_t wanted = 0;
    if (i < 0 || writer->shapes[i].name == NULL) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the checkpoint has no tensor '%s' to write", name);
    }
    const tensor_view *shape = &writer->shapes[i];
    if (group_bits(shape->dtype) != 0 &&
        (!shape_bytes(shape->dtype, shape->rank, shape->shape, &wanted) || wanted != bytes)) {
        return error_set(GRAIL_ERROR_SHAPE, "tensor '%s' takes other than the %zu bytes given",
                         shape->name, bytes);
    }
    *index = i;
    *file = writer->files[written_place(writer->like, writer->form.format, i)];
    return GRAIL_OK;
}

grail_status checkpoint_writer_put(checkpoint_writer *writer, const char *name, const void *data,
                                   size_t bytes)
{
    grail_status status = GRAIL_OK;
    tensor_writer *file = NULL;
    int64_t i = 0;
    written_parts parts = {0};
    void *split[PACKED_PARTS] = {NULL};
    CHECK(find_tensor(writer, name, bytes, &i, &file));
    const tensor_view *shape = &writer->shapes[i];
    if (group_bits(shape->dtype) == 0) {
        return tensor_writer_put(file, shape->name, data, bytes);
    }
    TRY(written_parts_find(writer->like, i, shape, &parts));
    TRY(written_parts_split(&parts, shape, data, split));
    for (int k = 0; k < parts.count; k++) {
        TRY(tensor_writer_put(file, parts.of[k].name, split[k], parts.of[k].bytes));
    }
out:
    written_parts_free(split);
    written_parts_fini(&parts);
    return status;
}

grail_status checkpoint_writer_get(const checkpoint_writer *writer, const char *name, void *data,
                                   size_t bytes)
{
    grail_status status = GRAIL_OK;
    tensor_writer *file = NULL;
    int64_t i = 0;
    written_parts parts = {0};
    void *split[PACKED_PARTS] = {NULL};
    CHECK(find_tensor(writer, name, bytes, &i, &file));
    const tensor_view *shape = &writer->shapes[i];
    if (group_bits(shape->dtype) == 0) {
        return tensor_writer_get(file, shape->name, data, bytes);
    }
    TRY(written_parts_find(writer->like, i, shape, &parts));
    TRY(written_parts_new(&parts, split));
    for (int k = 0; k < parts.count; k++) {
        TRY(tensor_writer_get(file, parts.of[k].name, split[k], parts.of[k].bytes));
        parts.of[k].data = split[k];
    }
    packed_groups_join(parts.of, shape, data);
out:
    written_parts_free(split);
    written_parts_fini(&parts);
    return status;
}

grail_status checkpoint_writer_flush(const checkpoint_writer *writer)
{
    for (int f = 0; f < writer->file_count; f++) {
        CHECK(tensor_writer_flush(writer->files[f]));
    }
    return GRAIL_OK;
}

grail_status checkpoint_writer_seal(const checkpoint_writer *writer)
{
    for (int f = 0; f < writer->file_count; f++) {
        CHECK(tensor_writer_seal(writer->files[f]));
    }
    return GRAIL_OK;
}

void checkpoint_writer_close(checkpoint_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (int f = 0; f < writer->file_count; f++) {
        tensor_writer_close(writer->files[f]);
    }
    for (int64_t i = 0; writer->shapes != NULL && i < checkpoint_count(writer->like); i++) {
        memory_free((char *)(uintptr_t)writer->shapes[i].name);
    }
    memory_free(writer->shapes);
    memory_free(writer->files);
    memory_free(writer);
}

int checkpoint_written_count(const checkpoint *like, const weights_format *format)
{
    const bool has_index = checkpoint_is_sharded(like) && is_same_format(like, format);
    return written_count(like, format) + (has_index ? 1 : 0);
}

grail_status checkpoint_written_name(const checkpoint *like, const weights_format *format, int file,
                                     char **out)
{
    return file < written_count(like, format)
               ? written_name(like, format, file, out)
               : memory_copy_string(out, checkpoint_index_name(like));
}
