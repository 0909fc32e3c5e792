/* README.md beside a result: a model card in the form of Hugging Face, for people. */
#ifndef GRAIL_PIPELINE_OUTPUT_MODEL_CARD_H
#define GRAIL_PIPELINE_OUTPUT_MODEL_CARD_H

#include "arch/model.h"
#include "base/buffer.h"

#define CARD_NAME "README.md"

/**
 * Appends the card to `out`: YAML front matter, what was cut and how it was repaired, the measured
 * errors, sizes, and who opens the result. All but three things come from the report, and
 * neither times nor anything else that differs between two runs that write the same weights:
 * `command` is the command line, NULL where there is none, `base` the dense network, and `sections`
 * the Markdown of further sections.
 */
grail_status model_card_append(const json_t *report, const grail_model *base, const char *command,
                               const buffer *sections, buffer *out) GRAIL_MUST_CHECK;

#endif
