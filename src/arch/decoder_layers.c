#include "arch/decoder_layers.h"

#include <stdlib.h>
#include <string.h>

static const char all_layers[] = DECODER_LAYERS_KEY;

/* -- reading ----------------------------------------------------------------------------------- */

/* The number that a key stands for, with or without zeros before it; GRAPH_NONE for others. */
static int64_t number_of(const char *key)
{
    enum { MOST_DIGITS = 9 };
    const size_t digits = strspn(key, "0123456789");
    return digits > 0 && digits <= MOST_DIGITS && key[digits] == 0 ? strtol(key, NULL, 10)
                                                                   : GRAPH_NONE;
}

/* transformers writes as many digits for each layer as for the last of them. */
const json_t *decoder_layer_entry(const json_t *json, int64_t index)
{
    const char *key = NULL;
    json_t *own = NULL;
    json_object_foreach (json_object_get(json, all_layers), key, own) {
        if (number_of(key) == index) {
            return own;
        }
    }
    return NULL;
}

grail_status decoder_layers_check(const char *source, const json_t *json, int64_t layers)
{
    const char *key = NULL;
    json_t *own = NULL;
    json_t *list = json_object_get(json, all_layers);
    if (list != NULL && !json_is_null(list) && !json_is_object(list)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an object", source, all_layers);
    }
    json_object_foreach (list, key, own) {
        const int64_t layer = number_of(key);
        if (layer < 0 || layer >= layers) {
            return error_set(
                GRAIL_ERROR_FORMAT,
                "%s: \"%s\" has the key \"%s\", expected the number of a layer, 0 to %lld", source,
                all_layers, key, (long long)layers - 1);
        }
        if (!json_is_object(own)) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: \"%s\": the value of layer %lld is not an object of its keys",
                             source, all_layers, (long long)layer);
        }
        if (decoder_layer_entry(json, layer) != own) {
            return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" has layer %lld twice", source,
                             all_layers, (long long)layer);
        }
    }
    return GRAIL_OK;
}

grail_status decoder_layer_skip(const char *source, const json_t *own, decoder_layer *layer)
{
    size_t i = 0;
    const json_t *one = NULL;
    const json_t *list = json_object_get(own, "skip");
    if (list != NULL && !json_is_array(list)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"skip\" of a layer is not an array", source);
    }
    json_array_foreach (list, i, one) {
        const char *word = json_is_string(one) ? json_string_value(one) : "";
        if (strcmp(word, "attention") == 0) {
            layer->heads = 0;
            layer->kv_heads = 0;
        } else if (strcmp(word, "mlp") == 0) {
            layer->intermediate = 0;
            layer->experts = 0;
        } else {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: \"skip\" of a layer names \"%s\", expected attention or mlp",
                             source, word);
        }
    }
    return GRAIL_OK;
}

/* -- windows of attention, and rotary positions ------------------------------------------------ */

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

/* Whether layer `index` has rotary positions; `slides` tells whether it has a window. */
static bool layer_turns(const decoder_family *family, const json_t *json, int64_t index,
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

/* Whether layer `index` has the window of the configuration, if there is one. */
static bool layer_slides(const decoder_family *family, const json_t *json, int64_t index)
{
    const json_t *types = json_object_get(json, "layer_types");
    const char *type = json_string_value(json_array_get(types, (size_t)index));
    const bool reads_types = family->window_is_optional || family->window_pattern > 0;
    if (reads_types && type != NULL) {
        return strcmp(type, "sliding_attention") == 0;
    }
    if (family->unturned_layers > 0) {
        return !layer_turns(family, json, index, false);
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

/* Qwen-like families use a sliding window only if the configuration says so; null means no window,
 * a missing key the family's default. */
grail_status decoder_type_read(const char *source, const json_t *json, int64_t index,
                               decoder_config *c)
{
    decoder_layer *layer = &c->layer[index];
    const decoder_family *family = c->family;
    const char *key = family->window_key == NULL ? "sliding_window" : family->window_key;
    const bool has_window = family->default_window > 0 || family->reads_window;
    const bool stated = has_window && !json_is_null(json_object_get(json, key));
    int64_t window = 0;
    int64_t first = 0;
    bool used = true;
    if (stated) {
        CHECK(json_get_integer(source, json, key, family->default_window, &window));
    }
    if (has_window && family->window_is_optional) {
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
    layer->window = used && has_window && layer_slides(family, json, index) ? window : 0;
    const bool turns =
        !family->learned_positions && layer_turns(family, json, index, layer->window > 0);
    const bool slides = family->window_theta != NULL && layer_slides(family, json, index);
    layer->rotary = !turns ? ROTARY_NONE : slides ? ROTARY_OF_WINDOWS : ROTARY_USUAL;
    return GRAIL_OK;
}

/* The list of what a pattern says of each layer, where there is none. */
static grail_status state(const decoder_family *family, json_t *config, const char *key, int layers)
{
    grail_status status = GRAIL_OK;
    const bool windows = strcmp(key, "layer_types") == 0;
    json_t *list = json_array();
    for (int i = 0; i < layers; i++) {
        TRY(json_push(list, !windows
                                ? json_integer(layer_turns(family, config, i, false))
                                : json_text(layer_slides(family, config, i) ? "sliding_attention"
                                                                            : "full_attention")));
    }
    TRY(json_put(config, key, json_incref(list)));
out:
    json_decref(list);
    return status;
}

grail_status decoder_types_state(const decoder_family *family, json_t *config, int layers)
{
    if (family->window_pattern > 0 && !json_is_array(json_object_get(config, "layer_types"))) {
        CHECK(state(family, config, "layer_types", layers));
    }
    return family->unturned_layers > 0 && !json_is_array(json_object_get(config, "no_rope_layers"))
               ? state(family, config, "no_rope_layers", layers)
               : GRAIL_OK;
}
