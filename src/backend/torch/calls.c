#include "backend/torch/calls.h"

#include "backend/torch/device.h"

#include <stdio.h>
#include <string.h>

enum { MOST_VALUES = 24 };

bool torch_is_cuda(const backend *b)
{
    return strcmp(b->kind->name, "torch:cuda") == 0;
}

torch_device torch_device_of(const backend *b)
{
    return torch_is_cuda(b) ? (torch_device){torch.aoti_torch_device_type_cuda(), b->device}
                            : torch_device_host();
}

torch_device torch_device_host(void)
{
    return (torch_device){torch.aoti_torch_device_type_cpu(), -1};
}

grail_status torch_check_context(const backend *b)
{
    const char *loss = torch_gpu_loss();
    return loss == NULL || !torch_is_cuda(b) ? GRAIL_OK
                                             : error_set(GRAIL_ERROR_INTERNAL, "%s", loss);
}

torch_frame torch_begin(const backend *owner)
{
    return (torch_frame){.owner = owner, .status = torch_check_context(owner)};
}

/* Where the context is lost that would fail, too, and tell so. */
void torch_delete(const backend *owner, torch_tensor t)
{
    if (torch_gpu_loss() == NULL || !torch_is_cuda(owner)) {
        (void)torch.aoti_torch_delete_tensor_object(t);
    }
}

void torch_forget(torch_frame *f, int count)
{
    while (f->count > count) {
        torch_delete(f->owner, f->made[--f->count]);
    }
}

grail_status torch_end(torch_frame *f)
{
    torch_forget(f, 0);
    return f->status;
}

/* A release that keeps its texts for standard error leaves what the runtime says. A call that found
 * no room has given back what torch kept for later, so little is free then. */
static bool looks_full(const backend *b, int64_t free, int64_t total)
{
    return torch.torch_exception_get_what_without_backtrace == NULL && torch_is_cuda(b) &&
           total > 0 && free < total / 4;
}

static void note_failure(torch_frame *f, const char *what)
{
    const backend *b = f->owner;
    const char *text = torch_library_failure();
    const char *missing = NULL;
    int64_t free = -1;
    int64_t total = -1;
    if (torch_is_cuda(b)) {
        torch_gpu_memory(b->device, &free, &total, &missing);
    }
    const bool full = torch_text_tells_full(text) || looks_full(b, free, total);
    f->status = error_set(full ? GRAIL_ERROR_MEMORY : GRAIL_ERROR_INTERNAL,
                          "the backend '%s': %s failed: %.*s", b->kind->name, what,
                          (int)strcspn(text, "\n"), text);
    if (full && total > 0) {
        error_append("; %lld of %lld MiB of its memory are free", (long long)(free >> 20),
                     (long long)(total >> 20));
    }
    const bool told = torch_text_tells_loss(text);
    if (told || (missing != NULL && torch_text_tells_loss(missing))) {
        error_append("%s%s; the context of the GPU is lost, so only a new process can go on",
                     told ? "" : "; ", told ? "" : missing);
        f->status = GRAIL_ERROR_INTERNAL;
        torch_gpu_note_loss(grail_error_message());
    }
}

/* Whether nothing has failed; `code` is what a function of torch returned. */
static bool succeeded(torch_frame *f, int code, const char *what)
{
    if (f->status == GRAIL_OK && code != 0) {
        note_failure(f, what);
    }
    return f->status == GRAIL_OK;
}

/* The frame owns the tensor from here on. */
static torch_tensor keep(torch_frame *f, torch_tensor t)
{
    if (f->count == TORCH_MADE_MOST) {
        torch_delete(f->owner, t);
        f->status = error_set(GRAIL_ERROR_INTERNAL, "an operation of '%s' makes too many tensors",
                              f->owner->kind->name);
        return NULL;
    }
    f->made[f->count++] = t;
    return t;
}

/* -- tensors ----------------------------------------------------------------------------------- */

int32_t torch_type(grail_dtype type)
{
    switch (type) {
    case GRAIL_DTYPE_F64:
        return torch.aoti_torch_dtype_float64();
    case GRAIL_DTYPE_I32:
        return torch.aoti_torch_dtype_int32();
    case GRAIL_DTYPE_I64:
        return torch.aoti_torch_dtype_int64();
    case GRAIL_DTYPE_BF16:
        return torch.aoti_torch_dtype_bfloat16();
    case GRAIL_DTYPE_F16:
        return torch.aoti_torch_dtype_float16();
    case GRAIL_DTYPE_U8:
        return torch.aoti_torch_dtype_uint8();
    default:
        return torch.aoti_torch_dtype_float32();
    }
}

