/* The teacher: the dense network that a network narrowed earlier is healed towards. */
#ifndef GRAIL_PIPELINE_REQUEST_TEACHER_H
#define GRAIL_PIPELINE_REQUEST_TEACHER_H

#include "arch/model.h"
#include "pipeline/request/heal_options.h"

/** GRAIL_ERROR_ARGUMENT unless both networks take the same input and give outputs of the same
 * width, and, where blocks are healed, have as many blocks with streams of the same width between
 * them. */
grail_status teacher_check(const grail_model *narrow, const grail_model *teacher,
                           const heal_options *heal) GRAIL_MUST_CHECK;

#endif
