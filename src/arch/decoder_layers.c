#include "arch/decoder_layers.h"

#include "arch/decoder_experts.h"
#include "arch/decoder_latent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char all_layers[] = "per_layer_config";

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

static grail_status check_entry(const char *source, const json_t *json, int64_t layers,
                                const char *key, const json_t *own)
{
    const int64_t layer = number_of(key);
    if (layer < 0 || layer >= layers) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"%s\" has the key \"%s\", expected the number of a layer, 0 to %lld",
                         source, all_layers, key, (long long)layers - 1);
    }
    if (!json_is_object(own)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"%s\": the value of layer %lld is not an object of its keys", source,
                         all_layers, (long long)layer);
    }
    if (decoder_layer_entry(json, layer) != own) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" has layer %lld twice", source, all_layers,
                         (long long)layer);
    }
    return GRAIL_OK;
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
        CHECK(check_entry(source, json, layers, key, own));
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

/* -- writing ----------------------------------------------------------------------------------- */

grail_status decoder_heads_put(const decoder_widths *w, const decoder_keys *keys, json_t *object)
{
    CHECK(json_put(object, keys->heads, json_integer(w->heads)));
    if (keys->kv_heads != NULL) {
        CHECK(json_put(object, keys->kv_heads, json_integer(w->kv_heads)));
    }
    return GRAIL_OK;
}

static grail_status put_skip(json_t *entry, const char *word)
{
    json_t *list = json_array();
    CHECK(json_put(entry, "skip", list));
    return json_push(list, json_text(word));
}

grail_status decoder_experts_put(const decoder_widths *w, const char *count,
                                 const decoder_family *family, json_t *object)
{
    const decoder_mixture *m = family->mixture;
    CHECK(json_put(object, count, json_integer(w->experts)));
    CHECK(json_put(object, m->width, json_integer(w->expert)));
    if (m->shared_count != NULL) {
        return json_put(object, m->shared_count, json_integer(w->shared / w->expert));
    }
    return m->shared_width == NULL ? GRAIL_OK
                                   : json_put(object, m->shared_width, json_integer(w->shared));
}

/* One width for each expert. */
static grail_status put_expert_widths(json_t *entry, const char *key, const graph *g, int layer,
                                      int64_t experts)
{
    json_t *list = json_array();
    CHECK(json_put(entry, key, list));
    for (int64_t e = 0; e < experts; e++) {
        CHECK(json_push(list, json_integer(decoder_expert_width(g, layer, e))));
    }
    return GRAIL_OK;
}

/* A layer that lacks both is left out, so it lacks one thing at most. */
static grail_status put_layer(json_t *entry, const char *count, const decoder_family *family,
                              const graph *g, int layer)
{
    const decoder_widths w = decoder_widths_of(g, layer);
    if (w.intermediate > 0) {
        CHECK(json_put(entry, decoder_keys_of(family)->intermediate, json_integer(w.intermediate)));
    }
    if (w.experts > 0) {
        CHECK(decoder_experts_put(&w, count, family, entry));
    }
    if (w.experts_differ) {
        CHECK(put_expert_widths(entry, family->mixture->width, g, layer, w.experts));
    }
    if (w.heads > 0) {
        CHECK(decoder_heads_put(&w, decoder_keys_of(family), entry));
    }
    if (w.rank > 0) {
        CHECK(decoder_latent_put(&w, entry));
    }
    return w.heads == 0                  ? put_skip(entry, "attention")
           : decoder_widths_lack_ffn(&w) ? put_skip(entry, "mlp")
                                         : GRAIL_OK;
}

grail_status decoder_layers_put(const graph *narrowed, const decoder_family *family,
                                const decoder_widths *common, json_t *config)
{
    char key[24];
    int number = 0;
    json_t *layers = json_object();
    CHECK(json_put(config, all_layers, layers));
    for (int layer = 0; layer < narrowed->block_count; layer++) {
        const decoder_widths own = decoder_widths_of(narrowed, layer);
        const bool lacks = own.heads == 0 || decoder_widths_lack_ffn(&own);
        number += decoder_widths_are_none(&own) ? 0 : 1;
        if (decoder_widths_are_none(&own) || (decoder_widths_are_common(&own, common) && !lacks)) {
            continue;
        }
        json_t *entry = json_object();
        snprintf(key, sizeof key, "%d", number - 1);
        CHECK(json_put(layers, key, entry));
        CHECK(put_layer(entry, decoder_experts_key(config), family, narrowed, layer));
    }
    return GRAIL_OK;
}
