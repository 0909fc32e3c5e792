/* Convolutions and their gradients by oneDNN. */
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_kernel.h"

/* `type` is that of X and the weight; Y and the bias are f32. */
static grail_status describe_convolution(convolution_result result, const conv_shape *s,
                                         dnnl_data_type_t type, bool has_bias, bool accumulate,
                                         bool relu, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    dnnl_primitive_attr_t attributes = NULL;
    layout x = {0};
    layout y = {0};
    layout weight = {0};
    layout bias = {0};
    const window_steps w = window_steps_of(&s->window);
    TRY(layout_of_images(s->samples, s->in, s->channels_in, type, &x));
    TRY(layout_of_images(s->samples, s->out, s->channels_out, dnnl_f32, &y));
    TRY(layout_of_weight(s, type, dnnl_format_tag_any, &weight));
    TRY(layout_of_bias(s, &bias));
    TRY(onednn_attributes_new(accumulate, relu, &attributes));
    TRY(onednn_checked(
        onednn_choose_convolution(result, layout_view_of(&x), layout_view_of(&weight),
                                  has_bias ? layout_view_of(&bias) : NULL, layout_view_of(&y), &w,
                                  attributes, &o->descriptor),
        "choosing a convolution kernel"));
out:
    dnnl_primitive_attr_destroy(attributes);
    layout_free(&x);
    layout_free(&y);
    layout_free(&weight);
    layout_free(&bias);
    return status;
}

/* The weight in the order that the convolution's kernel wants: *out is borrowed from `weight`, or
 * lies in *owned, which the caller frees. */
static grail_status order_weight(const conv_shape *s, dnnl_data_type_t type,
                                 const kernel_call *convolution, const void *weight, void **owned,
                                 void **out)
{
    grail_status status = GRAIL_OK;
    layout given = {0};
    const layout_view wanted = kernel_call_layout(convolution, dnnl_query_weights_md);
    *out = onednn_readable(weight);
    TRY(layout_of_weight(s, type, dnnl_oihw, &given));
    if (dnnl_memory_desc_equal(wanted, layout_view_of(&given)) == 0) {
        TRY(memory_new_unset(owned, dnnl_memory_desc_get_size(wanted), 1));
        TRY(onednn_reorder(layout_view_of(&given), weight, wanted, false, *owned));
        *out = *owned;
    }
out:
    layout_free(&given);
    return status;
}

static grail_status add_bias(const conv_shape *s, const float *bias, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    layout l = {0};
    if (bias != NULL) {
        TRY(layout_of_bias(s, &l));
        TRY(kernel_call_add(o, DNNL_ARG_BIAS, layout_view_of(&l), bias));
    }
out:
    layout_free(&l);
    return status;
}

static grail_status convolve(const conv_shape *shape, dnnl_data_type_t type, const void *x,
                             const void *weight, const float *bias, bool accumulate, bool relu,
                             float *y)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    void *ordered = NULL;
    void *own_weight = NULL;
    TRY(describe_convolution(CONVOLUTION_OUTPUT, shape, type, bias != NULL, accumulate, relu, &o));
    TRY(order_weight(shape, type, &o, weight, &own_weight, &ordered));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_SRC, dnnl_query_src_md, x));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, ordered));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_DST, dnnl_query_dst_md, y));
    TRY(add_bias(shape, bias, &o));
    TRY(kernel_call_run(&o));
out:
    kernel_call_fini(&o);
    memory_free(own_weight);
    return status;
}

grail_status onednn_convolve(const conv_shape *shape, const float *x, const float *weight,
                             const float *bias, bool accumulate, bool relu, float *y)
{
    return convolve(shape, dnnl_f32, x, weight, bias, accumulate, relu, y);
}

grail_status onednn_convolve_bf16(const conv_shape *shape, const void *x, const void *weight,
                                  const float *bias, bool accumulate, bool relu, float *y)
{
    return convolve(shape, dnnl_bf16, x, weight, bias, accumulate, relu, y);
}

grail_status onednn_input_gradient(const conv_shape *shape, const float *weight, const float *dy,
                                   float *dx)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    void *ordered = NULL;
    void *own_weight = NULL;
    TRY(describe_convolution(CONVOLUTION_INPUT_GRADIENT, shape, dnnl_f32, false, false, false, &o));
    TRY(order_weight(shape, dnnl_f32, &o, weight, &own_weight, &ordered));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, dy));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, ordered));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, dx));
    TRY(kernel_call_run(&o));
out:
    kernel_call_fini(&o);
    memory_free(own_weight);
    return status;
}

/* oneDNN overwrites a gradient, in an order of its own. */
grail_status onednn_add_weight_gradient(const conv_shape *shape, const float *x, const float *dy,
                                        float *dweight)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    layout wanted = {0};
    float *made = NULL;
    TRY(describe_convolution(CONVOLUTION_WEIGHT_GRADIENT, shape, dnnl_f32, false, false, false,
                             &o));
    const layout_view of_made = kernel_call_layout(&o, dnnl_query_diff_weights_md);
    TRY(memory_new_unset(&made, dnnl_memory_desc_get_size(of_made), 1));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_SRC, dnnl_query_src_md, x));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, dy));
    TRY(kernel_call_add(&o, DNNL_ARG_DIFF_WEIGHTS, of_made, made));
    TRY(kernel_call_run(&o));
    TRY(layout_of_weight(shape, dnnl_f32, dnnl_oihw, &wanted));
    TRY(onednn_reorder(of_made, made, layout_view_of(&wanted), true, dweight));
out:
    kernel_call_fini(&o);
    layout_free(&wanted);
    memory_free(made);
    return status;
}
