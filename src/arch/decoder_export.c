/* Describing a narrowed decoder so that stock loaders accept it. Source: the configuration and
 * model classes of transformers 5 and vLLM, and llama.cpp's converter and models. */
#include "arch/decoder.h"
#include "arch/decoder_types.h"
#include "arch/decoder_widths.h"
#include "arch/loader_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static grail_status put_heads(json_t *object, const decoder_keys *keys, const decoder_widths *w)
{
    CHECK(json_put(object, keys->heads, json_integer(w->heads)));
    if (keys->kv_heads != NULL) {
        CHECK(json_put(object, keys->kv_heads, json_integer(w->kv_heads)));
    }
    return GRAIL_OK;
}

static grail_status put_widths(json_t *object, const decoder_keys *keys, const decoder_widths *w)
{
    CHECK(json_put(object, keys->intermediate, json_integer(w->intermediate)));
    return put_heads(object, keys, w);
}

/* What no layer has keeps its dense width, which counts for nothing. */
static grail_status put_common_widths(json_t *config, const decoder_keys *keys,
                                      const decoder_widths *common)
{
    if (common->intermediate > 0) {
        CHECK(json_put(config, keys->intermediate, json_integer(common->intermediate)));
    }
    if (common->heads > 0) {
        CHECK(put_heads(config, keys, common));
    }
    return GRAIL_OK;
}

static grail_status put_layers(const graph *narrowed, const decoder_keys *keys,
                               const decoder_widths *common, json_t *config)
{
    grail_status status = GRAIL_OK;
    char key[24];
    int number = 0;
    json_t *layers = json_object();
    for (int layer = 0; layer < narrowed->block_count; layer++) {
        const decoder_widths own = decoder_widths_of(narrowed, layer);
        const bool lacks = own.heads == 0 || own.intermediate == 0;
        number += decoder_widths_are_none(&own) ? 0 : 1;
        if (decoder_widths_are_none(&own) || (decoder_widths_are_same(&own, common) && !lacks)) {
            continue;
        }
        json_t *entry = json_object();
        snprintf(key, sizeof key, "%d", number - 1);
        TRY(json_put(layers, key, entry));
        TRY(put_widths(entry, keys, &own));
    }
    json_incref(layers);
    TRY(json_put(config, "per_layer_config", layers));
out:
    json_decref(layers);
    return status;
}

static bool says(const json_t *config, const char *key)
{
    return json_is_true(json_object_get(config, key));
}

static bool is_type(const json_t *config, const char *type)
{
    const char *value = json_string_value(json_object_get(config, "model_type"));
    return value != NULL && strcmp(value, type) == 0;
}

static bool heads_fill_hidden(const json_t *config, const decoder_keys *keys)
{
    const json_int_t hidden = json_integer_value(json_object_get(config, keys->hidden));
    const json_int_t heads = json_integer_value(json_object_get(config, keys->heads));
    return heads > 0 && hidden % heads == 0;
}

/* LlamaConfig (transformers 5) refuses hidden_size % heads != 0 even with head_dim; MistralConfig
 * does not, and without biases and windows it is the same network with the same tensor names. */
static grail_status relabel_for_odd_heads(json_t *config, const decoder_keys *keys)
{
    grail_status status = GRAIL_OK;
    if (!is_type(config, "llama") || heads_fill_hidden(config, keys) ||
        says(config, "attention_bias") || says(config, "mlp_bias")) {
        return GRAIL_OK;
    }
    json_t *names = json_array();
    json_incref(names);
    status = json_put(config, "architectures", names);
    if (status == GRAIL_OK) {
        status = json_push(names, json_text("MistralForCausalLM"));
    }
    json_decref(names);
    TRY(status);
    TRY(json_put(config, "model_type", json_text("mistral")));
    /* MistralConfig promises more positions when the key is absent */
    TRY(json_put(config, "max_position_embeddings",
                 json_integer(architecture_llama.context(&architecture_llama, config))));
    TRY(json_put(config, "sliding_window", json_null()));
out:
    return status;
}

