/* Thrift's compact protocol, in which Parquet files describe themselves. Source: thrift,
 * doc/specs/thrift-compact-protocol.md. A reader stops at the first wrong byte: `failed` is set,
 * and everything that is read from then on is 0 or empty. */
#ifndef GRAIL_FORMAT_TEXT_THRIFT_COMPACT_H
#define GRAIL_FORMAT_TEXT_THRIFT_COMPACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum thrift_type {
    THRIFT_STOP,
    THRIFT_TRUE,
    THRIFT_FALSE,
    THRIFT_BYTE,
    THRIFT_I16,
    THRIFT_I32,
    THRIFT_I64,
    THRIFT_DOUBLE,
    THRIFT_BINARY,
    THRIFT_LIST,
    THRIFT_SET,
    THRIFT_MAP,
    THRIFT_STRUCT
} thrift_type;

typedef struct thrift_reader {
    const unsigned char *at, *end;
    bool failed;
} thrift_reader;

/** A field of a struct; `id` 0 begins one. */
typedef struct thrift_field {
    int32_t id;
    thrift_type type;
} thrift_field;

/** Reads the head of the next field after *field; false at the end of the struct, and after a
 * failure. The caller reads or skips the value. */
bool thrift_next(thrift_reader *r, thrift_field *field);
/** The value of a field of an integer type or a boolean; any other fails. */
int64_t thrift_integer(thrift_reader *r, thrift_type type);
/** A binary or text; *size is 0 after a failure. */
const unsigned char *thrift_binary(thrift_reader *r, thrift_type type, size_t *size);
/** The head of a list with elements of this type: how many. Each has at least a byte. */
int64_t thrift_list(thrift_reader *r, thrift_type type, thrift_type element);
void thrift_skip(thrift_reader *r, thrift_type type);

/** An unsigned number of 7 bits a byte, as Parquet's runs use it too. */
uint64_t thrift_varint(thrift_reader *r);

#endif
