/* The teacher: the dense network that a network narrowed earlier is healed towards. */
#ifndef GRAIL_PIPELINE_REQUEST_TEACHER_H
#define GRAIL_PIPELINE_REQUEST_TEACHER_H

#include "heal/heal_options.h"
#include "pipeline/request/calibration.h"

/**
 * GRAIL_ERROR_ARGUMENT unless both networks take the same samples and give outputs of the same
 * kind and width, and, where blocks are healed, have as many blocks with residual streams of the
 * same width and positions between them. Both take the same samples if
 *
 *     text: they have vocabularies of the same size, the teacher reads windows of this length,
 *     and its tokenizer, if it has one and text is tokenized at all, makes the same tokens of it;
 *     images: the teacher takes them at this size, and, unless the caller names a preset, its
 *     files, if they say how images are prepared, say the same.
 */
grail_status teacher_check(const grail_model *narrow, const grail_model *teacher,
                           const grail_compress_options *options, const heal_options *heal,
                           const calibration *samples) GRAIL_MUST_CHECK;

#endif
