/* Reads JPEG with libjpeg. libjpeg leaves by longjmp on a fatal error; no such jump leaves this
 * file. The decoder keeps its default settings (exact integer DCT, smooth chroma), as Pillow does.
 */
#include "format/images/image_decode.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

typedef struct jpeg_reader {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char text[JMSG_LENGTH_MAX];
    size_t size; /* of the file */
    int64_t most_pixels;
    int64_t most_scans;
    image image;
} jpeg_reader;

static void leave(j_common_ptr info)
{
    jpeg_reader *reader = info->client_data;
    info->err->format_message(info, reader->text);
    longjmp(reader->escape, 1);
}

/* libjpeg warns of damage in spite of which it goes on decoding. Pillow ignores these warnings too.
 */
static void ignore_message(j_common_ptr info)
{
    (void)info;
}

static void count_scans(j_common_ptr info)
{
    jpeg_reader *reader = info->client_data;
    if (reader->info.input_scan_number > reader->most_scans) {
        snprintf(
            reader->text, sizeof reader->text, "more than the allowed %lld scans of %u x %u pixels",
            (long long)reader->most_scans, reader->info.image_width, reader->info.image_height);
        longjmp(reader->escape, 1);
    }
}

static void source_nothing(j_decompress_ptr info)
{
    (void)info;
}

/* The complete file was available from the start, so a decoder that needs more bytes has found it
 * truncated. */
static boolean source_has_no_more(j_decompress_ptr info)
{
    (void)info;
    return FALSE;
}

static void source_skip(j_decompress_ptr info, long count)
{
    struct jpeg_source_mgr *source = info->src;
    size_t skipped = count > 0 ? (size_t)count : 0;
    if (skipped > source->bytes_in_buffer) {
        skipped = source->bytes_in_buffer;
    }
    source->next_input_byte += skipped;
    source->bytes_in_buffer -= skipped;
}

static grail_status truncated(void)
{
    return error_set(GRAIL_ERROR_FORMAT, "JPEG ends early: truncated?");
}

static grail_status read_header(jpeg_reader *reader)
{
    image_header header = {.file_size = reader->size};
    const struct jpeg_decompress_struct *info = &reader->info;
    if (jpeg_read_header(&reader->info, TRUE) != JPEG_HEADER_OK) {
        return truncated();
    }
    header.width = info->image_width;
    header.height = info->image_height;
    CHECK(image_check_size(header.width, header.height, reader->most_pixels));
    switch (info->num_components) {
    case 1:
        header.mode = IMAGE_GREY;
        reader->info.out_color_space = JCS_GRAYSCALE;
        break;
    case 3:
        header.mode = IMAGE_RGB;
        reader->info.out_color_space = JCS_RGB;
        break;
    case 4:
        header.mode = IMAGE_CMYK;
        reader->info.out_color_space = JCS_CMYK;
        break;
    default:
        return error_set(GRAIL_ERROR_UNSUPPORTED, "JPEG has %d components, expected 1, 3 or 4",
                         info->num_components);
    }
    CHECK(image_new_checked(&header, reader->most_pixels, &reader->image));
    const int64_t scans = IMAGE_MOST_SCANNED / (header.width * header.height);
    reader->most_scans = scans < IMAGE_MOST_SCANS ? scans : IMAGE_MOST_SCANS;
    return GRAIL_OK;
}

static grail_status read_rows(jpeg_reader *reader)
{
    const image *picture = &reader->image;
    const size_t row = (size_t)picture->width * image_pixel_bytes(picture->mode);
    if (!jpeg_start_decompress(&reader->info)) {
        return truncated();
    }
    while (reader->info.output_scanline < reader->info.output_height) {
        JSAMPROW at = picture->pixels + reader->info.output_scanline * row;
        if (jpeg_read_scanlines(&reader->info, &at, 1) != 1) {
            return truncated();
        }
    }
    for (size_t i = 0; picture->mode == IMAGE_CMYK && i < (size_t)picture->height * row; i++) {
        picture->pixels[i] = (unsigned char)(255 - picture->pixels[i]);
    }
    return GRAIL_OK;
}

/* All calls that libjpeg may leave by longjmp are made from here. */
static grail_status run_reader(jpeg_reader *reader, const unsigned char *bytes, size_t size)
{
    if (setjmp(reader->escape) != 0) {
        const bool memory = reader->errors.msg_code == JERR_OUT_OF_MEMORY;
        return error_set(memory ? GRAIL_ERROR_MEMORY : GRAIL_ERROR_FORMAT,
                         "JPEG cannot be decoded: %s", reader->text);
    }
    reader->info.err = jpeg_std_error(&reader->errors);
    reader->errors.error_exit = leave;
    reader->errors.output_message = ignore_message;
    reader->info.client_data = reader;
    jpeg_create_decompress(&reader->info);
    reader->source = (struct jpeg_source_mgr){.next_input_byte = bytes,
                                              .bytes_in_buffer = size,
                                              .init_source = source_nothing,
                                              .fill_input_buffer = source_has_no_more,
                                              .skip_input_data = source_skip,
                                              .resync_to_restart = jpeg_resync_to_restart,
                                              .term_source = source_nothing};
    reader->info.src = &reader->source;
    reader->progress.progress_monitor = count_scans;
    reader->info.progress = &reader->progress;
    CHECK(read_header(reader));
    return read_rows(reader);
}

grail_status image_decode_jpeg(const unsigned char *bytes, size_t size, int64_t most_pixels,
                               image *out)
{
    jpeg_reader reader = {.size = size, .most_pixels = most_pixels, .most_scans = IMAGE_MOST_SCANS};
    const grail_status status = run_reader(&reader, bytes, size);
    jpeg_destroy_decompress(&reader.info);
    if (status == GRAIL_OK) {
        *out = reader.image;
    } else {
        image_fini(&reader.image);
    }
    return status;
}
