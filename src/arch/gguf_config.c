/* The keys of a GGUF file as the configuration that Hugging Face's config.json would state, so that
 * all that follows is the same for both. */
#include "arch/gguf_family.h"

#include <stdio.h>
#include <string.h>

/* A file that is being read. */
typedef struct reading {
    const gguf_metadata *m;
    const gguf_family *family;
    json_t *config; /* owned by the caller */
    int64_t layers;
} reading;

static const gguf_value *find(const reading *r, const char *name)
{
    char key[GGUF_KEY_SIZE];
    gguf_family_key(r->family, name, key);
    return gguf_find(r->m, key);
}

static grail_status get_integer(const reading *r, const char *name, int64_t fallback, int64_t *out)
{
    char key[GGUF_KEY_SIZE];
    gguf_family_key(r->family, name, key);
    return gguf_get_integer(r->m, key, fallback, out);
}

static grail_status require_integer(const reading *r, const char *name, int64_t *out)
{
    return find(r, name) == NULL
               ? error_set(GRAIL_ERROR_FORMAT, "lacks the key '%s.%s'", r->family->name, name)
               : get_integer(r, name, 0, out);
}

static grail_status copy_integer(const reading *r, const char *name, const char *to)
{
    int64_t value = 0;
    CHECK(require_integer(r, name, &value));
    return json_put(r->config, to, json_integer(value));
}

static grail_status copy_real(const reading *r, const char *name, double fallback, const char *to)
{
    char key[GGUF_KEY_SIZE];
    double value = 0.0;
    gguf_family_key(r->family, name, key);
    CHECK(gguf_get_real(r->m, key, fallback, &value));
    return json_put(r->config, to, json_real(value));
}

/* -- widths ------------------------------------------------------------------------------------ */

/* The value of layer `layer`: of an array its element, else the same for all. */
static grail_status width_of(const reading *r, const char *name, int64_t layer, int64_t fallback,
                             int64_t *out)
{
    const gguf_value *value = find(r, name);
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
    CHECK(width_of(r, "feed_forward_length", layer, 0, &w->intermediate));
    CHECK(width_of(r, "attention.head_count", layer, 0, &w->heads));
    return width_of(r, "attention.head_count_kv", layer, w->heads, &w->kv_heads);
}

static grail_status put_widths(json_t *object, const layer_widths *w)
{
    CHECK(json_put(object, "intermediate_size", json_integer(w->intermediate)));
    CHECK(json_put(object, "num_attention_heads", json_integer(w->heads)));
    return json_put(object, "num_key_value_heads", json_integer(w->kv_heads));
}

static grail_status put_layer(json_t *layers, int64_t layer, const layer_widths *w)
{
    grail_status status = GRAIL_OK;
    char key[24];
    json_t *object = json_object();
    TRY(put_widths(object, w));
    snprintf(key, sizeof key, "%lld", (long long)layer);
    TRY(json_put(layers, key, json_incref(object)));
out:
    json_decref(object);
    return status;
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
            TRY(put_layer(layers, layer, &own));
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
    CHECK(require_integer(r, "embedding_length", &hidden));
    CHECK(get_integer(r, "attention.key_length", heads > 0 ? hidden / heads : 0, &key));
    CHECK(get_integer(r, "attention.value_length", key, &value));
    CHECK(get_integer(r, "rope.dimension_count", key, &turned));
    if (value != key || turned != key) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "its heads have %lld features of keys, %lld of values and %lld of rotary "
                         "positions; only equal numbers are supported",
                         (long long)key, (long long)value, (long long)turned);
    }
    return json_put(r->config, "head_dim", json_integer(key));
}

/* -- the rest ---------------------------------------------------------------------------------- */

static grail_status refuse_experts(const reading *r)
{
    int64_t experts = 0;
    CHECK(get_integer(r, "expert_count", 0, &experts));
    return experts == 0 ? GRAIL_OK
                        : error_set(GRAIL_ERROR_UNSUPPORTED,
                                    "has %lld experts in a layer; mixtures of experts are not "
                                    "supported",
                                    (long long)experts);
}

/* llama3's scaling is no key but the tensor rope_freqs.weight. */
static grail_status copy_scaling(const reading *r)
{
    grail_status status = GRAIL_OK;
    char key[GGUF_KEY_SIZE];
    char *type = NULL;
    json_t *scaling = NULL;
    gguf_family_key(r->family, "rope.scaling.type", key);
    TRY(gguf_get_text(r->m, key, &type));
    if (type == NULL || strcmp(type, "none") == 0) {
        goto out;
    }
    if (strcmp(type, "linear") != 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "its rotary scaling \"%s\" is not supported, only linear and that of a table", type);
    }
    scaling = json_object();
    TRY(json_put(r->config, "rope_scaling", json_incref(scaling)));
    TRY(json_put(scaling, "rope_type", json_text(type)));
    gguf_family_key(r->family, "rope.scaling.factor", key);
    double factor = 1.0;
    TRY(gguf_get_real(r->m, key, 1.0, &factor));
    TRY(json_put(scaling, "factor", json_real(factor)));
out:
    json_decref(scaling);
    memory_free(type);
    return status;
}

static grail_status copy_vocabulary(const reading *r, const checkpoint *weights)
{
    const tensor_view *table = checkpoint_find(weights, "token_embd.weight");
    if (table == NULL || table->rank != 2) {
        return error_set(GRAIL_ERROR_FORMAT, "has no matrix 'token_embd.weight'");
    }
    const bool tied = checkpoint_find(weights, "output.weight") == NULL;
    CHECK(json_put(r->config, "vocab_size", json_integer(table->shape[0])));
    return json_put(r->config, "tie_word_embeddings", json_boolean(tied));
}

static grail_status read_keys(reading *r, const checkpoint *weights)
{
    enum { MOST_LAYERS = 1024 };
    layer_widths first = {0};
    CHECK(require_integer(r, "block_count", &r->layers));
    if (r->layers < 1 || r->layers > MOST_LAYERS) {
        return error_set(GRAIL_ERROR_FORMAT, "key '%s.block_count' is %lld, expected 1 to %d",
                         r->family->name, (long long)r->layers, MOST_LAYERS);
    }
    CHECK(json_put(r->config, "model_type", json_text(r->family->model_type)));
    CHECK(json_put(r->config, "num_hidden_layers", json_integer(r->layers)));
    CHECK(copy_integer(r, "embedding_length", "hidden_size"));
    CHECK(copy_integer(r, "context_length", "max_position_embeddings"));
    CHECK(copy_widths(r, &first));
    CHECK(copy_head_dim(r, first.heads));
    CHECK(copy_real(r, "attention.layer_norm_rms_epsilon", 1e-6, "rms_norm_eps"));
    CHECK(copy_real(r, "rope.freq_base", 10000.0, "rope_theta"));
    CHECK(copy_scaling(r));
    CHECK(refuse_experts(r));
    return copy_vocabulary(r, weights);
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
