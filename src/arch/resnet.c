/* The graph of a residual network:
 *   h = [pool] act(norm(conv(pixels)))
 *   h = act(shortcut(h) + norm(conv(... act(norm(conv(h))))))   for every block
 *   logits = head(mean(h))
 * and with pre-activation h = shortcut + conv(act(norm(... conv(p)))), p = act(norm(h)), where a
 * projecting shortcut reads p. The tensors give the widths. The configuration gives what the names
 * of tensors do not tell, in the keys of Hugging Face's ResNetConfig. */
#include "arch/resnet.h"

#include "arch/activation_names.h"
#include "arch/builder.h"

#include <stdio.h>
#include <string.h>

typedef struct making {
    builder b;
    decoder_config c; /* which says only that parts are called as their tensors */
    resnet_layout l;
    const char *source;
    activation_kind activation;
    bool strides_first_stage;         /* "downsample_in_first_stage" */
    bool strides_first_conv;          /* "downsample_in_bottleneck": not the 3 x 3 convolution */
    int stage, number;                /* of the block that is built: which one of this stage */
    int64_t width;                    /* of the residual stream */
    int64_t stem, out[RESNET_STAGES]; /* widths behind the stem and each stage */
} making;

static grail_status add_norm(making *m, const char *part, int64_t width, int *value)
{
    node n = node_of(NODE_BATCH_NORM, m->b.block, *value, GRAPH_NONE);
    n.norm.epsilon = 1e-5; /* of torch.nn.BatchNorm2d; none of the families sets another */
    CHECK(build_part(&m->b, part, "weight", 0.0, 1, &width, &n.weight));
    CHECK(build_part(&m->b, part, "bias", 0.0, 1, &width, &n.bias));
    CHECK(build_part(&m->b, part, "running_mean", 0.0, 1, &width, &n.mean));
    CHECK(build_part(&m->b, part, "running_var", 0.0, 1, &width, &n.variance));
    return graph_add_node(m->b.g, &n, value);
}

static bool has_bias(const making *m, const char *part)
{
    return resnet_shape(&m->l, part, "bias", NULL) != NULL;
}

/* The weight tensor of a part, which is there and must have `rank` dimensions. */
static grail_status find_weight(const making *m, const char *part, int rank,
                                const tensor_view **out)
{
    char name[RESNET_TENSOR];
    char text[64];
    snprintf(name, sizeof name, "%s.weight", part);
    const tensor_view *found = checkpoint_find(m->l.weights, name);
    bool is_empty = false;
    for (int d = 0; d < found->rank; d++) {
        is_empty = is_empty || found->shape[d] < 1;
    }
    if (found->rank != rank || is_empty) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "tensor '%s' has shape %s, expected %d dimensions of 1 or more", name,
                         shape_text(found->rank, found->shape, text, sizeof text), rank);
    }
    *out = found;
    return GRAIL_OK;
}

/* Those of a ResNeXt: each row of a larger kernel reads a part of the channels. */
static int64_t groups_of(const tensor_view *tensor, int64_t in)
{
    const int64_t own = tensor->shape[1];
    const bool divides = tensor->shape[2] > 1 && own > 1 && own < in && in % own == 0 &&
                         tensor->shape[0] % (in / own) == 0;
    return divides ? in / own : 1;
}

/* value = conv(value). *out is the number of outputs; if it is 0, it becomes that of the tensor.
 * The padding keeps the number of positions, except for the stride. */
static grail_status add_conv(making *m, const char *part, int64_t in, int64_t kernel,
                             int64_t stride, int64_t *out, int *value)
{
    const tensor_view *tensor = NULL;
    CHECK(find_weight(m, part, 4, &tensor));
    const int64_t groups = groups_of(tensor, in);
    *out = *out == 0 ? tensor->shape[0] : *out;
    const window2d window = WINDOW2D(kernel, kernel, stride, kernel / 2, 1);
    CHECK(build_conv(&m->b, part, has_bias(m, part), in / groups, *out, &window, value));
    m->b.g->nodes[m->b.g->node_count - 1].groups = groups;
    return GRAIL_OK;
}

