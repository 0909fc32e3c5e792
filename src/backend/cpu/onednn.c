/* Everything that oneDNN computes, 2.x or 3.x. The only file that includes oneDNN.
 *
 * The library keeps generated kernels in a cache of its own behind a lock, so that a call here
 * describes what it wants and gets the kernel of an earlier call of that shape. Scratch memory is
 * ours and made per kernel_call: calls from several threads share nothing else. */
#include "backend/cpu/onednn.h"

#include "backend/operations.h"
#include "base/parallel.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>

/* A layout is a value in 2.x and a handle in 3.x; layout_view is how both are passed on. A zeroed
 * one is empty. */
typedef dnnl_memory_desc_t layout;

#if DNNL_VERSION_MAJOR < 3
typedef const dnnl_memory_desc_t *layout_view;
#else
typedef const_dnnl_memory_desc_t layout_view;
#endif

/* A window in oneDNN's terms: its dilation counts the rows left out between two taps. */
typedef struct window_steps {
    dnnl_dims_t kernel, stride, dilation, before, behind;
} window_steps;

/* What a convolution's kernel makes: Y, or the gradient of X or of the weight. */
typedef enum convolution_result {
    CONVOLUTION_OUTPUT,
    CONVOLUTION_INPUT_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT
} convolution_result;

enum { MOST_ARGUMENTS = 5 };

/* A kernel with its operands and scratch memory. A zeroed one is empty. */
typedef struct kernel_call {
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t kernel;
    dnnl_stream_t stream;
    dnnl_exec_arg_t arguments[MOST_ARGUMENTS];
    int argument_count;
    void *scratch;
} kernel_call;

/* -- the library, started once on the processor ------------------------------------------------ */

static pthread_once_t started = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine; /* this and the version are not written after start */
static char version_text[32];

static void start(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(version_text, sizeof version_text, "%d.%d.%d", v->major, v->minor, v->patch);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) {
        engine = NULL;
    }
}

/* Turns oneDNN's codes into ours; `step` says what oneDNN was doing. */
static grail_status onednn_checked(dnnl_status_t code, const char *step)
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

/* The processor, which all kernels share; starts the library. */
static dnnl_engine_t onednn_engine(void)
{
    pthread_once(&started, start);
    return engine;
}

const char *onednn_version(void)
{
    pthread_once(&started, start);
    return version_text;
}

/* oneDNN takes its read-only operands without const. */
static void *onednn_readable(const void *p)
{
    return (void *)(uintptr_t)p;
}

/* -- what differs between 2.x and 3.x ---------------------------------------------------------- */

#if DNNL_VERSION_MAJOR < 3

static layout_view layout_view_of(const layout *l)
{
    return l;
}

static dnnl_status_t layout_new(layout *l, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                                dnnl_format_tag_t order)
{
    return dnnl_memory_desc_init_by_tag(l, rank, dims, type, order);
}

static dnnl_status_t layout_copy(layout *l, layout_view of)
{
    *l = *of;
    return dnnl_success;
}

static void layout_free(layout *l)
{
    (void)l;
}

static dnnl_status_t onednn_append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1.0F);
}

static dnnl_status_t onednn_append(dnnl_post_ops_t after, dnnl_alg_kind_t kind, float beta)
{
    return dnnl_post_ops_append_eltwise(after, 1.0F, kind, 0.0F, beta);
}

static dnnl_status_t init_convolution(convolution_result result, layout_view x, layout_view weight,
                                      layout_view bias, layout_view y, const window_steps *w,
                                      dnnl_convolution_desc_t *out)
{
    switch (result) {
    case CONVOLUTION_OUTPUT:
        return dnnl_dilated_convolution_forward_desc_init(
            out, dnnl_forward_inference, dnnl_convolution_direct, x, weight, bias, y, w->stride,
            w->dilation, w->before, w->behind);
    case CONVOLUTION_INPUT_GRADIENT:
        return dnnl_dilated_convolution_backward_data_desc_init(out, dnnl_convolution_direct, x,
                                                                weight, y, w->stride, w->dilation,
                                                                w->before, w->behind);
    case CONVOLUTION_WEIGHT_GRADIENT:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, dnnl_convolution_direct, x, weight, NULL, y, w->stride, w->dilation, w->before,
            w->behind);
    }
    return dnnl_invalid_arguments;
}

