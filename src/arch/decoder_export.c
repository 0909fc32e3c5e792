/* Describing a narrowed decoder so that stock loaders accept it. Source: the configuration and
 * model classes of transformers 5 and vLLM, and llama.cpp's converter and models. */
#include "arch/decoder.h"
#include "arch/decoder_experts.h"
#include "arch/decoder_latent.h"
#include "arch/decoder_layers.h"
#include "arch/decoder_widths.h"
#include "base/name_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- classes beside the weights ---------------------------------------------------------------- */

/* Made of modeling_grail.py; whoever uses it replaces FAMILY and MODULE in it. */
extern const unsigned char modeling_grail_py[];
extern const unsigned long modeling_grail_py_size;

#define MODULE_NAME "modeling_grail"
static const char auto_map[] = "auto_map";

/* What each key of "auto_map" stands for: MODULE_NAME.Grail + the family's classes + ending. */
static const struct {
    const char *key, *ending;
} classes[] = {
    {"AutoConfig", "Config"}, {"AutoModel", "Model"}, {"AutoModelForCausalLM", "ForCausalLM"}};

enum { CLASSES = sizeof classes / sizeof classes[0] };

static bool is_ours(const json_t *map, const char *key)
{
    static const char begin[] = MODULE_NAME ".";
    const char *value = json_string_value(json_object_get(map, key));
    return value != NULL && strncmp(value, begin, sizeof begin - 1) == 0;
}

static grail_status put_class(const char *prefix, const char *classes_of, json_t *config)
{
    char name[96];
    json_t *list = json_array();
    CHECK(json_put(config, "architectures", list));
    snprintf(name, sizeof name, "%s%sForCausalLM", prefix, classes_of);
    return json_push(list, json_text(name));
}

static grail_status name_modelling(const decoder_family *family, json_t *config)
{
    if (family->classes == NULL) {
        return GRAIL_OK;
    }
    json_t *map = json_object_get(config, auto_map);
    if (!json_is_object(map)) {
        map = json_object();
        CHECK(json_put(config, auto_map, map));
    }
    for (int i = 0; i < CLASSES; i++) {
        char name[96];
        snprintf(name, sizeof name, MODULE_NAME ".Grail%s%s", family->classes, classes[i].ending);
        CHECK(json_put(map, classes[i].key, json_text(name)));
    }
    return put_class("Grail", family->classes, config);
}

static grail_status forget_modelling(const decoder_family *family, json_t *config)
{
    json_t *map = json_object_get(config, auto_map);
    if (family->classes == NULL || !is_ours(map, classes[0].key)) {
        return GRAIL_OK;
    }
    for (int i = 0; i < CLASSES; i++) {
        json_object_del(map, classes[i].key);
    }
    if (json_object_size(map) == 0) {
        json_object_del(config, auto_map);
    }
    return put_class("", family->classes, config);
}

grail_status decoder_loader_file(const architecture *self, const json_t *config,
                                 const graph *narrowed, const char **name, buffer *content)
{
    (void)narrowed;
    const char *classes_of = self->family->classes;
    if (classes_of == NULL || !is_ours(json_object_get(config, auto_map), classes[0].key)) {
        return GRAIL_OK;
    }
    enum { WORD = sizeof "FAMILY" - 1 }; /* "MODULE" is as long */
    const char *text = (const char *)modeling_grail_py;
    const size_t size = modeling_grail_py_size;
    size_t begin = 0;
    for (size_t i = 0; i + WORD <= size; i++) {
        const bool is_family = memcmp(text + i, "FAMILY", WORD) == 0;
        if (is_family || memcmp(text + i, "MODULE", WORD) == 0) {
            CHECK(buffer_append(content, text + begin, i - begin));
            CHECK(buffer_append_string(content, is_family ? classes_of : self->name));
            begin = i + WORD;
        }
    }
    *name = MODULE_NAME ".py";
    return buffer_append(content, text + begin, size - begin);
}

/* -- widths ------------------------------------------------------------------------------------ */

/* What a layer lacks is not put; what no layer has keeps its dense width, which counts for nothing.
 * `count` is the key of the number of experts, whose width is that of the first. */
