#include "pipeline/output/module_folders.h"

#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static const char modules_name[] = "modules.json";
enum { LARGEST_LIST = 1 << 20, MOST_MODULES = 64 };

static bool is_settings(const char *name)
{
    return name_is_of_kind(name, ".json");
}

/* Whether `folder` can be the name of a folder beside the weights. */
static bool is_folder_name(const char *folder)
{
    return folder[0] != '.' && strpbrk(folder, "/\\") == NULL && strlen(folder) < 128;
}

static grail_status check_folder(const char *list, const char *path, const char *folder,
                                 bool *there)
{
    struct stat info;
    *there = false;
    if (!is_folder_name(folder)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: the path \"%s\" of a module is not the name of a folder beside the "
                         "weights, such as 1_Pooling",
                         list, folder);
    }
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
    TRY(check_folder(list, path, folder, &there));
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

/* The folder of a module; NULL where it has none of its own. */
static const char *folder_of(const json_t *module)
{
    const char *folder = json_string_value(json_object_get(module, "path"));
    return folder == NULL || folder[0] == 0 ? NULL : folder;
}

/* Whether an earlier module has the same folder. */
static bool is_repeated(const json_t *modules, size_t index)
{
    bool found = false;
    const char *folder = folder_of(json_array_get(modules, index));
    for (size_t i = 0; i < index && !found; i++) {
        const char *other = folder_of(json_array_get(modules, i));
        found = other != NULL && strcmp(other, folder) == 0;
    }
    return found;
}

static grail_status add_folders(const char *directory, const char *list, const json_t *modules,
                                name_list *out)
{
    if (json_array_size(modules) > MOST_MODULES) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: %zu modules, expected at most %d", list,
                         json_array_size(modules), MOST_MODULES);
    }
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const char *folder = folder_of(json_array_get(modules, i));
        if (folder != NULL && !is_repeated(modules, i)) {
            CHECK(add_folder(directory, list, folder, out));
        }
    }
    return GRAIL_OK;
}

grail_status module_folders_list(const char *directory, name_list *out)
{
    grail_status status = GRAIL_OK;
    char *list = NULL;
    json_t *modules = NULL;
    *out = (name_list){0};
    TRY(path_join(&list, directory, modules_name));
    if (file_exists(list)) {
        TRY(json_read_file(list, LARGEST_LIST, &modules));
        TRY(add_folders(directory, list, modules, out));
    }
out:
    json_decref(modules);
    memory_free(list);
    return status;
}
