#include "arch/onnx_tables.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"

#include <math.h>
#include <string.h>

enum { TABLE_RANK = 4, MOST_VALUES = 1 << 26 };

typedef struct table {
    int rank;
    int64_t shape[TABLE_RANK];
    double *values; /* owned */
} table;

static bool is_table(const onnx_reading *r, int i)
{
    return onnx_has_input(r, i) && onnx_known_input(r, i)->form == ONNX_TABLE;
}

static bool is_constant(const onnx_reading *r, int i)
{
    const int64_t tensor = onnx_has_input(r, i) ? onnx_known_input(r, i)->tensor : -1;
    return tensor >= 0 && dtype_is_float(r->file->tensors[tensor].view.dtype);
}

bool onnx_makes_table(const onnx_reading *r)
{
    int64_t shape[ONNX_MOST_AXES];
    bool has_table = false;
    bool are_known = true;
    for (int i = 0; i < r->node->node.input_count; i++) {
        has_table = has_table || is_table(r, i);
        are_known = are_known && (is_table(r, i) || is_constant(r, i));
    }
    return onnx_node_is(r->node, "Transpose")
               ? is_table(r, 0) || (is_constant(r, 0) &&
                                    onnx_constant_shape(r, onnx_known_input(r, 0), shape) > 2)
           : onnx_node_is(r->node, "Resize") ? is_table(r, 0) || is_constant(r, 0)
           : onnx_node_is(r->node, "Concat") ? has_table && are_known
                                             : onnx_node_is(r->node, "Reshape") && is_table(r, 0);
}

static grail_status table_new(table *t, int64_t *count)
{
    bool fits = t->rank <= TABLE_RANK && shape_elements(t->rank, t->shape, count);
    for (int d = 0; fits && d < t->rank; d++) {
        fits = t->shape[d] > 0;
    }
    if (!fits || *count > MOST_VALUES) {
        return onnx_misfit("makes a table that is empty, of more than %d dimensions, or of more "
                           "than %d values",
                           TABLE_RANK, MOST_VALUES);
    }
    return memory_new(&t->values, (size_t)*count, sizeof t->values[0]);
}

/* *out <- a copy of input i, which is a table or a constant. */
static grail_status read_input(const onnx_reading *r, int i, table *out)
{
    grail_status status = GRAIL_OK;
    const onnx_known *k = onnx_known_input(r, i);
    int64_t shape[ONNX_MOST_AXES];
    int64_t count = 0;
    float *values = NULL;
    *out = (table){.rank = k->form == ONNX_TABLE ? k->rank : onnx_constant_shape(r, k, shape)};
    if (out->rank > TABLE_RANK || k->transposed) {
        return onnx_misfit("reads a constant of more than %d dimensions", TABLE_RANK);
    }
    memcpy(out->shape, k->form == ONNX_TABLE ? k->shape : shape,
           (size_t)out->rank * sizeof shape[0]);
    TRY(table_new(out, &count));
    if (k->form == ONNX_TABLE) {
        memcpy(out->values, k->table, (size_t)count * sizeof out->values[0]);
        return GRAIL_OK;
    }
    TRY(memory_new(&values, (size_t)count, sizeof values[0]));
    TRY(onnx_tensor_f32(&r->file->tensors[k->tensor], values));
    for (int64_t j = 0; j < count; j++) {
        out->values[j] = (double)values[j];
    }
out:
    memory_free(values);
    return status;
}

/* -- operators --------------------------------------------------------------------------------- */

static grail_status turn(const onnx_reading *r, const table *x, table *y)
{
    int count = 0;
    int64_t order[ONNX_MOST_AXES];
    int64_t step[TABLE_RANK] = {0}; /* of x, for each dimension of y */
    bool is_taken[TABLE_RANK] = {false};
    int64_t all = 0;
    CHECK(onnx_list_of(r, "perm", 0, &count, order));
    y->rank = x->rank;
    for (int d = 0; d < x->rank; d++) {
        const int64_t from = count == 0 ? x->rank - 1 - d : d < count ? order[d] : -1;
        if ((count != 0 && count != x->rank) || from < 0 || from >= x->rank || is_taken[from]) {
            return onnx_misfit("its 'perm' is no order of %d dimensions", x->rank);
        }
        is_taken[from] = true;
        y->shape[d] = x->shape[from];
        step[d] = row_elements(x->rank - (int)from, &x->shape[from]);
    }
    CHECK(table_new(y, &all));
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i;
        int64_t at = 0;
        for (int d = y->rank - 1; d >= 0; d--) {
            at += rest % y->shape[d] * step[d];
            rest /= y->shape[d];
        }
        y->values[i] = x->values[at];
    }
    return GRAIL_OK;
}

