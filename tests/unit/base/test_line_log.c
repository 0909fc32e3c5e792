/* Logs of complete lines: locked, continued after the last complete line, left alone when locked by
 * others. */
#include "support/place.h"
#include "support/support.h"

#include "base/file.h"
#include "base/line_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_TEST(name) PLACE_TEST_OF("log", name)

static line_log_answer open_log(const place *p, int flags, line_log *log)
{
    line_log_answer answer = LINE_LOG_TAKEN;
    assert_ok(line_log_open(AT_FDCWD, p->path, p->path, flags, log, &answer));
    return answer;
}

PLACE_TEST(test_lines_are_appended_and_read_back)
{
    line_log log;
    buffer text = {0};
    assert_int_equal(open_log(p, O_CREAT, &log), LINE_LOG_OPEN);
    assert_ok(line_log_append(&log, "one\n", 4));
    assert_ok(line_log_append(&log, "two\n", 4));
    assert_ok(line_log_read(&log, 100, &text));
    assert_string_equal((const char *)text.bytes, "one\ntwo\n");
    assert_int_equal(log.size, 8);
    line_log_fini(&log);
    line_log_fini(&log);
    buffer_fini(&text);
}

PLACE_TEST(test_the_next_line_takes_the_place_of_a_torn_one)
{
    line_log log;
    buffer text = {0};
    support_write_file(p->directory, "log", "one\nhalf of a line", 18);
    assert_int_equal(open_log(p, 0, &log), LINE_LOG_OPEN);
    assert_ok(line_log_read(&log, 100, &text));
    assert_int_equal(text.size, 18);
    assert_int_equal(log.size, 4);
    assert_contents(p->path, "one\nhalf of a line");
    assert_ok(line_log_append(&log, "2\n", 2));
    assert_contents(p->path, "one\n2\n");
    line_log_fini(&log);
    buffer_fini(&text);
}

PLACE_TEST(test_a_log_that_is_not_there_is_missing)
{
    line_log log;
    assert_int_equal(open_log(p, 0, &log), LINE_LOG_MISSING);
    line_log_fini(&log);
    assert_false(file_exists(p->path));
}

PLACE_TEST(test_a_second_writer_is_told_that_it_is_taken)
{
    line_log first;
    line_log second;
    assert_int_equal(open_log(p, O_CREAT, &first), LINE_LOG_OPEN);
    assert_int_equal(open_log(p, O_CREAT, &second), LINE_LOG_TAKEN);
    line_log_fini(&second);
    line_log_fini(&first);
    assert_int_equal(open_log(p, 0, &second), LINE_LOG_OPEN);
    line_log_fini(&second);
}

PLACE_TEST(test_what_is_no_file_is_refused)
{
    line_log log;
    line_log_answer answer = LINE_LOG_TAKEN;
    assert_int_equal(mkfifo(p->path, 0600), 0);
    assert_fails(line_log_open(AT_FDCWD, p->path, p->path, 0, &log, &answer), GRAIL_ERROR_IO,
                 "not a regular file");
    line_log_fini(&log);
    assert_int_equal(unlink(p->path), 0);
    assert_int_equal(symlink("elsewhere", p->path), 0);
    assert_fails(line_log_open(AT_FDCWD, p->path, p->path, O_CREAT | O_NOFOLLOW, &log, &answer),
                 GRAIL_ERROR_IO, "cannot open");
    line_log_fini(&log);
    assert_fails(line_log_open(AT_FDCWD, "/nonexistent/x", "x", O_CREAT, &log, &answer),
                 GRAIL_ERROR_IO, "cannot open 'x'");
    line_log_fini(&log);
}

PLACE_TEST(test_a_log_that_is_too_large_is_refused)
{
    line_log log;
    buffer text = {0};
    support_write_file(p->directory, "log", "12345\n", 6);
    assert_int_equal(open_log(p, 0, &log), LINE_LOG_OPEN);
    assert_fails(line_log_read(&log, 5, &text), GRAIL_ERROR_FORMAT, "more than the allowed 5");
    line_log_fini(&log);
    buffer_fini(&text);
}
