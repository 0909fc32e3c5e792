/* Files: opening, maps, complete reads, writes, locks, paths, and errors that name the path. */
#include "support/place.h"
#include "support/support.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_TEST(name) PLACE_TEST_OF("file", name)

PLACE_TEST(test_a_map_shows_the_bytes)
{
    file_map map = {0};
    support_write_file(p->directory, "file", "contents", 8);
    assert_ok(file_map_open(&map, p->path));
    assert_int_equal(map.size, 8);
    assert_memory_equal(map.data, "contents", 8);
    file_map_close(&map);
    assert_null(map.data);
    file_map_close(&map);
}

PLACE_TEST(test_an_empty_file_maps_to_nothing)
{
    OWNED(file_map) map = {0};
    support_write_file(p->directory, "file", "", 0);
    assert_ok(file_map_open(&map, p->path));
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    file_map_release(&map, 0, 0);
}

PLACE_TEST(test_released_parts_of_a_map_keep_their_bytes)
{
    enum { SIZE = 100000 };
    static unsigned char bytes[SIZE];
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (unsigned char)(i % 251);
    }
    OWNED(file_map) map = {0};
    support_write_file(p->directory, "file", bytes, SIZE);
    assert_ok(file_map_open(&map, p->path));
    assert_memory_equal(map.data, bytes, SIZE);
    file_map_release(&map, 5, 60000);
    file_map_release(&map, 0, SIZE);
    file_map_release(&map, 17, 3);
    assert_memory_equal(map.data, bytes, SIZE);
}

PLACE_TEST(test_what_is_not_a_regular_file_is_refused)
{
    file_map map = {0};
    buffer bytes = {0};
    assert_fails(file_map_open(&map, p->path), GRAIL_ERROR_IO, p->path);
    assert_fails(file_map_open(&map, p->directory), GRAIL_ERROR_IO, "not a regular file");
    assert_fails(file_read("/dev/zero", 100, &bytes), GRAIL_ERROR_IO, "not a regular file");
    assert_int_equal(mkfifo(p->path, 0600), 0);
    assert_fails(file_read(p->path, 100, &bytes), GRAIL_ERROR_IO, "not a regular file");
}

PLACE_TEST(test_reads_append_up_to_the_maximum)
{
    OWNED(buffer) bytes = {.maximum = 100};
    support_write_file(p->directory, "file", "12345", 5);
    assert_ok(buffer_append_string(&bytes, "> "));
    assert_ok(file_read(p->path, 5, &bytes));
    assert_string_equal((const char *)bytes.bytes, "> 12345");
    assert_fails(file_read(p->path, 4, &bytes), GRAIL_ERROR_FORMAT,
                 "has 5 bytes, more than the allowed 4");
}

TEST(test_a_full_device_is_no_space)
{
    const int descriptor = open("/dev/full", O_WRONLY);
    if (descriptor < 0) {
        print_message("test_a_full_device_is_no_space needs /dev/full\n");
        skip();
    }
    assert_fails(file_write_at(descriptor, "/dev/full", "x", 1, 0), GRAIL_ERROR_SPACE,
                 "cannot write '/dev/full': No space left");
    assert_int_equal(close(descriptor), 0);
}

PLACE_TEST(test_writes_go_to_their_offset)
{
    const int descriptor = open(p->path, O_RDWR | O_CREAT, 0600);
    assert_true(descriptor >= 0);
    assert_ok(file_write_at(descriptor, p->path, "world", 5, 6));
    assert_ok(file_write_at(descriptor, p->path, "hello ", 6, 0));
    assert_ok(file_write_at(descriptor, p->path, NULL, 0, 100));
    assert_int_equal(close(descriptor), 0);
    assert_contents(p->path, "hello world");
    assert_fails(file_write_at(descriptor, p->path, "x", 1, 0), GRAIL_ERROR_IO, p->path);
}

PLACE_TEST(test_reads_come_from_their_offset)
{
    char bytes[6] = "";
    support_write_file(p->directory, "file", "hello world", 11);
    const int descriptor = file_open(AT_FDCWD, p->path, O_RDONLY);
    assert_ok(file_read_at(descriptor, p->path, bytes, 5, 6));
    assert_string_equal(bytes, "world");
    assert_fails(file_read_at(descriptor, p->path, bytes, 5, 8), GRAIL_ERROR_IO,
                 "ended 2 bytes before its expected end");
    assert_int_equal(close(descriptor), 0);
    assert_fails(file_read_at(descriptor, p->path, bytes, 5, 6), GRAIL_ERROR_IO, "cannot read");
}