/* A gradient has the layout of what it is the gradient of. The bias, of an output alone, may be
 * NULL. */
static dnnl_status_t onednn_choose_convolution(convolution_result result, layout_view x,
                                               layout_view weight, layout_view bias, layout_view y,
                                               const window_steps *w,
                                               dnnl_primitive_attr_t attributes,
                                               dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t described;
    const dnnl_status_t code = init_convolution(result, x, weight, bias, y, w, &described);
    return code != dnnl_success
               ? code
               : dnnl_primitive_desc_create(out, &described, attributes, onednn_engine(), NULL);
}

static dnnl_status_t onednn_choose_maximum(layout_view x, layout_view y, const window_steps *w,
                                           dnnl_primitive_attr_t attributes,
                                           dnnl_primitive_desc_t *out)
{
    dnnl_pooling_v2_desc_t described;
    const dnnl_status_t code = dnnl_pooling_v2_forward_desc_init(
        &described, dnnl_forward_inference, dnnl_pooling_max, x, y, w->stride, w->kernel,
        w->dilation, w->before, w->behind);
    return code != dnnl_success
               ? code
               : dnnl_primitive_desc_create(out, &described, attributes, onednn_engine(), NULL);
}

/* Chooses the kernel of Y = X W + 1 bias, all with two dimensions; the bias may be NULL. */
static dnnl_status_t onednn_choose_product(layout_view x, layout_view weight, layout_view bias,
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

static layout_view layout_view_of(const layout *l)
{
    return *l;
}

static dnnl_status_t layout_new(layout *l, int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                                dnnl_format_tag_t order)
{
    return dnnl_memory_desc_create_with_tag(l, rank, dims, type, order);
}

static dnnl_status_t layout_copy(layout *l, layout_view of)
{
    return dnnl_memory_desc_clone(l, of);
}

static void layout_free(layout *l)
{
    dnnl_memory_desc_destroy(*l);
}

static dnnl_status_t onednn_append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1.0F, 0, dnnl_data_type_undef);
}

static dnnl_status_t onednn_append(dnnl_post_ops_t after, dnnl_alg_kind_t kind, float beta)
{
    return dnnl_post_ops_append_eltwise(after, kind, 0.0F, beta);
}

static dnnl_status_t onednn_choose_convolution(convolution_result result, layout_view x,
                                               layout_view weight, layout_view bias, layout_view y,
                                               const window_steps *w,
                                               dnnl_primitive_attr_t attributes,
                                               dnnl_primitive_desc_t *out)
{
    switch (result) {
    case CONVOLUTION_OUTPUT:
        return dnnl_convolution_forward_primitive_desc_create(
            out, onednn_engine(), dnnl_forward_inference, dnnl_convolution_direct, x, weight, bias,
            y, w->stride, w->dilation, w->before, w->behind, attributes);
    case CONVOLUTION_INPUT_GRADIENT:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, onednn_engine(), dnnl_convolution_direct, x, weight, y, w->stride, w->dilation,
            w->before, w->behind, NULL, attributes);
    case CONVOLUTION_WEIGHT_GRADIENT:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, onednn_engine(), dnnl_convolution_direct, x, weight, NULL, y, w->stride,
            w->dilation, w->before, w->behind, NULL, attributes);
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t onednn_choose_maximum(layout_view x, layout_view y, const window_steps *w,
                                           dnnl_primitive_attr_t attributes,
                                           dnnl_primitive_desc_t *out)
{
    return dnnl_pooling_forward_primitive_desc_create(
        out, onednn_engine(), dnnl_forward_inference, dnnl_pooling_max, x, y, w->stride, w->kernel,
        w->dilation, w->before, w->behind, attributes);
}

static dnnl_status_t onednn_choose_product(layout_view x, layout_view weight, layout_view bias,
                                           layout_view y, dnnl_primitive_attr_t attributes,
                                           dnnl_primitive_desc_t *out)
{
    return dnnl_matmul_primitive_desc_create(out, onednn_engine(), x, weight, bias, y, attributes);
}

#endif

/* -- kernels ----------------------------------------------------------------------------------- */

enum { DIMENSIONS = 4 };

