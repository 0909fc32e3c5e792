/* The graph of a decoder or an encoder:
 *   h += o(attention(rope(q(n)), rope(k(n)), v(n))), n = norm(h)
 *   h += down(act(gate(m)) * up(m)),                 m = norm(h)
 * and logits = head(norm(h)), or the output is norm(h) or h itself. Experts in the place of the FFN
 * are in decoder_experts.h. Families differ in the norms and where they stand, may lack the gate,
 * may read both branches from the same h, and may add a table of positions to the embeddings in
 * place of rope. Factors of whole values are those of the parameters that make them
 * (storage_map.scale), so they have no nodes. Source: the modeling files of the families in Hugging
 * Face transformers. */
#include "arch/decoder.h"

#include "arch/builder.h"
#include "arch/decoder_experts.h"
#include "arch/gguf_family.h"
#include "base/name_list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Embeddings that are scaled are scaled in a tied head, too, which the last norm takes back. */
static double scale_of(const decoder_config *c, const char *part)
{
    const bool ends_branch =
        strcmp(part, "self_attn.o_proj") == 0 || name_ends_with(part, ".down_proj");
    return strcmp(part, "model.embed_tokens") == 0 ? c->embedding_scale
           : strcmp(part, "model.norm") == 0 ? c->logit_scale / (c->tied ? c->embedding_scale : 1.0)
           : ends_branch                     ? c->branch_scale
                                             : 1.0;
}

grail_status build_part(builder *b, const char *part, const char *kind, double offset, int rank,
                        const int64_t shape[], int *out)
{
    enum { TENSOR_SIZE = TENSOR_LONGEST_NAME + DECODER_NAME_SIZE, NUMBER_SIZE = 24 };
    char tensor[TENSOR_SIZE];
    char name[TENSOR_SIZE + NUMBER_SIZE];
    const decoder_config *c = b->c;
    const double scale = scale_of(c, part);
    decoder_place place = c->place(c, b->layer, part, kind);
    storage_axis *rows = &place.map.rows;
    if (c->family->interleaved &&
        (strcmp(part, "self_attn.q_proj") == 0 || strcmp(part, "self_attn.k_proj") == 0)) {
        /* Neighbouring features 2k and 2k + 1 of heads, which are turned together, become features
         * k and head_dim / 2 + k of the parameter. */
        const int64_t heads = rows->level[0].count / c->head_dim;
        *rows = (storage_axis){.first = rows->first,
                               .level = {{c->head_dim / 2, 2}, {2, 1}, {heads, c->head_dim}}};
    }
    place.map.scale = scale == 1.0 ? 0.0 : scale;
    place.map.offset = offset * scale;
    snprintf(tensor, sizeof tensor, "%.*s%s", (int)place.prefix, c->prefix, place.tensor);
    if (!c->family->names_are_tensors) {
        decoder_name_part("model.layers.", b->layer, part, kind, name);
    } else if (storage_axis_is_whole(rows)) {
        snprintf(name, sizeof name, "%s", tensor);
    } else {
        snprintf(name, sizeof name, "%s[%lld]", tensor, (long long)rows->first);
    }
    return graph_add_stored(b->g, name, tensor, &place.map, rank, shape, out);
}

/* Adds a node with PART.weight, one row or kernel for each output, and PART.bias. */
static grail_status add_map(builder *b, const char *part, bool bias, int rank,
                            const int64_t shape[], node *n, int *value)
{
    CHECK(build_part(b, part, "weight", 0.0, rank, shape, &n->weight));
    if (bias) {
        CHECK(build_part(b, part, "bias", 0.0, 1, shape, &n->bias));
    }
    return graph_add_node(b->g, n, value);
}

grail_status build_linear(builder *b, const char *part, bool bias, int64_t in, int64_t out,
                          int input, int *value)
{
    node n = node_of(NODE_LINEAR, b->block, input, GRAPH_NONE);
    return add_map(b, part, bias, 2, (const int64_t[]){out, in}, &n, value);
}

