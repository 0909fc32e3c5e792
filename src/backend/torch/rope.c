/* Rotary embedding. */
#include "backend/torch/kernels.h"

#include "base/memory.h"

#include <string.h>

/* What a table is made of; the frequencies or angles follow it. */
typedef struct table_key {
    int64_t length, turned, backward, has_angles;
    double factor;
} table_key;

enum { MOST_KEPT = 1 << 20 }; /* angles of a table */

/* first, first + 1, ... as a column of f64 */
static torch_tensor counted(torch_frame *f, int64_t first, int64_t count)
{
    const torch_tensor ones = torch_fill(f, torch_empty(f, GRAIL_DTYPE_F64, count, 1), 1.0);
    return torch_shifted(f,
                         torch_call(f, "aten::cumsum", "", A_TENSOR(ones), AN_INTEGER(0), NOTHING),
                         (double)first - 1.0);
}

/* Row t has what the two halves of a head are multiplied by at position first + t, cos twice, and
 * what then comes from the other half, -sin and sin: [length, 3 turned / 2], as cos comes once. */
static torch_tensor make_table(torch_frame *f, const rope_shape *s)
{
    const int64_t half = s->turned / 2;
    const double sine = s->backward ? -s->factor : s->factor;
    const torch_tensor angles =
        s->angles != NULL
            ? torch_reshaped(
                  f, torch_list(f, GRAIL_DTYPE_F64, s->length * half, s->angles + s->first * half),
                  2, (int64_t[]){s->length, half}, (int64_t[]){half, 1}, 0)
            : torch_times(f, counted(f, s->first, s->length),
                          torch_list(f, GRAIL_DTYPE_F64, half, s->frequency));
    const torch_tensor sines = torch_unary(f, "aten::sin", angles);
    const torch_tensor all =
        torch_call(f, "aten::cat", "",
                   WHOLE_TENSORS(torch_scaled(f, torch_unary(f, "aten::cos", angles), s->factor),
                                 torch_scaled(f, sines, -sine), torch_scaled(f, sines, sine)),
                   AN_INTEGER(1));
    return torch_as(f, GRAIL_DTYPE_F32, all);
}

/* The one of an earlier batch, or a new one: of whole sequences alone, since each token behind one
 * has its own. */
static torch_tensor table_of(torch_frame *f, const rope_shape *s)
{
    const int64_t rows = s->angles != NULL ? s->length : 1;
    const size_t list = (size_t)(s->turned / 2 * rows) * sizeof(double);
    const table_key key = {s->length, s->turned, s->backward, s->angles != NULL, s->factor};
    unsigned char *bytes = NULL;
    torch_tensor t = NULL;
    if (s->first != 0 || s->length * s->turned > MOST_KEPT ||
        memory_new_unset(&bytes, sizeof key + list, 1) != GRAIL_OK) {
        return make_table(f, s);
    }
    memcpy(bytes, &key, sizeof key);
    memcpy(bytes + sizeof key, s->angles != NULL ? s->angles : s->frequency, list);
    t = torch_kept(f, GRAIL_DTYPE_F32, sizeof key + list, bytes);
    if (t == NULL) {
        t = make_table(f, s);
        torch_keep(f, GRAIL_DTYPE_F32, sizeof key + list, bytes, t);
    }
    memory_free(bytes);
    return t;
}

KERNEL(rope)
{
    const rope_shape *s = o->with.rope;
    const matrix x = o->m[0];
    const int64_t half = s->turned / 2;
    if (matrix_count(x) == 0 || half == 0) {
        return;
    }
    const torch_tensor table = table_of(f, s);
    const int64_t apart = s->neighbours ? 1 : half; /* the two of a pair */
    const int64_t next = s->neighbours ? 2 : 1;     /* pair */
    const torch_tensor own = torch_reshaped(f, table, 4, (int64_t[]){s->length, 1, 1, half},
                                            (int64_t[]){3 * half, 0, 0, 1}, 0);
    const torch_tensor other = torch_reshaped(f, table, 4, (int64_t[]){s->length, 1, 2, half},
                                              (int64_t[]){3 * half, 0, half, 1}, half);
    const torch_tensor halves =
        torch_view(f, x, 5, (int64_t[]){s->sequences, s->length, x.columns / s->head_dim, 2, half},
                   (int64_t[]){s->length * x.columns, x.columns, s->head_dim, apart, next});
    const torch_tensor exchanged =
        torch_call(f, "aten::roll", "", A_TENSOR(halves), INTEGERS(1), INTEGERS(3));
    if (torch_is_narrow(x)) { /* rounded once */
        const torch_tensor turned = torch_times(f, halves, own);
        torch_add_times(f, exchanged, other, 1.0, turned);
        torch_copy(f, turned, halves);
    } else {
        torch_times_into(f, halves, own, halves);
        torch_add_times(f, exchanged, other, 1.0, halves);
    }
}
