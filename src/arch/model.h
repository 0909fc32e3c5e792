/* A model: a graph plus the parameters it names, opened from a checkpoint. */
#ifndef GRAIL_ARCH_MODEL_H
#define GRAIL_ARCH_MODEL_H

#include "arch/architecture.h"
#include "graph/site.h"

#include <grail/model.h>

struct grail_model {
    checkpoint *checkpoint;
    json_t *config;
    const architecture *architecture;
    graph *graph;
    const tensor_view **tensors; /* [parameter_count], borrowed from the checkpoint */
    int64_t context;
};

struct grail_site_list {
    site_list list;
    grail_site_facts *facts;
};

/** Parameter `index` as f32 out[elements]; NaN or infinity is GRAIL_ERROR_NUMERIC naming it. */
grail_status model_parameter_f32(const grail_model *model, int index, float *out) GRAIL_MUST_CHECK;

/** Elements of parameter `index`. */
int64_t model_parameter_elements(const grail_model *model, int index);

#endif