grail_status build_conv(builder *b, const char *part, bool bias, int64_t in, int64_t out,
                        const window2d *window, int *value)
{
    const int64_t shape[] = {out, in, window->height.kernel, window->width.kernel};
    node n = node_of(NODE_CONV2D, b->block, *value, GRAPH_NONE);
    n.window = *window;
    return add_map(b, part, bias, 4, shape, &n, value);
}

grail_status build_activation(builder *b, activation_kind kind, int *value)
{
    node n = node_of(NODE_ACTIVATION, b->block, *value, GRAPH_NONE);
    n.activation = kind;
    return graph_add_node(b->g, &n, value);
}

static grail_status add_norm_of(builder *b, const char *part, int64_t width, int64_t group,
                                double epsilon, int input, int *value)
{
    const decoder_family *family = b->c->family;
    const bool layer_norm = family->layer_norms || family->bare_layer_norms;
    node n = node_of(layer_norm ? NODE_LAYER_NORM : NODE_RMS_NORM, b->block, input, GRAPH_NONE);
    n.norm.epsilon = epsilon;
    n.norm.group = group;
    if (!family->norms_lack_weights) {
        CHECK(
            build_part(b, part, "weight", family->norms_add_one ? 1.0 : 0.0, 1, &width, &n.weight));
    }
    if (family->layer_norms) {
        CHECK(build_part(b, part, "bias", 0.0, 1, &width, &n.bias));
    }
    return graph_add_node(b->g, &n, value);
}

grail_status build_norm(builder *b, const char *part, int64_t width, int64_t group, int input,
                        int *value)
{
    return add_norm_of(b, part, width, group, b->c->epsilon, input, value);
}

grail_status build_plain(builder *b, node_kind kind, int left, int right, int *value)
{
    const node n = node_of(kind, b->block, left, right);
    return graph_add_node(b->g, &n, value);
}

/* Projection of the norm `n` to heads. */
static grail_status add_heads(builder *b, const char *projection, int64_t heads, int n, int *value)
{
    const decoder_config *c = b->c;
    return build_linear(b, projection, c->qkv_bias, c->hidden, heads * c->head_dim, n, value);
}

/* The rotary positions of the layer, on heads of so many features. */
static grail_status add_rope(builder *b, int64_t head_dim, int *value)
{
    const rotary *r = &b->rotary[b->c->layer[b->layer].rotary];
    node rope = node_of(NODE_ROPE, b->block, *value, GRAPH_NONE);
    rope.rope = (rope_attributes){.head_dim = head_dim,
                                  .turned = r->turned,
                                  .factor = r->factor,
                                  .frequency = r->frequency,
                                  .long_frequency = r->long_frequency,
                                  .longest = r->longest};
    return graph_add_node(b->g, &rope, value);
}

/* Queries or keys: the family's norm, and rotary positions. */
static grail_status add_positions(builder *b, const char *norm, int64_t heads, int *value)
{
    const decoder_config *c = b->c;
    const rotary_kind kind = c->layer[b->layer].rotary;
    if (c->family->query_key_norm) {
        CHECK(build_norm(b, norm, c->head_dim, c->head_dim, *value, value));
    } else if (c->family->query_key_norm_wide) {
        CHECK(build_norm(b, norm, heads * c->head_dim, 0, *value, value));
    }
    return kind == ROTARY_NONE ? GRAIL_OK : add_rope(b, c->head_dim, value);
}

/* value = norm(a(n)), the vector that queries, or keys and values, are made of. */
static grail_status add_compressed(builder *b, const char *a, const char *norm, int64_t rank, int n,
                                   int *value)
{
    static const double epsilon = 1e-6; /* whatever config.json says of the others */
    CHECK(build_linear(b, a, b->c->qkv_bias, b->c->hidden, rank, n, value));
    return add_norm_of(b, norm, rank, 0, epsilon, *value, value);
}

/* Heads of features without positions, of x, and behind them those with positions, of y. */
static grail_status add_turned_heads(builder *b, int x, int y, bool shared, int *value)
{
    const decoder_latent *l = &b->c->latent;
    node join = node_of(NODE_JOIN_HEADS, b->block, x, y);
    CHECK(add_rope(b, l->turned, &join.inputs[1]));
    join.join = (join_attributes){.first = l->plain, .second = l->turned, .shared = shared};
    return graph_add_node(b->g, &join, value);
}

