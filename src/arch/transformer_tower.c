/* The graph of a vision transformer:
 *   h  = first_norm(class token | patches + positions)
 *   h += output(attention(q(n), k(n), v(n))),  n = norm(h), every row seeing all
 *   h += down(act(up(m))),                     m = norm(h)
 *   logits = head(projection(last_norm(pooled h)))
 * Source: timm vision_transformer.py, Hugging Face modeling_vit.py and modeling_clip.py, OpenAI
 * CLIP model.py, vit-pytorch simple_vit.py. */
#include "arch/transformer_tower.h"

#include <math.h>
#include <stdio.h>

typedef struct builder {
    graph *g;
    const tower *t;
    int block;
    char part[96]; /* of the layer being built */
} builder;

/* "attn.proj" -> "blocks.3.attn.proj"; valid until the next call. */
static const char *in_layer(builder *b, const char *part)
{
    snprintf(b->part, sizeof b->part, "%s%d.%s", b->t->match.names->layer, b->block, part);
    return b->part;
}

static grail_status add_parameter(builder *b, const char *part, const char *suffix, int rank,
                                  const int64_t shape[], int *out)
{
    char *name = NULL;
    grail_status status = tower_name(&name, b->t->match.prefix, "%s%s", part, suffix);
    if (status == GRAIL_OK) {
        status = graph_add_parameter(b->g, name, rank, shape, out);
    }
    memory_free(name);
    return status;
}

static grail_status add_linear(builder *b, const char *part, bool bias, int64_t in, int64_t out,
                               int input, int *value)
{
    node n = node_of(NODE_LINEAR, b->block, input, GRAPH_NONE);
    CHECK(add_parameter(b, part, ".weight", 2, (const int64_t[]){out, in}, &n.weight));
    if (bias) {
        CHECK(add_parameter(b, part, ".bias", 1, &out, &n.bias));
    }
    return graph_add_node(b->g, &n, value);
}

static grail_status add_norm(builder *b, const char *part, int *h, int *value)
{
    node n = node_of(NODE_LAYER_NORM, b->block, *h, GRAPH_NONE);
    n.norm.epsilon = b->t->epsilon;
    CHECK(add_parameter(b, part, ".weight", 1, &b->t->width, &n.weight));
    CHECK(add_parameter(b, part, ".bias", 1, &b->t->width, &n.bias));
    return graph_add_node(b->g, &n, value);
}

static grail_status add_plain(builder *b, node_kind kind, int left, int right, int *value)
{
    const node n = node_of(kind, b->block, left, right);
    return graph_add_node(b->g, &n, value);
}

static grail_status add_activation(builder *b, int *value)
{
    node n = node_of(NODE_ACTIVATION, b->block, *value, GRAPH_NONE);
    n.activation = b->t->activation;
    return graph_add_node(b->g, &n, value);
}

/* A convolution whose stride is the size of its kernel. */
static grail_status add_patch_convolution(builder *b, int *h)
{
    const tower *t = b->t;
    const int64_t shape[] = {t->width, IMAGE_CHANNELS, t->patch, t->patch};
    node n = node_of(NODE_CONV2D, b->block, *h, GRAPH_NONE);
    n.window.kernel_height = t->patch;
    n.window.kernel_width = t->patch;
    n.window.stride = t->patch;
    CHECK(add_parameter(b, t->match.names->patch, ".weight", 4, shape, &n.weight));
    if (t->patch_bias) {
        CHECK(add_parameter(b, t->match.names->patch, ".bias", 1, &t->width, &n.bias));
    }
    return graph_add_node(b->g, &n, h);
}

static grail_status add_class_token(builder *b, int *h)
{
    node n = node_of(NODE_CLASS_TOKEN, b->block, *h, GRAPH_NONE);
    CHECK(add_parameter(b, b->t->match.names->class_token, "", 1, &b->t->width, &n.weight));
    return graph_add_node(b->g, &n, h);
}

static grail_status add_learned_positions(builder *b, int *h)
{
    const int64_t shape[] = {b->t->positions, b->t->width};
    node n = node_of(NODE_POSITIONS, b->block, *h, GRAPH_NONE);
    CHECK(add_parameter(b, b->t->match.names->positions, "", 2, shape, &n.weight));
    return graph_add_node(b->g, &n, h);
}

/* table[y * grid + x] = [sin x w, cos x w, sin y w, cos y w], w_k = 10000^(-k / (width / 4 - 1))
 * for k < width / 4. Source: posemb_sincos_2d of vit-pytorch 0.40.2. */
