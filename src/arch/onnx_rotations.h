/* Rotary positions in networks that read sequences: heads whose features are turned in pairs by
 * angles that grow with the position. ONNX Runtime computes cosines and sines, and how a head goes
 * through the nodes that are taken for a rotation. */
#ifndef GRAIL_ARCH_ONNX_ROTATIONS_H
#define GRAIL_ARCH_ONNX_ROTATIONS_H

#include "arch/onnx_nodes.h"

/** Cosines and sines, values of the file, that are those of a rotation. */
typedef struct onnx_rotation {
    int64_t cosines, sines;
    int64_t turned, length; /* features; positions that they were computed for */
    double factor;
    double *frequency; /* [turned / 2], owned */
    char *refusal;     /* why they are none, owned; NULL: they are */
} onnx_rotation;

/** A pattern of the kind ONNX_ROTATION, whose input is x. */
grail_status onnx_read_rotation(onnx_reading *r, const onnx_pattern *p,
                                onnx_known *x) GRAIL_MUST_CHECK;

#endif