PLACE_TEST(test_no_file_is_opened_below_descriptor_3)
{
    for (int closed = 0; closed < 3; closed++) {
        const int kept = fcntl(closed, F_DUPFD_CLOEXEC, 10);
        close(closed);
        const int descriptor = file_open(AT_FDCWD, p->path, O_RDWR | O_CREAT);
        const int flags = descriptor < 0 ? 0 : fcntl(descriptor, F_GETFD);
        assert_int_equal(dup2(kept, closed), closed);
        close(kept);
        assert_true(descriptor > 2);
        assert_int_equal(flags, FD_CLOEXEC);
        close(descriptor);
    }
    assert_int_equal(file_open(AT_FDCWD, "/nonexistent/x", O_RDONLY), -1);
    assert_int_equal(errno, ENOENT);
}

PLACE_TEST(test_an_identity_changes_with_the_file)
{
    file_map map = {0};
    file_identity now = {0};
    support_write_file(p->directory, "file", "contents", 8);
    assert_ok(file_map_open(&map, p->path));
    assert_ok(file_identify(p->path, &now));
    assert_memory_equal(&map.identity, &now, sizeof now);
    file_map_close(&map);
    const struct timespec earlier[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    const file_identity then = now;
    assert_int_equal(utimensat(AT_FDCWD, p->path, earlier, 0), 0);
    assert_ok(file_identify(p->path, &now));
    assert_memory_not_equal(&then, &now, sizeof now);
    assert_fails(file_identify(p->directory, &now), GRAIL_ERROR_IO, "not a regular file");
    assert_fails(file_identify("/nonexistent/x", &now), GRAIL_ERROR_IO, "cannot inspect");
}

PLACE_TEST(test_a_lock_is_held_until_the_descriptor_is_closed)
{
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

PLACE_TEST(test_files_and_directories_are_told_apart)
{
    assert_false(file_exists(p->path));
    support_write_file(p->directory, "file", "", 0);
    assert_true(file_exists(p->path));
    assert_false(file_is_directory(p->path));
    assert_true(file_is_directory(p->directory));
    assert_ok(path_flush_parent(p->path));
    assert_fails(path_flush_parent("/nonexistent/x"), GRAIL_ERROR_IO, "'/nonexistent'");
}

TEST(test_paths_are_joined_with_one_slash)
{
    static const char *const cases[][2] = {{"a", "a/x"}, {"a/", "a/x"}, {"/", "/x"}, {".", "./x"}};
    for (size_t i = 0; i < 4; i++) {
        OPENED(char, path, path_join(&path, cases[i][0], "x"));
        assert_string_equal(path, cases[i][1]);
    }
}

PLACE_TEST(test_a_path_is_found_where_it_exists)
{
    char *path = NULL;
    support_write_file(p->directory, "file", "", 0);
    assert_ok(path_find(&path, p->directory, "file"));
    assert_string_equal(path, p->path);
    memory_free(path);
    assert_ok(path_find(&path, p->directory, "nothing"));
    assert_null(path);
}

PLACE_TEST(test_what_cannot_be_looked_at_is_not_missing)
{
    char name[4097];
    OWNED(char) *path = NULL;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_false(file_exists(name));
    support_write_file(p->directory, "file", "", 0);
    assert_ok(path_find(&path, p->path, "below a file"));
    assert_null(path);
    assert_ok(path_join(&path, p->directory, "loop"));
    assert_int_equal(symlink("loop", path), 0);
    assert_true(file_exists(path));
}

TEST(test_slashes_at_the_end_are_trimmed)
{
    static const char *const cases[][2] = {
        {"a", "a"}, {"a//", "a"}, {"/", "/"}, {"//", "/"}, {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OPENED(char, path, path_trim(&path, cases[i][0]));
        assert_string_equal(path, cases[i][1]);
    }
}

TEST(test_a_path_has_a_parent)
{
    static const char *const cases[][2] = {{"a", "."},      {"a/b", "a"},  {"/a", "/"},
                                           {"/a/b/", "/a"}, {"a//b", "a"}, {"/", "/"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OPENED(char, parent, path_parent(&parent, cases[i][0]));
        assert_string_equal(parent, cases[i][1]);
    }
}

TEST(test_the_code_follows_from_errno)
{
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
    OWNED(buffer) bytes = {0};
    CHECK(file_read(p->path, 100, &bytes));
    return path_flush_parent(p->path);
}

PLACE_TEST(test_every_failing_allocation_is_reported)
{
    support_write_file(p->directory, "file", "bytes", 5);
    support_fail_each_allocation(use_files, p);
}
