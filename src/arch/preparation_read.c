/* Source: Hugging Face transformers 4.57 and 5.23, image_processing_*.py; timm 1.0.31,
 * data/config.py (resolve_data_config) and data/transforms_factory.py (transforms_imagenet_eval);
 * open_clip 3.3, transform.py (image_transform). */
#include "arch/preparation_read.h"

#include <math.h>
#include <string.h>

/* -- values that all descriptions have in common ----------------------------------------------- */

static const double imagenet_mean[3] = {0.485, 0.456, 0.406};
static const double imagenet_deviation[3] = {0.229, 0.224, 0.225};
static const double clip_mean[3] = {0.48145466, 0.4578275, 0.40821073};
static const double clip_deviation[3] = {0.26862954, 0.26130258, 0.27577711};

/* to[3] <- from[3] */
static void copy_triple(const double from[3], double to[3])
{
    memcpy(to, from, 3 * sizeof to[0]);
}

static const json_t *present(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* object[key], which must be an object. A missing key or null leaves *out as it is, here and below.
 */
static grail_status read_object(const char *source, const json_t *object, const char *key,
                                const json_t **out)
{
    const json_t *value = present(object, key);
    if (value != NULL && !json_is_object(value)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an object", source, key);
    }
    *out = value == NULL ? *out : value;
    return GRAIL_OK;
}

/* A length in pixels, 1 to IMAGE_LARGEST_SIDE: an integer. `key` names `value` in messages. */
static grail_status read_length(const char *source, const char *key, const json_t *value,
                                int64_t *out)
{
    if (!json_is_integer(value)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not a length in pixels", source, key);
    }
    const int64_t length = json_integer_value(value);
    if (length < 1 || length > IMAGE_LARGEST_SIDE) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %lld pixels, expected 1 to %d", source,
                         key, (long long)length, IMAGE_LARGEST_SIDE);
    }
    *out = length;
    return GRAIL_OK;
}

/* The length of both edges, from [length, length], or {"height": length, "width": length}, or one
 * number. */
static grail_status read_square(const char *source, const char *key, const json_t *value,
                                int64_t *out)
{
    int64_t height = 0;
    int64_t width = 0;
    const bool listed = json_is_array(value) && json_array_size(value) == 2;
    if (!listed && !json_is_object(value)) {
        return read_length(source, key, value, out);
    }
    CHECK(read_length(source, key,
                      listed ? json_array_get(value, 0) : json_object_get(value, "height"),
                      &height));
    CHECK(read_length(source, key,
                      listed ? json_array_get(value, 1) : json_object_get(value, "width"), &width));
    if (height != width) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"%s\" is %lld x %lld pixels; grail prepares square images", source,
                         key, (long long)width, (long long)height);
    }
    *out = height;
    return GRAIL_OK;
}

/* Which edges are resized: the shorter one where the word is `shorter`, which is the usual one, or
 * both where it is "squash". */
static grail_status read_edges(const char *source, const json_t *object, const char *key,
                               const char *shorter, image_edges *out)
{
    const char *word = NULL;
    CHECK(json_get_string(source, object, key, shorter, &word));
    if (strcmp(word, shorter) != 0 && strcmp(word, "squash") != 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "%s: \"%s\" is \"%s\"; grail has %s and squash",
                         source, key, word, shorter);
    }
    *out = strcmp(word, shorter) == 0 ? IMAGE_SHORTER_EDGE : IMAGE_BOTH_EDGES;
    return GRAIL_OK;
}

/* A number above 0. */
static grail_status read_positive(const char *source, const json_t *object, const char *key,
                                  double *out)
{
    double value = *out;
    CHECK(json_get_real(source, object, key, *out, &value));
    if (!isfinite(value) || value <= 0.0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %g, expected a number above 0", source,
                         key, value);
    }
    *out = value;
    return GRAIL_OK;
}

