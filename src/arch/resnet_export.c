/* Describes a narrowed residual network, and judges which loaders accept it. Stock classes compute
 * the widths inside a block from the width of the stage, and in a bottleneck of torchvision and
 * timm also from width_per_group or base_width, so they load only networks that were cut to that
 * pattern. Source: the ResNet classes of torchvision, timm and Hugging Face. */
#include "arch/loader_lines.h"
#include "arch/model_config.h"
#include "arch/resnet.h"
#include "base/name_list.h"

#include <stdio.h>
#include <string.h>

typedef struct block_widths {
    int convs;
    int64_t in, inner, out; /* inner: width of all convolutions but the last; 0 where they differ */
} block_widths;

static const resnet_naming *naming_of(const graph *g)
{
    if (graph_find_parameter(g, "resnet.embedder.embedder.convolution.weight") != GRAPH_NONE) {
        return &resnet_naming_huggingface;
    }
    if (graph_find_parameter(g, "fc.weight") != GRAPH_NONE) {
        return &resnet_naming_torchvision;
    }
    return graph_find_parameter(g, "bn.weight") != GRAPH_NONE ? &resnet_naming_pre_activation
                                                              : &resnet_naming_cifar;
}

static const int64_t *find_shape(const graph *g, const char *name)
{
    const int index = graph_find_parameter(g, name);
    return index == GRAPH_NONE ? NULL : g->parameters[index].shape;
}

static const int64_t *stem_shape(const graph *g, const resnet_naming *n)
{
    char name[RESNET_TENSOR];
    snprintf(name, sizeof name, "%s.weight", n->stem_conv);
    return find_shape(g, name);
}

/* False when the network does not have this block. */
static bool read_block(const graph *g, const resnet_naming *n, int stage, int block,
                       block_widths *out)
{
    char name[RESNET_NAME];
    *out = (block_widths){0};
    for (int c = 0; c < RESNET_CONVS; c++) {
        const int64_t *shape =
            find_shape(g, resnet_block_name(n, stage, block, n->conv[c], ".weight", name));
        if (shape == NULL) {
            break;
        }
        if (c == 0) {
            out->in = shape[1];
        } else if (c == 1) {
            out->inner = out->out;
        } else if (out->inner != out->out) {
            out->inner = 0;
        }
        out->out = shape[0];
        out->convs++;
    }
    return out->convs > 0;
}

enum { ANY_WIDTH = -1 };

/* torchvision's pattern of blocks: every stage is twice as wide as the one before, outside a block
 * from `base` on and inside from `inner` on; a bottleneck is `base` times 4 wide outside. */
static bool blocks_double(const graph *g, const resnet_naming *n, int64_t base, int64_t inner)
{
    block_widths w;
    for (int s = 0; s < RESNET_STAGES; s++) {
        for (int b = 0; read_block(g, n, s, b, &w); b++) {
            const int64_t expansion = w.convs == 3 ? 4 : 1;
            if ((inner != ANY_WIDTH && w.inner != (inner << s)) || w.out != (base * expansion)
                                                                                << s) {
                return false;
            }
        }
    }
    return true;
}

static bool doubles(const graph *g, const resnet_naming *n, int64_t base, int64_t inner)
{
    return stem_shape(g, n)[0] == base && blocks_double(g, n, base, inner);
}

/* The stem of torchvision and timm. */
enum { BASE_WIDTH = 64, IMAGENET_KERNEL = 7 };

/* The argument with which their classes build these bottlenecks, which is the width inside the
 * first of them; 0 where there are none, or none of the pattern. */
static int64_t bottleneck_argument(const graph *g, const resnet_naming *n)
{
    block_widths first = {0};
    const bool fits = n == &resnet_naming_torchvision && stem_shape(g, n)[2] == IMAGENET_KERNEL &&
                      read_block(g, n, 0, 0, &first) && first.convs == 3 &&
                      doubles(g, n, BASE_WIDTH, first.inner);
    return fits ? first.inner : 0;
}

bool resnet_has_class_widths(const graph *narrowed)
{
    const resnet_naming *n = &resnet_naming_torchvision;
    block_widths first = {0};
    if (naming_of(narrowed) != n) {
        return false;
    }
    return read_block(narrowed, n, 0, 0, &first) && first.convs == 3
               ? bottleneck_argument(narrowed, n) > 0
               : doubles(narrowed, n, BASE_WIDTH, BASE_WIDTH);
}

