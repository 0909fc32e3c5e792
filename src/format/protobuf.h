/* Protocol buffers: the parts of a field, and functions that write fields. A field is a tag (number
 * << 3 | wire type) and a varint, four or eight bytes, or a length and that many bytes. Source: the
 * encoding page of the protocol buffers documentation. */
#ifndef GRAIL_FORMAT_PROTOBUF_H
#define GRAIL_FORMAT_PROTOBUF_H

#include "base/buffer.h"

typedef enum protobuf_wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
} protobuf_wire;

/* Each appends one field to `out`. */
grail_status protobuf_put_integer(buffer *out, int field, int64_t value) GRAIL_MUST_CHECK;
grail_status protobuf_put_float(buffer *out, int field, float value) GRAIL_MUST_CHECK;
grail_status protobuf_put_bytes(buffer *out, int field, const void *bytes,
                                size_t size) GRAIL_MUST_CHECK;
grail_status protobuf_put_string(buffer *out, int field, const char *text) GRAIL_MUST_CHECK;
/** Makes what was appended from `begin` on, and `more` bytes that the caller writes after it, a
 * message within the message. */
grail_status protobuf_end_message(buffer *out, int field, size_t begin,
                                  size_t more) GRAIL_MUST_CHECK;
/** Tag and length of a field; the caller writes its `size` bytes after them. */
grail_status protobuf_put_header(buffer *out, int field, size_t size) GRAIL_MUST_CHECK;

#endif
