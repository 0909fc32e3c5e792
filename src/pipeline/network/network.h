/* The calibration network: the dense network and the network as narrowed so far, each with its
 * execution, and what was decided and measured at each site.
 *
 * Until all consumers of a site are set, its axis keeps the dense units: in those that are set
 * before the last one, the columns of removed units are zero. A folded axis of n units has its K
 * merged units behind the original n, which these consumers do not read. So the unreduced input X
 * and the output Z of the reduced producers are columns of one value:
 *
 *   selection: Z = X[:, P]          folding: value = [X | Z], Z made by the merged producers
 *
 * Where a norm runs over the width, the units of a selection stand behind the others, too, and the
 * norm runs over X and over Z (norms.h): units that are left are remade (site_is_remade).
 *
 * After the last consumer the site takes its narrow shapes (narrow.h), and what runs from then
 * on is narrow. */
#ifndef GRAIL_PIPELINE_NETWORK_NETWORK_H
#define GRAIL_PIPELINE_NETWORK_NETWORK_H

#include "pipeline/network/decide.h"
#include "pipeline/network/healing.h"
#include "pipeline/network/refits.h"
#include "pipeline/request/request.h"

typedef struct calibration_network {
    const compression_request *request; /* borrowed */
    const cutting *cut;                 /* of the request */
    network_run dense;
    network_run current;  /* as narrowed so far; its store has the dense one as parent */
    matrix_pool *pool;    /* shared by both executions */
    sample_passes passes; /* of these two */
    branch_list *lacking; /* layers of which experts go, for `passes`; owned */
    bool *shares; /* [values] which the dense network takes over from the current one, where they
                     must outlive their readers; owned */
    int64_t **orders; /* [order_count] of the dense network's shares, where the plan drops experts;
                         owned */
    int order_count;  /* values of the larger network */
    sample_stream before_group; /* the current one before the first of several blocks that are
                                   healed together, until the last of them is fitted */
    int64_t memory;             /* of the options: for what is kept; 0: half of what is free */
    site_result *results;       /* [sites] */
    grail_reducer **chosen;  /* [sites] decisions that wait for the site's first producer; owned */
    unsigned char **rounded; /* [parameter_count], of request->rounded: matrices of the block at
                                hand as they will be stored, with all rows; owned */
    refit_list refits;
    healing_list healings;
    regional_gradients regional; /* of the block that is being narrowed */
} calibration_network;

/** Creates the network, still dense, with the sample streams before node 0. `memory` is that of the
 * options. *out is owned, even after a failure: network_free, before the request is closed. */
grail_status network_create(const compression_request *request, int64_t memory,
                            calibration_network **out) GRAIL_MUST_CHECK;
void network_free(calibration_network *network); /* NULL is allowed */

/** The node of the dense network behind a block. */
int network_dense_end(const calibration_network *network, int block);

/** Puts both sample streams before node 0 again, empty. */
grail_status network_rewind(calibration_network *network) GRAIL_MUST_CHECK;

/** Drops the parameters of a finished block; those of the current network stay where the entire
 * network is healed at the end. */
void network_release_block(calibration_network *network, int block);

/** Whether a parameter's result differs from the checkpoint's bytes. */
bool parameter_is_changed(const calibration_network *network, int parameter);
/** The finished parameter with the shape of the narrowed graph, f32; *out is owned, even
 * after a failure. */
grail_status narrow_parameter(const calibration_network *network, int parameter,
                              float **out) GRAIL_MUST_CHECK;
/** All finished parameters, as a store whose parent is the dense one; *out is owned, even
 * after a failure. */
grail_status narrow_store(const calibration_network *network,
                          parameter_store **out) GRAIL_MUST_CHECK;

#endif
