/* A consumer's weight: as the regression sees it, and as the calibration network holds it. */
#ifndef GRAIL_PIPELINE_NETWORK_CONSUMER_H
#define GRAIL_PIPELINE_NETWORK_CONSUMER_H

#include "pipeline/network/network.h"

/** As the regression sees it, [outputs, features]: features are those of the input in order, with
 * `taps` columns each when every tap is fitted for itself; else a convolution's taps are `tap_rows`
 * outputs of one row each. */
typedef struct consumer_layout {
    int64_t rows;     /* of the weight in the calibration network */
    int64_t features; /* of its input before reduction: n u */
    int64_t taps, tap_rows;
} consumer_layout;

consumer_layout consumer_layout_of(const compression_request *request, int site, int consumer);

/** W[rows * tap_rows, features * taps] of a consumer not yet reduced; *out is owned. */
grail_status consumer_read(const calibration_network *network, int site, int consumer,
                           float **out) GRAIL_MUST_CHECK;
/** W0 likewise with the kept units: the consumer narrowed without data; *out is owned. */
grail_status consumer_merge(const calibration_network *network, int site, int consumer,
                            const float *weight, float **out) GRAIL_MUST_CHECK;
/** Sets the consumer's weight from narrow [rows * tap_rows, K u taps], zero elsewhere, and when not
 * NULL adds bias_change[rows * tap_rows] to its bias slot. */
grail_status consumer_set(calibration_network *network, int site, int consumer, const float *narrow,
                          const double *bias_change) GRAIL_MUST_CHECK;
/** The weight from a narrow one as it is stored, [rows, K u, taps]. */
grail_status consumer_set_stored(calibration_network *network, int site, int consumer,
                                 const float *narrow) GRAIL_MUST_CHECK;

#endif
