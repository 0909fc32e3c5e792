/* A vision transformer: its naming convention and its sizes according to the tensors of a
 * checkpoint, the rest according to the configuration, and its graph:
 *   h  = first_norm(class token | patches + positions)
 *   layers as decoder.c has them: norms before attention and FFN, every row seeing all, no gate
 *   logits = head(projection(last_norm(pooled h)))
 * Source: timm vision_transformer.py, Hugging Face modeling_vit.py and modeling_clip.py, OpenAI
 * CLIP model.py, vit-pytorch simple_vit.py. */
#include "arch/transformer_tower.h"

#include "arch/activation_names.h"
#include "arch/builder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_LAYERS = 1024,
    MOST_SIDE = 1 << 14, /* of an image */
    MOST_WIDTH = 1 << 24,
    HEAD_DIM = 64,         /* of networks that do not state it, except the largest */
    CONFIGURED_HEADS = 12, /* of Hugging Face's configuration classes */
    NAME_SIZE = TENSOR_LONGEST_NAME + DECODER_NAME_SIZE
};

/* Everything that is needed to build a graph. */
typedef struct tower {
    decoder_config c; /* the layers */
    const tower_names *names;
    const checkpoint *weights;
    int64_t patch, side;
    int64_t positions;  /* class token included */
    int64_t projection; /* outputs; 0 = none */
    int64_t classes;
    size_t head_prefix; /* so many characters of the prefix stand before the name of the head */
    bool patch_bias, first_norm, head, head_bias;
    bool normalize; /* features are scaled to unit length before the head */
} tower;

const char *const tower_settings[] = {"activation", "normalize", "head_dim", "image_size", NULL};

/* The object that holds a tower's sizes: "vision_config", or the configuration itself. */
static const json_t *section_of(const json_t *config)
{
    const json_t *vision = json_object_get(config, "vision_config");
    return json_is_object(vision) ? vision : config;
}

int64_t tower_image_side(const json_t *config, int64_t fallback)
{
    const json_t *own = json_object_get(config, "image_size");
    const json_t *side = own != NULL ? own : json_object_get(section_of(config), "image_size");
    return json_is_integer(side) ? (int64_t)json_integer_value(side) : fallback;
}

/* -- names ------------------------------------------------------------------------------------- */