static void kernel_call_fini(kernel_call *o)
{
    for (int i = 0; i < o->argument_count; i++) {
        dnnl_memory_destroy(o->arguments[i].memory);
    }
    dnnl_stream_destroy(o->stream);
    dnnl_primitive_destroy(o->kernel);
    dnnl_primitive_desc_destroy(o->descriptor);
    memory_free(o->scratch);
}

static grail_status kernel_call_add(kernel_call *o, int role, layout_view of, const void *data)
{
    dnnl_exec_arg_t *argument = &o->arguments[o->argument_count];
    CHECK(onednn_checked(
        dnnl_memory_create(&argument->memory, of, onednn_engine(), onednn_readable(data)),
        "wrapping a buffer"));
    argument->arg = role;
    o->argument_count++;
    return GRAIL_OK;
}

/* The layout that the kernel wants for one of its operands. */
static layout_view kernel_call_layout(const kernel_call *o, dnnl_query_t operand)
{
    return dnnl_primitive_desc_query_md(o->descriptor, operand, 0);
}

/* An operand that lies as the kernel wants it. */
static grail_status kernel_call_add_wanted(kernel_call *o, int role, dnnl_query_t operand,
                                           const void *data)
{
    return kernel_call_add(o, role, kernel_call_layout(o, operand), data);
}

/* The same in two steps, the second any number of times. */
static grail_status kernel_call_prepare(kernel_call *o)
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

static dnnl_status_t kernel_call_execute(const kernel_call *o)
{
    const dnnl_status_t code =
        dnnl_primitive_execute(o->kernel, o->stream, o->argument_count, o->arguments);
    return code == dnnl_success ? dnnl_stream_wait(o->stream) : code;
}

/* Generates the kernel and runs it, once. */
static grail_status kernel_call_run(kernel_call *o)
{
    const grail_status status = kernel_call_prepare(o);
    return status == GRAIL_OK ? onednn_checked(kernel_call_execute(o), "running a kernel") : status;
}

/* *out says that the caller owns the scratch memory, and which operations follow in the same pass.
 * It is owned, even after a failure: dnnl_primitive_attr_destroy. */
static grail_status onednn_attributes_new(bool accumulate, double ceiling,
                                          dnnl_primitive_attr_t *out)
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
    if (isinf(ceiling)) {
        TRY(onednn_checked(onednn_append(after, dnnl_eltwise_relu, 0.0F), "adding a limit of 0"));
    } else if (ceiling > 0.0) {
        TRY(onednn_checked(onednn_append(after, dnnl_eltwise_clip, (float)ceiling),
                           "adding limits"));
    }
    TRY(onednn_checked(dnnl_primitive_attr_set_post_ops(*out, after), "setting post-operations"));
out:
    dnnl_post_ops_destroy(after);
    return status;
}

/* The same for kernel_call_execute; *o was zeroed and is kernel_call_fini's also on failure. */
static grail_status onednn_reorder_prepare(layout_view from, const void *in, layout_view to,
                                           bool accumulate, void *out, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    dnnl_primitive_attr_t attributes = NULL;
    TRY(onednn_attributes_new(accumulate, 0.0, &attributes));
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

/* Moves a weight or its gradient from one layout to the other; with `accumulate` it is added to
 * what lies there. */
static grail_status onednn_reorder(layout_view from, const void *in, layout_view to,
                                   bool accumulate, void *out)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    TRY(onednn_reorder_prepare(from, in, to, accumulate, out, &o));
    TRY(onednn_checked(kernel_call_execute(&o), "reordering a weight"));
out:
    kernel_call_fini(&o);
    return status;
}

/* Positions behind the input, which windows whose number was rounded up reach beyond. */
static int64_t behind(const window_axis *a, int64_t in, int64_t out)
{
    const int64_t reached = (out - 1) * a->stride + a->dilation * (a->kernel - 1) + 1;
    const int64_t needed = reached - a->before - in;
    return needed > a->behind ? needed : a->behind;
}

static window_steps window_steps_of(const conv_shape *s)
{
    const window_axis *h = &s->window.height;
    const window_axis *w = &s->window.width;
    return (window_steps){
        .kernel = {h->kernel, w->kernel},
        .stride = {h->stride, w->stride},
        .dilation = {h->dilation - 1, w->dilation - 1},
        .before = {h->before, w->before},
        .behind = {behind(h, s->in.height, s->out.height), behind(w, s->in.width, s->out.width)}};
}

