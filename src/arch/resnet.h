/* Residual networks: how the known sources call their tensors, and the structure of one according
 * to its tensors, of a checkpoint or of a graph. Widths play no role in it, so narrowed checkpoints
 * are read like dense ones. */
#ifndef GRAIL_ARCH_RESNET_H
#define GRAIL_ARCH_RESNET_H

#include "arch/architecture.h"

enum {
    RESNET_STAGES = 8,
    RESNET_CONVS = 3,
    RESNET_NAME = 128,                /* of a part */
    RESNET_TENSOR = RESNET_NAME + 16, /* of its tensors */
};

/** Whose classes open networks of these names. */
typedef enum resnet_library {
    RESNET_OF_COLLECTIONS,
    RESNET_OF_TORCHVISION, /* and timm */
    RESNET_OF_HUGGINGFACE
} resnet_library;

/* Parts are names without ".weight"; a part of a block follows the block's prefix,
 * "<stages><stage><blocks><block>.". Sources: the ResNet classes of torchvision, timm, Hugging
 * Face, akamaster's CIFAR collection and the paper. */
typedef struct resnet_naming {
    resnet_library library;
    const char *stages, *blocks;
    int first_stage; /* number of the first stage in names */
    const char *stem_conv, *stem_norm;
    const char *conv[RESNET_CONVS], *norm[RESNET_CONVS];
    const char *shortcut_conv, *shortcut_norm;
    const char *final_norm, *head;
    bool pre_activation; /* BatchNorm and ReLU come before their convolution: no stem_norm, no
                            shortcut_norm, but a final_norm */
    bool relu_inside;    /* ReLU inside a block: the configured activation follows only the sum */
    bool may_pad;        /* shortcuts without tensors pad with zero channels */
} resnet_naming;

/** The first convolution of the first block, under each naming. */
extern const char *const resnet_anchors[];

typedef struct resnet_layout {
    const resnet_naming *naming;
    const checkpoint *weights; /* whose tensors they are, */
    const graph *g;            /* or parameters; the other one is NULL */
    int stages;
    int blocks[RESNET_STAGES];
    int convs; /* in a block: 2, or 3 for bottlenecks */
    bool pads; /* no shortcut has tensors, and the naming allows that */
    recognition found;
} resnet_layout;

/** The layout of a checkpoint, or (NULL) of a graph, under the naming that fits best;
 * found.matched < found.wanted if none fits. */
void resnet_layout_read(const checkpoint *weights, const graph *g, resnet_layout *out);

/** The name of a part of a block. */
typedef struct resnet_part {
    char name[RESNET_NAME];
} resnet_part;
resnet_part resnet_in_block(const resnet_naming *n, int stage, int block, const char *part);

/** The shape of tensor PART.KIND, NULL without one; *rank, which may be NULL, is its rank. */
const int64_t *resnet_shape(const resnet_layout *l, const char *part, const char *kind, int *rank);
/** The same of the weight of a part of a block. */
const int64_t *resnet_block_shape(const resnet_layout *l, int stage, int block, const char *part,
                                  int *rank);

/** How Hugging Face calls blocks of that many convolutions. */
const char *resnet_layer_type(int convs);

/* The slots of `architecture` that describe and judge a narrowed network. */
grail_status resnet_describe_narrowed(const architecture *self, const graph *narrowed,
                                      json_t *config);
grail_status resnet_judge_loaders(const architecture *self, const json_t *config,
                                  const graph *dense, const graph *narrowed,
                                  loader_verdict *verdicts);
/** The slot `loader_file`: the widths as timm takes them, where no class has them. */
grail_status resnet_loader_file(const architecture *self, const json_t *config,
                                const graph *narrowed, const char **name, buffer *content);

/** Whether the classes of torchvision and timm have these widths, all or by one argument. */
bool resnet_has_class_widths(const graph *narrowed);

#endif