static grail_status put_widths(const decoder_widths *w, const decoder_family *family,
                               const char *count, json_t *object)
{
    const decoder_keys *keys = decoder_keys_of(family);
    const decoder_mixture *m = &family->mixture;
    const bool counts = m->shared_count != NULL && w->expert > 0;
    const struct {
        const char *key;
        int64_t value;
        bool is_there;
    } rows[] = {{keys->intermediate, w->intermediate, w->intermediate > 0},
                {count, w->experts, w->experts > 0},
                {m->width, w->expert, w->experts > 0},
                {counts ? m->shared_count : m->shared_width,
                 counts ? w->shared / w->expert : w->shared, w->experts > 0},
                {keys->heads, w->heads, w->heads > 0},
                {keys->kv_heads, w->kv_heads, w->heads > 0},
                {DECODER_QUERY_RANK_KEY, w->query_rank, w->query_rank > 0},
                {DECODER_RANK_KEY, w->rank, w->rank > 0},
                {DECODER_VALUE_KEY, w->value, w->rank > 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].key != NULL && rows[i].is_there) {
            CHECK(json_put(object, rows[i].key, json_integer(rows[i].value)));
        }
    }
    return GRAIL_OK;
}

/* Puts the widths in which layers differ from `common`. A layer that lacks both attention and FFN
 * is left out, so it lacks one thing at most. */
static grail_status put_layers(const graph *g, const decoder_family *family,
                               const decoder_widths *common, json_t *config)
{
    char key[24];
    int number = 0;
    json_t *layers = json_object();
    CHECK(json_put(config, DECODER_LAYERS_KEY, layers));
    for (int layer = 0; layer < g->block_count; layer++) {
        const decoder_widths own = decoder_widths_of(g, layer);
        const char *lacks = own.heads == 0                  ? "attention"
                            : decoder_widths_lack_ffn(&own) ? "mlp"
                                                            : NULL;
        number += decoder_widths_are_none(&own) ? 0 : 1;
        if (decoder_widths_are_none(&own) ||
            (decoder_widths_are_common(&own, common) && lacks == NULL)) {
            continue;
        }
        json_t *entry = json_object();
        snprintf(key, sizeof key, "%d", number - 1);
        CHECK(json_put(layers, key, entry));
        CHECK(put_widths(&own, family, decoder_experts_key(config), entry));
        if (own.experts_differ) {
            json_t *list = json_array();
            CHECK(json_put(entry, family->mixture.width, list));
            for (int64_t e = 0; e < own.experts; e++) {
                CHECK(json_push(list, json_integer(decoder_expert_width(g, layer, e))));
            }
        }
        CHECK(lacks == NULL ? GRAIL_OK : json_put(entry, "skip", json_pack("[s]", lacks)));
    }
    return GRAIL_OK;
}

static bool says(const json_t *config, const char *key)
{
    return json_is_true(json_object_get(config, key));
}

bool decoder_config_is(const json_t *config, const char *type)
{
    const char *value = json_string_value(json_object_get(config, "model_type"));
    return value != NULL && strcmp(value, type) == 0;
}

bool decoder_heads_fill(const json_t *config, const decoder_keys *keys)
{
    const json_int_t hidden = json_integer_value(json_object_get(config, keys->hidden));
    const json_int_t heads = json_integer_value(json_object_get(config, keys->heads));
    return heads > 0 && hidden % heads == 0;
}

/* LlamaConfig (transformers 5) refuses hidden_size % heads != 0 even with head_dim; MistralConfig
 * does not, and without biases and windows it is the same network with the same tensor names. */
static grail_status relabel_for_odd_heads(json_t *config, const decoder_keys *keys)
{
    if (!decoder_config_is(config, "llama") || decoder_heads_fill(config, keys) ||
        says(config, "attention_bias") || says(config, "mlp_bias")) {
        return GRAIL_OK;
    }
    CHECK(put_class("", "Mistral", config));
    CHECK(json_put(config, "model_type", json_text("mistral")));
    /* MistralConfig promises more positions when the key is absent */
    CHECK(json_put(config, "max_position_embeddings",
                   json_integer(architecture_llama.context(&architecture_llama, config))));
    return json_put(config, "sliding_window", json_null());
}

/* Names the layers without experts by the numbers that they get. */
static grail_status state_dense_layers(const graph *g, const decoder_family *family, json_t *config)
{
    grail_status status = GRAIL_OK;
    json_t *list = json_array();
    for (int layer = 0; layer < g->block_count; layer++) {
        const decoder_widths own = decoder_widths_of(g, layer);
        if (!decoder_widths_are_none(&own) && !decoder_has_experts(family, config, layer)) {
            TRY(json_push(list, json_integer(decoder_count_layers(g, layer))));
        }
    }
    json_incref(list);
    TRY(json_put(config, "mlp_only_layers", list));
    TRY(json_put(config, "decoder_sparse_step", json_integer(1)));
out:
    json_decref(list);
    return status;
}

