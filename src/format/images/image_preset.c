#include "format/images/image_preset.h"

#include "base/names.h"

#include <math.h>
#include <string.h>

enum { LARGEST_SIDE = 8192, TABLE_SIZE = 256 };

/* Shorter side after resizing = floor(side * numerator / denominator); 0 = not resized. */
typedef struct preset {
    const char *name;
    int64_t side;
    int64_t numerator;
    int64_t denominator;
    image_filter filter;
    bool own_mode;
    double mean[3];
    double deviation[3];
} preset;

#define IMAGENET_SCALE .mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}

/* Sources: cifar, the paper's CIFAR-10 evaluation; cifar-plain, its PreActResNet; imagenet,
 * torchvision's first ImageNet weights; vit, timm for the augreg weights (crop 0.9); clip, OpenAI
 * and open_clip, which convert to RGB last. */
static const preset presets[] = {
    {.name = "cifar",
     .side = 32,
     .mean = {0.4914, 0.4822, 0.4465},
     .deviation = {0.2023, 0.1994, 0.2010}},
    {.name = "cifar-imagenet", .side = 32, IMAGENET_SCALE},
    {.name = "cifar-plain", .side = 32, .deviation = {1, 1, 1}},
    {.name = "imagenet",
     .side = 224,
     .numerator = 256,
     .denominator = 224,
     .filter = IMAGE_BILINEAR,
     IMAGENET_SCALE},
    {.name = "clip",
     .side = 224,
     .numerator = 1,
     .denominator = 1,
     .filter = IMAGE_BICUBIC,
     .own_mode = true,
     .mean = {0.48145466, 0.4578275, 0.40821073},
     .deviation = {0.26862954, 0.26130258, 0.27577711}},
    {.name = "vit",
     .side = 224,
     .numerator = 10,
     .denominator = 9,
     .filter = IMAGE_BICUBIC,
     .mean = {0.5, 0.5, 0.5},
     .deviation = {0.5, 0.5, 0.5}},
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

static grail_status find_preset(const char *name, const preset **out)
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

/* As torchvision's ToTensor and Normalize: every step rounded to f32. */
static grail_status fill_table(const double mean[3], const double deviation[3],
                               float table[3][TABLE_SIZE])
{
    for (int c = 0; c < 3; c++) {
        const float centre = (float)mean[c];
        const float scale = (float)deviation[c];
        if (!isfinite(centre) || !isfinite(scale) || scale <= 0) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "the mean is %g and the deviation %g for channel %d; the mean must be "
                             "finite and the deviation above 0",
                             mean[c], deviation[c], c);
        }
        for (int byte = 0; byte < TABLE_SIZE; byte++) {
            table[c][byte] = ((float)byte / 255.0F - centre) / scale;
        }
    }
    return GRAIL_OK;
}

grail_status image_rule_resolve(const grail_image_source *source, const char *name, image_rule *out)
{
    grail_status status = GRAIL_OK;
    const preset *chosen = NULL;
    image_rule rule = {0};
    TRY(find_preset(source->preset == NULL ? name : source->preset, &chosen));
    if (source->size < 0 || source->size > LARGEST_SIDE) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the size of the network's input is %lld; it must be 1 to %d",
             (long long)source->size, LARGEST_SIDE);
    }
    rule.preset = chosen->name;
    rule.side = source->size > 0 ? source->size : chosen->side;
    rule.filter = chosen->filter;
    rule.own_mode = chosen->own_mode;
    if (chosen->numerator > 0) {
        rule.resize = rule.side * chosen->numerator / chosen->denominator;
    }
    TRY(fill_table(source->mean == NULL ? chosen->mean : source->mean,
                   source->deviation == NULL ? chosen->deviation : source->deviation, rule.table));
    *out = rule;
out:
    return status;
}
