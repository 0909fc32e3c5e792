/* Who opens a narrowed decoder. Source: the configuration and model classes of transformers 5 and
 * vLLM, and llama.cpp's converter and models. */
#include "arch/decoder.h"
#include "arch/decoder_widths.h"
#include "arch/gguf_family.h"
#include "arch/gguf_mixture.h"
#include "arch/loader_lines.h"

#include <stdio.h>
#include <string.h>

/* torch._grouped_mm, by which transformers 5 multiplies experts, takes rows of whole 16 bytes: of 8
 * numbers in bf16. */
enum { EXPERTS_ALIGN = 8 };

/* What vLLM's kernels for attention from a narrow vector (MLA) are made for: 512 features beside 64
 * that are turned. */
enum { VLLM_RANK = 512 };

/* Lists of longrope have one factor for each pair; Phi3Config takes a head for hidden / heads
 * features when it checks their length. */
static bool lists_fit(const json_t *config, const decoder_keys *keys)
{
    const char *type = NULL;
    const json_t *rope = rotary_scaling(config, &type);
    const json_t *list = json_object_get(rope, "short_factor");
    const json_t *outside = json_object_get(config, "partial_rotary_factor");
    const json_t *inside = json_object_get(rope, "partial_rotary_factor");
    const json_t *stated = json_is_number(inside) ? inside : outside;
    const double partial = json_is_number(stated) ? json_number_value(stated) : 1.0;
    const json_int_t hidden = json_integer_value(json_object_get(config, keys->hidden));
    const json_int_t heads = json_integer_value(json_object_get(config, keys->heads));
    return list == NULL || heads == 0 ||
           (json_int_t)((double)(hidden / heads) * partial) / 2 ==
               (json_int_t)json_array_size(list);
}

/* Whether the loader has a class of the family, which takes as many features for each head. */
static bool judge_class(const json_t *config, const decoder_family *family, head_rule rule,
                        const decoder_shape *s, loader_verdict *v)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_int_t hidden =
        json_integer_value(json_object_get(config, decoder_keys_of(family)->hidden));
    if (rule == HEADS_UNKNOWN) {
        refuse(v, "it has no class for %s", type);
    } else if (rule == HEADS_UNTRIED) {
        refuse(v, "not tried with %s", type);
    } else if (rule == HEADS_DERIVED && s->common.heads > 0 &&
               s->common.heads * s->head_dim != hidden) {
        refuse(v, "its %s class takes head_dim = %s / heads; cut ffn alone for it", type,
               decoder_keys_of(family)->hidden);
    }
    return v->loads;
}

static void judge_transformers(const architecture *self, const json_t *config,
                               const decoder_shape *s, loader_verdict *v)
{
    const decoder_keys *keys = decoder_keys_of(self->family);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *scaling = NULL;
    (void)rotary_scaling(config, &scaling);
    const bool divides = self->family->loaders.transformers == HEADS_DIVIDE && type != NULL &&
                         strcmp(type, self->name) == 0;
    if (!s->uniform && self->family->classes != NULL) {
        remark(v, "version 4.57 or newer, with trust_remote_code=True: modeling_grail.py beside "
                  "the weights has the classes");
        loader_lines_pretrained("AutoModelForCausalLM", true, v);
        return;
    }
    if (s->lacks_sublayers) {
        refuse(v, "layers lack their attention or FFN; no stock class supports this");
        return;
    }
    if (!s->uniform) {
        refuse(v, "the layers %shave different widths; no stock class supports this",
               s->common.experts > 0 ? "or experts " : "");
        return;
    }
    if (!judge_class(config, self->family, self->family->loaders.transformers, s, v)) {
        return;
    }
    if (divides && !decoder_heads_fill(config, keys)) {
        refuse(v, "version 5 needs hidden_size %% heads = 0 for %s%s", type,
               decoder_config_is(config, "llama")
                   ? ", and the biases rule out the mistral class (4.45 to 4.x load it)"
                   : "; keep a number of heads that divides it");
    } else if (self->family->loaders.pairs_behind_rank && s->common.rank % 2 != 0) {
        refuse(v, "its class turns neighbours as complex numbers, which in F32 needs an even "
                  "kv_lora_rank; keep an even one");
    } else if (decoder_config_is(config, "phi3") && !lists_fit(config, keys)) {
        refuse(v, "Phi3Config checks the lists of longrope with hidden_size / heads for head_dim; "
                  "cut ffn alone for it");
    } else if (s->common.expert % EXPERTS_ALIGN != 0) {
        remark(v,
               "as %s, in version 5 with experts_implementation=\"eager\": its grouped products "
               "need experts of a multiple of %d, and these are %lld wide",
               type, EXPERTS_ALIGN, (long long)s->common.expert);
    } else if (decoder_config_is(config, "mistral") && strcmp(scaling, "default") != 0) {
        remark(v, "as mistral, version 4.48 or newer (older ones ignore rope_scaling there)");
    } else if (json_object_get(config, "head_dim") != NULL && !decoder_heads_fill(config, keys)) {
        remark(v, "as %s, version 4.45 or newer (explicit head_dim)", type);
    } else {
        remark(v, "as %s", type);
    }
    loader_lines_pretrained(self->family->encoder ? "AutoModel" : "AutoModelForCausalLM", false, v);
}