static grail_status layout_of(const dnnl_dims_t dims, int rank, dnnl_data_type_t type,
                              dnnl_format_tag_t order, layout *out)
{
    return onednn_checked(layout_new(out, rank, dims, type, order), "describing a layout");
}

static grail_status layout_of_images(int64_t samples, extent positions, int64_t channels,
                                     dnnl_data_type_t type, layout *out)
{
    const dnnl_dims_t dims = {samples, channels, positions.height, positions.width};
    return layout_of(dims, DIMENSIONS, type, dnnl_nhwc, out);
}

/* As it is given, or with `any` as the kernel wants it. */
static grail_status layout_of_weight(const conv_shape *s, dnnl_data_type_t type, bool any,
                                     layout *out)
{
    const int64_t groups = conv_groups(s);
    const dnnl_dims_t grouped = {groups, s->channels_out / groups, s->channels_in / groups,
                                 s->window.height.kernel, s->window.width.kernel};
    const dnnl_dims_t dims = {s->channels_out, s->channels_in, s->window.height.kernel,
                              s->window.width.kernel};
    return groups > 1
               ? layout_of(grouped, DIMENSIONS + 1, type, any ? dnnl_format_tag_any : dnnl_goihw,
                           out)
               : layout_of(dims, DIMENSIONS, type, any ? dnnl_format_tag_any : dnnl_oihw, out);
}

static grail_status layout_of_bias(const conv_shape *s, layout *out)
{
    const dnnl_dims_t dims = {s->channels_out};
    return layout_of(dims, 1, dnnl_f32, dnnl_a, out);
}

/* -- products of bf16 with f32 sums, on AMX or AVX-512 ----------------------------------------- */

/* The order of a weight must not depend on the rows of a product; it is the one that the library
 * wants for these. */
enum { USUAL_ROWS = 1024 };

static bool has_instructions(dnnl_cpu_isa_t set)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)set) == (unsigned)set;
}

bf16_support onednn_bf16_support(void)
{
    return has_instructions(dnnl_cpu_isa_avx512_core_amx)    ? BF16_TILES
           : has_instructions(dnnl_cpu_isa_avx512_core_bf16) ? BF16_VECTORS
           : has_instructions(dnnl_cpu_isa_avx512_core)      ? BF16_EMULATED
                                                             : BF16_NONE;
}

static grail_status layout_of_rows(int64_t rows, int64_t columns, dnnl_data_type_t type,
                                   layout *out)
{
    const dnnl_dims_t dims = {rows, columns};
    return onednn_checked(layout_new(out, 2, dims, type, dnnl_ab), "describing rows");
}

/* The layout of W[out, in], which the library sees as W^T[in, out]; layout_free. */
static grail_status layout_of_right_factor(int64_t out, int64_t in, dnnl_format_tag_t order,
                                           layout *made)
{
    const dnnl_dims_t dims = {in, out};
    return onednn_checked(layout_new(made, 2, dims, dnnl_bf16, order), "describing a weight");
}

/* Describes a kernel, whose operands the caller adds. */
static grail_status kernel_call_product(int64_t rows, int64_t in, int64_t out, bool has_bias,
                                        bool accumulate, layout_view weight, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    dnnl_primitive_attr_t attributes = NULL;
    layout x = {0};
    layout y = {0};
    layout bias = {0};
    TRY(layout_of_rows(rows, in, dnnl_bf16, &x));
    TRY(layout_of_rows(rows, out, dnnl_f32, &y));
    TRY(layout_of_rows(1, out, dnnl_f32, &bias));
    TRY(onednn_attributes_new(accumulate, 0.0, &attributes));
    TRY(onednn_checked(onednn_choose_product(layout_view_of(&x), weight,
                                             has_bias ? layout_view_of(&bias) : NULL,
                                             layout_view_of(&y), attributes, &o->descriptor),
                       "choosing a kernel for a product"));
out:
    dnnl_primitive_attr_destroy(attributes);
    layout_free(&x);
    layout_free(&y);
    layout_free(&bias);
    return status;
}

