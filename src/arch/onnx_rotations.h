/* Rotary positions: heads whose features are turned in pairs, by angles that grow with the position
 * or that a table has. ONNX Runtime tells what the nodes that look like a rotation do to heads. */
#ifndef GRAIL_ARCH_ONNX_ROTATIONS_H
#define GRAIL_ARCH_ONNX_ROTATIONS_H

#include "arch/onnx_search.h"

/** What all heads that are multiplied by these values of the file turn by. */
typedef struct onnx_rotation {
    int64_t cosines, sines;
    int64_t length; /* positions that were tried */
    int64_t turned; /* features */
    bool neighbours, grows;
    double factor;
    double *
        angles; /* [length, turned / 2], or [turned / 2] of each position where it `grows`; owned */
    char *refusal; /* why they are none, owned; NULL: they are */
} onnx_rotation;

/** Whether node `root` of the file is the last of what looks like a rotation: *p. */
bool onnx_find_rotation(search *s, int64_t root, onnx_pattern *p);
/** A pattern of the kind ONNX_ROTATION, whose input is x. */
grail_status onnx_read_rotation(onnx_reading *r, const onnx_pattern *p,
                                onnx_known *x) GRAIL_MUST_CHECK;

#endif
