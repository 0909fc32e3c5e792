/* Files that are taken for weights but are something else: other formats, and stand-ins of
 * downloads that did not happen. */
#ifndef GRAIL_FORMAT_WEIGHTS_FOREIGN_FILE_H
#define GRAIL_FORMAT_WEIGHTS_FOREIGN_FILE_H

#include "base/status.h"

#include <stdbool.h>

/** Whether the name ends like that of a model in a format that grail does not read (.gguf, .onnx
 * ...). */
bool foreign_file_is_name(const char *name);

/** Refuses a file by its first bytes: GRAIL_ERROR_UNSUPPORTED, whose message says what it is and
 * what to give instead. Other files, also those that cannot be read, are GRAIL_OK. */
grail_status foreign_file_refuse(const char *path) GRAIL_MUST_CHECK;

#endif