/* A GPU knows no device of an address behind the end of memory, so nothing has memory of its own.
 */
static torch_tensor over_memory(torch_frame *f, void *memory, torch_device where, grail_dtype type,
                                int rank, const int64_t *shape, const int64_t *strides)
{
    torch_tensor t = NULL;
    bool is_empty = false;
    for (int i = 0; i < rank; i++) {
        is_empty = is_empty || shape[i] == 0;
    }
    if (f->status != GRAIL_OK) {
        return NULL;
    }
    const int code = is_empty
                         ? torch.aoti_torch_empty_strided(rank, shape, strides, torch_type(type),
                                                          where.type, where.index, &t)
                         : torch.aoti_torch_create_tensor_from_blob_v2(
                               memory, rank, shape, strides, 0, torch_type(type), where.type,
                               where.index, &t, torch.aoti_torch_layout_strided(), NULL, 0);
    return succeeded(f, code, "a view of memory") ? keep(f, t) : NULL;
}

torch_tensor torch_view(torch_frame *f, matrix m, int rank, const int64_t *shape,
                        const int64_t *strides)
{
    return matrix_exists(m)
               ? over_memory(f, m.memory, torch_device_of(f->owner), m.type, rank, shape, strides)
               : NULL;
}

torch_tensor torch_matrix(torch_frame *f, matrix m)
{
    return torch_view(f, m, 2, (int64_t[]){m.rows, m.columns}, (int64_t[]){m.stride, 1});
}

bool torch_is_narrow(matrix m)
{
    return element_size(m.type) == 2;
}

torch_tensor torch_widened(torch_frame *f, matrix m, torch_tensor t)
{
    return torch_is_narrow(m) ? torch_as(f, GRAIL_DTYPE_F32, t) : t;
}

torch_tensor torch_wide(torch_frame *f, matrix m)
{
    return torch_widened(f, m, torch_matrix(f, m));
}

torch_tensor torch_reshaped(torch_frame *f, torch_tensor t, int rank, const int64_t *shape,
                            const int64_t *strides, int64_t offset)
{
    torch_tensor out = NULL;
    return f->status == GRAIL_OK && succeeded(f,
                                              torch.aoti_torch__reinterpret_tensor(
                                                  t, rank, shape, strides, offset, &out),
                                              "another view")
               ? keep(f, out)
               : NULL;
}

torch_tensor torch_transposed(torch_frame *f, torch_tensor t)
{
    int64_t *shape = NULL;
    int64_t *strides = NULL;
    if (f->status != GRAIL_OK || !succeeded(f, torch.aoti_torch_get_sizes(t, &shape), "sizes") ||
        !succeeded(f, torch.aoti_torch_get_strides(t, &strides), "strides")) {
        return NULL;
    }
    return torch_reshaped(f, t, 2, (int64_t[]){shape[1], shape[0]},
                          (int64_t[]){strides[1], strides[0]}, 0);
}

/* Unset memory of the device. */
static torch_tensor new_tensor(torch_frame *f, grail_dtype type, int rank, const int64_t *shape,
                               const int64_t *strides)
{
    const torch_device where = torch_device_of(f->owner);
    torch_tensor t = NULL;
    char what[64] = "";
    if (f->status != GRAIL_OK) {
        return NULL;
    }
    const int code = torch.aoti_torch_empty_strided(rank, shape, strides, torch_type(type),
                                                    where.type, where.index, &t);
    if (code != 0) {
        snprintf(what, sizeof what, "taking %zu bytes of memory",
                 (size_t)(shape[0] * strides[0]) * dtype_bits(type) / 8);
    }
    return succeeded(f, code, what) ? keep(f, t) : NULL;
}

torch_tensor torch_empty(torch_frame *f, grail_dtype type, int64_t rows, int64_t columns)
{
    return new_tensor(f, type, 2, (int64_t[]){rows, columns}, (int64_t[]){columns, 1});
}

torch_tensor torch_values(torch_frame *f, grail_dtype type, int64_t count, const void *values)
{
    const torch_tensor t = new_tensor(f, type, 1, &count, (int64_t[]){1});
    const int before = f->count;
    torch_copy(f,
               over_memory(f, (void *)(uintptr_t)values, torch_device_host(), type, 1, &count,
                           (int64_t[]){1}),
               t);
    torch_forget(f, before);
    return f->status == GRAIL_OK ? t : NULL;
}