/* The order of W that the library wants for products of so many rows; layout_free. */
static grail_status layout_of_ordered_factor(int64_t rows, int64_t out, int64_t in, layout *made)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    layout any = {0};
    TRY(layout_of_right_factor(out, in, dnnl_format_tag_any, &any));
    TRY(kernel_call_product(rows, in, out, false, false, layout_view_of(&any), &o));
    TRY(onednn_checked(layout_copy(made, kernel_call_layout(&o, dnnl_query_weights_md)),
                       "copying a layout"));
out:
    kernel_call_fini(&o);
    layout_free(&any);
    return status;
}

static grail_status layout_of_ordered(int64_t out, int64_t in, layout *made)
{
    return layout_of_ordered_factor(USUAL_ROWS, out, in, made);
}

grail_status onednn_weight_bytes(int64_t out, int64_t in, size_t *bytes)
{
    grail_status status = GRAIL_OK;
    layout ordered = {0};
    *bytes = 0;
    if (out == 0 || in == 0) { /* the library divides by them */
        return GRAIL_OK;
    }
    TRY(layout_of_ordered(out, in, &ordered));
    *bytes = dnnl_memory_desc_get_size(layout_view_of(&ordered));
out:
    layout_free(&ordered);
    return status;
}

static grail_status move_weight(int64_t out, int64_t in, bool restores, const void *from, void *to)
{
    grail_status status = GRAIL_OK;
    layout ordered = {0};
    layout plain = {0};
    if (out == 0 || in == 0) {
        return GRAIL_OK;
    }
    TRY(layout_of_ordered(out, in, &ordered));
    TRY(layout_of_right_factor(out, in, dnnl_ba, &plain));
    const layout_view a = layout_view_of(restores ? &ordered : &plain);
    const layout_view b = layout_view_of(restores ? &plain : &ordered);
    TRY(onednn_reorder(a, from, b, false, to));
out:
    layout_free(&ordered);
    layout_free(&plain);
    return status;
}

grail_status onednn_weight_order(int64_t out, int64_t in, const void *values, void *weight)
{
    return move_weight(out, in, false, values, weight);
}

grail_status onednn_weight_restore(int64_t out, int64_t in, const void *weight, void *values)
{
    return move_weight(out, in, true, weight, values);
}

/* Y[rows, out] (+)= X[rows, in] W + 1 bias, W as `weight` says. */
static grail_status multiply(int64_t rows, int64_t in, int64_t out, const void *x,
                             layout_view weight, const void *w, const float *bias, bool accumulate,
                             float *y)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    layout of_bias = {0};
    TRY(kernel_call_product(rows, in, out, bias != NULL, accumulate, weight, &o));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_SRC, dnnl_query_src_md, x));
    TRY(kernel_call_add(&o, DNNL_ARG_WEIGHTS, weight, w));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_DST, dnnl_query_dst_md, y));
    if (bias != NULL) {
        TRY(layout_of_rows(1, out, dnnl_f32, &of_bias));
        TRY(kernel_call_add(&o, DNNL_ARG_BIAS, layout_view_of(&of_bias), bias));
    }
    TRY(kernel_call_run(&o));
out:
    kernel_call_fini(&o);
    layout_free(&of_bias);
    return status;
}

grail_status onednn_product(int64_t rows, int64_t in, int64_t out, const void *x,
                            const void *weight, const float *bias, float *y)
{
    grail_status status = GRAIL_OK;
    layout ordered = {0};
    TRY(layout_of_ordered(out, in, &ordered));
    TRY(multiply(rows, in, out, x, layout_view_of(&ordered), weight, bias, false, y));
out:
    layout_free(&ordered);
    return status;
}

grail_status onednn_multiply(int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                             bool accumulate, float *c)
{
    grail_status status = GRAIL_OK;
    layout right = {0};
    TRY(layout_of_rows(k, n, dnnl_bf16, &right));
    TRY(multiply(m, k, n, a, layout_view_of(&right), b, NULL, accumulate, c));
out:
    layout_free(&right);
    return status;
}

/* -- products of bf16 tiles, for callers that are threads of a parallel loop ---------------------
 *
 * The library makes a kernel for the number of threads that it sees then; these are made for one.
 */

/* What one thread calls again and again. The operands come first among the arguments. */
typedef struct tile_worker {
    kernel_call product, order;
    dnnl_status_t failed;
} tile_worker;

