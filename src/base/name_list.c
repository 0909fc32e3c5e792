#include "base/name_list.h"

#include "base/file.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

grail_status name_list_read(const char *directory, bool (*is_wanted)(const char *name),
                            name_list *out)
{
    grail_status status = GRAIL_OK;
    name_list list = {0};
    DIR *entries = opendir(directory);
    if (entries == NULL) {
        return error_from_errno("cannot list", directory);
    }
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        if (entry->d_name[0] != '.' && (is_wanted == NULL || is_wanted(entry->d_name))) {
            TRY(memory_reserve(&list.names, list.count + 1, sizeof list.names[0]));
            TRY(memory_copy_string(&list.names[list.count], entry->d_name));
            list.count++;
        }
    }
    if (list.count > 1) {
        qsort(list.names, list.count, sizeof list.names[0], compare_names);
    }
    *out = list;
    list = (name_list){0};
out:
    closedir(entries);
    name_list_fini(&list);
    return status;
}

void name_list_fini(name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        memory_free(list->names[i]);
    }
    memory_free(list->names);
    *list = (name_list){0};
}

bool name_begins_with(const char *name, const char *beginning)
{
    return strncmp(name, beginning, strlen(beginning)) == 0;
}

bool name_ends_with(const char *name, const char *ending)
{
    const size_t length = strlen(name);
    const size_t tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

bool name_is_of_kind(const char *name, const char *ending)
{
    const size_t length = strlen(name);
    const size_t tail = strlen(ending);
    return length >= tail && strcasecmp(name + length - tail, ending) == 0;
}

const char *name_find_number(const char *name, const char **end)
{
    for (const char *part = name; part != NULL; part = strchr(part, '.')) {
        part += part[0] == '.' ? 1 : 0;
        const size_t digits = strspn(part, "0123456789");
        if (digits > 0 && part[digits] == '.') {
            *end = part + digits;
            return part;
        }
    }
    return NULL;
}

grail_status name_check_ending(const char *path, const char *what, const char *ending)
{
    static const char *const known[] = {".gguf",  ".safetensors", ".onnx", ".pth", ".pt",
                                        ".bin",   ".ckpt",        ".th",   ".npy", ".json",
                                        ".jsonl", ".html",        NULL};
    for (int i = 0; path != NULL && known[i] != NULL; i++) {
        if (name_is_of_kind(path, known[i]) && (ending == NULL || strcmp(ending, known[i]) != 0)) {
            return error_set(GRAIL_ERROR_ARGUMENT, "'%s': %s is written; give a name %s %s", path,
                             what, ending == NULL ? "without" : "that ends in",
                             ending == NULL ? known[i] : ending);
        }
    }
    return GRAIL_OK;
}
