#include "study/recipe/images.h"

#include "base/options.h"
#include "study/fields.h"

#include <string.h>

enum { MOST_IMAGES = 1 << 30, MOST_SIDE = 1 << 13 };

const char *const sweep_images_keys[] = {"path", "preset", "split",  "labels", "size",
                                         "mean", "std",    "images", NULL};

/* clang-format off */
#define FIELD(member, name) OPTION_FIELD(sweep_images, member), .key = (name)
static const grail_option choices[] = {
    {FIELD(source.preset, "preset"), .type = GRAIL_OPTION_TEXT},
    {FIELD(source.split, "split"), .type = GRAIL_OPTION_WORD,
     .words = OPTION_WORDS("train", "test")},
    {FIELD(source.size, "size"), .type = GRAIL_OPTION_INTEGER, .below = MOST_SIDE + 1.0},
    {FIELD(images, "images"), .type = GRAIL_OPTION_INTEGER, .below = MOST_IMAGES + 1.0},
    {0},
};
/* clang-format on */

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
    TRY(options_from_json(where, object, choices, out));
    TRY(check_preset(where, out->source.preset));
    if (json_object_get(object, "labels") != NULL) {
        TRY(field_path(where, object, "labels", directory, &out->labels));
    }
    TRY(read_triple(where, object, "mean", &out->mean));
    TRY(read_triple(where, object, "std", &out->deviation));
    out->source.path = out->path;
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
    memory_free(images->labels);
    memory_free(images->mean);
    memory_free(images->deviation);
}
