/* timm's evaluation transform. Source: timm 1.0.31, data/config.py (resolve_data_config) and
 * data/transforms_factory.py (transforms_imagenet_eval). */
#include "arch/preparation_read.h"

#include <string.h>

/* "pretrained_cfg", or the document itself where it has one of the keys. */
static grail_status find_section(const char *source, const json_t *document, const json_t **out)
{
    static const char *const keys[] = {"input_size", "interpolation", "crop_pct", "mean"};
    const grail_status status = read_object(source, document, "pretrained_cfg", out);
    for (size_t i = 0; status == GRAIL_OK && i < sizeof keys / sizeof keys[0]; i++) {
        if (*out == NULL && json_is_string(json_object_get(document, "architecture")) &&
            json_object_get(document, keys[i]) != NULL) {
            *out = document;
        }
    }
    return status;
}

/* [3, height, width] */
static grail_status read_input(const char *source, const json_t *section, int64_t *side)
{
    const json_t *value = json_object_get(section, "input_size");
    int64_t channels = 0;
    int64_t height = 0;
    int64_t width = 0;
    if (value == NULL || json_is_null(value)) {
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

/* timm takes its default for 0. */
static grail_status read_share(const char *source, const json_t *section, double *share)
{
    double given = 0.0;
    const grail_status status = json_get_real(source, section, "crop_pct", 0.0, &given);
    if (status == GRAIL_OK && !(given >= 0.0 && given <= 1.0)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"crop_pct\" is %g; it must be above 0 and at most 1", source, given);
    }
    *share = given > 0.0 ? given : *share;
    return status;
}

grail_status preparation_of_timm(const char *source, const json_t *document, bool *found,
                                 image_preparation *out)
{
    const json_t *section = NULL;
    image_preparation made = preparation_usual(imagenet_mean, imagenet_deviation);
    made.denominator = 0.875;
    *found = false;
    CHECK(find_section(source, document, &section));
    if (section == NULL) {
        return GRAIL_OK;
    }
    CHECK(read_input(source, section, &made.side));
    CHECK(read_share(source, section, &made.denominator));
    CHECK(read_edges(source, section, "crop_mode", "center", &made.edges));
    CHECK(read_filter_name(source, section, "interpolation", &made.filter));
    CHECK(read_mean(source, section, "mean", made.mean));
    CHECK(read_deviation(source, section, "std", made.deviation));
    CHECK(preparation_check(source, &made));
    *found = true;
    *out = made;
    return GRAIL_OK;
}
