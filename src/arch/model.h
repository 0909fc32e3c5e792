/* A model: a graph and the parameters that it names, opened from a checkpoint. */
#ifndef GRAIL_ARCH_MODEL_H
#define GRAIL_ARCH_MODEL_H

#include "arch/architecture.h"
#include "base/hash.h"
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
        *tensors; /* [parameter_count], complete tensors, borrowed from the checkpoint */
    grail_dtype written_blocks; /* in which results hold weights that are stored in blocks;
                                   GRAIL_DTYPE_COUNT: not chosen */
    int64_t outside_parameters, outside_bytes; /* of tensors that the graph does not read */
    bool *left_out;                            /* [checkpoint_count]: what results lack, too */
    bool is_text_tower;                        /* of a larger network; results are it alone */
    bool has_foreign_names; /* the class that config.json names has others; results keep them */
    char **notices;         /* [notice_count], owned */
    int notice_count;
    int64_t context;                       /* 0 for images */
    struct model_preparation *preparation; /* arch/model_preparation.h; owned; NULL for text */
    char activation_notice[NOTICE_SIZE];   /* what was assumed; "" for nothing */
};

struct grail_site_list {
    site_list list;
    grail_site_facts *facts;
};

/** Adds a sentence on what was taken of the checkpoint, or was not. */
grail_status model_add_notice(grail_model *model, const char *format, ...)
    GRAIL_PRINTF(2, 3) GRAIL_MUST_CHECK;

/** Whether config.json names a class, which then opens results by the names of its tensors. */
bool model_names_its_class(const grail_model *model);

/** The name that tensor i of the checkpoint has in results: its own, without those of wrappers
 * where a class is named; and where in it comes what
 * checkpoint_own_name has. *out is owned. */
grail_status model_result_name(const grail_model *model, int64_t i, char **out,
                               size_t *begin) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_NUMERIC that names the file, the tensor and the element of it that is NaN or
 * infinite. */
grail_status model_error_non_finite(const grail_model *model, const tensor_view *tensor,
                                    int64_t element) GRAIL_MUST_CHECK;

/** out[elements] <- parameter `index` as f32: only its rows if it is a part, and transposed back if
 * it is stored transposed. NaN or infinity is an error as above. */
grail_status model_parameter_f32(const grail_model *model, int index, float *out) GRAIL_MUST_CHECK;

/** The values of a parameter as they are stored, checked in the same way, where it is its tensor as
 * it is: *out is borrowed from the mapped file, of any alignment, NULL elsewhere.
 * checkpoint_release of its tensor when they were read. */
grail_status model_parameter_stored(const grail_model *model, int index,
                                    const void **out) GRAIL_MUST_CHECK;

/** The dtype in which a result holds a tensor: its own, or the chosen one for one that is stored in
 * blocks (F32 where none was chosen, and nothing can be written). */
grail_dtype model_written_dtype(const grail_model *model, const tensor_view *tensor);

/** GRAIL_ERROR_ARGUMENT where that had to be chosen, and was not. */
grail_status model_check_written(const grail_model *model) GRAIL_MUST_CHECK;

/** The dtype of the first parameter; F32 where the graph has none. */
grail_dtype model_first_dtype(const grail_model *model);

/** The dtype that most elements are stored in. */
grail_dtype model_usual_dtype(const grail_model *model);

/** Elements of parameter `index`. */
int64_t model_parameter_elements(const grail_model *model, int index);

/** grail_model_describe for the same network with other shapes. */
grail_status model_describe_graph(const grail_model *model, const graph *g,
                                  grail_model_facts *out) GRAIL_MUST_CHECK;

/** The images for which costs are counted: those of the network, otherwise of its preset. */
extent model_image_extent(const grail_model *model);
/** Positions of a sample for which they are counted: the same, or 1 of a network that reads tokens.
 */
extent model_usual_positions(const grail_model *model);

#endif
