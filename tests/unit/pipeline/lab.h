/* What the tests of complete runs share: a directory with calibration ids, runs in one call, and
 * comparisons of checkpoints. */
#ifndef GRAIL_TESTS_PIPELINE_LAB_H
#define GRAIL_TESTS_PIPELINE_LAB_H

#include "lab_model.h"
#include "support/owned.h"

#include <grail/compress.h>
#include <grail/eval.h>

enum { LAB_SAMPLES = 16, LAB_LENGTH = 32 };

/** A temporary directory with paths in it; lab_close deletes it. */
typedef struct lab {
    char *directory;
    char calibration[LAB_PATH]; /* ids.npy: LAB_SAMPLES rows of LAB_LENGTH ids */
} lab;

void lab_open(lab *l);
void lab_close(lab *l);
/** LAB_TEST(what_holds) { ... }: a test with a laboratory of its own, `lab *l`. */
#define LAB_TEST(name) TEST_OF(lab, l, lab_open, lab_close, name)
/** Writes ids[rows, columns] as .npy into the laboratory. */
void lab_write_ids(const lab *l, const char *name, int64_t rows, int64_t columns,
                   const int32_t *ids);
/** Path of a name in the laboratory, until many others are made. */
const char *lab_path(const lab *l, const char *name);
const char *lab_path_of(const lab *l, const char *format, ...) GRAIL_PRINTF(2, 3);
/** Stores a golden model with its tensors as F32 under `name`; returns its path. */
const char *lab_f32(const lab *l, const char *golden, const char *name);

/** The same for a llama, with a bias in every Linear of its layers. */
const char *lab_with_biases(const lab *l, const char *golden, const char *name);

/** Options of a run: a quarter of the ffn and half of the heads by wanda, no alignment, full repair
 * without refits and token weights. */
grail_compress_options lab_options(const lab *l, const char *model, const char *output);
/** Opens, runs, finishes and closes. */
grail_status lab_compress(const grail_compress_options *options);
/** The same as one of several ranks, of which the first finishes. */
grail_status lab_compress_rank(const grail_compress_options *options, int rank);
/** The same, with the site reports read before closing: reports[sites]. Returns how many. Names are
 * not kept. */
int lab_compress_reports(const grail_compress_options *options, grail_site_report *reports,
                         int most);
/** Makes allocations of a run fail, each of the first ones and more sparsely later, until it
 * succeeds. A failing run returns GRAIL_ERROR_MEMORY, and leaves no result unless that is complete.
 * Tests skip it where !support_walks_failures(). */
void lab_fail_allocations(grail_compress_options options);

/** The fit lowered the site's error, or cross-validation found that none would and left it plain.
 */
bool lab_is_repaired(const grail_site_report *site);

/** Whether a selector has a rule for whole experts and nothing else. */
bool lab_is_for_experts(const char *selector);

/** All tensors of both checkpoints have equal names, dtypes, shapes and bytes. */
void assert_same_checkpoint(const char *left, const char *right);
/** Whether one tensor has equal shape and bytes in both. */
bool same_tensor(const char *left, const char *right, const char *name);
/** Largest |a - b| over all tensors, relative to the largest magnitude of the tensor. */
double largest_weight_difference(const char *left, const char *right);
/** Whether a run with these grail_compress_options can be opened. */
grail_status lab_opens(const void *options);
/** A run that writes nothing, so that no block is released. Owned by the caller. */
grail_compression *lab_run_in_memory(grail_compress_options options);

/** grail_verify on random ids. */
grail_comparison compare_models(const char *dense, const char *narrow, const char *backend);
/** The mean divergence for each token. */
double lab_divergence(const char *dense, const char *narrow);

/** Whether this processor multiplies in bf16; what a test leaves out without it is printed as
 * `what`.
 */
bool lab_computes_bf16(const char *what);

OWNS(lab, lab_close)

#endif
