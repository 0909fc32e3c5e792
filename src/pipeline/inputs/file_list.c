#include "pipeline/inputs/file_list.h"

#include "arch/model_config.h"
#include "base/name_list.h"
#include "format/weights/checkpoint.h"

#include <string.h>
#include <sys/stat.h>

void file_list_fini(file_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        memory_free(list->files[i].name);
    }
    memory_free(list->files);
    memory_free(list->root);
    memory_free(list->opens);
    *list = (file_list){0};
}

static grail_status add_file(const char *name, const file_identity *identity, file_list *list)
{
    CHECK(memory_reserve(&list->files, list->count + 1, sizeof list->files[0]));
    CHECK(memory_copy_string(&list->files[list->count].name, name));
    list->files[list->count++].identity = *identity;
    return GRAIL_OK;
}

/* -- listing ----------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* The path names a file. */
static grail_status set_file(const char *path, file_list *list)
{
    CHECK(path_parent(&list->root, path));
    return memory_copy_string(&list->opens, base_name(path));
}

static grail_status list_directory(const char *below, bool goes_deeper, file_list *list);

/* Neither a file nor a directory: nothing reads it. */
static grail_status list_entry(const char *name, bool goes_deeper, file_list *list)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    struct stat info;
    file_identity identity = {0};
    TRY(path_join(&path, list->root, name));
    if (stat(path, &info) != 0) {
        TRY(error_from_errno("cannot inspect", path));
    }
    if (S_ISREG(info.st_mode)) {
        TRY(file_identify(path, &identity));
        TRY(add_file(name, &identity, list));
    } else if (S_ISDIR(info.st_mode) && goes_deeper) {
        TRY(list_directory(name, false, list));
    }
out:
    memory_free(path);
    return status;
}

static grail_status list_names(const name_list *names, const char *below, bool goes_deeper,
                               file_list *list)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    for (size_t i = 0; i < names->count; i++) {
        memory_free(name);
        name = NULL;
        TRY(below == NULL ? memory_copy_string(&name, names->names[i])
                          : path_join(&name, below, names->names[i]));
        TRY(list_entry(name, goes_deeper, list));
    }
out:
    memory_free(name);
    return status;
}

/* `below` NULL: the root. */
static grail_status list_directory(const char *below, bool goes_deeper, file_list *list)
{
    grail_status status = GRAIL_OK;
    name_list names = {0};
    char *path = NULL;
    if (below != NULL) {
        TRY(path_join(&path, list->root, below));
    }
    TRY(name_list_read(below == NULL ? list->root : path, NULL, &names));
    TRY(list_names(&names, below, goes_deeper, list));
out:
    memory_free(path);
    name_list_fini(&names);
    return status;
}

grail_status file_list_of_data(const char *path, file_list *out)
{
    file_identity identity = {0};
    *out = (file_list){0};
    if (file_is_directory(path)) {
        CHECK(memory_copy_string(&out->root, path));
        return list_directory(NULL, true, out);
    }
    CHECK(set_file(path, out));
    CHECK(file_identify(path, &identity));
    return add_file(out->opens, &identity, out);
}

/* What readers of models look for beside weights. */
static bool is_beside_weights(const char *name)
{
    return model_config_is_beside(name) || name_is_of_kind(name, ".hashes");
}

static grail_status list_beside(const char *directory, file_list *list)
{
    grail_status status = GRAIL_OK;
    name_list names = {0};
    TRY(name_list_read(directory, is_beside_weights, &names));
    TRY(list_names(&names, NULL, false, list));
out:
    name_list_fini(&names);
    return status;
}

grail_status file_list_of_model(const char *path, file_list *out)
{
    grail_status status = GRAIL_OK;
    checkpoint *weights = NULL;
    char *directory = NULL;
    *out = (file_list){0};
    TRY(checkpoint_open(path, &weights));
    TRY(model_config_directory(path, &directory));
    TRY(file_is_directory(path) ? memory_copy_string(&out->root, path) : set_file(path, out));
    for (int f = 0; f < checkpoint_file_count(weights); f++) {
        const file_identity identity = checkpoint_file_identity(weights, f);
        TRY(add_file(checkpoint_file_name(weights, f), &identity, out));
    }
    if (directory != NULL) {
        TRY(list_beside(directory, out));
    }
out:
    memory_free(directory);
    checkpoint_close(weights);
    return status;
}

