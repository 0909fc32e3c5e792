/* The only file that includes oneDNN, 2.x or 3.x. The library keeps generated kernels in a cache of
 * its own behind a lock, so that a call here describes what it wants and gets the kernel of an
 * earlier call of that shape. Scratch memory is ours and made per call: calls from several threads
 * share nothing else. */
#include "backend/cpu/onednn.h"

#include <oneapi/dnnl/dnnl.h>

#include <pthread.h>
#include <stdio.h>

enum { DIMENSIONS = 4, MOST_ARGUMENTS = 5 };

static pthread_once_t started = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine; /* this and the version are not written after start */
static char version_text[32];

/* A window in oneDNN's terms: its dilation counts the rows left out between two taps. */
typedef struct steps {
    dnnl_dims_t kernel, stride, dilation, padding;
} steps;

static steps steps_of(const window2d *w)
{
    return (steps){.kernel = {w->kernel_height, w->kernel_width},
                   .stride = {w->stride, w->stride},
                   .dilation = {w->dilation - 1, w->dilation - 1},
                   .padding = {w->padding, w->padding}};
}

/* -- what differs between 2.x and 3.x ---------------------------------------------------------- */

/* A layout is a value in 2.x and a handle in 3.x; layout_view is how both are passed on. A zeroed
 * one is empty. */
typedef dnnl_memory_desc_t layout;

#if DNNL_VERSION_MAJOR < 3

typedef const dnnl_memory_desc_t *layout_view;

static layout_view view(const layout *l)
{
    return l;
}

static dnnl_status_t layout_init(layout *l, int rank, const dnnl_dims_t dims,
                                 dnnl_format_tag_t order)
{
    return dnnl_memory_desc_init_by_tag(l, rank, dims, dnnl_f32, order);
}

static void layout_fini(layout *l)
{
    (void)l;
}

static dnnl_status_t append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1.0F);
}

static dnnl_status_t append_relu(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_eltwise(after, 1.0F, dnnl_eltwise_relu, 0.0F, 0.0F);
}

static dnnl_status_t choose_convolution(layout_view x, layout_view weight, layout_view bias,
                                        layout_view y, const steps *w,
                                        dnnl_primitive_attr_t attributes,
                                        dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t described;
    const dnnl_status_t code = dnnl_dilated_convolution_forward_desc_init(
        &described, dnnl_forward_inference, dnnl_convolution_direct, x, weight, bias, y, w->stride,
        w->dilation, w->padding, w->padding);
    return code != dnnl_success
               ? code
               : dnnl_primitive_desc_create(out, &described, attributes, engine, NULL);
}

static dnnl_status_t choose_maximum(layout_view x, layout_view y, const steps *w,
                                    dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    dnnl_pooling_v2_desc_t described;
    const dnnl_status_t code = dnnl_pooling_v2_forward_desc_init(
        &described, dnnl_forward_inference, dnnl_pooling_max, x, y, w->stride, w->kernel,
        w->dilation, w->padding, w->padding);
    return code != dnnl_success
               ? code
               : dnnl_primitive_desc_create(out, &described, attributes, engine, NULL);
}

#else

typedef const_dnnl_memory_desc_t layout_view;

static layout_view view(const layout *l)
{
    return *l;
}

static dnnl_status_t layout_init(layout *l, int rank, const dnnl_dims_t dims,
                                 dnnl_format_tag_t order)
{
    return dnnl_memory_desc_create_with_tag(l, rank, dims, dnnl_f32, order);
}

static void layout_fini(layout *l)
{
    dnnl_memory_desc_destroy(*l);
}

static dnnl_status_t append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1.0F, 0, dnnl_data_type_undef);
}

static dnnl_status_t append_relu(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_eltwise(after, dnnl_eltwise_relu, 0.0F, 0.0F);
}

static dnnl_status_t choose_convolution(layout_view x, layout_view weight, layout_view bias,
                                        layout_view y, const steps *w,
                                        dnnl_primitive_attr_t attributes,
                                        dnnl_primitive_desc_t *out)
{
    return dnnl_convolution_forward_primitive_desc_create(
        out, engine, dnnl_forward_inference, dnnl_convolution_direct, x, weight, bias, y, w->stride,
        w->dilation, w->padding, w->padding, attributes);
}

static dnnl_status_t choose_maximum(layout_view x, layout_view y, const steps *w,
                                    dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    return dnnl_pooling_forward_primitive_desc_create(
        out, engine, dnnl_forward_inference, dnnl_pooling_max, x, y, w->stride, w->kernel,
        w->dilation, w->padding, w->padding, attributes);
}

#endif

/* -- kernels ----------------------------------------------------------------------------------- */

static void start(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(version_text, sizeof version_text, "%d.%d.%d", v->major, v->minor, v->patch);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) {
        engine = NULL;
    }
}

