#include "pipeline/output/module_folders.h"

#include "arch/sentence_modules.h"
#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool is_settings(const char *name)
{
    return name_is_of_kind(name, ".json");
}

static grail_status check_folder(const char *list, const char *path, bool *there)
{
    struct stat info;
    *there = false;
    if (lstat(path, &info) != 0) {
        return errno == ENOENT ? GRAIL_OK : error_from_errno("cannot inspect", path);
    }
    *there = S_ISDIR(info.st_mode);
    return *there ? GRAIL_OK
                  : error_set(GRAIL_ERROR_ARGUMENT,
                              "'%s', which %s names, is not a folder%s; replace it with one", path,
                              list, S_ISLNK(info.st_mode) ? ", but a symbolic link" : "");
}

static grail_status add_name(const char *folder, const char *name, name_list *out)
{
    CHECK(memory_reserve(&out->names, out->count + 1, sizeof out->names[0]));
    CHECK(path_join(&out->names[out->count], folder, name));
    out->count++;
    return GRAIL_OK;
}

static grail_status add_folder(const char *directory, const char *list, const char *folder,
                               name_list *out)
{
    grail_status status = GRAIL_OK;
    name_list files = {0};
    char *path = NULL;
    bool there = false;
    TRY(path_join(&path, directory, folder));
    TRY(check_folder(list, path, &there));
    if (there) {
        TRY(name_list_read(path, is_settings, &files));
    }
    for (size_t i = 0; i < files.count; i++) {
        TRY(add_name(folder, files.names[i], out));
    }
out:
    name_list_fini(&files);
    memory_free(path);
    return status;
}

/* Whether an earlier module has the same folder. */
static bool is_repeated(const json_t *modules, size_t index, const char *folder)
{
    bool found = false;
    for (size_t i = 0; i < index && !found; i++) {
        const char *other = json_string_value(json_object_get(json_array_get(modules, i), "path"));
        found = other != NULL && strcmp(other, folder) == 0;
    }
    return found;
}

grail_status module_folders_list(const char *directory, name_list *out)
{
    grail_status status = GRAIL_OK;
    char *list = NULL;
    json_t *modules = NULL;
    *out = (name_list){0};
    TRY(sentence_modules_read(directory, &list, &modules));
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const char *folder = NULL;
        TRY(sentence_module_folder(list, json_array_get(modules, i), &folder));
        if (folder != NULL && !is_repeated(modules, i, folder)) {
            TRY(add_folder(directory, list, folder, out));
        }
    }
out:
    json_decref(modules);
    memory_free(list);
    return status;
}
