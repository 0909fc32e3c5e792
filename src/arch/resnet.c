/* The graph of a residual network:
 *   h = [pool] act(norm(conv(pixels)))
 *   h = act(shortcut(h) + norm(conv(... act(norm(conv(h))))))   for every block
 *   logits = head(mean(h))
 * and with pre-activation h = shortcut + conv(act(norm(... conv(p)))), p = act(norm(h)), where a
 * projecting shortcut reads p. The tensors give the widths. The configuration gives what the names
 * of tensors do not tell, in the keys of Hugging Face's ResNetConfig. */
#include "arch/resnet.h"

#include "arch/activation_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct builder {
    graph *g;
    const checkpoint *weights;
    const char *source;
    const resnet_naming *naming;
    resnet_layout layout;
    activation_kind activation;
    bool strides_first_stage;         /* "downsample_in_first_stage" */
    bool strides_first_conv;          /* "downsample_in_bottleneck": not the 3 x 3 convolution */
    int block;                        /* of the graph, */
    int stage, number;                /* which is this one of this stage */
    char part[RESNET_NAME];           /* of the block, in its checkpoint */
    int64_t width;                    /* of the residual stream */
    int64_t stem, out[RESNET_STAGES]; /* widths behind the stem and each stage */
} builder;

/* Source: torch.nn.BatchNorm2d; none of the families sets another. */
static const double epsilon = 1e-5;

static grail_status add_vector(builder *b, const char *part, const char *suffix, int64_t width,
                               int *out)
{
    char name[RESNET_TENSOR];
    const int64_t shape[1] = {width};
    snprintf(name, sizeof name, "%s%s", part, suffix);
    return graph_add_parameter(b->g, name, 1, shape, out);
}

static grail_status add_norm(builder *b, const char *part, int64_t width, int *value)
{
    node n = node_of(NODE_BATCH_NORM, b->block, *value, GRAPH_NONE);
    n.norm.epsilon = epsilon;
    CHECK(add_vector(b, part, ".weight", width, &n.weight));
    CHECK(add_vector(b, part, ".bias", width, &n.bias));
    CHECK(add_vector(b, part, ".running_mean", width, &n.mean));
    CHECK(add_vector(b, part, ".running_var", width, &n.variance));
    return graph_add_node(b->g, &n, value);
}

static grail_status add_activation(builder *b, activation_kind kind, int *value)
{
    node n = node_of(NODE_ACTIVATION, b->block, *value, GRAPH_NONE);
    n.activation = kind;
    return graph_add_node(b->g, &n, value);
}

static grail_status add_bias(builder *b, const char *part, int64_t width, int *out)
{
    char name[RESNET_TENSOR];
    snprintf(name, sizeof name, "%s.bias", part);
    return checkpoint_find(b->weights, name) == NULL ? GRAIL_OK
                                                     : add_vector(b, part, ".bias", width, out);
}

/* Finds the weight tensor of a part, which must have `rank` dimensions. */
static grail_status find_weight(const builder *b, const char *part, int rank,
                                const tensor_view **out)
{
    char name[RESNET_TENSOR];
    char text[64];
    snprintf(name, sizeof name, "%s.weight", part);
    const tensor_view *found = checkpoint_find(b->weights, name);
    if (found == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "tensor '%s' is missing", name);
    }
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

/* value = conv(value). *out is the number of outputs; if it is 0, it becomes that of the tensor.
 * The padding keeps the number of positions, except for the stride. */
static grail_status add_conv(builder *b, const char *part, int64_t in, int64_t kernel,
                             int64_t stride, int64_t *out, int *value)
{
    char name[RESNET_TENSOR];
    const tensor_view *tensor = NULL;
    node n = node_of(NODE_CONV2D, b->block, *value, GRAPH_NONE);
    CHECK(find_weight(b, part, 4, &tensor));
    if (tensor->shape[1] < in && in % tensor->shape[1] == 0) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "tensor '%s' reads %lld of %lld channels; grouped convolutions (ResNeXt) are not "
            "supported",
            tensor->name, (long long)tensor->shape[1], (long long)in);
    }
    *out = *out == 0 ? tensor->shape[0] : *out;
    const int64_t shape[4] = {*out, in, kernel, kernel};
    n.window = (window2d){.kernel_height = kernel,
                          .kernel_width = kernel,
                          .stride = stride,
                          .padding = kernel / 2,
                          .dilation = 1};
    snprintf(name, sizeof name, "%s.weight", part);
    CHECK(graph_add_parameter(b->g, name, 4, shape, &n.weight));
    CHECK(add_bias(b, part, *out, &n.bias));
    return graph_add_node(b->g, &n, value);
}