/* Whether the activation is silu, in a family that has silu unless its configuration names another.
 */
static bool is_silu(const decoder_family *family, const json_t *config)
{
    const char *act =
        json_string_value(json_object_get(config, decoder_keys_of(family)->activation));
    return family->default_activation != ACTIVATION_SILU || act == NULL || strcmp(act, "silu") == 0;
}

/* Whether vLLM's DeciLMForCausalLM computes it: the network begins with an attention, which begins
 * its residual stream, and has no window. */
static bool fits_deci(const decoder_family *family, const json_t *config, const graph *narrowed,
                      const decoder_shape *s)
{
    int first = 0;
    decoder_widths w = decoder_widths_of(narrowed, first);
    while (decoder_widths_are_none(&w) && ++first < narrowed->block_count) {
        w = decoder_widths_of(narrowed, first);
    }
    return family->loaders.vllm_deci && w.heads > 0 && s->heads_uniform &&
           is_silu(family, config) &&
           (family->default_window == 0 || json_is_null(json_object_get(config, "sliding_window")));
}

/* Its backend for classes of transformers takes widths of FFNs from the modules, but one number of
 * heads from the configuration. */
static void judge_vllm(const decoder_family *family, const json_t *config, const graph *narrowed,
                       const decoder_shape *s, loader_verdict *v)
{
    const decoder_widths *w = &s->common;
    const bool by_deci = fits_deci(family, config, narrowed, s);
    if (s->lacks_sublayers && by_deci) {
        remark(v, "with trust_remote_code, as DeciLMForCausalLM (chosen by --hf-overrides; read, "
                  "not tried)");
    } else if (s->lacks_sublayers) {
        refuse(v, "layers lack their attention or FFN; its stock classes give all layers both");
    } else if (!s->uniform && family->classes == NULL) {
        refuse(v, "the layers have different widths; its stock classes give all layers the same");
    } else if (!s->uniform && !s->heads_uniform) {
        refuse(v, "the layers have different numbers of heads, and it takes one for all; FFNs may "
                  "differ");
    } else if (!s->uniform) {
        remark(v,
               "with trust_remote_code, by its backend for classes of transformers%s, since FFNs "
               "alone differ",
               by_deci ? " or as DeciLMForCausalLM" : "");
    } else if (!judge_class(config, family, family->loaders.vllm, s, v)) {
        v->loads = false; /* which has said why */
    } else if (w->rank > 0 && w->rank != VLLM_RANK) {
        refuse(v, "its kernels for such attention take a kv_lora_rank of %d, and this one is %lld",
               VLLM_RANK, (long long)w->rank);
    } else if (!family->ungated && !is_silu(family, config)) {
        refuse(v, "its classes support only silu, but this network has %s",
               json_string_value(json_object_get(config, decoder_keys_of(family)->activation)));
    } else {
        remark(v, "tensor parallelism must divide %lld heads, %lld KV heads and ffn %lld",
               (long long)w->heads, (long long)w->kv_heads,
               (long long)(w->expert > 0 ? w->expert : w->intermediate));
    }
}

/* A width of the layer's FFN or experts that is not a multiple of `block`; 0 where all are. */
static int64_t odd_ffn(const decoder_widths *w, int64_t block)
{
    return w->intermediate % block != 0 ? w->intermediate
           : w->expert % block != 0     ? w->expert
           : w->shared % block != 0     ? w->shared
                                        : 0;
}

/* Features that each head gives to the output projection. */
static int64_t value_dim(const decoder_shape *s, const decoder_widths *w)
{
    return w->value > 0 ? w->value : s->head_dim;
}

/* The first layer with a width that is not a multiple of `block`. */
static int find_odd_layer(const graph *narrowed, const decoder_shape *s, int64_t block)
{
    for (int layer = 0; layer < narrowed->block_count; layer++) {
        const decoder_widths w = decoder_widths_of(narrowed, layer);
        if (odd_ffn(&w, block) != 0 || w.heads * value_dim(s, &w) % block != 0) {
            return layer;
        }
    }
    return GRAPH_NONE;
}

/* What grail quantize says of Q4_K; "" where it suits all matrices. */
static grail_status describe_k_quants(const graph *dense, const graph *narrowed,
                                      char said[GGUF_SHORTFALL_SIZE])
{
    grail_status status = GRAIL_OK;
    grail_dtype *dtypes = NULL;
    int others = 0;
    const gguf_mixture q4_k = {.type = GRAIL_DTYPE_Q4_K, .table = GRAIL_DTYPE_COUNT};
    TRY(memory_new(&dtypes, (size_t)narrowed->parameter_count, sizeof dtypes[0]));
    TRY(gguf_mixture_choose(&q4_k, narrowed, dtypes, &others));
    status = gguf_mixture_judge(&q4_k, dense, narrowed, dtypes, said);
    if (status == GRAIL_ERROR_SHAPE) { /* no matrix has it */
        error_copy(said, GGUF_SHORTFALL_SIZE);
        status = GRAIL_OK;
    }
out:
    memory_free(dtypes);
    return status;
}

