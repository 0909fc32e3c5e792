/* The graph of a decoder:
 *   h += o(attention(rope(q(n)), rope(k(n)), v(n))), n = norm(h)
 *   h += down(act(gate(m)) * up(m)),                 m = norm(h)
 * and logits = head(norm(h)). Source: the modeling files of the families in Hugging Face
 * transformers. */
#include "arch/decoder.h"

#include <math.h>
#include <stdio.h>

static const char embedding_name[] = "model.embed_tokens.weight";

typedef struct builder {
    graph *g;
    const decoder_config *c;
    const double *frequency; /* of the rotary positions, owned by the graph */
    int block;
} builder;

decoder_place decoder_place_plain(const decoder_config *c, int layer, const char *part,
                                  const char *kind)
{
    (void)c;
    decoder_place place = {0};
    snprintf(place.tensor, sizeof place.tensor, "model.layers.%d.%s.%s", layer, part, kind);
    return place;
}

/* Parameter PART.KIND of the layer that is being built, from where the family stores it. */
static grail_status add_part(builder *b, const char *part, const char *kind, int rank,
                             const int64_t shape[], int *out)
{
    char name[DECODER_NAME_SIZE];
    const decoder_place place = b->c->family->place(b->c, b->block, part, kind);
    snprintf(name, sizeof name, "model.layers.%d.%s.%s", b->block, part, kind);
    return graph_add_stored(b->g, name, place.tensor, &place.map, rank, shape, out);
}

/* value = linear(input) with PART.weight and PART.bias. */
static grail_status add_linear(builder *b, const char *part, bool bias, int64_t in, int64_t out,
                               int input, int *value)
{
    grail_status status = GRAIL_OK;
    node n = node_of(NODE_LINEAR, b->block, input, GRAPH_NONE);
    TRY(add_part(b, part, "weight", 2, (const int64_t[]){out, in}, &n.weight));
    if (bias) {
        TRY(add_part(b, part, "bias", 1, &out, &n.bias));
    }
    TRY(graph_add_node(b->g, &n, value));
out:
    return status;
}

static grail_status add_norm(builder *b, const char *part, int64_t width, int64_t group, int input,
                             int *value)
{
    grail_status status = GRAIL_OK;
    node n = node_of(NODE_RMS_NORM, b->block, input, GRAPH_NONE);
    n.norm.epsilon = b->c->epsilon;
    n.norm.group = group;
    TRY(add_part(b, part, "weight", 1, &width, &n.weight));
    TRY(graph_add_node(b->g, &n, value));
out:
    return status;
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

/* Queries or keys: the family's norm over each head, rotary positions. */
static grail_status add_positions(builder *b, const char *norm, int *value)
{
    grail_status status = GRAIL_OK;
    const decoder_config *c = b->c;
    if (c->family->query_key_norm) {
        TRY(add_norm(b, norm, c->head_dim, c->head_dim, *value, value));
    }
    node rope = node_of(NODE_ROPE, b->block, *value, GRAPH_NONE);
    rope.rope = (rope_attributes){.head_dim = c->head_dim, .frequency = b->frequency};
    TRY(graph_add_node(b->g, &rope, value));
out:
    return status;
}

static grail_status add_attention(builder *b, const decoder_layer *layer, int *h)
{
    grail_status status = GRAIL_OK;
    const decoder_config *c = b->c;
    int n = 0;
    int q = 0;
    int k = 0;
    int v = 0;
    int x = 0;
    int y = 0;
    TRY(add_norm(b, "input_layernorm", c->hidden, 0, *h, &n));
    TRY(add_heads(b, "self_attn.q_proj", layer->heads, n, &q));
    TRY(add_heads(b, "self_attn.k_proj", layer->kv_heads, n, &k));
    TRY(add_heads(b, "self_attn.v_proj", layer->kv_heads, n, &v));
    TRY(add_positions(b, "self_attn.q_norm", &q));
    TRY(add_positions(b, "self_attn.k_norm", &k));
    node attention = node_of(NODE_ATTENTION, b->block, q, k);
    attention.inputs[attention.input_count++] = v;
    attention.attention.head_dim = c->head_dim;
    attention.attention.window = layer->window;
    attention.attention.scale = 1.0 / sqrt((double)c->head_dim);
    TRY(graph_add_node(b->g, &attention, &x));
    TRY(add_linear(b, "self_attn.o_proj", c->output_bias, layer->heads * c->head_dim, c->hidden, x,
                   &y));
    TRY(add_plain(b, NODE_ADD, *h, y, h));
out:
    return status;
}

static grail_status add_feed_forward(builder *b, const decoder_layer *layer, int *h)
{
    grail_status status = GRAIL_OK;
    const decoder_config *c = b->c;
    int n = 0;
    int gate = 0;
    int up = 0;
    int y = 0;
    TRY(add_norm(b, "post_attention_layernorm", c->hidden, 0, *h, &n));
    TRY(add_linear(b, "mlp.gate_proj", c->mlp_bias, c->hidden, layer->intermediate, n, &gate));
    TRY(add_linear(b, "mlp.up_proj", c->mlp_bias, c->hidden, layer->intermediate, n, &up));
    node activation = node_of(NODE_ACTIVATION, b->block, gate, GRAPH_NONE);
    activation.activation = c->activation;
    TRY(graph_add_node(b->g, &activation, &gate));
    TRY(add_plain(b, NODE_MULTIPLY, gate, up, &gate));
    TRY(add_linear(b, "mlp.down_proj", c->mlp_bias, layer->intermediate, c->hidden, gate, &y));
    TRY(add_plain(b, NODE_ADD, *h, y, h));
out:
    return status;
}

static grail_status add_embedding(builder *b, int *h)
{
    grail_status status = GRAIL_OK;
    const int64_t shape[] = {b->c->vocabulary, b->c->hidden};
    node n = node_of(NODE_EMBEDDING, GRAPH_NONE, b->g->input, GRAPH_NONE);
    TRY(graph_add_parameter(b->g, embedding_name, 2, shape, &n.weight));
    TRY(graph_add_node(b->g, &n, h));
out:
    return status;
}

static grail_status add_head(builder *b, int h, int *logits)
{
    grail_status status = GRAIL_OK;
    const int64_t shape[] = {b->c->vocabulary, b->c->hidden};
    node norm = node_of(NODE_RMS_NORM, b->block, h, GRAPH_NONE);
    norm.norm.epsilon = b->c->epsilon;
    TRY(graph_add_parameter(b->g, "model.norm.weight", 1, &b->c->hidden, &norm.weight));
    TRY(graph_add_node(b->g, &norm, &h));
    node head = node_of(NODE_LINEAR, b->block, h, GRAPH_NONE);
    TRY(graph_add_parameter(b->g, b->c->tied ? embedding_name : "lm_head.weight", 2, shape,
                            &head.weight));
    TRY(graph_add_node(b->g, &head, logits));
out:
    return status;
}

grail_status decoder_graph(const char *source, decoder_config *c, graph **out)
{
    grail_status status = GRAIL_OK;
    builder b = {.c = c};
    int h = 0;
    TRY(graph_create(&b.g));
    b.g->vocabulary = c->vocabulary;
    b.frequency = c->frequency;
    TRY(graph_own_table(b.g, &c->frequency));
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
