/* Logits in a safetensors file, for comparison with another implementation. */
#ifndef GRAIL_EVAL_LOGITS_H
#define GRAIL_EVAL_LOGITS_H

#include "tensor/tensor.h"

/** Writes `values` as the tensor "logits" F32 of that shape. */
grail_status logits_store(const char *path, int rank, const int64_t shape[],
                          const float *values) GRAIL_MUST_CHECK;

#endif
