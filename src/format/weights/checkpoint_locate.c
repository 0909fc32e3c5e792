/* Looks for the names that transformers gives to weights, in its order, then for a single other
 * weights file. */
#include "format/weights/checkpoint_locate.h"

#include "base/file.h"
#include "base/name_list.h"
#include "format/weights/checkpoint.h"
#include "format/weights/foreign_file.h"

#include <string.h>

enum { MOST_SHOWN = 5 };

typedef struct usual_name {
    const char *name;
    bool is_index;
} usual_name;

static const usual_name usual_names[] = {
    {CHECKPOINT_SINGLE_NAME, false},
    {CHECKPOINT_INDEX_NAME, true},
    {CHECKPOINT_TORCH_SINGLE_NAME, false},
    {CHECKPOINT_TORCH_INDEX_NAME, true},
};

static bool is_usual(const char *name, bool index)
{
    for (size_t i = 0; i < sizeof usual_names / sizeof usual_names[0]; i++) {
        if (usual_names[i].is_index == index && strcmp(name, usual_names[i].name) == 0) {
            return true;
        }
    }
    return false;
}

bool checkpoint_is_usual_name(const char *name)
{
    return is_usual(name, false);
}

bool checkpoint_is_index_name(const char *name)
{
    return is_usual(name, true);
}

bool checkpoint_is_safetensors_name(const char *name)
{
    return name_is_of_kind(name, ".safetensors");
}

bool checkpoint_is_torch_name(const char *name)
{
    static const char *const endings[] = {".pth", ".pt", ".th", ".bin", ".ckpt", ".pth.tar"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (name_is_of_kind(name, endings[i])) {
            return true;
        }
    }
    return false;
}

bool checkpoint_is_gguf_name(const char *name)
{
    return name_is_of_kind(name, ".gguf");
}

static bool is_weights_name(const char *name)
{
    return checkpoint_is_safetensors_name(name) || checkpoint_is_torch_name(name);
}

/* *usual, owned, is the first usual name that is there, or NULL; then `others`, which
 * name_list_fini frees, has the other weights files. GGUF files count only where there is nothing
 * else: they lie beside the weights that they were made from. */
static grail_status search(const char *directory, char **usual, bool *is_index, name_list *others)
{
    for (size_t i = 0; i < sizeof usual_names / sizeof usual_names[0]; i++) {
        char *path = NULL;
        CHECK(path_find(&path, directory, usual_names[i].name));
        const bool exists = path != NULL;
        memory_free(path);
        if (exists) {
            *is_index = usual_names[i].is_index;
            return memory_copy_string(usual, usual_names[i].name);
        }
    }
    CHECK(name_list_read(directory, is_weights_name, others));
    return others->count > 0 ? GRAIL_OK
                             : name_list_read(directory, checkpoint_is_gguf_name, others);
}

/* There is no single weights file. A file of another format is called what it is. */
static grail_status refuse(const char *directory, const name_list *list)
{
    grail_status status = GRAIL_OK;
    name_list foreign = {0};
    char *path = NULL;
    if (list->count > 0) {
        status = error_set(GRAIL_ERROR_IO,
                           "'%s' holds %zu weights files; give the path of one:", directory,
                           list->count);
        for (size_t i = 0; i < list->count && i < MOST_SHOWN; i++) {
            error_append("%s %s", i == 0 ? "" : ",", list->names[i]);
        }
        if (list->count > MOST_SHOWN) {
            error_append(", ...");
        }
        return status;
    }
    TRY(name_list_read(directory, foreign_file_is_name, &foreign));
    if (foreign.count > 0) {
        TRY(path_join(&path, directory, foreign.names[0]));
        TRY(foreign_file_refuse(path));
    }
    FAIL(GRAIL_ERROR_IO,
         "'%s' holds neither %s nor %s nor %s, nor another weights file (.safetensors, "
         ".pth, .pt, .th, .bin, .ckpt, .pth.tar, .gguf)",
         directory, CHECKPOINT_SINGLE_NAME, CHECKPOINT_INDEX_NAME, CHECKPOINT_TORCH_SINGLE_NAME);
out:
    memory_free(path);
    name_list_fini(&foreign);
    return status;
}

grail_status checkpoint_locate(const char *directory, char **out, bool *is_index)
{
    grail_status status = GRAIL_OK;
    name_list list = {0};
    char *name = NULL;
    TRY(search(directory, &name, is_index, &list));
    if (name == NULL && list.count != 1) {
        TRY(refuse(directory, &list));
    }
    if (name == NULL) {
        name = list.names[0];
        list.count = 0;
        *is_index = false;
    }
    *out = name;
out:
    name_list_fini(&list);
    return status;
}

grail_status checkpoint_is_located(const char *directory, const char *name, bool *out)
{
    name_list list = {0};
    char *usual = NULL;
    bool is_index = false;
    *out = checkpoint_is_usual_name(name);
    const grail_status status = *out ? GRAIL_OK : search(directory, &usual, &is_index, &list);
    *out = *out || (list.count == 1 && strcmp(list.names[0], name) == 0);
    memory_free(usual);
    name_list_fini(&list);
    return status;
}

grail_status checkpoint_is_gguf(const char *path, bool *out)
{
    name_list list = {0};
    char *usual = NULL;
    bool is_index = false;
    if (!file_is_directory(path)) {
        *out = checkpoint_is_gguf_name(path);
        return GRAIL_OK;
    }
    const grail_status status = search(path, &usual, &is_index, &list);
    *out = list.count > 0 && checkpoint_is_gguf_name(list.names[0]);
    memory_free(usual);
    name_list_fini(&list);
    return status;
}
