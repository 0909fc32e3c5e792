/* The weights of a consumer as f64 rows over the features of its input statistics. */
#ifndef GRAIL_REDUCE_CONSUMER_ROWS_H
#define GRAIL_REDUCE_CONSUMER_ROWS_H

#include "reduce/site_view.h"

/** W[O, H] of consumer k for statistics of `width` features: a convolution whose kernel positions
 * are not features of their own has a row for each output and position. */
typedef struct consumer_rows {
    unit_matrix weight;
    int64_t count;     /* O, or O times positions */
    int64_t width;     /* H */
    int64_t positions; /* rows for each output */
    backend *backend;
} consumer_rows;

/** consumer_rows_fini frees, even after a failure. */
grail_status consumer_rows_open(const site_view *v, int consumer, int64_t width,
                                consumer_rows *out) GRAIL_MUST_CHECK;
void consumer_rows_fini(consumer_rows *r); /* works on a zeroed one */

/** out[count, H] <- all rows. */
void consumer_rows_copy(const consumer_rows *r, float *out);

/** rows[count, H], f64 <- the rows from `begin` on. */
grail_status consumer_rows_read(const consumer_rows *r, int64_t begin,
                                matrix rows) GRAIL_MUST_CHECK;

#endif
