/* The error text: set, prefixed, appended, truncated, and one per thread. */
#include "support/support.h"

#include "base/status.h"

#include <pthread.h>
#include <string.h>

TEST(test_every_status_has_a_text)
{
    for (int i = GRAIL_OK; i <= GRAIL_ERROR_INTERNAL; i++) {
        assert_true(strlen(grail_status_text((grail_status)i)) > 0);
    }
    assert_string_equal(grail_status_text(GRAIL_OK), "ok");
    assert_string_equal(grail_status_text((grail_status)1000), "unknown status");
}

TEST(test_text_is_put_before_and_after)
{
    assert_int_equal(error_set(GRAIL_ERROR_SHAPE, "width %d", 3), GRAIL_ERROR_SHAPE);
    error_prefix("tensor '%s'", "w");
    error_prefix("file");
    error_append("; expected %d", 4);
    assert_string_equal(grail_error_message(), "file: tensor 'w': width 3; expected 4");
    (void)error_set(GRAIL_ERROR_IO, "new");
    assert_string_equal(grail_error_message(), "new");
}

TEST(test_long_texts_are_cut_and_stay_strings)
{
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    (void)error_set(GRAIL_ERROR_IO, "%s", text);
    const size_t longest = strlen(grail_error_message());
    assert_in_range(longest, 1000, 2998);
    error_append("more");
    error_prefix("before");
    assert_int_equal(strlen(grail_error_message()), longest);
    assert_memory_equal(grail_error_message(), "before: xxx", 11);
    error_prefix("%s", text);
    assert_int_equal(strlen(grail_error_message()), longest);
}

/* Text that others wrote must not act on a terminal through a message. */
TEST(test_texts_are_escaped_and_keep_their_reason)
{
    char name[5000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    (void)error_set(GRAIL_ERROR_IO, "'%s': %s", "\x1b]0;x\x07", "cannot be opened");
    error_prefix("'%s'", "a\nb\xff");
    assert_string_equal(grail_error_message(), "'a\\nb\\xff': '\\x1b]0;x\\x07': cannot be opened");
    (void)error_set(GRAIL_ERROR_IO, "'%s' is missing", name);
    error_prefix("%s", name);
    error_append("; give %s", "another");
    const char *message = grail_error_message();
    assert_string_equal(message + strlen(message) - 26, "' is missing; give another");
}

/* The text speaks of fields in words; a command line may know them by other names. */
TEST(test_fields_go_with_the_error)
{
    assert_int_equal(error_about(error_set(GRAIL_ERROR_ARGUMENT, "too few"), "samples context"),
                     GRAIL_ERROR_ARGUMENT);
    error_prefix("text");
    error_append("; give more");
    (void)error_about(GRAIL_ERROR_ARGUMENT, "resume");
    assert_string_equal(grail_error_message(), "text: too few; give more");
    assert_string_equal(grail_error_fields(), "samples context resume");
    (void)error_set(GRAIL_ERROR_IO, "new");
    assert_string_equal(grail_error_fields(), "");
}

static grail_status fail_about(void)
{
    grail_status status = GRAIL_OK;
    FAIL_ABOUT("samples", GRAIL_ERROR_ARGUMENT, "%d samples", 3);
out:
    return status;
}

TEST(test_a_failure_names_its_fields)
{
    assert_int_equal(fail_about(), GRAIL_ERROR_ARGUMENT);
    assert_string_equal(grail_error_message(), "3 samples");
    assert_string_equal(grail_error_fields(), "samples");
}

static void *set_elsewhere(void *context)
{
    const bool was_empty = grail_error_message()[0] == 0;
    (void)error_set(GRAIL_ERROR_IO, "of the other thread");
    return was_empty ? context : NULL;
}

TEST(test_each_thread_has_its_own_text)
{
    pthread_t thread;
    void *result = NULL;
    int token = 0;
    (void)error_set(GRAIL_ERROR_IO, "mine");
    assert_int_equal(pthread_create(&thread, NULL, set_elsewhere, &token), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &token);
    assert_string_equal(grail_error_message(), "mine");
}

TEST(test_what_another_library_records_is_the_text)
{
    (void)error_set(GRAIL_ERROR_IO, "old");
    grail_error_record("new %s");
    assert_string_equal(grail_error_message(), "new %s");
    grail_error_record(grail_error_message());
    error_append(" and more");
    assert_string_equal(grail_error_message(), "new %s and more");
}

static grail_status leave_by(bool fail, bool *reached)
{
    grail_status status = GRAIL_OK;
    TRY(fail ? error_set(GRAIL_ERROR_IO, "left") : GRAIL_OK);
    *reached = true;
    FAIL(GRAIL_ERROR_ARGUMENT, "left %s", "later");
out:
    return status;
}

TEST(test_try_and_fail_leave_with_their_status)
{
    bool reached = false;
    assert_fails(leave_by(true, &reached), GRAIL_ERROR_IO, "left");
    assert_false(reached);
    assert_fails(leave_by(false, &reached), GRAIL_ERROR_ARGUMENT, "left later");
    assert_true(reached);
}
