/* Tensor names of residual networks, and the depth according to them. Widths play no role here, so
 * narrowed checkpoints are read like dense ones. */
#include "arch/resnet.h"

#include <stdio.h>
#include <string.h>

const resnet_naming resnet_naming_torchvision = {
    .stages = "layer",
    .blocks = ".",
    .first_stage = 1,
    .stem_conv = "conv1",
    .stem_norm = "bn1",
    .conv = {"conv1", "conv2", "conv3"},
    .norm = {"bn1", "bn2", "bn3"},
    .shortcut_conv = "downsample.0",
    .shortcut_norm = "downsample.1",
    .head = "fc",
};

const resnet_naming resnet_naming_cifar = {
    .stages = "layer",
    .blocks = ".",
    .first_stage = 1,
    .stem_conv = "conv1",
    .stem_norm = "bn1",
    .conv = {"conv1", "conv2", "conv3"},
    .norm = {"bn1", "bn2", "bn3"},
    .shortcut_conv = "shortcut.0",
    .shortcut_norm = "shortcut.1",
    .head = "linear",
    .may_pad = true,
};

const resnet_naming resnet_naming_huggingface = {
    .stages = "resnet.encoder.stages.",
    .blocks = ".layers.",
    .stem_conv = "resnet.embedder.embedder.convolution",
    .stem_norm = "resnet.embedder.embedder.normalization",
    .conv = {"layer.0.convolution", "layer.1.convolution", "layer.2.convolution"},
    .norm = {"layer.0.normalization", "layer.1.normalization", "layer.2.normalization"},
    .shortcut_conv = "shortcut.convolution",
    .shortcut_norm = "shortcut.normalization",
    .head = "classifier.1",
    .relu_inside = true,
};

const resnet_naming resnet_naming_pre_activation = {
    .stages = "layer",
    .blocks = ".",
    .first_stage = 1,
    .stem_conv = "conv1",
    .conv = {"conv1", "conv2", "conv3"},
    .norm = {"bn1", "bn2", "bn3"},
    .shortcut_conv = "shortcut.0",
    .final_norm = "bn",
    .head = "linear",
    .pre_activation = true,
};

const char *const resnet_anchors[] = {
    "layer1.0.conv1.weight", "resnet.encoder.stages.0.layers.0.layer.0.convolution.weight", NULL};

const char *resnet_block_name(const resnet_naming *n, int stage, int block, const char *part,
                              const char *suffix, char name[RESNET_NAME])
{
    snprintf(name, RESNET_NAME, "%s%d%s%d.%s%s", n->stages, n->first_stage + stage, n->blocks,
             block, part, suffix);
    return name;
}

bool resnet_block_has(const checkpoint *weights, const resnet_naming *n, int stage, int block,
                      const char *part, const char *suffix)
{
    char name[RESNET_NAME];
    return checkpoint_find(weights, resnet_block_name(n, stage, block, part, suffix, name)) != NULL;
}

/* Counts the weight of a part, or all four vectors of a BatchNorm. */
static void require(const checkpoint *weights, const char *part, bool is_norm, recognition *r)
{
    static const char *const suffixes[] = {"weight", "bias", "running_mean", "running_var"};
    char name[RESNET_TENSOR];
    for (int i = 0; i < (is_norm ? 4 : 1); i++) {
        snprintf(name, sizeof name, "%s.%s", part, suffixes[i]);
        r->wanted++;
        if (checkpoint_find(weights, name) != NULL) {
            r->matched++;
        } else if (r->missing[0] == 0) {
            snprintf(r->missing, sizeof r->missing, "%s", name);
        }
    }
}

/* Whether the width that the last convolution of a block writes differs from the width that the
 * first one reads. */
static bool changes_width(const checkpoint *weights, const resnet_layout *l, int stage, int block)
{
    char name[RESNET_NAME];
    const tensor_view *first = checkpoint_find(
        weights, resnet_block_name(l->naming, stage, block, l->naming->conv[0], ".weight", name));
    const tensor_view *last =
        checkpoint_find(weights, resnet_block_name(l->naming, stage, block,
                                                   l->naming->conv[l->convs - 1], ".weight", name));
    return first != NULL && last != NULL && first->rank > 1 && last->rank > 1 &&
           first->shape[1] != last->shape[0];
}

