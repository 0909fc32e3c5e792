/* Resizing: what holds for any filter, and small cases worked out by hand. golden/test_images
 * checks that the bits are Pillow's. */
#include "support/support.h"

#include "format/images/image_preset.h"
#include "format/images/image_resize.h"

#include <math.h>
#include <string.h>

static const image_mode modes[] = {IMAGE_GREY, IMAGE_GREY_ALPHA, IMAGE_GREY_WIDE, IMAGE_PALETTE,
                                   IMAGE_RGB,  IMAGE_RGBA,       IMAGE_CMYK,      IMAGE_BILEVEL};
enum { MODE_COUNT = sizeof modes / sizeof modes[0] };

static image noise(image_mode mode, int64_t width, int64_t height)
{
    image made = {0};
    random_state random;
    random_seed(&random, (uint64_t)(width * 1000 + height), 0);
    assert_ok(image_new(mode, width, height, &made));
    const int64_t bytes = width * height * (int64_t)image_pixel_bytes(mode);
    for (int64_t i = 0; i < bytes; i++) {
        /* Wide grey pixels are 16-bit values in int32: the upper two bytes are zero. */
        const bool upper = mode == IMAGE_GREY_WIDE && i % 4 >= 2;
        made.pixels[i] = upper ? 0 : (unsigned char)random_below(&random, 256);
    }
    return made;
}

static image_window whole(int64_t width, int64_t height)
{
    return (image_window){.width = width, .height = height};
}

static image resized(const image *source, int64_t width, int64_t height, image_filter filter)
{
    image out = {0};
    assert_ok(image_resize(source, width, height, filter, whole(width, height), &out));
    assert_int_equal(out.mode, source->mode);
    assert_int_equal(out.width, width);
    assert_int_equal(out.height, height);
    return out;
}

static void expect_part(const image *all, const image *part, image_window window)
{
    const size_t bytes = image_pixel_bytes(all->mode);
    for (int64_t y = 0; y < window.height; y++) {
        const int64_t from = (window.top + y) * all->width + window.left;
        assert_memory_equal(part->pixels + (size_t)(y * window.width) * bytes,
                            all->pixels + (size_t)from * bytes, (size_t)window.width * bytes);
    }
}

TEST(test_a_window_is_a_part_of_the_whole)
{
    static const int64_t sizes[][2] = {{31, 23}, {7, 9}, {19, 23}, {31, 5}, {19, 26}, {40, 26}};
    const image_window window = {.left = 2, .top = 1, .width = 4, .height = 3};
    for (int m = 0; m < MODE_COUNT; m++) {
        OWNED(image) source = noise(modes[m], 19, 26);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            const image_filter filter = s % 2 == 0 ? IMAGE_BICUBIC : IMAGE_BILINEAR;
            OWNED(image) all = resized(&source, sizes[s][0], sizes[s][1], filter);
            OWNED(image) part = {0};
            assert_ok(image_resize(&source, sizes[s][0], sizes[s][1], filter, window, &part));
            expect_part(&all, &part, window);
        }
    }
}

TEST(test_the_same_size_changes_nothing)
{
    for (int m = 0; m < MODE_COUNT; m++) {
        OWNED(image) source = noise(modes[m], 11, 6);
        OWNED(image) same = resized(&source, 11, 6, IMAGE_BICUBIC);
        assert_memory_equal(same.pixels, source.pixels, 66 * image_pixel_bytes(modes[m]));
    }
}

TEST(test_an_even_image_stays_even)
{
    for (int f = IMAGE_BILINEAR; f <= IMAGE_BICUBIC; f++) {
        OWNED(image) source = noise(IMAGE_RGB, 17, 13);
        memset(source.pixels, 201, 17 * 13 * 3);
        OWNED(image) out = resized(&source, 29, 5, (image_filter)f);
        for (int64_t i = 0; i < 29 * 5 * 3; i++) {
            assert_int_equal(out.pixels[i], 201);
        }
    }
}

