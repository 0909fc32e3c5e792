/* Memory in files without names. */
#include "support/support.h"

#include "base/scratch.h"

#include <string.h>

enum { SIZE = 3 << 20 };

DIRECTORY_TEST(memory_is_zeroed_and_keeps_what_is_written)
{
    void *memory = NULL;
    void *other = NULL;
    assert_ok(scratch_map(directory, SIZE, &memory));
    assert_ok(scratch_map(directory, SIZE, &other));
    unsigned char *bytes = memory;
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[SIZE - 1], 0);
    memset(bytes, 7, SIZE);
    assert_int_equal(((unsigned char *)other)[SIZE / 2], 0);
    assert_int_equal(bytes[SIZE / 2], 7);
    scratch_unmap(memory, SIZE);
    scratch_unmap(other, SIZE);
    scratch_unmap(NULL, 0);
}

DIRECTORY_TEST(no_file_is_left)
{
    void *memory = NULL;
    assert_ok(scratch_map(directory, SIZE, &memory));
    assert_int_equal(support_names_in(directory), 0);
    scratch_unmap(memory, SIZE);
}

TEST(a_directory_that_is_not_there_is_named)
{
    void *memory = NULL;
    assert_fails(scratch_map("/nowhere/at-all", SIZE, &memory), GRAIL_ERROR_IO, "/nowhere/at-all");
    assert_null(memory);
}

DIRECTORY_TEST(too_little_room_is_said_at_once)
{
    void *memory = NULL;
    assert_true(scratch_map(directory, (size_t)1 << 60, &memory) != GRAIL_OK);
    assert_null(memory);
    assert_non_null(strstr(grail_error_message(), directory));
}
