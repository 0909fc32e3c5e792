#include "format/images/image_limits.h"

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

static grail_status check_side(int64_t width, int64_t height)
{
    if (width > IMAGE_LONGEST_SIDE || height > IMAGE_LONGEST_SIDE) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is %lld x %lld pixels, with a side longer than the allowed %d; shrink it",
                         (long long)width, (long long)height, IMAGE_LONGEST_SIDE);
    }
    return GRAIL_OK;
}

/* A side is below 2^16, so the products fit. */
static grail_status check_ratio(const image_header *h)
{
    const int64_t bytes = h->width * h->height * (int64_t)image_pixel_bytes(h->mode);
    const int64_t file_size = (int64_t)h->file_size;
    if (bytes > IMAGE_FREE_BYTES && (bytes - IMAGE_FREE_BYTES) / IMAGE_MOST_RATIO > file_size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is %lld x %lld pixels in a file of %lld bytes; decoding it would make "
                         "more than the allowed %d times as many bytes; shrink it",
                         (long long)h->width, (long long)h->height, (long long)file_size,
                         IMAGE_MOST_RATIO);
    }
    return GRAIL_OK;
}

grail_status image_new_checked(const image_header *header, int64_t most_pixels, image *out)
{
    CHECK(image_check_size(header->width, header->height, most_pixels));
    CHECK(check_side(header->width, header->height));
    CHECK(check_ratio(header));
    return image_new(header->mode, header->width, header->height, out);
}