/* Three numbers that f32 holds as finite ones, or one for all colours, also as an array of one. */
static grail_status read_triple(const char *source, const json_t *object, const char *key,
                                bool above_0, double out[3])
{
    double values[3];
    const json_t *value = present(object, key);
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (value == NULL) {
        return GRAIL_OK;
    }
    for (size_t c = 0; c < 3; c++) {
        const json_t *one =
            json_is_array(value) ? json_array_get(value, count == 1 ? 0 : c) : value;
        if ((count != 1 && count != 3) || !json_is_number(one)) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an array of three numbers",
                             source, key);
        }
        values[c] = json_number_value(one);
        const float rounded = (float)values[c];
        if (!isfinite(rounded) || (above_0 && rounded <= 0.0F)) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" holds %g, expected %s", source, key,
                             values[c], above_0 ? "numbers above 0" : "finite numbers");
        }
    }
    copy_triple(values, out);
    return GRAIL_OK;
}

static grail_status read_filter(const char *source, const json_t *object, const char *key,
                                image_filter *out)
{
    const char *name = NULL;
    grail_status status = json_get_string(source, object, key, image_filter_name(*out), &name);
    if (status != GRAIL_OK) {
        return status;
    }
    for (int f = 0; f < IMAGE_FILTERS; f++) {
        if (strcmp(name, image_filter_name((image_filter)f)) == 0) {
            *out = (image_filter)f;
            return GRAIL_OK;
        }
    }
    status = error_set(GRAIL_ERROR_UNSUPPORTED, "%s: \"%s\" is \"%s\"; the known filters are",
                       source, key, name);
    for (int f = 0; f < IMAGE_FILTERS; f++) {
        error_append("%s %s", f == 0 ? "" : ",", image_filter_name((image_filter)f));
    }
    return status;
}

/* Refuses a preparation whose values do not fit together. */
static grail_status finish(const char *source, const image_preparation *made,
                           image_preparation *out)
{
    const char *fault = image_preparation_fault(made);
    if (fault != NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: %s", source, fault);
    }
    *out = *made;
    return GRAIL_OK;
}

/* -- Hugging Face's image processors ----------------------------------------------------------- */

enum { WARPS_FROM = 384 }; /* ConvNextImageProcessor does not crop from this size on */

/* A class of image processors: what it does where the document says nothing. */
typedef struct processor {
    const char *name; /* the class without "ImageProcessor" or "FeatureExtractor" */
    int64_t size, crop;
    bool square; /* a size of one number is that of both edges */
    bool crops;  /* by default */
    bool shares; /* has crop_pct instead of a crop size */
    image_filter filter;
    const double *mean, *deviation; /* NULL: 0.5 */
} processor;

static const processor processors[] = {
    {.name = "ViT", .size = 224, .crop = 224, .square = true, .filter = IMAGE_BILINEAR},
    {.name = "CLIP",
     .size = 224,
     .crop = 224,
     .crops = true,
     .filter = IMAGE_BICUBIC,
     .mean = clip_mean,
     .deviation = clip_deviation},
    {.name = "Bit",
     .size = 224,
     .crop = 224,
     .crops = true,
     .filter = IMAGE_BICUBIC,
     .mean = clip_mean,
     .deviation = clip_deviation},
    {.name = "DeiT",
     .size = 256,
     .crop = 224,
     .square = true,
     .crops = true,
     .filter = IMAGE_BICUBIC},
    {.name = "ConvNext", .size = 384, .crop = 384, .shares = true, .filter = IMAGE_BICUBIC},
};

enum { PROCESSOR_COUNT = sizeof processors / sizeof processors[0] };

