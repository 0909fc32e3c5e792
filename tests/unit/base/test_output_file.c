/* Files that appear only when they are complete. */
#include "support/place.h"
#include "support/support.h"

#include "base/file.h"
#include "base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_TEST(name) PLACE_TEST_OF("file", name)

/* Replaces a regular file. */
static grail_status replace_file(const char *path, const void *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    output_file f = {.descriptor = -1};
    TRY(output_file_open(path, true, &f));
    TRY(file_write_at(f.descriptor, f.path, bytes, size, 0));
    TRY(output_file_commit(&f));
out:
    output_file_fini(&f);
    return status;
}

PLACE_TEST(test_a_file_appears_with_its_commit)
{
    output_file f;
    assert_ok(output_file_open(p->path, false, &f));
    assert_ok(file_write_at(f.descriptor, f.path, "whole", 5, 0));
    assert_false(file_exists(p->path));
    assert_int_equal(support_names_in(p->directory), f.is_nameless ? 0 : 1);
    assert_ok(output_file_commit(&f));
    output_file_fini(&f);
    assert_contents(p->path, "whole");
    assert_int_equal(support_names_in(p->directory), 1);
}

PLACE_TEST(test_what_is_not_committed_leaves_nothing)
{
    output_file f;
    assert_ok(output_file_open(p->path, false, &f));
    assert_ok(file_write_at(f.descriptor, f.path, "half", 4, 0));
    output_file_fini(&f);
    assert_int_equal(support_names_in(p->directory), 0);
}

PLACE_TEST(test_only_a_replacing_file_takes_the_place_of_another)
{
    output_file f;
    support_write_file(p->directory, "file", "old", 3);
    assert_fails(output_file_open(p->path, false, &f), GRAIL_ERROR_EXISTS, "remove it or give");
    output_file_fini(&f);
    assert_contents(p->path, "old");
    assert_ok(replace_file(p->path, "new one", 7));
    assert_contents(p->path, "new one");
    assert_ok(replace_file(p->path, "", 0));
    assert_contents(p->path, "");
    assert_int_equal(support_names_in(p->directory), 1);
}

PLACE_TEST(test_what_appears_meanwhile_stays)
{
    output_file f;
    assert_ok(output_file_open(p->path, false, &f));
    support_write_file(p->directory, "file", "theirs", 6);
    assert_fails(output_file_commit(&f), GRAIL_ERROR_EXISTS, p->path);
    output_file_fini(&f);
    assert_contents(p->path, "theirs");
    assert_int_equal(support_names_in(p->directory), 1);
}

PLACE_TEST(test_a_link_stays_a_link)
{
    struct stat info;
    OWNED(char) *link = NULL;
    assert_ok(path_join(&link, p->directory, "link"));
    support_write_file(p->directory, "file", "old", 3);
    assert_int_equal(symlink("file", link), 0);
    assert_ok(replace_file(link, "new", 3));
    assert_contents(p->path, "new");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(unlink(p->path), 0);
    assert_fails(replace_file(link, "new", 3), GRAIL_ERROR_IO, "cannot follow the link");
}

PLACE_TEST(test_what_is_not_a_file_is_not_replaced)
{
    struct stat info;
    assert_fails(replace_file(p->directory, "x", 1), GRAIL_ERROR_EXISTS, "not a regular file");
    assert_fails(replace_file("/dev/null", "x", 1), GRAIL_ERROR_EXISTS, "not a regular file");
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_fails(replace_file("/nonexistent/x", "x", 1), GRAIL_ERROR_IO, "/nonexistent/x");
}

PLACE_TEST(test_a_neighbour_of_any_name_is_left_alone)
{
    OPENED(char, neighbour, path_join(&neighbour, p->directory, "file.tmp"));
    support_write_file(p->directory, "file.tmp", "mine", 4);
    assert_ok(replace_file(p->path, "new", 3));
    assert_contents(neighbour, "mine");
}

/* 16 digits, as a killed run leaves them: the next one removes those that nobody has locked. */
PLACE_TEST(test_what_a_killed_run_left_is_removed)
{
    static const char *const names[] = {
        ".grail-0123456789abcdef.tmp", ".grail-00000000000000aa.tmp", ".grail-mine.tmp",
        "grail-0123456789abcdef.tmp", ".grail-0123456789abcdef0.tmp"};
    enum { NAMES = sizeof names / sizeof names[0], LEFT = 1, LOCKED = 1 };
    char *paths[NAMES] = {NULL};
    bool taken = false;
    for (int i = 0; i < NAMES; i++) {
        support_write_file(p->directory, names[i], "x", 1);
        assert_ok(path_join(&paths[i], p->directory, names[i]));
    }
    const int descriptor = open(paths[LOCKED], O_RDWR);
    assert_true(descriptor >= 0);
    assert_ok(file_lock(descriptor, paths[LOCKED], &taken));
    assert_false(taken);
    assert_ok(replace_file(p->path, "new", 3));
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(file_exists(paths[i]), i >= LEFT);
    }
    assert_int_equal(close(descriptor), 0);
    assert_ok(replace_file(p->path, "newer", 5));
    assert_false(file_exists(paths[LOCKED]));
    assert_int_equal(support_names_in(p->directory), NAMES - LEFT - LOCKED + 1);
    for (int i = 0; i < NAMES; i++) {
        memory_free(paths[i]);
    }
}

PLACE_TEST(test_a_full_disk_keeps_the_old_contents)
{
    static const char large[1 << 17];
    struct rlimit before;
    assert_ok(replace_file(p->path, "old", 3));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = before;
    small.rlim_cur = 1 << 16;
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const grail_status status = replace_file(p->path, large, sizeof large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, previous);
    assert_fails(status, GRAIL_ERROR_SPACE, "cannot write");
    assert_contents(p->path, "old");
    assert_int_equal(support_names_in(p->directory), 1);
}

PLACE_TEST(test_a_directory_is_renamed_to_a_new_name_only)
{
    OWNED(char) *from = NULL;
    assert_ok(path_join(&from, p->directory, "from"));
    assert_int_equal(mkdir(from, 0777), 0);
    assert_int_equal(mkdir(p->path, 0777), 0); /* empty: rename(2) would replace it */
    assert_int_equal(rename_to_new(AT_FDCWD, from, AT_FDCWD, p->path), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(rmdir(p->path), 0);
    assert_int_equal(rename_to_new(AT_FDCWD, from, AT_FDCWD, p->path), 0);
    assert_false(file_exists(from));
}

static grail_status write_file(void *context)
{
    const place *p = context;
    const grail_status status = replace_file(p->path, "bytes", 5);
    assert_int_equal(support_names_in(p->directory), status == GRAIL_OK ? 1 : file_exists(p->path));
    return status;
}

PLACE_TEST(test_every_failing_allocation_is_reported)
{
    support_fail_each_allocation(write_file, p);
}