static grail_status add_latent_heads(builder *b, const decoder_layer *layer, int n, int qkv[3])
{
    const decoder_latent *l = &b->c->latent;
    const int64_t heads = layer->heads;
    const bool direct = layer->query_rank == 0;
    const int64_t in = direct ? b->c->hidden : layer->query_rank;
    int m = n;
    int kv = 0;
    int turned = 0;
    if (!direct) {
        CHECK(add_compressed(b, "self_attn.q_a_proj", "self_attn.q_a_layernorm", in, n, &m));
    }
    CHECK(build_linear(b, "self_attn.q_proj", false, in, heads * l->plain, m, &qkv[0]));
    CHECK(build_linear(b, "self_attn.q_rope_proj", false, in, heads * l->turned, m, &turned));
    CHECK(add_turned_heads(b, qkv[0], turned, false, &qkv[0]));
    CHECK(
        add_compressed(b, "self_attn.kv_a_proj", "self_attn.kv_a_layernorm", layer->rank, n, &kv));
    CHECK(build_linear(b, "self_attn.k_rope_proj", b->c->qkv_bias, b->c->hidden, l->turned, n,
                       &turned));
    CHECK(build_linear(b, "self_attn.k_proj", false, layer->rank, heads * l->plain, kv, &qkv[1]));
    CHECK(add_turned_heads(b, qkv[1], turned, true, &qkv[1]));
    return build_linear(b, "self_attn.v_proj", false, layer->rank, heads * layer->value, kv,
                        &qkv[2]);
}

/* What a branch adds to h; `n` is what it reads. */
static grail_status add_attention(builder *b, const decoder_layer *layer, int n, int *y)
{
    const decoder_config *c = b->c;
    const int64_t value_dim = c->family->latent ? layer->value : c->head_dim;
    int qkv[3] = {0};
    int x = 0;
    if (c->family->latent) {
        CHECK(add_latent_heads(b, layer, n, qkv));
    } else {
        CHECK(add_heads(b, "self_attn.q_proj", layer->heads, n, &qkv[0]));
        CHECK(add_heads(b, "self_attn.k_proj", layer->kv_heads, n, &qkv[1]));
        CHECK(add_heads(b, "self_attn.v_proj", layer->kv_heads, n, &qkv[2]));
        CHECK(add_positions(b, "self_attn.q_norm", layer->heads, &qkv[0]));
        CHECK(add_positions(b, "self_attn.k_norm", layer->kv_heads, &qkv[1]));
    }
    node attention = node_of(NODE_ATTENTION, b->block, qkv[0], qkv[1]);
    attention.inputs[attention.input_count++] = qkv[2];
    attention.attention.head_dim = c->head_dim;
    attention.attention.window = layer->window;
    attention.attention.bidirectional = c->family->encoder;
    attention.attention.narrows_values = c->family->latent;
    attention.attention.scale = c->score_scale;
    attention.attention.cap = c->score_cap;
    if (c->family->sinks) {
        CHECK(build_part(b, "self_attn.sinks", "", 0.0, 1, &layer->heads, &attention.weight));
    }
    CHECK(graph_add_node(b->g, &attention, &x));
    return build_linear(b, "self_attn.o_proj", c->output_bias, layer->heads * value_dim, c->hidden,
                        x, y);
}

static grail_status add_ffn_activation(builder *b, int *value)
{
    CHECK(build_activation(b, b->c->activation, value));
    return b->c->squares_activation ? build_plain(b, NODE_MULTIPLY, *value, *value, value)
                                    : GRAIL_OK;
}

/* The bounds of a gate, which has none below, or of what it multiplies. */
static grail_status add_clamp(builder *b, bool gate, int *value)
{
    const double limit = b->c->gate_limit;
    node n = node_of(NODE_CLAMP, b->block, *value, GRAPH_NONE);
    n.clamp = (clamp_attributes){
        .low = gate ? -HUGE_VAL : -limit, .high = limit, .offset = gate ? 0.0 : 1.0};
    return limit == 0.0 ? GRAIL_OK : graph_add_node(b->g, &n, value);
}

