/* Torch checkpoints written: read back by us and, where it is installed, by torch itself. */
#include "support/place.h"
#include "support/support.h"

#include "base/bytes.h"
#include "base/file.h"
#include "format/torch/torch_file.h"
#include "format/torch/zip.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

enum { TENSORS = 5, LARGEST = 256 };

/* The tensors that are written; every byte of tensor i is computed from i and the byte's place. */
static const tensor_view tensors[TENSORS] = {
    {.name = "conv.weight", .dtype = GRAIL_DTYPE_F32, .rank = 2, .shape = {3, 20}, .bytes = 240},
    {.name = "bn.num_batches_tracked", .dtype = GRAIL_DTYPE_I64, .rank = 0, .bytes = 8},
    {.name = "a \xc3\xa9", .dtype = GRAIL_DTYPE_U8, .rank = 1, .shape = {7}, .bytes = 7},
    {.name = "none", .dtype = GRAIL_DTYPE_F16, .rank = 2, .shape = {0, 4}},
    {.name = "bf", .dtype = GRAIL_DTYPE_BF16, .rank = 3, .shape = {2, 1, 3}, .bytes = 12},
};

static int make_place(void **state)
{
    return support_place_open(state, "x.pth");
}

static void fill(int tensor, unsigned char bytes[LARGEST])
{
    for (int i = 0; i < LARGEST; i++) {
        bytes[i] = (unsigned char)(16 * tensor + i % 16);
    }
}

static grail_status put(tensor_writer *writer, int i)
{
    unsigned char bytes[LARGEST];
    fill(i, bytes);
    return tensor_writer_put(writer, tensors[i].name, bytes, tensors[i].bytes);
}

static void write_all(const char *path, const char *wrapper)
{
    OWNED(tensor_writer) *writer = NULL;
    assert_ok(torch_writer_open(path, wrapper, TENSORS, tensors, LAYOUT_NEW, &writer));
    for (int i = TENSORS; i-- > 0;) {
        assert_ok(put(writer, i));
    }
    assert_ok(tensor_writer_seal(writer));
}

static void check_all(const char *path, const char *wrapper)
{
    OPENED(tensor_file, file, torch_file_open(path, &file));
    assert_string_equal(file->wrapper, wrapper);
    assert_int_equal(file->count, TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        unsigned char bytes[LARGEST];
        const tensor_view *view = &file->tensors[i];
        fill(i, bytes);
        assert_string_equal(view->name, tensors[i].name);
        assert_int_equal(view->dtype, tensors[i].dtype);
        assert_int_equal(view->rank, tensors[i].rank);
        assert_memory_equal(view->shape, tensors[i].shape, sizeof view->shape);
        assert_int_equal(view->bytes, tensors[i].bytes);
        assert_memory_equal(view->data, bytes, view->bytes);
    }
}

static void test_what_is_written_is_read_back_in_order(void **state)
{
    const place *p = *state;
    write_all(p->path, "");
    check_all(p->path, "");
}

static void test_the_wrapper_is_kept(void **state)
{
    const place *p = *state;
    write_all(p->path, "state_dict");
    check_all(p->path, "state_dict");
}

static void test_members_have_checksums_and_stand_at_multiples_of_64(void **state)
{
    const place *p = *state;
    OWNED(file_map) map = {0};
    zip_reader *zip = NULL;
    write_all(p->path, "");
    assert_ok(file_map_open(&map, p->path));
    assert_ok(zip_reader_open(map.data, map.size, &zip));
    assert_non_null(zip_reader_find(zip, "archive/version"));
    assert_int_equal(zip->count, TENSORS + 3);
    for (int64_t i = 0; i < zip->count; i++) {
        const zip_member *member = &zip->members[i];
        assert_int_equal(member->offset % 64, 0);
        assert_int_equal(load_little(map.data + member->header + 14, 4),
                         crc32_z(0, map.data + member->offset, member->size));
    }
    zip_reader_close(zip);
}