TEST(test_weights_of_a_pixel_add_up_to_one)
{
    static const int64_t sizes[][2] = {{1, 9}, {9, 1}, {224, 500}, {500, 224}, {255, 256}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        image_weights w = {0};
        const int64_t in = sizes[s][0];
        const int64_t out = sizes[s][1];
        assert_ok(image_weights_new(IMAGE_BICUBIC, in, out, 0, out, &w));
        for (int64_t i = 0; i < out; i++) {
            double sum = 0;
            double negative = 0;
            for (int64_t t = 0; t < w.taps[i]; t++) {
                const double weight = w.exact[i * w.span + t];
                sum += weight;
                negative += weight < 0 ? weight : 0;
                assert_near(weight, ldexp(w.fixed[i * w.span + t], -IMAGE_WEIGHT_BITS), 2e-7);
            }
            assert_near(sum, 1, 1e-12);
            assert_true(negative > -0.25);
            assert_true(w.taps[i] <= w.span && w.first[i] >= 0 && w.first[i] + w.taps[i] <= in);
        }
        image_weights_fini(&w);
    }
}

/* Four pixels become two: centres 1 and 3, triangles of width 2 over 0 .. 2 and 1 .. 3:
 * weights 3/8 of the near two, 1/8 of the next, over their sum. */
TEST(test_halving_by_triangles)
{
    OWNED(image) source = noise(IMAGE_GREY, 4, 1);
    memcpy(source.pixels, "\x00\x46\x8c\xd2", 4); /* 0 70 140 210 */
    OWNED(image) out = resized(&source, 2, 1, IMAGE_BILINEAR);
    assert_int_equal(out.pixels[0], (3 * 0 + 3 * 70 + 140) / 7);
    assert_int_equal(out.pixels[1], (70 + 3 * 140 + 3 * 210) / 7);
}

TEST(test_the_nearest_pixel_is_that_of_the_centre)
{
    OWNED(image) source = noise(IMAGE_PALETTE, 5, 1);
    memcpy(source.pixels, "abcde", 5);
    source.palette['c'][1] = 77;
    OWNED(image) fewer = resized(&source, 2, 1, IMAGE_BICUBIC);
    OWNED(image) more = resized(&source, 10, 1, IMAGE_BICUBIC);
    assert_memory_equal(fewer.pixels, "bd", 2);
    assert_memory_equal(more.pixels, "aabbccddee", 10);
    assert_int_equal(more.palette['c'][1], 77);
}

TEST(test_invisible_colours_do_not_bleed)
{
    OWNED(image) source = noise(IMAGE_RGBA, 2, 1);
    memcpy(source.pixels, "\x0a\x14\x1e\xff\xff\xff\xff\x00", 8);
    OWNED(image) out = resized(&source, 1, 1, IMAGE_BILINEAR);
    assert_near(out.pixels[0], 10, 1);
    assert_near(out.pixels[1], 20, 1);
    assert_near(out.pixels[2], 30, 1);
    assert_int_equal(out.pixels[3], 128);
}

TEST(test_wide_grey_overshoots_and_is_cut_at_last)
{
    OWNED(image) source = noise(IMAGE_GREY_WIDE, 4, 1);
    const int32_t values[] = {0, 0, 60000, 60000};
    memcpy(source.pixels, values, sizeof values);
    OWNED(image) out = resized(&source, 16, 1, IMAGE_BICUBIC);
    int32_t wide[16];
    memcpy(wide, out.pixels, sizeof wide);
    assert_true(wide[5] < 0 && wide[10] > 60000);
    assert_ok(image_to_rgb(&out));
    assert_int_equal(out.pixels[3 * 5], 0);
    assert_int_equal(out.pixels[3 * 10], 255);
}

static image_rule rule_of(const char *preset, int64_t size)
{
    const grail_image_source source = {.size = size};
    image_rule rule;
    assert_ok(image_rule_make(&source, NULL, preset, &rule));
    return rule;
}

