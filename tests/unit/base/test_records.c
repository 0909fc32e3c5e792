/* Records with checksums: read back as they were written, and no changed bit goes unnoticed. */
#include "support/support.h"

#include "base/records.h"
#include "support/json_memory.h"

enum { RECORDS = 3 };

static void write_records(buffer *text)
{
    buffer_init(text, (size_t)1 << 20);
    for (int i = 0; i < RECORDS; i++) {
        json_t *record = json_pack("{s:i, s:[f,s]}", "block", i, "values", 0.1 * i, "a\nb\\\"");
        assert_ok(record_append_line(record, text));
        json_decref(record);
    }
}

static grail_status parse(const buffer *text, size_t size, json_t **out)
{
    return records_parse("state", text->bytes, size, out);
}

TEST(test_records_are_read_back)
{
    buffer text;
    json_t *records = NULL;
    write_records(&text);
    assert_ok(parse(&text, text.size, &records));
    assert_int_equal(json_array_size(records), RECORDS);
    const json_t *last = json_array_get(records, RECORDS - 1);
    assert_int_equal(json_integer_value(json_object_get(last, "block")), RECORDS - 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(last, "values"), 1)),
                        "a\nb\\\"");
    json_decref(records);
    buffer_fini(&text);
}

TEST(test_no_text_is_no_records)
{
    json_t *records = NULL;
    assert_ok(records_parse("state", "", 0, &records));
    assert_int_equal(json_array_size(records), 0);
    json_decref(records);
}

/* However much of the last line was written, it is left out; the others stay. */
TEST(test_a_torn_last_line_is_no_record)
{
    buffer text;
    write_records(&text);
    size_t begin = text.size - 1;
    while (text.bytes[begin - 1] != '\n') {
        begin--;
    }
    for (size_t size = begin; size < text.size; size++) {
        json_t *records = NULL;
        assert_ok(parse(&text, size, &records));
        assert_int_equal(json_array_size(records), RECORDS - 1);
        json_decref(records);
    }
    buffer_fini(&text);
}

TEST(test_every_flipped_bit_is_noticed)
{
    buffer text;
    write_records(&text);
    for (size_t i = 0; i < text.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            json_t *records = NULL;
            const unsigned char flip = (unsigned char)(1 << bit);
            text.bytes[i] ^= flip;
            assert_fails(parse(&text, text.size, &records), GRAIL_ERROR_FORMAT,
                         "'state' is damaged, or another version of grail wrote it: line ");
            text.bytes[i] ^= flip;
        }
    }
    buffer_fini(&text);
}

TEST(test_a_line_of_another_kind_is_named)
{
    static const char other[] = "{\"grail_state\":1}\n";
    buffer text;
    json_t *records = NULL;
    write_records(&text);
    assert_ok(buffer_append_string(&text, other));
    assert_fails(
        parse(&text, text.size, &records), GRAIL_ERROR_FORMAT,
        "is damaged, or another version of grail wrote it: line 4 does not match its checksum");
    buffer_fini(&text);
}

static grail_status write_and_read(void *context)
{
    grail_status status = GRAIL_OK;
    json_t *records = NULL;
    json_t *record = NULL;
    buffer text;
    buffer_init(&text, 1000);
    record = json_pack("{s:i}", "block", 1);
    if (record == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "no record");
    }
    TRY(record_append_line(record, &text));
    TRY(records_parse("state", text.bytes, text.size, &records));
out:
    json_decref(records);
    json_decref(record);
    buffer_fini(&text);
    return status;
}

TEST(test_every_failing_allocation_is_reported)
{
    support_fail_each_allocation(write_and_read, NULL);
}

CMFixtureFunction support_setup = json_memory_use;