/* Which quantisations the widths allow; `way` says how the file is made, `k_quants` what is to be
 * said of those, or "". */
static void judge_quantisations(const char *way, const char *k_quants, const graph *narrowed,
                                const decoder_shape *s, loader_verdict *v)
{
    const int odd = find_odd_layer(narrowed, s, 32);
    const decoder_widths w = odd == GRAPH_NONE ? s->common : decoder_widths_of(narrowed, odd);
    if (odd_ffn(&w, 32) != 0) {
        remark(v,
               "%s; quantised files keep down projections in F16, since ffn width %lld is not a "
               "multiple of 32; older versions fail",
               way, (long long)odd_ffn(&w, 32));
    } else if (odd != GRAPH_NONE) {
        remark(v,
               "%s; quantised files keep output projections in F16, since %lld heads of %lld are "
               "not a multiple of 32 wide; older versions fail",
               way, (long long)w.heads, (long long)value_dim(s, &w));
    } else {
        remark(v, "%s; %s", way, k_quants[0] == 0 ? "all quantisations" : k_quants);
    }
}

/* What grail export writes, if it writes the network, may be another family than the converter of
 * llama.cpp writes, which takes more shapes. */
static grail_status judge_llama_cpp(const architecture *self, const json_t *config,
                                    const graph *dense, const graph *narrowed,
                                    const decoder_shape *s, loader_verdict *v)
{
    const decoder_family *family = self->family;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_int_t hidden =
        json_integer_value(json_object_get(config, decoder_keys_of(family)->hidden));
    const bool heads_fill =
        s->common.heads * s->head_dim == json_integer_value(json_object_get(config, "hidden_size"));
    const gguf_family *exported =
        type == NULL || s->lacks_sublayers ? NULL : gguf_family_for(type, s->uniform, heads_fill);
    char lacks[LOADER_REASON_SIZE];
    v->loads = true;
    if (gguf_family_for(self->name, true, true) != NULL && /* whose graphs have no more */
        gguf_family_lacks(narrowed, decoder_context(self, config), lacks)) {
        refuse(v, "%s", lacks);
    } else if (exported != NULL && gguf_family_check_biases(exported, narrowed) == GRAIL_OK) {
        char way[64];
        char k_quants[GGUF_SHORTFALL_SIZE] = "";
        CHECK(describe_k_quants(dense, narrowed, k_quants));
        snprintf(way, sizeof way, "as a GGUF file that grail export writes (%s)", exported->name);
        judge_quantisations(way, k_quants, narrowed, s, v);
    } else if (s->lacks_sublayers) {
        refuse(v, "layers lack their attention or FFN; its graphs give all layers both");
    } else if (!s->uniform) {
        refuse(v, "the layers have different widths; its graph of the family gives all layers the "
                  "widths of layer 0");
    } else if (!judge_class(config, family, family->loaders.llama_cpp, s, v)) {
        v->loads = false; /* which has said why */
    } else if (family->loaders.llama_cpp_multiplies && s->common.intermediate != 4 * hidden) {
        refuse(v, "its converter takes the FFN for 4 times as wide as %s; cut heads alone for it",
               decoder_keys_of(family)->hidden);
    } else {
        v->reads_names = true;
        judge_quantisations("after convert_hf_to_gguf",
                            find_odd_layer(narrowed, s, 256) == GRAPH_NONE
                                ? ""
                                : "K-quants give other types to matrices whose rows are no "
                                  "multiples of 256",
                            narrowed, s, v);
    }
    return GRAIL_OK;
}

grail_status decoder_judge_loaders(const architecture *self, const json_t *config,
                                   const graph *dense, const graph *narrowed,
                                   loader_verdict *verdicts)
{
    const decoder_shape s = decoder_shape_of(narrowed);
    verdicts[0] = (loader_verdict){.loader = "transformers", .loads = true};
    verdicts[1] = (loader_verdict){.loader = "vLLM", .loads = true, .reads_names = true};
    verdicts[2] = (loader_verdict){.loader = "llama.cpp", .loads = true};
    judge_transformers(self, config, &s, &verdicts[0]);
    judge_vllm(self->family, config, narrowed, &s, &verdicts[1]);
    return judge_llama_cpp(self, config, dense, narrowed, &s, &verdicts[2]);
}

void judge_packed_weights(loader_verdict *verdicts)
{
    loader_verdict *transformers = &verdicts[0];
    loader_verdict *llama_cpp = &verdicts[2];
    const size_t used = strlen(transformers->reason);
    if (transformers->loads) {
        snprintf(transformers->reason + used, sizeof transformers->reason - used,
                 "; with the package compressed-tensors");
    }
    refuse(llama_cpp,
           "the weights are quantised for transformers and vLLM; grail quantize writes GGUF files");
    llama_cpp->lines[0] = 0;
}
