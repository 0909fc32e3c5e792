/* What is told of a GGUF file of a model that was written. */
#ifndef GRAIL_CLI_GGUF_FACTS_H
#define GRAIL_CLI_GGUF_FACTS_H

#include <grail/gguf.h>

#include <jansson.h>

/** Takes the reference of `notices`, an array. Returns an exit code. */
int print_gguf_facts(const char *output, const grail_gguf_facts *facts, json_t *notices);

#endif
