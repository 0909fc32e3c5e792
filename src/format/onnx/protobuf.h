/* The wire of protocol buffers, read and written. A message is a run of fields, each a tag (number
 * << 3 | wire type) and a varint, four or eight bytes, or a length and that many bytes. Reading
 * copies nothing: a field points into its message and keeps the range of its own bytes, so that
 * what is not understood can be written as it was. A nested message is read when its reader comes
 * to it, so nothing here recurses; readers limit the depth. Groups, which ONNX never had, are
 * refused. Source: the encoding page of the protocol buffers documentation. */
#ifndef GRAIL_FORMAT_ONNX_PROTOBUF_H
#define GRAIL_FORMAT_ONNX_PROTOBUF_H

#include "base/buffer.h"

#include <stdint.h>

typedef enum protobuf_wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
} protobuf_wire;

/** The most bytes of a tag or a varint. */
enum { PROTOBUF_LONGEST_VARINT = 10 };

/** Borrowed bytes. */
typedef struct byte_range {
    const unsigned char *bytes;
    size_t size;
} byte_range;

typedef struct protobuf_field {
    uint32_t number;
    protobuf_wire wire;
    uint64_t value;   /* of a varint or fixed bytes */
    byte_range bytes; /* of WIRE_BYTES: any bytes */
    byte_range whole; /* the field with its tag */
} protobuf_field;

/** Takes the first field from the rest of a message, which has bytes left. Bytes that are no field
 * are GRAIL_ERROR_FORMAT. */
grail_status protobuf_next(byte_range *rest, protobuf_field *out) GRAIL_MUST_CHECK;

/** What a field must be: bytes, or a varint. */
grail_status protobuf_bytes_of(const protobuf_field *field, byte_range *out) GRAIL_MUST_CHECK;

/** A field to be taken from a message: its value, and how often it occurs. What is not wanted is
 * NULL. The last integer counts. Bytes, NULL before, may not occur twice, since readers
 * would join such messages, unless they are counted. */
typedef struct protobuf_part {
    uint32_t number;
    byte_range *bytes;
    int64_t *integer;
    size_t *count;
} protobuf_part;

/** Takes parts from a message; what does not occur is left as it is. */
grail_status protobuf_take(byte_range message, size_t count,
                           const protobuf_part parts[]) GRAIL_MUST_CHECK;

/** Walks over the numbers of a repeated field of a message: each occurrence holds one, or any
 * count, packed. `number` is that of the field, `wire` that of one number. */
typedef struct protobuf_numbers {
    byte_range rest, packed;
    uint32_t number;
    protobuf_wire wire;
} protobuf_numbers;

/** The next number; *more is false at the end. */
grail_status protobuf_next_number(protobuf_numbers *walk, bool *more,
                                  uint64_t *out) GRAIL_MUST_CHECK;

/* -- writing: appends to a message ------------------------------------------------------------- */

grail_status protobuf_put_integer(buffer *out, uint32_t field, int64_t value) GRAIL_MUST_CHECK;
grail_status protobuf_put_f32(buffer *out, uint32_t field, float value) GRAIL_MUST_CHECK;
/** Tag and length of a field of so many bytes, which follow. */
grail_status protobuf_put_header(buffer *out, uint32_t field, size_t size) GRAIL_MUST_CHECK;
grail_status protobuf_put_bytes(buffer *out, uint32_t field, const void *bytes,
                                size_t size) GRAIL_MUST_CHECK;
grail_status protobuf_put_string(buffer *out, uint32_t field, const char *text) GRAIL_MUST_CHECK;
/** Makes what was appended from `begin` on, and `more` bytes that are written elsewhere, a field.
 */
grail_status protobuf_end_message(buffer *out, uint32_t field, size_t begin,
                                  size_t more) GRAIL_MUST_CHECK;

#endif
