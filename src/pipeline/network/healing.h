/* What was healed in a run: the results of its trainings, and the samples that they use. */
#ifndef GRAIL_PIPELINE_NETWORK_HEALING_H
#define GRAIL_PIPELINE_NETWORK_HEALING_H

#include "heal/training.h"
#include "pipeline/request/request.h"

typedef struct healing_list {
    grail_healing *made; /* [count], in order; owned */
    int count;
    double seconds; /* of all */
} healing_list;

void healing_list_fini(healing_list *list); /* works on a zeroed one */
grail_status healing_list_add(healing_list *list, const grail_healing *made) GRAIL_MUST_CHECK;

/** Adds the list "healed" of a block (GRAPH_NONE: of the whole network); with `every`, all. Nothing
 * is added for an empty list. */
grail_status healings_to_json(const healing_list *list, int block, bool every,
                              json_t *object) GRAIL_MUST_CHECK;
/** Adds the trainings of a record to the list. */
grail_status healings_restore(const json_t *record, healing_list *list) GRAIL_MUST_CHECK;

/** The samples that no step sees (`held`), or those that steps see: more of them lower the loss of
 * new samples more than a sharper judgement does, so only a sixteenth of the windows or an eighth
 * of the images is held out, at least 8 or 16 where that is no more than a quarter. They are the
 * first ones of the batches that the fit holds out; samples that judge the result (request.h) are
 * neither. With no batch held out, all are both. *out is [*count], owned. */
grail_status healing_samples(const compression_request *request, bool held, int64_t *count,
                             int64_t **out) GRAIL_MUST_CHECK;

/** Samples of one step: 8 windows or 64 images, or all where there are fewer. */
int64_t healing_batch(const compression_request *request, int64_t sample_count);

/** An optimiser for the parameters of nodes [begin, end) in a store, but those of dropped
 * sublayers, which have none in the result. *out is owned: optimizer_free. */
grail_status healing_optimizer(const compression_request *request, parameter_store *parameters,
                               int begin, int end, optimizer **out) GRAIL_MUST_CHECK;

/** Tells the request's observer. GRAIL_ERROR_CANCELLED when it asks to cancel. */
grail_status healing_tell(const compression_request *request,
                          const grail_healing *now) GRAIL_MUST_CHECK;

/** What is known of a running training. */
grail_healing healing_so_far(const compression_request *request, int block,
                             const training_state *state);

/** A part of some samples that is run at once. */
typedef struct sample_part {
    const int64_t *samples; /* [count] */
    int64_t count;
} sample_part;

/** The part of samples[count] from `first` on: as many as a batch of the calibration has. */
sample_part part_from(const compression_request *request, const int64_t *samples, int64_t count,
                      int64_t first);

/** Shape of a part. */
batch_shape part_shape(const compression_request *request, const sample_part *part);

#endif
