#include "memory_lab.h"

#include "base/name_list.h"

#include <dirent.h>
#include <string.h>

/* -- handing over ------------------------------------------------------------------------------ */

static void add_documents(memory_lab *m, const char *directory)
{
    struct dirent *entry = NULL;
    DIR *list = opendir(directory);
    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        char path[LAB_PATH];
        buffer bytes = {0};
        if (!name_ends_with(entry->d_name, ".json")) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        assert_ok(file_read(path, 1 << 24, &bytes));
        const grail_document document = {
            .name = entry->d_name, .bytes = bytes.bytes, .size = (int64_t)bytes.size};
        assert_ok(memory_documents_add(&m->documents, &document));
        buffer_fini(&bytes);
    }
    closedir(list);
}

void memory_lab_open(memory_lab *m, const char *directory)
{
    *m = (memory_lab){0};
    assert_ok(checkpoint_open(directory, &m->files));
    assert_ok(checkpoint_load(m->files));
    m->count = checkpoint_count(m->files);
    assert_ok(memory_new(&m->tensors, (size_t)m->count, sizeof m->tensors[0]));
    for (int64_t i = 0; i < m->count; i++) {
        const tensor_view *view = checkpoint_at(m->files, i);
        m->tensors[i] = (grail_tensor){.name = view->name,
                                       .dtype = view->dtype,
                                       .rank = view->rank,
                                       .shape = view->shape,
                                       .data = view->data};
    }
    add_documents(m, directory);
    m->memory = (grail_memory_model){.tensors = m->tensors,
                                     .tensor_count = m->count,
                                     .documents = m->documents.items,
                                     .document_count = m->documents.count};
}

void memory_lab_close(memory_lab *m)
{
    memory_documents_fini(&m->documents);
    memory_free(m->tensors);
    checkpoint_close(m->files);
}

static grail_status load(void *user, int64_t tensor, void *bytes, int64_t size)
{
    memory_lab *m = user;
    const tensor_view *view = checkpoint_at(m->files, tensor);
    m->calls++;
    if (m->calls == m->fails_at) {
        return m->answer;
    }
    assert_int_equal(size, view->bytes);
    memcpy(bytes, view->data, view->bytes);
    return GRAIL_OK;
}

void memory_lab_load(memory_lab *m)
{
    for (int64_t i = 0; i < m->count; i++) {
        m->tensors[i].data = NULL;
    }
    m->memory.load = load;
    m->memory.user = m;
}

grail_status memory_lab_run(const memory_lab *m, grail_compress_options options,
                            grail_session **session, grail_compression **out)
{
    *session = NULL;
    *out = NULL;
    CHECK(grail_session_open_memory(&m->memory, options.read.reading, session));
    options.read.model = NULL;
    options.read.session = *session;
    CHECK(grail_compression_open(&options, out));
    CHECK(grail_compression_run(*out));
    return options.output.path == NULL ? GRAIL_OK : grail_compression_finish(*out);
}

/* -- comparing --------------------------------------------------------------------------------- */

static void assert_tensor_is(const grail_memory_model *result, int64_t i, const tensor_view *view)
{
    void *bytes = NULL;
    const grail_tensor *t = &result->tensors[i];
    assert_non_null(view);
    assert_null(t->data);
    assert_int_equal(t->dtype, view->dtype);
    assert_int_equal(t->rank, view->rank);
    assert_memory_equal(t->shape, view->shape, (size_t)t->rank * sizeof t->shape[0]);
    assert_ok(memory_new_unset(&bytes, view->bytes, 1));
    assert_ok(result->load(result->user, i, bytes, (int64_t)view->bytes));
    if (view->bytes > 0 && memcmp(bytes, view->data, view->bytes) != 0) {
        fail_msg("tensor '%s' differs", t->name);
    }
    memory_free(bytes);
}

/* The tensors of the file as they lie there, since a checkpoint would join some. */
static void assert_tensors_are(const grail_memory_model *result, const char *directory)
{
    char path[LAB_PATH];
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    OPENED(tensor_file, file, safetensors_open(path, &file));
    assert_int_equal(result->tensor_count, file->count);
    for (int64_t i = 0; i < result->tensor_count; i++) {
        assert_tensor_is(result, i, tensor_file_find(file, result->tensors[i].name));
    }
}

/* Takes out what differs between two runs that write the same: times, and what the model is called.
 */
static void forget(json_t *value)
{
    static const char *const keys[] = {"seconds", "solve_seconds", "model", "kept_activations"};
    const char *key = NULL;
    json_t *inner = NULL;
    size_t i = 0;
    for (size_t k = 0; json_is_object(value) && k < sizeof keys / sizeof keys[0]; k++) {
        (void)json_object_del(value, keys[k]);
    }
    json_object_foreach (value, key, inner) {
        forget(inner);
    }
    json_array_foreach (value, i, inner) {
        forget(inner);
    }
}

static void assert_same_report(const grail_document *d, const buffer *file)
{
    json_t *both[2] = {NULL, NULL};
    assert_ok(json_parse("document", d->bytes, (size_t)d->size, &both[0]));
    assert_ok(json_parse("file", file->bytes, file->size, &both[1]));
    forget(both[0]);
    forget(both[1]);
    assert_true(json_equal(both[0], both[1]));
    json_decref(both[0]);
    json_decref(both[1]);
}

static void assert_document_is(const grail_memory_model *result, const char *directory,
                               const char *name)
{
    char path[LAB_PATH];
    buffer file = {0};
    const memory_documents all = {.items = (grail_document *)(uintptr_t)result->documents,
                                  .count = result->document_count};
    const grail_document *d = memory_documents_find(&all, name);
    if (d == NULL) {
        fail_msg("document '%s' is missing", name);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(file_read(path, 1 << 24, &file));
    assert_int_equal(((const char *)d->bytes)[d->size], 0);
    if (strcmp(name, "report.json") == 0) {
        assert_same_report(d, &file);
    } else if (strcmp(name, "README.md") != 0) { /* which names the model */
        assert_int_equal(d->size, file.size);
        assert_memory_equal(d->bytes, file.bytes, file.size);
    }
    buffer_fini(&file);
}

void assert_result_is(const grail_memory_model *result, const char *directory)
{
    int count = 0;
    name_list names = {0};
    assert_ok(name_list_read(directory, NULL, &names));
    for (size_t i = 0; i < names.count; i++) {
        if (!name_ends_with(names.names[i], ".safetensors")) {
            assert_document_is(result, directory, names.names[i]);
            count++;
        }
    }
    assert_int_equal(result->document_count, count);
    name_list_fini(&names);
    assert_tensors_are(result, directory);
}

void assert_same_file(const lab *l, const char *left, const char *right)
{
    buffer both[2] = {{0}};
    assert_ok(file_read(lab_path(l, left), 1 << 26, &both[0]));
    assert_ok(file_read(lab_path(l, right), 1 << 26, &both[1]));
    assert_int_equal(both[0].size, both[1].size);
    assert_memory_equal(both[0].bytes, both[1].bytes, both[0].size);
    buffer_fini(&both[0]);
    buffer_fini(&both[1]);
}
