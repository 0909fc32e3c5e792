/* Reads the sizes of a tower from its tensors, and the rest from the configuration. */
#include "arch/activation_names.h"
#include "arch/transformer_tower.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_LAYERS = 1024,
    MOST_SIDE = 1 << 14, /* of an image */
    MOST_WIDTH = 1 << 24,
    HEAD_DIM = 64,        /* of networks that do not state it, except the largest */
    CONFIGURED_HEADS = 12 /* of Hugging Face's configuration classes */
};

const char *const tower_settings[] = {"activation", "normalize", "head_dim", "image_size", NULL};

const json_t *tower_section(const json_t *config)
{
    const json_t *vision = json_object_get(config, "vision_config");
    return json_is_object(vision) ? vision : config;
}

int64_t tower_image_side(const json_t *config, int64_t fallback)
{
    const json_t *own = json_object_get(config, "image_size");
    const json_t *side = own != NULL ? own : json_object_get(tower_section(config), "image_size");
    return json_is_integer(side) ? (int64_t)json_integer_value(side) : fallback;
}

/* Finds a tensor under the prefix. Every dimension must be at least 1. `suffix` is "" when `part`
 * is the complete name. */
static grail_status require_tensor(const tower *t, const char *part, const char *suffix, int rank,
                                   const tensor_view **out)
{
    grail_status status = GRAIL_OK;
    const char *path = checkpoint_path(t->weights);
    char *name = NULL;
    TRY(tower_name(&name, t->match.prefix, "%s%s", part, suffix));
    const tensor_view *found = checkpoint_find(t->weights, name);
    if (found == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is missing, but checkpoints of %s have it", path,
             name, t->match.names->loader);
    }
    bool sound = found->rank >= rank;
    for (int i = 0; i < found->rank; i++) {
        const bool leading = i < found->rank - rank;
        sound = sound && found->shape[i] >= 1 && found->shape[i] <= MOST_WIDTH &&
                (!leading || found->shape[i] == 1);
    }
    if (!sound) {
        char shape[64];
        FAIL(GRAIL_ERROR_SHAPE, "%s: tensor '%s' has shape %s, expected %d dimensions", path, name,
             shape_text(found->rank, found->shape, shape, sizeof shape), rank);
    }
    *out = found;
out:
    memory_free(name);
    return status;
}

static grail_status has_tensor(const tower *t, bool *out, const char *part, const char *suffix)
{
    char *name = NULL;
    const grail_status status = tower_name(&name, t->match.prefix, "%s%s", part, suffix);
    *out = status == GRAIL_OK && checkpoint_find(t->weights, name) != NULL;
    memory_free(name);
    return status;
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
    const bool linear = t->match.names->positions == NULL;
    CHECK(require_tensor(t, t->match.names->patch, ".weight", linear ? 2 : 4, &view));
    CHECK(has_tensor(t, &t->patch_bias, t->match.names->patch, ".bias"));
    t->width = view->shape[0];
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
    CHECK(require_tensor(t, t->match.names->positions, "", 2, &view));
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

static grail_status check_side(const char *source, const json_t *config, const tower *t)
{
    const int64_t said = tower_image_side(config, t->side);
    if (said == t->side) {
        return GRAIL_OK;
    }
    return error_set(
        GRAIL_ERROR_SHAPE,
        "%s: image_size is %lld, but the positions in '%s' are for images of side %lld", source,
        (long long)said, t->match.names->positions, (long long)t->side);
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
    if (t->width % 4 != 0 || t->width < 8) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: the width is %lld; sine and cosine positions need a multiple of 4 that is at "
            "least 8",
            checkpoint_path(t->weights), (long long)t->width);
    }
    t->positions = (t->side / t->patch) * (t->side / t->patch);
    return GRAIL_OK;
}

static grail_status count_layers(const char *source, const json_t *config, tower *t)
{
    const tower_names *n = t->match.names;
    int64_t count = 0;
    bool there = true;
    while (there && count <= MOST_LAYERS) {
        char part[96];
        snprintf(part, sizeof part, "%s%lld.%s", n->layer, (long long)count, n->attention_norm);
        CHECK(has_tensor(t, &there, part, ".weight"));
        count += there;
    }
    CHECK(json_get_integer(source, tower_section(config), "num_hidden_layers", count, &count));
    if (count < 1 || count > MOST_LAYERS) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: found %lld layers, expected 1 to %d", source,
                         (long long)count, MOST_LAYERS);
    }
    t->layer_count = (int)count;
    return GRAIL_OK;
}

