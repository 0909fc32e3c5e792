/* Calls of torch's operators on the matrices of an instance. A frame holds what is made during an
 * operation; after the first failure all that follows does nothing, so that a kernel looks at the
 * status once, at its end. */
#ifndef GRAIL_BACKEND_TORCH_CALLS_H
#define GRAIL_BACKEND_TORCH_CALLS_H

#include "backend/kind.h"
#include "backend/torch/library.h"

typedef struct torch_device {
    int32_t type, index; /* torch's codes; the index of a processor is -1 */
} torch_device;

bool torch_is_cuda(const backend *b);
torch_device torch_device_of(const backend *b);
torch_device torch_device_host(void);

enum { TORCH_MADE_MOST = 96, TORCH_DEVICES = 64 };

typedef struct torch_frame {
    const backend *owner;
    grail_status status; /* of the first failure */
    torch_tensor made[TORCH_MADE_MOST];
    int count;
} torch_frame;

/** Fails with the first error's message where the context of the owner's GPU is lost, as do all
 * frames then. */
grail_status torch_check_context(const backend *b) GRAIL_MUST_CHECK;
/** Frees a handle, unless the context is lost. */
void torch_delete(const backend *owner, torch_tensor t);

torch_frame torch_begin(const backend *owner);
/** Frees what was made and gives the status. */
grail_status torch_end(torch_frame *f);
/** Frees what was made since there were `count`: for loops. */
void torch_forget(torch_frame *f, int count);

/* -- tensors ----------------------------------------------------------------------------------- */

/** Whether values have 16 bits, so that what is computed in steps is f32 between them. */
bool torch_is_narrow(matrix m);
/** A matrix [rows, columns]; NULL for a missing one, as of all functions after a failure. */
torch_tensor torch_matrix(torch_frame *f, matrix m);
/** Its values, in f32 where those have 16 bits. */
torch_tensor torch_wide(torch_frame *f, matrix m);
/** The same of a tensor with the type of m. */
torch_tensor torch_widened(torch_frame *f, matrix m, torch_tensor t);
/** Memory of a matrix from its first element on in another shape; strides in elements. */
torch_tensor torch_view(torch_frame *f, matrix m, int rank, const int64_t *shape,
                        const int64_t *strides);
/** A tensor's memory in another shape. */
torch_tensor torch_reshaped(torch_frame *f, torch_tensor t, int rank, const int64_t *shape,
                            const int64_t *strides, int64_t offset);
torch_tensor torch_transposed(torch_frame *f, torch_tensor t); /* of two dimensions */
/** An unset tensor [rows, columns] of the device. */
torch_tensor torch_empty(torch_frame *f, grail_dtype type, int64_t rows, int64_t columns);
/** Host values as a tensor of the device, copied; of GRAIL_DTYPE_F64, I32 or I64. */
torch_tensor torch_values(torch_frame *f, grail_dtype type, int64_t count, const void *values);
/** The same, which is not written: it may be a copy that was made before. */
torch_tensor torch_list(torch_frame *f, grail_dtype type, int64_t count, const void *values);
/** Host values[rows, columns] as they lie, which must outlive the frame. */
torch_tensor torch_host_values(torch_frame *f, grail_dtype type, int64_t rows, int64_t columns,
                               void *values);
/** What torch_keep was given with the same key, which `type` is a part of; NULL where that is not
 * kept any more. It is not written. */
torch_tensor torch_kept(torch_frame *f, grail_dtype type, size_t bytes, const void *key);
/** Keeps a tensor, unless one of the two is large. */
void torch_keep(torch_frame *f, grail_dtype type, size_t bytes, const void *key, torch_tensor t);
/** `count` zeros of a type of matrices, which are not written. */
torch_tensor torch_zeros(torch_frame *f, grail_dtype type, int64_t count);
/** A tensor that is none, where an operator has no optional one. */
torch_tensor torch_nothing(torch_frame *f);
/** A number without dimensions, which takes the type of what it meets. */
torch_tensor torch_number(torch_frame *f, double value);

/* -- arguments --------------------------------------------------------------------------------- */

