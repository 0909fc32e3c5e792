/* Growing buffers: contents, the stated maximum, and the NUL beyond the end. */
#include "support/support.h"

#include "base/buffer.h"

#include <string.h>

TEST(test_pieces_are_joined_and_ended_by_a_nul)
{
    buffer b;
    buffer_init(&b, 100);
    assert_null(b.bytes);
    assert_ok(buffer_append(&b, "ab", 2));
    assert_ok(buffer_append_string(&b, "cd"));
    assert_ok(buffer_format(&b, "%d", 42));
    assert_int_equal(b.size, 6);
    assert_string_equal((const char *)b.bytes, "abcd42");
    buffer_fini(&b);
    assert_null(b.bytes);
    assert_int_equal(b.size, 0);
    assert_int_equal(b.maximum, 100);
    buffer_fini(&b);
}

TEST(test_appending_nothing_makes_an_empty_string)
{
    OWNED(buffer) b = {.maximum = 0};
    assert_ok(buffer_append(&b, NULL, 0));
    assert_string_equal((const char *)b.bytes, "");
}

TEST(test_growth_keeps_every_byte)
{
    OWNED(buffer) b = {.maximum = 1 << 20};
    for (int i = 0; i < 10000; i++) {
        assert_ok(buffer_append(&b, &(unsigned char){(unsigned char)(i % 251)}, 1));
        assert_int_equal(b.bytes[b.size], 0);
        assert_true(b.size < b.capacity);
    }
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(b.bytes[i], i % 251);
    }
}

TEST(test_the_maximum_can_be_reached_but_not_passed)
{
    OWNED(buffer) b = {.maximum = 5};
    assert_ok(buffer_append(&b, "abc", 3));
    assert_fails(buffer_append(&b, "def", 3), GRAIL_ERROR_FORMAT, "more than the allowed 5 bytes");
    assert_ok(buffer_format(&b, "%s", "de"));
    assert_string_equal((const char *)b.bytes, "abcde");
    assert_fails(buffer_format(&b, "%c", 'f'), GRAIL_ERROR_FORMAT, "allowed 5 bytes");
    assert_fails(buffer_reserve(&b, SIZE_MAX), GRAIL_ERROR_FORMAT, "allowed 5 bytes");
    assert_string_equal((const char *)b.bytes, "abcde");
}

TEST(test_impossible_sizes_are_out_of_memory)
{
    OWNED(buffer) b = {.maximum = SIZE_MAX};
    assert_ok(buffer_append(&b, "abc", 3));
    assert_fails(buffer_reserve(&b, SIZE_MAX - 3), GRAIL_ERROR_MEMORY, "out of memory");
    assert_string_equal((const char *)b.bytes, "abc");
}

TEST(test_reserved_room_is_there)
{
    OWNED(buffer) b = {.maximum = 1 << 20};
    assert_ok(buffer_reserve(&b, 1000));
    assert_int_equal(b.size, 0);
    const unsigned char *before = b.bytes;
    char filler[1000];
    memset(filler, 'x', sizeof filler);
    assert_ok(buffer_append(&b, filler, sizeof filler));
    assert_ptr_equal(b.bytes, before);
}

static grail_status fill(void *context)
{
    OWNED(buffer) b = {.maximum = 1 << 20};
    grail_status status = buffer_append_string(&b, "first");
    for (int i = 0; i < 500 && status == GRAIL_OK; i++) {
        status = buffer_format(&b, "%d,", i);
    }
    return status;
}

TEST(test_every_failing_allocation_is_reported)
{
    support_fail_each_allocation(fill, NULL);
}
