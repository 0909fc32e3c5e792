#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* The second byte alone decides about overlong forms (E0, F0), surrogates (ED) and the end of
 * Unicode (F4). */
size_t utf8_sequence_length(const void *bytes, size_t left)
{
    const unsigned char *s = bytes;
    const unsigned char lead = s[0];
    if (lead < 0x80) {
        return 1;
    }
    size_t length = 0;
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        low = lead == 0xe0 ? 0xa0 : low;
        high = lead == 0xed ? 0x9f : high;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        low = lead == 0xf0 ? 0x90 : low;
        high = lead == 0xf4 ? 0x8f : high;
    }
    if (length == 0 || length > left || s[1] < low || s[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if (!is_continuation(s[i])) {
            return 0;
        }
    }
    return length;
}

static bool eight_are_ascii(const unsigned char *s)
{
    uint64_t word = 0;
    memcpy(&word, s, sizeof word);
    return (word & 0x8080808080808080U) == 0;
}

size_t utf8_valid_prefix(const void *bytes, size_t size)
{
    const unsigned char *s = bytes;
    size_t i = 0;
    while (i < size) {
        if (size - i >= 8 && eight_are_ascii(s + i)) {
            i += 8;
            continue;
        }
        const size_t length = utf8_sequence_length(s + i, size - i);
        if (length == 0) {
            break;
        }
        i += length;
    }
    return i;
}