/* Which of q, k and v it is; -1 for other parts. */
static int number_in_qkv(const char *part)
{
    static const char *const parts[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(parts[i], part) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_fused(const tower_names *n, const char *part)
{
    return n->qkv != NULL && number_in_qkv(part) >= 0;
}

static bool has_part(const tower_names *n, const char *part)
{
    return is_fused(n, part) || decoder_name_in(n->names, part) != NULL;
}

static void name_part(const tower_names *n, int layer, const char *part, const char *kind,
                      char name[DECODER_NAME_SIZE])
{
    if (is_fused(n, part)) {
        snprintf(name, DECODER_NAME_SIZE, "%s%d.%s%s", n->layers, layer, n->qkv, kind);
    } else {
        decoder_name_part(n->layers, layer, decoder_name_in(n->names, part), kind, name);
    }
}

static decoder_place place(const decoder_config *c, int layer, const char *part, const char *kind)
{
    const tower *t = c->tower;
    const bool is_head = strcmp(part, "lm_head") == 0;
    decoder_place found = {.prefix = is_head ? t->head_prefix : strlen(c->prefix)};
    name_part(t->names, layer, part, kind, found.tensor);
    if (is_fused(t->names, part)) {
        const int64_t rows = c->layer[layer].heads * c->head_dim;
        found.map = storage_rows(number_in_qkv(part) * rows, rows);
    }
    found.map.transposed = t->names->bare_projection && strcmp(part, "model.projection") == 0;
    return found;
}

/* Finds a tensor under the prefix; its whole name goes to `name`. */
static const tensor_view *find(const tower_names *n, const checkpoint *weights, int layer,
                               const char *part, const char *kind, char name[NAME_SIZE])
{
    char own[DECODER_NAME_SIZE];
    name_part(n, layer, part, kind, own);
    snprintf(name, NAME_SIZE, "%s%s", checkpoint_prefix(weights), own);
    return checkpoint_find(weights, name);
}

static bool has_tensor(const tower *t, int layer, const char *part, const char *kind)
{
    char name[NAME_SIZE];
    return has_part(t->names, part) && find(t->names, t->weights, layer, part, kind, name) != NULL;
}

/* The convention that fits a checkpoint best, by how many of the tensors that a network needs
 * outside the layers and in the first layer are there. */
static const tower_names *find_names(const architecture *self, const checkpoint *weights,
                                     recognition *found)
{
    static const struct {
        int layer;
        const char *part, *kind;
    } wanted[] = {{GRAPH_NONE, "model.patches", "weight"},
                  {GRAPH_NONE, "model.class_token", ""},
                  {GRAPH_NONE, "model.embed_positions", ""},
                  {0, "input_layernorm", "weight"},
                  {0, "self_attn.q_proj", "weight"},
                  {0, "self_attn.k_proj", "weight"},
                  {0, "self_attn.v_proj", "weight"},
                  {0, "self_attn.o_proj", "weight"},
                  {0, "post_attention_layernorm", "weight"},
                  {0, "mlp.up_proj", "weight"},
                  {0, "mlp.down_proj", "weight"},
                  {GRAPH_NONE, "model.norm", "weight"}};
    const tower_names *best = NULL;
    char name[NAME_SIZE];
    for (const tower_names *n = self->conventions; n->key != NULL; n++) {
        recognition r = {0};
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
            const char *part = wanted[i].part;
            const bool counted = is_fused(n, part) && number_in_qkv(part) > 0;
            if (!counted && has_part(n, part)) {
                const tensor_view *view =
                    find(n, weights, wanted[i].layer, part, wanted[i].kind, name);
                recognition_count(&r, view != NULL, name);
            }
        }
        if (best == NULL || r.matched * found->wanted > found->matched * r.wanted) {
            best = n;
            *found = r;
        }
    }
    return best;
}

grail_status tower_match(const architecture *self, const checkpoint *weights, recognition *r)
{
    (void)find_names(self, weights, r);
    return GRAIL_OK;
}

/* -- sizes ------------------------------------------------------------------------------------- */

/* Every dimension of the tensor must be at least 1. */
static grail_status require_tensor(const tower *t, int layer, const char *part, const char *kind,
                                   int rank, const tensor_view **out)
{
    const char *path = checkpoint_path(t->weights);
    char name[NAME_SIZE];
    const tensor_view *found = find(t->names, t->weights, layer, part, kind, name);
    if (found == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: tensor '%s' is missing, but checkpoints of %s have it", path, name,
                         t->names->loader);
    }
    bool sound = found->rank >= rank;
    for (int i = 0; i < found->rank; i++) {
        const bool leading = i < found->rank - rank;
        sound = sound && found->shape[i] >= 1 && found->shape[i] <= MOST_WIDTH &&
                (!leading || found->shape[i] == 1);
    }
    if (!sound) {
        char shape[64];
        return error_set(GRAIL_ERROR_SHAPE, "%s: tensor '%s' has shape %s, expected %d dimensions",
                         path, name, shape_text(found->rank, found->shape, shape, sizeof shape),
                         rank);
    }
    *out = found;
    return GRAIL_OK;
}

static int64_t square_root(int64_t value)
{
    int64_t root = 0;
    while ((root + 1) * (root + 1) <= value) {
        root++;
    }
    return root;
}

