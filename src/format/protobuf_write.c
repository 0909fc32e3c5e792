#include "format/protobuf.h"

#include <string.h>

enum { LONGEST_VARINT = 10 };

static grail_status put_varint(buffer *out, uint64_t value)
{
    unsigned char bytes[LONGEST_VARINT];
    size_t count = 0;
    do {
        bytes[count++] = (unsigned char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    return buffer_append(out, bytes, count);
}

static grail_status put_tag(buffer *out, int field, protobuf_wire wire)
{
    return put_varint(out, (uint64_t)field << 3 | (uint64_t)wire);
}

grail_status protobuf_put_integer(buffer *out, int field, int64_t value)
{
    CHECK(put_tag(out, field, WIRE_VARINT));
    return put_varint(out, (uint64_t)value);
}

grail_status protobuf_put_float(buffer *out, int field, float value)
{
    CHECK(put_tag(out, field, WIRE_FIXED32));
    return buffer_append(out, &value, sizeof value);
}

grail_status protobuf_put_header(buffer *out, int field, size_t size)
{
    CHECK(put_tag(out, field, WIRE_BYTES));
    return put_varint(out, size);
}

grail_status protobuf_put_bytes(buffer *out, int field, const void *bytes, size_t size)
{
    CHECK(protobuf_put_header(out, field, size));
    return buffer_append(out, bytes, size);
}

grail_status protobuf_put_string(buffer *out, int field, const char *text)
{
    return protobuf_put_bytes(out, field, text, strlen(text));
}

/* The header is appended and then brought before the message. */
grail_status protobuf_end_message(buffer *out, int field, size_t begin, size_t more)
{
    unsigned char header[2 * LONGEST_VARINT];
    const size_t size = out->size - begin;
    CHECK(protobuf_put_header(out, field, size + more));
    unsigned char *message = out->bytes + begin;
    const size_t length = out->size - begin - size;
    memcpy(header, message + size, length);
    memmove(message + length, message, size);
    memcpy(message, header, length);
    return GRAIL_OK;
}
