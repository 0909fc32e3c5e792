#include "format/images/pixels.h"

#include "base/memory.h"
#include "base/option_values.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MOST_CHANNELS = 1 << 20 };

int64_t pixels_channels(const grail_pixels *p)
{
    return p->channels == 0 ? IMAGE_FILE_CHANNELS : p->channels;
}

static size_t values_of(const grail_pixels *p)
{
    return (size_t)p->side * (size_t)p->side * (size_t)pixels_channels(p);
}

static const float *image_at(const grail_pixels *p, int64_t i)
{
    return p->values + (size_t)i * values_of(p);
}

static grail_status check(const grail_pixels *p, int64_t side, int64_t *classes)
{
    size_t all = sizeof(float);
    const bool fits = p->count > 0 && p->side > 0 && p->side <= IMAGE_LARGEST_SIDE &&
                      p->channels >= 0 && p->channels <= MOST_CHANNELS &&
                      size_multiply(all, values_of(p), &all) &&
                      size_multiply(all, (size_t)p->count, &all);
    if (p->values == NULL || !fits) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "%lld images in memory with a side of %lld pixels%s; expected at least "
                         "one, with a side of 1 to %d",
                         (long long)p->count, (long long)p->side,
                         p->values == NULL ? ", and no values" : "", IMAGE_LARGEST_SIDE);
    }
    if (side > 0 && p->side != side) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "the images in memory are %lld x %lld, but the network reads %lld x %lld",
                         (long long)p->side, (long long)p->side, (long long)side, (long long)side);
    }
    for (int64_t i = 0; i < p->count; i++) {
        const float *values = image_at(p, i);
        for (size_t v = 0; v < values_of(p); v++) {
            if (!isfinite(values[v])) {
                return error_set(GRAIL_ERROR_NUMERIC,
                                 "image %lld in memory holds %s at element %lld", (long long)i,
                                 isnan(values[v]) ? "NaN" : "infinity", (long long)v);
            }
        }
    }
    *classes = 0;
    for (int64_t i = 0; p->labels != NULL && i < p->count; i++) {
        const int64_t label = p->labels[i];
        if (label < 0 || label > INT32_MAX - 1) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "image %lld in memory has label %lld; expected the index of a class, "
                             "from 0",
                             (long long)i, (long long)label);
        }
        *classes = label >= *classes ? label + 1 : *classes;
    }
    return GRAIL_OK;
}

/* Pixels and arrays are what the network reads; nothing prepares them. */
grail_status unprepared_check(const grail_image_source *s)
{
    const struct {
        bool given;
        const char *field;
    } others[] = {
        {s->path != NULL && s->pixels != NULL, "path"},
        {s->preset != NULL, "preset"},
        {s->split != NULL, "split"},
        {s->labels != NULL, "labels"},
        {s->mean.given != 0, "mean"},
        {s->deviation.given != 0, "deviation"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].given) {
            return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                         "%s are the network's input as they are; leave out the %s",
                                         s->pixels != NULL ? "pixels in memory" : "arrays",
                                         others[i].field),
                               others[i].field);
        }
    }
    return GRAIL_OK;
}

grail_status pixels_check(const grail_image_source *s, int64_t side, int64_t *classes)
{
    CHECK(unprepared_check(s));
    CHECK(OPTION_ROOM_OF(grail_pixels, s->pixels));
    const grail_status status = check(s->pixels, side, classes);
    return status == GRAIL_OK ? GRAIL_OK : error_about(status, "pixels");
}

void pixels_hash(const grail_pixels *p, char hash[HASH_TEXT_SIZE])
{
    hash_state state;
    hash_begin(&state);
    hash_add(&state, p->values, (size_t)p->count * values_of(p) * sizeof(float));
    if (p->labels != NULL) {
        hash_add(&state, p->labels, (size_t)p->count * sizeof p->labels[0]);
    }
    hash_end(&state, hash);
}

void pixels_copy(const grail_pixels *p, int64_t i, float *out)
{
    const float *values = image_at(p, i);
    const size_t channels = (size_t)pixels_channels(p);
    const size_t plane = (size_t)p->side * (size_t)p->side;
    if (p->channels_first == 0) {
        memcpy(out, values, values_of(p) * sizeof out[0]);
        return;
    }
    for (size_t at = 0; at < plane; at++) {
        for (size_t c = 0; c < channels; c++) {
            out[at * channels + c] = values[c * plane + at];
        }
    }
}

uint64_t pixels_digest(const grail_pixels *p, int64_t i)
{
    return hash_short(image_at(p, i), values_of(p) * sizeof(float));
}