static grail_status read_layer(tower *t, int index)
{
    const tower_names *n = t->match.names;
    const tensor_view *view = NULL;
    char part[96];
    const bool fused = n->fused_weight != NULL;
    snprintf(part, sizeof part, "%s%d.%s", n->layer, index, fused ? n->fused_weight : n->queries);
    CHECK(require_tensor(t, part, fused ? "" : ".weight", 2, &view));
    if (fused && view->shape[0] % 3 != 0) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "%s: tensor '%s' has %lld rows; q, k and v together need a multiple of 3",
                         checkpoint_path(t->weights), view->name, (long long)view->shape[0]);
    }
    t->layers[index].inner = fused ? view->shape[0] / 3 : view->shape[0];
    if (t->layers[index].inner % t->head_dim != 0) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "%s: the %lld rows of '%s' cannot be divided into heads of %lld; give head_dim=N "
            "(width / heads)",
            checkpoint_path(t->weights), (long long)view->shape[0], view->name,
            (long long)t->head_dim);
    }
    snprintf(part, sizeof part, "%s%d.%s", n->layer, index, n->up);
    CHECK(require_tensor(t, part, ".weight", 2, &view));
    t->layers[index].ffn = view->shape[0];
    return GRAIL_OK;
}

/* The published widths whose heads are not of 64. Sources: vision_transformer.py of timm (huge,
 * giant, gigantic), ViT-H-14, ViT-g-14 and ViT-bigG-14 of open_clip. */
static int64_t usual_head_dim(int64_t width)
{
    static const struct {
        int64_t width, head_dim;
    } others[] = {{1280, 80}, {1408, 88}, {1664, 104}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].width == width) {
            return others[i].head_dim;
        }
    }
    return HEAD_DIM;
}

static grail_status read_head_dim(const char *source, const json_t *config, tower *t)
{
    const json_t *section = tower_section(config);
    int64_t fallback = usual_head_dim(t->width);
    int64_t heads = 0;
    const int64_t guess = json_object_get(config, "names") == NULL ? CONFIGURED_HEADS : 0;
    CHECK(json_get_integer(source, section, "num_attention_heads", guess, &heads));
    fallback = heads > 0 ? t->width / heads : fallback;
    CHECK(json_get_integer(source, section, "head_dim", fallback, &fallback));
    CHECK(json_get_integer(source, config, "head_dim", fallback, &t->head_dim));
    if (t->head_dim < 1 || t->head_dim > MOST_WIDTH) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: head_dim is %lld, expected 1 to %d", source,
                         (long long)t->head_dim, MOST_WIDTH);
    }
    return GRAIL_OK;
}

/* Settings at the top of the configuration take precedence over its vision section. */
static grail_status read_operators(const char *source, const json_t *config, tower *t)
{
    const tower_names *n = t->match.names;
    const json_t *section = tower_section(config);
    t->activation = n->activation;
    CHECK(read_activation(source, section, "hidden_act", t->activation, &t->activation));
    CHECK(read_activation(source, config, "activation", t->activation, &t->activation));
    t->epsilon = n->epsilon;
    if (n->first_norm_epsilon > 0.0) {
        CHECK(has_tensor(t, &t->first_norm, n->first_norm, ".weight"));
        t->epsilon = t->first_norm ? n->first_norm_epsilon : n->epsilon;
    }
    CHECK(json_get_real(source, section, "layer_norm_eps", t->epsilon, &t->epsilon));
    CHECK(json_get_boolean(source, config, "normalize", false, &t->normalize));
    if (n->fused_weight != NULL) {
        char part[96];
        snprintf(part, sizeof part, "%s0.%s", n->layer, n->fused_bias == NULL ? "" : n->fused_bias);
        CHECK(has_tensor(t, &t->query_bias, part, ""));
    } else {
        CHECK(json_get_boolean(source, section, "qkv_bias", true, &t->query_bias));
    }
    return GRAIL_OK;
}

