/* A compression run: the request, the calibration network and the output. Only the public functions
 * know all three. */
#ifndef GRAIL_PIPELINE_COMPRESSION_H
#define GRAIL_PIPELINE_COMPRESSION_H

#include "pipeline/network/network.h"
#include "pipeline/output/output.h"
#include "pipeline/request/request.h"

struct grail_compression {
    compression_request *request; /* const once it is open */
    calibration_network *network;
    narrow_output *output; /* NULL: the result stays in memory */
    char *command;         /* for the model card, or NULL */
    buffer sections;       /* of the model card, in addition to those that the report gives */
    json_t *report;        /* NULL until the result is sealed; owned */
};

#endif