/* A 7 x 7 convolution of stride 2 and a pool for large images; a 3 x 3 convolution for CIFAR. */
static grail_status add_stem(builder *b, int *value)
{
    const resnet_naming *n = b->naming;
    const tensor_view *tensor = NULL;
    CHECK(find_weight(b, n->stem_conv, 4, &tensor));
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
    CHECK(add_conv(b, n->stem_conv, IMAGE_CHANNELS, kernel, kernel == 7 ? 2 : 1, &b->width, value));
    if (!n->pre_activation) {
        CHECK(add_norm(b, n->stem_norm, b->width, value));
        CHECK(add_activation(b, b->activation, value));
    }
    node pool = node_of(NODE_MAX_POOL, b->block, *value, GRAPH_NONE);
    pool.window =
        (window2d){.kernel_height = 3, .kernel_width = 3, .stride = 2, .padding = 1, .dilation = 1};
    return kernel == 7 ? graph_add_node(b->g, &pool, value) : GRAIL_OK;
}

/* "conv1" -> "layer2.0.conv1" of the block that is being built; valid until the next call. */
static const char *in_block(builder *b, const char *part)
{
    return resnet_block_name(b->naming, b->stage, b->number, part, "", b->part);
}

static bool has_projection(const builder *b)
{
    return resnet_block_has(b->weights, b->naming, b->stage, b->number, b->naming->shortcut_conv,
                            ".weight");
}

/* Adds the shortcut, which is summed with a block's output of width `out`. */
static grail_status add_shortcut(builder *b, int64_t stride, int64_t out, int *value)
{
    const resnet_naming *n = b->naming;
    if (has_projection(b)) {
        CHECK(add_conv(b, in_block(b, n->shortcut_conv), b->width, 1, stride, &out, value));
        return n->shortcut_norm == NULL ? GRAIL_OK
                                        : add_norm(b, in_block(b, n->shortcut_norm), out, value);
    }
    if (stride == 1 && out == b->width) {
        return GRAIL_OK;
    }
    node shortcut = node_of(NODE_SHORTCUT, b->block, *value, GRAPH_NONE);
    shortcut.window.stride = stride;
    shortcut.pad = (out - b->width) / 2;
    if (shortcut.pad < 0 || (out - b->width) % 2 != 0) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "block %d: a shortcut without a convolution cannot pad %lld channels to %lld: it adds "
            "the same number of zeros on both sides",
            b->block, (long long)b->width, (long long)out);
    }
    return graph_add_node(b->g, &shortcut, value);
}

/* Adds the convolutions of a block; the last one has `out` outputs. */
static grail_status add_branch(builder *b, int64_t stride, int64_t out, int *value)
{
    const resnet_naming *n = b->naming;
    const activation_kind inside = n->relu_inside ? ACTIVATION_RELU : b->activation;
    const bool is_bottleneck = b->layout.convs == 3;
    const int striding = is_bottleneck && !b->strides_first_conv ? 1 : 0;
    int64_t in = b->width;
    for (int c = 0; c < b->layout.convs; c++) {
        const bool is_last = c == b->layout.convs - 1;
        int64_t width = is_last ? out : 0;
        if (n->pre_activation && c > 0) {
            CHECK(add_norm(b, in_block(b, n->norm[c]), in, value));
            CHECK(add_activation(b, inside, value));
        }
        CHECK(add_conv(b, in_block(b, n->conv[c]), in, is_bottleneck && c != 1 ? 1 : 3,
                       c == striding ? stride : 1, &width, value));
        if (!n->pre_activation) {
            CHECK(add_norm(b, in_block(b, n->norm[c]), width, value));
        }
        if (!n->pre_activation && !is_last) {
            CHECK(add_activation(b, inside, value));
        }
        in = width;
    }
    return GRAIL_OK;
}

