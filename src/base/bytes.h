/* Numbers in files, little-endian. */
#ifndef GRAIL_BASE_BYTES_H
#define GRAIL_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/** The number of `width` bytes, at most 8. */
static inline uint64_t load_little(const void *bytes, size_t width)
{
    const unsigned char *from = bytes;
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;) {
        value = value << 8 | from[i];
    }
    return value;
}

static inline void store_little(void *bytes, size_t width, uint64_t value)
{
    unsigned char *to = bytes;
    for (size_t i = 0; i < width; i++) {
        to[i] = (unsigned char)(value >> (8 * i));
    }
}

#endif