/* A 7 x 7 convolution of stride 2 and a pool for large images; a 3 x 3 convolution for CIFAR. */
static grail_status add_stem(making *m, int *value)
{
    const resnet_naming *n = m->l.naming;
    const tensor_view *tensor = NULL;
    CHECK(find_weight(m, n->stem_conv, 4, &tensor));
    const int64_t kernel = tensor->shape[2];
    if (tensor->shape[1] != IMAGE_CHANNELS) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "tensor '%s' reads %lld channel(s) of images; only images of %d channels "
                         "(red, green, blue) are supported",
                         tensor->name, (long long)tensor->shape[1], IMAGE_CHANNELS);
    }
    if (kernel != 3 && kernel != 7) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "tensor '%s' has a kernel of size %lld; the kernel of the first convolution must have "
            "size 7 (ImageNet) or 3 (CIFAR)",
            tensor->name, (long long)kernel);
    }
    CHECK(add_conv(m, n->stem_conv, IMAGE_CHANNELS, kernel, kernel == 7 ? 2 : 1, &m->width, value));
    if (!n->pre_activation) {
        CHECK(add_norm(m, n->stem_norm, m->width, value));
        CHECK(build_activation(&m->b, m->activation, value));
    }
    node pool = node_of(NODE_MAX_POOL, m->b.block, *value, GRAPH_NONE);
    pool.window = (window2d)WINDOW2D(3, 3, 2, 1, 1);
    m->stem = m->width;
    return kernel == 7 ? graph_add_node(m->b.g, &pool, value) : GRAIL_OK;
}

/* "conv1" -> "layer2.0.conv1" of the block that is being built. */
static resnet_part in_block(const making *m, const char *part)
{
    return resnet_in_block(m->l.naming, m->stage, m->number, part);
}

/* Adds the shortcut, which is summed with a block's output of width `out`. */
static grail_status add_shortcut(making *m, bool projects, int64_t stride, int64_t out, int *value)
{
    const resnet_naming *n = m->l.naming;
    if (projects) {
        CHECK(add_conv(m, in_block(m, n->shortcut_conv).name, m->width, 1, stride, &out, value));
        return n->shortcut_norm == NULL
                   ? GRAIL_OK
                   : add_norm(m, in_block(m, n->shortcut_norm).name, out, value);
    }
    if (stride == 1 && out == m->width) {
        return GRAIL_OK;
    }
    node shortcut = node_of(NODE_SHORTCUT, m->b.block, *value, GRAPH_NONE);
    shortcut.window = (window2d)WINDOW2D(1, 1, stride, 0, 1);
    shortcut.pad = (out - m->width) / 2;
    if (shortcut.pad < 0 || (out - m->width) % 2 != 0) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "block %d: a shortcut without a convolution cannot pad %lld channels to %lld: it adds "
            "the same number of zeros on both sides",
            m->b.block, (long long)m->width, (long long)out);
    }
    return graph_add_node(m->b.g, &shortcut, value);
}

static grail_status add_block(making *m, int *h)
{
    const resnet_naming *n = m->l.naming;
    const int64_t stride = m->number == 0 && (m->stage > 0 || m->strides_first_stage) ? 2 : 1;
    const bool projects =
        resnet_block_shape(&m->l, m->stage, m->number, n->shortcut_conv, NULL) != NULL;
    const bool is_bottleneck = m->l.convs == RESNET_CONVS;
    const int striding = is_bottleneck && !m->strides_first_conv ? 1 : 0;
    int branch = *h;
    int64_t in = m->width;
    int64_t out = m->width;
    if (m->l.pads || projects) { /* other blocks keep the number of channels */
        const tensor_view *last = NULL;
        CHECK(find_weight(m, in_block(m, n->conv[m->l.convs - 1]).name, 4, &last));
        out = last->shape[0];
    }
    if (n->pre_activation) {
        CHECK(add_norm(m, in_block(m, n->norm[0]).name, in, &branch));
        CHECK(build_activation(&m->b, m->activation, &branch));
        *h = projects ? branch : *h;
    }
    /* The shortcut comes first, so that the fit of the branch's last convolution knows what the
     * branch is added to. */
    CHECK(add_shortcut(m, projects, stride, out, h));
    for (int c = 0; c < m->l.convs; c++) {
        const activation_kind inside = n->relu_inside ? ACTIVATION_RELU : m->activation;
        const bool is_last = c == m->l.convs - 1;
        int64_t width = is_last ? out : 0;
        if (n->pre_activation && c > 0) {
            CHECK(add_norm(m, in_block(m, n->norm[c]).name, in, &branch));
            CHECK(build_activation(&m->b, inside, &branch));
        }
        CHECK(add_conv(m, in_block(m, n->conv[c]).name, in, is_bottleneck && c != 1 ? 1 : 3,
                       c == striding ? stride : 1, &width, &branch));
        if (!n->pre_activation) {
            CHECK(add_norm(m, in_block(m, n->norm[c]).name, width, &branch));
            CHECK(is_last ? GRAIL_OK : build_activation(&m->b, inside, &branch));
        }
        in = width;
    }
    CHECK(build_plain(&m->b, NODE_ADD, *h, branch, h));
    m->width = out;
    return n->pre_activation ? GRAIL_OK : build_activation(&m->b, m->activation, h);
}

