/* What a JSON text holds is measured before it is parsed, and too much is refused. */
#include "support/support.h"

#include "base/json.h"

TEST(test_parts_are_counted_outside_of_strings)
{
    static const char text[] = "{\"a,[{\\\"\": [1, {\"b\": [[], {}]}], \"c\\\\\": \"]}\"}";
    const json_extent extent = json_measure(text, sizeof text - 1);
    assert_int_equal(extent.depth, 5);
    assert_int_equal(extent.members, 1);
    assert_int_equal(extent.values, 3);
    assert_int_equal(extent.arrays, 3);
    assert_int_equal(extent.objects, 3);
    assert_int_equal(json_measure("1", 1).depth, 0);
}

/* "[", `count` times `piece`, "1]" is parsed, or refused before anything is allocated. */
static void check_repeated(int64_t count, const char *piece, const char *refusal)
{
    OWNED(buffer) text = {.maximum = 1 << 26};
    json_t *value = NULL;
    assert_ok(buffer_append_string(&text, "["));
    for (int64_t i = 0; i < count; i++) {
        assert_ok(buffer_append_string(&text, piece));
    }
    assert_ok(buffer_append_string(&text, "1]"));
    if (refusal == NULL) {
        assert_ok(json_parse("doc", text.bytes, text.size, &value));
        json_decref(value);
    } else {
        memory_fail_after(-1);
        assert_fails(json_parse("doc", text.bytes, text.size, &value), GRAIL_ERROR_FORMAT, refusal);
        assert_int_equal(memory_allocation_count(), 0);
    }
}

TEST(test_what_takes_far_more_than_its_bytes_is_refused)
{
    enum { FEW = JSON_FREE_PARTS - 2, MANY = 4 * JSON_FREE_PARTS };
    check_repeated(FEW, "{},", NULL);
    check_repeated(FEW, "[],", NULL);
    check_repeated(FEW, "0,", NULL);
    check_repeated(MANY, "{},",
                   "doc: 786435 bytes of JSON hold 262144 values, 1 arrays and 262144 objects, "
                   "more than grail accepts in JSON of this size");
    check_repeated(MANY, "[],", "262145 arrays");
    check_repeated(MANY, "0,", "262144 values");
}

TEST(test_dense_documents_of_real_kinds_are_read)
{
    enum { MANY = 8 * JSON_FREE_PARTS };
    check_repeated(MANY, "[\"a\",\"b\"],", NULL);
    check_repeated(MANY, "{\"shape\":[1,1,1,1],\"data_offsets\":[0,4]},", NULL);
    check_repeated(MANY, "480,", NULL);
}

/* `depth` nested arrays. */
static void check_nested(int64_t depth, const char *refusal)
{
    OWNED(buffer) text = {.maximum = 1 << 20};
    json_t *value = NULL;
    for (int64_t i = 0; i < depth; i++) {
        assert_ok(buffer_append_string(&text, "["));
    }
    for (int64_t i = 0; i < depth; i++) {
        assert_ok(buffer_append_string(&text, "]"));
    }
    if (refusal == NULL) {
        assert_ok(json_parse("doc", text.bytes, text.size, &value));
        json_decref(value);
    } else {
        assert_fails(json_parse("doc", text.bytes, text.size, &value), GRAIL_ERROR_FORMAT, refusal);
    }
}

TEST(test_nesting_is_bounded)
{
    check_nested(JSON_DEEPEST, NULL);
    check_nested(JSON_DEEPEST + 1, "doc: the JSON nests deeper than 200 levels");
}
