#include "arch/preparation_read.h"

#include <math.h>
#include <string.h>

const double imagenet_mean[3] = {0.485, 0.456, 0.406};
const double imagenet_deviation[3] = {0.229, 0.224, 0.225};
const double clip_mean[3] = {0.48145466, 0.4578275, 0.40821073};
const double clip_deviation[3] = {0.26862954, 0.26130258, 0.27577711};

void copy_triple(const double from[3], double to[3])
{
    memcpy(to, from, 3 * sizeof to[0]);
}

image_preparation preparation_usual(const double mean[3], const double deviation[3])
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

static const json_t *present(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

grail_status read_object(const char *source, const json_t *object, const char *key,
                         const json_t **out)
{
    const json_t *value = present(object, key);
    if (value != NULL && !json_is_object(value)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an object", source, key);
    }
    *out = value == NULL ? *out : value;
    return GRAIL_OK;
}

grail_status read_length(const char *source, const char *key, const json_t *value, int64_t *out)
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

grail_status read_square(const char *source, const char *key, const json_t *value, int64_t *out)
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

grail_status read_edges(const char *source, const json_t *object, const char *key,
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

grail_status read_positive(const char *source, const json_t *object, const char *key, double *out)
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

/* Values that f32 holds as finite numbers. */
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

grail_status read_mean(const char *source, const json_t *object, const char *key, double out[3])
{
    return read_triple(source, object, key, false, out);
}

grail_status read_deviation(const char *source, const json_t *object, const char *key,
                            double out[3])
{
    return read_triple(source, object, key, true, out);
}

grail_status read_filter_name(const char *source, const json_t *object, const char *key,
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

grail_status preparation_check(const char *source, const image_preparation *p)
{
    const char *fault = image_preparation_fault(p);
    return fault == NULL ? GRAIL_OK : error_set(GRAIL_ERROR_FORMAT, "%s: %s", source, fault);
}