static grail_status reshape(onnx_reading *r, const table *x, table *y)
{
    onnx_numbers to;
    int64_t all = 0;
    int64_t before = 0;
    int64_t others = 1;
    int open = -1;
    CHECK(onnx_numbers_of(r, 1, &to));
    y->rank = to.count;
    bool fits = to.is_known && to.count <= TABLE_RANK && shape_elements(x->rank, x->shape, &before);
    for (int d = 0; fits && d < to.count; d++) {
        const onnx_number *n = &to.items[d];
        fits = !n->is_open && !n->is_real && !n->per_sample && (n->factor > 0 || n->factor == -1) &&
               (n->factor > 0 || open < 0) && n->factor <= MOST_VALUES;
        open = n->factor == -1 ? d : open;
        y->shape[d] = n->factor;
        fits = fits && (n->factor < 0 || !__builtin_mul_overflow(others, n->factor, &others)) &&
               onnx_note_stays(r, n) == GRAIL_OK;
    }
    memory_free(to.items);
    if (fits && open >= 0) {
        y->shape[open] = before / others;
    }
    CHECK(fits ? table_new(y, &all) : onnx_misfit("gives a table dimensions that are not known"));
    if (all != before) {
        return onnx_misfit("makes another number of values than it reads");
    }
    memcpy(y->values, x->values, (size_t)all * sizeof x->values[0]);
    return GRAIL_OK;
}

/* Weights of four neighbours for a place `t` behind the second one: Keys' kernel with this a. */
static void cubic_weights(double a, double t, double w[4])
{
    const double far[] = {t + 1.0, 2.0 - t};
    const double near[] = {t, 1.0 - t};
    for (int i = 0; i < 2; i++) {
        w[3 * i] = ((a * far[i] - 5.0 * a) * far[i] + 8.0 * a) * far[i] - 4.0 * a;
        w[1 + i] = ((a + 2.0) * near[i] - (a + 3.0)) * near[i] * near[i] + 1.0;
    }
}

/* Along dimension d, to shape[d] of y: pixels are squares, those outside are as at the border. */
static void resize_along(const table *x, int d, double a, double scale, table *y)
{
    const int64_t inner = row_elements(x->rank - d, &x->shape[d]);
    const int64_t size = x->shape[d];
    const int64_t wanted = y->shape[d];
    int64_t outer = 1;
    for (int k = 0; k < d; k++) {
        outer *= x->shape[k];
    }
    for (int64_t to = 0; to < wanted; to++) {
        double w[4];
        const double place = ((double)to + 0.5) / scale - 0.5;
        const double first = floor(place);
        cubic_weights(a, place - first, w);
        for (int64_t i = 0; i < outer * inner; i++) {
            const double *from = &x->values[i / inner * size * inner + i % inner];
            double sum = 0.0;
            for (int k = 0; k < 4; k++) {
                const int64_t at = (int64_t)first + k - 1;
                sum += w[k] * from[(at < 0 ? 0 : at >= size ? size - 1 : at) * inner];
            }
            y->values[(i / inner * wanted + to) * inner + i % inner] = sum;
        }
    }
}

