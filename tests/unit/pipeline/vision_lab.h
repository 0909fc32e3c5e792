/* What the tests of complete runs on images share: small random residual networks and vision
 * transformers that are changed in memory and stored, CIFAR images to calibrate on, and looking at
 * any value of the networks that come out. */
#ifndef GRAIL_TESTS_PIPELINE_VISION_LAB_H
#define GRAIL_TESTS_PIPELINE_VISION_LAB_H

#include "lab.h"

#include "../arch/lab_network.h"
#include "arch/model.h"
#include "backend/backend.h"
#include "support/owned.h"

enum {
    VISION_TENSORS = 192,
    VISION_IMAGES = 48, /* four batches, the last of which is held out */
    VISION_SIDE = 32,
    VISION_CLASSES = 5,
    VISION_HEAD_DIM = 8,
};

typedef struct vision_tensor {
    lab_shape shape;
    float *values; /* f32, owned; NULL for integers */
} vision_tensor;

typedef struct vision_model {
    json_t *config; /* owned; NULL: the tensors' names say what it is */
    vision_tensor tensors[VISION_TENSORS];
    int count;
} vision_model;

typedef enum vision_family {
    VISION_BASIC,          /* CIFAR stem, stages of 2 and 1 blocks, one projection */
    VISION_BOTTLENECK,     /* ImageNet stem and pool */
    VISION_PADDED,         /* akamaster: shortcuts pad with zero channels */
    VISION_PRE_ACTIVATION, /* BatchNorm before the convolutions */
    VISION_HUGGING_FACE_VIT,
    VISION_TIMM_VIT, /* fused q, k and v */
    VISION_FAMILIES
} vision_family;

const char *vision_family_name(vision_family family);
bool vision_family_is_tower(vision_family family);

/** A random network of a family. vision_fini frees. */
void vision_make(vision_model *m, vision_family family);
void vision_fini(vision_model *m);
/** The tensor of that name; the test fails without it. */
vision_tensor *vision_find(vision_model *m, const char *name);
int64_t vision_elements(const vision_tensor *t);

/** Writes model.safetensors, with config.json where there is one, into a new directory. */
void vision_write(const vision_model *m, const char *directory);
/** Reads all tensors of a checkpoint back, with the shapes that they have. */
void vision_read(vision_model *m, const char *path);
/** Stores the checkpoint in `directory` as directory/model.pth in a new directory `to`. */
void vision_write_torch(const char *directory, const char *to);

/** A temporary directory, CIFAR batches in it, and the images as the networks see them. */
typedef struct vision_lab {
    lab l;
    char data[LAB_PATH];
    grail_image_source images;
    float *pixels; /* [VISION_IMAGES, VISION_SIDE, VISION_SIDE, 3], as runs with seed 0 take them */
} vision_lab;

void vision_open(vision_lab *v);
void vision_close(vision_lab *v);
/** VISION_TEST(what_holds) { ... }: a test with a laboratory of its own, `vision_lab *v`. */
#define VISION_TEST(name) TEST_OF(vision_lab, v, vision_open, vision_close, name)
/** Path of `name` in the laboratory. */
const char *vision_path(const vision_lab *v, const char *name);
/** Makes a network of a family and writes it under `name`; returns its path. */
const char *vision_network(const vision_lab *v, vision_family family, const char *name);

/** Options of a run without alignment on all images; nothing is cut. */
grail_compress_options vision_options(const vision_lab *v, const char *model, const char *output);
/** Cuts every kind of site by the same fraction. */
void vision_cut(grail_compress_options *options, double sparsity);

/** An observer that cancels a run when its first block is finished. */
int vision_stop_behind_first_block(void *user, const grail_site_report *one, int block, int blocks,
                                   double left);

/** Opens a checkpoint that grail wrote or vision_write did. The caller closes it. */
grail_model *vision_model_open(const char *path);

/** f64 copy of a matrix. */
typedef struct vision_values {
    double *data; /* owned; memory_free */
    int64_t rows, width;
} vision_values;

/** The network's outputs for the calibration images on a backend. */
vision_values vision_outputs(const vision_lab *v, const char *path, backend *b);
/** The output of the node `behind` nodes after the one whose weight is called `name`, or with
 * `input` the input of it; on `ref`. */
vision_values vision_tap(const vision_lab *v, const char *path, const char *name, int behind);
vision_values vision_tap_input(const vision_lab *v, const char *path, const char *name);

/** Sets the statistics of every BatchNorm, in order, to those of its input for the calibration
 * images in the network that lies in `path`: two passes in f64, the variance unbiased. A channel
 * that does not vary keeps its variance. */
void vision_repair(const vision_lab *v, const char *path, vision_model *m);

/** Largest |a - b|; shapes must be equal. */
double vision_distance(const vision_values *a, const vision_values *b);
/** Largest difference of the outputs of two checkpoints on `cpu`. */
double vision_difference(const vision_lab *v, const char *a, const char *b);

OWNS(vision_model, vision_fini)
OWNS(vision_lab, vision_close)

#endif
