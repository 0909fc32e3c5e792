#include "pipeline/output/source_files.h"

#include "arch/model_config.h"
#include "arch/model_preparation.h"
#include "pipeline/output/module_folders.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A tokenizer with 250 thousand words and their merges has 33 MB. */
enum { LARGEST_COMPANION = 1 << 28 };

/* -- which files are companions ---------------------------------------------------------------- */

/* Companions are small files beside the weights. Weights in other formats are not copied, because
 * they would not be narrow. */
static bool is_companion_name(const char *name)
{
    static const char *const others[] = {MODEL_CONFIG_NAME, MODEL_GRAIL_NAME, "plan.json",
                                         "report.json", TIMM_WIDTHS_NAME};
    if (name[0] == '.' || strstr(name, ".index.json") != NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(name, others[i]) == 0) {
            return false;
        }
    }
    return model_config_is_beside(name);
}

static bool is_inside(const char *path, const char *directory)
{
    const size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && path[length] == '/';
}

/* Whether `directory` is .../snapshots/REVISION of a Hugging Face cache and `path` is in .../blobs,
 * to which the files of a snapshot link. */
static grail_status is_in_blobs(const char *path, const char *directory, bool *out)
{
    grail_status status = GRAIL_OK;
    char *snapshots = NULL;
    char *repository = NULL;
    char *blobs = NULL;
    *out = false;
    TRY(path_parent(&snapshots, directory));
    const char *slash = strrchr(snapshots, '/');
    if (slash == NULL || strcmp(slash, "/snapshots") != 0) {
        goto out;
    }
    TRY(path_parent(&repository, snapshots));
    TRY(path_join(&blobs, repository, "blobs"));
    *out = is_inside(path, blobs);
out:
    memory_free(snapshots);
    memory_free(repository);
    memory_free(blobs);
    return status;
}

/* Refuses links to files outside the model's directory. */
static grail_status check_place(const char *path, const char *directory)
{
    grail_status status = GRAIL_OK;
    bool allowed = false;
    char *place = realpath(directory, NULL);
    char *real = realpath(path, NULL);
    if (real == NULL && errno == ENOENT) {
        FAIL(GRAIL_ERROR_IO,
             "'%s' is a symbolic link to a file that does not exist; remove the link", path);
    }
    if (real == NULL) {
        TRY(error_from_errno("cannot follow the link", path));
    }
    if (place == NULL) {
        TRY(error_from_errno("cannot find", directory));
    }
    allowed = is_inside(real, place);
    if (!allowed) {
        TRY(is_in_blobs(real, place, &allowed));
    }
    if (!allowed) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "'%s' is a symbolic link to '%s', which lies outside the model's directory; "
             "replace the link with the file, or remove it",
             path, real);
    }
out:
    free(real);  /* realpath's own allocator */
    free(place); /* realpath's own allocator */
    return status;
}

static grail_status check_size(const source_file *file)
{
    if (file->identity.size > LARGEST_COMPANION) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "'%s' has %lld bytes, but a file that is copied beside the weights may have at most "
            "%d; remove it from the model's directory",
            file->path, (long long)file->identity.size, LARGEST_COMPANION);
    }
    return GRAIL_OK;
}

/* -- finding the files ------------------------------------------------------------------------- */

/* Appends a file with this name and path; the caller fills in the identity. */
static grail_status add_file(source_files *files, const char *directory, const char *name,
                             source_file **out)
{
    CHECK(memory_reserve(&files->items, files->count + 1, sizeof files->items[0]));
    source_file *file = &files->items[files->count++];
    *file = (source_file){0};
    CHECK(memory_copy_string(&file->name, name));
    CHECK(path_join(&file->path, directory, name));
    *out = file;
    return GRAIL_OK;
}

static grail_status add_weights(const checkpoint *c, source_files *files)
{
    for (int f = 0; f < checkpoint_file_count(c); f++) {
        source_file *file = NULL;
        CHECK(add_file(files, checkpoint_directory(c), checkpoint_file_name(c, f), &file));
        file->identity = checkpoint_file_identity(c, f);
    }
    return GRAIL_OK;
}

static grail_status add_companion(source_files *files, const char *directory, const char *name)
{
    source_file *file = NULL;
    CHECK(add_file(files, directory, name, &file));
    file->is_companion = true;
    CHECK(check_place(file->path, directory));
    CHECK(file_identify(file->path, &file->identity));
    return check_size(file);
}

