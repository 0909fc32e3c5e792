/* Hugging Face's image processors. Source: transformers 4.57 and 5.23, image_processing_*.py. */
#include "arch/preparation_read.h"

#include <string.h>

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

/* Steps that would change the pixels, and that grail does not have. */
static grail_status refuse_steps(const char *source, const json_t *document)
{
    static const char *const steps[] = {"do_pad", "do_flip_channel_order", "do_thumbnail",
                                        "do_align_long_axis"};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        bool on = false;
        CHECK(json_get_boolean(source, document, steps[i], false, &on));
        if (on) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: \"%s\" is true; grail does not have this step", source, steps[i]);
        }
    }
    return GRAIL_OK;
}

/* {"shortest_edge": length}, or as read_square reads it. */
static grail_status read_size(const char *source, const json_t *document, const processor *p,
                              image_edges *edges, int64_t *length)
{
    const json_t *value = json_object_get(document, "size");
    const json_t *shortest = json_object_get(value, "shortest_edge");
    *length = p->size;
    *edges = p->square ? IMAGE_BOTH_EDGES : IMAGE_SHORTER_EDGE;
    if (value == NULL || json_is_null(value)) {
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
static grail_status read_filter(const char *source, const json_t *document, image_filter *out)
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
    CHECK(read_mean(source, document, "image_mean", out->mean));
    CHECK(read_deviation(source, document, "image_std", out->deviation));
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
    const json_t *value = json_object_get(document, "crop_size");
    bool crops = false;
    int64_t side = p->crop;
    CHECK(json_get_boolean(source, document, "do_center_crop", p->crops, &crops));
    if (crops && value != NULL && !json_is_null(value)) {
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
    const processor *p = NULL;
    image_preparation made = {.name = IMAGE_OF_CHECKPOINT, .crops_down = true};
    int64_t size = 0;
    bool resizes = true;
    CHECK(find_processor(source, document, usual, &p));
    CHECK(refuse_steps(source, document));
    CHECK(read_size(source, document, p, &made.edges, &size));
    CHECK(json_get_boolean(source, document, "do_resize", true, &resizes));
    made.edges = resizes ? made.edges : IMAGE_NOT_RESIZED;
    made.filter = p->filter;
    CHECK(read_filter(source, document, &made.filter));
    if (p->shares && resizes) {
        CHECK(read_share(source, document, size, &made));
    } else {
        CHECK(read_crop(source, document, p, size, &made));
    }
    CHECK(read_scale(source, document, p, &made));
    CHECK(preparation_check(source, &made));
    *out = made;
    return GRAIL_OK;
}
