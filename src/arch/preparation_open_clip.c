/* open_clip's evaluation transform. Source: open_clip 3.3, transform.py (image_transform). */
#include "arch/preparation_read.h"

#include <string.h>

/* preprocess_cfg.size, else the size of the visual tower. */
static grail_status read_size(const char *source, const json_t *document, const json_t *section,
                              int64_t *side)
{
    const json_t *model = NULL;
    const json_t *vision = NULL;
    const json_t *own = json_object_get(section, "size");
    CHECK(read_object(source, document, "model_cfg", &model));
    CHECK(read_object(source, model, "vision_cfg", &vision));
    const json_t *tower = json_object_get(vision, "image_size");
    if (own != NULL && !json_is_null(own)) {
        CHECK(read_square(source, "size", own, side));
    } else if (tower != NULL && !json_is_null(tower)) {
        CHECK(read_square(source, "image_size", tower, side));
    }
    return GRAIL_OK;
}

/* "random" is for training; for evaluation it is bicubic. */
static grail_status read_filter(const char *source, const json_t *section, image_filter *filter)
{
    const char *name = json_string_value(json_object_get(section, "interpolation"));
    if (name != NULL && strcmp(name, "random") == 0) {
        return GRAIL_OK;
    }
    grail_status status = read_filter_name(source, section, "interpolation", filter);
    if (status == GRAIL_OK && *filter != IMAGE_BICUBIC && *filter != IMAGE_BILINEAR) {
        status = error_set(GRAIL_ERROR_UNSUPPORTED,
                           "%s: \"interpolation\" is \"%s\"; open_clip has bicubic and bilinear",
                           source, image_filter_name(*filter));
    }
    return status;
}

grail_status preparation_of_open_clip(const char *source, const json_t *document,
                                      image_preparation *out)
{
    const json_t *section = NULL;
    image_preparation made = preparation_usual(clip_mean, clip_deviation);
    made.own_mode = true;
    CHECK(read_object(source, document, "preprocess_cfg", &section));
    CHECK(read_size(source, document, section, &made.side));
    CHECK(read_edges(source, section, "resize_mode", "shortest", &made.edges));
    CHECK(read_filter(source, section, &made.filter));
    CHECK(read_mean(source, section, "mean", made.mean));
    CHECK(read_deviation(source, section, "std", made.deviation));
    CHECK(preparation_check(source, &made));
    *out = made;
    return GRAIL_OK;
}
