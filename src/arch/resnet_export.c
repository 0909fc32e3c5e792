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

static resnet_layout layout_of(const graph *g)
{
    resnet_layout l;
    resnet_layout_read(NULL, g, &l);
    return l;
}

static const int64_t *stem_shape(const resnet_layout *l)
{
    return resnet_shape(l, l->naming->stem_conv, "weight", NULL);
}

typedef struct block_widths {
    int64_t in, inner, out; /* inner: width of all convolutions but the last; 0 where they differ */
} block_widths;

static block_widths widths_of(const resnet_layout *l, int stage, int block)
{
    block_widths w = {0};
    for (int c = 0; c < l->convs; c++) {
        const int64_t *shape = resnet_block_shape(l, stage, block, l->naming->conv[c], NULL);
        w.in = c == 0 ? shape[1] : w.in;
        w.inner = c == 1 ? w.out : c > 1 && w.inner != w.out ? 0 : w.inner;
        w.out = shape[0];
    }
    return w;
}

static bool has_bottlenecks(const resnet_layout *l)
{
    return l->convs == RESNET_CONVS;
}

enum { ANY_WIDTH = -1 };

/* torchvision's pattern of blocks: every stage is twice as wide as the one before, outside a block
 * from `base` on and inside from `inner` on; a bottleneck is `base` times 4 wide outside. */
static bool blocks_double(const resnet_layout *l, int64_t base, int64_t inner)
{
    const int64_t outside = base * (has_bottlenecks(l) ? 4 : 1);
    bool all = true;
    for (int s = 0; s < l->stages; s++) {
        for (int b = 0; b < l->blocks[s]; b++) {
            const block_widths w = widths_of(l, s, b);
            all = all && (inner == ANY_WIDTH || w.inner == inner << s) && w.out == outside << s;
        }
    }
    return all;
}

static bool doubles(const resnet_layout *l, int64_t base, int64_t inner)
{
    return stem_shape(l)[0] == base && blocks_double(l, base, inner);
}

/* The stem of torchvision and timm. */
enum { BASE_WIDTH = 64, IMAGENET_KERNEL = 7 };

/* The groups of the convolutions inside bottlenecks; 0 where they differ. */
static int64_t groups_of(const resnet_layout *l)
{
    int64_t groups = 1;
    for (int s = 0; s < l->stages && has_bottlenecks(l); s++) {
        for (int b = 0; b < l->blocks[s]; b++) {
            const int64_t *first = resnet_block_shape(l, s, b, l->naming->conv[0], NULL);
            const int64_t *second = resnet_block_shape(l, s, b, l->naming->conv[1], NULL);
            const int64_t own = first[0] / second[1];
            groups = s + b == 0 || own == groups ? own : 0;
        }
    }
    return groups;
}

/* The argument with which their classes build these bottlenecks, which is the width of a group
 * inside the first of them; 0 where there are none, or none of the pattern. */
static int64_t bottleneck_argument(const resnet_layout *l)
{
    const int64_t inner = widths_of(l, 0, 0).inner;
    const int64_t groups = groups_of(l);
    const bool fits = l->naming->library == RESNET_OF_TORCHVISION &&
                      stem_shape(l)[2] == IMAGENET_KERNEL && has_bottlenecks(l) && groups > 0 &&
                      doubles(l, BASE_WIDTH, inner);
    return fits ? inner / groups : 0;
}

bool resnet_has_class_widths(const graph *narrowed)
{
    const resnet_layout l = layout_of(narrowed);
    return l.naming->library == RESNET_OF_TORCHVISION &&
           (has_bottlenecks(&l) ? bottleneck_argument(&l) > 0
                                : doubles(&l, BASE_WIDTH, BASE_WIDTH));
}

/* The stride of the convolution whose weight is PART.weight; 0 without one. */
static int64_t stride_of(const graph *g, const char *part)
{
    char name[RESNET_TENSOR];
    snprintf(name, sizeof name, "%s.weight", part);
    const int parameter = graph_find_parameter(g, name);
    for (int n = 0; n < g->node_count && parameter != GRAPH_NONE; n++) {
        if (g->nodes[n].weight == parameter) {
            return g->nodes[n].window.height.stride;
        }
    }
    return 0;
}

/* ResNetConfig has one width per stage, and a bottleneck is a quarter as wide inside. A block has a
 * projection exactly where its width or its number of positions changes. */
static bool fits_hugging_face(const resnet_layout *l)
{
    bool fits = true;
    for (int s = 0; s < l->stages; s++) {
        const int64_t out = widths_of(l, s, 0).out;
        for (int b = 0; b < l->blocks[s]; b++) {
            const block_widths w = widths_of(l, s, b);
            const resnet_part shortcut = resnet_in_block(l->naming, s, b, l->naming->shortcut_conv);
            fits = fits && w.out == out && w.inner == (has_bottlenecks(l) ? out / 4 : out) &&
                   (w.in != w.out || stride_of(l->g, shortcut.name) != 1);
        }
    }
    return fits;
}