/* Turns oneDNN's codes into ours; `step` says what oneDNN was doing. */
static grail_status checked(dnnl_status_t code, const char *step)
{
    if (code == dnnl_success) {
        return GRAIL_OK;
    }
    if (code == dnnl_out_of_memory) {
        return error_set(GRAIL_ERROR_MEMORY, "oneDNN ran out of memory while %s", step);
    }
    return error_set(GRAIL_ERROR_INTERNAL, "oneDNN failed with status %d while %s", (int)code,
                     step);
}

const char *onednn_version(void)
{
    pthread_once(&started, start);
    return version_text;
}

/* A kernel with its operands and scratch memory. A zeroed one is empty. */
typedef struct operation {
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t kernel;
    dnnl_exec_arg_t arguments[MOST_ARGUMENTS];
    int argument_count;
    void *scratch;
} operation;

static void operation_fini(operation *o)
{
    for (int i = 0; i < o->argument_count; i++) {
        dnnl_memory_destroy(o->arguments[i].memory);
    }
    dnnl_primitive_destroy(o->kernel);
    dnnl_primitive_desc_destroy(o->descriptor);
    memory_free(o->scratch);
}

/* oneDNN takes its read-only operands without const. */
static void *readable(const void *p)
{
    return (void *)(uintptr_t)p;
}

static grail_status add_argument(operation *o, int role, layout_view of, void *data)
{
    dnnl_exec_arg_t *argument = &o->arguments[o->argument_count];
    const grail_status status =
        checked(dnnl_memory_create(&argument->memory, of, engine, data), "wrapping a buffer");
    if (status == GRAIL_OK) {
        argument->arg = role;
        o->argument_count++;
    }
    return status;
}

/* The layout that the kernel wants for one of its operands. */
static layout_view wanted_layout(const operation *o, dnnl_query_t operand)
{
    return dnnl_primitive_desc_query_md(o->descriptor, operand, 0);
}

static grail_status add_scratch(operation *o)
{
    grail_status status = GRAIL_OK;
    const layout_view wanted = wanted_layout(o, dnnl_query_scratchpad_md);
    const size_t bytes = dnnl_memory_desc_get_size(wanted);
    if (bytes > 0) {
        TRY(memory_new_unset(&o->scratch, bytes, 1));
        TRY(add_argument(o, DNNL_ARG_SCRATCHPAD, wanted, o->scratch));
    }
out:
    return status;
}

/* oneDNN 2.6 calls a kernel even when it lacked the memory to generate it. */
static grail_status check_room(void)
{
    return memory_has_room(0) ? GRAIL_OK
                              : error_set(GRAIL_ERROR_MEMORY,
                                          "out of memory: oneDNN has no room to generate a kernel");
}

static grail_status run(operation *o)
{
    grail_status status = GRAIL_OK;
    dnnl_stream_t stream = NULL;
    TRY(add_scratch(o));
    TRY(check_room());
    TRY(checked(dnnl_primitive_create(&o->kernel, o->descriptor), "generating a kernel"));
    TRY(checked(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags),
                "creating an execution stream"));
    TRY(checked(dnnl_primitive_execute(o->kernel, stream, o->argument_count, o->arguments),
                "running a kernel"));
    TRY(checked(dnnl_stream_wait(stream), "waiting for a kernel"));
out:
    dnnl_stream_destroy(stream);
    return status;
}

/* *out says that the caller owns the scratch memory, and which operations follow in the same
 * pass. */
static grail_status attributes_new(bool accumulate, bool relu, dnnl_primitive_attr_t *out)
{
    grail_status status = GRAIL_OK;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t after = NULL;
    TRY(checked(dnnl_primitive_attr_create(&attributes), "creating attributes"));
    TRY(checked(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user),
                "choosing the scratch memory"));
    TRY(checked(dnnl_post_ops_create(&after), "creating post-operations"));
    if (accumulate) {
        TRY(checked(append_sum(after), "adding a sum"));
    }
    if (relu) {
        TRY(checked(append_relu(after), "adding an activation"));
    }
    TRY(checked(dnnl_primitive_attr_set_post_ops(attributes, after), "setting post-operations"));
    *out = attributes;
    attributes = NULL;
out:
    dnnl_post_ops_destroy(after);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* -- layouts ----------------------------------------------------------------------------------- */

static grail_status layout_of(const dnnl_dims_t dims, int rank, dnnl_format_tag_t order,
                              layout *out)
{
    return checked(layout_init(out, rank, dims, order), "describing a layout");
}

static grail_status image_layout(int64_t samples, extent positions, int64_t channels, layout *out)
{
    const dnnl_dims_t dims = {samples, channels, positions.height, positions.width};
    return layout_of(dims, DIMENSIONS, dnnl_nhwc, out);
}

static grail_status weight_layout(const conv_shape *s, dnnl_format_tag_t order, layout *out)
{
    const dnnl_dims_t dims = {s->channels_out, s->channels_in, s->window.kernel_height,
                              s->window.kernel_width};
    return layout_of(dims, DIMENSIONS, order, out);
}

static grail_status bias_layout(const conv_shape *s, layout *out)
{
    const dnnl_dims_t dims = {s->channels_out};
    return layout_of(dims, 1, dnnl_a, out);
}

/* -- convolution ------------------------------------------------------------------------------- */

