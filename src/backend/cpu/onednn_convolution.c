/* Convolutions by oneDNN. */
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_kernel.h"

static grail_status describe_convolution(const conv_shape *s, bool has_bias,
                                         dnnl_primitive_attr_t attributes, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    layout x = {0};
    layout y = {0};
    layout weight = {0};
    layout bias = {0};
    const window_steps w = window_steps_of(&s->window);
    TRY(layout_of_images(s->samples, s->in, s->channels_in, &x));
    TRY(layout_of_images(s->samples, s->out, s->channels_out, &y));
    TRY(layout_of_weight(s, dnnl_format_tag_any, &weight));
    TRY(layout_of_bias(s, &bias));
    TRY(onednn_checked(onednn_choose_convolution(layout_view_of(&x), layout_view_of(&weight),
                                                 has_bias ? layout_view_of(&bias) : NULL,
                                                 layout_view_of(&y), &w, attributes,
                                                 &o->descriptor),
                       "choosing a convolution kernel"));
out:
    layout_free(&x);
    layout_free(&y);
    layout_free(&weight);
    layout_free(&bias);
    return status;
}

/* The weight in the order that the convolution's kernel wants: *out is borrowed from `weight`, or
 * lies in *owned, which the caller frees. */
static grail_status order_weight(const conv_shape *s, const kernel_call *convolution,
                                 const float *weight, void **owned, void **out)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    dnnl_primitive_attr_t attributes = NULL;
    layout given = {0};
    const layout_view wanted = kernel_call_layout(convolution, dnnl_query_weights_md);
    *out = onednn_readable(weight);
    TRY(layout_of_weight(s, dnnl_oihw, &given));
    if (dnnl_memory_desc_equal(wanted, layout_view_of(&given)) != 0) {
        goto out;
    }
    TRY(memory_new_unset(owned, dnnl_memory_desc_get_size(wanted), 1));
    TRY(onednn_attributes_new(false, false, &attributes));
    TRY(onednn_checked(dnnl_reorder_primitive_desc_create(&o.descriptor, layout_view_of(&given),
                                                          onednn_engine(), wanted, onednn_engine(),
                                                          attributes),
                       "reordering a weight"));
    TRY(kernel_call_add(&o, DNNL_ARG_FROM, layout_view_of(&given), onednn_readable(weight)));
    TRY(kernel_call_add(&o, DNNL_ARG_TO, wanted, *owned));
    TRY(kernel_call_run(&o));
    *out = *owned;
out:
    kernel_call_fini(&o);
    dnnl_primitive_attr_destroy(attributes);
    layout_free(&given);
    return status;
}

static grail_status add_bias(const conv_shape *s, const float *bias, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    layout l = {0};
    if (bias != NULL) {
        TRY(layout_of_bias(s, &l));
        TRY(kernel_call_add(o, DNNL_ARG_BIAS, layout_view_of(&l), onednn_readable(bias)));
    }
out:
    layout_free(&l);
    return status;
}

grail_status onednn_convolve(const conv_shape *shape, const float *x, const float *weight,
                             const float *bias, bool accumulate, bool relu, float *y)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    dnnl_primitive_attr_t attributes = NULL;
    void *ordered = NULL;
    void *own_weight = NULL;
    TRY(onednn_attributes_new(accumulate, relu, &attributes));
    TRY(describe_convolution(shape, bias != NULL, attributes, &o));
    TRY(order_weight(shape, &o, weight, &own_weight, &ordered));
    TRY(kernel_call_add(&o, DNNL_ARG_SRC, kernel_call_layout(&o, dnnl_query_src_md),
                        onednn_readable(x)));
    TRY(kernel_call_add(&o, DNNL_ARG_WEIGHTS, kernel_call_layout(&o, dnnl_query_weights_md),
                        ordered));
    TRY(kernel_call_add(&o, DNNL_ARG_DST, kernel_call_layout(&o, dnnl_query_dst_md), y));
    TRY(add_bias(shape, bias, &o));
    TRY(kernel_call_run(&o));
out:
    kernel_call_fini(&o);
    dnnl_primitive_attr_destroy(attributes);
    memory_free(own_weight);
    return status;
}
