/* Describing a narrowed residual network, and who loads it. Stock classes compute the widths inside
 * a block from the width of the stage, so they load only networks that were cut to that pattern.
 * Source: torchvision's and Hugging Face's ResNet classes. */
#include "arch/resnet.h"

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

/* false when the network has no such block */
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

/* torchvision's pattern: every stage is twice as wide as the one before, starting from `base`; a
 * bottleneck is four times as wide outside as inside, and the first inner width is free. */
static bool doubles(const graph *g, const resnet_naming *n, int64_t base)
{
    block_widths first;
    block_widths w;
    if (stem_shape(g, n)[0] != base || !read_block(g, n, 0, 0, &first)) {
        return false;
    }
    const int64_t inner = first.convs == 3 ? first.inner : base;
    const int64_t expansion = first.convs == 3 ? 4 : 1;
    for (int s = 0; s < RESNET_STAGES; s++) {
        for (int b = 0; read_block(g, n, s, b, &w); b++) {
            if (w.inner != (inner << s) || w.out != (base * expansion) << s) {
                return false;
            }
        }
    }
    return true;
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

grail_status resnet_describe_narrowed(const graph *narrowed, json_t *config)
{
    grail_status status = GRAIL_OK;
    const resnet_naming *n = naming_of(narrowed);
    block_widths w;
    json_t *widths = NULL;
    if (n != &resnet_naming_huggingface) {
        return GRAIL_OK; /* the tensors say it all */
    }
    widths = json_array();
    for (int s = 0; s < RESNET_STAGES && read_block(narrowed, n, s, 0, &w); s++) {
        TRY(json_push(widths, json_integer(w.out)));
    }
    json_incref(widths);
    TRY(json_put(config, "hidden_sizes", widths));
    TRY(json_put(config, "embedding_size", json_integer(stem_shape(narrowed, n)[0])));
out:
    json_decref(widths);
    return status;
}

static void judge_class(const graph *g, const resnet_naming *n, loader_verdict *v)
{
    const bool is_for_imagenet = stem_shape(g, n)[2] == 7;
    const int64_t stem = stem_shape(g, n)[0];
    if (n == &resnet_naming_huggingface) {
        v->loader = "transformers";
        v->loads = fits_hugging_face(g, n);
    } else if (n == &resnet_naming_torchvision && is_for_imagenet) {
        v->loader = "torchvision, timm";
        v->loads = doubles(g, n, 64);
    } else { /* collections of CIFAR networks begin with 16 or 64 channels */
        v->loader = "its own class";
        v->loads = doubles(g, n, n->pre_activation ? stem : (stem == 16 ? 16 : 64));
    }
    if (!v->loads) {
        snprintf(v->reason, sizeof v->reason,
                 "its class computes the widths inside a block from the width of the stage; build "
                 "the modules from the shapes of the tensors, or export ONNX");
    } else if (n == &resnet_naming_huggingface) {
        snprintf(v->reason, sizeof v->reason, "as resnet");
    }
}

grail_status resnet_judge_loaders(const json_t *config, const graph *narrowed,
                                  loader_verdict *verdicts)
{
    (void)config;
    verdicts[0] = (loader_verdict){.loads = true};
    judge_loaders_of_any_width(verdicts);
    judge_class(narrowed, naming_of(narrowed), &verdicts[0]);
    return GRAIL_OK;
}