/* The stride of the node that reads a weight. */
static int64_t stride_of(const graph *g, int parameter)
{
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].weight == parameter) {
            return g->nodes[n].window.stride;
        }
    }
    return 1;
}

/* ResNetConfig has one width per stage, and a bottleneck is a quarter as wide inside. A block has a
 * projection exactly where its width or its number of positions changes. */
static bool fits_hugging_face(const graph *g, const resnet_naming *n)
{
    block_widths w;
    char name[RESNET_NAME];
    int64_t out = 0;
    for (int s = 0; s < RESNET_STAGES; s++) {
        for (int b = 0; read_block(g, n, s, b, &w); b++) {
            out = b == 0 ? w.out : out;
            if (w.out != out || w.inner != (w.convs == 3 ? out / 4 : out)) {
                return false;
            }
            const int projection = graph_find_parameter(
                g, resnet_block_name(n, s, b, n->shortcut_conv, ".weight", name));
            if (projection != GRAPH_NONE && w.in == w.out && stride_of(g, projection) == 1) {
                return false;
            }
        }
    }
    return true;
}

/* All that the class builds a network from, though a configuration may leave out what is usual. */
static grail_status describe_for_hugging_face(const graph *g, json_t *config)
{
    const resnet_naming *n = &resnet_naming_huggingface;
    block_widths w = {0};
    int convs = 0;
    CHECK(json_put(config, "hidden_sizes", json_array()));
    CHECK(json_put(config, "depths", json_array()));
    for (int s = 0; s < RESNET_STAGES && read_block(g, n, s, 0, &w); s++) {
        int blocks = 1;
        convs = w.convs;
        CHECK(json_push(json_object_get(config, "hidden_sizes"), json_integer(w.out)));
        while (read_block(g, n, s, blocks, &w)) {
            blocks++;
        }
        CHECK(json_push(json_object_get(config, "depths"), json_integer(blocks)));
    }
    CHECK(json_put(config, "embedding_size", json_integer(stem_shape(g, n)[0])));
    CHECK(json_put(config, "layer_type", json_text(resnet_layer_type(convs))));
    return json_object_get(config, "id2label") != NULL
               ? GRAIL_OK
               : json_put(config, "num_labels", json_integer(g->classes));
}

grail_status resnet_describe_narrowed(const architecture *self, const graph *narrowed,
                                      json_t *config)
{
    (void)self;
    const resnet_naming *n = naming_of(narrowed);
    const int64_t argument = bottleneck_argument(narrowed, n);
    if (argument > 0 && timm_config_is(config)) {
        return timm_config_set_argument(config, "base_width", json_integer(argument));
    }
    return n == &resnet_naming_huggingface ? describe_for_hugging_face(narrowed, config)
                                           : GRAIL_OK; /* the tensors state all widths */
}

/* -- functions of torchvision and timm (torchvision.models.resnet, timm.models.resnet)
 * --------------- */

enum { STAGES = 4 };

typedef struct builder {
    int blocks[STAGES], convs;
    const char *name;
    bool in_torchvision;
} builder;

static const builder builders[] = {
    {{2, 2, 2, 2}, 2, "resnet18", true},   {{3, 4, 6, 3}, 2, "resnet34", true},
    {{2, 2, 2, 2}, 3, "resnet26", false},  {{3, 4, 6, 3}, 3, "resnet50", true},
    {{3, 4, 23, 3}, 3, "resnet101", true}, {{3, 8, 36, 3}, 3, "resnet152", true},
};

static bool has_weight(const graph *g, int stage, int block, const char *part)
{
    char name[RESNET_NAME];
    const resnet_naming *n = &resnet_naming_torchvision;
    return part != NULL &&
           graph_find_parameter(g, resnet_block_name(n, stage, block, part, ".weight", name)) !=
               GRAPH_NONE;
}

/* Whether the blocks have as many convolutions, and a projection where the function builds one: at
 * the begin of every stage, but not of the first one of basic blocks. */
