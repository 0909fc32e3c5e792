/* A reader of protocol buffer fields, strict about lengths. */
#ifndef GRAIL_TESTS_PROTOBUF_READER_H
#define GRAIL_TESTS_PROTOBUF_READER_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum protobuf_wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
} protobuf_wire;

typedef struct protobuf_text {
    const char *bytes;
    size_t size;
} protobuf_text;

typedef struct protobuf_field {
    uint32_t number;
    protobuf_wire wire;
    uint64_t value;      /* varint and fixed values */
    protobuf_text bytes; /* length-delimited values: any bytes */
} protobuf_field;

typedef grail_status (*protobuf_handler)(const protobuf_field *field, void *context);

/** Calls the handler for each field of a message, in order. */
grail_status protobuf_read(protobuf_text message, protobuf_handler handler,
                           void *context) GRAIL_MUST_CHECK;

#endif
