/* The graph of a decoder:
 *   h += o(attention(rope(q(n)), rope(k(n)), v(n))), n = norm(h)
 *   h += down(act(gate(m)) * up(m)),                 m = norm(h)
 * and logits = head(norm(h)). Families differ in the norm, may lack the gate, and may add a table
 * of positions to the embeddings in place of rope. Source: the modeling files of the families in
 * Hugging Face transformers. */
#include "arch/decoder.h"

#include <math.h>
#include <stdio.h>

typedef struct builder {
    graph *g;
    const decoder_config *c;
    const double *frequency; /* of the rotary positions, owned by the graph */
    int block;
} builder;

static void name_part(int layer, const char *part, const char *kind, char name[DECODER_NAME_SIZE])
{
    if (layer == GRAPH_NONE) {
        snprintf(name, DECODER_NAME_SIZE, "%s.%s", part, kind);
    } else {
        snprintf(name, DECODER_NAME_SIZE, "model.layers.%d.%s.%s", layer, part, kind);
    }
}

decoder_place decoder_place_plain(const decoder_config *c, int layer, const char *part,
                                  const char *kind)
{
    (void)c;
    decoder_place place = {0};
    name_part(layer, part, kind, place.tensor);
    return place;
}

/* Parameter PART.KIND of the layer that is being built, or outside of all, from where the family
 * stores it. */
static grail_status add_part(builder *b, const char *part, const char *kind, int rank,
                             const int64_t shape[], int *out)
{
    char name[DECODER_NAME_SIZE];
    const int layer = b->block < b->c->layers ? b->block : GRAPH_NONE;
    const decoder_place place = b->c->family->place(b->c, layer, part, kind);
    name_part(layer, part, kind, name);
    return graph_add_stored(b->g, name, place.tensor, &place.map, rank, shape, out);
}

/* value = linear(input) with PART.weight and PART.bias. */
static grail_status add_linear(builder *b, const char *part, bool bias, int64_t in, int64_t out,
                               int input, int *value)
{
    node n = node_of(NODE_LINEAR, b->block, input, GRAPH_NONE);
    CHECK(add_part(b, part, "weight", 2, (const int64_t[]){out, in}, &n.weight));
    if (bias) {
        CHECK(add_part(b, part, "bias", 1, &out, &n.bias));
    }
    return graph_add_node(b->g, &n, value);
}

static grail_status add_norm(builder *b, const char *part, int64_t width, int64_t group, int input,
                             int *value)
{
    const bool layer_norm = b->c->family->layer_norms;
    node n = node_of(layer_norm ? NODE_LAYER_NORM : NODE_RMS_NORM, b->block, input, GRAPH_NONE);
    n.norm.epsilon = b->c->epsilon;
    n.norm.group = group;
    CHECK(add_part(b, part, "weight", 1, &width, &n.weight));
    if (layer_norm) {
        CHECK(add_part(b, part, "bias", 1, &width, &n.bias));
    }
    return graph_add_node(b->g, &n, value);
}

static grail_status add_plain(builder *b, node_kind kind, int left, int right, int *value)
{
    const node n = node_of(kind, b->block, left, right);
    return graph_add_node(b->g, &n, value);
}

/* Projection of the norm `n` to heads. */
static grail_status add_heads(builder *b, const char *projection, int64_t heads, int n, int *value)
{
    const decoder_config *c = b->c;
    return add_linear(b, projection, c->qkv_bias, c->hidden, heads * c->head_dim, n, value);
}

/* Queries or keys: the family's norm over each head, and rotary positions. */
static grail_status add_positions(builder *b, const char *norm, int *value)
{
    const decoder_config *c = b->c;
    if (c->family->query_key_norm) {
        CHECK(add_norm(b, norm, c->head_dim, c->head_dim, *value, value));
    }
    if (c->family->learned_positions) {
        return GRAIL_OK;
    }
    node rope = node_of(NODE_ROPE, b->block, *value, GRAPH_NONE);
    rope.rope = (rope_attributes){.head_dim = c->head_dim, .frequency = b->frequency};
    return graph_add_node(b->g, &rope, value);
}