/* The Linear OF.PROJECTION. */
static grail_status add_projection(builder *b, const char *of, const char *projection, int64_t in,
                                   int64_t out, int input, int *value)
{
    char part[DECODER_NAME_SIZE];
    snprintf(part, sizeof part, "%s.%s", of, projection);
    return build_linear(b, part, b->c->mlp_bias, in, out, input, value);
}

/* The FFN `of`, such as "mlp". */
static grail_status add_feed_forward(builder *b, const char *of, int64_t width, int n, int *y)
{
    const decoder_config *c = b->c;
    int gate = 0;
    int up = 0;
    if (c->family->ungated) {
        CHECK(add_projection(b, of, "up_proj", c->hidden, width, n, &gate));
        CHECK(add_ffn_activation(b, &gate));
    } else {
        CHECK(add_projection(b, of, "gate_proj", c->hidden, width, n, &gate));
        CHECK(add_projection(b, of, "up_proj", c->hidden, width, n, &up));
        CHECK(add_clamp(b, true, &gate));
        CHECK(add_clamp(b, false, &up));
        CHECK(add_ffn_activation(b, &gate));
        CHECK(build_plain(b, NODE_MULTIPLY, gate, up, &gate));
    }
    return add_projection(b, of, "down_proj", width, c->hidden, gate, y);
}

/* h += sigmoid(gate(n)) ffn(n), or ffn(n) */
static grail_status add_shared_expert(builder *b, const decoder_layer *layer, int n, int *h)
{
    const bool gated = b->c->family->mixture.shared_count == NULL;
    int factor = 0;
    int y = 0;
    if (gated) {
        CHECK(build_linear(b, "mlp.shared_expert_gate", false, b->c->hidden, 1, n, &factor));
        CHECK(build_activation(b, ACTIVATION_SIGMOID, &factor));
    }
    CHECK(add_feed_forward(b, "mlp.shared_expert", layer->shared, n, &y));
    node product = node_of(NODE_MULTIPLY, b->block, y, factor);
    product.repeats_second = true;
    CHECK(gated ? graph_add_node(b->g, &product, &y) : GRAIL_OK);
    return build_plain(b, NODE_ADD, *h, y, h);
}

/* h += share ffn of the rows of each expert. The expert of all rows comes last, so that it is
 * fitted to what the others leave. */
static grail_status add_mixture(builder *b, const decoder_layer *layer, int n, int *h)
{
    const decoder_config *c = b->c;
    int shares = 0;
    CHECK(build_linear(b, "mlp.gate", c->family->mixture.router_bias, c->hidden, layer->experts, n,
                       &shares));
    node route = node_of(NODE_ROUTE, b->block, shares, GRAPH_NONE);
    route.route = c->route;
    if (c->route.sigmoid) {
        CHECK(build_part(b, "mlp.gate", "e_score_correction_bias", 0.0, 1, &layer->experts,
                         &route.weight));
    }
    CHECK(graph_add_node(b->g, &route, &shares));
    for (int64_t e = 0; e < layer->experts; e++) {
        char name[DECODER_NAME_SIZE];
        int y = 0;
        node take = node_of(NODE_TAKE_ROWS, b->block, n, shares); /* those that it has a share in */
        take.share = e;
        CHECK(graph_add_node(b->g, &take, &y));
        decoder_name_expert(e, name);
        CHECK(add_feed_forward(b, name, layer->expert_width[e], y, &y));
        node put = node_of(NODE_PUT_ROWS, b->block, y, shares);
        put.inputs[put.input_count++] = *h;
        put.share = e;
        CHECK(graph_add_node(b->g, &put, h));
    }
    return layer->shared > 0 ? add_shared_expert(b, layer, n, h) : GRAIL_OK;
}

