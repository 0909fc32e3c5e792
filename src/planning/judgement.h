/* How far a narrowed network is from the dense one on samples that were kept apart, part by part,
 * so that two of them can be compared with the chance that is in it. */
#ifndef GRAIL_PLANNING_JUDGEMENT_H
#define GRAIL_PLANNING_JUDGEMENT_H

#include "pipeline/network/network.h"

/** The divergence of each part of the samples that judge: a sample, or of text runs of about 128
 * tokens of a window. A part of which nothing was compared has no weight. */
typedef struct divergence {
    double *losses;  /* [count], owned: sums over the part */
    double *weights; /* [count], behind `losses`: rows, outputs, or of features the energy */
    int64_t count;
} divergence;

/** What the dense network's outputs follow from, for all judgements by the same samples: of each
 * batch that judges the compared rows of what its last node reads, or of its outputs. */
typedef struct dense_record {
    matrix *rows; /* [batch_count], owned */
    int64_t batch_count;
} dense_record;

/** By how much a network is nearer to the dense one than another is, and the standard error of
 * that over the parts; infinite where parts are too few to tell, or one network gives no finite
 * outputs. */
typedef struct lead {
    double by, error;
} lead;

/** Room for the parts of a request, zeros; divergence_fini frees, even after a failure. */
grail_status divergence_init(const compression_request *request, divergence *out) GRAIL_MUST_CHECK;
void divergence_fini(divergence *d);
/** The mean over everything that was compared; NaN where nothing was. */
double divergence_mean(const divergence *d);
/** How far one is ahead of another that was judged by the same samples. */
lead divergence_lead(const divergence *own, const divergence *other);
/** Whether the first is nearer by more than so many standard errors, or the other one is not
 * finite.
 */
bool divergence_leads(const divergence *own, const divergence *other, double errors);

/** Records the dense network, which is the current one of `network` as long as nothing was cut
 * there; *out stays empty where it has several outputs,
 * or logits of every token that no head makes. dense_record_fini frees, even after a
 * failure. */
grail_status dense_record_take(calibration_network *network, dense_record *out) GRAIL_MUST_CHECK;
void dense_record_fini(dense_record *r); /* works on a zeroed one */

/** After the last block of a run that judges: KL(dense || narrow) of the outputs; for a network
 * that outputs features their squared distance, relative to the dense ones. Behind a head that
 * computes more than a quarter of what the blocks do a part of the rows is compared. The dense
 * network runs beside the narrow one, unless `record` (NULL: none) has it. *out was initialised. */
grail_status judge_divergence(calibration_network *network, const dense_record *record,
                              divergence *out) GRAIL_MUST_CHECK;

#endif