torch_tensor torch_host_values(torch_frame *f, grail_dtype type, int64_t rows, int64_t columns,
                               void *values)
{
    return over_memory(f, values, torch_device_host(), type, 2, (int64_t[]){rows, columns},
                       (int64_t[]){columns, 1});
}

torch_tensor torch_nothing(torch_frame *f)
{
    torch_tensor t = NULL;
    return f->status == GRAIL_OK &&
                   succeeded(f, torch.aoti_torch_new_uninitialized_tensor(&t), "no tensor")
               ? keep(f, t)
               : NULL;
}

torch_tensor torch_number(torch_frame *f, double value)
{
    torch_tensor t = NULL;
    return f->status == GRAIL_OK &&
                   succeeded(f, torch.aoti_torch_scalar_to_tensor_float64(value, &t), "a number")
               ? keep(f, t)
               : NULL;
}

/* -- calls ------------------------------------------------------------------------------------- */

/* An argument that may be missing lies in memory that torch gives back. */
static torch_value boxed(torch_frame *f, torch_value value)
{
    torch_value *box = torch._Znwm(sizeof *box);
    if (box == NULL) {
        f->status = error_set(GRAIL_ERROR_MEMORY, "out of memory");
        return 0;
    }
    *box = value;
    return (torch_value)(uintptr_t)box;
}

/* The call takes the handle that it gets, so it gets one of its own. */
static torch_value handle_of(torch_frame *f, torch_tensor t)
{
    torch_tensor own = NULL;
    return succeeded(f, torch.aoti_torch_new_tensor_handle(t, &own), "a handle")
               ? (torch_value)(uintptr_t)own
               : 0;
}

static torch_value list_of(torch_frame *f, const torch_argument *a)
{
    void *list = NULL;
    if (!succeeded(f, torch.torch_new_list_reserve_size((size_t)a->count, &list), "a list")) {
        return 0;
    }
    for (int i = 0; i < a->count && f->status == GRAIL_OK; i++) {
        torch_value value = 0;
        if (a->kind == TORCH_WHOLE_TENSORS) {
            value = handle_of(f, a->is.tensors[i]);
        } else if (a->kind != TORCH_TENSORS) {
            value = (torch_value)a->is.integers[i];
        } else if (a->is.tensors[i] != NULL) {
            value = boxed(f, handle_of(f, a->is.tensors[i]));
        }
        (void)succeeded(f, torch.torch_list_push_back(list, value), "a list");
    }
    return (torch_value)(uintptr_t)list;
}

static torch_value text_of(torch_frame *f, const char *text)
{
    void *handle = NULL;
    (void)succeeded(f, torch.torch_new_string_handle(text, strlen(text), &handle), "a text");
    return (torch_value)(uintptr_t)handle;
}

static torch_value bits_of(double number)
{
    torch_value value = 0;
    memcpy(&value, &number, sizeof number);
    return value;
}

static torch_value value_of(torch_frame *f, const torch_argument *a)
{
    switch (a->kind) {
    case TORCH_TENSOR:
        return handle_of(f, a->is.tensor);
    case TORCH_OPTIONAL_TENSOR:
        return a->is.tensor == NULL ? 0 : boxed(f, handle_of(f, a->is.tensor));
    case TORCH_INTEGER:
        return (torch_value)a->is.integer;
    case TORCH_OPTIONAL_INTEGER:
        return boxed(f, (torch_value)a->is.integer);
    case TORCH_REAL:
        return bits_of(a->is.real);
    case TORCH_OPTIONAL_REAL:
        return boxed(f, bits_of(a->is.real));
    case TORCH_INTEGERS:
    case TORCH_TENSORS:
    case TORCH_WHOLE_TENSORS:
        return list_of(f, a);
    case TORCH_OPTIONAL_INTEGERS:
        return boxed(f, list_of(f, a));
    case TORCH_TEXT:
        return text_of(f, a->is.text);
    case TORCH_NONE:
        break;
    }
    return 0;
}

