/* The output of a run: a directory that appears only when it is complete. Until then it grows as
 * OUTPUT.partial, with a record of each finished block, from which an interrupted run goes on. */
#ifndef GRAIL_PIPELINE_OUTPUT_OUTPUT_H
#define GRAIL_PIPELINE_OUTPUT_OUTPUT_H

#include "base/json.h"
#include "format/weights/checkpoint.h"

typedef struct narrow_output {
    char *path, *partial;
    int lock; /* descriptor that keeps other runs out of `partial`; -1 without */
    checkpoint_writer *writer;
    int *parameter_block;  /* [parameter_count]: block that writes it, GRAPH_NONE outside */
    int *tensor_parameter; /* [checkpoint_count]: first parameter of each tensor, or GRAPH_NONE */
    int *next_part;        /* [parameter_count]: next parameter of the same tensor */
    json_t *records;       /* of finished blocks */
    int blocks_recorded;   /* finished ones that are on disk */
} narrow_output;

#endif
