#include "format/images/image_preset.h"

#include "base/options.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { TABLE_SIZE = 256, COLOURS = 3 };

#define IMAGENET_SCALE .mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}
#define HALF_SCALE .mean = {0.5, 0.5, 0.5}, .deviation = {0.5, 0.5, 0.5}
#define BYTES_TO_1 .rescale = 1.0 / 255.0

static const char *const names[] = {"cifar", "cifar-imagenet", "cifar-plain", "imagenet", "clip",
                                    "vit",   "vit-square",     NULL};

/* In the order of the names. Sources: cifar, the paper's CIFAR-10 evaluation; cifar-plain, its
 * PreActResNet; imagenet, torchvision's first ImageNet weights; vit, timm for the augreg weights
 * (crop 0.9); vit-square, Hugging Face's ViTImageProcessor; clip, OpenAI and open_clip, which
 * convert to RGB last. */
static const image_preparation presets[] = {
    {.name = "cifar",
     .side = 32,
     BYTES_TO_1,
     .mean = {0.4914, 0.4822, 0.4465},
     .deviation = {0.2023, 0.1994, 0.2010}},
    {.name = "cifar-imagenet", .side = 32, BYTES_TO_1, IMAGENET_SCALE},
    {.name = "cifar-plain", .side = 32, BYTES_TO_1, .deviation = {1, 1, 1}},
    {.name = "imagenet",
     .side = 224,
     .edges = IMAGE_SHORTER_EDGE,
     .numerator = 256,
     .denominator = 224,
     .filter = IMAGE_BILINEAR,
     BYTES_TO_1,
     IMAGENET_SCALE},
    {.name = "clip",
     .side = 224,
     .edges = IMAGE_SHORTER_EDGE,
     .numerator = 1,
     .denominator = 1,
     .filter = IMAGE_BICUBIC,
     .own_mode = true,
     BYTES_TO_1,
     .mean = {0.48145466, 0.4578275, 0.40821073},
     .deviation = {0.26862954, 0.26130258, 0.27577711}},
    {.name = "vit",
     .side = 224,
     .edges = IMAGE_SHORTER_EDGE,
     .numerator = 10,
     .denominator = 9,
     .filter = IMAGE_BICUBIC,
     BYTES_TO_1,
     HALF_SCALE},
    {.name = "vit-square",
     .side = 224,
     .edges = IMAGE_BOTH_EDGES,
     .numerator = 1,
     .denominator = 1,
     .filter = IMAGE_BILINEAR,
     BYTES_TO_1,
     HALF_SCALE},
};

enum { PRESETS = sizeof presets / sizeof presets[0] };
static_assert(PRESETS + 1 == sizeof names / sizeof names[0], "every preset has its name");

/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_image_source, member)
#define OF_SAMPLES .only_with = "calib eval data"
static const grail_option fields[] = {
    {FIELD(preset), .type = GRAIL_OPTION_WORD, .what = "preset", .words = names, .key = "preset",
     .name = "preset", .argument = "NAME", OF_SAMPLES,
     .help = "how to resize, crop and scale images: cifar, cifar-imagenet, cifar-plain, imagenet, "
             "clip, vit or vit-square (the model's)"},
    {FIELD(split), .type = GRAIL_OPTION_WORD, .what = "split",
     .words = OPTION_WORDS("train", "test"), .key = "split", .name = "split", .argument = "NAME",
     OF_SAMPLES,
     .help = "part of a directory of CIFAR batches to read: train or test (by default train to "
             "calibrate, test to measure)"},
    {FIELD(size), .type = GRAIL_OPTION_INTEGER, .what = "the size of the network's input",
     .below = IMAGE_LARGEST_SIDE + 1.0, .zero_is_usual = 1, .key = "size", .name = "size",
     .argument = "N", OF_SAMPLES,
     .help = "side of the network's input in pixels (the network's, or the preset's)"},
    {FIELD(mean), .type = GRAIL_OPTION_COLOUR, .key = "mean", .name = "mean", .argument = "R,G,B",
     OF_SAMPLES,
     .help = "mean to subtract from the colours, which range from 0 to 1 (the preset's)"},
    {FIELD(deviation), .type = GRAIL_OPTION_COLOUR, .key = "std", .name = "std",
     .argument = "R,G,B", OF_SAMPLES,
     .help = "standard deviation to divide the colours by (the preset's)"},
    {FIELD(labels), .type = GRAIL_OPTION_TEXT, .subject = GRAIL_SUBJECT_MEASURE, .name = "labels",
     .argument = "FILE", .only_with = "data",
     .help = "CSV file with lines \"file,class index\", for images whose folders do not name the "
             "class"},
    OPTION_ROOM(grail_image_source, room, grail_image_source),
    {0},
};
/* clang-format on */

