/* Describing a narrowed decoder so that stock loaders accept it.
 * docs/formats.md says what each loader accepts. */
#include "arch/decoder.h"

#include <stdio.h>
#include <string.h>

typedef struct layer_widths {
    int64_t intermediate, heads, kv_heads;
} layer_widths;

static const graph_parameter *find_parameter(const graph *g, int layer, const char *part)
{
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, part);
    return &g->parameters[graph_find_parameter(g, name)];
}

static int64_t head_dim_of(const graph *g)
{
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_ATTENTION) {
            return g->nodes[n].head_dim;
        }
    }
    return 1;
}

static layer_widths widths_of(const graph *g, int layer)
{
    const int64_t head_dim = head_dim_of(g);
    return (layer_widths){
        .intermediate = find_parameter(g, layer, "mlp.down_proj")->shape[1],
        .heads = find_parameter(g, layer, "self_attn.q_proj")->shape[0] / head_dim,
        .kv_heads = find_parameter(g, layer, "self_attn.k_proj")->shape[0] / head_dim,
    };
}

static bool same_widths(const layer_widths *a, const layer_widths *b)
{
    return a->intermediate == b->intermediate && a->heads == b->heads && a->kv_heads == b->kv_heads;
}

static bool is_uniform(const graph *g)
{
    const layer_widths first = widths_of(g, 0);
    for (int layer = 1; layer < g->block_count; layer++) {
        const layer_widths other = widths_of(g, layer);
        if (!same_widths(&first, &other)) {
            return false;
        }
    }
    return true;
}

static grail_status put_widths(json_t *object, const layer_widths *w)
{
    grail_status status = GRAIL_OK;
    TRY(json_put(object, "intermediate_size", json_integer(w->intermediate)));
    TRY(json_put(object, "num_attention_heads", json_integer(w->heads)));
    TRY(json_put(object, "num_key_value_heads", json_integer(w->kv_heads)));
out:
    return status;
}

static grail_status put_layers(const graph *narrowed, const layer_widths *common, json_t *config)
{
    grail_status status = GRAIL_OK;
    char key[24];
    json_t *layers = json_object();
    for (int layer = 0; layer < narrowed->block_count; layer++) {
        const layer_widths own = widths_of(narrowed, layer);
        if (same_widths(&own, common)) {
            continue;
        }
        json_t *entry = json_object();
        snprintf(key, sizeof key, "%d", layer);
        TRY(json_put(layers, key, entry));
        TRY(put_widths(entry, &own));
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

static bool heads_fill_hidden(const json_t *config)
{
    const json_int_t hidden = json_integer_value(json_object_get(config, "hidden_size"));
    const json_int_t heads = json_integer_value(json_object_get(config, "num_attention_heads"));
    return heads > 0 && hidden % heads == 0;
}

/* LlamaConfig (transformers 5) refuses hidden_size % heads != 0 even with head_dim; MistralConfig
 * does not, and without biases and windows it is the same network with the same tensor names. */
static grail_status relabel_for_odd_heads(json_t *config)
{
    grail_status status = GRAIL_OK;
    if (!is_type(config, "llama") || heads_fill_hidden(config) || says(config, "attention_bias") ||
        says(config, "mlp_bias")) {
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

grail_status decoder_describe_narrowed(const graph *narrowed, json_t *config)
{
    grail_status status = GRAIL_OK;
    const layer_widths first = widths_of(narrowed, 0);
    const bool uniform = is_uniform(narrowed);
    const json_int_t heads = json_integer_value(json_object_get(config, "num_attention_heads"));
    json_object_del(config, "per_layer_config");
    TRY(put_widths(config, &first));
    if (first.heads != heads || !uniform) { /* head_dim can no longer be derived from the heads */
        TRY(json_put(config, "head_dim", json_integer(head_dim_of(narrowed))));
    }
    if (uniform) {
        TRY(relabel_for_odd_heads(config));
    } else {
        TRY(put_layers(narrowed, &first, config));
    }
out:
    return status;
}

static void judge_transformers(const json_t *config, bool uniform, loader_verdict *v)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (!uniform) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "the layers have different widths; no stock class supports this");
    } else if (is_type(config, "llama") && !heads_fill_hidden(config)) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "version 5 needs hidden_size %% heads = 0 for llama, and the biases rule out the "
                 "mistral class (4.45 to 4.x load it)");
    } else if (json_object_get(config, "head_dim") != NULL && !heads_fill_hidden(config)) {
        snprintf(v->reason, sizeof v->reason, "as %s, version 4.45 or newer (explicit head_dim)",
                 type);
    } else {
        snprintf(v->reason, sizeof v->reason, "as %s", type);
    }
}

