/* Decoding JPEG and PNG: modes, and files that are refused. golden/test_images checks the pixels of
 * the same files. */
#include "support/support.h"

#include "base/file.h"
#include "format/images/image_decode.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

static const char *const files[] = {
    "rgb-420.jpg",
    "rgb-progressive.jpg",
    "rgb-untransformed.jpg",
    "grey.jpg",
    "cmyk.jpg",
    "ycck.jpg",
    "grey-1.png",
    "grey-4.png",
    "grey-16.png",
    "grey-alpha-8.png",
    "rgb-16.png",
    "rgba-8.png",
    "palette-4.png",
    "palette-short.png",
    "interlaced-rgb.png",
    "interlaced-grey-16.png",
    "rgb-turned.jpg",
    "rgb-profile.png",
};

enum { FILE_COUNT = sizeof files / sizeof files[0] };

static buffer read_golden(const char *name)
{
    char path[4096];
    buffer bytes = {0};
    snprintf(path, sizeof path, "%s/tests/golden/images/%s", GRAIL_SOURCE_DIR, name);
    assert_ok(file_read(path, 1 << 20, &bytes));
    return bytes;
}

static void refuse(const void *bytes, size_t size, grail_status code, const char *text)
{
    image picture = {0};
    assert_fails(image_decode(bytes, size, IMAGE_MOST_PIXELS, &picture), code, text);
    assert_null(picture.pixels);
}

static void expect_mode(const char *name, image_mode mode, int64_t width, int64_t height)
{
    OWNED(buffer) bytes = read_golden(name);
    OWNED(image) picture = {0};
    assert_ok(image_decode(bytes.bytes, bytes.size, IMAGE_MOST_PIXELS, &picture));
    assert_int_equal(picture.mode, mode);
    assert_int_equal(picture.width, width);
    assert_int_equal(picture.height, height);
}

TEST(test_files_keep_their_mode_and_size)
{
    expect_mode("rgb-420.jpg", IMAGE_RGB, 61, 45);
    expect_mode("grey.jpg", IMAGE_GREY, 58, 41);
    expect_mode("ycck.jpg", IMAGE_CMYK, 36, 49);
    expect_mode("grey-1.png", IMAGE_BILEVEL, 50, 39);
    expect_mode("grey-16.png", IMAGE_GREY_WIDE, 22, 27);
    expect_mode("grey-alpha-16.png", IMAGE_GREY_ALPHA, 17, 23);
    expect_mode("rgba-16.png", IMAGE_RGBA, 20, 16);
    expect_mode("palette-2.png", IMAGE_PALETTE, 38, 31);
}

TEST(test_an_exif_orientation_is_not_applied)
{
    expect_mode("rgb-turned.jpg", IMAGE_RGB, 44, 30);
}

TEST(test_wide_grey_keeps_16_bits)
{
    OWNED(buffer) bytes = read_golden("grey-16.png");
    OWNED(image) picture = {0};
    int32_t largest = 0;
    assert_ok(image_decode(bytes.bytes, bytes.size, IMAGE_MOST_PIXELS, &picture));
    for (int64_t i = 0; i < picture.width * picture.height; i++) {
        int32_t value = 0;
        memcpy(&value, picture.pixels + i * 4, sizeof value);
        assert_in_range(value, 0, 65535);
        largest = value > largest ? value : largest;
    }
    assert_true(largest > 60000);
}

TEST(test_every_cut_file_is_refused)
{
    for (int f = 0; f < FILE_COUNT; f++) {
        OWNED(buffer) bytes = read_golden(files[f]);
        /* The pixels are complete before the last marker (2 bytes) or chunk (12) and checksum. */
        for (size_t size = 0; size + 24 < bytes.size; size++) {
            image picture = {0};
            const grail_status status =
                image_decode(bytes.bytes, size, IMAGE_MOST_PIXELS, &picture);
            if (status == GRAIL_OK) {
                print_error("%s cut to %zu of %zu bytes was accepted\n", files[f], size,
                            bytes.size);
                fail();
            }
            assert_true(status == GRAIL_ERROR_FORMAT || status == GRAIL_ERROR_UNSUPPORTED);
        }
    }
}

TEST(test_a_cut_file_is_said_to_be_truncated)
{
    OWNED(buffer) photo = read_golden("rgb-420.jpg");
    OWNED(buffer) drawing = read_golden("rgb-8.png");
    refuse(photo.bytes, photo.size / 2, GRAIL_ERROR_FORMAT, "truncated");
    refuse(photo.bytes, 30, GRAIL_ERROR_FORMAT, "truncated");
    refuse(drawing.bytes, drawing.size / 2, GRAIL_ERROR_FORMAT, "truncated");
}

TEST(test_other_files_are_refused)
{
    refuse("", 0, GRAIL_ERROR_FORMAT, "is empty");
    refuse("GIF89a", 6, GRAIL_ERROR_UNSUPPORTED,
           "does not begin like a JPEG or PNG file; convert it");
    refuse("\xff\xd8", 2, GRAIL_ERROR_UNSUPPORTED,
           "does not begin like a JPEG or PNG file; convert it");
    refuse("\xff\xd8\xff\xd9", 4, GRAIL_ERROR_FORMAT, "JPEG cannot be decoded");
}

