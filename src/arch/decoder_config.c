/* Reading a decoder's config.json. Limits keep products of sizes far from overflow. */
#include "arch/activation_names.h"
#include "arch/decoder.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_LAYERS = 1024,
    MOST_WIDTH = 1 << 24,
};

const decoder_keys decoder_usual_keys = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .head_dim = "head_dim",
    .intermediate = "intermediate_size",
    .context = "max_position_embeddings",
    .epsilon = "rms_norm_eps",
    .activation = "hidden_act",
};

static grail_status require_size(const char *source, const json_t *json, const char *key,
                                 int64_t maximum, int64_t *out)
{
    const grail_status status = json_require_integer(source, json, key, out);
    if (status == GRAIL_OK && (*out < 1 || *out > maximum)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %lld, expected 1 to %lld", source, key,
                         (long long)*out, (long long)maximum);
    }
    return status;
}

static grail_status get_size_from(const char *source, const json_t *json, const char *key,
                                  int64_t fallback, int64_t least, int64_t *out)
{
    grail_status status = json_get_integer(source, json, key, fallback, out);
    if (status == GRAIL_OK && (*out < least || *out > MOST_WIDTH)) {
        status = error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %lld, expected %lld to %d", source,
                           key, (long long)*out, (long long)least, MOST_WIDTH);
    }
    return status;
}

static grail_status get_size(const char *source, const json_t *json, const char *key,
                             int64_t fallback, int64_t *out)
{
    return get_size_from(source, json, key, fallback, 1, out);
}

static grail_status read_biases(const char *source, const json_t *json, decoder_config *c)
{
    bool attention = false;
    bool mlp = false;
    CHECK(json_get_boolean(source, json, "attention_bias", false, &attention));
    CHECK(json_get_boolean(source, json, "mlp_bias", false, &mlp));
    attention = attention && c->family->reads_attention_bias;
    c->qkv_bias = attention || c->family->always_qkv_bias || c->family->always_biases;
    c->output_bias = attention || c->family->always_biases;
    c->mlp_bias = (mlp && c->family->reads_mlp_bias) || c->family->always_biases;
    return GRAIL_OK;
}

/* The attention window of layer `index`, in positions; 0 = no window. Qwen-like families use a
 * sliding window only if the configuration says so. */
static grail_status read_window(const char *source, const json_t *json,
                                const decoder_family *family, int64_t index, int64_t *out)
{
    int64_t window = 0;
    bool used = true;
    *out = 0;
    if (family->default_window == 0) {
        return GRAIL_OK;
    }
    /* null means no window; a missing key means the family's default */
    if (!json_is_null(json_object_get(json, "sliding_window")) ||
        json_object_get(json, "sliding_window") == NULL) {
        CHECK(json_get_integer(source, json, "sliding_window", family->default_window, &window));
    }
    if (family->window_is_optional) {
        CHECK(json_get_boolean(source, json, "use_sliding_window", false, &used));
        int64_t first = 0;
        CHECK(json_get_integer(source, json, "max_window_layers", DECODER_FIRST_WINDOW, &first));
        const json_t *types = json_object_get(json, "layer_types");
        const char *type = json_string_value(json_array_get(types, (size_t)index));
        used = used && (type == NULL ? index >= first : strcmp(type, "sliding_attention") == 0);
    }
    if (window < 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"sliding_window\" is %lld; it must be null, or 0 or more", source,
                         (long long)window);
    }
    *out = used ? window : 0;
    return GRAIL_OK;
}

/* A layer may lack its attention or its FFN, which then have the width 0. */
static grail_status check_layer(const char *source, int64_t index, const decoder_layer *layer)
{
    if ((layer->heads == 0) != (layer->kv_heads == 0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: layer %lld: %lld attention heads and %lld key/value heads; a layer "
                         "without attention has 0 of both",
                         source, (long long)index, (long long)layer->heads,
                         (long long)layer->kv_heads);
    }
    if (layer->heads == 0 && layer->intermediate == 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: layer %lld has neither attention nor an FFN; leave it out", source,
                         (long long)index);
    }
    if (layer->heads > 0 && layer->heads % layer->kv_heads != 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: layer %lld: %lld attention heads are not divisible by %lld key/value "
                         "heads",
                         source, (long long)index, (long long)layer->heads,
                         (long long)layer->kv_heads);
    }
    return GRAIL_OK;
}

/* "per_layer_config": {"3": {"intermediate_size": 64}} overrides single layers. grail writes it
 * when widths differ between layers; transformers 5.14 stores it, too. */