static bool builds(const graph *g, const builder *b)
{
    const resnet_naming *n = &resnet_naming_torchvision;
    const bool bottlenecks = b->convs == RESNET_CONVS;
    bool all = !has_weight(g, STAGES, 0, n->conv[0]);
    for (int stage = 0; stage < STAGES && all; stage++) {
        for (int block = 0; block < b->blocks[stage]; block++) {
            const bool projects = block == 0 && (stage > 0 || bottlenecks);
            all = all && has_weight(g, stage, block, n->conv[1]) &&
                  has_weight(g, stage, block, n->conv[2]) == bottlenecks &&
                  has_weight(g, stage, block, n->shortcut_conv) == projects;
        }
        all = all && !has_weight(g, stage, b->blocks[stage], n->conv[0]);
    }
    return all;
}

/* The function of timm, and perhaps of torchvision, that builds a network of the same modules,
 * whatever their widths; NULL where there is none. */
static const char *find_builder(const json_t *config, const graph *g, bool *in_torchvision)
{
    const char *activation = json_string_value(json_object_get(config, "hidden_act"));
    const int64_t *stem = find_shape(g, "conv1.weight");
    if (stem == NULL || stem[2] != IMAGENET_KERNEL || find_shape(g, "fc.weight") == NULL ||
        (activation != NULL && strcmp(activation, "relu") != 0) ||
        json_is_true(json_object_get(config, "downsample_in_first_stage")) ||
        json_is_true(json_object_get(config, "downsample_in_bottleneck"))) {
        return NULL; /* settings that the functions do not have */
    }
    for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++) {
        if (builds(g, &builders[i])) {
            *in_torchvision = builders[i].in_torchvision;
            return builders[i].name;
        }
    }
    return NULL;
}

/* "" for the 1000 classes that functions build unless they are told. */
static void classes_argument(const graph *g, const resnet_naming *n, char *text, size_t size)
{
    char head[RESNET_TENSOR];
    snprintf(head, sizeof head, "%s.weight", n->head);
    const int64_t *shape = find_shape(g, head);
    text[0] = 0;
    if (shape != NULL && shape[0] != 1000) {
        snprintf(text, size, ", num_classes=%lld", (long long)shape[0]);
    }
}

/* The calls that build bottlenecks of this width inside the first block. A directory of timm's says
 * it to create_model (resnet_describe_narrowed). */
static void name_calls(const json_t *config, const graph *g, const resnet_naming *n, int64_t inner,
                       loader_verdict *v)
{
    char classes[32];
    char call[LOADER_REASON_SIZE];
    bool in_torchvision = false;
    const char *name = find_builder(config, g, &in_torchvision);
    classes_argument(g, n, classes, sizeof classes);
    if (timm_config_is(config)) {
        remark(v,
               "timm.create_model('local-dir:OUTPUT', pretrained=True); model_args has base_width "
               "%lld, torchvision's width_per_group",
               (long long)inner);
        loader_lines_timm_directory(v);
        return;
    }
    if (name == NULL || !in_torchvision) {
        remark(v, "with width_per_group (torchvision) or base_width (timm) %lld", (long long)inner);
        return;
    }
    remark(
        v,
        "torchvision.models.%s(width_per_group=%lld%s), timm.create_model('%s', base_width=%lld%s)",
        name, (long long)inner, classes, name, (long long)inner, classes);
    snprintf(call, sizeof call, "torchvision.models.%s(width_per_group=%lld%s)", name,
             (long long)inner, classes);
    loader_lines_build("torchvision", call, v);
}

/* The lines with which timm builds a network of any widths, told by the file beside the weights. */
static void name_adapting(const graph *g, const resnet_naming *n, const char *name,
                          loader_verdict *v)
{
    char classes[32];
    char call[LOADER_REASON_SIZE];
    classes_argument(g, n, classes, sizeof classes);
    remark(v, "timm by adapt_model_from_string and " TIMM_WIDTHS_NAME
              ", which lies beside the weights; torchvision's class has no such widths");
    snprintf(call, sizeof call,
             "timm.models.adapt_model_from_string(timm.create_model(\"%s\"%s), "
             "open(\"DIR/" TIMM_WIDTHS_NAME "\").read())",
             name, classes);
    loader_lines_build("timm", call, v);
}