TEST(test_the_most_pixels_hold_for_both_kinds)
{
    static const char *const names[] = {"rgb-420.jpg", "rgb-8.png"};
    static const int64_t pixels[] = {61 * 45, 26 * 21};
    for (int k = 0; k < 2; k++) {
        OWNED(buffer) bytes = read_golden(names[k]);
        OWNED(image) picture = {0};
        assert_fails(image_decode(bytes.bytes, bytes.size, pixels[k] - 1, &picture),
                     GRAIL_ERROR_FORMAT, "more than the allowed");
        assert_ok(image_decode(bytes.bytes, bytes.size, pixels[k], &picture));
    }
}

/* Where the frame header begins: the marker, its length, the precision, then height and width. */
static unsigned char *find_frame(const buffer *bytes, unsigned char marker)
{
    const unsigned char wanted[] = {0xFF, marker, 0};
    unsigned char *frame = memmem(bytes->bytes, bytes->size, wanted, sizeof wanted);
    assert_non_null(frame);
    return frame;
}

/* A PNG whose header says width x height, with its checksum right. */
static void set_size(buffer *bytes, uint32_t width, uint32_t height)
{
    const uint32_t fields[] = {__builtin_bswap32(width), __builtin_bswap32(height)};
    memcpy(bytes->bytes + 16, fields, sizeof fields);
    const uint32_t sum = __builtin_bswap32((uint32_t)crc32(0, bytes->bytes + 12, 17));
    memcpy(bytes->bytes + 29, &sum, sizeof sum);
}

TEST(test_a_huge_jpeg_is_refused_by_its_size)
{
    OWNED(buffer) bytes = read_golden("rgb-420.jpg");
    unsigned char *frame = find_frame(&bytes, 0xC0);
    memcpy(frame + 5, "\xff\x00\xff\x00", 4);
    refuse(bytes.bytes, bytes.size, GRAIL_ERROR_FORMAT,
           "is 65280 x 65280 pixels, more than the allowed 178956970 in all");
    memcpy(frame + 5, "\x00\x00\x00\x00", 4);
    refuse(bytes.bytes, bytes.size, GRAIL_ERROR_FORMAT, "JPEG cannot be decoded");
}

/* Before anything is decoded: the golden files have no pixels for these sizes. */
TEST(test_long_sides_and_far_too_many_pixels_for_a_file_are_refused)
{
    OWNED(buffer) drawing = read_golden("rgb-8.png");
    OWNED(buffer) photo = read_golden("rgb-420.jpg");
    unsigned char *frame = find_frame(&photo, 0xC0);
    set_size(&drawing, 1, 178956970);
    refuse(drawing.bytes, drawing.size, GRAIL_ERROR_FORMAT,
           "is 1 x 178956970 pixels, with a side longer than the allowed 65535; shrink it");
    set_size(&drawing, 65536, 1);
    refuse(drawing.bytes, drawing.size, GRAIL_ERROR_FORMAT, "with a side longer than");
    set_size(&drawing, 5000, 4600); /* 69 MB, and the file has one and a half thousand bytes */
    refuse(
        drawing.bytes, drawing.size, GRAIL_ERROR_FORMAT,
        "bytes; decoding it would make more than the allowed 200 times as many bytes; shrink it");
    memcpy(frame + 5, "\x13\x88\x13\x88", 4);
    refuse(photo.bytes, photo.size, GRAIL_ERROR_FORMAT, "is 5000 x 5000 pixels in a file of");
    set_size(&drawing, 5000, 4400); /* 66 MB: as decoded as far as the file goes */
    refuse(drawing.bytes, drawing.size, GRAIL_ERROR_FORMAT, "PNG cannot be decoded");
}

TEST(test_a_jpeg_of_two_components_is_refused)
{
    OWNED(buffer) bytes = read_golden("grey.jpg");
    const size_t at = (size_t)(find_frame(&bytes, 0xC0) - bytes.bytes);
    OWNED(buffer) changed = {.maximum = 1 << 20};
    assert_ok(buffer_append(&changed, bytes.bytes, at + 13));
    assert_ok(buffer_append(&changed, "\x02\x11\x00", 3));
    assert_ok(buffer_append(&changed, bytes.bytes + at + 13, bytes.size - at - 13));
    changed.bytes[at + 3] = 14;
    changed.bytes[at + 9] = 2;
    refuse(changed.bytes, changed.size, GRAIL_ERROR_UNSUPPORTED, "JPEG has 2 components");
}

