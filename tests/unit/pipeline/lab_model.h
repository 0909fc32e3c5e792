/* The tiny golden models taken into memory, changed and stored again. */
#ifndef GRAIL_TESTS_PIPELINE_LAB_MODEL_H
#define GRAIL_TESTS_PIPELINE_LAB_MODEL_H

#include "support/support.h"

#include "base/json.h"
#include "tensor/tensor.h"

enum { LAB_TENSORS = 96, LAB_RANK = 3, LAB_PATH = 1024 };

/** f32 values of one tensor. */
typedef struct lab_tensor {
    char name[96];
    int rank;
    int64_t shape[LAB_RANK];
    float *values; /* owned */
} lab_tensor;

typedef struct lab_model {
    json_t *config; /* owned */
    lab_tensor tensors[LAB_TENSORS];
    int count;
} lab_model;

/** Directory of a golden model. Texts of this and of lab_path are static and last for 32 calls. */
const char *lab_golden(const char *name);

/** Reads a model directory. */
void lab_read(lab_model *m, const char *directory);
/** Writes config.json and model.safetensors into a new directory, all tensors as `dtype`. */
void lab_write(const lab_model *m, const char *directory, grail_dtype dtype);
void lab_fini(lab_model *m);
int64_t lab_elements(const lab_tensor *t);

/** Tensor "model.layers.<layer>.<part>"; the test fails without it. */
lab_tensor *lab_find(lab_model *m, int layer, const char *part);
/** NULL without it. */
lab_tensor *lab_look(lab_model *m, int layer, const char *part);
/** Gives every Linear of a llama's layers a bias, random where it had none. */
void lab_add_biases(lab_model *m);
int64_t lab_integer(const lab_model *m, const char *key);
void lab_set_integer(lab_model *m, const char *key, int64_t value);
/** Reads a JSON file of a directory; the caller releases it. */
json_t *read_json(const char *directory, const char *name);

/** A static text of LAB_PATH bytes that lasts for 4096 calls. */
char *lab_next_path(void);

OWNS(lab_model, lab_fini)

#endif
