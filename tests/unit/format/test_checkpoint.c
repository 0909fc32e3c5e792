/* Checkpoints of both formats: files, shards and their index, what is missing, names without
 * prefixes, and writing one like another. */
#include "support/support.h"

#include "base/file.h"
#include "base/json.h"
#include "format/torch/torch_file.h"
#include "format/weights/weights_format.h"
#include "support/json_memory.h"
#include "torch_bytes.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of U8 vectors of length 4 whose bytes are their names' first letter. */
static void write_shard(const char *directory, const char *file, int64_t count,
                        const char *const names[])
{
    tensor_view tensors[4] = {0};
    OWNED(tensor_writer) *writer = NULL;
    for (int64_t i = 0; i < count; i++) {
        tensors[i] =
            (tensor_view){.name = names[i], .dtype = GRAIL_DTYPE_U8, .rank = 1, .shape = {4}};
    }
    OPENED(char, path, path_join(&path, directory, file));
    assert_ok(safetensors_writer_open(path, count, tensors, LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < count; i++) {
        char data[4];
        memset(data, names[i][0], sizeof data);
        assert_ok(tensor_writer_put(writer, names[i], data, sizeof data));
    }
    assert_ok(tensor_writer_seal(writer));
}

/* The same tensors in a torch file, under `wrapper`. */
static void write_torch(const char *directory, const char *file, const char *wrapper, int64_t count,
                        const char *const names[])
{
    tensor_view tensors[4] = {0};
    OWNED(tensor_writer) *writer = NULL;
    for (int64_t i = 0; i < count; i++) {
        tensors[i] =
            (tensor_view){.name = names[i], .dtype = GRAIL_DTYPE_U8, .rank = 1, .shape = {4}};
    }
    OPENED(char, path, path_join(&path, directory, file));
    assert_ok(torch_writer_open(path, wrapper, count, tensors, LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < count; i++) {
        char data[4];
        memset(data, names[i][0], sizeof data);
        assert_ok(tensor_writer_put(writer, names[i], data, sizeof data));
    }
    assert_ok(tensor_writer_seal(writer));
}

static void write_text(const char *directory, const char *name, const char *text)
{
    support_write_file(directory, name, text, strlen(text));
}

static const char full_index[] =
    "{\"metadata\":{\"total_size\":12},\"weight_map\":{"
    "\"c\":\"model-00002-of-00002.safetensors\",\"a\":\"model-00001-of-00002.safetensors\","
    "\"b\":\"model-00001-of-00002.safetensors\"}}";

static void write_two_shards(const char *directory)
{
    write_shard(directory, "model-00001-of-00002.safetensors", 2, (const char *[]){"a", "b"});
    write_shard(directory, "model-00002-of-00002.safetensors", 1, (const char *[]){"c"});
    write_text(directory, CHECKPOINT_INDEX_NAME, full_index);
}

static grail_status open_only(void *directory)
{
    OWNED(checkpoint) *c = NULL;
    const grail_status status = checkpoint_open(directory, &c);
    assert_true((status == GRAIL_OK) == (c != NULL));
    return status;
}

DIRECTORY_TEST(test_a_single_file_is_opened)
{
    write_shard(directory, "model.safetensors", 2, (const char *[]){"a", "b"});
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
    assert_string_equal(checkpoint_directory(c), directory);
    assert_false(checkpoint_is_sharded(c));
    assert_int_equal(checkpoint_count(c), 2);
    assert_int_equal(checkpoint_file_count(c), 1);
    assert_string_equal(checkpoint_file_name(c, 0), "model.safetensors");
    assert_ptr_equal(checkpoint_find(c, "b"), checkpoint_at(c, 1));
    assert_null(checkpoint_find(c, "c"));
    assert_int_equal(checkpoint_index_of(c, "c"), -1);
    assert_null(checkpoint_at(c, 2));
    assert_int_equal(checkpoint_file_of(c, 2), -1);
    assert_null(checkpoint_file_name(c, 1));
}

DIRECTORY_TEST(test_shards_are_opened_in_name_order)
{
    static const char *const names[] = {"a", "b", "c"};
    write_two_shards(directory);
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
    assert_true(checkpoint_is_sharded(c));
    assert_int_equal(checkpoint_file_count(c), 2);
    assert_string_equal(checkpoint_file_name(c, 1), "model-00002-of-00002.safetensors");
    assert_int_equal(checkpoint_count(c), 3);
    for (int64_t i = 0; i < 3; i++) {
        const tensor_view *view = checkpoint_at(c, i);
        assert_string_equal(view->name, names[i]);
        assert_int_equal(((const char *)view->data)[3], names[i][0]);
        assert_ptr_equal(checkpoint_find(c, names[i]), view);
        assert_int_equal(checkpoint_file_of(c, i), i / 2);
        checkpoint_release(c, view);
        assert_int_equal(((const char *)view->data)[3], names[i][0]);
    }
}

DIRECTORY_TEST(test_a_single_file_comes_before_an_index)
{
    write_two_shards(directory);
    write_shard(directory, "model.safetensors", 1, (const char *[]){"z"});
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
    assert_int_equal(checkpoint_count(c), 1);
}

DIRECTORY_TEST(test_a_missing_shard_is_named)
{
    write_two_shards(directory);
    OPENED(char, path, path_join(&path, directory, "model-00002-of-00002.safetensors"));
    assert_int_equal(unlink(path), 0);
    assert_fails(open_only(directory), GRAIL_ERROR_FORMAT,
                 "shard 'model-00002-of-00002.safetensors' is missing");
}

DIRECTORY_TEST(test_a_broken_shard_is_named)
{
    write_two_shards(directory);
    write_text(directory, "model-00001-of-00002.safetensors", "torn");
    assert_fails(open_only(directory), GRAIL_ERROR_FORMAT,
                 "model-00001-of-00002.safetensors: has 4");
}

static checkpoint *open_in(const char *directory, const char *file)
{
    checkpoint *c = NULL;
    OPENED(char, path, path_join(&path, directory, file));
    assert_ok(checkpoint_open(path, &c));
    assert_string_equal(checkpoint_path(c), path);
    assert_string_equal(checkpoint_directory(c), directory);
    return c;
}

DIRECTORY_TEST(test_a_file_of_either_format_is_opened)
{
    write_shard(directory, "x.safetensors", 1, (const char *[]){"a"});
    write_torch(directory, "x.weights", "state_dict", 1, (const char *[]){"b"});
    checkpoint *c = open_in(directory, "x.safetensors");
    assert_ptr_equal(checkpoint_format(c), &weights_format_safetensors);
    assert_string_equal(checkpoint_wrapper(c, 0), "");
    assert_non_null(checkpoint_find(c, "a"));
    checkpoint_close(c);
    c = open_in(directory, "x.weights");
    assert_ptr_equal(checkpoint_format(c), &weights_format_torch);
    assert_string_equal(checkpoint_wrapper(c, 0), "state_dict");
    assert_string_equal(checkpoint_file_name(c, 0), "x.weights");
    const tensor_view *b = checkpoint_find(c, "b");
    checkpoint_release(c, b);
    assert_memory_equal(b->data, "bbbb", 4);
    checkpoint_close(c);
}

DIRECTORY_TEST(test_a_file_in_the_working_directory_is_opened)
{
    char before[4096];
    OWNED(checkpoint) *c = NULL;
    write_torch(directory, "x.pth", "", 1, (const char *[]){"a"});
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    const grail_status status = checkpoint_open("x.pth", &c);
    assert_int_equal(chdir(before), 0);
    assert_ok(status);
    assert_string_equal(checkpoint_directory(c), ".");
}

DIRECTORY_TEST(test_a_file_of_another_kind_is_refused)
{
    write_text(directory, "x.weights", "another kind");
    OPENED(char, path, path_join(&path, directory, "x.weights"));
    assert_fails(open_only(path), GRAIL_ERROR_FORMAT,
                 "x.weights: is not a torch checkpoint (the name of a safetensors file must end in "
                 ".safetensors, that of an ONNX file in .onnx)");
}

/* Each file that is added comes before those that were there. */
DIRECTORY_TEST(test_the_usual_names_come_first)
{
    static const char torch_index[] =
        "{\"weight_map\":{\"c\":\"pytorch_model-1.bin\",\"d\":\"pytorch_model-2.bin\"}}";
    checkpoint *c = NULL;
    write_torch(directory, "any.pth", "", 1, (const char *[]){"a"});
    assert_ok(checkpoint_open(directory, &c));
    assert_non_null(checkpoint_find(c, "a"));
    checkpoint_close(c);
    write_torch(directory, "pytorch_model-1.bin", "", 1, (const char *[]){"c"});
    write_torch(directory, "pytorch_model-2.bin", "", 1, (const char *[]){"d"});
    write_text(directory, CHECKPOINT_TORCH_INDEX_NAME, torch_index);
    assert_ok(checkpoint_open(directory, &c));
    assert_int_equal(checkpoint_count(c), 2);
    assert_string_equal(checkpoint_index_name(c), CHECKPOINT_TORCH_INDEX_NAME);
    checkpoint_close(c);
    write_torch(directory, CHECKPOINT_TORCH_SINGLE_NAME, "", 1, (const char *[]){"b"});
    assert_ok(checkpoint_open(directory, &c));
    assert_non_null(checkpoint_find(c, "b"));
    assert_null(checkpoint_index_name(c));
    checkpoint_close(c);
    write_two_shards(directory);
    assert_ok(checkpoint_open(directory, &c));
    assert_int_equal(checkpoint_count(c), 3);
    checkpoint_close(c);
}

DIRECTORY_TEST(test_several_weights_files_are_named)
{
    write_torch(directory, "b.th", "", 1, (const char *[]){"b"});
    write_torch(directory, "a.pt", "", 1, (const char *[]){"a"});
    assert_fails(open_only(directory), GRAIL_ERROR_IO,
                 "holds 2 weights files; give the path of one: a.pt, b.th");
}

DIRECTORY_TEST(test_prefixes_of_wrapped_modules_are_left_out)
{
    static const char *const names[] = {"module.a", "_orig_mod.module.b", "module.c", "c"};
    write_torch(directory, "x.pth", "", 4, names);
    OPENED(checkpoint, c, checkpoint_open(directory, &c));
    assert_string_equal(checkpoint_at(c, 0)->name, "module.a");
    assert_string_equal(checkpoint_plain_name(c, 0), "a");
    assert_string_equal(checkpoint_plain_name(c, 1), "b");
    assert_null(checkpoint_plain_name(c, 4));
    assert_int_equal(checkpoint_index_of(c, "a"), 0);
    assert_int_equal(checkpoint_index_of(c, "module.a"), 0);
    assert_int_equal(checkpoint_index_of(c, "b"), 1);
    assert_int_equal(checkpoint_index_of(c, "module.b"), -1);
    assert_int_equal(checkpoint_index_of(c, "c"), 3);
    assert_int_equal(checkpoint_index_of(c, "module.c"), 2);
}

DIRECTORY_TEST(test_a_plain_name_of_two_tensors_finds_neither)
{
    /* A third name before or after the two, so that a search meets either of them first. */
    static const char *const files[] = {"x.pth", "y.pth"};
    static const char *const others[] = {"A", "b"};
    for (int i = 0; i < 2; i++) {
        write_torch(directory, files[i], "", 3,
                    (const char *[]){"module.a", "_orig_mod.a", others[i]});
        OWNED(checkpoint) *c = open_in(directory, files[i]);
        assert_null(checkpoint_find(c, "a"));
        assert_non_null(checkpoint_find(c, "_orig_mod.a"));
        assert_non_null(checkpoint_find(c, others[i]));
    }
}

typedef struct bad_index {
    const char *index;
    const char *text;
} bad_index;

#define FIRST "\"model-00001-of-00002.safetensors\""
#define SECOND "\"model-00002-of-00002.safetensors\""

static const bad_index bad_indices[] = {
    {"{}", "\"weight_map\" is missing"},
    {"[]", "\"weight_map\" is missing"},
    {"{\"weight_map\":{}}", "\"weight_map\" is missing, empty"},
    {"{\"weight_map\":{\"a\":7}}", "the file of tensor 'a' is not a string"},
    {"{\"weight_map\":{\"a\":\"\"}}", "is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"..\"}}", "is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "is not a plain file name"},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "is not a plain file name"},
    {"{\"weight_map\":{\"a\":" FIRST ",\"a\":" SECOND "}}", "duplicate"},
    {"{\"weight_map\":{\"a\":" FIRST ",\"c\":" SECOND "}}", "does not list it"},
    {"{\"weight_map\":{\"a\":" FIRST ",\"b\":" FIRST ",\"c\":" SECOND ",\"d\":" SECOND "}}",
     "lists tensor 'd', but 'model-00002-of-00002.safetensors' lacks it"},
    {"{\"weight_map\":{\"a\":" FIRST ",\"b\":" SECOND ",\"c\":" SECOND "}}",
     "but 'model-00001-of-00002.safetensors' has it"},
    {"{", "not valid JSON"},
};

DIRECTORY_TEST(test_an_index_that_does_not_fit_is_refused)
{
    write_two_shards(directory);
    for (size_t i = 0; i < sizeof bad_indices / sizeof bad_indices[0]; i++) {
        write_text(directory, CHECKPOINT_INDEX_NAME, bad_indices[i].index);
        assert_fails(open_only(directory), GRAIL_ERROR_FORMAT, bad_indices[i].text);
    }
}

DIRECTORY_TEST(test_a_tensor_in_two_shards_is_refused)
{
    write_shard(directory, "one.safetensors", 2, (const char *[]){"a", "b"});
    write_shard(directory, "two.safetensors", 2, (const char *[]){"b", "c"});
    write_text(directory, CHECKPOINT_INDEX_NAME,
               "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\","
               "\"c\":\"two.safetensors\"}}");
    assert_fails(open_only(directory), GRAIL_ERROR_FORMAT,
                 "tensor 'b' is in both 'one.safetensors' and 'two.safetensors'");
}

DIRECTORY_TEST(test_a_directory_without_weights_says_what_was_looked_for)
{
    assert_fails(open_only(directory), GRAIL_ERROR_IO,
                 "holds neither model.safetensors nor model.safetensors.index.json");
    char missing[] = "/nonexistent/model";
    assert_fails(open_only(missing), GRAIL_ERROR_IO, "cannot open '/nonexistent/model'");
}

DIRECTORY_TEST(test_every_failing_allocation_is_reported)
{
    write_two_shards(directory);
    support_fail_each_allocation(open_only, directory);
}

/* A dense checkpoint of two shards, and the narrowed shapes for it. */
typedef struct narrowing {
    char *directory; /* for the narrowed one */
    checkpoint *dense;
    tensor_view shapes[3];
} narrowing;

static void open_narrowing(const char *directory, narrowing *n)
{
    write_two_shards(directory);
    assert_ok(checkpoint_open(directory, &n->dense));
    assert_ok(path_join(&n->directory, directory, "narrow"));
    assert_int_equal(mkdir(n->directory, 0777), 0);
    for (int64_t i = 0; i < 3; i++) {
        n->shapes[i] = *checkpoint_at(n->dense, i);
        n->shapes[i].shape[0] = i + 1;
    }
}

static void close_narrowing(narrowing *n)
{
    checkpoint_close(n->dense);
    memory_free(n->directory);
}

OWNS(narrowing, close_narrowing)

static const char *const narrow_names[] = {
    "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", CHECKPOINT_INDEX_NAME};

/* Removes the files of earlier calls first. */
static grail_status write_narrow(void *context)
{
    const narrowing *n = context;
    checkpoint_writer *writer = NULL;
    for (size_t i = 0; i < sizeof narrow_names / sizeof narrow_names[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", n->directory, narrow_names[i]);
        unlink(path);
    }
    grail_status status =
        checkpoint_writer_open(n->directory, n->dense, NULL, n->shapes, LAYOUT_NEW, &writer);
    if (status == GRAIL_OK) {
        status = checkpoint_writer_put(writer, "c", "ccc", 3);
    }
    checkpoint_writer_close(writer);
    return status;
}

DIRECTORY_TEST(test_a_checkpoint_like_another_is_written_and_read_back)
{
    OWNED(narrowing) n = {0};
    checkpoint_writer *writer = NULL;
    open_narrowing(directory, &n);
    assert_ok(checkpoint_writer_open(n.directory, n.dense, NULL, n.shapes, LAYOUT_NEW, &writer));
    assert_ok(checkpoint_writer_put(writer, "c", "ccc", 3));
    assert_ok(checkpoint_writer_put(writer, "a", "a", 1));
    assert_ok(checkpoint_writer_put(writer, "b", "bb", 2));
    assert_fails(checkpoint_writer_put(writer, "b", "bb", 2), GRAIL_ERROR_ARGUMENT,
                 "a second time");
    assert_fails(checkpoint_writer_put(writer, "d", "bb", 2), GRAIL_ERROR_ARGUMENT,
                 "no tensor 'd'");
    assert_ok(checkpoint_writer_seal(writer));
    checkpoint_writer_close(writer);
    OPENED(json_t, index, checkpoint_written_index(n.dense, n.shapes, &index));
    OPENED(char, path, path_join(&path, n.directory, CHECKPOINT_INDEX_NAME));
    assert_int_equal(json_dump_file(index, path, 0), 0);
    OPENED(checkpoint, narrow, checkpoint_open(n.directory, &narrow));
    assert_int_equal(checkpoint_count(narrow), 3);
    for (int64_t i = 0; i < 3; i++) {
        const tensor_view *view = checkpoint_find(narrow, n.shapes[i].name);
        assert_int_equal(view->shape[0], i + 1);
        assert_int_equal(((const char *)view->data)[i], n.shapes[i].name[0]);
    }
}

DIRECTORY_TEST(test_the_index_states_the_total_size)
{
    OWNED(narrowing) n = {0};
    int64_t total = 0;
    open_narrowing(directory, &n);
    OPENED(json_t, index, checkpoint_written_index(n.dense, n.shapes, &index));
    assert_ok(
        json_require_integer("index", json_object_get(index, "metadata"), "total_size", &total));
    assert_int_equal(total, 6);
    assert_int_equal(json_object_size(json_object_get(index, "weight_map")), 3);
}

DIRECTORY_TEST(test_a_single_file_gets_no_index)
{
    checkpoint_writer *writer = NULL;
    OWNED(char) *narrow = NULL;
    char *path = NULL;
    write_shard(directory, "model.safetensors", 1, (const char *[]){"a"});
    OPENED(checkpoint, dense, checkpoint_open(directory, &dense));
    assert_ok(path_join(&narrow, directory, "narrow"));
    assert_int_equal(mkdir(narrow, 0777), 0);
    assert_ok(
        checkpoint_writer_open(narrow, dense, NULL, checkpoint_at(dense, 0), LAYOUT_NEW, &writer));
    checkpoint_writer_close(writer);
    assert_ok(path_join(&path, narrow, CHECKPOINT_INDEX_NAME));
    assert_false(file_exists(path));
    memory_free(path);
    assert_ok(path_join(&path, narrow, CHECKPOINT_SINGLE_NAME));
    assert_true(file_exists(path));
    memory_free(path);
}

/* Writes `like` as `format` into a new folder, its first tensor alone, and opens what came of it.
 */
static checkpoint *rewrite(const char *directory, const checkpoint *like,
                           const weights_format *format, const char *expected_file)
{
    OWNED(char) *narrow = NULL;
    checkpoint_writer *writer = NULL;
    checkpoint *c = NULL;
    tensor_view shapes[4];
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        shapes[i] = *checkpoint_at(like, i);
        shapes[i].shape[0] = 2;
    }
    assert_ok(path_join(&narrow, directory, "narrow"));
    assert_int_equal(mkdir(narrow, 0777), 0);
    assert_ok(checkpoint_writer_open(narrow, like, &(written_form){.format = format}, shapes,
                                     LAYOUT_NEW, &writer));
    assert_ok(checkpoint_writer_put(writer, checkpoint_plain_name(like, 0), "xy", 2));
    assert_ok(checkpoint_writer_seal(writer));
    checkpoint_writer_close(writer);
    OPENED(char, file, path_join(&file, narrow, expected_file));
    assert_true(file_exists(file));
    assert_ok(checkpoint_open(narrow, &c));
    assert_int_equal(checkpoint_count(c), checkpoint_count(like));
    assert_int_equal(checkpoint_find(c, shapes[0].name)->shape[0], 2);
    assert_memory_equal(checkpoint_find(c, shapes[0].name)->data, "xy", 2);
    return c;
}

DIRECTORY_TEST(test_a_torch_file_is_written_like_one)
{
    write_torch(directory, "x.th", "state_dict", 2, (const char *[]){"module.a", "module.b"});
    OWNED(checkpoint) *dense = open_in(directory, "x.th");
    OWNED(checkpoint) *narrow = rewrite(directory, dense, NULL, "x.th");
    assert_ptr_equal(checkpoint_format(narrow), &weights_format_torch);
    assert_string_equal(checkpoint_wrapper(narrow, 0), "state_dict");
    assert_string_equal(checkpoint_at(narrow, 0)->name, "module.a");
}

DIRECTORY_TEST(test_a_torch_file_of_an_unusual_name_gets_a_usual_one)
{
    write_torch(directory, "x.weights", "", 1, (const char *[]){"a"});
    OWNED(checkpoint) *dense = open_in(directory, "x.weights");
    checkpoint_close(rewrite(directory, dense, NULL, "x.pth"));
}

DIRECTORY_TEST(test_a_torch_file_becomes_safetensors)
{
    write_torch(directory, "x.pth", "model", 2, (const char *[]){"a", "b"});
    OWNED(checkpoint) *dense = open_in(directory, "x.pth");
    checkpoint *narrow =
        rewrite(directory, dense, &weights_format_safetensors, CHECKPOINT_SINGLE_NAME);
    assert_ptr_equal(checkpoint_format(narrow), &weights_format_safetensors);
    checkpoint_close(narrow);
}

DIRECTORY_TEST(test_shards_become_one_torch_file)
{
    write_two_shards(directory);
    OPENED(checkpoint, dense, checkpoint_open(directory, &dense));
    OWNED(checkpoint) *narrow = rewrite(directory, dense, &weights_format_torch, "model.pth");
    assert_ptr_equal(checkpoint_format(narrow), &weights_format_torch);
    assert_false(checkpoint_is_sharded(narrow));
}

static void assert_written(const checkpoint *like, const weights_format *format, int count,
                           const char *const names[])
{
    assert_int_equal(checkpoint_written_count(like, format), count);
    for (int i = 0; i < count; i++) {
        OPENED(char, name, checkpoint_written_name(like, format, i, &name));
        assert_string_equal(name, names[i]);
    }
}

DIRECTORY_TEST(test_the_names_of_what_is_written_are_known)
{
    OWNED(narrowing) n = {0};
    open_narrowing(directory, &n);
    assert_written(n.dense, NULL, 3, narrow_names);
    assert_written(n.dense, &weights_format_torch, 1, (const char *[]){"model.pth"});
}

DIRECTORY_TEST(test_tensors_may_be_left_out_or_get_other_names)
{
    OWNED(narrowing) n = {0};
    checkpoint_writer *writer = NULL;
    char found[2] = "";
    int64_t total = 0;
    open_narrowing(directory, &n);
    n.shapes[0].name = NULL;
    n.shapes[1].name = "a";
    n.shapes[2].name = NULL; /* its file has no tensor left */
    assert_ok(checkpoint_writer_open(n.directory, n.dense, NULL, n.shapes, LAYOUT_NEW, &writer));
    assert_ok(checkpoint_writer_put(writer, "b", "bb", 2));
    assert_ok(checkpoint_writer_get(writer, "b", found, 2));
    assert_memory_equal(found, "bb", 2);
    assert_fails(checkpoint_writer_put(writer, "a", "a", 1), GRAIL_ERROR_ARGUMENT,
                 "no tensor 'a' to write");
    assert_ok(checkpoint_writer_seal(writer));
    checkpoint_writer_close(writer);
    OPENED(json_t, index, checkpoint_written_index(n.dense, n.shapes, &index));
    assert_ok(
        json_require_integer("index", json_object_get(index, "metadata"), "total_size", &total));
    assert_int_equal(total, 2);
    OPENED(char, path, path_join(&path, n.directory, CHECKPOINT_INDEX_NAME));
    assert_int_equal(json_dump_file(index, path, 0), 0);
    OPENED(checkpoint, narrow, checkpoint_open(n.directory, &narrow));
    assert_int_equal(checkpoint_count(narrow), 1);
    assert_memory_equal(checkpoint_find(narrow, "a")->data, "bb", 2);
}

DIRECTORY_TEST(test_existing_output_is_left_alone)
{
    OWNED(narrowing) n = {0};
    checkpoint_writer *writer = NULL;
    open_narrowing(directory, &n);
    write_text(n.directory, "model-00002-of-00002.safetensors", "precious");
    assert_fails(checkpoint_writer_open(n.directory, n.dense, NULL, n.shapes, LAYOUT_NEW, &writer),
                 GRAIL_ERROR_EXISTS, "model-00002-of-00002.safetensors' already exists");
    assert_null(writer);
    OPENED(char, path, path_join(&path, n.directory, "model-00002-of-00002.safetensors"));
    assert_true(file_exists(path));
}

DIRECTORY_TEST(test_what_is_continued_is_read_back_and_left_alone_where_it_differs)
{
    OWNED(narrowing) n = {0};
    checkpoint_writer *writer = NULL;
    char found[3] = "";
    open_narrowing(directory, &n);
    assert_ok(write_narrow(&n));
    assert_ok(
        checkpoint_writer_open(n.directory, n.dense, NULL, n.shapes, LAYOUT_CONTINUED, &writer));
    assert_ok(checkpoint_writer_get(writer, "c", found, 3));
    assert_memory_equal(found, "ccc", 3);
    assert_fails(checkpoint_writer_get(writer, "d", found, 3), GRAIL_ERROR_ARGUMENT, "tensor 'd'");
    checkpoint_writer_close(writer);
    writer = NULL;
    n.shapes[2].shape[0] = 9;
    assert_fails(
        checkpoint_writer_open(n.directory, n.dense, NULL, n.shapes, LAYOUT_CONTINUED, &writer),
        GRAIL_ERROR_EXISTS, "model-00002-of-00002.safetensors");
    assert_null(writer);
}

DIRECTORY_TEST(test_a_full_disk_shows_when_it_is_laid_out)
{
    OWNED(narrowing) n = {0};
    struct rlimit before;
    open_narrowing(directory, &n);
    n.shapes[2].shape[0] = 1 << 20;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = before;
    small.rlim_cur = 1 << 16;
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const grail_status status = write_narrow(&n);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, previous);
    assert_fails(status, GRAIL_ERROR_SPACE, "model-00002-of-00002.safetensors");
}

DIRECTORY_TEST(test_every_failing_allocation_while_writing_is_reported)
{
    OWNED(narrowing) n = {0};
    open_narrowing(directory, &n);
    support_fail_each_allocation(write_narrow, &n);
}

static void refuses_file(const char *directory, const char *file, const char *text)
{
    checkpoint *c = NULL;
    OPENED(char, path, path_join(&path, directory, file));
    assert_fails(checkpoint_open(path, &c), GRAIL_ERROR_ARGUMENT, text);
}

DIRECTORY_TEST(a_shard_alone_is_refused_with_the_directory_to_give)
{
    static const char *const names[] = {"one", "two"};
    write_shard(directory, "first.safetensors", 2, names);
    write_text(directory, CHECKPOINT_INDEX_NAME,
               "{\"weight_map\": {\"one\": \"first.safetensors\"}}");
    refuses_file(
        directory, "first.safetensors",
        "is one of the shards that model.safetensors.index.json lists; give the directory");
    refuses_file(directory, CHECKPOINT_INDEX_NAME, "is an index of shards; give the directory");
}

DIRECTORY_TEST(a_file_that_no_index_lists_is_opened)
{
    static const char *const names[] = {"one", "two"};
    write_shard(directory, "other.safetensors", 2, names);
    write_text(directory, CHECKPOINT_INDEX_NAME,
               "{\"weight_map\": {\"one\": \"first.safetensors\"}}");
    OPENED(char, path, path_join(&path, directory, "other.safetensors"));
    OPENED(checkpoint, c, checkpoint_open(path, &c));
    assert_int_equal(checkpoint_count(c), 2);
}

CMFixtureFunction support_setup = json_memory_use;
