/* Files: maps, whole reads, atomic writes, and errors that name the path. */
#include "support/support.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct place {
    char *directory;
    char *path;
} place;

static int open_place(void **state)
{
    place *p = NULL;
    assert_ok(memory_new(&p, 1, sizeof *p));
    p->directory = support_temporary_directory();
    assert_ok(path_join(&p->path, p->directory, "file"));
    *state = p;
    return 0;
}

static int close_place(void **state)
{
    place *p = *state;
    support_remove_tree(p->directory);
    memory_free(p->directory);
    memory_free(p->path);
    memory_free(p);
    return 0;
}

static void assert_contents(const char *path, const char *expected)
{
    buffer bytes = {0};
    assert_ok(file_read(path, 1 << 20, &bytes));
    assert_string_equal((const char *)bytes.bytes, expected);
    buffer_fini(&bytes);
}

static void test_a_map_shows_the_bytes(void **state)
{
    const place *p = *state;
    file_map map = {0};
    support_write_file(p->directory, "file", "contents", 8);
    assert_ok(file_map_open(&map, p->path));
    assert_int_equal(map.size, 8);
    assert_memory_equal(map.data, "contents", 8);
    file_map_close(&map);
    assert_null(map.data);
    file_map_close(&map);
}

static void test_an_empty_file_maps_to_nothing(void **state)
{
    const place *p = *state;
    file_map map = {0};
    support_write_file(p->directory, "file", "", 0);
    assert_ok(file_map_open(&map, p->path));
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    file_map_release(&map, 0, 0);
    file_map_close(&map);
}

static void test_released_parts_of_a_map_keep_their_bytes(void **state)
{
    const place *p = *state;
    enum { SIZE = 100000 };
    static unsigned char bytes[SIZE];
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (unsigned char)(i % 251);
    }
    file_map map = {0};
    support_write_file(p->directory, "file", bytes, SIZE);
    assert_ok(file_map_open(&map, p->path));
    assert_memory_equal(map.data, bytes, SIZE);
    file_map_release(&map, 5, 60000);
    file_map_release(&map, 0, SIZE);
    file_map_release(&map, 17, 3);
    assert_memory_equal(map.data, bytes, SIZE);
    file_map_close(&map);
}

static void test_what_is_not_a_regular_file_is_refused(void **state)
{
    const place *p = *state;
    file_map map = {0};
    buffer bytes = {0};
    assert_fails(file_map_open(&map, p->path), GRAIL_ERROR_IO, p->path);
    assert_fails(file_map_open(&map, p->directory), GRAIL_ERROR_IO, "not a regular file");
    assert_fails(file_read("/dev/zero", 100, &bytes), GRAIL_ERROR_IO, "not a regular file");
    assert_int_equal(mkfifo(p->path, 0600), 0);
    assert_fails(file_read(p->path, 100, &bytes), GRAIL_ERROR_IO, "not a regular file");
}

static void test_reads_append_up_to_the_maximum(void **state)
{
    const place *p = *state;
    buffer bytes = {.maximum = 100};
    support_write_file(p->directory, "file", "12345", 5);
    assert_ok(buffer_append_string(&bytes, "> "));
    assert_ok(file_read(p->path, 5, &bytes));
    assert_string_equal((const char *)bytes.bytes, "> 12345");
    assert_fails(file_read(p->path, 4, &bytes), GRAIL_ERROR_FORMAT,
                 "has 5 bytes, more than the allowed 4");
    buffer_fini(&bytes);
}

static void test_atomic_writes_replace_the_file_and_leave_nothing_else(void **state)
{
    const place *p = *state;
    assert_ok(file_write_atomic(p->path, "first", 5));
    assert_contents(p->path, "first");
    assert_ok(file_write_atomic(p->path, "2", 1));
    assert_contents(p->path, "2");
    assert_int_equal(unlink(p->path), 0);
    assert_int_equal(rmdir(p->directory), 0);
}

static void test_a_full_disk_keeps_the_old_contents(void **state)
{
    const place *p = *state;
    static const char large[1 << 17];
    struct rlimit before;
    assert_ok(file_write_atomic(p->path, "old", 3));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = before;
    small.rlim_cur = 1 << 16;
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const grail_status status = file_write_atomic(p->path, large, sizeof large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, previous);
    assert_fails(status, GRAIL_ERROR_SPACE, "cannot write");
    assert_contents(p->path, "old");
    assert_int_equal(unlink(p->path), 0);
    assert_int_equal(rmdir(p->directory), 0);
}

static void test_a_full_device_is_no_space(void **state)
{
    (void)state;
    const int descriptor = open("/dev/full", O_WRONLY);
    if (descriptor < 0) {
        print_message("test_a_full_device_is_no_space needs /dev/full\n");
        skip();
    }
    assert_fails(file_write_at(descriptor, "/dev/full", "x", 1, 0), GRAIL_ERROR_SPACE,
                 "cannot write '/dev/full': No space left");
    assert_int_equal(close(descriptor), 0);
}