static grail_status resize(onnx_reading *r, const table *x, table *y)
{
    grail_status status = GRAIL_OK;
    onnx_numbers sizes;
    int64_t count = 0;
    table from = {.rank = x->rank};
    CHECK(onnx_numbers_of(r, 3, &sizes));
    bool fits = sizes.is_known && sizes.count == x->rank && !onnx_has_input(r, 2) &&
                onnx_text_is(r, "mode", "cubic") && onnx_integer_of(r, "antialias", 0) == 0 &&
                onnx_integer_of(r, "exclude_outside", 0) == 0 &&
                onnx_text_is(r, "coordinate_transformation_mode", "half_pixel") &&
                onnx_node_attribute(r->node, "axes") == NULL;
    memcpy(from.shape, x->shape, sizeof from.shape);
    *y = from;
    for (int d = 0; fits && d < x->rank; d++) {
        const onnx_number *n = &sizes.items[d];
        fits = !n->is_open && !n->is_real && !n->per_sample && n->factor > 0 &&
               n->factor <= MOST_VALUES;
        y->shape[d] = n->factor;
    }
    memory_free(sizes.items);
    if (!fits) {
        return onnx_misfit("resizes a table otherwise than to sizes that are known, cubic, from "
                           "half pixels");
    }
    const table wanted = *y;
    TRY(table_new(&from, &count));
    memcpy(from.values, x->values, (size_t)count * sizeof from.values[0]);
    *y = from;
    from.values = NULL;
    for (int d = 0; d < x->rank; d++) {
        if (wanted.shape[d] != y->shape[d]) {
            memory_free(from.values);
            from = *y;
            *y = (table){.rank = x->rank};
            memcpy(y->shape, from.shape, sizeof y->shape);
            y->shape[d] = wanted.shape[d];
            TRY(table_new(y, &count));
            resize_along(&from, d, onnx_real_of(r, "cubic_coeff_a", -0.75),
                         (double)y->shape[d] / (double)from.shape[d], y);
        }
    }
out:
    memory_free(from.values);
    return status;
}

/* *y <- y and then x, along one dimension. */
static grail_status append(const table *x, int d, table *y)
{
    table both = {.rank = y->rank};
    int64_t count = 0;
    bool fits = x->rank == y->rank;
    for (int k = 0; fits && k < x->rank; k++) {
        fits = k == d || x->shape[k] == y->shape[k];
        both.shape[k] = y->shape[k] + (k == d ? x->shape[k] : 0);
    }
    CHECK(fits ? table_new(&both, &count) : onnx_misfit("its inputs have other dimensions"));
    const int64_t inner = row_elements(y->rank - d, &y->shape[d]);
    const int64_t first = y->shape[d] * inner;
    const int64_t second = x->shape[d] * inner;
    for (int64_t i = 0; i < count / (first + second); i++) {
        memcpy(&both.values[i * (first + second)], &y->values[i * first],
               (size_t)first * sizeof both.values[0]);
        memcpy(&both.values[i * (first + second) + first], &x->values[i * second],
               (size_t)second * sizeof both.values[0]);
    }
    memory_free(y->values);
    *y = both;
    return GRAIL_OK;
}

static grail_status concatenate(const onnx_reading *r, const table *x, table *y)
{
    const int d = onnx_axis_of(onnx_integer_of(r, "axis", 0), x->rank);
    if (d < 0) {
        return onnx_misfit("is along no dimension of %d", x->rank);
    }
    CHECK(read_input(r, 0, y));
    for (int i = 1; i < r->node->node.input_count; i++) {
        table next;
        grail_status status = read_input(r, i, &next);
        status = status == GRAIL_OK ? append(&next, d, y) : status;
        memory_free(next.values);
        CHECK(status);
    }
    return GRAIL_OK;
}

grail_status onnx_read_table(onnx_reading *r)
{
    grail_status status = GRAIL_OK;
    table x = {0};
    table y = {0};
    TRY(read_input(r, 0, &x));
    TRY(onnx_node_is(r->node, "Transpose") ? turn(r, &x, &y)
        : onnx_node_is(r->node, "Reshape") ? reshape(r, &x, &y)
        : onnx_node_is(r->node, "Resize")  ? resize(r, &x, &y)
                                           : concatenate(r, &x, &y));
    onnx_known known = {
        .value = GRAPH_NONE, .tensor = -1, .form = ONNX_TABLE, .rank = y.rank, .table = y.values};
    memcpy(known.shape, y.shape, sizeof known.shape);
    TRY(graph_own_table(r->g, &y.values));
    TRY(onnx_give(r, 0, known));
out:
    memory_free(x.values);
    memory_free(y.values);
    return status;
}