/* The last scan of a progressive file `count` times more. */
static buffer repeat_scan(const buffer *bytes, int count)
{
    const unsigned char end[] = {0xFF, 0xD9};
    size_t begin = 0;
    for (size_t i = 0; i + 1 < bytes->size; i++) {
        begin = bytes->bytes[i] == 0xFF && bytes->bytes[i + 1] == 0xDA ? i : begin;
    }
    buffer out = {.maximum = 1 << 24};
    assert_ok(buffer_append(&out, bytes->bytes, bytes->size - sizeof end));
    for (int i = 0; i < count; i++) {
        assert_ok(buffer_append(&out, bytes->bytes + begin, bytes->size - sizeof end - begin));
    }
    assert_ok(buffer_append(&out, end, sizeof end));
    return out;
}

TEST(test_scans_without_end_are_refused)
{
    OWNED(buffer) bytes = read_golden("grey-progressive.jpg");
    OWNED(buffer) some = repeat_scan(&bytes, 300);
    OWNED(buffer) many = repeat_scan(&bytes, 600);
    image picture = {0};
    assert_ok(image_decode(some.bytes, some.size, IMAGE_MOST_PIXELS, &picture));
    image_fini(&picture);
    refuse(many.bytes, many.size, GRAIL_ERROR_FORMAT, "more than the allowed 500 scans of");
    memcpy(find_frame(&some, 0xC2) + 5, "\x1f\x40\x1f\x40", 4);
    refuse(some.bytes, some.size, GRAIL_ERROR_FORMAT,
           "more than the allowed 67 scans of 8000 x 8000 pixels");
}

TEST(test_pngs_of_absurd_size_are_refused)
{
    OWNED(buffer) bytes = read_golden("rgb-8.png");
    set_size(&bytes, 2000000000, 2000000000);
    refuse(bytes.bytes, bytes.size, GRAIL_ERROR_FORMAT,
           "is 2000000000 x 2000000000 pixels, more than the allowed 178956970");
    set_size(&bytes, 0, 5);
    refuse(bytes.bytes, bytes.size, GRAIL_ERROR_FORMAT, "PNG cannot be decoded");
    set_size(&bytes, 26, 0xFFFFFFFFU);
    refuse(bytes.bytes, bytes.size, GRAIL_ERROR_FORMAT, "PNG cannot be decoded");
    set_size(&bytes, 26, 22); /* a row more than there is */
    refuse(bytes.bytes, bytes.size, GRAIL_ERROR_FORMAT, "PNG cannot be decoded");
}

/* The file with a chunk of compressed text put behind its header. */
static buffer with_text(const buffer *bytes)
{
    enum { HEADER_END = 33, TEXT = 1 << 20 };
    static const char chunk[] = "zTXtkey\0"; /* and method 0 */
    buffer out = {.maximum = 1 << 21};
    unsigned char *text = NULL;
    uLongf size = compressBound(TEXT);
    assert_ok(memory_new(&text, size + TEXT, 1));
    assert_int_equal(compress(text, &size, text + compressBound(TEXT), TEXT), Z_OK);
    const uint32_t length = __builtin_bswap32((uint32_t)(sizeof chunk - 4 + size));
    assert_ok(buffer_append(&out, bytes->bytes, HEADER_END));
    assert_ok(buffer_append(&out, &length, 4));
    assert_ok(buffer_append(&out, chunk, sizeof chunk));
    assert_ok(buffer_append(&out, text, size));
    const uint32_t sum = __builtin_bswap32(
        (uint32_t)crc32(0, out.bytes + HEADER_END + 4, (uInt)(sizeof chunk + size)));
    assert_ok(buffer_append(&out, &sum, 4));
    assert_ok(buffer_append(&out, bytes->bytes + HEADER_END, bytes->size - HEADER_END));
    memory_free(text);
    return out;
}

static int64_t allocations_to_decode(const buffer *bytes)
{
    OWNED(image) picture = {0};
    memory_fail_after(-1);
    assert_ok(image_decode(bytes->bytes, bytes->size, IMAGE_MOST_PIXELS, &picture));
    return memory_allocation_count();
}

TEST(test_texts_in_a_png_are_not_unpacked)
{
    OWNED(buffer) plain = read_golden("rgb-16.png");
    OWNED(buffer) text = with_text(&plain);
    assert_int_equal(allocations_to_decode(&plain), allocations_to_decode(&text));
}

TEST(test_a_damaged_png_is_refused)
{
    OWNED(buffer) bytes = read_golden("rgb-8.png");
    bytes.bytes[20] ^= 1;
    refuse(bytes.bytes, bytes.size, GRAIL_ERROR_FORMAT, "PNG cannot be decoded");
}

typedef struct decode_case {
    buffer bytes;
} decode_case;

static grail_status decode_and_convert(void *context)
{
    const decode_case *c = context;
    OWNED(image) picture = {0};
    CHECK(image_decode(c->bytes.bytes, c->bytes.size, IMAGE_MOST_PIXELS, &picture));
    return image_to_rgb(&picture);
}

TEST(test_failed_allocations_leave_nothing_behind)
{
    for (int f = 0; f < FILE_COUNT; f++) {
        decode_case c = {.bytes = read_golden(files[f])};
        support_fail_each_allocation(decode_and_convert, &c);
        buffer_fini(&c.bytes);
    }
}
