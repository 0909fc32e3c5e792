#include "format/images/image_preset.h"

#include "base/names.h"
#include "base/option_values.h"

#include <math.h>
#include <string.h>

enum { TABLE_SIZE = 256 };

#define IMAGENET_SCALE .mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}
#define HALF_SCALE .mean = {0.5, 0.5, 0.5}, .deviation = {0.5, 0.5, 0.5}
#define BYTES_TO_1 .rescale = 1.0 / 255.0

/* Sources: cifar, the paper's CIFAR-10 evaluation; cifar-plain, its PreActResNet; imagenet,
 * torchvision's first ImageNet weights; vit, timm for the augreg weights (crop 0.9); vit-square,
 * Hugging Face's ViTImageProcessor; clip, OpenAI and open_clip, which convert to RGB last. */
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

static const int preset_count = sizeof presets / sizeof presets[0];

void grail_image_source_init(grail_image_source *source)
{
    *source = (grail_image_source){0};
}

const char *grail_image_preset_at(int i)
{
    return i >= 0 && i < preset_count ? presets[i].name : NULL;
}

static const char *preset_name_at(const void *list, int i)
{
    (void)list;
    return grail_image_preset_at(i);
}

grail_status image_preset_find(const char *name, const image_preparation **out)
{
    for (int i = 0; i < preset_count; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            *out = &presets[i];
            return GRAIL_OK;
        }
    }
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT, "unknown preset '%s'; the presets are", name);
    error_append_names(name, preset_name_at, NULL);
    return status;
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

static bool is_scale(double rescale, double mean, double deviation)
{
    return isfinite((float)mean) && (float)deviation > 0.0F && isfinite((float)deviation) &&
           isfinite(scaled(0, rescale, mean, deviation)) &&
           isfinite(scaled(TABLE_SIZE - 1, rescale, mean, deviation));
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
        if (!is_scale(p->rescale, p->mean[c], p->deviation[c])) {
            return "the mean must be finite and the standard deviation finite and above 0";
        }
    }
    return NULL;
}

static grail_status fill_table(double rescale, const double mean[3], const double deviation[3],
                               float table[3][TABLE_SIZE])
{
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
            table[c][byte] = scaled(byte, rescale, mean[c], deviation[c]);
        }
    }
    return GRAIL_OK;
}

grail_status image_rule_make(const grail_image_source *source, const image_preparation *usual,
                             image_rule *out)
{
    const image_preparation *chosen = usual;
    image_rule rule = {0};
    if (source->preset != NULL) {
        CHECK(option_about("preset", image_preset_find(source->preset, &chosen)));
    }
    if (source->size < 0 || source->size > IMAGE_LARGEST_SIDE) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "the size of the network's input is %lld; it must be 1 to %d",
                                     (long long)source->size, IMAGE_LARGEST_SIDE),
                           "size");
    }
    rule.preset = chosen->name;
    rule.side = source->size > 0 ? source->size : chosen->side;
    rule.edges = chosen->edges;
    rule.resize = image_resized_length(chosen, rule.side);
    rule.filter = chosen->filter;
    rule.own_mode = chosen->own_mode;
    rule.crops_down = chosen->crops_down;
    CHECK(fill_table(chosen->rescale, source->mean == NULL ? chosen->mean : source->mean,
                     source->deviation == NULL ? chosen->deviation : source->deviation,
                     rule.table));
    *out = rule;
    return GRAIL_OK;
}

grail_status image_rule_resolve(const grail_image_source *source, const char *preset,
                                image_rule *out)
{
    const image_preparation *usual = NULL;
    CHECK(image_preset_find(preset, &usual));
    return image_rule_make(source, usual, out);
}