typedef enum torch_argument_kind {
    TORCH_TENSOR,
    TORCH_OPTIONAL_TENSOR, /* NULL: none */
    TORCH_NONE,
    TORCH_INTEGER, /* also a truth value and the code of a type */
    TORCH_OPTIONAL_INTEGER,
    TORCH_REAL,
    TORCH_OPTIONAL_REAL,
    TORCH_INTEGERS,
    TORCH_OPTIONAL_INTEGERS,
    TORCH_TENSORS,       /* optional ones; NULL: none */
    TORCH_WHOLE_TENSORS, /* none of which is missing */
    TORCH_TEXT
} torch_argument_kind;

typedef struct torch_argument {
    torch_argument_kind kind;
    int count; /* of integers or tensors */
    union {
        torch_tensor tensor;
        int64_t integer;
        double real;
        const int64_t *integers;
        const torch_tensor *tensors;
        const char *text;
    } is;
} torch_argument;

#define A_TENSOR(t) ((torch_argument){.kind = TORCH_TENSOR, .is.tensor = (t)})
#define MAYBE_TENSOR(t) ((torch_argument){.kind = TORCH_OPTIONAL_TENSOR, .is.tensor = (t)})
#define NOTHING ((torch_argument){.kind = TORCH_NONE})
#define AN_INTEGER(i) ((torch_argument){.kind = TORCH_INTEGER, .is.integer = (i)})
#define A_TRUTH(b) ((torch_argument){.kind = TORCH_INTEGER, .is.integer = (b) ? 1 : 0})
#define MAYBE_INTEGER(i) ((torch_argument){.kind = TORCH_OPTIONAL_INTEGER, .is.integer = (i)})
#define A_REAL(d) ((torch_argument){.kind = TORCH_REAL, .is.real = (d)})
#define MAYBE_REAL(d) ((torch_argument){.kind = TORCH_OPTIONAL_REAL, .is.real = (d)})
#define A_TYPE(type) ((torch_argument){.kind = TORCH_INTEGER, .is.integer = torch_type(type)})
#define MAYBE_TYPE(type) MAYBE_INTEGER(torch_type(type))
#define INTEGERS(...)                                                                              \
    ((torch_argument){.kind = TORCH_INTEGERS,                                                      \
                      .count = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),          \
                      .is.integers = (int64_t[]){__VA_ARGS__}})
#define MAYBE_INTEGERS(...)                                                                        \
    ((torch_argument){.kind = TORCH_OPTIONAL_INTEGERS,                                             \
                      .count = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),          \
                      .is.integers = (int64_t[]){__VA_ARGS__}})
#define TENSORS(...)                                                                               \
    ((torch_argument){.kind = TORCH_TENSORS,                                                       \
                      .count =                                                                     \
                          (int)(sizeof((torch_tensor[]){__VA_ARGS__}) / sizeof(torch_tensor)),     \
                      .is.tensors = (torch_tensor[]){__VA_ARGS__}})
#define WHOLE_TENSORS(...)                                                                         \
    ((torch_argument){.kind = TORCH_WHOLE_TENSORS,                                                 \
                      .count =                                                                     \
                          (int)(sizeof((torch_tensor[]){__VA_ARGS__}) / sizeof(torch_tensor)),     \
                      .is.tensors = (torch_tensor[]){__VA_ARGS__}})
#define A_TEXT(t) ((torch_argument){.kind = TORCH_TEXT, .is.text = (t)})

/** The code of a type of matrices, or of GRAIL_DTYPE_I32 or I64. */
int32_t torch_type(grail_dtype type);

/* -- calls ------------------------------------------------------------------------------------- */

/** Calls an operator, such as "aten::mm", of an overload, "" for the first one. Tensors among the
 * arguments are borrowed. Returns its first result; the frame owns all `results`, which are
 * tensors, and out[results] are the others where it is not NULL. */
torch_tensor torch_call_with(torch_frame *f, const char *name, const char *overload, int results,
                             torch_tensor *out, const torch_argument *arguments, size_t count);
#define torch_call(f, name, overload, ...)                                                         \
    torch_call_with((f), (name), (overload), 1, NULL, (torch_argument[]){__VA_ARGS__},             \
                    sizeof((torch_argument[]){__VA_ARGS__}) / sizeof(torch_argument))
