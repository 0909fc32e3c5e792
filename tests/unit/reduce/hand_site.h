/* A site of hand-made weights with Linears or convolutions at its ends, as selectors see it. */
#ifndef GRAIL_TESTS_UNIT_REDUCE_HAND_SITE_H
#define GRAIL_TESTS_UNIT_REDUCE_HAND_SITE_H

#include "reduce/selector.h"
#include "support/support.h"

enum { HAND_ENDS = 4, HAND_CONSUMERS = 2 };

/** Parameter i of the graph has weights[i]. The view has the statistics of `inputs`, which a test
 * fills in. */
typedef struct hand_site {
    graph graph;
    node nodes[HAND_ENDS];
    graph_parameter parameters[HAND_ENDS];
    const float *weights[HAND_ENDS]; /* borrowed */
    site_end producers[HAND_ENDS], consumers[HAND_CONSUMERS];
    site_end channels[1];
    site site;
    site_view view; /* without a backend */
    input_statistics inputs[HAND_CONSUMERS];
    grail_reducer *reducer;
} hand_site;

/** A site without ends. It must not move afterwards. */
void hand_begin(hand_site *f, site_kind kind, int64_t units, int64_t kept);
/** weight[units * features, columns] */
void hand_add_producer(hand_site *f, int64_t features, int64_t columns, const float *weight);
/** weight[outputs, units * features] */
void hand_add_consumer(hand_site *f, int64_t features, int64_t outputs, const float *weight);
/** A convolution's weight[outputs, units, taps]. */
void hand_add_convolution(hand_site *f, int64_t taps, int64_t outputs, const float *weight);

/** weight[units, 1, 1, taps] of kernels on the axis, without a bias. */
void hand_add_kernels(hand_site *f, int64_t taps, const float *weight);

/** '1' for every kept unit, '0' for the others. */
void assert_kept(const grail_reducer *r, const char *pattern);
void assert_decides(hand_site *f, const selector *s, const char *pattern);
/** For every K the selector keeps those K units whose scores[units] are the largest. */
void assert_ranks(hand_site *f, const selector *s, const double *scores);

#endif
