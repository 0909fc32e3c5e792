/* A site of hand-made weights, and the view of it that a selector gets. */
#ifndef GRAIL_TESTS_UNIT_REDUCE_SITE_FIXTURE_H
#define GRAIL_TESTS_UNIT_REDUCE_SITE_FIXTURE_H

#include "reduce/selector.h"
#include "support/support.h"

enum { MOST = 4 };

/** Linears or convolutions at its ends; parameter i of the graph has weights[i]. Statistics are
 * those of inputs[], all zero until a test sets some. */
typedef struct fixture {
    graph graph;
    node nodes[MOST];
    graph_parameter parameters[MOST];
    const float *weights[MOST];
    site_end producers[MOST], consumers[MOST];
    site site;
    site_view view;
    input_statistics inputs[MOST];
    grail_reducer *reducer;
} fixture;

/** A site without ends, with one input. */
void begin_site(fixture *f, site_kind kind, int64_t units, int64_t kept);
/** Weights are borrowed: weight[units * features, columns], weight[outputs, units * features]. */
void add_producer(fixture *f, int64_t features, int64_t columns, const float *weight);
void add_consumer(fixture *f, int64_t features, int64_t outputs, const float *weight);
/** weight[outputs, units, 1, taps] */
void add_convolution(fixture *f, int64_t outputs, int64_t taps, const float *weight);

/** pattern[j] is '1' for a kept unit. */
void assert_kept(const grail_reducer *r, const char *pattern);
void assert_decides(fixture *f, const selector *s, const char *pattern);

#endif