static void fill_position_table(const tower *t, double *table)
{
    const int64_t quarter = t->width / 4;
    const int64_t grid = t->side / t->patch;
    for (int64_t p = 0; p < t->positions; p++) {
        double *row = table + p * t->width;
        for (int64_t k = 0; k < quarter; k++) {
            const double frequency = pow(10000.0, -(double)k / (double)(quarter - 1));
            const double x = (double)(p % grid) * frequency;
            const double y = (double)(p / grid) * frequency;
            row[k] = sin(x);
            row[quarter + k] = cos(x);
            row[2 * quarter + k] = sin(y);
            row[3 * quarter + k] = cos(y);
        }
    }
}

static grail_status add_fixed_positions(builder *b, int *h)
{
    grail_status status = GRAIL_OK;
    const tower *t = b->t;
    double *table = NULL;
    size_t elements = 0;
    if (!size_multiply((size_t)t->positions, (size_t)t->width, &elements)) {
        FAIL(GRAIL_ERROR_MEMORY, "a table of %lld x %lld positions is too large",
             (long long)t->positions, (long long)t->width);
    }
    TRY(memory_new_unset(&table, elements, sizeof table[0]));
    fill_position_table(t, table);
    node n = node_of(NODE_POSITIONS, b->block, *h, GRAPH_NONE);
    n.positions = (position_attributes){.count = t->positions, .table = table};
    TRY(graph_own_table(b->g, &table));
    TRY(graph_add_node(b->g, &n, h));
out:
    memory_free(table);
    return status;
}

static grail_status add_patch_linear(builder *b, int *h)
{
    const tower *t = b->t;
    node n = node_of(NODE_PATCHES, b->block, *h, GRAPH_NONE);
    n.window.kernel_height = t->patch;
    n.window.kernel_width = t->patch;
    n.window.stride = t->patch;
    CHECK(graph_add_node(b->g, &n, h));
    return add_linear(b, t->match.names->patch, t->patch_bias, t->patch * t->patch * IMAGE_CHANNELS,
                      t->width, *h, h);
}

static grail_status add_embedding(builder *b, int *h)
{
    const tower_names *n = b->t->match.names;
    if (n->positions == NULL) {
        CHECK(add_patch_linear(b, h));
        CHECK(add_fixed_positions(b, h));
    } else {
        CHECK(add_patch_convolution(b, h));
        CHECK(add_class_token(b, h));
        CHECK(add_learned_positions(b, h));
    }
    if (b->t->first_norm) {
        CHECK(add_norm(b, n->first_norm, h, h));
    }
    return GRAIL_OK;
}

/* Adds q, k and v, which are runs of rows of one tensor. */
static grail_status add_fused(builder *b, int64_t inner, int input, int qkv[3])
{
    grail_status status = GRAIL_OK;
    const tower_names *names = b->t->match.names;
    const int64_t shape[] = {inner, b->t->width};
    char *weight = NULL;
    char *bias = NULL;
    TRY(tower_name(&weight, b->t->match.prefix, "%s", in_layer(b, names->fused_weight)));
    if (b->t->query_bias) {
        TRY(tower_name(&bias, b->t->match.prefix, "%s", in_layer(b, names->fused_bias)));
    }
    for (int i = 0; i < 3; i++) {
        node n = node_of(NODE_LINEAR, b->block, input, GRAPH_NONE);
        TRY(graph_add_part(b->g, weight, i * inner, 2, shape, &n.weight));
        if (bias != NULL) {
            TRY(graph_add_part(b->g, bias, i * inner, 1, shape, &n.bias));
        }
        TRY(graph_add_node(b->g, &n, &qkv[i]));
    }
out:
    memory_free(weight);
    memory_free(bias);
    return status;
}

static grail_status add_separate(builder *b, int64_t inner, int input, int qkv[3])
{
    const tower_names *n = b->t->match.names;
    const char *const parts[] = {n->queries, n->keys, n->values};
    for (int i = 0; i < 3; i++) {
        CHECK(add_linear(b, in_layer(b, parts[i]), b->t->query_bias, b->t->width, inner, input,
                         &qkv[i]));
    }
    return GRAIL_OK;
}