static void require_block(const checkpoint *weights, resnet_layout *l, int stage, int block)
{
    char name[RESNET_NAME];
    const resnet_naming *n = l->naming;
    for (int c = 0; c < l->convs; c++) {
        require(weights, resnet_block_name(n, stage, block, n->conv[c], "", name), false,
                &l->found);
        require(weights, resnet_block_name(n, stage, block, n->norm[c], "", name), true, &l->found);
    }
    const bool is_there = resnet_block_has(weights, n, stage, block, n->shortcut_conv, ".weight");
    const bool is_needed =
        !l->pads && block == 0 && (stage > 0 || changes_width(weights, l, stage, block));
    if (!is_there && !is_needed) {
        return;
    }
    require(weights, resnet_block_name(n, stage, block, n->shortcut_conv, "", name), false,
            &l->found);
    if (n->shortcut_norm != NULL) {
        require(weights, resnet_block_name(n, stage, block, n->shortcut_norm, "", name), true,
                &l->found);
    }
}

static bool has_block(const checkpoint *weights, const resnet_naming *n, int stage, int block)
{
    return resnet_block_has(weights, n, stage, block, n->conv[0], ".weight");
}

/* Looks for at least one stage of one block, so that the message for an unknown checkpoint names a
 * missing tensor. */
static void count_blocks(const checkpoint *weights, resnet_layout *l)
{
    const resnet_naming *n = l->naming;
    l->stages = 1;
    while (l->stages < RESNET_STAGES && has_block(weights, n, l->stages, 0)) {
        l->stages++;
    }
    for (int s = 0; s < l->stages; s++) {
        l->blocks[s] = 1;
        while (has_block(weights, n, s, l->blocks[s])) {
            l->blocks[s]++;
        }
    }
    l->pads = n->may_pad;
    for (int s = 0; s < l->stages; s++) {
        l->pads = l->pads && !resnet_block_has(weights, n, s, 0, n->shortcut_conv, ".weight");
    }
    l->convs = resnet_block_has(weights, n, 0, 0, n->conv[2], ".weight") ? 3 : 2;
}

static void read_naming(const checkpoint *weights, const resnet_naming *n, resnet_layout *out)
{
    *out = (resnet_layout){.naming = n};
    count_blocks(weights, out);
    require(weights, n->stem_conv, false, &out->found);
    if (n->stem_norm != NULL) {
        require(weights, n->stem_norm, true, &out->found);
    }
    for (int s = 0; s < out->stages; s++) {
        for (int b = 0; b < out->blocks[s]; b++) {
            require_block(weights, out, s, b);
        }
    }
    if (n->final_norm != NULL) {
        require(weights, n->final_norm, true, &out->found);
    }
    require(weights, n->head, false, &out->found);
}

void resnet_layout_read(const checkpoint *weights, resnet_layout *out)
{
    static const resnet_naming *const namings[] = {&resnet_naming_torchvision, &resnet_naming_cifar,
                                                   &resnet_naming_huggingface,
                                                   &resnet_naming_pre_activation};
    read_naming(weights, namings[0], out);
    for (size_t i = 1; i < sizeof namings / sizeof namings[0]; i++) {
        resnet_layout next;
        read_naming(weights, namings[i], &next);
        const int64_t gained = (int64_t)next.found.matched * out->found.wanted;
        if (gained > (int64_t)out->found.matched * next.found.wanted) {
            *out = next;
        }
    }
}

const char *resnet_layer_type(int convs)
{
    return convs == RESNET_CONVS ? "bottleneck" : "basic";
}

grail_status resnet_refuse_variants(const checkpoint *weights, const resnet_layout *layout)
{
    const resnet_naming *n = layout->naming;
    const char *path = checkpoint_path(weights);
    char name[RESNET_NAME];
    if (!has_block(weights, n, 0, 0)) {
        return GRAIL_OK; /* no residual network at all */
    }
    snprintf(name, sizeof name, "%s.0.weight", n->stem_conv);
    if (checkpoint_find(weights, name) != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: a stem of several convolutions ('%s') is not supported: ResNet-C, -D "
                         "and -T variants cannot be narrowed, plain ResNets can",
                         path, name);
    }
    for (int s = 0; s < layout->stages; s++) {
        resnet_block_name(n, s, 0, "downsample.2", ".weight", name);
        if (checkpoint_find(weights, name) != NULL) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "%s: a shortcut with average pooling (before '%s') is not supported: "
                             "ResNet-D variants cannot be narrowed, plain ResNets can",
                             path, name);
        }
    }
    return GRAIL_OK;
}