/* Dtypes without a storage class are written as newer torch does. */
static void test_8_bit_floats_are_read_back(void **state)
{
    const place *p = *state;
    tensor_writer *writer = NULL;
    tensor_file *file = NULL;
    const tensor_view tensor = {
        .name = "x", .dtype = GRAIL_DTYPE_F8_E4M3, .rank = 1, .shape = {300}};
    assert_ok(torch_writer_open(p->path, "", 1, &tensor, LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    assert_ok(torch_file_open(p->path, &file));
    assert_int_equal(file->tensors[0].dtype, GRAIL_DTYPE_F8_E4M3);
    assert_int_equal(file->tensors[0].shape[0], 300);
    tensor_file_close(file);
}

static void test_an_interrupted_file_is_continued(void **state)
{
    const place *p = *state;
    tensor_writer *writer = NULL;
    tensor_file *file = NULL;
    unsigned char expected[LARGEST];
    unsigned char found[LARGEST];
    assert_ok(torch_writer_open(p->path, "", TENSORS, tensors, LAYOUT_NEW, &writer));
    for (int i = 0; i < 3; i++) {
        assert_ok(put(writer, i));
    }
    assert_ok(tensor_writer_flush(writer));
    tensor_writer_close(writer);
    assert_fails(torch_file_open(p->path, &file), GRAIL_ERROR_FORMAT, p->path);
    assert_ok(torch_writer_open(p->path, "", TENSORS, tensors, LAYOUT_CONTINUED, &writer));
    fill(1, expected);
    assert_ok(tensor_writer_get(writer, tensors[1].name, found, tensors[1].bytes));
    assert_memory_equal(found, expected, tensors[1].bytes);
    for (int i = 2; i < TENSORS; i++) {
        assert_ok(put(writer, i));
    }
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    check_all(p->path, "");
}

static void test_another_layout_is_not_continued(void **state)
{
    const place *p = *state;
    tensor_writer *writer = NULL;
    write_all(p->path, "");
    assert_fails(torch_writer_open(p->path, "model", TENSORS, tensors, LAYOUT_CONTINUED, &writer),
                 GRAIL_ERROR_EXISTS,
                 "it is damaged, or was prepared for other tensors; remove it to start anew");
    assert_fails(torch_writer_open(p->path, "", TENSORS - 1, tensors, LAYOUT_CONTINUED, &writer),
                 GRAIL_ERROR_EXISTS,
                 "it is damaged, or was prepared for other tensors; remove it to start anew");
    assert_fails(torch_writer_open(p->path, "", TENSORS, tensors, LAYOUT_NEW, &writer),
                 GRAIL_ERROR_EXISTS, "already exists");
    assert_null(writer);
    check_all(p->path, "");
}

static void test_a_file_of_another_size_is_not_continued(void **state)
{
    const place *p = *state;
    tensor_writer *writer = NULL;
    write_all(p->path, "");
    FILE *file = fopen(p->path, "ab");
    assert_non_null(file);
    assert_int_equal(fputc(0, file), 0);
    assert_int_equal(fclose(file), 0);
    assert_fails(torch_writer_open(p->path, "", TENSORS, tensors, LAYOUT_CONTINUED, &writer),
                 GRAIL_ERROR_EXISTS,
                 "it is damaged, or was prepared for other tensors; remove it to start anew");
}

static void refuse_tensor(const place *p, tensor_view tensor, grail_status code, const char *text)
{
    tensor_writer *writer = NULL;
    assert_fails(torch_writer_open(p->path, "", 1, &tensor, LAYOUT_NEW, &writer), code, text);
    assert_null(writer);
    assert_false(file_exists(p->path));
}

static void test_tensors_that_torch_cannot_hold_are_refused(void **state)
{
    const place *p = *state;
    refuse_tensor(p, (tensor_view){.name = "x", .dtype = GRAIL_DTYPE_F4, .rank = 1, .shape = {2}},
                  GRAIL_ERROR_UNSUPPORTED, "x.pth: tensor 'x': torch has no dtype for F4");
    refuse_tensor(p, (tensor_view){.name = "\xff", .dtype = GRAIL_DTYPE_U8}, GRAIL_ERROR_ARGUMENT,
                  "is not UTF-8");
    refuse_tensor(p, (tensor_view){.name = "x", .rank = 9}, GRAIL_ERROR_ARGUMENT, "rank 9");
    refuse_tensor(
        p, (tensor_view){.name = "x", .dtype = GRAIL_DTYPE_F32, .rank = 2, .shape = {INT64_MAX, 2}},
        GRAIL_ERROR_ARGUMENT, "do not fill their last byte, or take 2^61 bytes or more");
}

static void test_duplicate_names_are_refused(void **state)
{
    const place *p = *state;
    tensor_writer *writer = NULL;
    const tensor_view twice[] = {tensors[0], tensors[0]};
    assert_fails(torch_writer_open(p->path, "", 2, twice, LAYOUT_NEW, &writer),
                 GRAIL_ERROR_ARGUMENT, "tensor 'conv.weight' is given twice");
}

static void test_only_what_was_laid_out_is_written_and_once(void **state)
{
    const place *p = *state;
    OWNED(tensor_writer) *writer = NULL;
    assert_ok(torch_writer_open(p->path, "", TENSORS, tensors, LAYOUT_NEW, &writer));
    assert_ok(put(writer, 1));
    assert_fails(put(writer, 1), GRAIL_ERROR_ARGUMENT, "is written a second time");
    assert_fails(tensor_writer_put(writer, "bf", "", 1), GRAIL_ERROR_SHAPE,
                 "tensor 'bf' takes 12 bytes, but 1 are given");
    assert_fails(tensor_writer_put(writer, "other", "", 1), GRAIL_ERROR_ARGUMENT,
                 "has no place for a tensor 'other'");
}

static void test_a_full_disk_leaves_nothing(void **state)
{
    const place *p = *state;
    tensor_writer *writer = NULL;
    struct rlimit before;
    const tensor_view large = {.name = "x", .dtype = GRAIL_DTYPE_U8, .rank = 1, .shape = {1 << 20}};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = before;
    small.rlim_cur = 1 << 16;
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const grail_status status = torch_writer_open(p->path, "", 1, &large, LAYOUT_NEW, &writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, previous);
    assert_fails(status, GRAIL_ERROR_SPACE, "x.pth");
    assert_int_equal(rmdir(p->directory), 0);
}

static grail_status write_any(void *context)
{
    const place *p = context;
    OWNED(tensor_writer) *writer = NULL;
    unlink(p->path);
    grail_status status =
        torch_writer_open(p->path, "model", TENSORS, tensors, LAYOUT_NEW, &writer);
    if (status == GRAIL_OK) {
        status = put(writer, 0);
    }
    return status;
}

static void test_every_failing_allocation_is_reported(void **state)
{
    support_fail_each_allocation(write_any, *state);
}

/* The bytes are those of fill(). */
static const char loader[] =
    "import sys, torch\n"
    "found = torch.load(sys.argv[1], weights_only=True)['state_dict']\n"
    "expected = {'conv.weight': (torch.float32, (3, 20), 240),\n"
    "            'bn.num_batches_tracked': (torch.int64, (), 8),\n"
    "            'a \\u00e9': (torch.uint8, (7,), 7), 'none': (torch.float16, (0, 4), 0),\n"
    "            'bf': (torch.bfloat16, (2, 1, 3), 12)}\n"
    "assert list(found) == list(expected), list(found)\n"
    "for i, (name, (dtype, shape, size)) in enumerate(expected.items()):\n"
    "    tensor = found[name]\n"
    "    assert (tensor.dtype, tuple(tensor.shape)) == (dtype, shape), name\n"
    "    data = tensor.reshape(-1).view(torch.uint8) if shape else tensor.reshape(1)\n"
    "    data = bytes(data.contiguous().numpy().tobytes())\n"
    "    assert data == bytes(16 * i + k % 16 for k in range(size)), name\n";

/* $GRAIL_TORCH_PYTHON names a Python with torch where that of the path has none. */
static void test_torch_loads_it_with_weights_only(void **state)
{
    const place *p = *state;
    const char *python = getenv("GRAIL_TORCH_PYTHON");
    char *command = NULL;
    python = python == NULL ? "python3" : python;
    assert_ok(memory_format(&command, "'%s' -c 'import torch' 2>/dev/null", python));
    const bool has_torch = system(command) == 0;
    memory_free(command);
    if (!has_torch) {
        printf("skipped: %s has no torch\n", __func__);
        skip();
    }
    write_all(p->path, "state_dict");
    support_write_file(p->directory, "load.py", loader, strlen(loader));
    assert_ok(memory_format(&command, "'%s' '%s/load.py' '%s'", python, p->directory, p->path));
    assert_int_equal(system(command), 0);
    memory_free(command);
}

#define in_place(test) cmocka_unit_test_setup_teardown(test, make_place, support_place_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_place(test_what_is_written_is_read_back_in_order),
        in_place(test_the_wrapper_is_kept),
        in_place(test_members_have_checksums_and_stand_at_multiples_of_64),
        in_place(test_8_bit_floats_are_read_back),
        in_place(test_an_interrupted_file_is_continued),
        in_place(test_another_layout_is_not_continued),
        in_place(test_a_file_of_another_size_is_not_continued),
        in_place(test_tensors_that_torch_cannot_hold_are_refused),
        in_place(test_duplicate_names_are_refused),
        in_place(test_only_what_was_laid_out_is_written_and_once),
        in_place(test_a_full_disk_leaves_nothing),
        in_place(test_every_failing_allocation_is_reported),
        in_place(test_torch_loads_it_with_weights_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