/* Convolution [width, 3, patch, patch], or Linear [width, patch * patch * 3]. */
static grail_status read_patch(tower *t)
{
    const tensor_view *view = NULL;
    const bool linear = !has_part(t->names, "model.embed_positions");
    CHECK(require_tensor(t, GRAPH_NONE, "model.patches", "weight", linear ? 2 : 4, &view));
    t->patch_bias = has_tensor(t, GRAPH_NONE, "model.patches", "bias");
    t->c.hidden = view->shape[0];
    t->patch = linear ? square_root(view->shape[1] / IMAGE_CHANNELS) : view->shape[2];
    const bool sound = linear ? t->patch * t->patch * IMAGE_CHANNELS == view->shape[1]
                              : view->shape[1] == IMAGE_CHANNELS && view->shape[3] == t->patch;
    if (!sound) {
        char shape[64];
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: tensor '%s' has shape %s; the patch embedding must read square patches of %d "
            "channels",
            checkpoint_path(t->weights), view->name,
            shape_text(view->rank, view->shape, shape, sizeof shape), IMAGE_CHANNELS);
    }
    return GRAIL_OK;
}

/* The number of learned positions gives the side of the images. */
static grail_status read_learned_positions(tower *t)
{
    const tensor_view *view = NULL;
    CHECK(require_tensor(t, GRAPH_NONE, "model.embed_positions", "", 2, &view));
    t->positions = view->shape[view->rank - 2];
    const int64_t patches = t->positions - 1; /* one position is that of the class token */
    const int64_t grid = square_root(patches);
    if (patches < 1 || grid * grid != patches) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: tensor '%s' has %lld positions besides the class token; their number must be a "
            "square (1, 4, 9, ...)",
            checkpoint_path(t->weights), view->name, (long long)patches);
    }
    t->side = grid * t->patch;
    return GRAIL_OK;
}

/* The fixed table fits every side, so the side comes from the configuration. */
static grail_status read_side(const char *source, const json_t *config, tower *t)
{
    CHECK(json_get_integer(source, config, "image_size", TOWER_CIFAR_SIDE, &t->side));
    if (t->side < t->patch || t->side > MOST_SIDE || t->side % t->patch != 0) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "%s: image_size is %lld; give image_size=N with a multiple of the patch size %lld, at "
            "most %d",
            source, (long long)t->side, (long long)t->patch, MOST_SIDE);
    }
    if (t->c.hidden % 4 != 0 || t->c.hidden < 8) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: the width is %lld; sine and cosine positions need a multiple of 4 that is at "
            "least 8",
            checkpoint_path(t->weights), (long long)t->c.hidden);
    }
    t->positions = (t->side / t->patch) * (t->side / t->patch);
    return GRAIL_OK;
}

static grail_status read_layer(tower *t, int index)
{
    const tensor_view *view = NULL;
    const bool fused = t->names->qkv != NULL;
    CHECK(require_tensor(t, index, "self_attn.q_proj", "weight", 2, &view));
    if (fused && view->shape[0] % 3 != 0) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "%s: tensor '%s' has %lld rows; q, k and v together need a multiple of 3",
                         checkpoint_path(t->weights), view->name, (long long)view->shape[0]);
    }
    const int64_t inner = fused ? view->shape[0] / 3 : view->shape[0];
    if (inner % t->c.head_dim != 0) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "%s: the %lld rows of '%s' cannot be divided into heads of %lld; give head_dim=N "
            "(width / heads)",
            checkpoint_path(t->weights), (long long)view->shape[0], view->name,
            (long long)t->c.head_dim);
    }
    CHECK(require_tensor(t, index, "mlp.up_proj", "weight", 2, &view));
    t->c.layer[index] = (decoder_layer){.heads = inner / t->c.head_dim,
                                        .kv_heads = inner / t->c.head_dim,
                                        .intermediate = view->shape[0],
                                        .rotary = ROTARY_NONE};
    return GRAIL_OK;
}