/* The norm before a branch that reads h. */
static grail_status add_norm_before(builder *b, const char *part, int h, int *n)
{
    const decoder_family *family = b->c->family;
    const bool bare = family->norms == NORM_BEHIND || family->norms == NORM_OF_SUM;
    *n = h;
    return bare ? GRAIL_OK : build_norm(b, part, b->c->hidden, 0, h, n);
}

/* h += y, or its norm; or h = norm(h + y). The last norm of a network is behind all blocks, as that
 * of the others is. */
static grail_status add_branch(builder *b, const char *norm, bool is_last, int y, int *h)
{
    const branch_norms norms = b->c->family->norms;
    if (norms == NORM_BEHIND || norms == NORM_BEFORE_AND_BEHIND) {
        CHECK(build_norm(b, norm, b->c->hidden, 0, y, &y));
    }
    CHECK(build_plain(b, NODE_ADD, *h, y, h));
    if (norms != NORM_OF_SUM) {
        return GRAIL_OK;
    }
    b->block += b->layer == b->c->layers - 1 && is_last ? 1 : 0;
    return build_norm(b, norm, b->c->hidden, 0, *h, h);
}

static grail_status add_layer(builder *b, const decoder_layer *layer, int *h)
{
    const decoder_config *c = b->c;
    const int before = *h;
    int n = 0;
    int y = 0;
    const bool bare = c->family->bare_begin && b->layer == 0;
    if (bare) {
        n = *h;
    } else if (layer->heads > 0 || c->shares_norm) {
        CHECK(add_norm_before(b, "input_layernorm", *h, &n));
    }
    if (layer->heads > 0) {
        CHECK(add_attention(b, layer, n, &y));
        CHECK(add_branch(b, "self_attn.branch_norm", layer->intermediate == 0, y, h));
    }
    if ((layer->intermediate > 0 || layer->experts > 0) && !c->shares_norm) {
        CHECK(add_norm_before(b, "post_attention_layernorm", c->parallel ? before : *h, &n));
    }
    if (layer->experts > 0) {
        return add_mixture(b, layer, n, h);
    }
    if (layer->intermediate > 0) {
        CHECK(add_feed_forward(b, "mlp", layer->intermediate, n, &y));
        CHECK(add_branch(b, "mlp.branch_norm", true, y, h));
    }
    return GRAIL_OK;
}

static grail_status add_embedding(builder *b, int *h)
{
    const decoder_config *c = b->c;
    node n = node_of(NODE_EMBEDDING, b->block, b->g->input, GRAPH_NONE);
    CHECK(build_part(b, "model.embed_tokens", "weight", 0.0, 2,
                     (const int64_t[]){c->vocabulary, c->hidden}, &n.weight));
    b->g->vocabulary = c->vocabulary;
    CHECK(graph_add_node(b->g, &n, h));
    if (c->family->learned_positions) {
        const int64_t rows = c->context + c->family->spare_positions;
        node positions = node_of(NODE_POSITIONS, b->block, *h, GRAPH_NONE);
        positions.positions.may_be_fewer = true;
        positions.positions.first = c->family->spare_positions;
        CHECK(build_part(b, "model.embed_positions", "weight", 0.0, 2,
                         (const int64_t[]){rows, c->hidden}, &positions.weight));
        CHECK(graph_add_node(b->g, &positions, h));
    }
    if (c->family->token_types) {
        node types = node_of(NODE_POSITIONS, b->block, *h, GRAPH_NONE);
        types.positions.one_for_all = true;
        CHECK(build_part(b, "model.token_types", "weight", 0.0, 2,
                         (const int64_t[]){c->token_types, c->hidden}, &types.weight));
        CHECK(graph_add_node(b->g, &types, h));
    }
    return c->family->embedding_norm ? build_norm(b, "model.embed_norm", c->hidden, 0, *h, h)
                                     : GRAIL_OK;
}