grail_status resnet_describe_narrowed(const architecture *self, const graph *narrowed,
                                      json_t *config)
{
    (void)self;
    const resnet_layout l = layout_of(narrowed);
    const int64_t argument = bottleneck_argument(&l);
    if (argument > 0 && timm_config_is(config)) {
        return timm_config_set_argument(config, "base_width", json_integer(argument));
    }
    if (l.naming->library != RESNET_OF_HUGGINGFACE) {
        return GRAIL_OK; /* the tensors state all widths */
    }
    /* All that the class builds a network from, though a configuration may leave out what is usual.
     */
    CHECK(json_put(config, "hidden_sizes", json_array()));
    CHECK(json_put(config, "depths", json_array()));
    for (int s = 0; s < l.stages; s++) {
        CHECK(json_push(json_object_get(config, "hidden_sizes"),
                        json_integer(widths_of(&l, s, 0).out)));
        CHECK(json_push(json_object_get(config, "depths"), json_integer(l.blocks[s])));
    }
    CHECK(json_put(config, "embedding_size", json_integer(stem_shape(&l)[0])));
    CHECK(json_put(config, "layer_type", json_text(resnet_layer_type(l.convs))));
    return json_object_get(config, "id2label") != NULL
               ? GRAIL_OK
               : json_put(config, "num_labels", json_integer(narrowed->classes));
}

/* -- functions of torchvision and timm (torchvision.models.resnet, timm.models.resnet) --------- */

static const struct {
    int blocks[RESNET_STAGES], convs;
    const char *name;
    bool in_torchvision;
} builders[] = {
    {{2, 2, 2, 2}, 2, "resnet18", true},   {{3, 4, 6, 3}, 2, "resnet34", true},
    {{2, 2, 2, 2}, 3, "resnet26", false},  {{3, 4, 6, 3}, 3, "resnet50", true},
    {{3, 4, 23, 3}, 3, "resnet101", true}, {{3, 8, 36, 3}, 3, "resnet152", true},
};

/* The function of timm, and perhaps of torchvision, that builds a network of the same modules,
 * whatever their widths; NULL where there is none. */
static const char *find_builder(const json_t *config, const resnet_layout *l, bool *in_torchvision)
{
    const char *activation = json_string_value(json_object_get(config, "hidden_act"));
    bool fits = l->naming->library == RESNET_OF_TORCHVISION &&
                stem_shape(l)[2] == IMAGENET_KERNEL &&
                (activation == NULL || strcmp(activation, "relu") == 0) && /* and no settings */
                !json_is_true(json_object_get(config, "downsample_in_first_stage")) &&
                !json_is_true(json_object_get(config, "downsample_in_bottleneck"));
    for (int s = 0; s < l->stages; s++) { /* they project in the first of these blocks alone */
        for (int b = 0; b < l->blocks[s]; b++) {
            const bool projects = b == 0 && (s > 0 || has_bottlenecks(l));
            const int64_t *shortcut = resnet_block_shape(l, s, b, l->naming->shortcut_conv, NULL);
            fits = fits && (shortcut != NULL) == projects;
        }
    }
    for (size_t i = 0; i < sizeof builders / sizeof builders[0] && fits; i++) {
        if (builders[i].convs == l->convs &&
            memcmp(builders[i].blocks, l->blocks, sizeof l->blocks) == 0) {
            *in_torchvision = builders[i].in_torchvision;
            return builders[i].name;
        }
    }
    return NULL;
}

