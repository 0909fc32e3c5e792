/* Escaping: what acts on a terminal, what is no UTF-8, what is told apart, and what is cut. */
#include "support/support.h"

#include "base/escape_append.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static void assert_escapes(grail_escape_use use, const char *text, const char *expected)
{
    char out[200];
    OWNED(buffer) appended = {.maximum = 1000};
    assert_int_equal(grail_escape(use, text, out, sizeof out), strlen(expected));
    assert_string_equal(out, expected);
    assert_ok(buffer_append_string(&appended, "> "));
    assert_ok(escape_append(use, text, strlen(text), &appended));
    assert_memory_equal(appended.bytes, "> ", 2);
    assert_string_equal((const char *)appended.bytes + 2, expected);
}

TEST(test_a_line_holds_nothing_that_acts)
{
    const grail_escape_use line = GRAIL_ESCAPE_LINE;
    assert_escapes(line, "", "");
    assert_escapes(line, "model.layers.0 'x' \"y\" \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
                   "model.layers.0 'x' \"y\" \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_escapes(line, "a\nb\rc\td", "a\\nb\\rc\\td");
    assert_escapes(line, "\x1b[2J\x07\x7f", "\\x1b[2J\\x07\\x7f");
    assert_escapes(line, "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\\u0080\\u009b\\u009f\xc2\xa0");
    assert_escapes(line, "\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf",
                   "\xe2\x80\xa7\\u2028\\u2029\\u202a\\u202e\xe2\x80\xaf");
    assert_escapes(line, "\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
                   "\xe2\x81\xa5\\u2066\\u2069\xe2\x81\xaa");
}

TEST(test_bytes_that_are_not_utf8_are_shown)
{
    for (int use = GRAIL_ESCAPE_LINE; use <= GRAIL_ESCAPE_NAME; use++) {
        assert_escapes((grail_escape_use)use, "a\xff\x80z", "a\\xff\\x80z");
        assert_escapes((grail_escape_use)use, "\xc3", "\\xc3");
        assert_escapes((grail_escape_use)use, "\xe2\x80z", "\\xe2\\x80z");
        assert_escapes((grail_escape_use)use, "\xed\xa0\x80", "\\xed\\xa0\\x80"); /* a surrogate */
        assert_escapes((grail_escape_use)use, "\xc0\xaf", "\\xc0\\xaf");          /* overlong */
        assert_escapes((grail_escape_use)use, "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
    }
}

TEST(test_a_line_escaped_twice_is_the_same)
{
    static const char all[] = "\\ \\n \\\\ \\x1b \x1b \xff \n \\u202e \xe2\x80\xae \\xzz";
    char once[200];
    grail_escape(GRAIL_ESCAPE_LINE, all, once, sizeof once);
    assert_escapes(GRAIL_ESCAPE_LINE, once, once);
}

TEST(test_names_keep_what_json_can_hold)
{
    const grail_escape_use name = GRAIL_ESCAPE_NAME;
    assert_escapes(name, "a\\b\n\x1b\xc2\x9b\xe2\x80\xae", "a\\b\n\x1b\xc2\x9b\xe2\x80\xae");
    assert_escapes(name, "a\\b\xff", "a\\\\b\\xff");
    assert_escapes(name, "a\\xff\\\\", "a\\xff\\\\"); /* UTF-8 as it is */
}

/* Restores the bytes of a name that were not UTF-8. */
static void restore(const char *name, char *out)
{
    for (; *name != 0; out++) {
        unsigned byte = 0;
        if (name[0] == '\\' && name[1] == '\\') {
            *out = '\\';
            name += 2;
        } else if (name[0] == '\\') {
            assert_int_equal(sscanf(name, "\\x%2x", &byte), 1);
            *out = (char)byte;
            name += 4;
        } else {
            *out = *name++;
        }
    }
    *out = 0;
}

/* All texts of up to seven of these bytes. */
TEST(test_names_can_be_turned_back)
{
    static const char bytes[] = {'\\', 'x', 'f', '\xff', '\xc3'};
    enum { KINDS = sizeof bytes, LONGEST = 7 };
    char text[LONGEST + 1] = "";
    char name[8 * LONGEST];
    char again[8 * LONGEST];
    for (int length = 0, count = 1; length <= LONGEST; length++, count *= KINDS) {
        for (int i = 0; i < count; i++) {
            for (int k = 0, rest = i; k < length; k++, rest /= KINDS) {
                text[k] = bytes[rest % KINDS];
            }
            text[length] = 0;
            grail_escape(GRAIL_ESCAPE_NAME, text, name, sizeof name);
            assert_int_equal(utf8_valid_prefix(name, strlen(name)), strlen(name));
            if (utf8_valid_prefix(text, strlen(text)) == strlen(text)) {
                assert_string_equal(name, text);
            } else {
                restore(name, again);
                assert_string_equal(again, text);
            }
        }
    }
}

TEST(test_documents_keep_their_meaning)
{
    assert_escapes(GRAIL_ESCAPE_JSON,
                   "{\n \"a\\n\": \"\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\xc3\xa9\"}",
                   "{\n \"a\\n\": \"\\u007f\\u009b\\u202e\\u2066\xc3\xa9\"}");
}

TEST(test_cuts_fall_between_characters_and_escapes)
{
    static const char text[] = "a\x1b\xc3\xa9\xe2\x80\xae\\x1b"; /* 1, 4, 2, 6 and 4 bytes */
    static const size_t ends[] = {0, 1, 5, 7, 13, 17};
    char out[32];
    for (size_t size = 1; size <= 20; size++) {
        size_t expected = 0;
        for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
            expected = ends[e] < size ? ends[e] : expected;
        }
        memset(out, '#', sizeof out);
        assert_int_equal(grail_escape(GRAIL_ESCAPE_LINE, text, out, size), 17);
        assert_int_equal(strlen(out), expected);
        assert_int_equal(out[size], '#');
    }
    assert_int_equal(grail_escape(GRAIL_ESCAPE_LINE, text, NULL, 0), 17);
}
