/* The weight of a consumer, or of any other map that is fitted, in the form for the regression and
 * in that of the calibration network. */
#ifndef GRAIL_PIPELINE_NETWORK_CONSUMER_H
#define GRAIL_PIPELINE_NETWORK_CONSUMER_H

#include "exec/parameters.h"
#include "pipeline/request/cuts.h"

/** The form for the regression, [outputs, features]. Features are those of the input, in order. If
 * every tap is fitted separately, each feature has `taps` columns. Otherwise each tap of a
 * convolution is an output of its own: a row of the weight becomes `tap_rows` rows. A convolution
 * in groups has a regression for each, of equal runs of rows and features, one group after the
 * other. */
typedef struct consumer_layout {
    int64_t rows;     /* of the weight in the calibration network */
    int64_t features; /* of the input of a group before reduction: n u / groups */
    int64_t taps, tap_rows;
    int64_t groups; /* 1 of most */
} consumer_layout;

consumer_layout consumer_layout_of(const cutting *cut, int site, int consumer);
/** The layout of a node whose input is not cut. */
consumer_layout map_layout_of(const cutting *cut, int node_index);

/** A parameter of the current network in the wide form, with rows and columns for all merged units
 * of sites that are parts: its shape and, in f32, its values; *out is owned, even after a failure.
 */
grail_status wide_values(const cutting *cut, parameter_store *current, int parameter,
                         int64_t shape[PARAMETER_MAX_RANK], float **out) GRAIL_MUST_CHECK;

/** W[rows * tap_rows, features * taps] of a consumer that is not reduced yet; *out is owned. */
grail_status consumer_read(const cutting *cut, parameter_store *current, int site, int consumer,
                           float **out) GRAIL_MUST_CHECK;
/** A part's consumer: its weight in the wide form, as it is stored, with zeros for the part. */
grail_status consumer_read_others(const cutting *cut, parameter_store *current, int site,
                                  int consumer, float **out) GRAIL_MUST_CHECK;
/** The channel of the consumer's input where the site's begin in the wide form. */
int64_t consumer_first(const cutting *cut, int site, int consumer);
/** W of a node whose input is not cut, as consumer_read gives it. */
grail_status map_read(const cutting *cut, parameter_store *current, int node_index,
                      float **out) GRAIL_MUST_CHECK;
/** Whether a device has the weight of a node in this form. */
bool weight_is_placed(parameter_store *current, int weight, const consumer_layout *l);
/** *out is W in this form as F32 on the store's backend: a copy of what a device has, else
 * values[rows * tap_rows, features * taps], which must outlive it. matrix_free. */
grail_status weight_place(parameter_store *current, int weight, const consumer_layout *l,
                          const float *values, matrix *out) GRAIL_MUST_CHECK;
/** W0[rows * tap_rows, K u taps], the consumer narrowed by a reducer without data; *out is owned.
 */
grail_status consumer_merge(const cutting *cut, const grail_reducer *reducer, int site,
                            int consumer, const float *weight, float **out) GRAIL_MUST_CHECK;
/** Sets the weight of a consumer whose site has this reducer from narrow[rows * tap_rows, K u
 * taps]. Where it runs before its axis is narrow, the other columns are zero. Adds bias_change[rows
 * * tap_rows] to its bias slot unless it is NULL. */
grail_status consumer_set(const cutting *cut, parameter_store *current,
                          const grail_reducer *reducer, int site, int consumer, const float *narrow,
                          const double *bias_change) GRAIL_MUST_CHECK;
/** The same from a matrix of F32, which stays on a device where it is set as it is. */
grail_status consumer_set_matrix(const cutting *cut, parameter_store *current,
                                 const grail_reducer *reducer, int site, int consumer,
                                 matrix narrow, const double *bias_change) GRAIL_MUST_CHECK;
/** Sets the weight of a node whose input is not cut from weight[rows * tap_rows, features * taps]
 * in F32, and its bias slot as consumer_set does. */
grail_status map_set(const cutting *cut, parameter_store *current, int node_index, matrix weight,
                     const double *bias_change) GRAIL_MUST_CHECK;
/** As consumer_set, from a narrow weight in the stored form, [rows, K u, taps]. */
grail_status consumer_set_stored(const cutting *cut, parameter_store *current,
                                 const grail_reducer *reducer, int site, int consumer,
                                 const float *narrow) GRAIL_MUST_CHECK;

#endif
