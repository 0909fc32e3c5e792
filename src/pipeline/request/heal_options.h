/* What is healed after the closed form, and for how long. */
#ifndef GRAIL_PIPELINE_REQUEST_HEAL_OPTIONS_H
#define GRAIL_PIPELINE_REQUEST_HEAL_OPTIONS_H

#include "base/json.h"
#include "graph/graph.h"

#include <grail/compress.h>

typedef struct heal_options {
    bool blocks, network; /* each block when it is fitted; the whole network at the end */
    int64_t steps;        /* of every training */
    double block_rate, network_rate;
    double seconds; /* for all trainings together; infinity: no limit */
} heal_options;

/** The usual rate depends on what the network reads. An unknown value is GRAIL_ERROR_ARGUMENT. */
grail_status heal_options_read(const grail_compress_options *options, input_kind input,
                               heal_options *out) GRAIL_MUST_CHECK;

bool heals(const heal_options *options);

/** For fingerprints and reports. *out is owned. */
grail_status heal_options_to_json(const heal_options *options, json_t **out) GRAIL_MUST_CHECK;

#endif