/* Whether a class, such as "ViTImageProcessorFast", is of that name. */
static bool is_class(const char *class, const char *name)
{
    static const char *const endings[] = {"", "ImageProcessor", "ImageProcessorFast",
                                          "ImageProcessorPil", "FeatureExtractor"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (strncmp(class, name, length) == 0 && strcmp(class + length, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

static grail_status find_processor(const char *source, const json_t *document, const char *usual,
                                   const processor **out)
{
    grail_status status = GRAIL_OK;
    const char *class = NULL;
    TRY(json_get_string(source, document, "feature_extractor_type", usual, &class));
    TRY(json_get_string(source, document, "image_processor_type", class, &class));
    for (int i = 0; i < PROCESSOR_COUNT; i++) {
        if (is_class(class, processors[i].name)) {
            *out = &processors[i];
            return GRAIL_OK;
        }
    }
    status = error_set(GRAIL_ERROR_UNSUPPORTED,
                       "%s: \"image_processor_type\" is \"%s\"; the known image processors are",
                       source, class);
    for (int i = 0; i < PROCESSOR_COUNT; i++) {
        error_append("%s %s", i == 0 ? "" : ",", processors[i].name);
    }
out:
    return status;
}

/* {"shortest_edge": length}, or as read_square reads it. */
static grail_status read_size(const char *source, const json_t *document, const processor *p,
                              image_edges *edges, int64_t *length)
{
    const json_t *value = present(document, "size");
    const json_t *shortest = json_object_get(value, "shortest_edge");
    *length = p->size;
    *edges = p->square ? IMAGE_BOTH_EDGES : IMAGE_SHORTER_EDGE;
    if (value == NULL) {
        return GRAIL_OK;
    }
    if (shortest != NULL && json_object_size(value) == 1) {
        *edges = IMAGE_SHORTER_EDGE;
        return read_length(source, "size", shortest, length);
    }
    if (json_is_object(value) &&
        (json_object_size(value) != 2 || json_object_get(value, "height") == NULL ||
         json_object_get(value, "width") == NULL)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"size\" has neither \"shortest_edge\" alone nor \"height\" and "
                         "\"width\"",
                         source);
    }
    if (!json_is_integer(value)) {
        *edges = IMAGE_BOTH_EDGES;
    }
    return read_square(source, "size", value, length);
}

/* Pillow's numbers of its filters. */
static grail_status read_pillow_filter(const char *source, const json_t *document,
                                       image_filter *out)
{
    static const image_filter filters[] = {IMAGE_NEAREST, IMAGE_LANCZOS, IMAGE_BILINEAR,
                                           IMAGE_BICUBIC, IMAGE_BOX,     IMAGE_HAMMING};
    enum { FILTER_COUNT = sizeof filters / sizeof filters[0], NONE = -1 };
    int64_t number = NONE;
    const grail_status status = json_get_integer(source, document, "resample", NONE, &number);
    if (status != GRAIL_OK || number == NONE) {
        return status;
    }
    if (number < 0 || number >= FILTER_COUNT) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"resample\" is %lld; Pillow's filters are 0 (nearest), 1 (lanczos), "
                         "2 (bilinear), 3 (bicubic), 4 (box) and 5 (hamming)",
                         source, (long long)number);
    }
    *out = filters[number];
    return GRAIL_OK;
}

static grail_status read_scale(const char *source, const json_t *document, const processor *p,
                               image_preparation *out)
{
    static const double half[3] = {0.5, 0.5, 0.5};
    static const double zero[3] = {0, 0, 0};
    static const double one[3] = {1, 1, 1};
    bool rescales = true;
    bool normalizes = true;
    out->rescale = 1.0 / 255.0;
    CHECK(read_positive(source, document, "rescale_factor", &out->rescale));
    CHECK(json_get_boolean(source, document, "do_rescale", true, &rescales));
    CHECK(json_get_boolean(source, document, "do_normalize", true, &normalizes));
    out->rescale = rescales ? out->rescale : 1.0;
    copy_triple(p->mean == NULL ? half : p->mean, out->mean);
    copy_triple(p->deviation == NULL ? half : p->deviation, out->deviation);
    CHECK(read_triple(source, document, "image_mean", false, out->mean));
    CHECK(read_triple(source, document, "image_std", true, out->deviation));
    if (!normalizes) {
        copy_triple(zero, out->mean);
        copy_triple(one, out->deviation);
    }
    return GRAIL_OK;
}

/* A crop to crop_pct of the resized image, or no crop of larger ones. */
static grail_status read_share(const char *source, const json_t *document, int64_t size,
                               image_preparation *out)
{
    double share = 224.0 / 256.0;
    const grail_status status = read_positive(source, document, "crop_pct", &share);
    if (status == GRAIL_OK && share > 1.0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"crop_pct\" is %g; it must be above 0 and at most 1", source, share);
    }
    const bool warps = size >= WARPS_FROM;
    out->edges = warps ? IMAGE_BOTH_EDGES : IMAGE_SHORTER_EDGE;
    out->side = size;
    out->numerator = 1;
    out->denominator = warps ? 1 : share;
    return status;
}

