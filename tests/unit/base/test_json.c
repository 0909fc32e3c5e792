/* JSON: what is refused, typed access, writing, and failing allocations inside the parser. */
#include "support/support.h"

#include "base/file.h"
#include "base/json.h"
#include "support/json_memory.h"

#include <string.h>

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    assert_ok(json_parse("doc", text, strlen(text), &value));
    return value;
}

static grail_status try_parse(const char *text)
{
    OWNED(json_t) *value = NULL;
    const grail_status status = json_parse("doc", text, strlen(text), &value);
    assert_true((status == GRAIL_OK) == (value != NULL));
    return status;
}

TEST(test_malformed_text_is_refused_with_its_place)
{
    static const char *const texts[] = {
        "",
        "{",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "[1 2]",
        "{} {}",
        "nul",
        "NaN",
        "#",
        "{\"a\":01}",
        "\"\\x\"",
        "\"\xff\"",
        "\"\\ud800\"",
        "{5:1}",
        "{\"a\":1 \"b\":2}",
        "[\"a\" \"b\"]",
        "{\"a\"}",
        "\"a\" \"b\"",
        "[99999999999999999999]",
        "\"a\nb\"",
        "\"abc",
        "{\"a\":\"b\" \"a long string of more than twenty bytes\"}",
        "nullllllllllllllllllllllllllllllllllll",
        "[1e999]",
        "{\"a\":\"b\",}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_fails(try_parse(texts[i]), GRAIL_ERROR_FORMAT, "doc: not valid JSON: ");
    }
    assert_fails(try_parse("{\n \"a\": x}"), GRAIL_ERROR_FORMAT, "line 2");
}

TEST(test_duplicate_keys_are_refused)
{
    assert_fails(try_parse("{\"a\":1,\"a\":1}"), GRAIL_ERROR_FORMAT, "duplicate");
    assert_fails(try_parse("{\"a\":{\"b\":1,\"\\u0062\":1}}"), GRAIL_ERROR_FORMAT, "duplicate");
}

TEST(test_numbers_and_flags_are_typed)
{
    OWNED(json_t) *o =
        parse("{\"i\":9223372036854775807,\"r\":2.5,\"b\":true,\"n\":null,\"s\":\"x\"}");
    int64_t i = 0;
    double r = 0;
    bool b = false;
    assert_ok(json_get_integer("doc", o, "i", 1, &i));
    assert_true(i == INT64_MAX);
    assert_ok(json_get_integer("doc", o, "missing", 5, &i));
    assert_int_equal(i, 5);
    assert_ok(json_get_integer("doc", o, "n", 6, &i));
    assert_int_equal(i, 6);
    assert_fails(json_get_integer("doc", o, "r", 1, &i), GRAIL_ERROR_FORMAT,
                 "doc: \"r\" is not an integer");
    assert_int_equal(i, 6);
    assert_ok(json_get_real("doc", o, "r", 0, &r));
    assert_near(r, 2.5, 0);
    assert_ok(json_get_real("doc", o, "n", 0.5, &r));
    assert_near(r, 0.5, 0);
    assert_fails(json_get_real("doc", o, "s", 0, &r), GRAIL_ERROR_FORMAT, "\"s\" is not a number");
    assert_ok(json_get_boolean("doc", o, "b", false, &b));
    assert_true(b);
    assert_ok(json_get_boolean("doc", o, "missing", false, &b));
    assert_false(b);
    assert_fails(json_get_boolean("doc", o, "i", false, &b), GRAIL_ERROR_FORMAT, "true or false");
}

TEST(test_integers_count_as_reals)
{
    OWNED(json_t) *o = parse("{\"i\":3}");
    double r = 0;
    assert_ok(json_get_real("doc", o, "i", 0, &r));
    assert_near(r, 3, 0);
}

TEST(test_strings_are_borrowed)
{
    OWNED(json_t) *o = parse("{\"s\":\"x\",\"i\":1}");
    const char *s = NULL;
    assert_ok(json_get_string("doc", o, "s", NULL, &s));
    assert_string_equal(s, "x");
    assert_ok(json_get_string("doc", o, "missing", "fallback", &s));
    assert_string_equal(s, "fallback");
    assert_fails(json_get_string("doc", o, "i", NULL, &s), GRAIL_ERROR_FORMAT,
                 "\"i\" is not a string");
}

TEST(test_required_integers_must_be_there)
{
    OWNED(json_t) *o = parse("{\"i\":7,\"n\":null,\"s\":\"\"}");
    int64_t i = 0;
    assert_ok(json_require_integer("doc", o, "i", &i));
    assert_int_equal(i, 7);
    assert_fails(json_require_integer("doc", o, "x", &i), GRAIL_ERROR_FORMAT,
                 "doc: \"x\" is missing");
    assert_fails(json_require_integer("doc", o, "n", &i), GRAIL_ERROR_FORMAT, "is missing");
    assert_fails(json_require_integer("doc", o, "s", &i), GRAIL_ERROR_FORMAT, "not an integer");
}

TEST(test_access_to_what_is_not_an_object_finds_nothing)
{
    OWNED(json_t) *a = parse("[1]");
    int64_t i = 0;
    assert_ok(json_get_integer("doc", a, "i", 4, &i));
    assert_int_equal(i, 4);
}