/* Where layers are left out: their number, and what is stated for each layer. */
static grail_status leave_out_layers(const graph *g, const decoder_family *family, json_t *config)
{
    const decoder_keys *keys = decoder_keys_of(family);
    const json_t *stated = json_object_get(config, "max_window_layers");
    const json_int_t first =
        json_is_integer(stated) ? json_integer_value(stated) : DECODER_FIRST_WINDOW;
    const int left = decoder_count_layers(g, g->block_count);
    if (left == g->block_count) {
        return GRAIL_OK;
    }
    CHECK(decoder_types_state(family, config, g->block_count));
    if (family->mixture.reads_dense_layers) {
        CHECK(state_dense_layers(g, family, config));
    }
    if (family->mixture.first_dense != NULL) {
        const char *key = family->mixture.first_dense;
        const json_t *dense = json_object_get(config, key);
        const json_int_t before =
            json_is_integer(dense) ? json_integer_value(dense) : family->mixture.default_dense;
        CHECK(json_put(config, key, json_integer(decoder_count_layers(g, before))));
    }
    CHECK(json_put(config, keys->layers, json_integer(left)));
    if (json_is_integer(stated) || says(config, "use_sliding_window")) {
        CHECK(json_put(config, "max_window_layers", json_integer(decoder_count_layers(g, first))));
    }
    for (int layer = g->block_count - 1; layer >= 0; layer--) {
        const decoder_widths own = decoder_widths_of(g, layer);
        if (decoder_widths_are_none(&own)) {
            json_array_remove(json_object_get(config, "layer_types"), (size_t)layer);
            json_array_remove(json_object_get(config, "no_rope_layers"), (size_t)layer);
        }
    }
    return GRAIL_OK;
}

/* Experts that lie in one tensor, or of whose width another is a multiple, cannot differ. */
static grail_status check_stacks(const graph *g, const decoder_family *family)
{
    const decoder_mixture *m = &family->mixture;
    for (int layer = 0; layer < g->block_count; layer++) {
        const decoder_widths own = decoder_widths_of(g, layer);
        if (own.experts_differ && decoder_experts_have_one_width(family)) {
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "layer %d: its experts %s and cannot have different widths; keep as "
                "many units of each",
                layer, m->are_stacked ? "lie in one tensor" : "have one number in config.json");
        }
        if (m->shared_count != NULL && own.experts > 0 && own.shared % own.expert != 0) {
            const int64_t times = (own.shared + own.expert / 2) / own.expert;
            return error_set(
                GRAIL_ERROR_UNSUPPORTED,
                "layer %d: the expert of all tokens is %lld wide, and each of the others %lld: "
                "config.json states the one width as a multiple of the other (\"%s\"); choose "
                "another amount or alignment, or a plan that keeps %lld units of the former",
                layer, (long long)own.shared, (long long)own.expert, m->shared_count,
                (long long)((times > 0 ? times : 1) * own.expert));
        }
    }
    return GRAIL_OK;
}

grail_status decoder_describe_narrowed(const architecture *self, const graph *narrowed,
                                       json_t *config)
{
    const decoder_keys *keys = decoder_keys_of(self->family);
    const decoder_shape shape = decoder_shape_of(narrowed);
    const json_int_t heads = json_integer_value(json_object_get(config, keys->heads));
    CHECK(check_stacks(narrowed, self->family));
    json_object_del(config, DECODER_LAYERS_KEY);
    CHECK(forget_modelling(self->family, config));
    CHECK(put_widths(&shape.common, self->family, decoder_experts_key(config), config));
    /* Layers that predict further tokens are left out (outside_tensors.h): loaders build them with
     * the widths of all layers, which they do not have any more. */
    if (json_object_get(config, "num_nextn_predict_layers") != NULL) {
        CHECK(json_put(config, "num_nextn_predict_layers", json_integer(0)));
    }
    /* head_dim can no longer be derived from the heads */
    if (!self->family->latent && shape.common.heads > 0 &&
        (shape.common.heads != heads || !shape.uniform)) {
        CHECK(json_put(config, keys->head_dim, json_integer(shape.head_dim)));
    }
    CHECK(leave_out_layers(narrowed, self->family, config));
    if (shape.uniform) {
        return relabel_for_odd_heads(config, keys);
    }
    CHECK(put_layers(narrowed, self->family, &shape.common, config));
    return name_modelling(self->family, config);
}

grail_status decoder_rename_tensor(const char *tensor, int blocks, const int *numbers, char **out)
{
    const char *end = NULL;
    const char *digits = name_find_number(tensor, &end);
    const long layer = digits == NULL ? -1 : strtol(digits, NULL, 10);
    if (layer < 0 || layer >= blocks) {
        return memory_copy_string(out, tensor);
    }
    *out = NULL;
    return numbers[layer] == GRAPH_NONE ? GRAIL_OK
                                        : memory_format(out, "%.*s%d%s", (int)(digits - tensor),
                                                        tensor, numbers[layer], end);
}
