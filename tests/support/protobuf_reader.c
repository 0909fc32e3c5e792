#include "support/protobuf_reader.h"

#include "base/bytes.h"

typedef struct protobuf_reader {
    const unsigned char *bytes;
    size_t size;
    size_t position;
} protobuf_reader;

static grail_status truncated(const protobuf_reader *r)
{
    return error_set(GRAIL_ERROR_FORMAT, "the protocol buffer ends within a field at byte %zu",
                     r->position);
}

static grail_status read_varint(protobuf_reader *r, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->position == r->size) {
            return truncated(r);
        }
        const unsigned char byte = r->bytes[r->position++];
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = value;
            return GRAIL_OK;
        }
    }
    return error_set(GRAIL_ERROR_FORMAT, "a number of more than 64 bits ends at byte %zu",
                     r->position);
}

/* Little-endian. */
static grail_status read_fixed(protobuf_reader *r, size_t size, uint64_t *out)
{
    if (r->size - r->position < size) {
        return truncated(r);
    }
    *out = load_little(r->bytes + r->position, size);
    r->position += size;
    return GRAIL_OK;
}

static grail_status read_bytes(protobuf_reader *r, protobuf_text *out)
{
    uint64_t size = 0;
    CHECK(read_varint(r, &size));
    if (size > r->size - r->position) {
        return truncated(r);
    }
    *out = (protobuf_text){(const char *)r->bytes + r->position, (size_t)size};
    r->position += (size_t)size;
    return GRAIL_OK;
}

static grail_status next_field(protobuf_reader *r, protobuf_field *field)
{
    uint64_t tag = 0;
    *field = (protobuf_field){0};
    CHECK(read_varint(r, &tag));
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "not a protocol buffer: bad field number at byte %zu",
                         r->position);
    }
    field->number = (uint32_t)(tag >> 3);
    field->wire = (protobuf_wire)(tag & 7);
    switch (field->wire) {
    case WIRE_VARINT:
        return read_varint(r, &field->value);
    case WIRE_FIXED64:
        return read_fixed(r, 8, &field->value);
    case WIRE_FIXED32:
        return read_fixed(r, 4, &field->value);
    case WIRE_BYTES:
        return read_bytes(r, &field->bytes);
    }
    return error_set(GRAIL_ERROR_FORMAT, "not a protocol buffer: bad wire type %d at byte %zu",
                     (int)field->wire, r->position);
}

grail_status protobuf_read(protobuf_text message, protobuf_handler handler, void *context)
{
    protobuf_reader r = {(const unsigned char *)message.bytes, message.size, 0};
    while (r.position < r.size) {
        protobuf_field field;
        CHECK(next_field(&r, &field));
        CHECK(handler(&field, context));
    }
    return GRAIL_OK;
}
