#include "format/weights/memory_file.h"

#include "base/option_values.h"
#include "base/utf8.h"

#include <string.h>

enum { MOST_DOCUMENTS = 10000 };

const char *memory_model_name(const grail_memory_model *memory)
{
    return memory->name == NULL ? "memory" : memory->name;
}

/* -- tensors that are given when they are needed ----------------------------------------------- */

typedef struct given_tensors {
    char *model; /* what messages call it; owned */
    grail_tensor_loader load;
    void *user;
    void **data; /* [count], owned; NULL where the data is the caller's, or not needed */
    int64_t count;
} given_tensors;

static void free_given(void *parts)
{
    given_tensors *g = parts;
    for (int64_t i = 0; g->data != NULL && i < g->count; i++) {
        memory_free(g->data[i]);
    }
    memory_free(g->data);
    memory_free(g->model);
    memory_free(g);
}

/* The text of the error that the function left, if it left one, comes behind ours. */
static grail_status need_given(const tensor_file *file, int64_t i)
{
    grail_status status = GRAIL_OK;
    given_tensors *g = file->parts;
    tensor_view *tensor = &file->tensors[i];
    void *data = NULL;
    char before[GRAIL_ERROR_TEXT_SIZE];
    char after[GRAIL_ERROR_TEXT_SIZE];
    if (tensor->data != NULL || tensor->bytes == 0) {
        return GRAIL_OK;
    }
    TRY(error_in(memory_new_unset(&data, tensor->bytes, 1), "%s: tensor '%s'", g->model,
                 tensor->name));
    error_copy(before, sizeof before);
    const grail_status returned = g->load(g->user, i, data, (int64_t)tensor->bytes);
    if (returned != GRAIL_OK) {
        const bool is_status = returned > GRAIL_OK && returned <= GRAIL_ERROR_INTERNAL;
        error_copy(after, sizeof after);
        status = error_set(is_status ? returned : GRAIL_ERROR_IO,
                           "%s: the function that gives tensors gave no '%s' and returned %d (%s)",
                           g->model, tensor->name, (int)returned,
                           is_status ? grail_status_text(returned) : "no status");
        if (strcmp(before, after) != 0) {
            error_append(": %s", after);
        }
        goto out;
    }
    g->data[i] = data;
    tensor->data = data;
    data = NULL;
out:
    memory_free(data);
    return status;
}

static void drop_given(const tensor_file *file, int64_t i)
{
    given_tensors *g = file->parts;
    if (g->data[i] != NULL) {
        memory_free(g->data[i]);
        g->data[i] = NULL;
        file->tensors[i].data = NULL;
    }
}

/* -- opening ----------------------------------------------------------------------------------- */

static grail_status read_tensor(const grail_tensor *t, bool is_given, tensor_view *view)
{
    char text[128];
    if ((int)t->dtype < 0 || t->dtype >= GRAIL_DTYPE_COUNT) {
        return error_set(GRAIL_ERROR_ARGUMENT, "has the dtype %d, which is no grail_dtype",
                         (int)t->dtype);
    }
    if (dtype_block(t->dtype) > 1) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "has dtype %s, whose blocks are those of GGUF files; open the file, or "
                         "give the values as F32, F16 or BF16",
                         grail_dtype_name(t->dtype));
    }
    if (t->rank < 0 || t->rank > TENSOR_MAX_RANK) {
        return error_set(GRAIL_ERROR_SHAPE, "has %d dimensions, expected 0 to %d", t->rank,
                         TENSOR_MAX_RANK);
    }
    if (t->shape == NULL && t->rank > 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "has %d dimensions, but no shape", t->rank);
    }
    view->dtype = t->dtype;
    CHECK(OPTION_ROOM_OF(grail_tensor, t));
    view->rank = t->rank;
    view->data = t->data;
    for (int d = 0; d < t->rank; d++) {
        view->shape[d] = t->shape[d];
    }
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] < 0) {
            return error_set(GRAIL_ERROR_SHAPE, "has the shape %s, expected numbers of 0 or more",
                             shape_text(view->rank, view->shape, text, sizeof text));
        }
    }
    CHECK(tensor_measure(view, GRAIL_ERROR_SHAPE));
    return t->data != NULL || view->bytes == 0 || is_given
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT,
                           "has no data, and the model has no load function that would give it");
}