static void judge_vllm(const json_t *config, bool uniform, const graph *narrowed, loader_verdict *v)
{
    const json_int_t hidden = json_integer_value(json_object_get(config, "hidden_size"));
    const layer_widths w = widths_of(narrowed, 0);
    const char *act = json_string_value(json_object_get(config, "hidden_act"));
    if (!uniform) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "the layers have different widths; its stock classes give all layers the same");
    } else if (is_type(config, "qwen2") && w.heads * head_dim_of(narrowed) != hidden) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "its qwen2 class takes head_dim = hidden_size / heads; cut ffn alone for it");
    } else if (act != NULL && strcmp(act, "silu") != 0) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "its classes support only silu, but this network has %s", act);
    } else {
        snprintf(v->reason, sizeof v->reason,
                 "tensor parallelism must divide %lld heads, %lld KV heads and ffn %lld",
                 (long long)w.heads, (long long)w.kv_heads, (long long)w.intermediate);
    }
}

static void judge_llama_cpp(const json_t *config, bool uniform, const graph *narrowed,
                            loader_verdict *v)
{
    const json_int_t hidden = json_integer_value(json_object_get(config, "hidden_size"));
    const layer_widths w = widths_of(narrowed, 0);
    const int64_t head_width = w.heads * head_dim_of(narrowed);
    if (!uniform) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "the layers have different widths; its converter and graphs give all layers the "
                 "widths of layer 0");
    } else if (is_type(config, "qwen2") && head_width != hidden) {
        v->loads = false;
        snprintf(v->reason, sizeof v->reason,
                 "its qwen2 graph needs heads * head_dim = hidden_size; cut ffn alone for it");
    } else if (w.intermediate % 32 != 0) {
        snprintf(v->reason, sizeof v->reason,
                 "F16 and BF16 only: ffn width %lld is not a multiple of 32, so block quantisation "
                 "fails (use --align 32)",
                 (long long)w.intermediate);
    } else if (head_width % 32 != 0) {
        snprintf(v->reason, sizeof v->reason,
                 "F16 and BF16 only: %lld heads of %lld are not a multiple of 32 wide, so block "
                 "quantisation fails (cut another number of heads)",
                 (long long)w.heads, (long long)head_dim_of(narrowed));
    } else {
        const bool k_quants = w.intermediate % 256 == 0 && head_width % 256 == 0;
        snprintf(v->reason, sizeof v->reason, "after convert_hf_to_gguf; %s",
                 k_quants ? "all quantisations"
                          : "K-quants fall back to other types (a width is not a multiple of 256)");
    }
}

grail_status decoder_judge_loaders(const json_t *config, const graph *narrowed,
                                   loader_verdict *verdicts)
{
    const bool uniform = is_uniform(narrowed);
    verdicts[0] = (loader_verdict){.loader = "transformers", .loads = true};
    verdicts[1] = (loader_verdict){.loader = "vLLM", .loads = true};
    verdicts[2] = (loader_verdict){.loader = "llama.cpp", .loads = true};
    judge_transformers(config, uniform, &verdicts[0]);
    judge_vllm(config, uniform, narrowed, &verdicts[1]);
    judge_llama_cpp(config, uniform, narrowed, &verdicts[2]);
    return GRAIL_OK;
}