static grail_status read_layer(const char *source, const json_t *json, const decoder_layer *common,
                               int64_t index, decoder_config *c)
{
    char key[24];
    const decoder_keys *keys = c->family->keys;
    decoder_layer *layer = &c->layer[index];
    snprintf(key, sizeof key, "%lld", (long long)index);
    const json_t *own = json_object_get(json_object_get(json, "per_layer_config"), key);
    CHECK(get_size_from(source, own, keys->intermediate, common->intermediate, 0,
                        &layer->intermediate));
    CHECK(get_size_from(source, own, keys->heads, common->heads, 0, &layer->heads));
    layer->kv_heads = layer->heads;
    if (keys->kv_heads != NULL) {
        CHECK(get_size_from(source, own, keys->kv_heads, common->kv_heads, 0, &layer->kv_heads));
    }
    CHECK(read_window(source, json, c->family, index, &layer->window));
    return check_layer(source, index, layer);
}

/* null and a missing key mean a multiple of the hidden width, in families that have one. */
static grail_status read_intermediate(const char *source, const json_t *json,
                                      const decoder_config *c, int64_t *out)
{
    const decoder_keys *keys = c->family->keys;
    const json_t *stated = json_object_get(json, keys->intermediate);
    if (keys->intermediate_multiple > 0 && (stated == NULL || json_is_null(stated))) {
        *out = keys->intermediate_multiple * c->hidden;
        return GRAIL_OK;
    }
    return require_size(source, json, keys->intermediate, MOST_WIDTH, out);
}

static grail_status read_heads(const char *source, const json_t *json, decoder_config *c,
                               decoder_layer *common)
{
    const decoder_family *family = c->family;
    const decoder_keys *keys = family->keys;
    const int64_t kv = family->default_kv_heads;
    CHECK(require_size(source, json, keys->heads, MOST_WIDTH, &common->heads));
    common->kv_heads = common->heads;
    if (keys->kv_heads != NULL) {
        CHECK(get_size(source, json, keys->kv_heads, kv == 0 ? common->heads : kv,
                       &common->kv_heads));
    }
    c->head_dim =
        family->default_head_dim == 0 ? c->hidden / common->heads : family->default_head_dim;
    if (keys->head_dim != NULL) {
        CHECK(get_size(source, json, keys->head_dim, c->head_dim, &c->head_dim));
    } else if (c->hidden % common->heads != 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"%s\" is %lld, which is not divisible by %lld heads", source,
                         keys->hidden, (long long)c->hidden, (long long)common->heads);
    }
    if (!family->learned_positions && c->head_dim % 2 != 0) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: head_dim is %lld; rotary positions need an even number", source,
                         (long long)c->head_dim);
    }
    return GRAIL_OK;
}

static grail_status read_layers(const char *source, const json_t *json, decoder_config *c)
{
    decoder_layer common = {0};
    CHECK(read_intermediate(source, json, c, &common.intermediate));
    CHECK(read_heads(source, json, c, &common));
    CHECK(memory_new(&c->layer, (size_t)c->layers, sizeof c->layer[0]));
    for (int64_t i = 0; i < c->layers; i++) {
        CHECK(read_layer(source, json, &common, i, c));
    }
    return GRAIL_OK;
}

static grail_status read_rotary(const char *source, const json_t *json, decoder_config *c)
{
    if (!c->family->learned_positions) {
        CHECK(memory_new(&c->frequency, (size_t)c->head_dim / 2, sizeof c->frequency[0]));
        CHECK(rotary_frequencies(source, json, c->head_dim, c->frequency));
    }
    return GRAIL_OK;
}

grail_status decoder_config_read(const decoder_family *family, const char *source,
                                 const json_t *json, decoder_config *out)
{
    grail_status status = GRAIL_OK;
    decoder_config c = {.family = family};
    const decoder_keys *keys = family->keys;
    TRY(require_size(source, json, keys->hidden, MOST_WIDTH, &c.hidden));
    TRY(require_size(source, json, keys->layers, MOST_LAYERS, &c.layers));
    TRY(require_size(source, json, "vocab_size", MOST_WIDTH, &c.vocabulary));
    TRY(get_size(source, json, keys->context, family->default_context, &c.context));
    TRY(json_get_real(source, json, keys->epsilon, 1e-6, &c.epsilon));
    TRY(json_get_boolean(source, json, "tie_word_embeddings", family->tied_by_default, &c.tied));
    TRY(read_activation(source, json, keys->activation, ACTIVATION_SILU, &c.activation));
    TRY(read_biases(source, json, &c));
    TRY(read_layers(source, json, &c));
    TRY(read_rotary(source, json, &c));
    *out = c;
    c = (decoder_config){0};
out:
    decoder_config_fini(&c);
    return status;
}

void decoder_config_fini(decoder_config *c)
{
    memory_free(c->layer);
    memory_free(c->frequency);
    *c = (decoder_config){0};
}