#define torch_call_many(f, name, overload, results, out, ...)                                      \
    torch_call_with((f), (name), (overload), (results), (out), (torch_argument[]){__VA_ARGS__},    \
                    sizeof((torch_argument[]){__VA_ARGS__}) / sizeof(torch_argument))

/** A handle of the caller's: aoti_torch_delete_tensor_object. */
torch_tensor torch_take(torch_frame *f, torch_tensor t);
/** Gives a handle to the frame. */
torch_tensor torch_own(torch_frame *f, torch_tensor t);
/** The frame's own handle of a tensor. */
torch_tensor torch_shared(torch_frame *f, torch_tensor t);
void torch_zero(torch_frame *f, torch_tensor t);
/** to <- from, converted. */
void torch_copy(torch_frame *f, torch_tensor from, torch_tensor to);
/** The same from pinned memory of the host, which need not have ended when it returns. */
void torch_start_copy(torch_frame *f, torch_tensor from, torch_tensor to);
/** a + factor b as a new tensor. */
torch_tensor torch_sum(torch_frame *f, torch_tensor a, torch_tensor b, double factor);
/** to <- to + factor a b, element by element, in place. */
void torch_add_times(torch_frame *f, torch_tensor a, torch_tensor b, double factor,
                     torch_tensor to);
/** to <- to + factor x, in place; `to` is f64. */
void torch_add(torch_frame *f, torch_tensor x, double factor, torch_tensor to);
/** c <- alpha a b + beta c, of one type. */
void torch_add_product(torch_frame *f, torch_tensor a, torch_tensor b, double alpha, double beta,
                       torch_tensor c);
/** op(a) op(b) of values, whose operands have the owner's type: a new tensor in f32 at least. */
torch_tensor torch_product_of(torch_frame *f, matrix a, torch_tensor left, matrix b,
                              torch_tensor right);
/** c <- alpha op(a) op(b) + beta c: of f64, or of values with alpha = 1. */
void torch_multiply(torch_frame *f, matrix a, torch_tensor left, matrix b, torch_tensor right,
                    double alpha, double beta, matrix c);
/** A parameter in the type in which the owner multiplies values. */
torch_tensor torch_operand(torch_frame *f, matrix m, torch_tensor t);
/** Operators of one or two tensors, as new tensors. */
torch_tensor torch_unary(torch_frame *f, const char *name, torch_tensor x);
torch_tensor torch_times(torch_frame *f, torch_tensor a, torch_tensor b);
torch_tensor torch_scaled(torch_frame *f, torch_tensor a, double factor);
torch_tensor torch_shifted(torch_frame *f, torch_tensor a, double by);
/** out <- a b, rounded to the type of `out`, which may be one of them. */
void torch_times_into(torch_frame *f, torch_tensor a, torch_tensor b, torch_tensor out);
/** out <- min(max(x, low), high), NaN where x is; `out` may be x. (aten::clamp takes no numbers of
 * the host for a device.) */
void torch_limit(torch_frame *f, double low, double high, torch_tensor x, torch_tensor out);
/** t <- value where the mask is set. (aten::where would wait for a number to reach a device.) */
void torch_put(torch_frame *f, torch_tensor mask, double value, torch_tensor t);
/** Whether elements are above or below a bound, or like it: "aten::gt" and its kind. */
torch_tensor torch_compared(torch_frame *f, const char *name, torch_tensor x, double bound);
torch_tensor torch_divided(torch_frame *f, torch_tensor a, torch_tensor b);
/** Sums over `dimensions`, MAYBE_INTEGERS, which stay with length 1, in f64. */
torch_tensor torch_sums(torch_frame *f, torch_tensor x, torch_argument dimensions);
/** Sets all elements and gives the tensor back. */
torch_tensor torch_fill(torch_frame *f, torch_tensor t, double value);
/** A copy in another type. */
torch_tensor torch_as(torch_frame *f, grail_dtype type, torch_tensor x);
/** The one element of a tensor, on the host, which waits for it; 0 after a failure. */
double torch_item(torch_frame *f, torch_tensor t);

/** Columns of a strip of a triangle [n, n] that is computed in strips: an eighth, at least 128. */
static inline int64_t torch_strip(int64_t n)
{
    return n > 8 * 128 ? n / 8 : 128;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