/* Where layers are left out: their number, and what is stated for each layer. */
static grail_status leave_out_layers(const graph *g, const decoder_family *family, json_t *config)
{
    const decoder_keys *keys = family->keys;
    const json_t *stated = json_object_get(config, "max_window_layers");
    const json_int_t first =
        json_is_integer(stated) ? json_integer_value(stated) : DECODER_FIRST_WINDOW;
    const int left = decoder_count_layers(g, g->block_count);
    if (left == g->block_count) {
        return GRAIL_OK;
    }
    CHECK(decoder_types_state(family, config, g->block_count));
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

grail_status decoder_describe_narrowed(const architecture *self, const graph *narrowed,
                                       json_t *config)
{
    const decoder_keys *keys = self->family->keys;
    const decoder_widths common = decoder_common_widths(narrowed);
    const bool uniform = decoder_is_uniform(narrowed);
    const json_int_t heads = json_integer_value(json_object_get(config, keys->heads));
    json_object_del(config, "per_layer_config");
    CHECK(put_common_widths(config, keys, &common));
    /* head_dim can no longer be derived from the heads */
    if (common.heads > 0 && (common.heads != heads || !uniform)) {
        CHECK(json_put(config, keys->head_dim, json_integer(decoder_head_dim(narrowed))));
    }
    CHECK(leave_out_layers(narrowed, self->family, config));
    if (uniform) {
        CHECK(relabel_for_odd_heads(config, keys));
    } else {
        CHECK(put_layers(narrowed, keys, &common, config));
    }
    return GRAIL_OK;
}

/* The first part of a name between dots that is a number, and what follows it in *end; NULL without
 * one. */
static const char *find_number(const char *name, char **end)
{
    for (const char *part = name; part != NULL; part = strchr(part, '.')) {
        part += part[0] == '.' ? 1 : 0;
        const size_t digits = strspn(part, "0123456789");
        if (digits > 0 && part[digits] == '.') {
            *end = (char *)(uintptr_t)part + digits;
            return part;
        }
    }
    return NULL;
}

grail_status decoder_rename_tensor(const char *tensor, int blocks, const int *numbers, char **out)
{
    char *end = NULL;
    const char *digits = find_number(tensor, &end);
    const long layer = digits == NULL ? -1 : strtol(digits, NULL, 10);
    if (layer < 0 || layer >= blocks) {
        return memory_copy_string(out, tensor);
    }
    *out = NULL;
    return numbers[layer] == GRAPH_NONE ? GRAIL_OK
                                        : memory_format(out, "%.*s%d%s", (int)(digits - tensor),
                                                        tensor, numbers[layer], end);
}

/* The object that describes rotary positions. */
static const json_t *rope_of(const json_t *config)
{
    const json_t *parameters = json_object_get(config, "rope_parameters");
    return json_is_object(parameters) ? parameters : json_object_get(config, "rope_scaling");
}

static bool scales_positions(const json_t *config)
{
    const json_t *rope = rope_of(config);
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    type = type != NULL ? type : json_string_value(json_object_get(rope, "type"));
    return type != NULL && strcmp(type, "default") != 0;
}

/* Lists of longrope have one factor for each pair; Phi3Config takes a head for hidden / heads
 * features when it checks their length. */
static bool lists_fit(const json_t *config, const decoder_keys *keys)
{
    const json_t *list = json_object_get(rope_of(config), "short_factor");
    const json_t *outside = json_object_get(config, "partial_rotary_factor");
    const json_t *inside = json_object_get(rope_of(config), "partial_rotary_factor");
    const json_t *stated = json_is_number(inside) ? inside : outside;
    const double partial = json_is_number(stated) ? json_number_value(stated) : 1.0;
    const json_int_t hidden = json_integer_value(json_object_get(config, keys->hidden));
    const json_int_t heads = json_integer_value(json_object_get(config, keys->heads));
    return list == NULL || heads == 0 ||
           (json_int_t)((double)(hidden / heads) * partial) / 2 ==
               (json_int_t)json_array_size(list);
}

/* Whether it lacks what no loader opens; then says so, with the loader's own words. */
static bool judge_shape(const graph *narrowed, const char *sublayers, const char *widths,
                        loader_verdict *v)
{
    if (decoder_lacks_sublayers(narrowed)) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason, "layers lack their attention or FFN; %s", sublayers);
    } else if (!decoder_is_uniform(narrowed)) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason, "the layers have different widths; %s", widths);
    }
    return v->loads;
}

/* Whether the loader has a class of the family, which takes as many features for each head. */
static bool judge_class(const json_t *config, const decoder_family *family, head_rule rule,
                        const graph *narrowed, loader_verdict *v)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_int_t hidden = json_integer_value(json_object_get(config, family->keys->hidden));
    const decoder_widths w = decoder_common_widths(narrowed);
    if (rule == HEADS_UNKNOWN) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason, "it has no class for %s", type);
    } else if (rule == HEADS_DERIVED && w.heads > 0 &&
               w.heads * decoder_head_dim(narrowed) != hidden) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "its %s class takes head_dim = %s / heads; cut ffn alone for it", type,
                 family->keys->hidden);
    }
    return v->loads;
}

