/* Which files of a directory are a model's weights. */
#ifndef GRAIL_FORMAT_CHECKPOINT_LOCATE_H
#define GRAIL_FORMAT_CHECKPOINT_LOCATE_H

#include "base/memory.h"

/**
 * *out, owned, is the base name of the weights file or index in `directory`. None, or several of
 * which no one comes first: GRAIL_ERROR_IO that says what was looked for, or found.
 */
grail_status checkpoint_locate(const char *directory, char **out, bool *is_index) GRAIL_MUST_CHECK;

/** Whether files of this name hold weights in safetensors, or else in torch's formats. */
bool checkpoint_is_safetensors_name(const char *name);
bool checkpoint_is_torch_name(const char *name);

#endif