/* -- comparing --------------------------------------------------------------------------------- */

/* Machines number devices differently. */
static bool is_same(const file_identity *a, const file_identity *b)
{
    return a->inode == b->inode && a->size == b->size && a->seconds == b->seconds &&
           a->nanoseconds == b->nanoseconds;
}

static grail_status is_file_seen(const char *root, const listed_file *file, bool *out)
{
    char *path = NULL;
    file_identity found = {0};
    CHECK(path_join(&path, root, file->name));
    *out = file_exists(path) && file_identify(path, &found) == GRAIL_OK &&
           is_same(&found, &file->identity);
    memory_free(path);
    return GRAIL_OK;
}

grail_status file_list_is_seen(const file_list *list, const char *path, bool *out)
{
    grail_status status = GRAIL_OK;
    char *root = NULL;
    *out =
        list->opens == NULL ? file_is_directory(path) : strcmp(list->opens, base_name(path)) == 0;
    TRY(list->opens == NULL ? memory_copy_string(&root, path) : path_parent(&root, path));
    for (size_t i = 0; i < list->count && *out; i++) {
        TRY(is_file_seen(root, &list->files[i], out));
    }
out:
    memory_free(root);
    return status;
}

/* -- telling ----------------------------------------------------------------------------------- */

static grail_status write_name(const char *name, buffer *out)
{
    return buffer_append(out, name, strlen(name) + 1);
}

grail_status file_list_write(const file_list *list, buffer *out)
{
    const uint64_t count = list->count;
    CHECK(write_name(list->opens == NULL ? "" : list->opens, out));
    CHECK(buffer_append(out, &count, sizeof count));
    for (size_t i = 0; i < list->count; i++) {
        const file_identity *identity = &list->files[i].identity;
        CHECK(buffer_append(out, identity, sizeof *identity));
        CHECK(write_name(list->files[i].name, out));
    }
    return GRAIL_OK;
}

static grail_status damaged(void)
{
    return error_set(GRAIL_ERROR_FORMAT, "the list of files that rank 0 tells is damaged");
}

static grail_status read_bytes(const buffer *in, size_t *at, void *bytes, size_t size)
{
    if (in->size - *at < size) {
        return damaged();
    }
    memcpy(bytes, in->bytes + *at, size);
    *at += size;
    return GRAIL_OK;
}

/* *out is borrowed. */
static grail_status read_name(const buffer *in, size_t *at, const char **out)
{
    const char *name = (const char *)in->bytes + *at;
    const size_t length = strnlen(name, in->size - *at);
    if (length == in->size - *at) {
        return damaged();
    }
    *out = name;
    *at += length + 1;
    return GRAIL_OK;
}

/* Each part of a name is that of something in the directory before it. */
static bool lies_below(const char *name)
{
    bool fits = true;
    for (const char *part = name; part != NULL && fits;) {
        const size_t length = strcspn(part, "/");
        fits = length > strspn(part, ".") || length > 2;
        part = part[length] == 0 ? NULL : part + length + 1;
    }
    return fits;
}

static grail_status read_file(const buffer *in, size_t *at, file_list *list)
{
    file_identity identity = {0};
    const char *name = NULL;
    CHECK(read_bytes(in, at, &identity, sizeof identity));
    CHECK(read_name(in, at, &name));
    if (identity.size < 0 || !lies_below(name)) {
        return damaged();
    }
    return add_file(name, &identity, list);
}

grail_status file_list_read(const buffer *in, size_t *at, file_list *out)
{
    const char *opens = NULL;
    uint64_t count = 0;
    *out = (file_list){0};
    CHECK(read_name(in, at, &opens));
    CHECK(read_bytes(in, at, &count, sizeof count));
    if (opens[0] != 0) {
        CHECK(memory_copy_string(&out->opens, opens));
    }
    for (uint64_t i = 0; i < count; i++) {
        CHECK(read_file(in, at, out));
    }
    return out->opens == NULL || lies_below(out->opens) ? GRAIL_OK : damaged();
}
