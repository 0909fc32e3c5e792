/* The wire of protocol buffers: what is read of bytes made here, what is refused, and that what is
 * written comes back. */
#include "support/support.h"

#include "format/onnx/protobuf.h"

#include <string.h>

#define BYTES(...)                                                                                 \
    (byte_range)                                                                                   \
    {                                                                                              \
        (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})         \
    }

static grail_status read_one(byte_range message, protobuf_field *out)
{
    return protobuf_next(&message, out);
}

TEST(fields_of_every_wire_keep_the_range_of_their_bytes)
{
    const byte_range message = BYTES(0x08, 0xAC, 0x02, 0x12, 0x02, 'a', 'b', 0x1D, 1, 2, 3, 4, 0x21,
                                     1, 0, 0, 0, 0, 0, 0, 0x80, 0xA2, 0x01, 0x00);
    byte_range rest = message;
    protobuf_field f;
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal(f.number, 1);
    assert_int_equal(f.wire, WIRE_VARINT);
    assert_int_equal(f.value, 300);
    assert_ptr_equal(f.whole.bytes, message.bytes);
    assert_int_equal(f.whole.size, 3);
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal(f.number, 2);
    assert_int_equal(f.bytes.size, 2);
    assert_memory_equal(f.bytes.bytes, "ab", 2);
    assert_int_equal(f.whole.size, 4);
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal(f.wire, WIRE_FIXED32);
    assert_int_equal(f.value, 0x04030201);
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal(f.wire, WIRE_FIXED64);
    assert_true(f.value == 0x8000000000000001);
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal(f.number, 20);
    assert_int_equal(f.bytes.size, 0);
    assert_ptr_equal(f.whole.bytes + f.whole.size, message.bytes + message.size);
    assert_int_equal(rest.size, 0);
}

TEST(the_largest_numbers_are_read)
{
    protobuf_field f;
    assert_ok(
        read_one(BYTES(0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01), &f));
    assert_true(f.value == UINT64_MAX);
    assert_ok(read_one(BYTES(0xF8, 0xFF, 0xFF, 0xFF, 0x0F, 0x00), &f));
    assert_int_equal(f.number, (1 << 29) - 1);
}

TEST(bytes_that_are_no_field_are_refused)
{
    const struct {
        byte_range message;
        const char *text;
    } cases[] = {
        {BYTES(0x08), "ends within a field"},
        {BYTES(0x80), "ends within a field"},
        {BYTES(0x08, 0x80), "ends within a field"},
        {BYTES(0x1D, 1, 2, 3), "ends within a field"},
        {BYTES(0x21, 1, 2, 3, 4, 5, 6, 7), "ends within a field"},
        {BYTES(0x12, 3, 'a', 'b'), "claims a field of 3 bytes where 2 are left"},
        {BYTES(0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0),
         "claims a field of 18446744073709551615 bytes where 1 are left"},
        {BYTES(0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02),
         "a number of more than 64 bits"},
        {BYTES(0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00),
         "a number of more than 64 bits"},
        {BYTES(0x00, 0x00), "a field of the number 0"},
        {BYTES(0x80, 0x80, 0x80, 0x80, 0x10, 0x00), "a field of the number 536870912"},
        {BYTES(0x0B, 0x0C), "the wire type 3"},
        {BYTES(0x0F), "the wire type 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        byte_range rest = cases[i].message;
        protobuf_field f = {.number = 77};
        assert_fails(protobuf_next(&rest, &f), GRAIL_ERROR_FORMAT, cases[i].text);
        assert_int_equal(f.number, 77);
        assert_ptr_equal(rest.bytes, cases[i].message.bytes);
    }
}

TEST(numbers_are_read_packed_and_one_by_one)
{
    /* 1: 5, 2: "x", 1: [300, 7], 1: [], 1: 9 */
    protobuf_numbers walk = {
        .rest = BYTES(0x08, 5, 0x12, 1, 'x', 0x0A, 3, 0xAC, 0x02, 7, 0x0A, 0, 0x08, 9),
        .number = 1};
    static const uint64_t expected[] = {5, 300, 7, 9};
    uint64_t value = 0;
    bool more = false;
    for (size_t i = 0; i < 4; i++) {
        assert_ok(protobuf_next_number(&walk, &more, &value));
        assert_true(more);
        assert_int_equal(value, expected[i]);
    }
    assert_ok(protobuf_next_number(&walk, &more, &value));
    assert_false(more);
}

TEST(numbers_that_lie_are_refused)
{
    uint64_t value = 0;
    bool more = false;
    protobuf_numbers cut = {
        .rest = BYTES(0x0A, 6, 1, 0, 0, 0, 2, 0), .number = 1, .wire = WIRE_FIXED32};
    assert_ok(protobuf_next_number(&cut, &more, &value));
    assert_int_equal(value, 1);
    assert_fails(protobuf_next_number(&cut, &more, &value), GRAIL_ERROR_FORMAT, "within a field");
    protobuf_numbers other = {.rest = BYTES(0x0D, 1, 0, 0, 0), .number = 1};
    assert_fails(protobuf_next_number(&other, &more, &value), GRAIL_ERROR_FORMAT,
                 "field 1 of the wire type 5, expected 0");
}

TEST(what_is_written_comes_back)
{
    OWNED(buffer) out;
    protobuf_field f;
    buffer_init(&out, 1024);
    assert_ok(protobuf_put_string(&out, 2, "name"));
    assert_ok(protobuf_put_integer(&out, 1, -1));
    assert_ok(protobuf_put_f32(&out, 3, 0.5F));
    assert_ok(protobuf_end_message(&out, 300, 0, 2)); /* and two bytes that follow */
    assert_ok(buffer_append(&out, "\x08\x07", 2));
    byte_range rest = {out.bytes, out.size};
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal(rest.size, 0);
    assert_int_equal(f.number, 300);
    rest = f.bytes;
    assert_ok(protobuf_next(&rest, &f));
    assert_memory_equal(f.bytes.bytes, "name", 4);
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal((int64_t)f.value, -1);
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal(f.value, 0x3F000000);
    assert_ok(protobuf_next(&rest, &f));
    assert_int_equal(f.value, 7);
}