static void judge_transformers(const architecture *self, const json_t *config,
                               const graph *narrowed, loader_verdict *v)
{
    const decoder_keys *keys = self->family->keys;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const bool divides = self->family->loaders.transformers == HEADS_DIVIDE && type != NULL &&
                         strcmp(type, self->name) == 0;
    if (!judge_shape(narrowed, "no stock class supports this", "no stock class supports this", v) ||
        !judge_class(config, self->family, self->family->loaders.transformers, narrowed, v)) {
        return;
    }
    if (divides && !heads_fill_hidden(config, keys)) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason, "version 5 needs hidden_size %% heads = 0 for %s%s",
                 type,
                 is_type(config, "llama")
                     ? ", and the biases rule out the mistral class (4.45 to 4.x load it)"
                     : "; keep a number of heads that divides it");
    } else if (is_type(config, "phi3") && !lists_fit(config, keys)) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "Phi3Config checks the lists of longrope with hidden_size / heads for head_dim; "
                 "cut ffn alone for it");
    } else if (is_type(config, "mistral") && scales_positions(config)) {
        snprintf(v->reason, sizeof v->reason,
                 "as mistral, version 4.48 or newer (older ones ignore rope_scaling there)");
    } else if (json_object_get(config, "head_dim") != NULL && !heads_fill_hidden(config, keys)) {
        snprintf(v->reason, sizeof v->reason, "as %s, version 4.45 or newer (explicit head_dim)",
                 type);
    } else {
        snprintf(v->reason, sizeof v->reason, "as %s", type);
    }
}

static void judge_vllm(const decoder_family *family, const json_t *config, const graph *narrowed,
                       loader_verdict *v)
{
    const decoder_widths w = decoder_common_widths(narrowed);
    const char *act = json_string_value(json_object_get(config, family->keys->activation));
    if (!judge_shape(narrowed, "its stock classes give all layers both",
                     "its stock classes give all layers the same", v) ||
        !judge_class(config, family, family->loaders.vllm, narrowed, v)) {
        return;
    }
    if (!family->ungated && family->default_activation == ACTIVATION_SILU && act != NULL &&
        strcmp(act, "silu") != 0) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "its classes support only silu, but this network has %s", act);
    } else {
        snprintf(v->reason, sizeof v->reason,
                 "tensor parallelism must divide %lld heads, %lld KV heads and ffn %lld",
                 (long long)w.heads, (long long)w.kv_heads, (long long)w.intermediate);
    }
}

/* Which quantisations the widths allow. */
static void judge_quantisations(const graph *narrowed, loader_verdict *v)
{
    const decoder_widths w = decoder_common_widths(narrowed);
    const int64_t head_width = w.heads * decoder_head_dim(narrowed);
    if (w.intermediate % 32 != 0) {
        snprintf(v->reason, sizeof v->reason,
                 "quantised files keep down projections in F16, since ffn width %lld is not a "
                 "multiple of 32; older versions fail",
                 (long long)w.intermediate);
    } else if (head_width % 32 != 0) {
        snprintf(v->reason, sizeof v->reason,
                 "quantised files keep output projections in F16, since %lld heads of %lld are not "
                 "a multiple of 32 wide; older versions fail",
                 (long long)w.heads, (long long)decoder_head_dim(narrowed));
    } else {
        const bool k_quants = w.intermediate % 256 == 0 && head_width % 256 == 0;
        snprintf(v->reason, sizeof v->reason, "after convert_hf_to_gguf; %s",
                 k_quants ? "all quantisations"
                          : "K-quants fall back to other types (a width is not a multiple of 256)");
    }
}

static void judge_llama_cpp(const decoder_family *family, const json_t *config,
                            const graph *narrowed, loader_verdict *v)
{
    const json_int_t hidden = json_integer_value(json_object_get(config, family->keys->hidden));
    const decoder_widths w = decoder_common_widths(narrowed);
    if (!judge_shape(narrowed, "its converter and graphs give all layers both",
                     "its converter and graphs give all layers the widths of layer 0", v) ||
        !judge_class(config, family, family->loaders.llama_cpp, narrowed, v)) {
        return;
    }
    if (family->loaders.llama_cpp_multiplies && w.intermediate != 4 * hidden) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "its converter takes the FFN for 4 times as wide as %s; cut heads alone for it",
                 family->keys->hidden);
    } else {
        judge_quantisations(narrowed, v);
    }
}

grail_status decoder_judge_loaders(const architecture *self, const json_t *config,
                                   const graph *narrowed, loader_verdict *verdicts)
{
    verdicts[0] = (loader_verdict){.loader = "transformers", .loads = true};
    verdicts[1] = (loader_verdict){.loader = "vLLM", .loads = true};
    verdicts[2] = (loader_verdict){.loader = "llama.cpp", .loads = true};
    judge_transformers(self, config, narrowed, &verdicts[0]);
    judge_vllm(self->family, config, narrowed, &verdicts[1]);
    judge_llama_cpp(self->family, config, narrowed, &verdicts[2]);
    if (verdicts[0].loads) {
        loader_lines_pretrained("AutoModelForCausalLM", &verdicts[0]);
    }
    return GRAIL_OK;
}
