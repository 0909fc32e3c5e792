/* A small decoder of two blocks, whose sites plans and recorded states are read against. */
#ifndef GRAIL_FUZZ_NETWORK_H
#define GRAIL_FUZZ_NETWORK_H

#include "fuzz.h"

#include "arch/architecture.h"

static const char fuzz_network_config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 24,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"num_key_value_heads\": 3,"
    " \"head_dim\": 4, \"vocab_size\": 10, \"attention_bias\": true}";

static inline graph *fuzz_network(void)
{
    json_t *config = NULL;
    const architecture *a = NULL;
    graph *g = NULL;
    fuzz_require(json_parse("config", fuzz_network_config, sizeof fuzz_network_config - 1,
                            &config) == GRAIL_OK &&
                 architecture_find("config", config, &a) == GRAIL_OK &&
                 a->build(a, "config", config, NULL, &g) == GRAIL_OK);
    json_decref(config);
    return g;
}

#endif
