/* The keys of a GGUF file as the configuration that Hugging Face's config.json would state, so that
 * all that follows is the same for both. */
#include "arch/gguf_family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A file that is being read. */
typedef struct reading {
    const gguf_metadata *m;
    const gguf_family *family;
    json_t *config; /* owned by the caller */
    int64_t layers;
} reading;

static gguf_key_name key_of(const reading *r, gguf_key_id id)
{
    return gguf_key_of(r->family->name, id);
}

static grail_status require(const reading *r, gguf_key_id id)
{
    const gguf_key_name key = key_of(r, id);
    return gguf_find(r->m, key.text) != NULL
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT, "lacks the key '%s'", key.text);
}

static grail_status get_integer(const reading *r, gguf_key_id id, int64_t fallback, int64_t *out)
{
    return gguf_get_integer(r->m, key_of(r, id).text, fallback, out);
}

static grail_status get_real(const reading *r, gguf_key_id id, double fallback, double *out)
{
    const gguf_key_name key = key_of(r, id);
    CHECK(gguf_get_real(r->m, key.text, fallback, out));
    return isfinite(*out) ? GRAIL_OK
                          : error_set(GRAIL_ERROR_FORMAT,
                                      "key '%s' is %g, expected a finite number", key.text, *out);
}

static grail_status require_integer(const reading *r, gguf_key_id id, int64_t *out)
{
    CHECK(require(r, id));
    return get_integer(r, id, 0, out);
}

static grail_status copy_integer(const reading *r, gguf_key_id id, const char *to)
{
    int64_t value = 0;
    CHECK(require_integer(r, id, &value));
    return json_put(r->config, to, json_integer(value));
}

static grail_status copy_real(const reading *r, gguf_key_id id, double fallback, const char *to)
{
    double value = 0.0;
    CHECK(get_real(r, id, fallback, &value));
    return json_put(r->config, to, json_real(value));
}

/* -- widths ------------------------------------------------------------------------------------ */

/* The value of layer `layer`: of an array its element, else the same for all. */
static grail_status width_of(const reading *r, gguf_key_id id, int64_t layer, int64_t fallback,
                             int64_t *out)
{
    const gguf_value *value = gguf_find(r->m, key_of(r, id).text);
    if (value == NULL) {
        *out = fallback;
        return GRAIL_OK;
    }
    if (value->is_array && value->count != (uint64_t)r->layers) {
        return error_set(GRAIL_ERROR_FORMAT, "key '%s' has %llu elements for %lld layers",
                         value->key, (unsigned long long)value->count, (long long)r->layers);
    }
    return gguf_integer_at(value, value->is_array ? (uint64_t)layer : 0, out);
}

typedef struct layer_widths {
    int64_t intermediate, heads, kv_heads;
} layer_widths;

static grail_status read_layer(const reading *r, int64_t layer, layer_widths *w)
{
    CHECK(require(r, GGUF_KEY_FEED_FORWARD));
    CHECK(require(r, GGUF_KEY_HEADS));
    CHECK(width_of(r, GGUF_KEY_FEED_FORWARD, layer, 0, &w->intermediate));
    CHECK(width_of(r, GGUF_KEY_HEADS, layer, 0, &w->heads));
    return width_of(r, GGUF_KEY_KV_HEADS, layer, w->heads, &w->kv_heads);
}

static grail_status put_widths(json_t *object, const layer_widths *w)
{
    CHECK(json_put(object, "intermediate_size", json_integer(w->intermediate)));
    CHECK(json_put(object, "num_attention_heads", json_integer(w->heads)));
    return json_put(object, "num_key_value_heads", json_integer(w->kv_heads));
}

/* Widths of the first layer for all, and of single layers where they differ. A width that the first
 * layer lacks is 1 for all, so that a layer which has it states it. */
static grail_status copy_widths(const reading *r, layer_widths *first)
{
    grail_status status = GRAIL_OK;
    json_t *layers = json_object();
    layer_widths own = {0};
    TRY(read_layer(r, 0, first));
    const bool lacks = first->intermediate == 0 || first->heads == 0;
    const layer_widths common = {.intermediate = first->intermediate > 0 ? first->intermediate : 1,
                                 .heads = first->heads > 0 ? first->heads : 1,
                                 .kv_heads = first->kv_heads > 0 ? first->kv_heads : 1};
    TRY(put_widths(r->config, &common));
    for (int64_t layer = 0; layer < r->layers; layer++) {
        TRY(read_layer(r, layer, &own));
        if (lacks || memcmp(&own, first, sizeof own) != 0) {
            char key[24];
            json_t *object = json_object();
            snprintf(key, sizeof key, "%lld", (long long)layer);
            TRY(json_put(layers, key, object));
            TRY(put_widths(object, &own));
        }
    }
    if (json_object_size(layers) > 0) {
        TRY(json_put(r->config, "per_layer_config", json_incref(layers)));
    }
out:
    json_decref(layers);
    return status;
}

