/* What the tests of whole runs share: the tiny golden models taken into memory, changed and stored,
 * calibration ids, runs in one call, and comparisons of checkpoints. */
#ifndef GRAIL_TESTS_PIPELINE_LAB_H
#define GRAIL_TESTS_PIPELINE_LAB_H

#include "support/support.h"

#include "base/json.h"
#include "tensor/tensor.h"

#include <grail/compress.h>
#include <grail/eval.h>

enum { LAB_TENSORS = 64, LAB_PATH = 1024, LAB_SAMPLES = 16, LAB_LENGTH = 32 };

/** f32 values of one tensor. */
typedef struct lab_tensor {
    char name[96];
    int rank;
    int64_t shape[2];
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

/** Tensor "model.layers.<layer>.<part>"; the test fails without it. */
lab_tensor *lab_find(lab_model *m, int layer, const char *part);
/** NULL without it. */
lab_tensor *lab_look(lab_model *m, int layer, const char *part);
int64_t lab_integer(const lab_model *m, const char *key);
void lab_set_integer(lab_model *m, const char *key, int64_t value);

/** A temporary directory with paths in it; lab_close deletes it. */
typedef struct lab {
    char *directory;
    char calibration[LAB_PATH]; /* ids.npy: LAB_SAMPLES rows of LAB_LENGTH ids */
} lab;

void lab_open(lab *l);
void lab_close(lab *l);
/** Path of `name` in the laboratory. */
const char *lab_path(const lab *l, const char *name);
/** Stores a golden model with its tensors as F32 under `name`; returns its path. */
const char *lab_f32(const lab *l, const char *golden, const char *name);

/** Options of a run: a quarter of the ffn and half of the heads, no alignment. */
grail_compress_options lab_options(const lab *l, const char *model, const char *output);
/** Open, run, finish, close. */
grail_status lab_compress(const grail_compress_options *options);
/** The same, and site reports before closing: reports[sites]. Returns how many. Names are not kept.
 */
int lab_compress_reports(const grail_compress_options *options, grail_site_report *reports,
                         int most);

/** The fit lowered the site's error, or cross-validation found that none would and left it plain.
 */
bool lab_is_repaired(const grail_site_report *site);

/** All tensors of both checkpoints have equal names, dtypes, shapes and bytes. */
void assert_same_checkpoint(const char *left, const char *right);
/** Whether one tensor has equal shape and bytes in both. */
bool same_tensor(const char *left, const char *right, const char *name);
/** Largest |a - b| over all tensors, relative to the largest magnitude of the tensor. */
double largest_weight_difference(const char *left, const char *right);
/** grail_verify on random ids. */
grail_comparison compare_models(const char *dense, const char *narrow, const char *backend);
/** Reads a JSON file of a directory; the caller releases it. */
json_t *read_json(const char *directory, const char *name);

#endif