static grail_status build_graph(making *m)
{
    const resnet_naming *n = m->l.naming;
    const tensor_view *head = NULL;
    builder *b = &m->b;
    CHECK(graph_create(&b->g));
    b->g->input_kind = INPUT_IMAGES;
    int h = b->g->input;
    CHECK(add_stem(m, &h));
    for (m->stage = 0; m->stage < m->l.stages; m->stage++) {
        for (m->number = 0; m->number < m->l.blocks[m->stage]; m->number++) {
            b->block++;
            CHECK(add_block(m, &h));
        }
        m->out[m->stage] = m->width;
    }
    b->block++;
    if (n->final_norm != NULL) {
        CHECK(add_norm(m, n->final_norm, m->width, &h));
        CHECK(build_activation(b, m->activation, &h));
    }
    CHECK(build_plain(b, NODE_MEAN, h, GRAPH_NONE, &h));
    CHECK(find_weight(m, n->head, 2, &head));
    b->g->classes = head->shape[0];
    CHECK(build_linear(b, n->head, has_bias(m, n->head), m->width, b->g->classes, h, &h));
    return graph_finish(b->g, h);
}

/* Refuses variants with parts that the layout does not describe. */
static grail_status refuse_variants(const resnet_layout *l)
{
    char stem[RESNET_NAME];
    const char *path = checkpoint_path(l->weights);
    snprintf(stem, sizeof stem, "%s.0", l->naming->stem_conv);
    if (resnet_block_shape(l, 0, 0, l->naming->conv[0], NULL) == NULL) {
        return GRAIL_OK; /* no residual network at all */
    }
    if (resnet_shape(l, stem, "weight", NULL) != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: a stem of several convolutions ('%s.weight') is not supported: "
                         "ResNet-C, -D and -T variants cannot be narrowed, plain ResNets can",
                         path, stem);
    }
    for (int s = 0; s < l->stages; s++) {
        const resnet_part norm = resnet_in_block(l->naming, s, 0, "downsample.2");
        if (resnet_shape(l, norm.name, "weight", NULL) != NULL) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: a shortcut with average pooling (before '%s.weight') is not "
                             "supported: ResNet-D variants cannot be narrowed, plain ResNets can",
                             path, norm.name);
        }
    }
    return GRAIL_OK;
}

#define OTHER_NETWORK "; it is of another network: give the config.json of this one"

static grail_status check_stated(const making *m, const json_t *config, const char *key, int index,
                                 int64_t found, const char *what)
{
    const json_t *list = json_object_get(config, key);
    const json_t *value = json_is_array(list) ? json_array_get(list, (size_t)index) : list;
    if (list == NULL || (json_is_integer(value) && json_integer_value(value) == found)) {
        return GRAIL_OK;
    }
    error_set(GRAIL_ERROR_SHAPE, "%s: \"%s\"", m->source, key);
    if (json_is_array(list)) {
        error_append("[%d]", index);
    }
    error_append(" is %lld, but the tensors have %lld %s" OTHER_NETWORK,
                 (long long)json_integer_value(value), (long long)found, what);
    return GRAIL_ERROR_SHAPE;
}

/* What Hugging Face's configuration states of what the tensors have: the widths, and what a stock
 * class builds its blocks and its head from, which no width shows. */
static grail_status check_sizes(const making *m, const json_t *config)
{
    static const char *const lists[] = {"depths", "hidden_sizes"};
    const json_t *type = json_object_get(config, "layer_type");
    const char *found = resnet_layer_type(m->l.convs);
    const json_t *labels = json_object_get(config, "id2label");
    for (int l = 0; l < 2; l++) {
        const json_t *list = json_object_get(config, lists[l]);
        if (list != NULL && json_array_size(list) != (size_t)m->l.stages) {
            return error_set(GRAIL_ERROR_SHAPE,
                             "%s: \"%s\" lists %zu stages, but the tensors have %d" OTHER_NETWORK,
                             m->source, lists[l], json_array_size(list), m->l.stages);
        }
    }
    for (int s = 0; s < m->l.stages; s++) {
        CHECK(check_stated(m, config, "depths", s, m->l.blocks[s], "blocks there"));
        CHECK(check_stated(m, config, "hidden_sizes", s, m->out[s], "channels there"));
    }
    CHECK(check_stated(m, config, "embedding_size", 0, m->stem, "channels behind the first one"));
    if (type != NULL && (!json_is_string(type) || strcmp(json_string_value(type), found) != 0)) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "%s: \"layer_type\" is %s, but the tensors have blocks of %d convolutions "
                         "(\"%s\")" OTHER_NETWORK,
                         m->source, json_is_string(type) ? json_string_value(type) : "no text",
                         m->l.convs, found);
    }
    if (json_is_object(labels) && json_object_size(labels) != (size_t)m->b.g->classes) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "%s: \"id2label\" names %zu class(es), but the tensors have %lld" OTHER_NETWORK,
            m->source, json_object_size(labels), (long long)m->b.g->classes);
    }
    return check_stated(m, config, "num_channels", 0, IMAGE_CHANNELS, "channels of images");
}

