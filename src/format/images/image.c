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

void image_fini(image *picture)
{
    memory_free(picture->pixels);
    picture->pixels = NULL;
}

static void copy_grey(const image *from, unsigned char *out, size_t count)
{
    const size_t step = image_pixel_bytes(from->mode);
    for (size_t i = 0; i < count; i++) {
        memset(out + 3 * i, from->pixels[i * step], 3);
    }
}

static void cut_wide(const image *from, unsigned char *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t value = 0;
        memcpy(&value, from->pixels + i * sizeof value, sizeof value);
        memset(out + 3 * i, value < 0 ? 0 : value > 255 ? 255 : value, 3);
    }
}

static void look_up(const image *from, unsigned char *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(out + 3 * i, from->palette[from->pixels[i]], 3);
    }
}

static void drop_alpha(const image *from, unsigned char *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(out + 3 * i, from->pixels + 4 * i, 3);
    }
}

/* White minus the black ink, then minus the ink of each colour: w - round(ink * w / 255). */
static void remove_ink(const image *from, unsigned char *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const unsigned char *ink = from->pixels + 4 * i;
        const int white = 255 - ink[3];
        for (size_t c = 0; c < 3; c++) {
            out[3 * i + c] = (unsigned char)(white - image_multiply(ink[c], white));
        }
    }
}

grail_status image_to_rgb(image *picture)
{
    typedef void (*conversion)(const image *from, unsigned char *out, size_t count);
    static const conversion conversions[] = {
        [IMAGE_BILEVEL] = copy_grey,  [IMAGE_GREY] = copy_grey,  [IMAGE_GREY_ALPHA] = copy_grey,
        [IMAGE_GREY_WIDE] = cut_wide, [IMAGE_PALETTE] = look_up, [IMAGE_RGBA] = drop_alpha,
        [IMAGE_CMYK] = remove_ink,
    };
    image rgb = {0};
    if (picture->mode == IMAGE_RGB) {
        return GRAIL_OK;
    }
    CHECK(image_new(IMAGE_RGB, picture->width, picture->height, &rgb));
    conversions[picture->mode](picture, rgb.pixels, (size_t)(picture->width * picture->height));
    image_fini(picture);
    *picture = rgb;
    return GRAIL_OK;
}