TEST(test_text_is_compact_and_in_order)
{
    OWNED(json_t) *o = parse("{ \"z\" : [1, 0.1], \"a\" : \"\\u00e9\\n\" }");
    buffer text = {.maximum = 1000};
    assert_ok(buffer_append_string(&text, "> "));
    assert_ok(json_append_text(o, &text));
    assert_string_equal((const char *)text.bytes,
                        "> {\"z\":[1,0.10000000000000001],\"a\":\"\u00e9\\n\"}");
    buffer_fini(&text);
    text.maximum = 3;
    assert_fails(json_append_text(o, &text), GRAIL_ERROR_FORMAT, "more than the allowed 3 bytes");
    buffer_fini(&text);
}

/* Read again, a document that is safe to show has the same strings. */
TEST(test_text_holds_nothing_that_acts)
{
    static const char wild[] = "\x1b[2J\n\x7f\xc2\x9b\u202e\u2066\u2028\u00e9\\\"";
    typedef grail_status (*append)(const json_t *value, buffer *out);
    static const append all[] = {json_append_text, json_append_indented};
    OWNED(json_t) *o = json_object();
    assert_ok(json_put(o, wild, json_text(wild)));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        OWNED(buffer) text = {.maximum = 1000};
        assert_ok(all[i](o, &text));
        const char *line = (const char *)text.bytes;
        assert_non_null(strstr(line, "\\u001B[2J\\n\\u007f\\u009b\\u202e\\u2066\\u2028\u00e9"));
        assert_null(strpbrk(line, "\x1b\x7f"));
        assert_null(strstr(line, "\xc2\x9b"));
        assert_null(strstr(line, "\xe2\x80\xae"));
        OPENED(json_t, again, json_parse("doc", text.bytes, text.size, &again));
        assert_true(json_equal(o, again));
    }
}

TEST(test_any_bytes_become_a_string)
{
    static const char *const names[][2] = {
        {"", ""},
        {"/tmp/a\\b \u00e9", "/tmp/a\\b \u00e9"},
        {"/tmp/\xff", "/tmp/\\xff"},
        {"a\\\xc3(", "a\\\\\\xc3("},
    };
    OWNED(json_t) *o = json_object();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *value = json_text(names[i][0]);
        assert_string_equal(json_string_value(value), names[i][1]);
        assert_ok(json_put_name(o, names[i][0], value));
        assert_ptr_equal(json_object_get(o, names[i][1]), value);
    }
}

TEST(test_a_key_that_is_not_utf8_is_not_lack_of_memory)
{
    OWNED(json_t) *o = json_object();
    assert_fails(json_put(o, "a\xff", json_integer(1)), GRAIL_ERROR_FORMAT,
                 "the name 'a\\xff' is not UTF-8");
    assert_fails(json_put(o, "a\xff", NULL), GRAIL_ERROR_MEMORY, "out of memory");
    assert_int_equal(json_object_size(o), 0);
}

TEST(test_unknown_keys_are_refused_with_the_known_ones)
{
    static const char *const known[] = {"a", "b", NULL};
    OWNED(json_t) *o = parse("{\"a\":1,\"b\":2}");
    assert_ok(json_check_keys("doc", o, known));
    assert_ok(json_put(o, "\x1b", json_null()));
    assert_fails(json_check_keys("doc: x", o, known), GRAIL_ERROR_FORMAT,
                 "doc: x: unknown key \"\\x1b\"; the known keys are a, b");
    assert_fails(json_check_keys("doc", json_object_get(o, "a"), known), GRAIL_ERROR_FORMAT,
                 "doc: not a JSON object");
}

DIRECTORY_TEST(test_what_is_written_is_read_back)
{
    json_t *again = NULL;
    OWNED(buffer) text = {.maximum = 1000};
    OWNED(json_t) *o = parse("{\"b\":[1,2.5,null,true],\"a\":{\"k\":\"v\"},\"r\":0.1}");
    OPENED(char, path, path_join(&path, directory, "x.json"));
    assert_ok(json_append_indented(o, &text));
    support_write_file(directory, "x.json", text.bytes, text.size);
    assert_ok(json_read_file(path, 1000, &again));
    assert_true(json_equal(o, again));
    json_decref(again);
    assert_fails(json_read_file(path, 10, &again), GRAIL_ERROR_FORMAT, "more than the allowed 10");
}

static grail_status parse_and_write(void *context)
{
    static const char text[] =
        "{\"a key of more than twenty bytes\":\"a string of more than twenty bytes\",\"b\":"
        "[1,2.5,\"x\",null,true,{\"c\":\"d\"}],\"e\":-12345678901234567,\"f\":\"\\u00e9\"}";
    OWNED(json_t) *value = NULL;
    OWNED(buffer) out = {.maximum = 10000};
    CHECK(json_parse("doc", text, sizeof text - 1, &value));
    CHECK(json_put(value, "new", json_array()));
    CHECK(json_push(json_object_get(value, "new"), json_text("pushed\xff")));
    CHECK(json_put_name(value, "named\xff", json_text("\xc2\x9b")));
    return json_append_text(value, &out);
}

TEST(test_every_failing_allocation_is_reported)
{
    support_fail_each_allocation(parse_and_write, NULL);
}

CMFixtureFunction support_setup = json_memory_use;
