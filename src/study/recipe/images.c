#include "study/recipe/images.h"

#include "study/fields.h"

#include <string.h>

enum { MOST_IMAGES = 1 << 30, MOST_SIDE = 1 << 13 };

const char *const sweep_images_keys[] = {"path", "preset", "split",  "labels", "size",
                                         "mean", "std",    "images", NULL};

static grail_status read_optional_text(const char *where, const json_t *object, const char *key,
                                       char **out)
{
    return json_object_get(object, key) == NULL ? GRAIL_OK : field_copy(where, object, key, out);
}

static grail_status read_triple(const char *where, const json_t *object, const char *key,
                                double **out)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    const json_t *list = json_object_get(object, key);
    if (list == NULL) {
        return GRAIL_OK;
    }
    TRY(memory_new(&values, 3, sizeof values[0]));
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(list, i);
        if (json_array_size(list) != 3 || !json_is_number(value)) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an array of three numbers", where, key);
        }
        values[i] = json_number_value(value);
    }
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}

static grail_status check_preset(const char *where, const char *preset)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; preset != NULL && grail_image_preset_at(i) != NULL; i++) {
        if (strcmp(grail_image_preset_at(i), preset) == 0) {
            return GRAIL_OK;
        }
    }
    if (preset != NULL) {
        status = error_set(GRAIL_ERROR_FORMAT, "%s: unknown preset \"%s\"; expected one of", where,
                           preset);
        field_append_known(preset, grail_image_preset_at);
    }
    return status;
}

static grail_status check_split(const char *where, const char *split)
{
    if (split != NULL && strcmp(split, "train") != 0 && strcmp(split, "test") != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"split\" is \"%s\", expected train or test",
                         where, split);
    }
    return GRAIL_OK;
}

grail_status sweep_images_read(const char *source, const json_t *document, const char *key,
                               const char *directory, sweep_images *out)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    json_t *object = json_object_get(document, key);
    TRY(memory_format(&where, "%s: %s", source, key));
    if (object == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", source, key);
    }
    TRY(json_check_keys(where, object, sweep_images_keys));
    TRY(field_path(where, object, "path", directory, &out->path));
    TRY(read_optional_text(where, object, "preset", &out->preset));
    TRY(check_preset(where, out->preset));
    TRY(read_optional_text(where, object, "split", &out->split));
    TRY(check_split(where, out->split));
    if (json_object_get(object, "labels") != NULL) {
        TRY(field_path(where, object, "labels", directory, &out->labels));
    }
    TRY(field_range(where, object, "size", 0, 0, MOST_SIDE, &out->source.size));
    TRY(read_triple(where, object, "mean", &out->mean));
    TRY(read_triple(where, object, "std", &out->deviation));
    TRY(field_range(where, object, "images", 0, 0, MOST_IMAGES, &out->images));
    out->source.path = out->path;
    out->source.preset = out->preset;
    out->source.split = out->split;
    out->source.labels = out->labels;
    out->source.mean = out->mean;
    out->source.deviation = out->deviation;
out:
    memory_free(where);
    return status;
}

void sweep_images_fini(sweep_images *images)
{
    memory_free(images->path);
    memory_free(images->preset);
    memory_free(images->split);
    memory_free(images->labels);
    memory_free(images->mean);
    memory_free(images->deviation);
}