/* The published widths whose heads are not of 64. Sources: vision_transformer.py of timm (huge,
 * giant, gigantic), ViT-H-14, ViT-g-14 and ViT-bigG-14 of open_clip. */
static grail_status read_head_dim(const char *source, const json_t *config, tower *t)
{
    static const struct {
        int64_t width, head_dim;
    } others[] = {{1280, 80}, {1408, 88}, {1664, 104}};
    const json_t *section = section_of(config);
    int64_t fallback = HEAD_DIM;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        fallback = others[i].width == t->c.hidden ? others[i].head_dim : fallback;
    }
    int64_t heads = 0;
    const int64_t guess = json_object_get(config, "names") == NULL ? CONFIGURED_HEADS : 0;
    CHECK(json_get_integer(source, section, "num_attention_heads", guess, &heads));
    fallback = heads > 0 ? t->c.hidden / heads : fallback;
    CHECK(json_get_integer(source, section, "head_dim", fallback, &fallback));
    CHECK(json_get_integer(source, config, "head_dim", fallback, &t->c.head_dim));
    if (t->c.head_dim < 1 || t->c.head_dim > MOST_WIDTH) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: head_dim is %lld, expected 1 to %d", source,
                         (long long)t->c.head_dim, MOST_WIDTH);
    }
    return GRAIL_OK;
}

/* Settings at the top of the configuration take precedence over its vision section. */
static grail_status read_operators(const char *source, const json_t *config, tower *t)
{
    const tower_names *n = t->names;
    const json_t *section = section_of(config);
    decoder_config *c = &t->c;
    c->activation = n->activation;
    CHECK(read_activation(source, section, "hidden_act", c->activation, &c->activation));
    CHECK(read_activation(source, config, "activation", c->activation, &c->activation));
    t->first_norm = has_tensor(t, GRAPH_NONE, "model.embed_norm", "weight");
    c->epsilon = t->first_norm && n->first_norm_epsilon > 0.0 ? n->first_norm_epsilon : n->epsilon;
    CHECK(json_get_real(source, section, "layer_norm_eps", c->epsilon, &c->epsilon));
    CHECK(json_get_boolean(source, config, "normalize", false, &t->normalize));
    c->output_bias = !n->bare_attention;
    c->qkv_bias = !n->bare_attention && has_tensor(t, 0, "self_attn.q_proj", "bias");
    if (n->qkv == NULL) {
        CHECK(json_get_boolean(source, section, "qkv_bias", true, &c->qkv_bias));
    }
    return GRAIL_OK;
}

/* The name of a head has the tower's prefix, or the prefix without its last component: "vit." and
 * "model." hold only the tower. */
static void read_head(tower *t)
{
    const char *prefix = t->c.prefix;
    const char *own = decoder_name_in(t->names->names, "lm_head");
    char name[NAME_SIZE];
    size_t length = strlen(prefix);
    for (int i = 0; i < 2 && !t->head; i++) {
        snprintf(name, sizeof name, "%.*s%s.weight", (int)length, prefix, own);
        const tensor_view *view = checkpoint_find(t->weights, name);
        t->head = view != NULL && view->rank == 2;
        if (t->head) {
            t->head_prefix = length;
            t->classes = view->shape[0];
            snprintf(name, sizeof name, "%.*s%s.bias", (int)length, prefix, own);
            t->head_bias = checkpoint_find(t->weights, name) != NULL;
        }
        for (length -= length > 0 ? 1 : 0; length > 0 && prefix[length - 1] != '.';) {
            length--;
        }
    }
}

