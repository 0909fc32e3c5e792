#include "format/images/image_prepare.h"

#include "format/images/image_decode.h"

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
    const int64_t width = upright || both ? rule->resize : stretched;
    const int64_t height = upright && !both ? stretched : rule->resize;
    TRY(image_check_size(width, height, IMAGE_MOST_PIXELS));
    const image_window window = {.left = half_of(width - rule->side, rule->crops_down),
                                 .top = half_of(height - rule->side, rule->crops_down),
                                 .width = rule->side,
                                 .height = rule->side};
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

static grail_status check_side(const image_rule *rule, const image *picture)
{
    if (picture->width != rule->side || picture->height != rule->side) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "is %lld x %lld pixels, but the preset %s does not resize and needs %lld "
                         "x %lld; choose a preset that resizes, or another size",
                         (long long)picture->width, (long long)picture->height, rule->preset,
                         (long long)rule->side, (long long)rule->side);
    }
    return GRAIL_OK;
}

grail_status image_prepare(const image_rule *rule, image *picture, float *out)
{
    if (!rule->own_mode) {
        CHECK(image_to_rgb(picture));
    }
    if (rule->edges != IMAGE_NOT_RESIZED) {
        CHECK(resize_and_crop(rule, picture));
    } else {
        CHECK(check_side(rule, picture));
    }
    CHECK(image_to_rgb(picture));
    for (int64_t i = 0; i < rule->side * rule->side; i++) {
        for (int64_t c = 0; c < 3; c++) {
            out[3 * i + c] = rule->table[c][picture->pixels[3 * i + c]];
        }
    }
    return GRAIL_OK;
}
