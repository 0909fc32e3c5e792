#include "format/images/image_decode.h"

#include <string.h>

grail_status image_decode(const void *bytes, size_t size, int64_t most_pixels, image *out)
{
    static const unsigned char jpeg[] = {0xFF, 0xD8, 0xFF};
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    if (size == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "is empty");
    }
    if (size >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0) {
        return image_decode_jpeg(bytes, size, most_pixels, out);
    }
    if (size >= sizeof png && memcmp(bytes, png, sizeof png) == 0) {
        return image_decode_png(bytes, size, most_pixels, out);
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED, "does not begin like a JPEG or PNG file; convert it");
}
