/* Messages: every conversion as printf has it, what is inserted escaped and shortened, and cuts
 * that leave complete characters. */
#include "support/support.h"

#include "base/message.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static char text[2048];

static void GRAIL_PRINTF(1, 2) format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    message_format(text, sizeof text, format, arguments);
    va_end(arguments);
}

#define assert_as_printf(...)                                                                      \
    do {                                                                                           \
        char expected[200];                                                                        \
        snprintf(expected, sizeof expected, __VA_ARGS__);                                          \
        format(__VA_ARGS__);                                                                       \
        assert_string_equal(text, expected);                                                       \
    } while (0)

TEST(test_conversions_are_those_of_printf)
{
    assert_as_printf("plain");
    assert_as_printf("100 %% of %s", "it");
    assert_as_printf("%d %i %u %x %X %o", -3, 4, 4000000000U, 0xabcU, 0xABCU, 8U);
    assert_as_printf("%ld %lld %zu %zd %jd %td", -1L, (long long)INT64_MIN, SIZE_MAX, (ssize_t)-2,
                     INTMAX_MAX, (ptrdiff_t)-5);
    assert_as_printf("%llu %lx", 18446744073709551615ULL, 0xfffffffffUL);
    assert_as_printf("%g %e %f %.3g %.12g %.17g", 0.1, 1e300, 2.5, 3.14159, 1.0 / 3.0, 0.1);
    assert_as_printf("%02x %04X %5d|%-5d|%+d %#x %*d %.*f", 10U, 255U, 3, 3, 3, 17U, 7, 1, 2, 1.25);
    assert_as_printf("%c%c %p", 'a', 'b', (void *)text);
    assert_as_printf("%.*s %.3s %s", 2, "abcdef", "abcdef", "");
    assert_as_printf("%s, %d, %s, %zu, %.1f, %s", "a", 1, "b", (size_t)2, 3.0, "c");
}

TEST(test_text_without_an_end_is_read_to_its_precision)
{
    const char three[3] = {'a', 'b', 'c'};
    format("%.*s|", 3, three);
    assert_string_equal(text, "abc|");
}

TEST(test_what_is_inserted_is_escaped)
{
    format("tensor '%s' of '%.*s'%c", "a\x1b[31m\n", 3, "\xff\xe2\x80", '\r');
    assert_string_equal(text, "tensor 'a\\x1b[31m\\n' of '\\xff\\xe2\\x80'\\r");
    message_append(text, sizeof text, ": \x07\\x07");
    assert_string_equal(text, "tensor 'a\\x1b[31m\\n' of '\\xff\\xe2\\x80'\\r: \\x07\\x07");
}

TEST(test_a_long_name_leaves_room_for_the_reason)
{
    static char name[100001];
    memset(name, 'x', sizeof name - 1);
    memcpy(name, "begin", 5);
    memcpy(name + sizeof name - 4, "end", 3);
    format("file '%s': tensor '%s': is not there", name, name);
    assert_memory_equal(text, "file 'beginxxx", 14);
    assert_non_null(strstr(text, "xxx...xxx"));
    assert_non_null(strstr(text, "xxxend': tensor 'beginxxx"));
    assert_string_equal(text + strlen(text) - 24, "xxxxxxend': is not there");
    assert_in_range(strlen(text), 2 * 310, 2 * 320 + 40);
}

TEST(test_the_longest_name_that_is_shown_whole)
{
    char name[330];
    memset(name, 'n', sizeof name);
    name[320] = 0;
    format("%s.", name);
    assert_int_equal(strlen(text), 321);
    assert_null(strstr(text, "..."));
    name[320] = 'n';
    name[321] = 0;
    format("%s.", name);
    assert_int_equal(strlen(text), 158 + 3 + 158 + 1);
}

/* Whatever is around it, neither a character nor an escape is cut. */
TEST(test_middles_are_left_out_between_characters)
{
    static const char *const pieces[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x01",
                                         "\xe2\x80\xae"};
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        for (int before = 0; before < 6; before++) {
            char name[2000] = "";
            memset(name, 'a', (size_t)before);
            while (strlen(name) < sizeof name - 8) {
                strncat(name, pieces[p], 5);
            }
            format("%s", name);
            assert_int_equal(utf8_valid_prefix(text, strlen(text)), strlen(text));
            for (const char *at = text; (at = strchr(at, '\\')) != NULL; at++) {
                assert_true(strncmp(at, "\\x01", 4) == 0 || strncmp(at, "\\u202e", 6) == 0);
            }
        }
    }
}

TEST(test_the_end_is_cut_between_characters)
{
    for (size_t size = 9; size < 60; size++) {
        char small[60];
        memset(small, '#', sizeof small);
        small[0] = 0;
        message_append(small, size, "a\x1b\xc3\xa9\xe2\x80\xae and so on, as far as there is room");
        const size_t length = strlen(small);
        assert_true(length < size);
        assert_int_equal(utf8_valid_prefix(small, length), length);
        assert_string_equal(small + length - 3, size <= 13 + 35 + 3 ? "..." : "oom");
        const char *escape = strchr(small, '\\');
        assert_true(escape == NULL || strncmp(escape, "\\x1b", 4) == 0);
        message_append(small, size, "!");
        assert_true(strlen(small) < size);
    }
}