static grail_status add_attention(builder *b, const decoder_layer *layer, int *h)
{
    const decoder_config *c = b->c;
    int n = 0;
    int q = 0;
    int k = 0;
    int v = 0;
    int x = 0;
    int y = 0;
    CHECK(add_norm(b, "input_layernorm", c->hidden, 0, *h, &n));
    CHECK(add_heads(b, "self_attn.q_proj", layer->heads, n, &q));
    CHECK(add_heads(b, "self_attn.k_proj", layer->kv_heads, n, &k));
    CHECK(add_heads(b, "self_attn.v_proj", layer->kv_heads, n, &v));
    CHECK(add_positions(b, "self_attn.q_norm", &q));
    CHECK(add_positions(b, "self_attn.k_norm", &k));
    node attention = node_of(NODE_ATTENTION, b->block, q, k);
    attention.inputs[attention.input_count++] = v;
    attention.attention.head_dim = c->head_dim;
    attention.attention.window = layer->window;
    attention.attention.scale = 1.0 / sqrt((double)c->head_dim);
    CHECK(graph_add_node(b->g, &attention, &x));
    CHECK(add_linear(b, "self_attn.o_proj", c->output_bias, layer->heads * c->head_dim, c->hidden,
                     x, &y));
    return add_plain(b, NODE_ADD, *h, y, h);
}

static grail_status add_activation(builder *b, int *value)
{
    node n = node_of(NODE_ACTIVATION, b->block, *value, GRAPH_NONE);
    n.activation = b->c->activation;
    return graph_add_node(b->g, &n, value);
}

static grail_status add_feed_forward(builder *b, const decoder_layer *layer, int *h)
{
    const decoder_config *c = b->c;
    int n = 0;
    int gate = 0;
    int up = 0;
    int y = 0;
    CHECK(add_norm(b, "post_attention_layernorm", c->hidden, 0, *h, &n));
    if (c->family->ungated) {
        CHECK(add_linear(b, "mlp.up_proj", c->mlp_bias, c->hidden, layer->intermediate, n, &gate));
        CHECK(add_activation(b, &gate));
    } else {
        CHECK(
            add_linear(b, "mlp.gate_proj", c->mlp_bias, c->hidden, layer->intermediate, n, &gate));
        CHECK(add_linear(b, "mlp.up_proj", c->mlp_bias, c->hidden, layer->intermediate, n, &up));
        CHECK(add_activation(b, &gate));
        CHECK(add_plain(b, NODE_MULTIPLY, gate, up, &gate));
    }
    CHECK(add_linear(b, "mlp.down_proj", c->mlp_bias, layer->intermediate, c->hidden, gate, &y));
    return add_plain(b, NODE_ADD, *h, y, h);
}

static grail_status add_embedding(builder *b, int *h)
{
    const decoder_config *c = b->c;
    node n = node_of(NODE_EMBEDDING, b->block, b->g->input, GRAPH_NONE);
    CHECK(add_part(b, "model.embed_tokens", "weight", 2,
                   (const int64_t[]){c->vocabulary, c->hidden}, &n.weight));
    CHECK(graph_add_node(b->g, &n, h));
    if (c->family->learned_positions) {
        node positions = node_of(NODE_POSITIONS, b->block, *h, GRAPH_NONE);
        positions.positions.may_be_fewer = true;
        CHECK(add_part(b, "model.embed_positions", "weight", 2,
                       (const int64_t[]){c->context, c->hidden}, &positions.weight));
        CHECK(graph_add_node(b->g, &positions, h));
    }
    return GRAIL_OK;
}

static grail_status add_head(builder *b, int h, int *logits)
{
    const decoder_config *c = b->c;
    CHECK(add_norm(b, "model.norm", c->hidden, 0, h, &h));
    return add_linear(b, c->tied ? "model.embed_tokens" : "lm_head", false, c->hidden,
                      c->vocabulary, h, logits);
}

grail_status decoder_graph(const char *source, decoder_config *c, graph **out)
{
    grail_status status = GRAIL_OK;
    builder b = {.c = c, .block = GRAPH_NONE};
    int h = 0;
    TRY(graph_create(&b.g));
    b.g->vocabulary = c->vocabulary;
    b.frequency = c->frequency;
    if (c->frequency != NULL) {
        TRY(graph_own_table(b.g, &c->frequency));
    }
    TRY(add_embedding(&b, &h));
    for (b.block = 0; b.block < c->layers; b.block++) {
        if (c->layer[b.block].heads > 0) {
            TRY(add_attention(&b, &c->layer[b.block], &h));
        }
        if (c->layer[b.block].intermediate > 0) {
            TRY(add_feed_forward(&b, &c->layer[b.block], &h));
        }
    }
    TRY(add_head(&b, h, &h));
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