static grail_status add_block(builder *b, int *h)
{
    const resnet_naming *n = b->naming;
    const int64_t stride = b->number == 0 && (b->stage > 0 || b->strides_first_stage) ? 2 : 1;
    const bool projects = has_projection(b);
    int branch = *h;
    int64_t out = b->width;
    if (n->pre_activation) {
        CHECK(add_norm(b, in_block(b, n->norm[0]), b->width, &branch));
        CHECK(add_activation(b, b->activation, &branch));
        *h = projects ? branch : *h;
    }
    if (b->layout.pads || projects) { /* other blocks keep the number of channels */
        const tensor_view *last = NULL;
        CHECK(find_weight(b, in_block(b, n->conv[b->layout.convs - 1]), 4, &last));
        out = last->shape[0];
    }
    /* The shortcut comes first, so that the fit of the branch's last convolution knows what the
     * branch is added to. */
    CHECK(add_shortcut(b, stride, out, h));
    CHECK(add_branch(b, stride, out, &branch));
    node sum = node_of(NODE_ADD, b->block, *h, branch);
    CHECK(graph_add_node(b->g, &sum, h));
    if (!n->pre_activation) {
        CHECK(add_activation(b, b->activation, h));
    }
    b->width = out;
    return GRAIL_OK;
}

static grail_status add_head(builder *b, int *h)
{
    const resnet_naming *n = b->naming;
    const tensor_view *tensor = NULL;
    char name[RESNET_TENSOR];
    if (n->final_norm != NULL) {
        CHECK(add_norm(b, n->final_norm, b->width, h));
        CHECK(add_activation(b, b->activation, h));
    }
    node mean = node_of(NODE_MEAN, b->block, *h, GRAPH_NONE);
    CHECK(graph_add_node(b->g, &mean, h));
    CHECK(find_weight(b, n->head, 2, &tensor));
    node head = node_of(NODE_LINEAR, b->block, *h, GRAPH_NONE);
    const int64_t shape[2] = {tensor->shape[0], b->width};
    snprintf(name, sizeof name, "%s.weight", n->head);
    CHECK(graph_add_parameter(b->g, name, 2, shape, &head.weight));
    CHECK(add_bias(b, n->head, shape[0], &head.bias));
    CHECK(graph_add_node(b->g, &head, h));
    b->g->classes = shape[0];
    return GRAIL_OK;
}

static grail_status build_graph(builder *b)
{
    CHECK(graph_create(&b->g));
    b->g->input_kind = INPUT_IMAGES;
    int h = b->g->input;
    b->block = GRAPH_NONE;
    CHECK(add_stem(b, &h));
    b->stem = b->width;
    for (b->stage = 0; b->stage < b->layout.stages; b->stage++) {
        for (b->number = 0; b->number < b->layout.blocks[b->stage]; b->number++) {
            b->block++;
            CHECK(add_block(b, &h));
        }
        b->out[b->stage] = b->width;
    }
    b->block++;
    CHECK(add_head(b, &h));
    return graph_finish(b->g, h);
}

#define OTHER_NETWORK "; it is of another network: give the config.json of this one"

static grail_status check_stated(const builder *b, const json_t *config, const char *key, int index,
                                 int64_t found, const char *what)
{
    const json_t *list = json_object_get(config, key);
    const json_t *value = json_is_array(list) ? json_array_get(list, (size_t)index) : list;
    if (list == NULL || (json_is_integer(value) && json_integer_value(value) == found)) {
        return GRAIL_OK;
    }
    error_set(GRAIL_ERROR_SHAPE, "%s: \"%s\"", b->source, key);
    if (json_is_array(list)) {
        error_append("[%d]", index);
    }
    error_append(" is %lld, but the tensors have %lld %s" OTHER_NETWORK,
                 (long long)json_integer_value(value), (long long)found, what);
    return GRAIL_ERROR_SHAPE;
}

