/* Checkpoints of residual networks made for tests: their tensors' names and shapes as the sources
 * of checkpoints have them, changed at will, and values that a formula gives, so that the golden
 * script in Python makes the same. */
#ifndef GRAIL_TESTS_ARCH_LAB_NETWORK_H
#define GRAIL_TESTS_ARCH_LAB_NETWORK_H

#include "support/support.h"

#include "tensor/tensor.h"

enum { LAB_NETWORK_TENSORS = 512, LAB_NETWORK_NAME = 128, LAB_NETWORK_STAGES = 4 };

typedef struct lab_shape {
    char name[LAB_NETWORK_NAME];
    grail_dtype dtype;
    int rank;
    int64_t shape[5];
} lab_shape;

typedef struct lab_network {
    lab_shape tensors[LAB_NETWORK_TENSORS];
    int count;
} lab_network;

typedef enum lab_style {
    LAB_TORCHVISION,
    LAB_CIFAR, /* "shortcut" and "linear" */
    LAB_HUGGING_FACE,
    LAB_PRE_ACTIVATION
} lab_style;

/** A block is 3 x 3 (width inner), 3 x 3 (out), or with `bottleneck` 1 x 1 (inner), 3 x 3 (inner),
 * 1 x 1 (out). */
typedef struct lab_resnet {
    lab_style style;
    int64_t stem_kernel, stem;
    bool bottleneck;
    bool pads; /* no projections */
    int stages;
    int blocks[LAB_NETWORK_STAGES];
    int64_t inner[LAB_NETWORK_STAGES], out[LAB_NETWORK_STAGES];
    bool strides_first_stage;
    int64_t classes;
    int64_t groups; /* of the 3 x 3 convolutions of bottlenecks; 0: one */
} lab_resnet;

/** The published networks: widths of torchvision's resnet18 and resnet50, of akamaster's for CIFAR
 * of 6 n + 2 layers, of the CIFAR ResNet-18. */
lab_resnet lab_resnet18(void);
lab_resnet lab_resnet50(void);
/** resnet50 at odd widths: 3 + 5 s inside, 13 + 4 s in the residual stream of stage s. */
lab_resnet lab_narrowed_resnet50(void);
lab_resnet lab_akamaster(int blocks);
lab_resnet lab_cifar_resnet18(void);
lab_resnet lab_pre_activation(int64_t width);
/** Hugging Face's names, three stages of blocks {1, 2, 1} and widths 12, 20, 28 after 8. */
lab_resnet lab_hugging_face(bool bottleneck);

/** Lists the tensors of a network. */
void lab_network_init(lab_network *n, const lab_resnet *r);

void lab_network_add(lab_network *n, const char *name, int rank, const int64_t shape[]);
/** The tensor of that name; the test fails without it. */
lab_shape *lab_network_find(lab_network *n, const char *name);
void lab_network_remove(lab_network *n, const char *name);

/** The values by the formula of a tensor of `count` elements. */
void lab_shape_values(const lab_shape *t, int64_t count, float *values);
/** Writes model.safetensors into an existing directory: zeros, or values by the formula. */
void lab_network_write(const lab_network *n, const char *directory, bool with_values);

/**
 * Element `i` of the values called `name`, uniform in [-1, 1): the upper 24 bits of splitmix64's
 * output for the state FNV-1a(name) + (i + 1) * 0x9e3779b97f4a7c15.
 */
double lab_uniform(const char *name, int64_t i);

/** pixels[images, side, side, 3] from values called "pixels", about as large as normalised images.
 * The view borrows *values, which the caller frees. */
tensor_view lab_pixels(int64_t images, int64_t side, float **values);

/** Puts `prefix` before the names of all tensors from `first` on. */
void lab_network_put_behind(lab_network *n, int first, const char *prefix);

#endif
