/* Samples of networks with several inputs: an array of numpy for each of them, by name. */
#ifndef GRAIL_ARCH_MODEL_ARRAYS_H
#define GRAIL_ARCH_MODEL_ARRAYS_H

#include "arch/model.h"
#include "format/images/image_arrays.h"
#include "format/text/windows.h"

/** Whether a place of samples is NAME=FILE,NAME=FILE,... of the inputs of the network, and no file.
 */
bool model_names_arrays(const grail_model *model, const char *place);

/**
 * Windows of ids, each made of what the files say of a position: [samples, positions] integers
 * each. What a mask hides is left out; it must lie behind all else of its sample. An input that is
 * not given, other numbers of samples or positions than those of the others, and numbers outside
 * their tables are GRAIL_ERROR_ARGUMENT. Windows are cut to `context` positions, unless that is 0.
 * token_windows_fini frees *out.
 */
grail_status model_read_arrays(const grail_model *model, const char *place, int64_t context,
                               token_windows *out) GRAIL_MUST_CHECK;

/** *out <- the arrays of a network whose inputs lie side by side, in the order of its inputs,
 * owned: NAME=PATH,NAME=PATH; *layouts <- what each must be, owned. An input that is not given, and
 * one of another shape than the file states, are GRAIL_ERROR_ARGUMENT and GRAIL_ERROR_SHAPE. */
grail_status model_order_arrays(const grail_model *model, const char *place, char **out,
                                array_layout **layouts) GRAIL_MUST_CHECK;

/** Ids of a text are those of the words alone: numbers below that. */
int64_t model_word_count(const grail_model *model);
/** Refuses ids that the network's file takes for padding. */
grail_status model_check_padding(const grail_model *model, const token_windows *w) GRAIL_MUST_CHECK;

#endif