static grail_status build(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out)
{
    static const decoder_family row = {.names_are_tensors = true};
    (void)self;
    grail_status status = GRAIL_OK;
    making m = {.source = source,
                .c = {DECODER_UNSCALED, .family = &row, .place = decoder_place_plain},
                .b = {.c = &m.c, .layer = GRAPH_NONE, .block = GRAPH_NONE}};
    TRY(read_activation(source, config, "hidden_act", ACTIVATION_RELU, &m.activation));
    TRY(json_get_boolean(source, config, "downsample_in_first_stage", false,
                         &m.strides_first_stage));
    TRY(json_get_boolean(source, config, "downsample_in_bottleneck", false, &m.strides_first_conv));
    resnet_layout_read(weights, NULL, &m.l);
    TRY(refuse_variants(&m.l));
    if (m.l.found.matched < m.l.found.wanted) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is missing, but a resnet network needs it",
             checkpoint_path(weights), m.l.found.missing);
    }
    TRY(error_in(build_graph(&m), "%s", checkpoint_path(weights)));
    if (m.l.naming->library == RESNET_OF_HUGGINGFACE) {
        TRY(check_sizes(&m, config));
    }
    *out = m.b.g;
    m.b.g = NULL;
out:
    graph_free(m.b.g);
    return status;
}

/* The preset that a checkpoint without configuration was most likely trained with. Only akamaster's
 * CIFAR collection pads shortcuts, and it normalises as for ImageNet; the paper's pre-activation
 * network reads plain pixels. */
static const char *usual_preset(const resnet_layout *l)
{
    int rank = 0;
    const int64_t *stem = resnet_shape(l, l->naming->stem_conv, "weight", &rank);
    return l->naming->pre_activation   ? "cifar-plain"
           : rank == 4 && stem[2] == 7 ? "imagenet"
           : l->pads                   ? "cifar-imagenet"
                                       : "cifar";
}

static grail_status recognise(const architecture *self, const checkpoint *weights, recognition *r,
                              json_t **config)
{
    grail_status status = GRAIL_OK;
    json_t *object = NULL;
    resnet_layout layout;
    resnet_layout_read(weights, NULL, &layout);
    TRY(refuse_variants(&layout));
    *r = layout.found;
    if (r->matched < r->wanted) {
        return GRAIL_OK;
    }
    object = json_object();
    TRY(json_put(object, "model_type", json_text(self->name)));
    TRY(json_put(object, "preset", json_text(usual_preset(&layout))));
    *config = object;
    object = NULL;
out:
    json_decref(object);
    return status;
}

static grail_status match(const architecture *self, const checkpoint *weights, recognition *r)
{
    (void)self;
    resnet_layout layout;
    resnet_layout_read(weights, NULL, &layout);
    *r = layout.found;
    return GRAIL_OK;
}

/* Some of timm's classes have filters without weights where others only skip positions: no tensor
 * shows them. Source: timm 1.0.31, models/resnet.py. */
static grail_status refuse_filters(const surroundings *around, json_t *config, char *notice)
{
    const char *class = json_string_value(json_object_get(around->config, "architecture"));
    const json_t *layer =
        json_object_get(json_object_get(around->config, "model_args"), "aa_layer");
    (void)config;
    (void)notice;
    const bool named =
        class != NULL && (strstr(class, "resnetblur") != NULL || strstr(class, "resnetaa") != NULL);
    if (named || (layer != NULL && !json_is_null(layer))) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: the architecture \"%s\" filters positions before it skips them "
                         "(anti-aliasing), which no tensor shows; grail has ResNets that skip them "
                         "without a filter",
                         around->source, class == NULL ? "(missing)" : class);
    }
    return GRAIL_OK;
}

static const char *preset(const json_t *config)
{
    const char *name = json_string_value(json_object_get(config, "preset"));
    return name == NULL ? "imagenet" : name;
}

static const char *const settings[] = {"hidden_act", "downsample_in_first_stage",
                                       "downsample_in_bottleneck", "preset", NULL};

const architecture architecture_resnet = {
    .name = "resnet",
    .settings = settings,
    .recognise = recognise,
    .anchors = resnet_anchors,
    .match = match,
    .build = build,
    .complete = refuse_filters,
    .image_processor = "ConvNext",
    .preset = preset,
    .describe_narrowed = resnet_describe_narrowed,
    .class_ending = "ForImageClassification",
    .judge_loaders = resnet_judge_loaders,
    .loader_file = resnet_loader_file,
};
