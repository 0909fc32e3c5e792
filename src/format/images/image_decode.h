/* JPEG and PNG files as images in the mode that Pillow 9.4 gives them, pixel for pixel.
 *
 * The first bytes of a file select its codec; its name does not matter. A JPEG is decoded as
 * stored: like torchvision's ImageFolder, the decoder ignores the EXIF orientation. The inks of
 * CMYK and YCCK files are taken to be inverted, as Adobe writes them. A grey PNG of 16 bits becomes
 * IMAGE_GREY_WIDE; a coloured one loses the lower byte of each sample. Gamma, colour profiles and
 * transparent colours change nothing. */
#ifndef GRAIL_FORMAT_IMAGES_IMAGE_DECODE_H
#define GRAIL_FORMAT_IMAGES_IMAGE_DECODE_H

#include "format/images/image.h"

/**
 * Decodes a file in memory. A file that is truncated or malformed, has no pixels, or exceeds
 * `most_pixels` or the limits of image.h is GRAIL_ERROR_FORMAT; another kind of file is
 * GRAIL_ERROR_UNSUPPORTED. Messages do not name the file. *out is owned: image_fini.
 */
grail_status image_decode(const void *bytes, size_t size, int64_t most_pixels,
                          image *out) GRAIL_MUST_CHECK;

/* The codecs, for image_decode alone. */
grail_status image_decode_jpeg(const unsigned char *bytes, size_t size, int64_t most_pixels,
                               image *out) GRAIL_MUST_CHECK;
grail_status image_decode_png(const unsigned char *bytes, size_t size, int64_t most_pixels,
                              image *out) GRAIL_MUST_CHECK;

#endif
