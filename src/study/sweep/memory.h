/* How much memory a cell of a sweep is expected to take, so that several can run beside each other.
 */
#ifndef GRAIL_STUDY_SWEEP_MEMORY_H
#define GRAIL_STUDY_SWEEP_MEMORY_H

#include "arch/model.h"
#include "study/recipe/cells.h"

/**
 * Bytes that narrowing and evaluating `model` as `cell` says are estimated to take, from above:
 *
 *     4 copies of the parameters (6 to fold), the calibration images and the streams between nodes
 *     in f32; a batch of the evaluation; and for statistics of w features and o outputs in f64
 *     2 (w^2 + w o) (fit and held out) + 2 w^2 (solving) at the largest consumer, in an open loop
 *     2 w^2 of all besides.
 */
grail_status sweep_cell_bytes(const sweep_recipe *recipe, const grail_model *model,
                              const sweep_cell *cell, int64_t *out) GRAIL_MUST_CHECK;

#endif