TEST(test_presets_scale_the_resize_with_the_size)
{
    assert_int_equal(rule_of("imagenet", 0).resize, 256);
    assert_int_equal(rule_of("imagenet", 384).resize, 438);
    assert_int_equal(rule_of("clip", 0).resize, 224);
    assert_int_equal(rule_of("clip", 336).resize, 336);
    assert_int_equal(rule_of("vit", 0).resize, 248);
    assert_int_equal(rule_of("vit", 384).resize, 426);
    assert_int_equal(rule_of("vit-square", 96).resize, 96);
    assert_int_equal(rule_of("cifar", 0).resize, 0);
    assert_int_equal(rule_of("cifar-plain", 0).height, 32);
}

static void prepare_fails(const char *preset, int64_t width, int64_t height, grail_status code,
                          const char *text)
{
    const image_rule rule = rule_of(preset, 0);
    OWNED(image) source = noise(IMAGE_GREY, width, height);
    OWNED(float) *out = NULL;
    assert_ok(memory_new(&out, (size_t)(rule.height * rule.width * 3), sizeof *out));
    assert_fails(image_prepare(&rule, &source, out), code, text);
}

TEST(test_a_size_that_a_preset_does_not_take_is_refused)
{
    prepare_fails("cifar", 33, 32, GRAIL_ERROR_SHAPE,
                  "is 33 x 32 pixels, but the preset cifar does not resize and needs 32 x 32; "
                  "choose a preset that resizes, or another size");
    prepare_fails("imagenet", 4000000, 1, GRAIL_ERROR_FORMAT,
                  "is 4000000 x 1 pixels; its resized copy: is 1024000000 x 256 pixels, more than");
}

/* Rows 1 2 3 .. of a picture that is 2 wide and 7 high. */
static image ramp(void)
{
    image made = {0};
    assert_ok(image_new(IMAGE_GREY, 2, 7, &made));
    for (int i = 0; i < 14; i++) {
        made.pixels[i] = (unsigned char)(1 + i / 2);
    }
    return made;
}

static float first_pixel(const image_preparation *p)
{
    const grail_image_source plain = {0};
    float out[2 * 2 * 3];
    image_rule rule;
    OWNED(image) picture = ramp();
    assert_ok(image_rule_make(&plain, p, NULL, &rule));
    assert_ok(image_prepare(&rule, &picture, out));
    return out[0];
}

TEST(test_the_edges_and_the_place_of_the_crop_are_what_a_preparation_says)
{
    image_preparation p = {.name = IMAGE_OF_CHECKPOINT,
                           .side = 2,
                           .edges = IMAGE_SHORTER_EDGE,
                           .numerator = 1,
                           .denominator = 1,
                           .rescale = 1,
                           .deviation = {1, 1, 1}};
    assert_null(image_preparation_fault(&p));
    assert_near(first_pixel(&p), 3, 0); /* of 5 rows too many, 2.5 to the even number is 2 */
    p.side = 1;
    p.numerator = 2;
    assert_near(first_pixel(&p), 4, 0);
    p.side = 2;
    p.numerator = 1;
    p.edges = IMAGE_BOTH_EDGES;
    p.filter = IMAGE_NEAREST;
    assert_near(first_pixel(&p), 2, 0); /* 7 / 4 lies in the second row */
    p.rescale = 0.5;
    p.mean[0] = 1;
    p.deviation[0] = 4;
    assert_near(first_pixel(&p), 0, 0);
}

/* A picture is resized to what a network reads that is no square, and nothing is cropped; grey is
 * Pillow's, scaled as the first colour. */
