/* Running one kernel of oneDNN. The library keeps generated kernels in a cache of its own behind a
 * lock, so that a call here describes what it wants and gets the kernel of an earlier call of that
 * shape. Scratch memory is ours and made per kernel_call: calls from several threads share nothing
 * else. */
#include "backend/cpu/onednn_kernel.h"

enum { DIMENSIONS = 4 };

void kernel_call_fini(kernel_call *o)
{
    for (int i = 0; i < o->argument_count; i++) {
        dnnl_memory_destroy(o->arguments[i].memory);
    }
    dnnl_stream_destroy(o->stream);
    dnnl_primitive_destroy(o->kernel);
    dnnl_primitive_desc_destroy(o->descriptor);
    memory_free(o->scratch);
}

grail_status kernel_call_add(kernel_call *o, int role, layout_view of, const void *data)
{
    dnnl_exec_arg_t *argument = &o->arguments[o->argument_count];
    CHECK(onednn_checked(
        dnnl_memory_create(&argument->memory, of, onednn_engine(), onednn_readable(data)),
        "wrapping a buffer"));
    argument->arg = role;
    o->argument_count++;
    return GRAIL_OK;
}

layout_view kernel_call_layout(const kernel_call *o, dnnl_query_t operand)
{
    return dnnl_primitive_desc_query_md(o->descriptor, operand, 0);
}

grail_status kernel_call_add_wanted(kernel_call *o, int role, dnnl_query_t operand,
                                    const void *data)
{
    return kernel_call_add(o, role, kernel_call_layout(o, operand), data);
}

grail_status kernel_call_prepare(kernel_call *o)
{
    const layout_view wanted = kernel_call_layout(o, dnnl_query_scratchpad_md);
    const size_t bytes = dnnl_memory_desc_get_size(wanted);
    if (bytes > 0) {
        CHECK(memory_new_unset(&o->scratch, bytes, 1));
        CHECK(kernel_call_add(o, DNNL_ARG_SCRATCHPAD, wanted, o->scratch));
    }
    /* oneDNN 2.6 calls a kernel even when it lacked the memory to generate it. */
    CHECK(memory_has_room(0) ? GRAIL_OK
                             : error_set(GRAIL_ERROR_MEMORY,
                                         "out of memory: oneDNN has no room to generate a kernel"));
    CHECK(onednn_checked(dnnl_primitive_create(&o->kernel, o->descriptor), "generating a kernel"));
    return onednn_checked(
        dnnl_stream_create(&o->stream, onednn_engine(), dnnl_stream_default_flags),
        "creating an execution stream");
}

dnnl_status_t kernel_call_execute(const kernel_call *o)
{
    const dnnl_status_t code =
        dnnl_primitive_execute(o->kernel, o->stream, o->argument_count, o->arguments);
    return code == dnnl_success ? dnnl_stream_wait(o->stream) : code;
}

grail_status kernel_call_run(kernel_call *o)
{
    const grail_status status = kernel_call_prepare(o);
    return status == GRAIL_OK ? onednn_checked(kernel_call_execute(o), "running a kernel") : status;
}

grail_status onednn_attributes_new(bool accumulate, bool relu, dnnl_primitive_attr_t *out)
{
    grail_status status = GRAIL_OK;
    dnnl_post_ops_t after = NULL;
    TRY(onednn_checked(dnnl_primitive_attr_create(out), "creating attributes"));
    TRY(onednn_checked(dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user),
                       "choosing the scratch memory"));
    TRY(onednn_checked(dnnl_post_ops_create(&after), "creating post-operations"));
    if (accumulate) {
        TRY(onednn_checked(onednn_append_sum(after), "adding a sum"));
    }
    if (relu) {
        TRY(onednn_checked(onednn_append_relu(after), "adding an activation"));
    }
    TRY(onednn_checked(dnnl_primitive_attr_set_post_ops(*out, after), "setting post-operations"));
out:
    dnnl_post_ops_destroy(after);
    return status;
}

grail_status onednn_reorder_prepare(layout_view from, const void *in, layout_view to,
                                    bool accumulate, void *out, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    dnnl_primitive_attr_t attributes = NULL;
    TRY(onednn_attributes_new(accumulate, false, &attributes));
    TRY(onednn_checked(dnnl_reorder_primitive_desc_create(&o->descriptor, from, onednn_engine(), to,
                                                          onednn_engine(), attributes),
                       "reordering a weight"));
    TRY(kernel_call_add(o, DNNL_ARG_FROM, from, in));
    TRY(kernel_call_add(o, DNNL_ARG_TO, to, out));
    TRY(kernel_call_prepare(o));
out:
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

grail_status onednn_reorder(layout_view from, const void *in, layout_view to, bool accumulate,
                            void *out)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    TRY(onednn_reorder_prepare(from, in, to, accumulate, out, &o));
    TRY(onednn_checked(kernel_call_execute(&o), "reordering a weight"));
out:
    kernel_call_fini(&o);
    return status;
}

window_steps window_steps_of(const window2d *w)
{
    return (window_steps){.kernel = {w->kernel_height, w->kernel_width},
                          .stride = {w->stride, w->stride},
                          .dilation = {w->dilation - 1, w->dilation - 1},
                          .padding = {w->padding, w->padding}};
}

static grail_status layout_of(const dnnl_dims_t dims, int rank, dnnl_data_type_t type,
                              dnnl_format_tag_t order, layout *out)
{
    return onednn_checked(layout_new(out, rank, dims, type, order), "describing a layout");
}

grail_status layout_of_images(int64_t samples, extent positions, int64_t channels,
                              dnnl_data_type_t type, layout *out)
{
    const dnnl_dims_t dims = {samples, channels, positions.height, positions.width};
    return layout_of(dims, DIMENSIONS, type, dnnl_nhwc, out);
}

grail_status layout_of_weight(const conv_shape *s, dnnl_data_type_t type, dnnl_format_tag_t order,
                              layout *out)
{
    const dnnl_dims_t dims = {s->channels_out, s->channels_in, s->window.kernel_height,
                              s->window.kernel_width};
    return layout_of(dims, DIMENSIONS, type, order, out);
}

grail_status layout_of_bias(const conv_shape *s, layout *out)
{
    const dnnl_dims_t dims = {s->channels_out};
    return layout_of(dims, 1, dnnl_f32, dnnl_a, out);
}
