#include "support/counted.h"

#include "backend/kind.h"
#include "backend/torch/calls.h"
#include "support/support.h"

#include <stdlib.h>

transfers counted;

static backend_kind own, own_torch;

static const backend_kind *original(const backend *b)
{
    return b->kind == &own ? &backend_cpu : &backend_torch_cpu;
}

static int64_t bytes_of(matrix m)
{
    return matrix_count(m) * (int64_t)element_size(m.type);
}

static grail_status upload(matrix m, const void *values)
{
    counted.uploads++;
    counted.bytes_up += bytes_of(m);
    return original(m.owner)->upload(m, values);
}

static grail_status download(matrix m, void *values)
{
    counted.downloads++;
    counted.bytes_down += bytes_of(m);
    return original(m.owner)->download(m, values);
}

/* Lists on PyTorch, which the program is linked to call in place of torch_values. */
torch_tensor __real_torch_values(torch_frame *f, grail_dtype type, int64_t count, const void *v);
torch_tensor __wrap_torch_values(torch_frame *f, grail_dtype type, int64_t count, const void *v);

torch_tensor __wrap_torch_values(torch_frame *f, grail_dtype type, int64_t count, const void *v)
{
    counted.uploads++;
    return __real_torch_values(f, type, count, v);
}

static grail_status run(const operation *o)
{
    const operation_settings *w = &o->with;
    const bool reads = w->index != NULL || w->entropy != NULL;
    counted.readings += reads;
    if (o->m[0].owner->kind == &own) {
        counted.uploads += (w->rows != NULL) + (w->columns != NULL) + (w->labels != NULL);
    }
    return kind_slot(original(o->m[0].owner), o->slot)(o);
}

static backend_kind counting(const backend_kind *of, const char *name)
{
    backend_kind kind = *of;
    kind.name = name;
    kind.is_host = false;
    kind.batch_rows = 2048; /* as a device has, though no more than others have at a time */
    kind.upload = upload;
    kind.download = download;
    for (int i = 0; i < SLOT_COUNT; i++) {
        kind.slots[i] = kind_slot(of, (operation_slot)i) == NULL ? NULL : run;
    }
    return kind;
}

/* -- calls of PyTorch's operators -------------------------------------------------------------- */

#define COUNTING(FUNCTION)                                                                         \
    FUNCTION(aoti_torch_call_dispatcher, (const char *n, const char *o, torch_value *v),           \
             (n, o, v))                                                                            \
    FUNCTION(aoti_torch_copy_, (torch_tensor a, torch_tensor b, int32_t later), (a, b, later))     \
    FUNCTION(aoti_torch_zero_, (torch_tensor a), (a))                                              \
    FUNCTION(aoti_torch_cpu_addmm_out,                                                             \
             (torch_tensor o, torch_tensor c, torch_tensor a, torch_tensor b, double x, double y), \
             (o, c, a, b, x, y))                                                                   \
    FUNCTION(aoti_torch_aten_subtract_Tensor,                                                      \
             (torch_tensor a, torch_tensor b, double x, torch_tensor *o), (a, b, x, o))            \
    FUNCTION(aoti_torch_cpu_mul_Scalar, (torch_tensor a, double x, torch_tensor *o), (a, x, o))    \
    FUNCTION(aoti_torch_cpu_add_Scalar, (torch_tensor a, double x, double y, torch_tensor *o),     \
             (a, x, y, o))                                                                         \
    FUNCTION(aoti_torch_cpu_fill__Scalar, (torch_tensor a, double x), (a, x))

static torch_library uncounted;

#define FUNCTION(name, parameters, arguments)                                                      \
    static int counting_##name parameters                                                          \
    {                                                                                              \
        counted.calls++;                                                                           \
        return uncounted.name arguments;                                                           \
    }
COUNTING(FUNCTION)
#undef FUNCTION

static void count_calls(void)
{
    assert_ok(torch_library_load(false));
    uncounted = torch;
#define FUNCTION(name, parameters, arguments) torch.name = counting_##name;
    COUNTING(FUNCTION)
#undef FUNCTION
}

void counted_add(void)
{
    if (getenv("GRAIL_TORCH") != NULL) {
        count_calls();
    }
    own = counting(&backend_cpu, "counted");
    own_torch = counting(&backend_torch_cpu, "counted torch");
    assert_ok(backend_add(&own));
    assert_ok(backend_add(&own_torch));
}
