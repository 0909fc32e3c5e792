/* Lists of numbers that a node reads: of constants, or computed (onnx_shapes.h); and what they must
 * be where channels are left out. */
#ifndef GRAIL_ARCH_ONNX_NUMBERS_H
#define GRAIL_ARCH_ONNX_NUMBERS_H

#include "arch/onnx_nodes.h"

enum { ONNX_MOST_NUMBERS = 64 }; /* in a list */

/** Numbers that no constant of the file states. */
onnx_number onnx_whole(int64_t value);
onnx_number onnx_real(double value);
/** Whether they are those of something. */
bool onnx_is_channels(const onnx_channels *c);
/** Those of a constant of at most one dimension; as onnx_numbers_of. */
grail_status onnx_numbers_of_constant(const onnx_reading *r, int64_t tensor,
                                      onnx_numbers *out) GRAIL_MUST_CHECK;
grail_status onnx_copy_numbers(const onnx_numbers *from, onnx_numbers *out) GRAIL_MUST_CHECK;
/** *out <- those of input i, which are constants or computed; owned: memory_free(out->items).
 * *out is not known where they are neither, or more than ONNX_MOST_NUMBERS. */
grail_status onnx_numbers_of(const onnx_reading *r, int i, onnx_numbers *out) GRAIL_MUST_CHECK;
/** Keeps it for when channels are left out. */
grail_status onnx_note(onnx_reading *r, const onnx_count *count) GRAIL_MUST_CHECK;
/** Notes that a number was read as a size that stays. */
grail_status onnx_note_stays(onnx_reading *r, const onnx_number *n) GRAIL_MUST_CHECK;
/** Notes that a number counts channels of a value. */
grail_status onnx_note_number(onnx_reading *r, const onnx_number *n,
                              const onnx_channels *of) GRAIL_MUST_CHECK;

#endif