void grail_image_source_init(grail_image_source *source)
{
    *source = (grail_image_source){0};
}

const grail_option *grail_image_option_at(int i)
{
    return option_at(fields, i);
}

const char *grail_image_preset_at(int i)
{
    return i >= 0 && i < PRESETS ? names[i] : NULL;
}

grail_status image_preset_find(const char *name, const image_preparation **out)
{
    int found = 0;
    CHECK(option_find_word("preset", name, names, &found));
    *out = &presets[found];
    return GRAIL_OK;
}

int64_t image_resized_length(const image_preparation *p, int64_t side)
{
    return p->edges == IMAGE_NOT_RESIZED
               ? 0
               : (int64_t)floor((double)side * p->numerator / p->denominator);
}

/* As torchvision's ToTensor and Normalize: every step rounded to f32. */
static float scaled(int byte, double rescale, double mean, double deviation)
{
    const float value = rescale == 1.0 / 255.0 ? (float)byte / 255.0F : (float)(byte * rescale);
    return (value - (float)mean) / (float)deviation;
}

const char *image_preparation_fault(const image_preparation *p)
{
    if (p->side < 1 || p->side > IMAGE_LARGEST_SIDE) {
        return "the side of the network's input must be 1 to 8192";
    }
    if (p->edges != IMAGE_NOT_RESIZED) {
        const double length = floor((double)p->side * p->numerator / p->denominator);
        if (!(length >= (double)p->side && length <= IMAGE_LARGEST_SIDE)) {
            return "the resized length must be at least that of the crop, and at most 8192";
        }
    }
    if (!(p->rescale > 0.0) || !isfinite((float)(p->rescale * (TABLE_SIZE - 1)))) {
        return "the rescale factor must be finite and above 0";
    }
    for (int c = 0; c < 3; c++) {
        const double mean = p->mean[c];
        const double deviation = p->deviation[c];
        if (!isfinite((float)mean) || !((float)deviation > 0.0F) || !isfinite((float)deviation) ||
            !isfinite(scaled(0, p->rescale, mean, deviation)) ||
            !isfinite(scaled(TABLE_SIZE - 1, p->rescale, mean, deviation))) {
            return "the mean must be finite and the standard deviation finite and above 0";
        }
    }
    return NULL;
}

const double *image_values(const grail_colour *given, const double *usual)
{
    return given->given != 0 ? given->values : usual;
}

grail_status image_rule_make(const grail_image_source *source, const image_preparation *usual,
                             const char *preset, image_rule *out)
{
    const image_preparation *chosen = usual;
    image_rule rule = {0};
    CHECK(options_check(fields, source));
    if (source->preset != NULL || usual == NULL) {
        CHECK(image_preset_find(source->preset != NULL ? source->preset : preset, &chosen));
    }
    rule.preset = chosen->name;
    rule.height = source->size > 0 ? source->size : chosen->side;
    rule.width = rule.height;
    rule.channels = COLOURS;
    rule.edges = chosen->edges;
    rule.resize = image_resized_length(chosen, rule.height);
    rule.filter = chosen->filter;
    rule.own_mode = chosen->own_mode;
    rule.crops_down = chosen->crops_down;
    const double *mean = image_values(&source->mean, chosen->mean);
    const double *deviation = image_values(&source->deviation, chosen->deviation);
    for (int c = 0; c < 3; c++) {
        const float centre = (float)mean[c];
        const float scale = (float)deviation[c];
        if (!isfinite(centre) || !isfinite(scale) || scale <= 0) {
            return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                         "the mean is %g and the deviation %g for channel %d; the "
                                         "mean must be finite and the deviation above 0",
                                         mean[c], deviation[c], c),
                               isfinite(centre) ? "deviation" : "mean");
        }
        for (int byte = 0; byte < TABLE_SIZE; byte++) {
            rule.table[c][byte] = scaled(byte, chosen->rescale, mean[c], deviation[c]);
        }
    }
    *out = rule;
    return GRAIL_OK;
}