/* A stock class builds its blocks and its head from these, which no width of the tensors shows. */
static grail_status check_kind(const builder *b, const json_t *config)
{
    const json_t *type = json_object_get(config, "layer_type");
    const char *found = resnet_layer_type(b->layout.convs);
    if (type != NULL && (!json_is_string(type) || strcmp(json_string_value(type), found) != 0)) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "%s: \"layer_type\" is %s, but the tensors have blocks of %d convolutions "
                         "(\"%s\")" OTHER_NETWORK,
                         b->source, json_is_string(type) ? json_string_value(type) : "no text",
                         b->layout.convs, found);
    }
    const json_t *labels = json_object_get(config, "id2label");
    if (json_is_object(labels) && json_object_size(labels) != (size_t)b->g->classes) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "%s: \"id2label\" names %zu class(es), but the tensors have %lld" OTHER_NETWORK,
            b->source, json_object_size(labels), (long long)b->g->classes);
    }
    return check_stated(b, config, "num_channels", 0, IMAGE_CHANNELS, "channels of images");
}

/* What Hugging Face's configuration states of the widths, which the tensors have. */
static grail_status check_sizes(const builder *b, const json_t *config)
{
    static const char *const lists[] = {"depths", "hidden_sizes"};
    for (int l = 0; l < 2; l++) {
        const json_t *list = json_object_get(config, lists[l]);
        if (list != NULL && json_array_size(list) != (size_t)b->layout.stages) {
            return error_set(GRAIL_ERROR_SHAPE,
                             "%s: \"%s\" lists %zu stages, but the tensors have %d" OTHER_NETWORK,
                             b->source, lists[l], json_array_size(list), b->layout.stages);
        }
    }
    for (int s = 0; s < b->layout.stages; s++) {
        CHECK(check_stated(b, config, "depths", s, b->layout.blocks[s], "blocks there"));
        CHECK(check_stated(b, config, "hidden_sizes", s, b->out[s], "channels there"));
    }
    CHECK(check_stated(b, config, "embedding_size", 0, b->stem, "channels behind the first one"));
    return check_kind(b, config);
}

static grail_status build(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out)
{
    (void)self;
    grail_status status = GRAIL_OK;
    builder b = {.weights = weights, .source = source};
    TRY(read_activation(source, config, "hidden_act", ACTIVATION_RELU, &b.activation));
    TRY(json_get_boolean(source, config, "downsample_in_first_stage", false,
                         &b.strides_first_stage));
    TRY(json_get_boolean(source, config, "downsample_in_bottleneck", false, &b.strides_first_conv));
    resnet_layout_read(weights, &b.layout);
    b.naming = b.layout.naming;
    TRY(resnet_refuse_variants(weights, &b.layout));
    if (b.layout.found.matched < b.layout.found.wanted) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is missing, but a resnet network needs it",
             checkpoint_path(weights), b.layout.found.missing);
    }
    TRY(error_in(build_graph(&b), "%s", checkpoint_path(weights)));
    TRY(b.naming == &resnet_naming_huggingface ? check_sizes(&b, config) : GRAIL_OK);
    *out = b.g;
    b.g = NULL;
out:
    graph_free(b.g);
    return status;
}

/* The preset that a checkpoint without configuration was most likely trained with. Only akamaster's
 * CIFAR collection pads shortcuts, and it normalises as for ImageNet; the paper's pre-activation
 * network reads plain pixels. */
static const char *usual_preset(const checkpoint *weights, const resnet_layout *l)
{
    char name[RESNET_TENSOR];
    const resnet_naming *n = l->naming;
    snprintf(name, sizeof name, "%s.weight", n->stem_conv);
    const tensor_view *stem = checkpoint_find(weights, name);
    if (n->pre_activation) {
        return "cifar-plain";
    }
    if (stem->rank == 4 && stem->shape[2] == 7) {
        return "imagenet";
    }
    return l->pads ? "cifar-imagenet" : "cifar";
}

static grail_status recognise(const architecture *self, const checkpoint *weights, recognition *r,
                              json_t **config)
{
    grail_status status = GRAIL_OK;
    json_t *object = NULL;
    resnet_layout layout;
    resnet_layout_read(weights, &layout);
    TRY(resnet_refuse_variants(weights, &layout));
    *r = layout.found;
    if (r->matched < r->wanted) {
        return GRAIL_OK;
    }
    object = json_object();
    TRY(json_put(object, "model_type", json_text(self->name)));
    TRY(json_put(object, "preset", json_text(usual_preset(weights, &layout))));
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
    resnet_layout_read(weights, &layout);
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

static outside_part outside(const char *tensor)
{
    (void)tensor;
    return OUTSIDE_REFUSED;
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
    .outside = outside,
};
