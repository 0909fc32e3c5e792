#include "arch/decoder_types.h"

#include <string.h>

/* The last of every `pattern` layers is of another kind. */
static bool is_exception(int64_t index, int64_t pattern)
{
    return pattern > 0 && (index + 1) % pattern == 0;
}

static int64_t positive_or(const json_t *json, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(json, key);
    return json_is_integer(value) && json_integer_value(value) > 0
               ? (int64_t)json_integer_value(value)
               : fallback;
}

bool decoder_layer_slides(const decoder_family *family, const json_t *json, int64_t index)
{
    const json_t *types = json_object_get(json, "layer_types");
    const char *type = json_string_value(json_array_get(types, (size_t)index));
    const bool reads_types = family->window_is_optional || family->window_pattern > 0;
    if (reads_types && type != NULL) {
        return strcmp(type, "sliding_attention") == 0;
    }
    if (family->unturned_layers > 0) {
        return !decoder_layer_turns(family, json, index, false);
    }
    if (family->window_is_optional) {
        const json_t *first = json_object_get(json, "max_window_layers");
        return index >= (json_is_integer(first) ? json_integer_value(first) : DECODER_FIRST_WINDOW);
    }
    if (family->begin_pattern != NULL) {
        return index % positive_or(json, family->begin_pattern, family->window_pattern) != 0;
    }
    const int64_t pattern = positive_or(json, "_sliding_window_pattern", family->window_pattern);
    return !is_exception(index, family->window_pattern == 0
                                    ? 0
                                    : positive_or(json, "sliding_window_pattern", pattern));
}

bool decoder_layer_turns(const decoder_family *family, const json_t *json, int64_t index,
                         bool slides)
{
    const bool windowless =
        family->turns_windowless && json_is_null(json_object_get(json, "sliding_window"));
    if (family->turns_windows_alone && !slides && !windowless) {
        return false;
    }
    if (family->unturned_layers == 0) {
        return true;
    }
    const json_t *stated = json_array_get(json_object_get(json, "no_rope_layers"), (size_t)index);
    return json_is_integer(stated)
               ? json_integer_value(stated) != 0
               : !is_exception(
                     index, positive_or(json, "no_rope_layer_interval", family->unturned_layers));
}

/* A list that states something of every layer. */
static grail_status check_list(const char *source, const json_t *json, const char *key,
                               int64_t layers)
{
    const json_t *list = json_object_get(json, key);
    if (list == NULL || json_is_null(list) || (int64_t)json_array_size(list) == layers) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" has %lld members, but there are %lld layers",
                     source, key, (long long)json_array_size(list), (long long)layers);
}

grail_status decoder_types_check(const char *source, const json_t *json, const decoder_config *c)
{
    const json_t *types = json_object_get(json, "layer_types");
    CHECK(check_list(source, json, "layer_types", c->layers));
    if (c->family->unturned_layers > 0) {
        CHECK(check_list(source, json, "no_rope_layers", c->layers));
    }
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type == NULL ||
            (strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0)) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: layer %zu has the type \"%s\" in \"layer_types\", expected "
                             "full_attention or sliding_attention",
                             source, i, type == NULL ? "(no string)" : type);
        }
    }
    return GRAIL_OK;
}

/* The attention window of layer `index`, in positions; 0 = no window. Qwen-like families use a
 * sliding window only if the configuration says so. */
static grail_status read_window(const char *source, const json_t *json,
                                const decoder_family *family, int64_t index, int64_t *out)
{
    int64_t window = 0;
    bool used = true;
    const char *key = family->window_key == NULL ? "sliding_window" : family->window_key;
    *out = 0;
    if (family->default_window == 0 && !family->reads_window) {
        return GRAIL_OK;
    }
    /* null means no window; a missing key means the family's default */
    const bool stated = !json_is_null(json_object_get(json, key));
    if (stated) {
        CHECK(json_get_integer(source, json, key, family->default_window, &window));
    }
    if (family->window_is_optional) {
        int64_t first = 0;
        CHECK(json_get_boolean(source, json, "use_sliding_window", false, &used));
        CHECK(json_get_integer(source, json, "max_window_layers", DECODER_FIRST_WINDOW, &first));
    }
    if (window < 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %lld; it must be null, or 0 or more",
                         source, key, (long long)window);
    }
    if (family->encoder && stated) { /* half of it on each side, and the row itself */
        window = window / 2 + 1;
    }
    *out = used && decoder_layer_slides(family, json, index) ? window : 0;
    return GRAIL_OK;
}

grail_status decoder_type_read(const char *source, const json_t *json, int64_t index,
                               decoder_config *c)
{
    decoder_layer *layer = &c->layer[index];
    const decoder_family *family = c->family;
    CHECK(read_window(source, json, family, index, &layer->window));
    const bool turns =
        !family->learned_positions && decoder_layer_turns(family, json, index, layer->window > 0);
    const bool slides = family->window_theta != NULL && decoder_layer_slides(family, json, index);
    layer->rotary = !turns ? ROTARY_NONE : slides ? ROTARY_OF_WINDOWS : ROTARY_USUAL;
    return GRAIL_OK;
}

/* config[key] = list, which is released also after a failure. */
static grail_status put_list(json_t *config, const char *key, json_t *list, grail_status status)
{
    if (status == GRAIL_OK) {
        return json_put(config, key, list);
    }
    json_decref(list);
    return status;
}

static grail_status state_windows(const decoder_family *family, json_t *config, int layers)
{
    grail_status status = GRAIL_OK;
    json_t *list = json_array();
    for (int i = 0; status == GRAIL_OK && i < layers; i++) {
        const bool slides = decoder_layer_slides(family, config, i);
        status = json_push(list, json_text(slides ? "sliding_attention" : "full_attention"));
    }
    return put_list(config, "layer_types", list, status);
}

static grail_status state_turns(const decoder_family *family, json_t *config, int layers)
{
    grail_status status = GRAIL_OK;
    json_t *list = json_array();
    for (int i = 0; status == GRAIL_OK && i < layers; i++) {
        status = json_push(list, json_integer(decoder_layer_turns(family, config, i, false)));
    }
    return put_list(config, "no_rope_layers", list, status);
}

grail_status decoder_types_state(const decoder_family *family, json_t *config, int layers)
{
    if (family->window_pattern > 0 && !json_is_array(json_object_get(config, "layer_types"))) {
        CHECK(state_windows(family, config, layers));
    }
    if (family->unturned_layers > 0 && !json_is_array(json_object_get(config, "no_rope_layers"))) {
        CHECK(state_turns(family, config, layers));
    }
    return GRAIL_OK;
}
