/* Maximum pooling by oneDNN. */
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_kernel.h"

grail_status onednn_maximum(const conv_shape *shape, const float *x, float *y)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    dnnl_primitive_attr_t attributes = NULL;
    layout from = {0};
    layout to = {0};
    const window_steps w = window_steps_of(&shape->window);
    TRY(layout_of_images(shape->samples, shape->in, shape->channels_in, dnnl_f32, &from));
    TRY(layout_of_images(shape->samples, shape->out, shape->channels_out, dnnl_f32, &to));
    TRY(onednn_attributes_new(false, false, &attributes));
    TRY(onednn_checked(onednn_choose_maximum(layout_view_of(&from), layout_view_of(&to), &w,
                                             attributes, &o.descriptor),
                       "choosing a pooling kernel"));
    TRY(kernel_call_add(&o, DNNL_ARG_SRC, layout_view_of(&from), x));
    TRY(kernel_call_add(&o, DNNL_ARG_DST, layout_view_of(&to), y));
    TRY(kernel_call_run(&o));
out:
    kernel_call_fini(&o);
    dnnl_primitive_attr_destroy(attributes);
    layout_free(&from);
    layout_free(&to);
    return status;
}