TEST(test_a_network_that_is_not_square_gets_the_whole_picture)
{
    const grail_image_source plain = {0};
    const image_preparation p = {.name = IMAGE_OF_CHECKPOINT,
                                 .side = 2,
                                 .edges = IMAGE_SHORTER_EDGE,
                                 .numerator = 2,
                                 .denominator = 1,
                                 .filter = IMAGE_NEAREST,
                                 .rescale = 1,
                                 .mean = {8, 0, 0},
                                 .deviation = {2, 1, 1}};
    float out[7 * 4 * 3];
    image_rule rule;
    image picture = ramp();
    assert_ok(image_rule_make(&plain, &p, NULL, &rule));
    assert_ok(image_rule_fit(&rule, 7, 4, 3));
    assert_ok(image_prepare(&rule, &picture, out));
    image_fini(&picture);
    for (int i = 0; i < 7 * 4; i++) {
        assert_near((double)out[3 * i], (1 + i / 4 - 8) / 2.0, 0);
        assert_near((double)out[3 * i + 2], 1 + i / 4, 0);
    }
    assert_ok(image_new(IMAGE_RGB, 1, 1, &picture));
    memcpy(picture.pixels, (const unsigned char[]){10, 20, 30}, 3);
    assert_ok(image_rule_fit(&rule, 1, 2, 1));
    assert_ok(image_prepare(&rule, &picture, out));
    image_fini(&picture);
    assert_near((double)out[0], (18 - 8) / 2.0, 0);
    assert_near((double)out[1], (18 - 8) / 2.0, 0);
    assert_fails(image_rule_fit(&rule, 2, 2, 4), GRAIL_ERROR_UNSUPPORTED, "images of 4 channels");
    assert_fails(image_rule_fit(&rule, 8193, 2, 3), GRAIL_ERROR_UNSUPPORTED, "images of 2 x 8193");
    rule.edges = IMAGE_NOT_RESIZED;
    assert_ok(image_rule_fit(&rule, 3, 2, 3));
    picture = ramp();
    assert_fails(image_prepare(&rule, &picture, out), GRAIL_ERROR_SHAPE, "needs 2 x 3");
    image_fini(&picture);
}

TEST(test_what_is_wrong_with_a_preparation_is_told)
{
    const image_preparation sound = {.side = 8,
                                     .edges = IMAGE_SHORTER_EDGE,
                                     .numerator = 9,
                                     .denominator = 8,
                                     .rescale = 1,
                                     .deviation = {1, 1, 1}};
    image_preparation p = sound;
    assert_null(image_preparation_fault(&p));
    p.side = 8193;
    assert_non_null(strstr(image_preparation_fault(&p), "side of the network's input"));
    p = sound;
    p.numerator = 7;
    assert_non_null(strstr(image_preparation_fault(&p), "resized length"));
    p.denominator = 0;
    assert_non_null(strstr(image_preparation_fault(&p), "resized length"));
    p = sound;
    p.rescale = 0;
    assert_non_null(strstr(image_preparation_fault(&p), "rescale"));
    p.rescale = 1e38;
    assert_non_null(strstr(image_preparation_fault(&p), "rescale"));
    p = sound;
    p.deviation[2] = 0;
    assert_non_null(strstr(image_preparation_fault(&p), "standard deviation"));
    p.deviation[2] = 1e-42; /* above 0, but 255 divided by it is not finite */
    assert_non_null(strstr(image_preparation_fault(&p), "standard deviation"));
}

typedef struct prepare_case {
    image_rule rule;
    image_mode mode;
    float *out;
} prepare_case;

static grail_status prepare_noise(void *context)
{
    prepare_case *c = context;
    OWNED(image) source = {0};
    CHECK(image_new(c->mode, 9, 14, &source));
    memset(source.pixels, 1, 9 * 14 * image_pixel_bytes(c->mode));
    return image_prepare(&c->rule, &source, c->out);
}

TEST(test_failed_allocations_leave_nothing_behind)
{
    static const char *const presets[] = {"imagenet", "clip"};
    float out[8 * 8 * 3];
    for (int k = 0; k < 2 * MODE_COUNT; k++) {
        prepare_case c = {.rule = rule_of(presets[k % 2], 8), .mode = modes[k / 2], .out = out};
        support_fail_each_allocation(prepare_noise, &c);
    }
}
