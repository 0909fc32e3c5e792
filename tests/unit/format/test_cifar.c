/* CIFAR-10 batches: what the files hold, and which are refused. */
#include "support/support.h"

#include "format/images/cifar.h"

#include <stdio.h>
#include <string.h>

enum { RECORD = 1 + CIFAR_BYTES };

/* `count` records: label i % 10, then bytes that tell image and place apart. */
static unsigned char *make_records(int64_t count)
{
    unsigned char *bytes = NULL;
    assert_ok(memory_new(&bytes, (size_t)count, RECORD));
    for (int64_t i = 0; i < count; i++) {
        unsigned char *record = bytes + i * RECORD;
        record[0] = (unsigned char)(i % CIFAR_CLASSES);
        for (int64_t p = 0; p < CIFAR_BYTES; p++) {
            record[1 + p] = (unsigned char)(7 * i + p);
        }
    }
    return bytes;
}

static void write_batch(const char *directory, const char *name, int64_t count)
{
    unsigned char *bytes = make_records(count);
    support_write_file(directory, name, bytes, (size_t)count * RECORD);
    memory_free(bytes);
}

static bool recognised(const char *path)
{
    bool found = false;
    assert_ok(cifar_recognise(path, &found));
    return found;
}

TEST(test_records_become_labels_and_planes)
{
    unsigned char *bytes = make_records(12);
    cifar_batch batch = {0};
    assert_ok(cifar_batch_read("b.bin", bytes, 12 * RECORD, &batch));
    assert_int_equal(batch.count, 12);
    for (int64_t i = 0; i < 12; i++) {
        assert_int_equal(batch.labels[i], i % 10);
        assert_memory_equal(batch.pixels + (size_t)i * batch.stride, bytes + i * RECORD + 1,
                            CIFAR_BYTES);
    }
    cifar_batch_close(&batch);
    memory_free(bytes);
}

TEST(test_a_size_that_is_not_whole_records_is_refused)
{
    unsigned char *bytes = make_records(2);
    cifar_batch batch = {0};
    assert_fails(cifar_batch_read("b.bin", bytes, 2 * RECORD - 1, &batch), GRAIL_ERROR_FORMAT,
                 "b.bin: has 6145 bytes, expected a multiple of 3073");
    assert_fails(cifar_batch_read("b.bin", bytes, 0, &batch), GRAIL_ERROR_FORMAT, "has 0 bytes");
    memory_free(bytes);
}

TEST(test_a_label_above_9_is_refused_by_record)
{
    unsigned char *bytes = make_records(5);
    cifar_batch batch = {0};
    bytes[3 * RECORD] = 10;
    assert_fails(cifar_batch_read("b.bin", bytes, 5 * RECORD, &batch), GRAIL_ERROR_FORMAT,
                 "b.bin: record 3 has label 10, expected 0 to 9");
    memory_free(bytes);
}

DIRECTORY_TEST(test_a_directory_gives_the_batches_of_a_split_in_order)
{
    write_batch(directory, "data_batch_1.bin", 3);
    write_batch(directory, "data_batch_2.bin", 2);
    write_batch(directory, "test_batch.bin", 4);
    cifar_set set = {0};
    assert_true(recognised(directory));
    assert_ok(cifar_open(directory, "train", &set));
    assert_int_equal(set.count, 5);
    int64_t index = -1;
    assert_ptr_equal(cifar_find(&set, 3, &index), &set.batches[1]);
    assert_int_equal(index, 0);
    assert_non_null(strstr(set.batches[1].path, "data_batch_2.bin"));
    cifar_close(&set);
    assert_ok(cifar_open(directory, NULL, &set));
    assert_int_equal(set.count, 4);
    cifar_close(&set);
}

DIRECTORY_TEST(test_one_file_is_opened_alone)
{
    write_batch(directory, "any.bin", 3);
    OPENED(char, path, path_join(&path, directory, "any.bin"));
    cifar_set set = {0};
    assert_true(recognised(path));
    assert_ok(cifar_open(path, NULL, &set));
    assert_int_equal(set.count, 3);
    cifar_close(&set);
    assert_fails(cifar_open(path, "test", &set), GRAIL_ERROR_ARGUMENT, "has no split 'test'");
}

DIRECTORY_TEST(test_a_split_that_is_absent_or_unknown_is_refused)
{
    cifar_set set = {0};
    assert_false(recognised(directory));
    write_batch(directory, "test_batch.bin", 1);
    assert_fails(cifar_open(directory, "train", &set), GRAIL_ERROR_IO,
                 "holds no batch of the split 'train'; try the split");
}

static void append(buffer *out, const char *bytes, size_t size)
{
    assert_ok(buffer_append(out, bytes, size));
}

/* A string literal without its terminator; it may hold zero bytes. */
#define APPEND(out, literal) append((out), (literal), sizeof(literal) - 1)

/* What Python 2 wrote: {"labels": [...], "data": a numpy array [rows, 3072]}, its bytes 5 i mod
 * 251. */
static buffer make_array_pickle(const char *labels, size_t labels_size, char rows,
                                const char *dtype, int bytes)
{
    buffer out = {.maximum = 1 << 20};
    const unsigned char size[] = {(unsigned char)bytes, (unsigned char)(bytes >> 8), 0, 0};
    APPEND(&out, "\x80\x02}q\x01(U\x06labels](");
    append(&out, labels, labels_size);
    APPEND(&out, "eU\x04"
                 "data");
    APPEND(&out, "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01"
                 "b\x87R(K\x01K");
    append(&out, &rows, 1);
    APPEND(&out, "M\x00\x0c\x86"
                 "cnumpy\ndtype\nU\x02");
    append(&out, dtype, 2);
    APPEND(&out, "K\x00K\x01\x87R");
    APPEND(&out, "(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T");
    append(&out, (const char *)size, sizeof size);
    for (int i = 0; i < bytes; i++) {
        const char byte = (char)(5 * i % 251);
        append(&out, &byte, 1);
    }
    APPEND(&out, "tbu.");
    return out;
}

