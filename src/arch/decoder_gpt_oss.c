/* gpt-oss. Source: configuration_gpt_oss.py and modeling_gpt_oss.py of Hugging Face transformers.
 */
#include "arch/decoder.h"

#include <string.h>

/* `count` vectors of a tensor that holds one of `width` for each expert, its gates and ups turn by
 * turn. */
static storage_axis turn_by_turn(int64_t expert, int64_t width, bool up)
{
    return (storage_axis){.first = 2 * expert * width + (up ? 1 : 0),
                          .level = {{.count = width, .stride = 2}}};
}

static storage_axis one_after_another(int64_t expert, int64_t width)
{
    return (storage_axis){.first = expert * width, .level = {{.count = width}}};
}

/* The experts' matrices lie one after another, each [in, out], and their biases likewise. */
static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    int64_t e = 0;
    const char *of_expert = decoder_expert_part(part, &e);
    if (of_expert == NULL) {
        return decoder_place_plain(c, layer, part, kind);
    }
    const int64_t width = c->layer[layer].expert_width[e];
    const bool is_bias = strcmp(kind, "bias") == 0;
    const bool is_up = strcmp(of_expert, "up_proj") == 0;
    storage_map map = {.transposed = !is_bias};
    if (strcmp(of_expert, "down_proj") == 0) {
        *(is_bias ? &map.rows : &map.columns) = one_after_another(e, is_bias ? c->hidden : width);
        decoder_place down = decoder_place_plain(
            c, layer, is_bias ? "mlp.experts.down_proj_bias" : "mlp.experts.down_proj", "");
        down.map = map;
        return down;
    }
    map.rows = turn_by_turn(is_bias ? e : 0, width, is_up);
    if (!is_bias) {
        map.columns = one_after_another(e, c->hidden);
    }
    decoder_place gates = decoder_place_plain(
        c, layer, is_bias ? "mlp.experts.gate_up_proj_bias" : "mlp.experts.gate_up_proj", "");
    gates.map = map;
    return gates;
}

/* The gate is x sigmoid(1.702 x), whatever "hidden_act" says. */
static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    static const double known = 1.702;
    double slope = known;
    CHECK(json_get_real(source, json, "swiglu_alpha", known, &slope));
    if (slope != known) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: \"swiglu_alpha\" is %g, but grail has gates of %g alone", source,
                         slope, known);
    }
    CHECK(decoder_read_factor(source, json, "swiglu_limit", 7.0, &c->gate_limit));
    if (c->gate_limit < 0.0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"swiglu_limit\" is %g; it must be above 0",
                         source, c->gate_limit);
    }
    if (json_object_get(json, "rope_parameters") == NULL &&
        json_object_get(json, "rope_scaling") == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"rope_parameters\" and \"rope_scaling\" are missing; transformers "
                         "then scales positions by a rule of its own: state it, or a \"rope_type\" "
                         "of \"default\"",
                         source);
    }
    c->activation = ACTIVATION_QUICK_GELU;
    c->mlp_bias = true;
    return GRAIL_OK;
}

static const decoder_family family = {
    .place = place,
    .names = {{"mlp.gate", "mlp.router"}},
    .read = read,
    .default_kv_heads = 8,
    .default_head_dim = 64,
    .default_context = 131072,
    .default_epsilon = 1e-5,
    .default_theta = 150000.0,
    .reads_attention_bias = true,
    .attention_bias_by_default = true,
    .sinks = true,
    .default_window = 128,
    .window_pattern = 2,
    .mixture = {.width = "intermediate_size",
                .default_count = 128,
                .default_chosen = 4,
                .default_width = 2880,
                .are_stacked = true,
                .router_bias = true},
};

DECODER(gpt_oss, family, decoder_usual_settings);
