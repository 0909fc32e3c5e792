/* What differs between oneDNN 2.x and 3.x. */
#include "backend/cpu/onednn_kernel.h"

#if DNNL_VERSION_MAJOR < 3

layout_view layout_view_of(const layout *l)
{
    return l;
}

dnnl_status_t layout_new(layout *l, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                         dnnl_format_tag_t order)
{
    return dnnl_memory_desc_init_by_tag(l, rank, dims, type, order);
}

dnnl_status_t layout_copy(layout *l, layout_view of)
{
    *l = *of;
    return dnnl_success;
}

void layout_free(layout *l)
{
    (void)l;
}

dnnl_status_t onednn_append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1.0F);
}

dnnl_status_t onednn_append_relu(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_eltwise(after, 1.0F, dnnl_eltwise_relu, 0.0F, 0.0F);
}

static dnnl_status_t describe_convolution(convolution_result result, layout_view x,
                                          layout_view weight, layout_view bias, layout_view y,
                                          const window_steps *w, dnnl_convolution_desc_t *out)
{
    switch (result) {
    case CONVOLUTION_OUTPUT:
        return dnnl_dilated_convolution_forward_desc_init(
            out, dnnl_forward_inference, dnnl_convolution_direct, x, weight, bias, y, w->stride,
            w->dilation, w->padding, w->padding);
    case CONVOLUTION_INPUT_GRADIENT:
        return dnnl_dilated_convolution_backward_data_desc_init(out, dnnl_convolution_direct, x,
                                                                weight, y, w->stride, w->dilation,
                                                                w->padding, w->padding);
    case CONVOLUTION_WEIGHT_GRADIENT:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, dnnl_convolution_direct, x, weight, NULL, y, w->stride, w->dilation, w->padding,
            w->padding);
    }
    return dnnl_invalid_arguments;
}

dnnl_status_t onednn_choose_convolution(convolution_result result, layout_view x,
                                        layout_view weight, layout_view bias, layout_view y,
                                        const window_steps *w, dnnl_primitive_attr_t attributes,
                                        dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t described;
    const dnnl_status_t code = describe_convolution(result, x, weight, bias, y, w, &described);
    return code != dnnl_success
               ? code
               : dnnl_primitive_desc_create(out, &described, attributes, onednn_engine(), NULL);
}

dnnl_status_t onednn_choose_maximum(layout_view x, layout_view y, const window_steps *w,
                                    dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    dnnl_pooling_v2_desc_t described;
    const dnnl_status_t code = dnnl_pooling_v2_forward_desc_init(
        &described, dnnl_forward_inference, dnnl_pooling_max, x, y, w->stride, w->kernel,
        w->dilation, w->padding, w->padding);
    return code != dnnl_success
               ? code
               : dnnl_primitive_desc_create(out, &described, attributes, onednn_engine(), NULL);
}

dnnl_status_t onednn_choose_product(layout_view x, layout_view weight, layout_view bias,
                                    layout_view y, dnnl_primitive_attr_t attributes,
                                    dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t described;
    const dnnl_status_t code = dnnl_matmul_desc_init(&described, x, weight, bias, y);
    return code != dnnl_success
               ? code
               : dnnl_primitive_desc_create(out, &described, attributes, onednn_engine(), NULL);
}

#else

layout_view layout_view_of(const layout *l)
{
    return *l;
}

dnnl_status_t layout_new(layout *l, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                         dnnl_format_tag_t order)
{
    return dnnl_memory_desc_create_with_tag(l, rank, dims, type, order);
}

dnnl_status_t layout_copy(layout *l, layout_view of)
{
    return dnnl_memory_desc_clone(l, of);
}

void layout_free(layout *l)
{
    dnnl_memory_desc_destroy(*l);
}

dnnl_status_t onednn_append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1.0F, 0, dnnl_data_type_undef);
}

dnnl_status_t onednn_append_relu(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_eltwise(after, dnnl_eltwise_relu, 0.0F, 0.0F);
}

dnnl_status_t onednn_choose_convolution(convolution_result result, layout_view x,
                                        layout_view weight, layout_view bias, layout_view y,
                                        const window_steps *w, dnnl_primitive_attr_t attributes,
                                        dnnl_primitive_desc_t *out)
{
    switch (result) {
    case CONVOLUTION_OUTPUT:
        return dnnl_convolution_forward_primitive_desc_create(
            out, onednn_engine(), dnnl_forward_inference, dnnl_convolution_direct, x, weight, bias,
            y, w->stride, w->dilation, w->padding, w->padding, attributes);
    case CONVOLUTION_INPUT_GRADIENT:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, onednn_engine(), dnnl_convolution_direct, x, weight, y, w->stride, w->dilation,
            w->padding, w->padding, NULL, attributes);
    case CONVOLUTION_WEIGHT_GRADIENT:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, onednn_engine(), dnnl_convolution_direct, x, weight, NULL, y, w->stride,
            w->dilation, w->padding, w->padding, NULL, attributes);
    }
    return dnnl_invalid_arguments;
}

dnnl_status_t onednn_choose_maximum(layout_view x, layout_view y, const window_steps *w,
                                    dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    return dnnl_pooling_forward_primitive_desc_create(
        out, onednn_engine(), dnnl_forward_inference, dnnl_pooling_max, x, y, w->stride, w->kernel,
        w->dilation, w->padding, w->padding, attributes);
}

dnnl_status_t onednn_choose_product(layout_view x, layout_view weight, layout_view bias,
                                    layout_view y, dnnl_primitive_attr_t attributes,
                                    dnnl_primitive_desc_t *out)
{
    return dnnl_matmul_primitive_desc_create(out, onednn_engine(), x, weight, bias, y, attributes);
}

#endif
