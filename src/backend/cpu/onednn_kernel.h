/* Descriptions and kernels of oneDNN, 2.x or 3.x, for the files onednn_*.c. The only file that
 * includes oneDNN. */
#ifndef GRAIL_BACKEND_CPU_ONEDNN_KERNEL_H
#define GRAIL_BACKEND_CPU_ONEDNN_KERNEL_H

#include "backend/operations.h"

#include <oneapi/dnnl/dnnl.h>

/* -- the library (onednn_engine.c) ---------------------------------------------------------------
 */

/** Turns oneDNN's codes into ours; `step` says what oneDNN was doing. */
grail_status onednn_checked(dnnl_status_t code, const char *step) GRAIL_MUST_CHECK;
/** The processor, which all kernels share; starts the library. */
dnnl_engine_t onednn_engine(void);
/** oneDNN takes its read-only operands without const. */
void *onednn_readable(const void *p);

/* -- what differs between 2.x and 3.x (onednn_version.c) ----------------------------------------
 */

/** A layout is a value in 2.x and a handle in 3.x; layout_view is how both are passed on. A zeroed
 * one is empty. */
typedef dnnl_memory_desc_t layout;

#if DNNL_VERSION_MAJOR < 3
typedef const dnnl_memory_desc_t *layout_view;
#else
typedef const_dnnl_memory_desc_t layout_view;
#endif

layout_view layout_view_of(const layout *l);
dnnl_status_t layout_new(layout *l, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                         dnnl_format_tag_t order);
dnnl_status_t layout_copy(layout *l, layout_view of);
void layout_free(layout *l);

/** A window in oneDNN's terms: its dilation counts the rows left out between two taps. */
typedef struct window_steps {
    dnnl_dims_t kernel, stride, dilation, padding;
} window_steps;

dnnl_status_t onednn_append_sum(dnnl_post_ops_t after);
dnnl_status_t onednn_append_relu(dnnl_post_ops_t after);
/** What a convolution's kernel makes: Y, or the gradient of X or of the weight. */
typedef enum convolution_result {
    CONVOLUTION_OUTPUT,
    CONVOLUTION_INPUT_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT
} convolution_result;

/** A gradient has the layout of what it is the gradient of. The bias, of an output alone, may be
 * NULL. */
dnnl_status_t onednn_choose_convolution(convolution_result result, layout_view x,
                                        layout_view weight, layout_view bias, layout_view y,
                                        const window_steps *w, dnnl_primitive_attr_t attributes,
                                        dnnl_primitive_desc_t *out);
dnnl_status_t onednn_choose_maximum(layout_view x, layout_view y, const window_steps *w,
                                    dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out);

/** Chooses the kernel of Y = X W + 1 bias, all with two dimensions; the bias may be NULL. */
dnnl_status_t onednn_choose_product(layout_view x, layout_view weight, layout_view bias,
                                    layout_view y, dnnl_primitive_attr_t attributes,
                                    dnnl_primitive_desc_t *out);

/* -- layouts (onednn_kernel.c): layout_free ----------------------------------------------------
 */

grail_status layout_of_images(int64_t samples, extent positions, int64_t channels,
                              dnnl_data_type_t type, layout *out) GRAIL_MUST_CHECK;
grail_status layout_of_weight(const conv_shape *s, dnnl_data_type_t type, dnnl_format_tag_t order,
                              layout *out) GRAIL_MUST_CHECK;
grail_status layout_of_bias(const conv_shape *s, layout *out) GRAIL_MUST_CHECK;
window_steps window_steps_of(const window2d *w);

/* -- kernels (onednn_kernel.c) ------------------------------------------------------------------
 */

/** *out says that the caller owns the scratch memory, and which operations follow in the same pass.
 * It is owned, even after a failure: dnnl_primitive_attr_destroy. */
grail_status onednn_attributes_new(bool accumulate, bool relu,
                                   dnnl_primitive_attr_t *out) GRAIL_MUST_CHECK;

enum { MOST_ARGUMENTS = 5 };

/** A kernel with its operands and scratch memory. A zeroed one is empty. */
typedef struct kernel_call {
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t kernel;
    dnnl_stream_t stream;
    dnnl_exec_arg_t arguments[MOST_ARGUMENTS];
    int argument_count;
    void *scratch;
} kernel_call;

/** The layout that the kernel wants for one of its operands. */
layout_view kernel_call_layout(const kernel_call *o, dnnl_query_t operand);
grail_status kernel_call_add(kernel_call *o, int role, layout_view of,
                             const void *data) GRAIL_MUST_CHECK;
/** An operand that lies as the kernel wants it. */
grail_status kernel_call_add_wanted(kernel_call *o, int role, dnnl_query_t operand,
                                    const void *data) GRAIL_MUST_CHECK;
/** Generates the kernel and runs it, once. */
grail_status kernel_call_run(kernel_call *o) GRAIL_MUST_CHECK;
/** The same in two steps, the second any number of times. */
grail_status kernel_call_prepare(kernel_call *o) GRAIL_MUST_CHECK;
dnnl_status_t kernel_call_execute(const kernel_call *o);
void kernel_call_fini(kernel_call *o);

/* -- products Y = X W^T of bf16 with f32 sums (onednn_product.c) --------------------------------
 */

/** The layout of W[out, in], which the library sees as W^T[in, out]; layout_free. */
grail_status layout_of_right_factor(int64_t out, int64_t in, dnnl_format_tag_t order,
                                    layout *made) GRAIL_MUST_CHECK;
/** The order of W that the library wants for products of so many rows; layout_free. */
grail_status layout_of_ordered_factor(int64_t rows, int64_t out, int64_t in,
                                      layout *made) GRAIL_MUST_CHECK;
/** Describes a kernel, whose operands the caller adds. */
grail_status kernel_call_product(int64_t rows, int64_t in, int64_t out, bool has_bias,
                                 bool accumulate, layout_view weight,
                                 kernel_call *o) GRAIL_MUST_CHECK;

/* -- other orders (onednn_kernel.c) --------------------------------------------------------------
 */

/** Moves a weight or its gradient from one layout to the other; with `accumulate` it is added to
 * what lies there. */
grail_status onednn_reorder(layout_view from, const void *in, layout_view to, bool accumulate,
                            void *out) GRAIL_MUST_CHECK;
/** The same for kernel_call_execute; *o was zeroed and is kernel_call_fini's also on failure. */
grail_status onednn_reorder_prepare(layout_view from, const void *in, layout_view to,
                                    bool accumulate, void *out, kernel_call *o) GRAIL_MUST_CHECK;

#endif
