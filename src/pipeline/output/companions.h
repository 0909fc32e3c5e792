/* What lies beside the narrow weights: config.json or grail.json, tokenizer and generation files,
 * plan.json. */
#ifndef GRAIL_PIPELINE_OUTPUT_COMPANIONS_H
#define GRAIL_PIPELINE_OUTPUT_COMPANIONS_H

#include "pipeline/request/request.h"

grail_status companions_write(const compression_request *request,
                              const char *directory) GRAIL_MUST_CHECK;
grail_status companion_write_json(const char *directory, const char *name,
                                  const json_t *value) GRAIL_MUST_CHECK;

#endif
