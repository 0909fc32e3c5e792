/* The graph of a vision transformer:
 *   h  = first_norm(class token | patches + positions)
 *   layers as decoder.c has them: norms before attention and FFN, every row seeing all, no gate
 *   logits = head(projection(last_norm(pooled h)))
 * Source: timm vision_transformer.py, Hugging Face modeling_vit.py and modeling_clip.py, OpenAI
 * CLIP model.py, vit-pytorch simple_vit.py. */
#include "arch/transformer_tower.h"

#include "arch/builder.h"

#include <math.h>

static window2d patch_window(const tower *t)
{
    return (window2d){
        .kernel_height = t->patch, .kernel_width = t->patch, .stride = t->patch, .dilation = 1};
}

static grail_status add_patches(builder *b, int *h)
{
    const tower *t = b->c->tower;
    const int64_t width = b->c->hidden;
    const window2d window = patch_window(t);
    CHECK(build_conv(b, "model.patches", t->patch_bias, IMAGE_CHANNELS, width, &window, h));
    node token = node_of(NODE_CLASS_TOKEN, b->block, *h, GRAPH_NONE);
    CHECK(build_part(b, "model.class_token", "", 0.0, 1, &width, &token.weight));
    CHECK(graph_add_node(b->g, &token, h));
    node positions = node_of(NODE_POSITIONS, b->block, *h, GRAPH_NONE);
    CHECK(build_part(b, "model.embed_positions", "", 0.0, 2, (const int64_t[]){t->positions, width},
                     &positions.weight));
    return graph_add_node(b->g, &positions, h);
}

/* table[y * grid + x] = [sin x w, cos x w, sin y w, cos y w], w_k = 10000^(-k / (width / 4 - 1))
 * for k < width / 4. Source: posemb_sincos_2d of vit-pytorch 0.40.2. */
static void fill_position_table(const tower *t, double *table)
{
    const int64_t quarter = t->c.hidden / 4;
    const int64_t grid = t->side / t->patch;
    for (int64_t p = 0; p < t->positions; p++) {
        double *row = table + p * t->c.hidden;
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

/* A Linear over patches, and the fixed positions of SimpleViT. */
static grail_status add_linear_patches(builder *b, int *h)
{
    grail_status status = GRAIL_OK;
    const tower *t = b->c->tower;
    double *table = NULL;
    size_t elements = 0;
    node patches = node_of(NODE_PATCHES, b->block, *h, GRAPH_NONE);
    patches.window = patch_window(t);
    TRY(graph_add_node(b->g, &patches, h));
    TRY(build_linear(b, "model.patches", t->patch_bias, t->patch * t->patch * IMAGE_CHANNELS,
                     b->c->hidden, *h, h));
    if (!size_multiply((size_t)t->positions, (size_t)b->c->hidden, &elements)) {
        FAIL(GRAIL_ERROR_MEMORY, "a table of %lld x %lld positions is too large",
             (long long)t->positions, (long long)b->c->hidden);
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

static grail_status add_begin(builder *b, int *h)
{
    const tower *t = b->c->tower;
    b->g->input_kind = INPUT_IMAGES;
    b->g->image = (extent){.height = t->side, .width = t->side};
    *h = b->g->input;
    CHECK((tower_has(t->names, "model.embed_positions") ? add_patches : add_linear_patches)(b, h));
    return t->first_norm ? build_norm(b, "model.embed_norm", b->c->hidden, 0, *h, h) : GRAIL_OK;
}

/* A norm works row by row, so normalising only the class token gives the same result as normalising
 * all rows. */
static grail_status add_end(builder *b, int *h)
{
    const tower *t = b->c->tower;
    int64_t width = b->c->hidden;
    CHECK(build_plain(b, tower_has(t->names, "model.class_token") ? NODE_FIRST_TOKEN : NODE_MEAN,
                      *h, GRAPH_NONE, h));
    CHECK(build_norm(b, "model.norm", width, 0, *h, h));
    if (t->projection > 0) {
        node n = node_of(NODE_LINEAR, b->block, *h, GRAPH_NONE);
        CHECK(build_part(b, "model.projection", t->names->bare_projection ? "" : "weight", 0.0, 2,
                         (const int64_t[]){t->projection, width}, &n.weight));
        CHECK(graph_add_node(b->g, &n, h));
        width = t->projection;
    }
    if (t->normalize) {
        CHECK(build_plain(b, NODE_UNIT_LENGTH, *h, GRAPH_NONE, h));
    }
    b->g->classes = t->classes;
    return t->head ? build_linear(b, "lm_head", t->head_bias, width, t->classes, *h, h) : GRAIL_OK;
}

static const decoder_family row = {.layer_norms = true,
                                   .encoder = true,
                                   .ungated = true,
                                   .names_are_tensors = true,
                                   .begin = add_begin,
                                   .end = add_end};

grail_status tower_build(const architecture *self, const char *source, const json_t *config,
                         const checkpoint *weights, graph **out)
{
    grail_status status = GRAIL_OK;
    tower t = {0};
    TRY(tower_read(self, source, config, weights, &t));
    t.c.family = &row;
    t.c.tower = &t;
    TRY(decoder_graph(source, &t.c, out));
out:
    decoder_config_fini(&t.c);
    return status;
}