struct tile_kernel {
    int64_t workers;
    tile_worker *worker;
    size_t bytes; /* of an ordered right factor */
};

static grail_status prepare_workers(int64_t m, int64_t n, int64_t k, layout_view plain,
                                    layout_view ordered, tile_kernel *t)
{
    for (int64_t i = 0; i < t->workers; i++) {
        CHECK(kernel_call_product(m, k, n, false, false, ordered, &t->worker[i].product));
        CHECK(kernel_call_add_wanted(&t->worker[i].product, DNNL_ARG_SRC, dnnl_query_src_md, NULL));
        CHECK(kernel_call_add(&t->worker[i].product, DNNL_ARG_WEIGHTS, ordered, NULL));
        CHECK(kernel_call_add_wanted(&t->worker[i].product, DNNL_ARG_DST, dnnl_query_dst_md, NULL));
        CHECK(kernel_call_prepare(&t->worker[i].product));
        CHECK(onednn_reorder_prepare(plain, NULL, ordered, false, NULL, &t->worker[i].order));
    }
    return GRAIL_OK;
}

static grail_status tile_kernel_fill(int64_t m, int64_t n, int64_t k, bool transposed,
                                     tile_kernel *t)
{
    grail_status status = GRAIL_OK;
    layout plain = {0};
    layout ordered = {0};
    TRY(layout_of_ordered_factor(m, n, k, &ordered));
    TRY(layout_of_right_factor(n, k, transposed ? dnnl_ba : dnnl_ab, &plain));
    t->bytes = dnnl_memory_desc_get_size(layout_view_of(&ordered));
    TRY(prepare_workers(m, n, k, layout_view_of(&plain), layout_view_of(&ordered), t));
out:
    layout_free(&plain);
    layout_free(&ordered);
    return status;
}

grail_status onednn_tiles_new(int64_t m, int64_t n, int64_t k, bool transposed, tile_kernel **out)
{
    const int threads = parallel_threads();
    CHECK(memory_new(out, 1, sizeof **out));
    tile_kernel *t = *out;
    CHECK(memory_new(&t->worker, (size_t)threads, sizeof t->worker[0]));
    t->workers = threads;
    parallel_set_threads(1); /* for which kernels are then made */
    const grail_status status = tile_kernel_fill(m, n, k, transposed, t);
    parallel_set_threads(threads);
    return status;
}

void onednn_tiles_free(tile_kernel *t)
{
    for (int64_t i = 0; t != NULL && i < t->workers; i++) {
        kernel_call_fini(&t->worker[i].product);
        kernel_call_fini(&t->worker[i].order);
    }
    if (t != NULL) {
        memory_free(t->worker);
    }
    memory_free(t);
}

grail_status onednn_tiles_status(const tile_kernel *t)
{
    for (int64_t i = 0; i < t->workers; i++) {
        CHECK(onednn_checked(t->worker[i].failed, "multiplying tiles"));
    }
    return GRAIL_OK;
}

size_t onednn_tile_bytes(const tile_kernel *t)
{
    return t->bytes;
}

static void call_with(const kernel_call *o, size_t count, void *const operands[],
                      dnnl_status_t *failed)
{
    dnnl_status_t code = dnnl_success;
    for (size_t i = 0; i < count && code == dnnl_success; i++) {
        code = dnnl_memory_set_data_handle(o->arguments[i].memory, operands[i]);
    }
    code = code == dnnl_success ? kernel_call_execute(o) : code;
    *failed = *failed == dnnl_success ? code : *failed;
}

void onednn_tile_order(tile_kernel *t, int64_t worker, const void *b, void *ordered)
{
    tile_worker *w = &t->worker[worker];
    call_with(&w->order, 2, (void *[]){onednn_readable(b), ordered}, &w->failed);
}

void onednn_tile_multiply(tile_kernel *t, int64_t worker, const void *a, const void *ordered,
                          float *c)
{
    tile_worker *w = &t->worker[worker];
    call_with(&w->product, 3, (void *[]){onednn_readable(a), onednn_readable(ordered), c},
              &w->failed);
}

/* -- convolutions, their gradients and pooling ------------------------------------------------- */

