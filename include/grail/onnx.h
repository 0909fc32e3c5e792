#ifndef GRAIL_ONNX_H
#define GRAIL_ONNX_H

#include <grail/model.h>
#include <grail/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct grail_onnx_options {
    int64_t side;    /* of the images; 0 = the network's own, or its preset's */
    int64_t largest; /* bytes of the file; larger weights go to FILE.data; 0 = 2 GB, the limit of
                        ONNX */
    GRAIL_ROOM(4);
} grail_onnx_options;

/** i-th description of the fields, NULL beyond the last. */
GRAIL_API const grail_option *grail_onnx_option_at(int i);

typedef struct grail_onnx_facts {
    int64_t side, outputs;
    int64_t bytes; /* of both files */
    int split;     /* 1: the weights are in FILE.data */
    int converted; /* 1: weights of 16 bits were stored as F32 */
    GRAIL_ROOM(4);
} grail_onnx_facts;

/**
 * Writes a network that reads images as ONNX (opset 17): input "pixels", F32 [N, 3, side, side],
 * normalised as the network's preset says; output "logits", F32 [N, outputs]. The weights keep the
 * names of the checkpoint and are stored as F32. Files appear only when they are complete; a file
 * that already exists is GRAIL_ERROR_EXISTS. options and facts may be NULL.
 */
GRAIL_API grail_status grail_onnx_write(const grail_model *model, const char *path,
                                        const grail_onnx_options *options,
                                        grail_onnx_facts *facts) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