/* Keys and values are as wide as queries, and all features of a head are turned. */
static grail_status copy_head_dim(const reading *r, int64_t heads)
{
    int64_t hidden = 0;
    int64_t key = 0;
    int64_t value = 0;
    int64_t turned = 0;
    CHECK(require_integer(r, GGUF_KEY_HIDDEN, &hidden));
    const int64_t usual = heads > 0 ? hidden / heads : 0;
    CHECK(get_integer(r, GGUF_KEY_KEY_LENGTH, usual, &key));
    CHECK(get_integer(r, GGUF_KEY_VALUE_LENGTH, heads > 0 ? usual : key, &value));
    CHECK(get_integer(r, GGUF_KEY_TURNED, key, &turned));
    if (value != key || turned != key) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "its heads have %lld features of keys, %lld of values and %lld of rotary "
                         "positions; only equal numbers are supported; give the directory that the "
                         "file was made from",
                         (long long)key, (long long)value, (long long)turned);
    }
    return json_put(r->config, "head_dim", json_integer(key));
}

/* -- the rest ---------------------------------------------------------------------------------- */

/* A factor without a type is linear; 0 is none. llama3's scaling is no key but the tensor
 * rope_freqs.weight. */
static grail_status copy_scaling(const reading *r)
{
    grail_status status = GRAIL_OK;
    const gguf_key_name key = key_of(r, GGUF_KEY_SCALING);
    char *type = NULL;
    json_t *scaling = NULL;
    double factor = 0.0;
    TRY(gguf_get_text(r->m, key.text, &type));
    if (type != NULL && strcmp(type, "none") == 0) {
        goto out;
    }
    if (type != NULL && strcmp(type, "linear") != 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "key '%s' is \"%s\"; only none and linear are supported, and the scaling of a table; "
             "give the directory that the file was made from",
             key.text, type);
    }
    TRY(get_real(r, GGUF_KEY_OLD_FACTOR, 0.0, &factor));
    TRY(get_real(r, GGUF_KEY_FACTOR, factor, &factor));
    if (factor == 0.0) {
        goto out;
    }
    scaling = json_object();
    TRY(json_put(r->config, "rope_scaling", json_incref(scaling)));
    TRY(json_put(scaling, "rope_type", json_text("linear")));
    TRY(json_put(scaling, "factor", json_real(factor)));
out:
    json_decref(scaling);
    memory_free(type);
    return status;
}

static grail_status read_keys(reading *r, const checkpoint *weights)
{
    enum { MOST_LAYERS = 1024 };
    layer_widths first = {0};
    CHECK(gguf_keys_check(r->m, r->family->name, false));
    CHECK(require_integer(r, GGUF_KEY_BLOCK_COUNT, &r->layers));
    if (r->layers < 1 || r->layers > MOST_LAYERS) {
        return error_set(GRAIL_ERROR_FORMAT, "key '%s.block_count' is %lld, expected 1 to %d",
                         r->family->name, (long long)r->layers, MOST_LAYERS);
    }
    CHECK(json_put(r->config, "model_type", json_text(r->family->model_type)));
    CHECK(json_put(r->config, "num_hidden_layers", json_integer(r->layers)));
    CHECK(copy_integer(r, GGUF_KEY_HIDDEN, "hidden_size"));
    CHECK(copy_integer(r, GGUF_KEY_CONTEXT, "max_position_embeddings"));
    CHECK(copy_widths(r, &first));
    CHECK(copy_head_dim(r, first.heads));
    CHECK(require(r, GGUF_KEY_EPSILON));
    CHECK(copy_real(r, GGUF_KEY_EPSILON, 0.0, "rms_norm_eps"));
    CHECK(copy_real(r, GGUF_KEY_THETA, 10000.0, "rope_theta"));
    CHECK(copy_scaling(r));
    const tensor_view *table = checkpoint_find(weights, "token_embd.weight");
    if (table == NULL || table->rank != 2) {
        return error_set(GRAIL_ERROR_FORMAT, "has no matrix 'token_embd.weight'");
    }
    const bool tied = checkpoint_find(weights, "output.weight") == NULL;
    CHECK(json_put(r->config, "vocab_size", json_integer(table->shape[0])));
    return json_put(r->config, "tie_word_embeddings", json_boolean(tied));
}

grail_status gguf_read_config(const checkpoint *weights, json_t **out)
{
    grail_status status = GRAIL_OK;
    reading r = {.m = checkpoint_metadata(weights), .config = json_object()};
    TRY(gguf_family_find(weights, &r.family));
    TRY(error_in(read_keys(&r, weights), "%s", checkpoint_path(weights)));
    *out = r.config;
    r.config = NULL;
out:
    json_decref(r.config);
    return status;
}
