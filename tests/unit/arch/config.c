#include "config.h"

#include <stdio.h>
#include <string.h>

json_t *small_config(const char *type, const char *changes)
{
    char text[2048];
    json_t *config = NULL;
    json_t *own = NULL;
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"hidden_size\": 16, \"intermediate_size\": 24,"
             " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
             " \"vocab_size\": 10}",
             type);
    assert_ok(json_parse("config.json", text, strlen(text), &config));
    if (changes != NULL) {
        snprintf(text, sizeof text, "{%s}", changes);
        assert_ok(json_parse("changes", text, strlen(text), &own));
        assert_int_equal(json_object_update(config, own), 0);
        json_decref(own);
    }
    return config;
}

grail_status build_config(const json_t *config, graph **out)
{
    const architecture *a = NULL;
    const grail_status status = architecture_find("config.json", config, &a);
    return status == GRAIL_OK ? a->build(a, "config.json", config, NULL, out) : status;
}

grail_status try_config(const char *type, const char *changes)
{
    OWNED(graph) *g = NULL;
    OWNED(json_t) *config = small_config(type, changes);
    const grail_status status = build_config(config, &g);
    assert_true((status == GRAIL_OK) == (g != NULL));
    return status;
}

graph *built(const char *type, const char *changes)
{
    graph *g = NULL;
    OWNED(json_t) *config = small_config(type, changes);
    assert_ok(build_config(config, &g));
    return g;
}

const int64_t *shape_of(const graph *g, const char *name)
{
    const int index = graph_find_parameter(g, name);
    if (index == GRAPH_NONE) {
        fail_msg("there is no parameter '%s'", name);
    }
    return g->parameters[index].shape;
}

const node *find_node(const graph *g, node_kind kind, int block)
{
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].kind == kind && g->nodes[n].block == block) {
            return &g->nodes[n];
        }
    }
    fail_msg("block %d has no such node", block);
    return NULL;
}
