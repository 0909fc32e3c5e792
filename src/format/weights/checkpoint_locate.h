/* Finds the files of a directory that are a model's weights. */
#ifndef GRAIL_FORMAT_WEIGHTS_CHECKPOINT_LOCATE_H
#define GRAIL_FORMAT_WEIGHTS_CHECKPOINT_LOCATE_H

#include "base/memory.h"
#include "base/status.h"

#include <stdbool.h>

/**
 * *out, owned, is the base name of the weights file or index in `directory`. If there is none, or
 * if there are several and none has a usual name, this is GRAIL_ERROR_IO; the message lists the
 * names that were tried, or the files that were found.
 */
grail_status checkpoint_locate(const char *directory, char **out, bool *is_index) GRAIL_MUST_CHECK;

/**
 * Whether opening `directory` reads the weights file `name`, because it has a usual name or is the
 * only one. Several other files, or none, are no error.
 */
grail_status checkpoint_is_located(const char *directory, const char *name,
                                   bool *out) GRAIL_MUST_CHECK;

/** Whether opening the path, a directory or a file, reads a GGUF file, whose keys are its
 * configuration, or an ONNX file, whose nodes are. */
grail_status checkpoint_is_gguf(const char *path, bool *out) GRAIL_MUST_CHECK;
grail_status checkpoint_is_onnx(const char *path, bool *out) GRAIL_MUST_CHECK;

/** Whether the name is a usual name of weights in one file, without shards. */
bool checkpoint_is_usual_name(const char *name);

/** Whether the name is a usual name of an index of shards. */
bool checkpoint_is_index_name(const char *name);

/** Whether the ending of the name is that of safetensors files, of torch's, of GGUF or of ONNX
 * files. */
bool checkpoint_is_safetensors_name(const char *name);
bool checkpoint_is_torch_name(const char *name);
bool checkpoint_is_gguf_name(const char *name);
bool checkpoint_is_onnx_name(const char *name);

/* Files that are taken for weights but are something else: other formats, and stand-ins of
 * downloads that did not happen. */

/** Whether the name ends like that of a model in a format that grail does not read (.h5,
 * .tflite ...). */
bool foreign_file_is_name(const char *name);

/** Refuses a file by its first bytes: GRAIL_ERROR_UNSUPPORTED, whose message says what it is and
 * what to give instead. Other files, also those that cannot be read, are GRAIL_OK. */
grail_status foreign_file_refuse(const char *path) GRAIL_MUST_CHECK;

#endif