grail_status image_rule_fit(image_rule *rule, int64_t height, int64_t width, int64_t channels)
{
    if (channels != COLOURS && channels != 1) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the network reads images of %lld channels, but pictures have 3, or 1 of "
                         "grey; give arrays (.npy)",
                         (long long)channels);
    }
    rule->channels = (int)channels;
    if (height != width) {
        if (height < 1 || width < 1 || height > IMAGE_LARGEST_SIDE || width > IMAGE_LARGEST_SIDE) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "the network reads images of %lld x %lld, expected sides of 1 to %d",
                             (long long)width, (long long)height, IMAGE_LARGEST_SIDE);
        }
        rule->is_exact = true;
        rule->height = height;
        rule->width = width;
    }
    return GRAIL_OK;
}

/* -- from a decoded image to the network's input ----------------------------------------------- */

/* Half of the excess. torchvision's CenterCrop rounds half a pixel to the even number, Hugging
 * Face's center_crop down. */
static int64_t half_of(int64_t excess, bool down)
{
    const int64_t half = excess / 2;
    return down ? half : half + (excess % 2) * (half % 2);
}

/* As torchvision's Resize with one number: the length of the longer side is rounded down. */
static grail_status resize_and_crop(const image_rule *rule, image *picture)
{
    grail_status status = GRAIL_OK;
    image cropped = {0};
    const bool upright = picture->width <= picture->height;
    const int64_t shorter = upright ? picture->width : picture->height;
    const int64_t longer = upright ? picture->height : picture->width;
    const int64_t stretched = rule->resize * longer / shorter;
    const bool both = rule->edges == IMAGE_BOTH_EDGES;
    const int64_t width = rule->is_exact ? rule->width : upright || both ? rule->resize : stretched;
    const int64_t height = rule->is_exact     ? rule->height
                           : upright && !both ? stretched
                                              : rule->resize;
    TRY(image_check_size(width, height, IMAGE_MOST_PIXELS));
    const image_window window = {.left = half_of(width - rule->width, rule->crops_down),
                                 .top = half_of(height - rule->height, rule->crops_down),
                                 .width = rule->width,
                                 .height = rule->height};
    TRY(image_resize(picture, width, height, rule->filter, window, &cropped));
    image_fini(picture);
    *picture = cropped;
out:
    if (status == GRAIL_ERROR_FORMAT) {
        error_prefix("is %lld x %lld pixels; its resized copy", (long long)picture->width,
                     (long long)picture->height);
    }
    return status;
}

/* As Pillow makes grey of colours, by ITU-R 601-2. */
static unsigned char grey_of(const unsigned char *pixel)
{
    return (unsigned char)((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

grail_status image_prepare(const image_rule *rule, image *picture, float *out)
{
    if (!rule->own_mode) {
        CHECK(image_to_rgb(picture));
    }
    if (rule->edges != IMAGE_NOT_RESIZED) {
        CHECK(resize_and_crop(rule, picture));
    } else if (picture->width != rule->width || picture->height != rule->height) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "is %lld x %lld pixels, but the preset %s does not resize and needs %lld "
                         "x %lld; choose a preset that resizes, or another size",
                         (long long)picture->width, (long long)picture->height, rule->preset,
                         (long long)rule->width, (long long)rule->height);
    }
    CHECK(image_to_rgb(picture));
    for (int64_t i = 0; i < rule->height * rule->width; i++) {
        const unsigned char *pixel = picture->pixels + COLOURS * i;
        for (int64_t c = 0; rule->channels == COLOURS && c < COLOURS; c++) {
            out[COLOURS * i + c] = rule->table[c][pixel[c]];
        }
        if (rule->channels == 1) {
            out[i] = rule->table[0][grey_of(pixel)];
        }
    }
    return GRAIL_OK;
}