static grail_status add_attention(builder *b, int *h)
{
    const tower *t = b->t;
    const tower_names *names = t->match.names;
    const int64_t inner = t->layers[b->block].inner;
    int qkv[3] = {0};
    int x = 0;
    CHECK(add_norm(b, in_layer(b, names->attention_norm), h, &x));
    CHECK(names->fused_weight != NULL ? add_fused(b, inner, x, qkv)
                                      : add_separate(b, inner, x, qkv));
    node n = node_of(NODE_ATTENTION, b->block, qkv[0], qkv[1]);
    n.inputs[n.input_count++] = qkv[2];
    n.attention.head_dim = t->head_dim;
    n.attention.bidirectional = true;
    n.attention.scale = 1.0 / sqrt((double)t->head_dim);
    CHECK(graph_add_node(b->g, &n, &x));
    CHECK(add_linear(b, in_layer(b, names->output), !names->bare_output, inner, t->width, x, &x));
    return add_plain(b, NODE_ADD, *h, x, h);
}

static grail_status add_feed_forward(builder *b, int *h)
{
    const tower_names *n = b->t->match.names;
    const int64_t width = b->t->width;
    const int64_t ffn = b->t->layers[b->block].ffn;
    int x = 0;
    CHECK(add_norm(b, in_layer(b, n->ffn_norm), h, &x));
    CHECK(add_linear(b, in_layer(b, n->up), true, width, ffn, x, &x));
    CHECK(add_activation(b, &x));
    CHECK(add_linear(b, in_layer(b, n->down), true, ffn, width, x, &x));
    return add_plain(b, NODE_ADD, *h, x, h);
}

static grail_status add_projection(builder *b, int *h)
{
    grail_status status = GRAIL_OK;
    const tower *t = b->t;
    const tower_names *names = t->match.names;
    char *name = NULL;
    if (!names->bare_projection) {
        return add_linear(b, names->projection, false, t->width, t->projection, *h, h);
    }
    const int64_t shape[] = {t->projection, t->width};
    node n = node_of(NODE_LINEAR, b->block, *h, GRAPH_NONE);
    TRY(tower_name(&name, t->match.prefix, "%s", names->projection));
    TRY(graph_add_transposed(b->g, name, shape, &n.weight));
    TRY(graph_add_node(b->g, &n, h));
out:
    memory_free(name);
    return status;
}

static grail_status add_head(builder *b, int *h)
{
    grail_status status = GRAIL_OK;
    const tower *t = b->t;
    const int64_t shape[] = {t->classes, t->projection > 0 ? t->projection : t->width};
    char *name = NULL;
    b->g->classes = t->classes;
    node n = node_of(NODE_LINEAR, b->block, *h, GRAPH_NONE);
    TRY(memory_format(&name, "%s.weight", t->head));
    TRY(graph_add_parameter(b->g, name, 2, shape, &n.weight));
    if (t->head_bias) {
        memory_free(name);
        name = NULL;
        TRY(memory_format(&name, "%s.bias", t->head));
        TRY(graph_add_parameter(b->g, name, 1, shape, &n.bias));
    }
    TRY(graph_add_node(b->g, &n, h));
out:
    memory_free(name);
    return status;
}

/* A norm works row by row, so normalising only the class token gives the same result as normalising
 * all rows. */
static grail_status add_end(builder *b, int *h)
{
    const tower *t = b->t;
    const tower_names *names = t->match.names;
    CHECK(
        add_plain(b, names->class_token != NULL ? NODE_FIRST_TOKEN : NODE_MEAN, *h, GRAPH_NONE, h));
    CHECK(add_norm(b, names->last_norm, h, h));
    if (t->projection > 0) {
        CHECK(add_projection(b, h));
    }
    if (t->normalize) {
        CHECK(add_plain(b, NODE_UNIT_LENGTH, *h, GRAPH_NONE, h));
    }
    if (t->head != NULL) {
        CHECK(add_head(b, h));
    }
    return GRAIL_OK;
}

grail_status tower_build(const char *source, const tower *t, graph **out)
{
    grail_status status = GRAIL_OK;
    builder b = {.t = t, .block = GRAPH_NONE};
    TRY(graph_create(&b.g));
    b.g->input_kind = INPUT_IMAGES;
    b.g->image = (extent){.height = t->side, .width = t->side};
    int h = b.g->input;
    TRY(add_embedding(&b, &h));
    for (b.block = 0; b.block < t->layer_count; b.block++) {
        TRY(add_attention(&b, &h));
        TRY(add_feed_forward(&b, &h));
    }
    TRY(add_end(&b, &h));
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

grail_status tower_build_from(const tower_family *family, const char *source, const json_t *config,
                              const checkpoint *weights, graph **out)
{
    tower t = {0};
    grail_status status = tower_read(family, source, config, weights, &t);
    if (status == GRAIL_OK) {
        status = tower_build(source, &t, out);
    }
    tower_fini(&t);
    return status;
}