static void judge_torchvision(const json_t *config, const graph *g, const resnet_naming *n,
                              loader_verdict *v)
{
    const int64_t argument = bottleneck_argument(g, n);
    block_widths first = {0};
    bool in_torchvision = false;
    const char *name = find_builder(config, g, &in_torchvision);
    const bool bottlenecks = read_block(g, n, 0, 0, &first) && first.convs == 3;
    v->loader = "torchvision, timm";
    v->loads = resnet_has_class_widths(g);
    if (argument > 0) {
        name_calls(config, g, n, argument, v);
    } else if (!v->loads && name != NULL) {
        v->loads = true;
        name_adapting(g, n, name, v);
    } else if (bottlenecks && blocks_double(g, n, BASE_WIDTH, ANY_WIDTH)) {
        char stem[RESNET_NAME]; /* the site of its channels has the name of its last consumer */
        remark(v,
               "only with %d channels in the stem (site %s) and, inside blocks, widths that double "
               "from stage to stage (width_per_group), as of a cut by multiples of 1/8",
               BASE_WIDTH, resnet_block_name(n, 0, 0, n->shortcut_conv, "", stem));
    }
}

static void judge_class(const json_t *config, const graph *g, const resnet_naming *n,
                        loader_verdict *v)
{
    const bool is_for_imagenet = stem_shape(g, n)[2] == IMAGENET_KERNEL;
    const int64_t stem = stem_shape(g, n)[0];
    block_widths first; /* of bottlenecks, its class takes the width inside as an argument */
    if (n == &resnet_naming_huggingface) {
        v->loader = "transformers";
        v->loads = fits_hugging_face(g, n);
        if (v->loads) {
            snprintf(v->reason, sizeof v->reason, "as resnet%s",
                     json_object_get(config, "preset") == NULL
                         ? ""
                         : ", once " MODEL_GRAIL_NAME " is copied to " MODEL_CONFIG_NAME);
            loader_lines_saved_class(config, v);
        }
    } else if (n == &resnet_naming_torchvision && is_for_imagenet) {
        judge_torchvision(config, g, n, v);
    } else { /* networks of CIFAR collections begin with 16 or 64 channels */
        const int64_t base = n->pre_activation ? stem : (stem == 16 ? 16 : 64);
        v->loader = "its own class";
        const bool bottlenecks = read_block(g, n, 0, 0, &first) && first.convs == 3;
        v->loads = doubles(g, n, base, bottlenecks ? first.inner : base);
    }
    if (!v->loads && v->reason[0] == 0) {
        remark(v, "its class computes the widths inside a block from the width of the stage; build "
                  "the modules from the shapes of the tensors, or export ONNX");
    }
}

grail_status resnet_judge_loaders(const architecture *self, const json_t *config,
                                  const graph *dense, const graph *narrowed,
                                  loader_verdict *verdicts)
{
    (void)dense;
    (void)self;
    verdicts[0] = (loader_verdict){.loads = true};
    judge_loaders_of_any_width(verdicts);
    judge_class(config, narrowed, naming_of(narrowed), &verdicts[0]);
    return GRAIL_OK;
}

/* The text with which timm gives a network other widths: timm.models._prune.adapt_model_from_string
 * builds every convolution, BatchNorm and Linear anew with the shape that it has for the weight,
 * "layer1.0.conv1.weight:[24, 64, 3, 3]". */
static grail_status append_shape(const graph_parameter *p, buffer *out)
{
    CHECK(buffer_format(out, "%s%s:[", out->size == 0 ? "" : "***", p->name));
    for (int d = 0; d < p->rank; d++) {
        CHECK(buffer_format(out, "%s%lld", d == 0 ? "" : ", ", (long long)p->shape[d]));
    }
    return buffer_append_string(out, "]");
}

grail_status resnet_loader_file(const architecture *self, const json_t *config,
                                const graph *narrowed, const char **name, buffer *content)
{
    (void)self;
    bool in_torchvision = false;
    if (resnet_has_class_widths(narrowed) ||
        find_builder(config, narrowed, &in_torchvision) == NULL) {
        return GRAIL_OK;
    }
    for (int p = 0; p < narrowed->parameter_count; p++) {
        if (name_ends_with(narrowed->parameters[p].name, ".weight")) {
            CHECK(append_shape(&narrowed->parameters[p], content));
        }
    }
    *name = TIMM_WIDTHS_NAME;
    return GRAIL_OK;
}
