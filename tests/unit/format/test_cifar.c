/* CIFAR-10 batches: what the files hold, and which are refused. */
#include "support/support.h"

#include "format/cifar.h"

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

static void test_records_become_labels_and_planes(void **state)
{
    (void)state;
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

static void test_a_size_that_is_not_whole_records_is_refused(void **state)
{
    (void)state;
    unsigned char *bytes = make_records(2);
    cifar_batch batch = {0};
    assert_fails(cifar_batch_read("b.bin", bytes, 2 * RECORD - 1, &batch), GRAIL_ERROR_FORMAT,
                 "b.bin: has 6145 bytes, expected a multiple of 3073");
    assert_fails(cifar_batch_read("b.bin", bytes, 0, &batch), GRAIL_ERROR_FORMAT, "has 0 bytes");
    memory_free(bytes);
}

static void test_a_label_above_9_is_refused_by_record(void **state)
{
    (void)state;
    unsigned char *bytes = make_records(5);
    cifar_batch batch = {0};
    bytes[3 * RECORD] = 10;
    assert_fails(cifar_batch_read("b.bin", bytes, 5 * RECORD, &batch), GRAIL_ERROR_FORMAT,
                 "b.bin: record 3 has label 10, expected 0 to 9");
    memory_free(bytes);
}

static void test_a_directory_gives_the_batches_of_a_split_in_order(void **state)
{
    (void)state;
    char *directory = support_temporary_directory();
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
    support_remove_tree(directory);
    memory_free(directory);
}

static void test_one_file_is_opened_alone(void **state)
{
    (void)state;
    char *directory = support_temporary_directory();
    char *path = NULL;
    write_batch(directory, "any.bin", 3);
    assert_ok(path_join(&path, directory, "any.bin"));
    cifar_set set = {0};
    assert_true(recognised(path));
    assert_ok(cifar_open(path, NULL, &set));
    assert_int_equal(set.count, 3);
    cifar_close(&set);
    assert_fails(cifar_open(path, "test", &set), GRAIL_ERROR_ARGUMENT, "has no split 'test'");
    memory_free(path);
    support_remove_tree(directory);
    memory_free(directory);
}

static void test_a_split_that_is_absent_or_unknown_is_refused(void **state)
{
    (void)state;
    char *directory = support_temporary_directory();
    cifar_set set = {0};
    assert_false(recognised(directory));
    write_batch(directory, "test_batch.bin", 1);
    assert_fails(cifar_open(directory, "train", &set), GRAIL_ERROR_IO,
                 "has no batch of the split 'train'");
    assert_fails(cifar_open(directory, "val", &set), GRAIL_ERROR_ARGUMENT,
                 "split 'val' is not known; there are train and test");
    support_remove_tree(directory);
    memory_free(directory);
}

static grail_status open_and_close(void *context)
{
    cifar_set set = {0};
    const grail_status status = cifar_open(context, "train", &set);
    cifar_close(&set);
    return status;
}

static void test_failed_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    char *directory = support_temporary_directory();
    write_batch(directory, "data_batch_1.bin", 1);
    write_batch(directory, "data_batch_2.bin", 1);
    support_fail_each_allocation(open_and_close, directory);
    support_remove_tree(directory);
    memory_free(directory);
}

static void test_the_shared_batches_are_whole(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_become_labels_and_planes),
        cmocka_unit_test(test_a_size_that_is_not_whole_records_is_refused),
        cmocka_unit_test(test_a_label_above_9_is_refused_by_record),
        cmocka_unit_test(test_a_directory_gives_the_batches_of_a_split_in_order),
        cmocka_unit_test(test_one_file_is_opened_alone),
        cmocka_unit_test(test_a_split_that_is_absent_or_unknown_is_refused),
        cmocka_unit_test(test_failed_allocations_leave_nothing_behind),
        cmocka_unit_test(test_the_shared_batches_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
