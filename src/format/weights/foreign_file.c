/* Sources: the specifications of GGUF, HDF5 and FlatBuffers (TFLite), onnx.proto, and the
 * documents of Git LFS. */
#include "format/weights/foreign_file.h"

#include "base/file.h"
#include "base/name_list.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_SIZE = 64, IR_VERSION = 0x08, LAST_VERSION = 0x7f, LENGTH_DELIMITED = 2 };

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

static const char *const endings[] = {".ggml", ".onnx", ".h5", ".tflite", ".msgpack"};

bool foreign_file_is_name(const char *name)
{
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (name_is_of_kind(name, endings[i])) {
            return true;
        }
    }
    return false;
}

static grail_status refuse(const char *path, const char *what, const char *remedy)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s: is %s; grail reads safetensors, torch and GGUF files; %s", path, what,
                     remedy);
}

static grail_status refuse_head(const char *path, const unsigned char *head, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const foreign_kind *k = &kinds[i];
        const size_t length = strlen(k->bytes);
        const bool is_own = k->ending != NULL && name_is_of_kind(path, k->ending);
        if (!is_own && size >= k->place + length &&
            memcmp(head + k->place, k->bytes, length) == 0) {
            return refuse(path, k->what, k->remedy);
        }
    }
    if (!name_is_of_kind(path, ".onnx")) {
        return GRAIL_OK;
    }
    /* onnx.proto: a ModelProto begins with field 1, ir_version, a varint of one byte, and goes on
     * with a field of text, of a message or of a number: opset_import, producer_name, graph ... */
    const bool is_onnx = size > 2 && head[0] == IR_VERSION && head[1] >= 1 &&
                         head[1] <= LAST_VERSION &&
                         ((head[2] & 7) == LENGTH_DELIMITED || (head[2] & 7) == 0);
    return refuse(path,
                  is_onnx ? "an ONNX file" : "named like an ONNX file, but does not begin like one",
                  "give the checkpoint that it was exported from; grail export writes ONNX");
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
