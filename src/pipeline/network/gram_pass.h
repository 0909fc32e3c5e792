/* The pass of the dense network whose statistics are written to a file, block by block. */
#ifndef GRAIL_PIPELINE_NETWORK_GRAM_PASS_H
#define GRAIL_PIPELINE_NETWORK_GRAM_PASS_H

#include "pipeline/network/column_sums.h"
#include "pipeline/network/network.h"
#include "pipeline/network/observation.h"
#include "stats/network_statistics_write.h"

/** A map whose input is counted. */
typedef struct counted_map {
    int node;
    char name[STATISTICS_NAME_SIZE];
    int64_t width;
    int site, consumer; /* whose units it reads, for the Gram matrix; GRAPH_NONE: none */
    int64_t gram_width;
    /* While its block is passed: */
    column_sums sums;
    observation grams;
} counted_map;

typedef struct gram_pass {
    counted_map *maps; /* [count] in the order of their nodes, owned */
    int count;
    bool full;
    double *energies; /* [block_count + 2] behind each, owned */
    int done; /* so many of these are of an interrupted run, which has counted their blocks */
} gram_pass;

/** Takes what is counted. */
typedef struct gram_sink {
    statistics_file *file;
    /* all tensors of the block are written, and its energy is known */
    grail_status (*finish)(void *user, int block);
    void *user;
} gram_sink;

/** Finds the maps of the network: all but the head of one that reads text, which llama.cpp does not
 * count either. gram_pass_fini, even after a failure. */
grail_status gram_pass_plan(const grail_model *model, const cutting *cut, bool full,
                            gram_pass *out) GRAIL_MUST_CHECK;
void gram_pass_fini(gram_pass *p); /* works on a zeroed one */

/** Lists the tensors of the file. */
grail_status gram_pass_list(const gram_pass *p, int64_t block_count,
                            statistics_list *out) GRAIL_MUST_CHECK;

/** Runs the network, in which nothing is cut, and writes the tensors; without a file another rank
 * does. Blocks that are counted already are passed without being counted. */
grail_status gram_pass_run(calibration_network *network, gram_pass *p,
                           const gram_sink *sink) GRAIL_MUST_CHECK;

#endif