grail_status tower_recognise(const architecture *self, const checkpoint *weights, recognition *r,
                             json_t **config)
{
    grail_status status = GRAIL_OK;
    tower t = {.weights = weights, .side = TOWER_CIFAR_SIDE};
    json_t *made = NULL;
    t.names = find_names(self, weights, r);
    if (r->matched < r->wanted) {
        return GRAIL_OK;
    }
    if (has_part(t.names, "model.embed_positions")) {
        CHECK(read_patch(&t));
        CHECK(read_learned_positions(&t));
    }
    made = json_object();
    TRY(json_put(made, "model_type", json_text(self->name)));
    TRY(json_put(made, "names", json_text(t.names->key)));
    TRY(json_put(made, "activation", json_text(activation_name(t.names->activation))));
    TRY(json_put(made, "image_size", json_integer(t.side)));
    *config = made;
    made = NULL;
out:
    json_decref(made);
    return status;
}

static grail_status read(const architecture *self, const char *source, const json_t *config,
                         const checkpoint *weights, tower *t)
{
    recognition found = {0};
    const tensor_view *view = NULL;
    *t = (tower){.weights = weights,
                 .names = find_names(self, weights, &found),
                 .c = {DECODER_UNSCALED, .place = place, .mlp_bias = true}};
    const bool bare = t->names->bare_projection;
    const char *kind = bare ? "" : "weight";
    t->c.prefix = checkpoint_prefix(weights);
    CHECK(read_patch(t));
    if (has_part(t->names, "model.embed_positions")) {
        CHECK(read_learned_positions(t));
        const int64_t said = tower_image_side(config, t->side);
        if (said != t->side) {
            return error_set(
                GRAIL_ERROR_SHAPE,
                "%s: image_size is %lld, but the positions in '%s' are for images of side %lld",
                source, (long long)said, decoder_name_in(t->names->names, "model.embed_positions"),
                (long long)t->side);
        }
    } else {
        CHECK(read_side(source, config, t));
    }
    CHECK(read_operators(source, config, t));
    CHECK(read_head_dim(source, config, t));
    t->c.score_scale = 1.0 / sqrt((double)t->c.head_dim);
    while (t->c.layers <= MOST_LAYERS &&
           has_tensor(t, (int)t->c.layers, "input_layernorm", "weight")) {
        t->c.layers++;
    }
    CHECK(json_get_integer(source, section_of(config), "num_hidden_layers", t->c.layers,
                           &t->c.layers));
    if (t->c.layers < 1 || t->c.layers > MOST_LAYERS) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: found %lld layers, expected 1 to %d", source,
                         (long long)t->c.layers, MOST_LAYERS);
    }
    CHECK(memory_new(&t->c.layer, (size_t)t->c.layers, sizeof t->c.layer[0]));
    for (int i = 0; i < (int)t->c.layers; i++) {
        CHECK(read_layer(t, i));
    }
    if (has_tensor(t, GRAPH_NONE, "model.projection", kind)) {
        CHECK(require_tensor(t, GRAPH_NONE, "model.projection", kind, 2, &view));
        t->projection = view->shape[bare ? 1 : 0];
    }
    read_head(t);
    return GRAIL_OK;
}

/* -- the graph --------------------------------------------------------------------------------- */

static window2d patch_window(const tower *t)
{
    return (window2d)WINDOW2D(t->patch, t->patch, t->patch, 0, 1);
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
    CHECK((has_part(t->names, "model.embed_positions") ? add_patches : add_linear_patches)(b, h));
    return t->first_norm ? build_norm(b, "model.embed_norm", b->c->hidden, 0, *h, h) : GRAIL_OK;
}

/* A norm works row by row, so normalising only the class token gives the same result as normalising
 * all rows. */
static grail_status add_end(builder *b, int *h)
{
    const tower *t = b->c->tower;
    int64_t width = b->c->hidden;
    CHECK(build_plain(b, has_part(t->names, "model.class_token") ? NODE_FIRST_TOKEN : NODE_MEAN, *h,
                      GRAPH_NONE, h));
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
    TRY(read(self, source, config, weights, &t));
    t.c.family = &row;
    t.c.tower = &t;
    TRY(decoder_graph(source, &t.c, out));
out:
    decoder_config_fini(&t.c);
    return status;
}
