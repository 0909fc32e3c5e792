/* Reading a decoder's config.json. */
#include "arch/activation_names.h"
#include "arch/decoder.h"
#include "arch/decoder_experts.h"
#include "arch/decoder_latent.h"
#include "arch/decoder_layers.h"

#include <math.h>
#include <string.h>

enum { MOST_LAYERS = 1024 };

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

/* -- widths ------------------------------------------------------------------------------------ */

/* A layer may lack its attention or its FFN, which then have the width 0. */
static grail_status read_layer(const char *source, const json_t *json, const decoder_layer *common,
                               int64_t index, decoder_config *c)
{
    const decoder_keys *keys = decoder_keys_of(c->family);
    decoder_layer *layer = &c->layer[index];
    const json_t *own = decoder_layer_entry(json, index);
    if (decoder_has_experts(c->family, json, index)) {
        CHECK(decoder_experts_read(source, json, own, index, c));
    } else {
        CHECK(decoder_read_size(source, own, keys->intermediate, common->intermediate, 0,
                                &layer->intermediate));
    }
    CHECK(decoder_read_size(source, own, keys->heads, common->heads, 0, &layer->heads));
    layer->kv_heads = layer->heads;
    if (keys->kv_heads != NULL) {
        CHECK(
            decoder_read_size(source, own, keys->kv_heads, common->kv_heads, 0, &layer->kv_heads));
    }
    if (c->family->latent) {
        CHECK(decoder_latent_read_layer(source, own, common, layer));
    }
    CHECK(decoder_layer_skip(source, own, layer));
    CHECK(decoder_type_read(source, json, index, c));
    if ((layer->heads == 0) != (layer->kv_heads == 0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: layer %lld: %lld attention heads and %lld key/value heads; a layer "
                         "without attention has 0 of both",
                         source, (long long)index, (long long)layer->heads,
                         (long long)layer->kv_heads);
    }
    if (layer->heads == 0 && layer->intermediate == 0 && layer->experts == 0) {
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

/* What layers have that do not say otherwise, and the width of heads. */
static grail_status read_common(const char *source, const json_t *json, decoder_config *c,
                                decoder_layer *common)
{
    const decoder_family *family = c->family;
    const decoder_keys *keys = decoder_keys_of(family);
    const int64_t kv = family->default_kv_heads;
    const json_t *stated = json_object_get(json, keys->intermediate);
    if (keys->intermediate_multiple > 0 && (stated == NULL || json_is_null(stated))) {
        common->intermediate = keys->intermediate_multiple * c->hidden;
    } else if (family->default_intermediate > 0) {
        CHECK(decoder_read_size(source, json, keys->intermediate, family->default_intermediate, 1,
                                &common->intermediate));
    } else {
        CHECK(require_size(source, json, keys->intermediate, DECODER_MOST_WIDTH,
                           &common->intermediate));
    }
    CHECK(require_size(source, json, keys->heads, DECODER_MOST_WIDTH, &common->heads));
    common->kv_heads = common->heads;
    if (keys->kv_heads != NULL) {
        CHECK(decoder_read_size(source, json, keys->kv_heads, kv == 0 ? common->heads : kv, 1,
                                &common->kv_heads));
    }
    if (family->latent) {
        return decoder_latent_read(source, json, c, common);
    }
    c->head_dim =
        family->default_head_dim == 0 ? c->hidden / common->heads : family->default_head_dim;
    CHECK(decoder_read_size(source, json, keys->head_dim, c->head_dim, 1, &c->head_dim));
    if (family->loaders.transformers == HEADS_DERIVED && c->hidden % common->heads != 0 &&
        json_object_get(json, keys->head_dim) == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"%s\" is %lld, which is not divisible by %lld heads", source,
                         keys->hidden, (long long)c->hidden, (long long)common->heads);
    }
    return GRAIL_OK;
}

/* -- positions --------------------------------------------------------------------------------- */

/* Neighbouring pairs are made halves by where q and k lie (storage of decoder.c), which all
 * pairs of a head take part in; those that stay turn by nothing. */
static grail_status widen_to_head(const char *source, const decoder_config *c, rotary *r)
{
    grail_status status = GRAIL_OK;
    double *frequency = NULL;
    if (r->turned == c->head_dim) {
        return GRAIL_OK;
    }
    if (r->factor != 1.0 || r->long_frequency != NULL || c->head_dim % 2 != 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "%s: neighbouring pairs of a part of each head cannot be turned with a rotary scaling "
             "that multiplies them or depends on the length",
             source);
    }
    TRY(memory_new(&frequency, (size_t)c->head_dim / 2, sizeof frequency[0]));
    memcpy(frequency, r->frequency, (size_t)r->turned / 2 * sizeof frequency[0]);
    memory_free(r->frequency);
    r->frequency = frequency;
    r->turned = c->head_dim;
out:
    return status;
}