/* `type` is that of X and the weight; Y and the bias are f32. */
static grail_status describe_convolution(convolution_result result, const conv_shape *s,
                                         dnnl_data_type_t type, bool has_bias, bool accumulate,
                                         double ceiling, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    dnnl_primitive_attr_t attributes = NULL;
    layout x = {0};
    layout y = {0};
    layout weight = {0};
    layout bias = {0};
    const window_steps w = window_steps_of(s);
    TRY(layout_of_images(s->samples, s->in, s->channels_in, type, &x));
    TRY(layout_of_images(s->samples, s->out, s->channels_out, dnnl_f32, &y));
    TRY(layout_of_weight(s, type, true, &weight));
    TRY(layout_of_bias(s, &bias));
    TRY(onednn_attributes_new(accumulate, ceiling, &attributes));
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
    TRY(layout_of_weight(s, type, false, &given));
    if (dnnl_memory_desc_equal(wanted, layout_view_of(&given)) == 0) {
        TRY(memory_new_unset(owned, dnnl_memory_desc_get_size(wanted), 1));
        TRY(onednn_reorder(layout_view_of(&given), weight, wanted, false, *owned));
        *out = *owned;
    }
out:
    layout_free(&given);
    return status;
}

static grail_status convolve(const conv_shape *shape, dnnl_data_type_t type, const void *x,
                             const void *weight, const float *bias, bool accumulate, double ceiling,
                             float *y)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    layout of_bias = {0};
    void *ordered = NULL;
    void *own_weight = NULL;
    TRY(describe_convolution(CONVOLUTION_OUTPUT, shape, type, bias != NULL, accumulate, ceiling,
                             &o));
    TRY(order_weight(shape, type, &o, weight, &own_weight, &ordered));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_SRC, dnnl_query_src_md, x));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, ordered));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_DST, dnnl_query_dst_md, y));
    if (bias != NULL) {
        TRY(layout_of_bias(shape, &of_bias));
        TRY(kernel_call_add(&o, DNNL_ARG_BIAS, layout_view_of(&of_bias), bias));
    }
    TRY(kernel_call_run(&o));
out:
    kernel_call_fini(&o);
    layout_free(&of_bias);
    memory_free(own_weight);
    return status;
}

grail_status onednn_convolve(const conv_shape *shape, const float *x, const float *weight,
                             const float *bias, bool accumulate, double ceiling, float *y)
{
    return convolve(shape, dnnl_f32, x, weight, bias, accumulate, ceiling, y);
}

grail_status onednn_convolve_bf16(const conv_shape *shape, const void *x, const void *weight,
                                  const float *bias, bool accumulate, double ceiling, float *y)
{
    return convolve(shape, dnnl_bf16, x, weight, bias, accumulate, ceiling, y);
}

grail_status onednn_input_gradient(const conv_shape *shape, const float *weight, const float *dy,
                                   float *dx)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    void *ordered = NULL;
    void *own_weight = NULL;
    TRY(describe_convolution(CONVOLUTION_INPUT_GRADIENT, shape, dnnl_f32, false, false, 0.0, &o));
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
    TRY(describe_convolution(CONVOLUTION_WEIGHT_GRADIENT, shape, dnnl_f32, false, false, 0.0, &o));
    const layout_view of_made = kernel_call_layout(&o, dnnl_query_diff_weights_md);
    TRY(memory_new_unset(&made, dnnl_memory_desc_get_size(of_made), 1));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_SRC, dnnl_query_src_md, x));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, dy));
    TRY(kernel_call_add(&o, DNNL_ARG_DIFF_WEIGHTS, of_made, made));
    TRY(kernel_call_run(&o));
    TRY(layout_of_weight(shape, dnnl_f32, false, &wanted));
    TRY(onednn_reorder(of_made, made, layout_view_of(&wanted), true, dweight));
out:
    kernel_call_fini(&o);
    layout_free(&wanted);
    memory_free(made);
    return status;
}

grail_status onednn_maximum(const conv_shape *shape, const float *x, float *y)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    dnnl_primitive_attr_t attributes = NULL;
    layout from = {0};
    layout to = {0};
    const window_steps w = window_steps_of(shape);
    TRY(layout_of_images(shape->samples, shape->in, shape->channels_in, dnnl_f32, &from));
    TRY(layout_of_images(shape->samples, shape->out, shape->channels_out, dnnl_f32, &to));
    TRY(onednn_attributes_new(false, 0.0, &attributes));
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