/* Two images. */
static buffer make_pickle(const char *labels, size_t labels_size)
{
    return make_array_pickle(labels, labels_size, 2, "u1", 2 * CIFAR_BYTES);
}

TEST(test_a_python_batch_is_read_in_place)
{
    OWNED(buffer) bytes = make_pickle("K\x09K\x02", 4);
    cifar_batch batch = {0};
    assert_ok(cifar_batch_read("test_batch", bytes.bytes, bytes.size, &batch));
    assert_int_equal(batch.count, 2);
    assert_int_equal(batch.labels[0], 9);
    assert_int_equal(batch.labels[1], 2);
    for (int i = 0; i < CIFAR_BYTES; i++) {
        assert_int_equal((batch.pixels + batch.stride)[i], 5 * (CIFAR_BYTES + i) % 251);
    }
    cifar_batch_close(&batch);
}

/* Takes over the bytes. */
static void refuse_bytes(buffer bytes, const char *text)
{
    cifar_batch batch = {0};
    assert_fails(cifar_batch_read("test_batch", bytes.bytes, bytes.size, &batch),
                 GRAIL_ERROR_FORMAT, text);
    buffer_fini(&bytes);
}

static void refuse_pickle(const char *labels, size_t size, const char *text)
{
    refuse_bytes(make_pickle(labels, size), text);
}

TEST(test_arrays_that_are_not_images_of_bytes_are_refused)
{
    static const char text[] =
        "test_batch: 'data' is not an array of bytes with the shape [images, 3072]";
    refuse_bytes(make_array_pickle("K\x01", 2, 1, "i1", CIFAR_BYTES), text);
    refuse_bytes(make_array_pickle("K\x01", 2, 1, "u2", 2 * CIFAR_BYTES), text);
    refuse_bytes(make_array_pickle("", 0, 0, "u1", 0), text);
}

TEST(test_python_batches_with_wrong_labels_are_refused)
{
    refuse_pickle("K\x01K\x0a", 4, "test_batch: record 1 has label 10");
    refuse_pickle("K\x01J\xff\xff\xff\xff", 7, "record 1 has label -1, expected 0 to 9");
    refuse_pickle("K\x01M\x01\x01", 5, "record 1 has label 257");
    refuse_pickle("K\x01", 2, "has 1 'labels' for 2 images");
    refuse_pickle("K\x01U\x01"
                  "b",
                  5, "'labels' holds");
}

TEST(test_a_pickle_of_something_else_is_refused)
{
    static const char empty[] = "\x80\x02}.";
    static const char wrong[] = "\x80\x02}(U\x06labels]U\x04"
                                "data]u.";
    static const char cut[] = "\x80\x02}(U\x06lab";
    cifar_batch batch = {0};
    assert_fails(cifar_batch_read("b", empty, sizeof empty - 1, &batch), GRAIL_ERROR_FORMAT,
                 "b: is not a CIFAR-10 batch: it holds a dict without 'data' and 'labels'");
    assert_fails(cifar_batch_read("b", wrong, sizeof wrong - 1, &batch), GRAIL_ERROR_FORMAT, "b: ");
    assert_fails(cifar_batch_read("b", cut, sizeof cut - 1, &batch), GRAIL_ERROR_FORMAT, "b: ");
}

DIRECTORY_TEST(test_the_python_version_is_found_by_its_names)
{
    OWNED(buffer) bytes = make_pickle("K\x09K\x02", 4);
    cifar_set set = {0};
    support_write_file(directory, "data_batch_1", bytes.bytes, bytes.size);
    support_write_file(directory, "data_batch_2", bytes.bytes, bytes.size);
    assert_true(recognised(directory));
    assert_ok(cifar_open(directory, "train", &set));
    assert_int_equal(set.count, 4);
    cifar_close(&set);
}

static grail_status open_and_close(void *context)
{
    cifar_set set = {0};
    const grail_status status = cifar_open(context, "train", &set);
    cifar_close(&set);
    return status;
}

TEST(test_failed_allocations_leave_nothing_behind)
{
    char *directory = support_temporary_directory();
    write_batch(directory, "data_batch_1.bin", 1);
    write_batch(directory, "data_batch_2.bin", 1);
    support_fail_each_allocation(open_and_close, directory);
    support_remove_tree(directory);
    memory_free(directory);
    directory = support_temporary_directory();
    buffer bytes = make_pickle("K\x09K\x02", 4);
    support_write_file(directory, "data_batch_1", bytes.bytes, bytes.size);
    buffer_fini(&bytes);
    support_fail_each_allocation(open_and_close, directory);
    support_remove_tree(directory);
    memory_free(directory);
}

TEST(test_the_shared_batches_are_whole)
{
    const char *directory = support_shared_data("cifar-10-batches-bin");
    if (directory == NULL) {
        printf("skipped: test_the_shared_batches_are_whole\n");
        skip();
    }
    cifar_set set = {0};
    int64_t counts[CIFAR_CLASSES] = {0};
    assert_ok(cifar_open(directory, "test", &set));
    assert_int_equal(set.count, 10000);
    for (int64_t i = 0; i < set.count; i++) {
        counts[set.batches[0].labels[i]]++;
    }
    for (int c = 0; c < CIFAR_CLASSES; c++) {
        assert_int_equal(counts[c], 1000);
    }
    cifar_close(&set);
}
