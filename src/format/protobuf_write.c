#include "format/protobuf.h"

#include <string.h>

static grail_status put_varint(buffer *out, uint64_t value)
{
    enum { LONGEST = 10 };
    unsigned char bytes[LONGEST];
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
    const grail_status status = put_tag(out, field, WIRE_VARINT);
    return status == GRAIL_OK ? put_varint(out, (uint64_t)value) : status;
}

grail_status protobuf_put_float(buffer *out, int field, float value)
{
    const grail_status status = put_tag(out, field, WIRE_FIXED32);
    return status == GRAIL_OK ? buffer_append(out, &value, sizeof value) : status;
}

grail_status protobuf_put_header(buffer *out, int field, size_t size)
{
    const grail_status status = put_tag(out, field, WIRE_BYTES);
    return status == GRAIL_OK ? put_varint(out, size) : status;
}

grail_status protobuf_put_bytes(buffer *out, int field, const void *bytes, size_t size)
{
    const grail_status status = protobuf_put_header(out, field, size);
    return status == GRAIL_OK ? buffer_append(out, bytes, size) : status;
}

grail_status protobuf_put_string(buffer *out, int field, const char *text)
{
    return protobuf_put_bytes(out, field, text, strlen(text));
}

grail_status protobuf_put_message(buffer *out, int field, const buffer *message)
{
    return protobuf_put_bytes(out, field, message->bytes, message->size);
}
