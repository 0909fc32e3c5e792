/* Networks that read images against the outputs that a reference library computed. */
#ifndef GRAIL_TESTS_VISION_GOLDEN_H
#define GRAIL_TESTS_VISION_GOLDEN_H

#include "support/support.h"
#include "tensor/tensor.h"

#include <grail/model.h>

/** Opens a model with settings "key=value key=value"; "" is none. */
grail_status open_with_settings(const char *path, const char *settings,
                                grail_model **out) GRAIL_MUST_CHECK;

/** Opens `path` with such settings, runs pixels[images, height, width, 3] on every
 * backend, and holds the outputs to logits[images, outputs]; both are F32. */
void assert_vision_outputs(const char *path, const char *settings, const tensor_view *pixels,
                           const tensor_view *logits);

/** The same for "pixels" and "logits" of the safetensors file `golden`. */
void assert_vision_golden(const char *path, const char *settings, const char *golden);

/** The same for tests/golden/vision/<name>/golden.safetensors, and the checkpoint `file` in that
 * directory; "" is the directory itself. */
void assert_vision_directory(const char *name, const char *file, const char *settings);

#endif