/* A crop to a size of its own, or none. */
static grail_status read_crop(const char *source, const json_t *document, const processor *p,
                              int64_t size, image_preparation *out)
{
    const json_t *value = present(document, "crop_size");
    bool crops = false;
    int64_t side = p->crop;
    CHECK(json_get_boolean(source, document, "do_center_crop", p->crops, &crops));
    if (crops && value != NULL) {
        CHECK(read_square(source, "crop_size", value, &side));
    }
    if (!crops && out->edges == IMAGE_SHORTER_EDGE) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: \"size\" is that of the shorter edge and \"do_center_crop\" is not true, so "
            "images keep different shapes",
            source);
    }
    if (crops && out->edges != IMAGE_NOT_RESIZED && side > size) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: \"crop_size\" is %lld, more than the %lld of \"size\"; grail does not pad images",
            source, (long long)side, (long long)size);
    }
    out->side = crops ? side : size;
    out->numerator = (double)size;
    out->denominator = (double)out->side;
    return GRAIL_OK;
}

grail_status preparation_of_huggingface(const char *source, const json_t *document,
                                        const char *usual, image_preparation *out)
{
    /* Steps that would change the pixels, and that grail does not have. */
    static const char *const steps[] = {"do_pad", "do_flip_channel_order", "do_thumbnail",
                                        "do_align_long_axis"};
    const processor *p = NULL;
    image_preparation made = {.name = IMAGE_OF_CHECKPOINT, .crops_down = true};
    int64_t size = 0;
    bool resizes = true;
    CHECK(find_processor(source, document, usual, &p));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        bool on = false;
        CHECK(json_get_boolean(source, document, steps[i], false, &on));
        if (on) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: \"%s\" is true; grail does not have this step", source, steps[i]);
        }
    }
    CHECK(read_size(source, document, p, &made.edges, &size));
    CHECK(json_get_boolean(source, document, "do_resize", true, &resizes));
    made.edges = resizes ? made.edges : IMAGE_NOT_RESIZED;
    made.filter = p->filter;
    CHECK(read_pillow_filter(source, document, &made.filter));
    CHECK(p->shares && resizes ? read_share(source, document, size, &made)
                               : read_crop(source, document, p, size, &made));
    CHECK(read_scale(source, document, p, &made));
    return finish(source, &made, out);
}

/* -- timm and open_clip ------------------------------------------------------------------------ */

/* Where their descriptions are silent, the shorter edge is resized to 224 by bicubic interpolation,
 * and values are divided by 255. */
static image_preparation usual_preparation(const double mean[3], const double deviation[3])
{
    image_preparation usual = {.name = IMAGE_OF_CHECKPOINT,
                               .side = 224,
                               .filter = IMAGE_BICUBIC,
                               .numerator = 1,
                               .denominator = 1,
                               .rescale = 1.0 / 255.0};
    copy_triple(mean, usual.mean);
    copy_triple(deviation, usual.deviation);
    return usual;
}

