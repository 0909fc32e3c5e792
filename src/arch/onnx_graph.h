/* Translates a graph to ONNX operators. */
#ifndef GRAIL_ARCH_ONNX_GRAPH_H
#define GRAIL_ARCH_ONNX_GRAPH_H

#include "arch/model.h"
#include "format/onnx/onnx_write.h"

/** The tensors of the writer and their sources. */
typedef struct onnx_tensors {
    int *of_checkpoint;   /* [checkpoint_count] GRAPH_NONE: the network does not read it */
    int table;            /* of fixed positions; GRAPH_NONE if there is none */
    const double *values; /* of the table, borrowed from the graph */
    int64_t table_elements;
    int64_t outputs; /* of the network */
} onnx_tensors;

/** Declares input, nodes, tensors and output for images of size `image`. The caller allocates
 * tensors->of_checkpoint. A kind of node that has no translation is GRAIL_ERROR_UNSUPPORTED. */
grail_status onnx_graph_declare(const grail_model *model, extent image, onnx_writer *w,
                                onnx_tensors *tensors) GRAIL_MUST_CHECK;

#endif