static grail_status add_head(builder *b, int *h)
{
    const decoder_config *c = b->c;
    b->g->gives_hidden = c->family->encoder;
    if (c->family->norms != NORM_OF_SUM) {
        CHECK(build_norm(b, "model.norm", c->hidden, 0, *h, h));
    }
    if (c->family->encoder) {
        return GRAIL_OK;
    }
    CHECK(build_linear(b, c->tied ? "model.embed_tokens" : "lm_head", c->family->head_bias,
                       c->hidden, c->vocabulary, *h, h));
    node cap = node_of(NODE_SOFT_CAP, b->block, *h, GRAPH_NONE);
    cap.cap = c->logit_cap;
    return c->logit_cap == 0.0 ? GRAIL_OK : graph_add_node(b->g, &cap, h);
}

grail_status decoder_graph(const char *source, decoder_config *c, graph **out)
{
    grail_status status = GRAIL_OK;
    builder b = {.c = c, .layer = GRAPH_NONE, .block = GRAPH_NONE};
    int h = 0;
    TRY(graph_create(&b.g));
    b.g->one_width = decoder_experts_have_one_width(c->family);
    for (int i = 0; i < ROTARY_KINDS; i++) { /* whose tables are left to the graph */
        rotary *r = &c->rotary[i];
        b.rotary[i] = *r;
        TRY(r->frequency == NULL ? GRAIL_OK : graph_own_table(b.g, &r->frequency));
        TRY(r->long_frequency == NULL ? GRAIL_OK : graph_own_table(b.g, &r->long_frequency));
    }
    TRY((c->family->begin != NULL ? c->family->begin : add_embedding)(&b, &h));
    for (b.layer = 0; b.layer < c->layers; b.layer++) {
        b.block = b.layer;
        TRY(add_layer(&b, &c->layer[b.layer], &h));
    }
    b.layer = GRAPH_NONE;
    b.block = (int)c->layers;
    TRY((c->family->end != NULL ? c->family->end : add_head)(&b, &h));
    TRY(graph_finish(b.g, h));
    *out = b.g;
    b.g = NULL;
out:
    if (status != GRAIL_OK) {
        error_prefix("%s", source);
    }
    graph_free(b.g);
    return status;
}

/* -- slots of `architecture` that all decoders fill alike -------------------------------------- */

/* The configuration of a decoder states all its widths; the tensors show how they are called, and
 * how a GGUF file stores them. */
grail_status decoder_build(const architecture *self, const char *source, const json_t *config,
                           const checkpoint *weights, graph **out)
{
    grail_status status = GRAIL_OK;
    decoder_config c = {0};
    TRY(decoder_config_read(self->family, source, config, &c));
    for (int64_t i = 0; self->family->encoder && weights != NULL && i < checkpoint_count(weights);
         i++) {
        c.old_norm_names = c.old_norm_names ||
                           name_ends_with(checkpoint_plain_name(weights, i), ".LayerNorm.gamma");
    }
    if (weights != NULL && checkpoint_metadata(weights) != NULL) {
        TRY(gguf_complete_config(weights, &c));
    }
    TRY(decoder_graph(source, &c, out));
out:
    decoder_config_fini(&c);
    return status;
}

const char *decoder_base(const architecture *self)
{
    const decoder_family *family = self->family;
    return family->prefix != NULL ? family->prefix : family->base != NULL ? family->base : "model.";
}

int64_t decoder_context(const architecture *self, const json_t *config)
{
    const decoder_family *family = self->family;
    const json_t *value = json_object_get(config, decoder_keys_of(family)->context);
    const int64_t stated =
        json_is_integer(value) ? (int64_t)json_integer_value(value) : family->default_context;
    return stated - (family->counts_spare ? family->spare_positions : 0);
}

/* Layers that predict further tokens may have names of their own, as those of qwen3_next, and a
 * trainer may add a head that tells the value of a text (trl). */
outside_part decoder_outside(const char *tensor)
{
    if (name_begins_with(tensor, "mtp.") || name_begins_with(tensor, "model.mtp.")) {
        return OUTSIDE_PREDICTIONS;
    }
    return name_begins_with(tensor, "v_head.") ? OUTSIDE_WEIGHTS : OUTSIDE_REFUSED;
}

/* Widths are not settings: the tensors determine them. */
const char *const decoder_usual_settings[] = {
    "hidden_act",     "rms_norm_eps",       "max_position_embeddings",
    "sliding_window", "use_sliding_window", NULL};