torch_tensor torch_call_with(torch_frame *f, const char *name, const char *overload, int results,
                             torch_tensor *out, const torch_argument *arguments, size_t count)
{
    torch_value values[MOST_VALUES] = {0};
    torch_tensor first = NULL;
    char what[96];
    for (int i = 0; out != NULL && i < results; i++) {
        out[i] = NULL;
    }
    for (size_t i = 0; i < count && f->status == GRAIL_OK; i++) {
        values[i] = value_of(f, &arguments[i]);
    }
    snprintf(what, sizeof what, "%s%s%s", name, overload[0] == 0 ? "" : ".", overload);
    if (f->status != GRAIL_OK ||
        !succeeded(f, torch.aoti_torch_call_dispatcher(name, overload, values), what)) {
        return NULL;
    }
    for (int i = 0; i < results; i++) {
        const torch_tensor t = keep(f, (torch_tensor)(uintptr_t)values[i]);
        first = i == 0 ? t : first;
        if (out != NULL) {
            out[i] = t;
        }
    }
    return first;
}

torch_tensor torch_take(torch_frame *f, torch_tensor t)
{
    torch_tensor own = NULL;
    return f->status == GRAIL_OK &&
                   succeeded(f, torch.aoti_torch_new_tensor_handle(t, &own), "a handle")
               ? own
               : NULL;
}

torch_tensor torch_own(torch_frame *f, torch_tensor t)
{
    return keep(f, t);
}

torch_tensor torch_shared(torch_frame *f, torch_tensor t)
{
    const torch_tensor own = torch_take(f, t);
    return own == NULL ? NULL : keep(f, own);
}

void torch_zero(torch_frame *f, torch_tensor t)
{
    if (f->status == GRAIL_OK) {
        (void)succeeded(f, torch.aoti_torch_zero_(t), "aten::zero_");
    }
}

void torch_copy(torch_frame *f, torch_tensor from, torch_tensor to)
{
    if (f->status == GRAIL_OK) {
        (void)succeeded(f, torch.aoti_torch_copy_(to, from, 0), "a copy");
    }
}