static grail_status describe_convolution(const conv_shape *s, bool has_bias,
                                         dnnl_primitive_attr_t attributes, operation *o)
{
    grail_status status = GRAIL_OK;
    layout x = {0};
    layout y = {0};
    layout weight = {0};
    layout bias = {0};
    const steps w = steps_of(&s->window);
    TRY(image_layout(s->samples, s->in, s->channels_in, &x));
    TRY(image_layout(s->samples, s->out, s->channels_out, &y));
    TRY(weight_layout(s, dnnl_format_tag_any, &weight));
    TRY(bias_layout(s, &bias));
    TRY(checked(choose_convolution(view(&x), view(&weight), has_bias ? view(&bias) : NULL, view(&y),
                                   &w, attributes, &o->descriptor),
                "choosing a convolution kernel"));
out:
    layout_fini(&x);
    layout_fini(&y);
    layout_fini(&weight);
    layout_fini(&bias);
    return status;
}

/* The weight in the order that the convolution's kernel wants: *out is borrowed from `weight`, or
 * lies in *owned, which the caller frees. */
static grail_status order_weight(const conv_shape *s, const operation *convolution,
                                 const float *weight, void **owned, void **out)
{
    grail_status status = GRAIL_OK;
    operation o = {0};
    dnnl_primitive_attr_t attributes = NULL;
    layout given = {0};
    const layout_view wanted = wanted_layout(convolution, dnnl_query_weights_md);
    *out = readable(weight);
    TRY(weight_layout(s, dnnl_oihw, &given));
    if (dnnl_memory_desc_equal(wanted, view(&given)) != 0) {
        goto out;
    }
    TRY(memory_new_unset(owned, dnnl_memory_desc_get_size(wanted), 1));
    TRY(attributes_new(false, false, &attributes));
    TRY(checked(dnnl_reorder_primitive_desc_create(&o.descriptor, view(&given), engine, wanted,
                                                   engine, attributes),
                "reordering a weight"));
    TRY(add_argument(&o, DNNL_ARG_FROM, view(&given), readable(weight)));
    TRY(add_argument(&o, DNNL_ARG_TO, wanted, *owned));
    TRY(run(&o));
    *out = *owned;
out:
    operation_fini(&o);
    dnnl_primitive_attr_destroy(attributes);
    layout_fini(&given);
    return status;
}

static grail_status add_bias(const conv_shape *s, const float *bias, operation *o)
{
    grail_status status = GRAIL_OK;
    layout l = {0};
    if (bias != NULL) {
        TRY(bias_layout(s, &l));
        TRY(add_argument(o, DNNL_ARG_BIAS, view(&l), readable(bias)));
    }
out:
    layout_fini(&l);
    return status;
}

grail_status onednn_convolve(const conv_shape *shape, const float *x, const float *weight,
                             const float *bias, bool accumulate, bool relu, float *y)
{
    grail_status status = GRAIL_OK;
    operation o = {0};
    dnnl_primitive_attr_t attributes = NULL;
    void *ordered = NULL;
    void *own_weight = NULL;
    pthread_once(&started, start);
    TRY(attributes_new(accumulate, relu, &attributes));
    TRY(describe_convolution(shape, bias != NULL, attributes, &o));
    TRY(order_weight(shape, &o, weight, &own_weight, &ordered));
    TRY(add_argument(&o, DNNL_ARG_SRC, wanted_layout(&o, dnnl_query_src_md), readable(x)));
    TRY(add_argument(&o, DNNL_ARG_WEIGHTS, wanted_layout(&o, dnnl_query_weights_md), ordered));
    TRY(add_argument(&o, DNNL_ARG_DST, wanted_layout(&o, dnnl_query_dst_md), y));
    TRY(add_bias(shape, bias, &o));
    TRY(run(&o));
out:
    operation_fini(&o);
    dnnl_primitive_attr_destroy(attributes);
    memory_free(own_weight);
    return status;
}

/* -- pooling ----------------------------------------------------------------------------------- */

grail_status onednn_maximum(const conv_shape *shape, const float *x, float *y)
{
    grail_status status = GRAIL_OK;
    operation o = {0};
    dnnl_primitive_attr_t attributes = NULL;
    layout from = {0};
    layout to = {0};
    const steps w = steps_of(&shape->window);
    pthread_once(&started, start);
    TRY(image_layout(shape->samples, shape->in, shape->channels_in, &from));
    TRY(image_layout(shape->samples, shape->out, shape->channels_out, &to));
    TRY(attributes_new(false, false, &attributes));
    TRY(checked(choose_maximum(view(&from), view(&to), &w, attributes, &o.descriptor),
                "choosing a pooling kernel"));
    TRY(add_argument(&o, DNNL_ARG_SRC, view(&from), readable(x)));
    TRY(add_argument(&o, DNNL_ARG_DST, view(&to), y));
    TRY(run(&o));
out:
    operation_fini(&o);
    dnnl_primitive_attr_destroy(attributes);
    layout_fini(&from);
    layout_fini(&to);
    return status;
}
