/* Runs the entire network over batches of images as fast as possible: fused, and with as many
 * images at once as suit the caches and the memory. */
#ifndef GRAIL_EVAL_IMAGE_PASS_H
#define GRAIL_EVAL_IMAGE_PASS_H

#include "exec/execution.h"
#include "exec/fuse.h"

typedef struct image_pass {
    extent positions; /* of the images */
    int64_t batch;    /* images at once that work well */
    matrix_pool *pool;
    fused_network *fused;
    execution *run;
} image_pass;

/** For images of one size. The network is as `store` has it now, which may be narrow; the store
 * must outlive the pass and not change. image_pass_end frees. */
grail_status image_pass_begin(image_pass *p, parameter_store *store,
                              extent positions) GRAIL_MUST_CHECK;
void image_pass_end(image_pass *p); /* works on a zeroed one */

/** The network's outputs for pixels[images, height, width, channels], one row per image: *out is
 * borrowed until the next call. */
grail_status image_pass_run(image_pass *p, int64_t images, const float *pixels,
                            matrix *out) GRAIL_MUST_CHECK;

/** Random pixels [images, height, width, channels], the same in every run; *out is owned. */
grail_status random_pixels(const graph *g, int64_t images, extent positions,
                           float **out) GRAIL_MUST_CHECK;

#endif