static void judge_torchvision(const json_t *config, const resnet_layout *l, loader_verdict *v)
{
    char classes[32] = "";         /* functions build 1000 unless they are told */
    char groups[2][32] = {"", ""}; /* for torchvision, and for timm */
    char call[LOADER_REASON_SIZE];
    bool in_torchvision = false;
    const char *name = find_builder(config, l, &in_torchvision);
    const long long argument = bottleneck_argument(l);
    if (l->g->classes != 1000) {
        snprintf(classes, sizeof classes, ", num_classes=%lld", (long long)l->g->classes);
    }
    if (groups_of(l) > 1) {
        snprintf(groups[0], sizeof groups[0], "groups=%lld, ", (long long)groups_of(l));
        snprintf(groups[1], sizeof groups[1], "cardinality=%lld, ", (long long)groups_of(l));
    }
    v->loader = "torchvision, timm";
    v->loads = resnet_has_class_widths(l->g);
    if (argument > 0 && timm_config_is(config)) { /* whose directory says it to create_model */
        remark(v,
               "timm.create_model('local-dir:OUTPUT', pretrained=True); model_args has base_width "
               "%lld, torchvision's width_per_group",
               argument);
        loader_lines_timm_directory(v);
    } else if (argument > 0 && in_torchvision) {
        remark(v,
               "torchvision.models.%s(%swidth_per_group=%lld%s), timm.create_model('%s', "
               "%sbase_width=%lld%s)",
               name, groups[0], argument, classes, name, groups[1], argument, classes);
        snprintf(call, sizeof call, "torchvision.models.%s(%swidth_per_group=%lld%s)", name,
                 groups[0], argument, classes);
        loader_lines_build("torchvision", call, v);
    } else if (argument > 0) {
        remark(v, "with width_per_group (torchvision) or base_width (timm) %lld", argument);
    } else if (!v->loads && name != NULL && groups_of(l) == 1) {
        /* timm builds any widths, told by a file, but for groups */
        v->loads = true;
        remark(v, "timm by adapt_model_from_string and " TIMM_WIDTHS_NAME
                  ", which lies beside the weights; torchvision's class has no such widths");
        snprintf(call, sizeof call,
                 "timm.models.adapt_model_from_string(timm.create_model(\"%s\"%s), "
                 "open(\"DIR/" TIMM_WIDTHS_NAME "\").read())",
                 name, classes);
        loader_lines_build("timm", call, v);
    } else if (has_bottlenecks(l) && blocks_double(l, BASE_WIDTH, ANY_WIDTH)) {
        remark(v, /* the site of the stem's channels has the name of its last consumer */
               "only with %d channels in the stem (site %s) and, inside blocks, widths that double "
               "from stage to stage (width_per_group), as of a cut by multiples of 1/8",
               BASE_WIDTH, resnet_in_block(l->naming, 0, 0, l->naming->shortcut_conv).name);
    }
}

grail_status resnet_judge_loaders(const architecture *self, const json_t *config,
                                  const graph *dense, const graph *narrowed,
                                  loader_verdict *verdicts)
{
    const resnet_layout l = layout_of(narrowed);
    const int64_t *stem = stem_shape(&l);
    loader_verdict *v = &verdicts[0];
    (void)dense;
    (void)self;
    *v = (loader_verdict){.loads = true};
    judge_loaders_of_any_width(verdicts);
    if (l.naming->library == RESNET_OF_HUGGINGFACE) {
        v->loader = "transformers";
        v->loads = fits_hugging_face(&l);
        if (v->loads) {
            remark(v, "as resnet%s",
                   json_object_get(config, "preset") == NULL ? ""
                                                             : ", once " MODEL_GRAIL_NAME
                                                               " is copied to " MODEL_CONFIG_NAME);
            loader_lines_saved_class(config, v);
        }
    } else if (l.naming->library == RESNET_OF_TORCHVISION && stem[2] == IMAGENET_KERNEL) {
        judge_torchvision(config, &l, v);
    } else { /* networks of CIFAR collections begin with 16 or 64 channels, and the class of
                bottlenecks takes the width inside as an argument */
        const int64_t base = l.naming->pre_activation || stem[0] == 16 ? stem[0] : 64;
        v->loader = "its own class";
        v->loads = doubles(&l, base, has_bottlenecks(&l) ? widths_of(&l, 0, 0).inner : base);
    }
    if (!v->loads && v->reason[0] == 0) {
        remark(v, "its class computes the widths inside a block from the width of the stage; build "
                  "the modules from the shapes of the tensors, or export ONNX");
    }
    return GRAIL_OK;
}

/* The text with which timm gives a network other widths: timm.models._prune.adapt_model_from_string
 * builds every convolution, BatchNorm and Linear anew with the shape that it has for the weight,
 * "layer1.0.conv1.weight:[24, 64, 3, 3]". */
grail_status resnet_loader_file(const architecture *self, const json_t *config,
                                const graph *narrowed, const char **name, buffer *content)
{
    (void)self;
    bool in_torchvision = false;
    const resnet_layout l = layout_of(narrowed);
    if (resnet_has_class_widths(narrowed) || groups_of(&l) != 1 ||
        find_builder(config, &l, &in_torchvision) == NULL) {
        return GRAIL_OK;
    }
    for (int i = 0; i < narrowed->parameter_count; i++) {
        const graph_parameter *p = &narrowed->parameters[i];
        if (name_ends_with(p->name, ".weight")) {
            CHECK(buffer_format(content, "%s%s:[", content->size == 0 ? "" : "***", p->name));
            for (int d = 0; d < p->rank; d++) {
                CHECK(buffer_format(content, "%s%lld", d == 0 ? "" : ", ", (long long)p->shape[d]));
            }
            CHECK(buffer_append_string(content, "]"));
        }
    }
    *name = TIMM_WIDTHS_NAME;
    return GRAIL_OK;
}