static grail_status add_document(source_files *files, const grail_document *document)
{
    CHECK(memory_reserve(&files->items, files->count + 1, sizeof files->items[0]));
    source_file *file = &files->items[files->count++];
    *file = (source_file){.document = document, .is_companion = true};
    return memory_copy_string(&file->name, document->name);
}

static int compare_names(const void *a, const void *b)
{
    const source_file *left = a;
    const source_file *right = b;
    return strcmp(left->name, right->name);
}

/* Adds companions in the order of their names, because the order of a directory is not fixed. */
static grail_status add_companions(const char *directory, source_files *files)
{
    grail_status status = GRAIL_OK;
    const size_t first = files->count;
    const struct dirent *entry = NULL;
    DIR *list = opendir(directory);
    if (list == NULL) {
        return error_from_errno("cannot list", directory);
    }
    while ((entry = readdir(list)) != NULL) {
        if (is_companion_name(entry->d_name)) {
            TRY(add_companion(files, directory, entry->d_name));
        }
    }
    if (files->count > first) {
        qsort(files->items + first, files->count - first, sizeof files->items[0], compare_names);
    }
out:
    closedir(list);
    return status;
}

/* In the order of names, as files. */
static grail_status add_documents(const memory_documents *documents, source_files *files)
{
    for (int i = 0; i < documents->count; i++) {
        if (is_companion_name(documents->items[i].name)) {
            CHECK(add_document(files, &documents->items[i]));
        }
    }
    if (files->count > 0) {
        qsort(files->items, files->count, sizeof files->items[0], compare_names);
    }
    return GRAIL_OK;
}

/* What belongs to the other modules of a sentence encoder. */
static grail_status add_module_folders(const char *directory, source_files *files)
{
    grail_status status = GRAIL_OK;
    name_list names = {0};
    TRY(module_folders_list(directory, &names));
    for (size_t i = 0; i < names.count; i++) {
        TRY(add_companion(files, directory, names.names[i]));
    }
out:
    name_list_fini(&names);
    return status;
}

grail_status source_files_find(const grail_model *model, source_files *out)
{
    const char *directory = checkpoint_directory(model->checkpoint);
    const char *config = model->config_name;
    source_file *file = NULL;
    *out = (source_files){0};
    if (directory == NULL) {
        return add_documents(checkpoint_documents(model->checkpoint), out);
    }
    CHECK(add_weights(model->checkpoint, out));
    if (config != NULL) {
        CHECK(add_file(out, directory, config, &file));
        CHECK(file_identify(file->path, &file->identity));
    }
    if (config != NULL && strcmp(config, MODEL_CONFIG_NAME) == 0) {
        CHECK(add_companions(directory, out));
        CHECK(add_module_folders(directory, out));
    } else if (model->preparation != NULL && model->preparation->file != NULL) {
        /* it says how images are prepared, so that the result is read in the same way */
        CHECK(add_companion(out, directory, model->preparation->file));
    }
    return GRAIL_OK;
}

void source_files_fini(source_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        memory_free(files->items[i].name);
        memory_free(files->items[i].path);
    }
    memory_free(files->items);
    *files = (source_files){0};
}

/* -- checking that they are unchanged ---------------------------------------------------------- */

static grail_status require_same(const source_file *file, const file_identity *now)
{
    const file_identity *then = &file->identity;
    if (memcmp(then, now, sizeof *now) == 0) {
        return GRAIL_OK;
    }
    const grail_status status =
        error_set(GRAIL_ERROR_IO, "'%s' changed during the run: ", file->path);
    if (then->size != now->size) {
        error_append("it had %lld bytes and now has %lld", (long long)then->size,
                     (long long)now->size);
    } else {
        error_append("it was modified or replaced");
    }
    error_append("; do not change the model during a run, and run again");
    return status;
}

grail_status source_files_check(const source_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        file_identity now = {0};
        if (files->items[i].document != NULL) {
            continue;
        }
        CHECK(file_identify(files->items[i].path, &now));
        CHECK(require_same(&files->items[i], &now));
    }
    return GRAIL_OK;
}

grail_status source_file_read(const source_file *file, buffer *out)
{
    grail_status status = GRAIL_OK;
    file_map map = {0};
    if (file->document != NULL) {
        return buffer_append(out, file->document->bytes, (size_t)file->document->size);
    }
    TRY(file_map_open(&map, file->path));
    TRY(require_same(file, &map.identity));
    TRY(buffer_append(out, map.data, map.size));
out:
    file_map_close(&map);
    return status;
}