/* Finds the complete name of the head below `prefix`, if there is a head. */
static grail_status look_for_head(tower *t, int prefix)
{
    grail_status status = GRAIL_OK;
    char *name = NULL;
    char *weight = NULL;
    TRY(memory_format(&name, "%.*s%s", prefix, t->match.prefix, t->match.names->head));
    TRY(memory_format(&weight, "%s.weight", name));
    const tensor_view *view = checkpoint_find(t->weights, weight);
    if (view != NULL && view->rank == 2) {
        t->classes = view->shape[0];
        t->head = name;
        name = NULL;
        memory_free(weight);
        weight = NULL;
        TRY(memory_format(&weight, "%s.bias", t->head));
        t->head_bias = checkpoint_find(t->weights, weight) != NULL;
    }
out:
    memory_free(name);
    memory_free(weight);
    return status;
}

/* The name of a head has the tower's prefix, or the prefix without its last component: "vit." and
 * "model." hold only the tower. */
static grail_status read_head(tower *t)
{
    const int all = (int)strlen(t->match.prefix);
    int outer = all - 1;
    while (outer > 0 && t->match.prefix[outer - 1] != '.') {
        outer--;
    }
    grail_status status = look_for_head(t, all);
    if (status == GRAIL_OK && t->head == NULL && outer >= 0) {
        status = look_for_head(t, outer);
    }
    return status;
}

static grail_status read_ends(tower *t)
{
    const tower_names *n = t->match.names;
    bool there = false;
    if (n->first_norm != NULL) {
        CHECK(has_tensor(t, &t->first_norm, n->first_norm, ".weight"));
    }
    if (n->projection != NULL) {
        const char *suffix = n->bare_projection ? "" : ".weight";
        CHECK(has_tensor(t, &there, n->projection, suffix));
        if (there) {
            const tensor_view *view = NULL;
            CHECK(require_tensor(t, n->projection, suffix, 2, &view));
            t->projection = view->shape[n->bare_projection ? 1 : 0];
        }
    }
    return read_head(t);
}

grail_status tower_recognise(const tower_family *family, const checkpoint *weights, recognition *r,
                             tower_match *match, json_t **config)
{
    grail_status status = GRAIL_OK;
    tower t = {.weights = weights, .side = TOWER_CIFAR_SIDE};
    json_t *made = NULL;
    TRY(tower_find(family, weights, &t.match));
    *r = t.match.found;
    if (r->matched < r->wanted) {
        goto out;
    }
    if (t.match.names->positions != NULL) {
        TRY(read_patch(&t));
        TRY(read_learned_positions(&t));
    }
    made = json_object();
    TRY(json_put(made, "model_type", json_text(family->name)));
    TRY(json_put(made, "names", json_text(t.match.names->key)));
    TRY(json_put(made, "activation", json_text(activation_name(t.match.names->activation))));
    TRY(json_put(made, "image_size", json_integer(t.side)));
    *config = made;
    made = NULL;
    *match = t.match;
    t.match = (tower_match){0};
out:
    json_decref(made);
    tower_fini(&t);
    return status;
}

grail_status tower_read(const tower_family *family, const char *source, const json_t *config,
                        const checkpoint *weights, tower *out)
{
    grail_status status = GRAIL_OK;
    tower t = {.weights = weights};
    TRY(tower_find(family, weights, &t.match));
    TRY(read_patch(&t));
    if (t.match.names->positions != NULL) {
        TRY(read_learned_positions(&t));
        TRY(check_side(source, config, &t));
    } else {
        TRY(read_side(source, config, &t));
    }
    TRY(read_operators(source, config, &t));
    TRY(read_head_dim(source, config, &t));
    TRY(count_layers(source, config, &t));
    TRY(memory_new(&t.layers, (size_t)t.layer_count, sizeof t.layers[0]));
    for (int i = 0; i < t.layer_count; i++) {
        TRY(read_layer(&t, i));
    }
    TRY(read_ends(&t));
    *out = t;
    t = (tower){0};
out:
    tower_fini(&t);
    return status;
}

void tower_fini(tower *t)
{
    tower_match_fini(&t->match);
    memory_free(t->head);
    memory_free(t->layers);
    *t = (tower){0};
}
