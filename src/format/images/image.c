#include "format/images/image.h"

#include <string.h>

size_t image_pixel_bytes(image_mode mode)
{
    static const size_t bytes[] = {
        [IMAGE_BILEVEL] = 1, [IMAGE_GREY] = 1, [IMAGE_GREY_ALPHA] = 2, [IMAGE_GREY_WIDE] = 4,
        [IMAGE_PALETTE] = 1, [IMAGE_RGB] = 3,  [IMAGE_RGBA] = 4,       [IMAGE_CMYK] = 4,
    };
    return bytes[mode];
}

grail_status image_new(image_mode mode, int64_t width, int64_t height, image *out)
{
    image made = {.mode = mode, .width = width, .height = height};
    size_t row = 0;
    if (!size_multiply((size_t)width, image_pixel_bytes(mode), &row)) {
        return error_set(GRAIL_ERROR_MEMORY, "a row of %lld pixels is too large for any memory",
                         (long long)width);
    }
    CHECK(memory_new_unset(&made.pixels, (size_t)height, row));
    *out = made;
    return GRAIL_OK;
}

grail_status image_check_size(int64_t width, int64_t height, int64_t most_pixels)
{
    if (width < 1 || height < 1) {
        return error_set(GRAIL_ERROR_FORMAT, "is %lld x %lld pixels; both sides must be at least 1",
                         (long long)width, (long long)height);
    }
    if (height > most_pixels / width) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is %lld x %lld pixels, more than the allowed %lld in all; shrink it",
                         (long long)width, (long long)height, (long long)most_pixels);
    }
    return GRAIL_OK;
}

grail_status image_new_checked(const image_header *h, int64_t most_pixels, image *out)
{
    CHECK(image_check_size(h->width, h->height, most_pixels));
    if (h->width > IMAGE_LONGEST_SIDE || h->height > IMAGE_LONGEST_SIDE) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is %lld x %lld pixels, with a side longer than the allowed %d; shrink it",
                         (long long)h->width, (long long)h->height, IMAGE_LONGEST_SIDE);
    }
    /* a side is below 2^16, so the products fit */
    const int64_t bytes = h->width * h->height * (int64_t)image_pixel_bytes(h->mode);
    const int64_t file_size = (int64_t)h->file_size;
    if (bytes > IMAGE_FREE_BYTES && (bytes - IMAGE_FREE_BYTES) / IMAGE_MOST_RATIO > file_size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is %lld x %lld pixels in a file of %lld bytes; decoding it would make "
                         "more than the allowed %d times as many bytes; shrink it",
                         (long long)h->width, (long long)h->height, (long long)file_size,
                         IMAGE_MOST_RATIO);
    }
    return image_new(h->mode, h->width, h->height, out);
}

void image_fini(image *picture)
{
    memory_free(picture->pixels);
    picture->pixels = NULL;
}

/* CMYK becomes white minus the black ink, then minus the ink of each colour: w - round(ink w /
 * 255). */
static void convert_pixel(const image *from, const unsigned char *pixel, unsigned char *out)
{
    int32_t value = pixel[0];
    switch (from->mode) {
    case IMAGE_PALETTE:
        memcpy(out, from->palette[value], 3);
        return;
    case IMAGE_RGB:
    case IMAGE_RGBA:
        memcpy(out, pixel, 3);
        return;
    case IMAGE_CMYK:
        for (size_t c = 0; c < 3; c++) {
            const int white = 255 - pixel[3];
            out[c] = (unsigned char)(white - image_multiply(pixel[c], white));
        }
        return;
    case IMAGE_GREY_WIDE:
        memcpy(&value, pixel, sizeof value);
        value = value < 0 ? 0 : value > 255 ? 255 : value;
        break;
    default:
        break;
    }
    memset(out, value, 3);
}

grail_status image_to_rgb(image *picture)
{
    image rgb = {0};
    const size_t step = image_pixel_bytes(picture->mode);
    if (picture->mode == IMAGE_RGB) {
        return GRAIL_OK;
    }
    CHECK(image_new(IMAGE_RGB, picture->width, picture->height, &rgb));
    for (size_t i = 0; i < (size_t)(picture->width * picture->height); i++) {
        convert_pixel(picture, picture->pixels + i * step, rgb.pixels + 3 * i);
    }
    image_fini(picture);
    *picture = rgb;
    return GRAIL_OK;
}