static void test_writes_go_to_their_offset(void **state)
{
    const place *p = *state;
    const int descriptor = open(p->path, O_RDWR | O_CREAT, 0600);
    assert_true(descriptor >= 0);
    assert_ok(file_write_at(descriptor, p->path, "world", 5, 6));
    assert_ok(file_write_at(descriptor, p->path, "hello ", 6, 0));
    assert_ok(file_write_at(descriptor, p->path, NULL, 0, 100));
    assert_int_equal(close(descriptor), 0);
    assert_contents(p->path, "hello world");
    assert_fails(file_write_at(descriptor, p->path, "x", 1, 0), GRAIL_ERROR_IO, p->path);
}

static void test_copies_have_the_same_bytes(void **state)
{
    const place *p = *state;
    char *other = NULL;
    assert_ok(path_join(&other, p->directory, "copy"));
    support_write_file(p->directory, "file", "bytes", 5);
    assert_ok(file_copy(p->path, other));
    assert_contents(other, "bytes");
    support_write_file(p->directory, "file", "", 0);
    assert_ok(file_copy(p->path, other));
    assert_contents(other, "");
    assert_fails(file_copy("/nonexistent/x", other), GRAIL_ERROR_IO, "/nonexistent/x");
    memory_free(other);
}

static void test_a_lock_is_held_until_the_descriptor_is_closed(void **state)
{
    const place *p = *state;
    bool taken = true;
    int descriptors[2];
    for (int i = 0; i < 2; i++) {
        descriptors[i] = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        assert_true(descriptors[i] >= 0);
    }
    assert_ok(file_lock(descriptors[0], p->path, &taken));
    assert_false(taken);
    assert_ok(file_lock(descriptors[1], p->path, &taken));
    assert_true(taken);
    close(descriptors[0]);
    assert_ok(file_lock(descriptors[1], p->path, &taken));
    assert_false(taken);
    close(descriptors[1]);
    assert_fails(file_lock(descriptors[1], p->path, &taken), GRAIL_ERROR_IO, "cannot lock");
}

static void test_files_and_directories_are_told_apart(void **state)
{
    const place *p = *state;
    assert_false(file_exists(p->path));
    support_write_file(p->directory, "file", "", 0);
    assert_true(file_exists(p->path));
    assert_false(file_is_directory(p->path));
    assert_true(file_is_directory(p->directory));
    assert_ok(directory_sync(p->directory));
    assert_fails(directory_sync(p->path), GRAIL_ERROR_IO, p->path);
}

static void test_paths_are_joined_with_one_slash(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"a", "a/x"}, {"a/", "a/x"}, {"/", "/x"}, {".", "./x"}};
    for (size_t i = 0; i < 4; i++) {
        char *path = NULL;
        assert_ok(path_join(&path, cases[i][0], "x"));
        assert_string_equal(path, cases[i][1]);
        memory_free(path);
    }
}

static void test_the_code_follows_from_errno(void **state)
{
    (void)state;
    static const struct {
        int number;
        grail_status status;
    } cases[] = {{ENOENT, GRAIL_ERROR_IO},     {EACCES, GRAIL_ERROR_IO},
                 {ENOSPC, GRAIL_ERROR_SPACE},  {EDQUOT, GRAIL_ERROR_SPACE},
                 {EFBIG, GRAIL_ERROR_SPACE},   {ENOMEM, GRAIL_ERROR_MEMORY},
                 {EEXIST, GRAIL_ERROR_EXISTS}, {ENOTEMPTY, GRAIL_ERROR_EXISTS}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        errno = cases[i].number;
        assert_fails(error_from_errno("cannot open", "name"), cases[i].status,
                     "cannot open 'name': ");
    }
}

static grail_status use_files(void *context)
{
    const place *p = context;
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    char *copy = NULL;
    TRY(file_write_atomic(p->path, "bytes", 5));
    TRY(file_read(p->path, 100, &bytes));
    TRY(path_join(&copy, p->directory, "copy"));
    TRY(file_copy(p->path, copy));
out:
    buffer_fini(&bytes);
    memory_free(copy);
    return status;
}

static void test_every_failing_allocation_is_reported(void **state)
{
    support_fail_each_allocation(use_files, *state);
}

#define in_place(test) cmocka_unit_test_setup_teardown(test, open_place, close_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_place(test_a_map_shows_the_bytes),
        in_place(test_an_empty_file_maps_to_nothing),
        in_place(test_released_parts_of_a_map_keep_their_bytes),
        in_place(test_what_is_not_a_regular_file_is_refused),
        in_place(test_reads_append_up_to_the_maximum),
        in_place(test_atomic_writes_replace_the_file_and_leave_nothing_else),
        in_place(test_a_full_disk_keeps_the_old_contents),
        cmocka_unit_test(test_a_full_device_is_no_space),
        in_place(test_writes_go_to_their_offset),
        in_place(test_copies_have_the_same_bytes),
        in_place(test_a_lock_is_held_until_the_descriptor_is_closed),
        in_place(test_files_and_directories_are_told_apart),
        cmocka_unit_test(test_paths_are_joined_with_one_slash),
        cmocka_unit_test(test_the_code_follows_from_errno),
        in_place(test_every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
