/* Products of bf16 with f32 sums by oneDNN, on AMX or AVX-512. */
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_kernel.h"

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

grail_status layout_of_right_factor(int64_t out, int64_t in, dnnl_format_tag_t order, layout *made)
{
    const dnnl_dims_t dims = {in, out};
    return onednn_checked(layout_new(made, 2, dims, dnnl_bf16, order), "describing a weight");
}

grail_status kernel_call_product(int64_t rows, int64_t in, int64_t out, bool has_bias,
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
    TRY(onednn_attributes_new(accumulate, false, &attributes));
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

grail_status layout_of_ordered_factor(int64_t rows, int64_t out, int64_t in, layout *made)
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

static grail_status add_bias(int64_t out, const float *bias, kernel_call *o)
{
    grail_status status = GRAIL_OK;
    layout l = {0};
    if (bias != NULL) {
        TRY(layout_of_rows(1, out, dnnl_f32, &l));
        TRY(kernel_call_add(o, DNNL_ARG_BIAS, layout_view_of(&l), bias));
    }
out:
    layout_free(&l);
    return status;
}

/* Y[rows, out] (+)= X[rows, in] W + 1 bias, W as `weight` says. */
static grail_status multiply(int64_t rows, int64_t in, int64_t out, const void *x,
                             layout_view weight, const void *w, const float *bias, bool accumulate,
                             float *y)
{
    grail_status status = GRAIL_OK;
    kernel_call o = {0};
    TRY(kernel_call_product(rows, in, out, bias != NULL, accumulate, weight, &o));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_SRC, dnnl_query_src_md, x));
    TRY(kernel_call_add(&o, DNNL_ARG_WEIGHTS, weight, w));
    TRY(kernel_call_add_wanted(&o, DNNL_ARG_DST, dnnl_query_dst_md, y));
    TRY(add_bias(out, bias, &o));
    TRY(kernel_call_run(&o));
out:
    kernel_call_fini(&o);
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
