/* The functions of torchvision and timm that build residual networks. Source:
 * torchvision.models.resnet and timm.models.resnet. */
#include "arch/resnet.h"

#include <string.h>

enum { STAGES = 4, IMAGENET_KERNEL = 7 };

typedef struct builder {
    int blocks[STAGES], convs;
    const char *name;
    bool in_torchvision;
} builder;

static const builder builders[] = {
    {{2, 2, 2, 2}, 2, "resnet18", true},   {{3, 4, 6, 3}, 2, "resnet34", true},
    {{2, 2, 2, 2}, 3, "resnet26", false},  {{3, 4, 6, 3}, 3, "resnet50", true},
    {{3, 4, 23, 3}, 3, "resnet101", true}, {{3, 8, 36, 3}, 3, "resnet152", true},
};

static bool has_weight(const graph *g, int stage, int block, const char *part)
{
    char name[RESNET_NAME];
    const resnet_naming *n = &resnet_naming_torchvision;
    return part != NULL &&
           graph_find_parameter(g, resnet_block_name(n, stage, block, part, ".weight", name)) !=
               GRAPH_NONE;
}

/* Whether the block has as many convolutions, and a projection where the function builds one: at
 * the begin of every stage, but not of the first one of basic blocks. */
static bool is_built(const graph *g, const builder *b, int stage, int block)
{
    const resnet_naming *n = &resnet_naming_torchvision;
    const bool projects = block == 0 && (stage > 0 || b->convs == RESNET_CONVS);
    return has_weight(g, stage, block, n->conv[1]) &&
           has_weight(g, stage, block, n->conv[2]) == (b->convs == RESNET_CONVS) &&
           has_weight(g, stage, block, n->shortcut_conv) == projects;
}

static bool builds(const graph *g, const builder *b)
{
    const char *first = resnet_naming_torchvision.conv[0];
    bool all = !has_weight(g, STAGES, 0, first);
    for (int stage = 0; stage < STAGES && all; stage++) {
        for (int block = 0; block < b->blocks[stage]; block++) {
            all = all && is_built(g, b, stage, block);
        }
        all = all && !has_weight(g, stage, b->blocks[stage], first);
    }
    return all;
}

static bool has_imagenet_stem(const graph *g)
{
    const int stem = graph_find_parameter(g, "conv1.weight");
    const int head = graph_find_parameter(g, "fc.weight");
    return stem != GRAPH_NONE && head != GRAPH_NONE && g->parameters[stem].rank == 4 &&
           g->parameters[stem].shape[2] == IMAGENET_KERNEL;
}

/* Settings that the functions do not have. */
static bool is_usual(const json_t *config)
{
    const char *activation = json_string_value(json_object_get(config, "hidden_act"));
    return (activation == NULL || strcmp(activation, "relu") == 0) &&
           !json_is_true(json_object_get(config, "downsample_in_first_stage")) &&
           !json_is_true(json_object_get(config, "downsample_in_bottleneck"));
}

const char *resnet_builder(const json_t *config, const graph *g, bool *in_torchvision)
{
    for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++) {
        if (has_imagenet_stem(g) && is_usual(config) && builds(g, &builders[i])) {
            *in_torchvision = builders[i].in_torchvision;
            return builders[i].name;
        }
    }
    return NULL;
}
