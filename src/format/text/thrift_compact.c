#include "format/text/thrift_compact.h"

enum { DEEPEST = 16 };

static uint64_t fail(thrift_reader *r)
{
    r->failed = true;
    r->at = r->end;
    return 0;
}

static unsigned char next_byte(thrift_reader *r)
{
    return r->at < r->end ? *r->at++ : (unsigned char)fail(r);
}

uint64_t thrift_varint(thrift_reader *r)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const unsigned char byte = next_byte(r);
        if (shift == 63 && byte > 1) {
            break;
        }
        value |= (uint64_t)(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0) {
            return r->failed ? 0 : value;
        }
    }
    return fail(r);
}

/* 0, -1, 1, -2, ... are 0, 1, 2, 3, ... */
static int64_t zigzag(thrift_reader *r)
{
    const uint64_t value = thrift_varint(r);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

bool thrift_next(thrift_reader *r, thrift_field *field)
{
    const unsigned char head = next_byte(r);
    const int64_t id = head >> 4 != 0 ? field->id + (head >> 4) : r->failed ? 0 : -1;
    field->type = (thrift_type)(head & 0x0F);
    if (r->failed || field->type == THRIFT_STOP) {
        return false;
    }
    const int64_t given = id == -1 ? zigzag(r) : id;
    if (field->type > THRIFT_STRUCT || given < 1 || given > INT16_MAX) {
        (void)fail(r);
    }
    field->id = (int32_t)given;
    return !r->failed;
}

int64_t thrift_integer(thrift_reader *r, thrift_type type)
{
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
        return type == THRIFT_TRUE ? 1 : 0;
    case THRIFT_BYTE:
        return (int64_t)next_byte(r);
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        return zigzag(r);
    default:
        return (int64_t)fail(r);
    }
}

static const unsigned char *take(thrift_reader *r, uint64_t size)
{
    const unsigned char *bytes = r->at;
    if (size > (uint64_t)(r->end - r->at)) {
        (void)fail(r);
        return r->end;
    }
    r->at += size;
    return bytes;
}

const unsigned char *thrift_binary(thrift_reader *r, thrift_type type, size_t *size)
{
    const uint64_t length = type == THRIFT_BINARY ? thrift_varint(r) : fail(r);
    const unsigned char *bytes = take(r, length);
    *size = r->failed ? 0 : (size_t)length;
    return bytes;
}

/* How many elements, and of which type. */
static uint64_t list_head(thrift_reader *r, thrift_type *element)
{
    const unsigned char head = next_byte(r);
    const uint64_t count = head >> 4 == 15 ? thrift_varint(r) : head >> 4;
    *element = (thrift_type)(head & 0x0F);
    return count > (uint64_t)(r->end - r->at) ? fail(r) : count;
}

int64_t thrift_list(thrift_reader *r, thrift_type type, thrift_type element)
{
    thrift_type found = THRIFT_STOP;
    const uint64_t count = type == THRIFT_LIST ? list_head(r, &found) : fail(r);
    return (int64_t)(count > 0 && found != element ? fail(r) : count);
}

static void skip_value(thrift_reader *r, thrift_type type, int depth);

/* Booleans in lists and maps have a byte each. */
static void skip_element(thrift_reader *r, thrift_type type, int depth)
{
    if (type == THRIFT_TRUE || type == THRIFT_FALSE) {
        (void)next_byte(r);
    } else {
        skip_value(r, type, depth);
    }
}

static void skip_list(thrift_reader *r, int depth)
{
    thrift_type element = THRIFT_STOP;
    const uint64_t count = list_head(r, &element);
    for (uint64_t i = 0; i < count && !r->failed; i++) {
        skip_element(r, element, depth);
    }
}

static void skip_map(thrift_reader *r, int depth)
{
    const uint64_t count = thrift_varint(r);
    const unsigned char types = count > 0 ? next_byte(r) : 0;
    for (uint64_t i = 0; i < count && !r->failed; i++) {
        skip_element(r, (thrift_type)(types >> 4), depth);
        skip_element(r, (thrift_type)(types & 0x0F), depth);
    }
}

static void skip_struct(thrift_reader *r, int depth)
{
    thrift_field field = {0};
    while (thrift_next(r, &field)) {
        skip_value(r, field.type, depth);
    }
}

static void skip_value(thrift_reader *r, thrift_type type, int depth)
{
    size_t size = 0;
    if (depth == DEEPEST || type == THRIFT_STOP) {
        (void)fail(r);
    } else if (type == THRIFT_DOUBLE) {
        (void)take(r, 8);
    } else if (type == THRIFT_BINARY) {
        (void)thrift_binary(r, type, &size);
    } else if (type == THRIFT_LIST || type == THRIFT_SET) {
        skip_list(r, depth + 1);
    } else if (type == THRIFT_MAP) {
        skip_map(r, depth + 1);
    } else if (type == THRIFT_STRUCT) {
        skip_struct(r, depth + 1);
    } else {
        (void)thrift_integer(r, type);
    }
}

void thrift_skip(thrift_reader *r, thrift_type type)
{
    skip_value(r, type, 0);
}
