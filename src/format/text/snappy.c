#include "format/text/snappy.h"

#include "base/bytes.h"
#include "format/text/thrift_compact.h"

#include <string.h>

typedef struct expansion {
    const unsigned char *at, *end;
    unsigned char *out;
    size_t made, room;
} expansion;

/* The next `width` bytes as a number; false where there are fewer. */
static bool take_number(expansion *e, size_t width, size_t *out)
{
    if ((size_t)(e->end - e->at) < width) {
        return false;
    }
    *out = (size_t)load_little(e->at, width);
    e->at += width;
    return true;
}

/* Lengths of up to 60 are in the tag, longer ones in 1 to 4 bytes behind it. */
static bool take_literal(expansion *e, unsigned char tag)
{
    size_t length = tag >> 2;
    if (length >= 60 && !take_number(e, length - 59, &length)) {
        return false;
    }
    length++;
    if (length > (size_t)(e->end - e->at) || length > e->room - e->made) {
        return false;
    }
    memcpy(e->out + e->made, e->at, length);
    e->at += length;
    e->made += length;
    return true;
}

/* The copied bytes may overlap those that they become. */
static bool take_copy(expansion *e, unsigned char tag)
{
    size_t offset = 0;
    const unsigned kind = tag & 3U;
    const size_t length = kind == 1 ? 4 + (tag >> 2 & 7U) : 1 + (size_t)(tag >> 2);
    if (!take_number(e, kind == 1 ? 1 : kind == 2 ? 2 : 4, &offset)) {
        return false;
    }
    offset += kind == 1 ? (size_t)(tag >> 5) << 8 : 0;
    if (offset == 0 || offset > e->made || length > e->room - e->made) {
        return false;
    }
    for (size_t i = 0; i < length; i++, e->made++) {
        e->out[e->made] = e->out[e->made - offset];
    }
    return true;
}

grail_status snappy_decompress(const unsigned char *bytes, size_t size, unsigned char *out,
                               size_t out_size)
{
    thrift_reader head = {.at = bytes, .end = bytes + size};
    const uint64_t length = thrift_varint(&head);
    expansion e = {.at = head.at, .end = head.end, .out = out, .room = out_size};
    bool sound = !head.failed && length == out_size;
    while (sound && e.at < e.end) {
        const unsigned char tag = *e.at++;
        sound = (tag & 3U) == 0 ? take_literal(&e, tag) : take_copy(&e, tag);
    }
    return sound && e.made == out_size
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT,
                           "its snappy data are damaged, or do not expand to "
                           "the %zu bytes that it states",
                           out_size);
}
