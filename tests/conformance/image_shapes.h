/* What the conformance tests of images share: shapes of windows, and what their windows read. */
#ifndef GRAIL_TESTS_IMAGE_SHAPES_H
#define GRAIL_TESTS_IMAGE_SHAPES_H

#include "conformance/conformance.h"

/** With the output positions that the window makes. */
conv_shape shape_of(int64_t samples, extent in, int64_t channels_in, int64_t channels_out,
                    window2d w);

/** Numbers of elements of X and of a weight, of output positions, of taps. */
int64_t inputs_of(const conv_shape *s);
int64_t weights_of(const conv_shape *s);
int64_t positions_of(const conv_shape *s);
int64_t taps_of(const conv_shape *s);

/** Channels of X that each output of a convolution reads, and the first that output `out` reads. */
int64_t read_by_each(const conv_shape *s);
int64_t first_read(const conv_shape *s, int64_t out);

/** Images and a weight of the shape; their values may be longer. */
matrix images_of(backend *b, const conv_shape *s, const float *x);
matrix weight_of(backend *b, const conv_shape *s, const float *weight);

/** Index into X of channel 0 at tap `k` of output position `p`, -1 outside. */
int64_t tap_index(const conv_shape *s, int64_t p, int64_t k);

/** scale[positions, channels] of the samples' sums: each becomes the largest of its channel in a
 * square of 4 x 4 positions, since a backend may form such a square's sums together
 * (docs/numerics.md, Convolutions by squares). */
void share_scales(int64_t samples, extent positions, int64_t channels, double *scale);

/** Convolutions of all kinds, which backends compute and take the gradients of. */
size_t case_count(void);
conv_shape case_shape(size_t i);

#endif
