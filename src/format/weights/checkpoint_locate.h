/* Which files of a directory are a model's weights. */
#ifndef GRAIL_FORMAT_WEIGHTS_CHECKPOINT_LOCATE_H
#define GRAIL_FORMAT_WEIGHTS_CHECKPOINT_LOCATE_H

#include "base/memory.h"

/**
 * *out, owned, is the base name of the weights file or index in `directory`. None, or several of
 * which no one comes first: GRAIL_ERROR_IO that says what was looked for, or found.
 */
grail_status checkpoint_locate(const char *directory, char **out, bool *is_index) GRAIL_MUST_CHECK;

/**
 * Whether the weights file `name` of `directory` is what opening the directory reads: under one of
 * the names that are looked for, or as the only one. Several others, or none, is no error.
 */
grail_status checkpoint_is_located(const char *directory, const char *name,
                                   bool *out) GRAIL_MUST_CHECK;

/** Whether the name is one of those that a directory's weights have in one file, not in shards. */
bool checkpoint_is_usual_name(const char *name);

/** Whether the name is one of those that an index of shards has. */
bool checkpoint_is_index_name(const char *name);

/** Whether files of this name hold weights in safetensors, or else in torch's formats. */
bool checkpoint_is_safetensors_name(const char *name);
bool checkpoint_is_torch_name(const char *name);

#endif
