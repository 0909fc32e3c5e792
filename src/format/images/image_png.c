/* Reads PNG with libpng. libpng leaves by longjmp on a fatal error; no such jump leaves this file.
 * Only the chunks that define pixels are read; all others are skipped. */
#include "format/images/image_decode.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

enum { LONGEST_TEXT = 128, LARGEST_SIDE = 0x7FFFFFFF, WIDE_BYTES = 2 };

typedef struct png_reader {
    png_structp png;
    png_infop info;
    const unsigned char *next;
    size_t left;
    size_t size; /* of the file */
    jmp_buf escape;
    char text[LONGEST_TEXT];
    grail_status memory; /* of the last allocation that failed */
    int64_t most_pixels;
    image image;
} png_reader;

static void leave(png_structp png, png_const_charp text)
{
    png_reader *reader = png_get_error_ptr(png);
    snprintf(reader->text, sizeof reader->text, "%s", text);
    longjmp(reader->escape, 1);
}

static void ignore_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static png_voidp allocate(png_structp png, png_alloc_size_t size)
{
    png_reader *reader = png_get_mem_ptr(png);
    void *bytes = NULL;
    const grail_status status = memory_new_unset(&bytes, size, 1);
    if (status != GRAIL_OK) {
        reader->memory = status;
    }
    return bytes;
}

static void release(png_structp png, png_voidp bytes)
{
    (void)png;
    memory_free(bytes);
}

static void read_bytes(png_structp png, png_bytep out, size_t count)
{
    png_reader *reader = png_get_io_ptr(png);
    if (count > reader->left) {
        png_error(png, "it ends early: truncated?");
    }
    memcpy(out, reader->next, count);
    reader->next += count;
    reader->left -= count;
}

static image_mode choose_mode(int depth, int colour)
{
    switch (colour) {
    case PNG_COLOR_TYPE_PALETTE:
        return IMAGE_PALETTE;
    case PNG_COLOR_TYPE_RGB:
        return IMAGE_RGB;
    case PNG_COLOR_TYPE_RGB_ALPHA:
        return IMAGE_RGBA;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        return IMAGE_GREY_ALPHA;
    default:
        return depth == 16 ? IMAGE_GREY_WIDE : depth == 1 ? IMAGE_BILEVEL : IMAGE_GREY;
    }
}

static grail_status read_header(png_reader *reader)
{
    png_set_read_fn(reader->png, reader, read_bytes);
    png_set_user_limits(reader->png, LARGEST_SIDE, LARGEST_SIDE);
    /* Otherwise texts and profiles of a few bytes could unpack to gigabytes. */
    png_set_keep_unknown_chunks(reader->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(reader->png, reader->info);
    const image_header header = {
        .mode = choose_mode(png_get_bit_depth(reader->png, reader->info),
                            png_get_color_type(reader->png, reader->info)),
        .width = png_get_image_width(reader->png, reader->info),
        .height = png_get_image_height(reader->png, reader->info),
        .file_size = reader->size,
    };
    CHECK(image_new_checked(&header, reader->most_pixels, &reader->image));
    /* as in Pillow, an index without a colour in the file stays the grey of that value */
    for (int i = 0; i < IMAGE_PALETTE_COLOURS && header.mode == IMAGE_PALETTE; i++) {
        memset(reader->image.palette[i], i, 3);
    }
    png_colorp colours = NULL;
    int count = 0;
    if (header.mode == IMAGE_PALETTE &&
        png_get_PLTE(reader->png, reader->info, &colours, &count) == PNG_INFO_PLTE) {
        for (int i = 0; i < count && i < IMAGE_PALETTE_COLOURS; i++) {
            const unsigned char colour[3] = {colours[i].red, colours[i].green, colours[i].blue};
            memcpy(reader->image.palette[i], colour, 3);
        }
    }
    return GRAIL_OK;
}

/* A row of wide grey is read into the first half of its memory, two bytes per pixel, high byte
 * first; it is spread to int32 from the end. Grey of few bits is scaled. */
static void read_rows(png_reader *reader)
{
    const image *picture = &reader->image;
    const size_t row = (size_t)picture->width * image_pixel_bytes(picture->mode);
    png_set_packing(reader->png);
    if (picture->mode != IMAGE_GREY_WIDE) {
        png_set_strip_16(reader->png);
    }
    const int depth = png_get_bit_depth(reader->png, reader->info);
    const int passes = png_set_interlace_handling(reader->png);
    for (int pass = 0; pass < passes; pass++) {
        for (int64_t y = 0; y < picture->height; y++) {
            png_read_row(reader->png, picture->pixels + (size_t)y * row, NULL);
        }
    }
    for (int64_t y = 0; y < picture->height; y++) {
        unsigned char *at = picture->pixels + (size_t)y * row;
        for (int64_t x = picture->width; x-- > 0 && picture->mode == IMAGE_GREY_WIDE;) {
            const int32_t value = at[WIDE_BYTES * x] << 8 | at[WIDE_BYTES * x + 1];
            memcpy(at + x * (int64_t)sizeof value, &value, sizeof value);
        }
        for (int64_t x = 0; x < picture->width && depth < 8 && picture->mode != IMAGE_PALETTE;
             x++) {
            at[x] = (unsigned char)(at[x] * (255 / ((1 << depth) - 1)));
        }
    }
}

/* All calls that libpng may leave by longjmp are made from here. */
static grail_status run_reader(png_reader *reader)
{
    if (setjmp(reader->escape) != 0) {
        if (reader->memory != GRAIL_OK) {
            return error_set(reader->memory, "out of memory while decoding a PNG");
        }
        return error_set(GRAIL_ERROR_FORMAT, "PNG cannot be decoded: %s", reader->text);
    }
    reader->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, reader, leave, ignore_warning,
                                           reader, allocate, release);
    reader->info = reader->png == NULL ? NULL : png_create_info_struct(reader->png);
    if (reader->info == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while opening a PNG");
    }
    CHECK(read_header(reader));
    read_rows(reader);
    return GRAIL_OK;
}

grail_status image_decode_png(const unsigned char *bytes, size_t size, int64_t most_pixels,
                              image *out)
{
    png_reader reader = {.next = bytes, .left = size, .size = size, .most_pixels = most_pixels};
    const grail_status status = run_reader(&reader);
    png_destroy_read_struct(&reader.png, &reader.info, NULL);
    if (status == GRAIL_OK) {
        *out = reader.image;
    } else {
        image_fini(&reader.image);
    }
    return status;
}
