#include "arch/resnet.h"

#include <stdio.h>

/* Names that most collections have. */
#define USUAL_NAMES                                                                                \
    .stages = "layer", .blocks = ".", .first_stage = 1, .stem_conv = "conv1",                      \
    .conv = {"conv1", "conv2", "conv3"}, .norm = {"bn1", "bn2", "bn3"}

static const resnet_naming namings[] = {
    {USUAL_NAMES, /* also of timm and the paper's CIFAR ResNet */
     .library = RESNET_OF_TORCHVISION, .stem_norm = "bn1", .shortcut_conv = "downsample.0",
     .shortcut_norm = "downsample.1", .head = "fc"},
    {USUAL_NAMES, /* akamaster and other CIFAR collections */
     .stem_norm = "bn1", .shortcut_conv = "shortcut.0", .shortcut_norm = "shortcut.1",
     .head = "linear", .may_pad = true},
    {.library = RESNET_OF_HUGGINGFACE,
     .stages = "resnet.encoder.stages.",
     .blocks = ".layers.",
     .stem_conv = "resnet.embedder.embedder.convolution",
     .stem_norm = "resnet.embedder.embedder.normalization",
     .conv = {"layer.0.convolution", "layer.1.convolution", "layer.2.convolution"},
     .norm = {"layer.0.normalization", "layer.1.normalization", "layer.2.normalization"},
     .shortcut_conv = "shortcut.convolution",
     .shortcut_norm = "shortcut.normalization",
     .head = "classifier.1",
     .relu_inside = true},
    {USUAL_NAMES, .shortcut_conv = "shortcut.0", .final_norm = "bn", .head = "linear",
     .pre_activation = true},
};

const char *const resnet_anchors[] = {
    "layer1.0.conv1.weight", "resnet.encoder.stages.0.layers.0.layer.0.convolution.weight", NULL};

resnet_part resnet_in_block(const resnet_naming *n, int stage, int block, const char *part)
{
    resnet_part p;
    snprintf(p.name, sizeof p.name, "%s%d%s%d.%s", n->stages, n->first_stage + stage, n->blocks,
             block, part);
    return p;
}

const int64_t *resnet_shape(const resnet_layout *l, const char *part, const char *kind, int *rank)
{
    char name[RESNET_TENSOR];
    int ignored = 0;
    rank = rank == NULL ? &ignored : rank;
    snprintf(name, sizeof name, "%s.%s", part, kind);
    if (l->g == NULL) {
        const tensor_view *t = checkpoint_find(l->weights, name);
        *rank = t == NULL ? 0 : t->rank;
        return t == NULL ? NULL : t->shape;
    }
    const int p = graph_find_parameter(l->g, name);
    *rank = p == GRAPH_NONE ? 0 : l->g->parameters[p].rank;
    return p == GRAPH_NONE ? NULL : l->g->parameters[p].shape;
}

const int64_t *resnet_block_shape(const resnet_layout *l, int stage, int block, const char *part,
                                  int *rank)
{
    return resnet_shape(l, resnet_in_block(l->naming, stage, block, part).name, "weight", rank);
}

/* Counts the weight of a part, or all four vectors of a BatchNorm. */
static void require(resnet_layout *l, const char *part, bool is_norm)
{
    static const char *const kinds[] = {"weight", "bias", "running_mean", "running_var"};
    char name[RESNET_TENSOR];
    for (int i = 0; i < (is_norm ? 4 : 1); i++) {
        snprintf(name, sizeof name, "%s.%s", part, kinds[i]);
        recognition_count(&l->found, resnet_shape(l, part, kinds[i], NULL) != NULL, name);
    }
}

/* A projection is needed where a stage begins, and the width that the last convolution of its first
 * block writes differs from the width that the first one reads, as it does behind the first stage.
 */
static void require_block(resnet_layout *l, int stage, int block)
{
    const resnet_naming *n = l->naming;
    int ranks[2];
    const int64_t *first = resnet_block_shape(l, stage, block, n->conv[0], &ranks[0]);
    const int64_t *last = resnet_block_shape(l, stage, block, n->conv[l->convs - 1], &ranks[1]);
    const bool changes = ranks[0] > 1 && ranks[1] > 1 && first[1] != last[0];
    for (int c = 0; c < l->convs; c++) {
        require(l, resnet_in_block(n, stage, block, n->conv[c]).name, false);
        require(l, resnet_in_block(n, stage, block, n->norm[c]).name, true);
    }
    if (resnet_block_shape(l, stage, block, n->shortcut_conv, NULL) != NULL ||
        (!l->pads && block == 0 && (stage > 0 || changes))) {
        require(l, resnet_in_block(n, stage, block, n->shortcut_conv).name, false);
        if (n->shortcut_norm != NULL) {
            require(l, resnet_in_block(n, stage, block, n->shortcut_norm).name, true);
        }
    }
}

static bool has_block(const resnet_layout *l, int stage, int block)
{
    return resnet_block_shape(l, stage, block, l->naming->conv[0], NULL) != NULL;
}

/* Every naming looks for at least one stage of one block, so that the message for an unknown
 * checkpoint names a missing tensor. */
void resnet_layout_read(const checkpoint *weights, const graph *g, resnet_layout *out)
{
    for (size_t i = 0; i < sizeof namings / sizeof namings[0]; i++) {
        const resnet_naming *n = &namings[i];
        resnet_layout l = {.naming = n, .weights = weights, .g = g, .pads = n->may_pad};
        l.convs = resnet_block_shape(&l, 0, 0, n->conv[2], NULL) != NULL ? 3 : 2;
        for (int s = 0; s < RESNET_STAGES && (s == 0 || has_block(&l, s, 0)); s++) {
            l.stages++;
            l.blocks[s] = 1;
            while (has_block(&l, s, l.blocks[s])) {
                l.blocks[s]++;
            }
            l.pads = l.pads && resnet_block_shape(&l, s, 0, n->shortcut_conv, NULL) == NULL;
        }
        require(&l, n->stem_conv, false);
        if (n->stem_norm != NULL) {
            require(&l, n->stem_norm, true);
        }
        for (int s = 0; s < l.stages; s++) {
            for (int b = 0; b < l.blocks[s]; b++) {
                require_block(&l, s, b);
            }
        }
        if (n->final_norm != NULL) {
            require(&l, n->final_norm, true);
        }
        require(&l, n->head, false);
        if (i == 0 || (int64_t)l.found.matched * out->found.wanted >
                          (int64_t)out->found.matched * l.found.wanted) {
            *out = l;
        }
    }
}

const char *resnet_layer_type(int convs)
{
    return convs == RESNET_CONVS ? "bottleneck" : "basic";
}
