/* Looks for the names that transformers gives to weights, in its order, then for a single other
 * weights file. */
#include "format/weights/checkpoint_locate.h"

#include "base/file.h"
#include "base/name_list.h"
#include "format/weights/checkpoint.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

bool checkpoint_is_onnx_name(const char *name)
{
    return name_is_of_kind(name, ".onnx");
}

static bool is_weights_name(const char *name)
{
    return checkpoint_is_safetensors_name(name) || checkpoint_is_torch_name(name);
}

/* *usual, owned, is the first usual name that is there, or NULL; then `others`, which
 * name_list_fini frees, has the other weights files. GGUF files count only where there is nothing
 * else, and ONNX files last: they lie beside the weights that they were made from. */
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
    static bool (*const kinds[])(const char *name) = {is_weights_name, checkpoint_is_gguf_name,
                                                      checkpoint_is_onnx_name};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && others->count == 0; i++) {
        CHECK(name_list_read(directory, kinds[i], others));
    }
    return GRAIL_OK;
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
         ".pth, .pt, .th, .bin, .ckpt, .pth.tar, .gguf, .onnx)",
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

/* Whether opening the path reads a file of this kind. */
static grail_status is_of_kind(const char *path, bool (*is_name)(const char *), bool *out)
{
    name_list list = {0};
    char *usual = NULL;
    bool is_index = false;
    if (!file_is_directory(path)) {
        *out = is_name(path);
        return GRAIL_OK;
    }
    const grail_status status = search(path, &usual, &is_index, &list);
    *out = list.count > 0 && is_name(list.names[0]);
    memory_free(usual);
    name_list_fini(&list);
    return status;
}

grail_status checkpoint_is_gguf(const char *path, bool *out)
{
    return is_of_kind(path, checkpoint_is_gguf_name, out);
}

grail_status checkpoint_is_onnx(const char *path, bool *out)
{
    return is_of_kind(path, checkpoint_is_onnx_name, out);
}

/* Sources: the specifications of GGUF, HDF5 and FlatBuffers (TFLite), and the documents of Git
 * LFS. */

enum { HEAD_SIZE = 64 };

#define ORIGINAL "give the original directory of Hugging Face (config.json and safetensors)"

typedef struct foreign_kind {
    const char *bytes; /* at `place` */
    size_t place;
    const char *what, *remedy;
    const char *ending; /* of files that are read in spite of it; NULL: none */
} foreign_kind;

static const foreign_kind kinds[] = {
    {"GGUF", 0, "a GGUF file", "rename it: the name of a GGUF file must end in .gguf", ".gguf"},
    {"lmgg", 0, "a GGML file", ORIGINAL ", or a GGUF file", NULL},
    {"tjgg", 0, "a GGML file", ORIGINAL ", or a GGUF file", NULL},
    {"\x89HDF\r\n", 0, "an HDF5 file of Keras or TensorFlow", "give a PyTorch or safetensors file",
     NULL},
    {"TFL3", 4, "a TensorFlow Lite file", "give a PyTorch or safetensors file", NULL},
    {"\x93NUMPY", 0, "an array of NumPy", "give a PyTorch or safetensors file", NULL},
    {"version https://git-lfs", 0, "a pointer of Git LFS, not the file itself",
     "fetch the file with 'git lfs pull'", NULL},
    {"<!DOCTYPE", 0, "a web page", "download the file itself", NULL},
    {"<html", 0, "a web page", "download the file itself", NULL},
};

static const char *const endings[] = {".ggml", ".h5", ".tflite", ".msgpack"};

bool foreign_file_is_name(const char *name)
{
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (name_is_of_kind(name, endings[i])) {
            return true;
        }
    }
    return false;
}

static grail_status refuse_as(const char *path, const char *what, const char *remedy)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s: is %s; grail reads safetensors, torch, GGUF and ONNX files; %s", path,
                     what, remedy);
}

static grail_status refuse_head(const char *path, const unsigned char *head, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const foreign_kind *k = &kinds[i];
        const size_t length = strlen(k->bytes);
        const bool is_own = k->ending != NULL && name_is_of_kind(path, k->ending);
        if (!is_own && size >= k->place + length &&
            memcmp(head + k->place, k->bytes, length) == 0) {
            return refuse_as(path, k->what, k->remedy);
        }
    }
    return GRAIL_OK;
}

grail_status foreign_file_refuse(const char *path)
{
    unsigned char head[HEAD_SIZE];
    const int descriptor =
        file_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK); /* a pipe may be empty */
    if (descriptor < 0) {
        return GRAIL_OK; /* whoever opens it says why not */
    }
    const ssize_t size = read(descriptor, head, sizeof head);
    close(descriptor);
    return size <= 0 ? GRAIL_OK : refuse_head(path, head, (size_t)size);
}