static grail_status read_rotary(const char *source, const json_t *json, rotary_kind kind,
                                decoder_config *c)
{
    const decoder_family *family = c->family;
    const decoder_keys *keys = decoder_keys_of(family);
    const bool windows = kind == ROTARY_OF_WINDOWS;
    const double theta = family->default_theta == 0.0 ? 1e4 : family->default_theta;
    const rotary_source from = {
        .head_dim = family->latent ? c->latent.turned : c->head_dim,
        .context = c->context,
        .layer_type = family->window_theta == NULL ? NULL
                      : windows                    ? "sliding_attention"
                                                   : "full_attention",
        .theta_key = windows               ? family->window_theta
                     : keys->theta != NULL ? keys->theta
                                           : "rope_theta",
        .partial_key = keys->partial != NULL ? keys->partial : "partial_rotary_factor",
        .theta = windows ? family->default_window_theta : theta,
        .partial = family->default_partial == 0.0 ? 1.0 : family->default_partial,
        .unscaled = windows,
    };
    bool has_kind = false;
    for (int64_t i = 0; i < c->layers; i++) {
        has_kind = has_kind || c->layer[i].rotary == kind;
    }
    if (!has_kind) {
        return GRAIL_OK;
    }
    CHECK(rotary_read(source, json, &from, &c->rotary[kind]));
    return family->interleaved ? widen_to_head(source, c, &c->rotary[kind]) : GRAIL_OK;
}

/* -- all --------------------------------------------------------------------------------------- */

static grail_status read_whole(const char *source, const json_t *json, decoder_config *c)
{
    const decoder_family *family = c->family;
    const decoder_keys *keys = decoder_keys_of(family);
    const double epsilon = family->default_epsilon == 0.0 ? 1e-6 : family->default_epsilon;
    const int64_t spare = family->counts_spare ? family->spare_positions : 0;
    CHECK(require_size(source, json, keys->hidden, DECODER_MOST_WIDTH, &c->hidden));
    CHECK(require_size(source, json, keys->layers, MOST_LAYERS, &c->layers));
    CHECK(require_size(source, json, "vocab_size", DECODER_MOST_WIDTH, &c->vocabulary));
    CHECK(decoder_read_size(source, json, keys->context, family->default_context, spare + 1,
                            &c->context));
    c->context -= spare;
    c->epsilon = epsilon;
    if (keys->epsilon != NULL) {
        CHECK(json_get_real(source, json, keys->epsilon, epsilon, &c->epsilon));
    }
    CHECK(json_get_boolean(source, json, "tie_word_embeddings", family->tied_by_default, &c->tied));
    const json_t *stated = json_object_get(json, keys->activation);
    const char *name = json_string_value(stated);
    c->squares_activation = /* "relu2" is the square of relu */
        name == NULL ? stated == NULL && family->squares_by_default : strcmp(name, "relu2") == 0;
    c->activation = ACTIVATION_RELU;
    if (!c->squares_activation) {
        CHECK(read_activation(source, json, keys->activation, family->default_activation,
                              &c->activation));
    }
    bool attention = false;
    bool mlp = false;
    CHECK(json_get_boolean(source, json, "attention_bias", family->attention_bias_by_default,
                           &attention));
    CHECK(json_get_boolean(source, json, "mlp_bias", false, &mlp));
    attention = attention && family->reads_attention_bias;
    c->qkv_bias = attention || family->always_qkv_bias || family->always_biases;
    c->output_bias = (attention && !family->bias_spares_output) || family->always_biases;
    c->mlp_bias = (mlp && family->reads_mlp_bias) || family->always_biases;
    return GRAIL_OK;
}

grail_status decoder_config_read(const decoder_family *family, const char *source,
                                 const json_t *json, decoder_config *out)
{
    grail_status status = GRAIL_OK;
    decoder_layer common = {0};
    decoder_config c = {DECODER_UNSCALED, .family = family, .place = decoder_place_by(family),
                        .parallel = family->parallel, .shares_norm = family->shares_norm};
    TRY(read_whole(source, json, &c));
    TRY(decoder_types_check(source, json, &c));
    TRY(decoder_mixture_read(source, json, &c));
    TRY(read_common(source, json, &c, &common));
    TRY(decoder_layers_check(source, json, c.layers));
    TRY(memory_new(&c.layer, (size_t)c.layers, sizeof c.layer[0]));
    for (int64_t i = 0; i < c.layers; i++) {
        TRY(read_layer(source, json, &common, i, &c));
    }
    c.score_scale = 1.0 / sqrt((double)c.head_dim);
    TRY(read_rotary(source, json, ROTARY_USUAL, &c));
    TRY(read_rotary(source, json, ROTARY_OF_WINDOWS, &c));
    if (family->read != NULL) {
        TRY(family->read(source, json, &c));
    }
    *out = c;
    c = (decoder_config){0};
out:
    decoder_config_fini(&c);
    return status;
}

void decoder_config_fini(decoder_config *c)
{
    for (int64_t i = 0; c->layer != NULL && i < c->layers; i++) {
        memory_free(c->layer[i].expert_width);
    }
    memory_free(c->layer);
    for (int i = 0; i < ROTARY_KINDS; i++) {
        rotary_fini(&c->rotary[i]);
    }
    *c = (decoder_config){0};
}
