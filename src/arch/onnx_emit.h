/* Parts of a translation to ONNX: names, single operators, parameters and layouts of values. */
#ifndef GRAIL_ARCH_ONNX_EMIT_H
#define GRAIL_ARCH_ONNX_EMIT_H

#include "arch/onnx_graph.h"

/* The layout of a value in ONNX: images [N, C, H, W], tokens [N, positions, C], vectors [N, C]. */
typedef enum layout { LAYOUT_IMAGE, LAYOUT_TOKENS, LAYOUT_VECTOR } layout;

/* A name that grail makes; no checkpoint contains one. */
typedef struct onnx_name {
    char text[40];
} onnx_name;

typedef struct translated {
    onnx_name name;
    layout layout;
} translated;

typedef struct translation {
    const grail_model *model;
    const graph *g;
    onnx_writer *w;
    const int64_t *widths;
    const extent *extents;
    onnx_tensors *tensors;
    translated *values; /* [value_count] */
    int names;          /* number of names made so far */
} translation;

/** out = operator(inputs); every out is a new name. */
grail_status onnx_emit_with(translation *t, const char *operator_name, int input_count,
                            const char *const inputs[], int attribute_count,
                            const onnx_attribute attributes[], onnx_name *out) GRAIL_MUST_CHECK;
grail_status onnx_emit_one(translation *t, const char *operator_name, onnx_name x,
                           onnx_name *out) GRAIL_MUST_CHECK;
grail_status onnx_emit_two(translation *t, const char *operator_name, onnx_name a, onnx_name b,
                           onnx_name *out) GRAIL_MUST_CHECK;
/** The right operand is a scalar. */
grail_status onnx_emit_real(translation *t, const char *operator_name, onnx_name x, double value,
                            onnx_name *out) GRAIL_MUST_CHECK;
grail_status onnx_emit_reshape(translation *t, onnx_name x, int rank, const int64_t shape[],
                               onnx_name *out) GRAIL_MUST_CHECK;
grail_status onnx_emit_transpose(translation *t, onnx_name x, int rank, const int64_t order[],
                                 onnx_name *out) GRAIL_MUST_CHECK;
/** A constant vector, or a scalar for count -1. */
grail_status onnx_integers(translation *t, int count, const int64_t values[],
                           onnx_name *out) GRAIL_MUST_CHECK;

/** A parameter as an input: the name of its tensor, or of the rows cut out of it. `text` may point
 * into the struct, so the struct must not be copied. */
typedef struct parameter_name {
    const char *text;
    onnx_name cut;
} parameter_name;

grail_status onnx_parameter(translation *t, int parameter, parameter_name *out) GRAIL_MUST_CHECK;
/** The same; without a parameter, a constant of `width` elements `value`. */
grail_status onnx_channels(translation *t, int parameter, int64_t width, double value,
                           parameter_name *out) GRAIL_MUST_CHECK;

/** Input `i` of a node; images become tokens where `tokens` is set. */
grail_status onnx_value(translation *t, const node *n, int i, bool tokens,
                        translated *out) GRAIL_MUST_CHECK;
/** The first input, which must be images, or vectors, which become images of one pixel; otherwise
 * the message says that `what` cannot be translated. */
grail_status onnx_image(translation *t, const node *n, const char *what,
                        translated *out) GRAIL_MUST_CHECK;

/** GRAIL_ERROR_UNSUPPORTED: cannot translate `what`. */
grail_status onnx_refuse(const char *what);

#endif
