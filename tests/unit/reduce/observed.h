/* Explicit rows of a consumer's input and target: what a selector is given of them, and what the
 * best fit on some of the features costs, in plain loops over the rows. */
#ifndef GRAIL_TESTS_UNIT_REDUCE_OBSERVED_H
#define GRAIL_TESTS_UNIT_REDUCE_OBSERVED_H

#include "hand_site.h"

typedef struct observed {
    int64_t rows, width, outputs;
    double *x;     /* X[rows, width] */
    double *y;     /* Y[rows, outputs]; NULL: X W^T */
    double *w;     /* W[outputs, width], rows of the regression */
    float *stored; /* [outputs / taps, width, taps], as the parameter has it */
} observed;

/** Random rows with means that are not 0, random weights without a target. */
observed observe(int64_t rows, int64_t width, int64_t outputs, int64_t taps, uint64_t seed);
void observed_add_target(observed *o, uint64_t seed);
void observed_free(observed *o);

/** Gives input k of a view the sums of the rows: a Gram matrix with NaN above its diagonal, means,
 * and the cross sums where there is a target. forget_inputs releases those of all inputs. */
void give_input(backend *b, const observed *o, int k, hand_site *f);
void forget_inputs(hand_site *f);

/** X^T X of the rows [+ shift I], centred when asked; memory_free. */
double *observed_gram(const observed *o, bool centred, double shift);
/** damping times its mean diagonal */
double observed_lambda(const observed *o, bool centred, double damping);

/** min ||Y - X W'^T||^2 + lambda ||W' - W||^2 over W' that are 0 in the columns of removed
 * features; with `centred` also over a bias. */
double observed_loss(const observed *o, bool centred, double lambda, const bool *kept);

#endif
