/* A model: a graph plus the parameters it names, opened from a checkpoint. */
#ifndef GRAIL_ARCH_MODEL_H
#define GRAIL_ARCH_MODEL_H

#include "arch/architecture.h"
#include "graph/site.h"

#include <grail/model.h>

struct grail_model {
    char *path; /* what was opened: a directory or a weights file */
    checkpoint *checkpoint;
    json_t *config;
    const char *config_name; /* name of the configuration file, static; NULL when recognised from
                                the tensors */
    const architecture *architecture;
    graph *graph;
    const tensor_view *
        *tensors;    /* [parameter_count], uncut tensors, borrowed from the checkpoint */
    int64_t context; /* 0 for images */
};

struct grail_site_list {
    site_list list;
    grail_site_facts *facts;
};

/** Parameter `index` as f32 out[elements], with a part cut out and a transposed matrix transposed
 * back; NaN or infinity is GRAIL_ERROR_NUMERIC naming it. */
grail_status model_parameter_f32(const grail_model *model, int index, float *out) GRAIL_MUST_CHECK;

/** Elements of parameter `index`. */
int64_t model_parameter_elements(const grail_model *model, int index);

/** grail_model_describe for the same network with other shapes. */
grail_status model_describe_graph(const grail_model *model, const graph *g,
                                  grail_model_facts *out) GRAIL_MUST_CHECK;

/** The image side for which costs are counted: that of the network, else that of its preset. */
int64_t model_image_side(const grail_model *model);

#endif
