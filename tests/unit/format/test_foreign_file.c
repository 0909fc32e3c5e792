/* Files that are not what their place says: the message calls them what they are. */
#include "support/support.h"

#include "base/file.h"
#include "format/weights/checkpoint.h"
#include "support/json_memory.h"

#include <string.h>
#include <sys/stat.h>

static grail_status try_open(const char *path)
{
    OWNED(checkpoint) *c = NULL;
    const grail_status status = checkpoint_open(path, &c);
    assert_null(c);
    return status;
}

static grail_status try_file(const char *directory, const char *name, const void *bytes,
                             size_t size)
{
    support_write_file(directory, name, bytes, size);
    OPENED(char, path, path_join(&path, directory, name));
    return try_open(path);
}

DIRECTORY_TEST(a_file_is_told_by_its_first_bytes)
{
    static const struct {
        const char *name, *bytes;
        size_t size;
        const char *text;
    } cases[] = {
        {"model.bin", "GGUF\3\0\0\0", 8,
         "model.bin: is a GGUF file; grail reads safetensors, torch, GGUF and ONNX files; rename "
         "it: the "
         "name of a GGUF file must end in .gguf"},
        {"model.safetensors", "GGUF\3\0\0\0", 8, "model.safetensors: is a GGUF file"},
        {"a.bin", "lmgg\1\0\0\0", 8, "is a GGML file"},
        {"a.h5", "\x89HDF\r\n\x1a\n", 8, "is an HDF5 file of Keras or TensorFlow"},
        {"a.tflite", "\x1c\0\0\0TFL3", 8, "is a TensorFlow Lite file"},
        {"b.safetensors", "version https://git-lfs.github.com/spec/v1\n", 43,
         "is a pointer of Git LFS, not the file itself; grail reads safetensors, torch, GGUF "
         "and ONNX files; fetch the file with 'git lfs pull'"},
        {"b.pth", "<!DOCTYPE html>", 15, "is a web page"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(try_file(directory, cases[i].name, cases[i].bytes, cases[i].size),
                     GRAIL_ERROR_UNSUPPORTED, cases[i].text);
    }
}

DIRECTORY_TEST(other_files_are_left_to_their_readers)
{
    assert_fails(try_file(directory, "a.pth", "\x08\x08\x12\x07pytorch", 11), GRAIL_ERROR_FORMAT,
                 "a.pth: is not a torch checkpoint");
    assert_fails(try_file(directory, "b.pth", "GGU", 3), GRAIL_ERROR_FORMAT,
                 "b.pth: is not a torch checkpoint");
    assert_fails(try_file(directory, "c.safetensors", "", 0), GRAIL_ERROR_FORMAT, "has 0 bytes");
}

DIRECTORY_TEST(a_directory_with_nothing_else_names_the_file)
{
    support_write_file(directory, "z.ggml", "lmgg", 4);
    support_write_file(directory, "m-Q4.ggml", "lmgg", 4);
    assert_fails(try_open(directory), GRAIL_ERROR_UNSUPPORTED, "m-Q4.ggml: is a GGML file");
}

DIRECTORY_TEST(a_directory_with_files_of_no_kind_lacks_weights)
{
    support_write_file(directory, "a.ggml", "what", 4);
    assert_fails(try_open(directory), GRAIL_ERROR_IO, "holds neither model.safetensors nor");
}

/* Weights beside a file of another format are opened. */
DIRECTORY_TEST(weights_come_first)
{
    const tensor_view tensor = {.name = "a", .dtype = GRAIL_DTYPE_U8, .rank = 1, .shape = {4}};
    tensor_writer *writer = NULL;
    support_write_file(directory, "a.gguf", "GGUF", 4);
    OPENED(char, path, path_join(&path, directory, "model.safetensors"));
    assert_ok(safetensors_writer_open(path, 1, &tensor, LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_put(writer, "a", "abcd", 4));
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
}

/* A pipe that nobody writes to must not be waited for. */
DIRECTORY_TEST(a_pipe_is_refused)
{
    OPENED(char, path, path_join(&path, directory, "a.pth"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(try_open(path), GRAIL_ERROR_IO, "a.pth");
}

static grail_status open_once(void *path)
{
    return try_open(path);
}

DIRECTORY_TEST(every_failing_allocation_is_survived)
{
    support_write_file(directory, "a.ggml", "what", 4);
    for (int i = 0; i < 8; i++) {
        memory_fail_after(i);
        const grail_status status = open_once(directory);
        memory_fail_after(-1);
        assert_true(status == GRAIL_ERROR_MEMORY || status == GRAIL_ERROR_IO);
    }
}

CMFixtureFunction support_setup = json_memory_use;