static grail_status finish_usual(const char *source, const json_t *section, image_preparation *made,
                                 image_preparation *out)
{
    CHECK(read_triple(source, section, "mean", false, made->mean));
    CHECK(read_triple(source, section, "std", true, made->deviation));
    return finish(source, made, out);
}

/* [3, height, width] */
static grail_status read_input(const char *source, const json_t *section, int64_t *side)
{
    const json_t *value = present(section, "input_size");
    int64_t channels = 0;
    int64_t height = 0;
    int64_t width = 0;
    if (value == NULL) {
        return GRAIL_OK;
    }
    if (!json_is_array(value) || json_array_size(value) != 3) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"input_size\" is not [channels, height, width]",
                         source);
    }
    CHECK(read_length(source, "input_size", json_array_get(value, 0), &channels));
    CHECK(read_length(source, "input_size", json_array_get(value, 1), &height));
    CHECK(read_length(source, "input_size", json_array_get(value, 2), &width));
    if (channels != 3 || height != width) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: \"input_size\" is [%lld, %lld, %lld]; grail prepares square images of three "
            "colours",
            source, (long long)channels, (long long)height, (long long)width);
    }
    *side = height;
    return GRAIL_OK;
}

grail_status preparation_of_timm(const char *source, const json_t *document, bool *found,
                                 image_preparation *out)
{
    static const char *const keys[] = {"input_size", "interpolation", "crop_pct", "mean"};
    const json_t *section = NULL;
    double share = 0.0; /* for which timm takes its default */
    image_preparation made = usual_preparation(imagenet_mean, imagenet_deviation);
    *found = false;
    CHECK(read_object(source, document, "pretrained_cfg", &section));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (section == NULL && json_is_string(json_object_get(document, "architecture")) &&
            json_object_get(document, keys[i]) != NULL) {
            section = document;
        }
    }
    if (section == NULL) {
        return GRAIL_OK;
    }
    CHECK(read_input(source, section, &made.side));
    CHECK(json_get_real(source, section, "crop_pct", 0.0, &share));
    if (!(share >= 0.0 && share <= 1.0)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"crop_pct\" is %g; it must be above 0 and at most 1", source, share);
    }
    made.denominator = share > 0.0 ? share : 0.875;
    CHECK(read_edges(source, section, "crop_mode", "center", &made.edges));
    CHECK(read_filter(source, section, "interpolation", &made.filter));
    CHECK(finish_usual(source, section, &made, out));
    *found = true;
    return GRAIL_OK;
}

grail_status preparation_of_open_clip(const char *source, const json_t *document,
                                      image_preparation *out)
{
    const json_t *section = NULL;
    const json_t *model = NULL;
    const json_t *vision = NULL;
    image_preparation made = usual_preparation(clip_mean, clip_deviation);
    made.own_mode = true;
    CHECK(read_object(source, document, "preprocess_cfg", &section));
    CHECK(read_object(source, document, "model_cfg", &model));
    CHECK(read_object(source, model, "vision_cfg", &vision));
    const json_t *size = present(section, "size");
    const json_t *of_tower = present(vision, "image_size");
    if (size != NULL) {
        CHECK(read_square(source, "size", size, &made.side));
    } else if (of_tower != NULL) {
        CHECK(read_square(source, "image_size", of_tower, &made.side));
    }
    CHECK(read_edges(source, section, "resize_mode", "shortest", &made.edges));
    const char *filter = json_string_value(json_object_get(section, "interpolation"));
    if (filter == NULL || strcmp(filter, "random") != 0) { /* in training; then it is bicubic */
        CHECK(read_filter(source, section, "interpolation", &made.filter));
    }
    if (made.filter != IMAGE_BICUBIC && made.filter != IMAGE_BILINEAR) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"interpolation\" is \"%s\"; open_clip has bicubic and bilinear",
                         source, image_filter_name(made.filter));
    }
    return finish_usual(source, section, &made, out);
}
