#include "study/recipe/images.h"

#include "base/options.h"
#include "study/fields.h"

enum { MOST_IMAGES = 1 << 30 };

const char *const sweep_images_keys[] = {"path", "preset", "split",  "labels", "size",
                                         "mean", "std",    "images", NULL};

static const grail_option choices[] = {
    {OPTION_FIELD(sweep_images, images), .type = GRAIL_OPTION_INTEGER, .below = MOST_IMAGES + 1.0,
     .key = "images"},
    {0},
};

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
    for (int i = 0; grail_image_option_at(i) != NULL; i++) {
        const grail_option field[] = {*grail_image_option_at(i), {0}};
        TRY(options_from_json(where, object, field, &out->source));
    }
    TRY(options_from_json(where, object, choices, out));
    if (json_object_get(object, "labels") != NULL) {
        TRY(field_path(where, object, "labels", directory, &out->labels));
    }
    out->source.path = out->path;
    out->source.labels = out->labels;
out:
    memory_free(where);
    return status;
}

void sweep_images_fini(sweep_images *images)
{
    memory_free(images->path);
    memory_free(images->labels);
}
