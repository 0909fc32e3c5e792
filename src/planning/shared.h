/* What the plans of one session share: the loss curves of its dense network, and the divergences of
 * narrowed networks that were judged. The session keeps both as numbers, under hashes of everything
 * that they follow from. Where ranks share out a run nothing is shared, since their sessions need
 * not hold the same. */
#ifndef GRAIL_PLANNING_SHARED_H
#define GRAIL_PLANNING_SHARED_H

#include "planning/judgement.h"
#include "planning/loss_curves.h"

/** The loss curves of a request whose plan cuts nothing, of which `options` are: those that the
 * session has, or as loss_curves_collect; *times are 0 for those of the session. The caller calls
 * loss_curves_fini, even after a failure. */
grail_status shared_curves(const compression_request *request,
                           const grail_compress_options *options, loss_times *times,
                           loss_curves *out) GRAIL_MUST_CHECK;

/** The hash of all that decides the divergence of a narrowed network from the dense one: the
 * request that judges it, and its options. "" where nothing is shared. */
grail_status shared_trial_key(const compression_request *request,
                              const grail_compress_options *options,
                              char key[HASH_TEXT_SIZE]) GRAIL_MUST_CHECK;
/** Whether the session has the divergence; *out was initialised. */
bool shared_divergence_find(const compression_request *request, const char *key, divergence *out);
grail_status shared_divergence_keep(const compression_request *request, const char *key,
                                    const divergence *d) GRAIL_MUST_CHECK;

#endif
