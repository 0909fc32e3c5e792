#include "format/onnx/protobuf.h"

#include "base/bytes.h"

#include <string.h>

static grail_status truncated(void)
{
    return error_set(GRAIL_ERROR_FORMAT, "ends within a field");
}

static byte_range behind(byte_range range, size_t size)
{
    return (byte_range){range.bytes + size, range.size - size};
}

static grail_status take_varint(byte_range *rest, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < PROTOBUF_LONGEST_VARINT; i++) {
        if (i == rest->size) {
            return truncated();
        }
        const uint64_t byte = rest->bytes[i];
        if (i == PROTOBUF_LONGEST_VARINT - 1 && byte > 1) {
            break;
        }
        value |= (byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            *out = value;
            *rest = behind(*rest, i + 1);
            return GRAIL_OK;
        }
    }
    return error_set(GRAIL_ERROR_FORMAT, "has a number of more than 64 bits");
}

static grail_status take_fixed(byte_range *rest, size_t width, uint64_t *out)
{
    if (rest->size < width) {
        return truncated();
    }
    *out = load_little(rest->bytes, width);
    *rest = behind(*rest, width);
    return GRAIL_OK;
}

static grail_status take_bytes(byte_range *rest, byte_range *out)
{
    uint64_t size = 0;
    CHECK(take_varint(rest, &size));
    if (size > rest->size) {
        return error_set(GRAIL_ERROR_FORMAT, "claims a field of %llu bytes where %zu are left",
                         (unsigned long long)size, rest->size);
    }
    *out = (byte_range){rest->bytes, (size_t)size};
    *rest = behind(*rest, (size_t)size);
    return GRAIL_OK;
}

static grail_status take_number(byte_range *rest, protobuf_wire wire, uint64_t *out)
{
    return wire == WIRE_VARINT ? take_varint(rest, out)
                               : take_fixed(rest, wire == WIRE_FIXED32 ? 4 : 8, out);
}

grail_status protobuf_next(byte_range *rest, protobuf_field *out)
{
    uint64_t tag = 0;
    byte_range left = *rest;
    protobuf_field field = {.whole = *rest};
    CHECK(take_varint(&left, &tag));
    field.number = (uint32_t)(tag >> 3);
    field.wire = (protobuf_wire)(tag & 7);
    if (field.number == 0 || tag > UINT32_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "has a field of the number %llu",
                         (unsigned long long)(tag >> 3));
    }
    switch (field.wire) {
    case WIRE_VARINT:
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        CHECK(take_number(&left, field.wire, &field.value));
        break;
    case WIRE_BYTES:
        CHECK(take_bytes(&left, &field.bytes));
        break;
    default:
        return error_set(GRAIL_ERROR_FORMAT, "has a field of the wire type %d", (int)(tag & 7));
    }
    field.whole.size = rest->size - left.size;
    *rest = left;
    *out = field;
    return GRAIL_OK;
}

static grail_status expect_wire(const protobuf_field *field, protobuf_wire wire)
{
    return field->wire == wire
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT, "has field %u of the wire type %d, expected %d",
                           field->number, (int)field->wire, (int)wire);
}

grail_status protobuf_bytes_of(const protobuf_field *field, byte_range *out)
{
    CHECK(expect_wire(field, WIRE_BYTES));
    *out = field->bytes;
    return GRAIL_OK;
}

static grail_status take_part(const protobuf_field *field, const protobuf_part *part)
{
    if (part->bytes != NULL) {
        if (part->bytes->bytes != NULL && part->count == NULL) {
            return error_set(GRAIL_ERROR_FORMAT, "has field %u twice", field->number);
        }
        CHECK(protobuf_bytes_of(field, part->bytes));
    }
    if (part->integer != NULL) {
        CHECK(expect_wire(field, WIRE_VARINT));
        *part->integer = (int64_t)field->value;
    }
    if (part->count != NULL) {
        ++*part->count;
    }
    return GRAIL_OK;
}

grail_status protobuf_take(byte_range message, size_t count, const protobuf_part parts[])
{
    while (message.size > 0) {
        protobuf_field field;
        CHECK(protobuf_next(&message, &field));
        for (size_t i = 0; i < count; i++) {
            CHECK(field.number == parts[i].number ? take_part(&field, &parts[i]) : GRAIL_OK);
        }
    }
    return GRAIL_OK;
}

grail_status protobuf_next_number(protobuf_numbers *walk, bool *more, uint64_t *out)
{
    while (walk->packed.size == 0 && walk->rest.size > 0) {
        protobuf_field field;
        CHECK(protobuf_next(&walk->rest, &field));
        if (field.number == walk->number && field.wire == WIRE_BYTES) {
            walk->packed = field.bytes;
        } else if (field.number == walk->number) {
            CHECK(expect_wire(&field, walk->wire));
            *out = field.value;
            *more = true;
            return GRAIL_OK;
        }
    }
    *more = walk->packed.size > 0;
    return *more ? take_number(&walk->packed, walk->wire, out) : GRAIL_OK;
}

/* -- writing ----------------------------------------------------------------------------------- */

static grail_status put_varint(buffer *out, uint64_t value)
{
    unsigned char bytes[PROTOBUF_LONGEST_VARINT];
    size_t count = 0;
    do {
        bytes[count++] = (unsigned char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    return buffer_append(out, bytes, count);
}

static grail_status protobuf_put_tag(buffer *out, uint32_t field, protobuf_wire wire)
{
    return put_varint(out, (uint64_t)field << 3 | (uint64_t)wire);
}

grail_status protobuf_put_integer(buffer *out, uint32_t field, int64_t value)
{
    CHECK(protobuf_put_tag(out, field, WIRE_VARINT));
    return put_varint(out, (uint64_t)value);
}

grail_status protobuf_put_f32(buffer *out, uint32_t field, float value)
{
    CHECK(protobuf_put_tag(out, field, WIRE_FIXED32));
    return buffer_append(out, &value, sizeof value);
}

grail_status protobuf_put_header(buffer *out, uint32_t field, size_t size)
{
    CHECK(protobuf_put_tag(out, field, WIRE_BYTES));
    return put_varint(out, size);
}

grail_status protobuf_put_bytes(buffer *out, uint32_t field, const void *bytes, size_t size)
{
    CHECK(protobuf_put_header(out, field, size));
    return buffer_append(out, bytes, size);
}

grail_status protobuf_put_string(buffer *out, uint32_t field, const char *text)
{
    return protobuf_put_bytes(out, field, text, strlen(text));
}

/* The header is appended and then brought before the message. */
grail_status protobuf_end_message(buffer *out, uint32_t field, size_t begin, size_t more)
{
    unsigned char header[2 * PROTOBUF_LONGEST_VARINT];
    const size_t size = out->size - begin;
    CHECK(protobuf_put_header(out, field, size + more));
    unsigned char *message = out->bytes + begin;
    const size_t length = out->size - begin - size;
    memcpy(header, message + size, length);
    memmove(message + length, message, size);
    memcpy(message, header, length);
    return GRAIL_OK;
}
