/* Whether a text that is measured holds what a network was calibrated on. */
#ifndef GRAIL_EVAL_TEXT_OVERLAP_H
#define GRAIL_EVAL_TEXT_OVERLAP_H

#include "arch/model.h"
#include "format/text/windows.h"

typedef struct text_overlap {
    int64_t recorded;    /* runs of SHINGLE_TOKENS calibration tokens */
    int64_t found;       /* of these, in the windows */
    bool is_calibration; /* the text is the one that was calibrated on */
} text_overlap;

/** By what report.json and calibration.hashes beside the model say; zeros without them. */
grail_status text_overlap_find(const grail_model *model, const token_windows *windows,
                               text_overlap *out) GRAIL_MUST_CHECK;

#endif
