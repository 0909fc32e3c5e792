#include "exec/compute.h"

#include "base/option_values.h"
#include "comm/comm.h"
#include "graph/operators.h"

#include <string.h>

const char *compute_backend(const grail_compute *compute)
{
    return compute == NULL || compute->backend == NULL ? "cpu" : compute->backend;
}

/* What may be faster than f32: products of 16 bits where most weights are stored so, and products
 * of f32 by parts where most are in 32 bits and of Linears; each where there are so many that
 * products take the time, since in small networks what is around them costs more than they save. */
typedef enum gain { GAIN_NONE, GAIN_BF16, GAIN_F16, GAIN_PARTS } gain;

static gain possible_gain(const grail_model *model)
{
    enum { LEAST_ELEMENTS = 1 << 25, LEAST_BY_PARTS = 1 << 20 };
    const graph *g = model->graph;
    int64_t all = 0;
    int64_t narrow = 0;
    int64_t of_f16 = 0;
    int64_t of_linears = 0;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (node_is_map(n)) {
            const int64_t elements = model_parameter_elements(model, n->weight);
            all += elements;
            const grail_dtype type = model->tensors[n->weight]->dtype;
            narrow += dtype_bits(type) == 16 ? elements : 0;
            of_f16 += type == GRAIL_DTYPE_F16 ? elements : 0;
            of_linears += node_is_linear(n) && dtype_bits(type) >= 32 ? elements : 0;
        }
    }
    const bool is_narrow = narrow > all / 2 && all >= LEAST_ELEMENTS;
    return is_narrow ? of_f16 > narrow / 2 ? GAIN_F16 : GAIN_BF16
           : of_linears > all / 2 && of_linears > LEAST_BY_PARTS ? GAIN_PARTS
                                                                 : GAIN_NONE;
}

const char *compute_precision(const grail_compute *compute, const grail_model *model)
{
    if (compute == NULL || compute->precision == NULL || strcmp(compute->precision, "auto") != 0) {
        return compute == NULL ? NULL : compute->precision;
    }
    const char *name = compute_backend(compute);
    const gain found = possible_gain(model);
    if (found == GAIN_PARTS) {
        return backend_prefers(name, "bf16x3") ? "bf16x3" : NULL;
    }
    return found == GAIN_F16 && backend_prefers(name, "f16")     ? "f16"
           : found != GAIN_NONE && backend_prefers(name, "bf16") ? "bf16"
                                                                 : NULL;
}

const char *compute_statistics_precision(const grail_compute *compute, const grail_model *model)
{
    const char *precision = compute_precision(compute, model);
    const bool is_chosen = precision != NULL && strcmp(compute->precision, "auto") == 0;
    return is_chosen && strcmp(precision, "bf16") == 0 &&
                   backend_prefers(compute_backend(compute), "bf16-gram")
               ? "bf16-gram"
               : precision;
}

grail_status compute_open(const grail_compute *compute, const grail_model *model, backend **out)
{
    const backend_options options = {.precision = compute_precision(compute, model)};
    if (compute != NULL) {
        CHECK(OPTION_ROOM_OF(grail_compute, compute));
    }
    if (compute != NULL && comm_is_shared(compute->comm)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "this measurement is not shared out over ranks yet, and there are %d; "
                         "start one process",
                         comm_size(compute->comm));
    }
    return backend_open(compute_backend(compute), &options, out);
}
