/* Residual networks: how the known sources name their tensors, and the depth that the names of a
 * checkpoint give. */
#ifndef GRAIL_ARCH_RESNET_H
#define GRAIL_ARCH_RESNET_H

#include "arch/architecture.h"

enum {
    RESNET_STAGES = 8,
    RESNET_CONVS = 3,
    RESNET_NAME = 128,                /* of a part */
    RESNET_TENSOR = RESNET_NAME + 16, /* of its tensors */
};

/* Parts are names without ".weight"; a part of a block follows the block's prefix,
 * "<stages><stage><blocks><block>.". */
typedef struct resnet_naming {
    const char *stages, *blocks;
    int first_stage; /* the number of the first stage in names */
    const char *stem_conv, *stem_norm;
    const char *conv[RESNET_CONVS], *norm[RESNET_CONVS];
    const char *shortcut_conv, *shortcut_norm;
    const char *final_norm, *head;
    bool pre_activation; /* BatchNorm and ReLU stand before their convolution: no stem_norm, no
                            shortcut_norm, but a final_norm */
    bool relu_inside;    /* ReLU inside a block: the configured activation follows only the sum */
    bool may_pad;        /* shortcuts without tensors pad with zero channels */
} resnet_naming;

extern const resnet_naming resnet_naming_torchvision; /* timm and the paper's CIFAR ResNet too */
extern const resnet_naming resnet_naming_cifar;       /* akamaster and other CIFAR collections */
extern const resnet_naming resnet_naming_huggingface;
extern const resnet_naming resnet_naming_pre_activation;

/** What the tensor names of a checkpoint tell. */
typedef struct resnet_layout {
    const resnet_naming *naming;
    int stages;
    int blocks[RESNET_STAGES];
    int convs; /* in a block: 2, or 3 for bottlenecks */
    bool pads; /* no shortcut has tensors, and the naming allows that */
    recognition found;
} resnet_layout;

/** The layout of the naming that fits best; found.matched < found.wanted where none fits. */
void resnet_layout_read(const checkpoint *weights, resnet_layout *out);

/** "<prefix of the block><part><suffix>" into name; returns name. */
const char *resnet_block_name(const resnet_naming *n, int stage, int block, const char *part,
                              const char *suffix, char name[RESNET_NAME]);

/** Whether a tensor of that name is there. */
bool resnet_block_has(const checkpoint *weights, const resnet_naming *n, int stage, int block,
                      const char *part, const char *suffix);

/** Refuses variants with more than the layout describes: GRAIL_ERROR_UNSUPPORTED names the variant.
 */
grail_status resnet_refuse_variants(const checkpoint *weights,
                                    const resnet_layout *layout) GRAIL_MUST_CHECK;

/* The slots of `architecture` for what a narrowed network is. */
grail_status resnet_describe_narrowed(const graph *narrowed, json_t *config);
grail_status resnet_judge_loaders(const json_t *config, const graph *narrowed,
                                  loader_verdict *verdicts);

#endif