/* A function that each device has its own of. */
#define OF_DEVICE(f, name)                                                                         \
    (torch_is_cuda((f)->owner) ? torch.aoti_torch_cuda_##name : torch.aoti_torch_cpu_##name)

void torch_start_copy(torch_frame *f, torch_tensor from, torch_tensor to)
{
    if (f->status == GRAIL_OK) {
        (void)succeeded(f, torch.aoti_torch_copy_(to, from, 1), "a copy");
    }
}

torch_tensor torch_sum(torch_frame *f, torch_tensor a, torch_tensor b, double factor)
{
    torch_tensor t = NULL;
    return f->status == GRAIL_OK &&
                   succeeded(f, torch.aoti_torch_aten_subtract_Tensor(a, b, -factor, &t), "a sum")
               ? keep(f, t)
               : NULL;
}

/* Other operators that add in place take numbers that the dispatcher does not pass. */
void torch_add_times(torch_frame *f, torch_tensor a, torch_tensor b, double factor, torch_tensor to)
{
    const int64_t one = 1;
    const torch_tensor factors =
        over_memory(f, &factor, torch_device_host(), GRAIL_DTYPE_F64, 1, &one, &one);
    (void)torch_call_many(f, "aten::_foreach_addcmul_", "Tensor", 0, NULL, WHOLE_TENSORS(to),
                          WHOLE_TENSORS(a), WHOLE_TENSORS(b), A_TENSOR(factors));
}

void torch_add_product(torch_frame *f, torch_tensor a, torch_tensor b, double alpha, double beta,
                       torch_tensor c)
{
    if (f->status == GRAIL_OK) {
        (void)succeeded(f, OF_DEVICE(f, addmm_out)(c, c, a, b, beta, alpha), "aten::addmm.out");
    }
}

/* A processor multiplies f32 where values have 16 bits, which most have no fast products for: the
 * products of two such values are exact in f32. */
torch_tensor torch_operand(torch_frame *f, matrix m, torch_tensor t)
{
    const grail_dtype type = f->owner->kind->type;
    const torch_tensor rounded = m.type == type ? t : torch_as(f, type, t);
    return torch_is_cuda(f->owner) || element_size(type) != 2
               ? rounded
               : torch_as(f, GRAIL_DTYPE_F32, rounded);
}

torch_tensor torch_product_of(torch_frame *f, matrix a, torch_tensor left, matrix b,
                              torch_tensor right)
{
    const torch_tensor x = torch_operand(f, a, left);
    const torch_tensor y = torch_operand(f, b, right);
    return torch_is_cuda(f->owner) && element_size(f->owner->kind->type) == 2
               ? torch_call(f, "aten::mm", "dtype", A_TENSOR(x), A_TENSOR(y),
                            A_TYPE(GRAIL_DTYPE_F32))
               : torch_call(f, "aten::mm", "", A_TENSOR(x), A_TENSOR(y));
}

void torch_multiply(torch_frame *f, matrix a, torch_tensor left, matrix b, torch_tensor right,
                    double alpha, double beta, matrix c)
{
    const bool narrow = element_size(f->owner->kind->type) == 2 && a.type != GRAIL_DTYPE_F64;
    const torch_tensor out = torch_matrix(f, c);
    if (!narrow) {
        torch_add_product(f, left, right, alpha, beta, out);
    } else if (torch_is_cuda(f->owner) && torch_is_narrow(c)) {
        torch_add_product(f, torch_operand(f, a, left), torch_operand(f, b, right), alpha, beta,
                          out);
    } else {
        const torch_tensor product = torch_product_of(f, a, left, b, right);
        torch_copy(f, beta == 0.0 ? product : torch_sum(f, product, out, beta), out);
    }
}

torch_tensor torch_unary(torch_frame *f, const char *name, torch_tensor x)
{
    return torch_call(f, name, "", A_TENSOR(x));
}

torch_tensor torch_times(torch_frame *f, torch_tensor a, torch_tensor b)
{
    return torch_call(f, "aten::mul", "Tensor", A_TENSOR(a), A_TENSOR(b));
}

void torch_times_into(torch_frame *f, torch_tensor a, torch_tensor b, torch_tensor out)
{
    (void)torch_call(f, "aten::mul", "out", A_TENSOR(a), A_TENSOR(b), A_TENSOR(out));
}

void torch_limit(torch_frame *f, double low, double high, torch_tensor x, torch_tensor out)
{
    (void)torch_call(f, "aten::maximum", "out", A_TENSOR(x), A_TENSOR(torch_number(f, low)),
                     A_TENSOR(out));
    (void)torch_call(f, "aten::minimum", "out", A_TENSOR(out), A_TENSOR(torch_number(f, high)),
                     A_TENSOR(out));
}

void torch_put(torch_frame *f, torch_tensor mask, double value, torch_tensor t)
{
    (void)torch_call(f, "aten::masked_fill_", "Tensor", A_TENSOR(t), A_TENSOR(mask),
                     A_TENSOR(torch_number(f, value)));
}

torch_tensor torch_compared(torch_frame *f, const char *name, torch_tensor x, double bound)
{
    return torch_call(f, name, "Tensor", A_TENSOR(x), A_TENSOR(torch_number(f, bound)));
}

torch_tensor torch_scaled(torch_frame *f, torch_tensor a, double factor)
{
    torch_tensor t = NULL;
    return f->status == GRAIL_OK &&
                   succeeded(f, OF_DEVICE(f, mul_Scalar)(a, factor, &t), "aten::mul.Scalar")
               ? keep(f, t)
               : NULL;
}

torch_tensor torch_shifted(torch_frame *f, torch_tensor a, double by)
{
    torch_tensor t = NULL;
    return f->status == GRAIL_OK &&
                   succeeded(f, OF_DEVICE(f, add_Scalar)(a, by, 1.0, &t), "aten::add.Scalar")
               ? keep(f, t)
               : NULL;
}

torch_tensor torch_divided(torch_frame *f, torch_tensor a, torch_tensor b)
{
    return torch_call(f, "aten::div", "Tensor", A_TENSOR(a), A_TENSOR(b));
}

torch_tensor torch_sums(torch_frame *f, torch_tensor x, torch_argument dimensions)
{
    return torch_call(f, "aten::sum", "dim_IntList", A_TENSOR(x), dimensions, A_TRUTH(true),
                      MAYBE_TYPE(GRAIL_DTYPE_F64));
}

torch_tensor torch_fill(torch_frame *f, torch_tensor t, double value)
{
    if (f->status == GRAIL_OK) {
        (void)succeeded(f, OF_DEVICE(f, fill__Scalar)(t, value), "aten::fill_.Scalar");
    }
    return t;
}

torch_tensor torch_as(torch_frame *f, grail_dtype type, torch_tensor x)
{
    return torch_call(f, "aten::to", "dtype", A_TENSOR(x), A_TYPE(type), A_TRUTH(false),
                      A_TRUTH(true), NOTHING);
}

double torch_item(torch_frame *f, torch_tensor t)
{
    double value = 0.0;
    return f->status == GRAIL_OK &&
                   succeeded(f, torch.aoti_torch_item_float64(t, &value), "reading a number")
               ? value
               : 0.0;
}
