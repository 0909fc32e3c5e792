/* Networks that read images against the outputs that a reference library computed. */
#ifndef GRAIL_TESTS_VISION_GOLDEN_H
#define GRAIL_TESTS_VISION_GOLDEN_H

#include "support/support.h"

/** Opens `path` with settings "key=value key=value", runs "pixels" [images, height, width, 3] of
 * the safetensors file `golden` on every backend, and holds the outputs to "logits" there. */
void assert_vision_golden(const char *path, const char *settings, const char *golden);

/** The same for tests/golden/vision/<name>/golden.safetensors, and the checkpoint `file` in that
 * directory; "" is the directory itself. */
void assert_vision_directory(const char *name, const char *file, const char *settings);

#endif