/* The model stands in the place of a file's bytes. */
static grail_status read_tensors(tensor_file *file)
{
    const grail_memory_model *memory = (const void *)file->bytes;
    file->bytes = NULL;
    file->size = 0;
    if (memory->tensors == NULL || memory->tensor_count < 1) {
        return error_set(GRAIL_ERROR_ARGUMENT, "has no tensors");
    }
    for (int64_t i = 0; i < memory->tensor_count; i++) {
        tensor_view *view = NULL;
        const grail_tensor *t = &memory->tensors[i];
        if (t->name == NULL) {
            return error_set(GRAIL_ERROR_ARGUMENT, "tensor %lld has no name", (long long)i);
        }
        /* safetensors files, which results are written to, have names of UTF-8 */
        if (utf8_valid_prefix(t->name, strlen(t->name)) != strlen(t->name)) {
            return error_set(GRAIL_ERROR_ARGUMENT, "the name of tensor '%s' is not UTF-8", t->name);
        }
        CHECK(tensor_file_add(file, t->name, &view));
        CHECK(error_in(read_tensor(t, memory->load != NULL, view), "tensor '%s'", t->name));
    }
    return GRAIL_OK;
}

grail_status memory_file_open(const grail_memory_model *memory, tensor_file **out)
{
    grail_status status = GRAIL_OK;
    tensor_file *file = NULL;
    TRY(OPTION_ROOM_OF(grail_memory_model, memory));
    TRY(tensor_file_open_bytes(memory_model_name(memory), memory, sizeof *memory, read_tensors,
                               &file));
    if (memory->load != NULL) {
        given_tensors *g = NULL;
        TRY(memory_new(&g, 1, sizeof *g));
        file->parts = g;
        file->free_parts = free_given;
        g->load = memory->load;
        g->user = memory->user;
        TRY(memory_copy_string(&g->model, memory_model_name(memory)));
        TRY(memory_new(&g->data, (size_t)file->count, sizeof g->data[0]));
        g->count = file->count;
        file->need = need_given;
        file->drop = drop_given;
    }
    *out = file;
    file = NULL;
out:
    tensor_file_close(file);
    return status;
}

/* -- documents --------------------------------------------------------------------------------- */

grail_status memory_documents_add(memory_documents *documents, const grail_document *from)
{
    char *name = NULL;
    char *bytes = NULL;
    const size_t size = (size_t)from->size;
    CHECK(memory_reserve(&documents->items, (size_t)documents->count + 1,
                         sizeof documents->items[0]));
    grail_document *to = &documents->items[documents->count++];
    *to = (grail_document){.size = from->size};
    CHECK(memory_copy_string(&name, from->name));
    to->name = name;
    CHECK(memory_new_unset(&bytes, size + 1, 1));
    to->bytes = bytes;
    memcpy(bytes, size == 0 ? "" : from->bytes, size);
    bytes[size] = 0;
    return GRAIL_OK;
}

grail_status memory_documents_copy(const grail_memory_model *memory, memory_documents *out)
{
    const char *model = memory_model_name(memory);
    *out = (memory_documents){0};
    if (memory->document_count < 0 || memory->document_count > MOST_DOCUMENTS ||
        (memory->document_count > 0 && memory->documents == NULL)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "%s: has %d documents, expected 0 to %d that are given", model,
                         memory->document_count, MOST_DOCUMENTS);
    }
    for (int i = 0; i < memory->document_count; i++) {
        const grail_document *d = &memory->documents[i];
        if (d->name == NULL) {
            return error_set(GRAIL_ERROR_ARGUMENT, "%s: document %d has no name", model, i);
        }
        if (d->name[0] == 0 || d->name[0] == '.' || strchr(d->name, '/') != NULL) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "%s: the name of document '%s' is not that of a plain file", model,
                             d->name);
        }
        CHECK(error_in(OPTION_ROOM_OF(grail_document, d), "%s: document '%s'", model, d->name));
        if (d->size < 0 || (d->bytes == NULL && d->size > 0)) {
            return error_set(GRAIL_ERROR_ARGUMENT, "%s: document '%s' has %lld bytes%s", model,
                             d->name, (long long)d->size,
                             d->size < 0 ? "" : ", but none are given");
        }
        if (memory_documents_find(out, d->name) != NULL) {
            return error_set(GRAIL_ERROR_ARGUMENT, "%s: document '%s' occurs twice", model,
                             d->name);
        }
        CHECK(memory_documents_add(out, d));
    }
    return GRAIL_OK;
}

void memory_documents_fini(memory_documents *documents)
{
    for (int i = 0; i < documents->count; i++) {
        memory_free((char *)(uintptr_t)documents->items[i].name);
        memory_free((void *)(uintptr_t)documents->items[i].bytes);
    }
    memory_free(documents->items);
    *documents = (memory_documents){0};
}

const grail_document *memory_documents_find(const memory_documents *documents, const char *name)
{
    for (int i = 0; i < documents->count; i++) {
        if (strcmp(documents->items[i].name, name) == 0) {
            return &documents->items[i];
        }
    }
    return NULL;
}
