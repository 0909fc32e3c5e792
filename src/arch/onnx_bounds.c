#include "arch/onnx_bounds.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ELEMENTS = 1 << 20 }; /* of a constant that is looked through */

static const onnx_bounds anything = {.low = -HUGE_VAL, .high = HUGE_VAL};

static onnx_bounds between(double low, double high)
{
    return isnan(low) || isnan(high) ? anything : (onnx_bounds){.low = low, .high = high};
}

static bool is_always(const onnx_bounds *b, double number)
{
    return b->low == number && b->high == number && !b->counts_up && !b->is_length;
}

static bool is_same(const onnx_bounds *b)
{
    return b->low == b->high && !b->counts_up && !b->is_length;
}

/* -- bounds of what is given ------------------------------------------------------------------- */

static onnx_bounds around(const onnx_bounds *a, const onnx_bounds *b)
{
    return between(fmin(a->low, b->low), fmax(a->high, b->high));
}

/* A size that is left open is some positive number. */
static onnx_bounds of_number(const onnx_number *n)
{
    const bool is_length = !n->is_real && n->factor % ONNX_OPEN_LENGTH == 0 && n->factor > 0;
    return n->is_open                     ? anything
           : n->is_real                   ? between(n->real, n->real)
           : !n->per_sample && !is_length ? between((double)n->factor, (double)n->factor)
           : n->factor > 0                ? between(1.0, HUGE_VAL)
                                          : anything;
}

/* *b <- those of values[count]; they count up where that is all there is in the last dimension. */
static void of_values(int64_t count, const double *values, bool is_row, onnx_bounds *b)
{
    bool counts = is_row && count > 1;
    *b = between(values[0], values[0]);
    for (int64_t i = 1; i < count; i++) {
        const onnx_bounds one = between(values[i], values[i]);
        counts = counts && values[i] == values[0] + (double)i;
        *b = around(b, &one);
    }
    if (counts) {
        *b = (onnx_bounds){.low = values[0], .high = HUGE_VAL, .counts_up = true};
    }
}

static grail_status of_constant(const onnx_reading *r, int64_t tensor, bool *found, onnx_bounds *b)
{
    grail_status status = GRAIL_OK;
    const onnx_tensor *t = &r->file->tensors[tensor];
    const bool is_real = dtype_is_float(t->view.dtype) && t->view.dtype != GRAIL_DTYPE_COUNT;
    int64_t count = 0;
    int64_t *integers = NULL;
    float *reals = NULL;
    double *values = NULL;
    *found = t->element != ONNX_STRING && shape_elements(t->view.rank, t->view.shape, &count) &&
             count > 0 && count <= (is_real ? 1 : MOST_ELEMENTS);
    if (!*found) {
        return GRAIL_OK;
    }
    TRY(memory_new(&values, (size_t)count, sizeof values[0]));
    TRY(memory_new(&integers, (size_t)count, sizeof integers[0]));
    TRY(memory_new(&reals, (size_t)count, sizeof reals[0]));
    TRY(is_real ? onnx_tensor_f32(t, reals) : onnx_tensor_integers(t, integers));
    for (int64_t i = 0; i < count; i++) {
        values[i] = is_real ? (double)reals[i] : (double)integers[i];
    }
    of_values(count, values, t->view.rank > 0 && t->view.shape[t->view.rank - 1] == count, b);
out:
    memory_free(values);
    memory_free(integers);
    memory_free(reals);
    return status;
}

/* *found: input i has bounds, *b. */
static grail_status bounds_of(const onnx_reading *r, int i, bool *found, onnx_bounds *b)
{
    grail_status status = GRAIL_OK;
    const onnx_known *k = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
    onnx_numbers list = {0};
    *found = false;
    *b = anything;
    if (k == NULL) {
        return GRAIL_OK;
    }
    if (k->form == ONNX_BOUNDED || k->form == ONNX_IDS) {
        *found = true;
        *b = k->form == ONNX_BOUNDED ? k->bounds : between(0.0, HUGE_VAL);
        return GRAIL_OK;
    }
    if (k->form != ONNX_VALUE) {
        return GRAIL_OK;
    }
    if (!r->numbers[r->node->inputs[i]].is_known) {
        return k->tensor >= 0 ? of_constant(r, k->tensor, found, b) : GRAIL_OK;
    }
    TRY(onnx_numbers_of(r, i, &list));
    *found = list.is_known && list.count > 0;
    bool counts = list.count > 1 && list.rank == 1;
    for (int j = 0; j < list.count; j++) {
        const onnx_number *n = &list.items[j];
        const onnx_bounds one = of_number(n);
        counts = counts && is_same(&one) && one.low == (double)list.items[0].factor + (double)j;
        *b = j == 0 ? one : around(b, &one);
    }
    if (counts) {
        *b = (onnx_bounds){.low = b->low, .high = HUGE_VAL, .counts_up = true};
    }
out:
    memory_free(list.items);
    return status;
}

bool onnx_is_always(const onnx_reading *r, int i, double number)
{
    bool found = false;
    onnx_bounds b;
    return bounds_of(r, i, &found, &b) == GRAIL_OK && found && is_always(&b, number);
}

bool onnx_is_at_most(const onnx_reading *r, int i, double number)
{
    bool found = false;
    onnx_bounds b;
    return bounds_of(r, i, &found, &b) == GRAIL_OK && found && b.high <= number;
}

/* -- what nodes make of bounds ----------------------------------------------------------------- */

static double product(double a, double b)
{
    return a == 0.0 || b == 0.0 ? 0.0 : a * b;
}

static onnx_bounds times(const onnx_bounds *a, const onnx_bounds *b)
{
    const double p[] = {product(a->low, b->low), product(a->low, b->high), product(a->high, b->low),
                        product(a->high, b->high)};
    return between(fmin(fmin(p[0], p[1]), fmin(p[2], p[3])),
                   fmax(fmax(p[0], p[1]), fmax(p[2], p[3])));
}

static onnx_bounds truth(bool is_true, bool is_false)
{
    return between(is_true ? 1.0 : 0.0, is_false ? 0.0 : 1.0);
}

/* Whether a number is other than 0. */
static onnx_bounds as_truth(const onnx_bounds *a)
{
    return truth(a->low > 0.0 || a->high < 0.0, is_always(a, 0.0));
}

/* Values may be integers, of which some operators leave out what is behind the point. */
static onnx_bounds rounded(const onnx_bounds *a)
{
    onnx_bounds y = *a;
    y.low = floor(a->low);
    y.high = ceil(a->high);
    return y;
}

static onnx_bounds over(const onnx_bounds *a, const onnx_bounds *b)
{
    const onnx_bounds inverse = between(1.0 / b->high, 1.0 / b->low);
    const onnx_bounds y = times(a, &inverse);
    return b->low > 0.0 || b->high < 0.0 ? rounded(&y) : anything;
}

static onnx_bounds sum_of(const onnx_bounds *a, const onnx_bounds *b)
{
    onnx_bounds y = between(a->low + b->low, a->high + b->high);
    y.counts_up = (a->counts_up && is_same(b)) || (b->counts_up && is_same(a));
    return y;
}

static onnx_bounds negative(const onnx_bounds *a)
{
    return between(-a->high, -a->low);
}

/* Whether a is below b, or not above it. */
static onnx_bounds order(const onnx_bounds *a, const onnx_bounds *b, bool or_equal)
{
    return or_equal ? truth(a->high <= b->low, a->low > b->high)
                    : truth(a->high < b->low, a->low >= b->high);
}

static onnx_bounds equality(const onnx_bounds *a, const onnx_bounds *b)
{
    return truth(is_same(a) && is_same(b) && a->low == b->low,
                 a->high < b->low || a->low > b->high);
}

/* A node of two inputs; false: its operator is another one. */
static bool combine(const char *name, const onnx_bounds *a, const onnx_bounds *b, onnx_bounds *y)
{
    const onnx_bounds minus = negative(b);
    const onnx_bounds left = as_truth(a);
    const onnx_bounds right = as_truth(b);
    if (strcmp(name, "Add") == 0) {
        *y = sum_of(a, b);
    } else if (strcmp(name, "Sub") == 0) {
        *y = sum_of(a, &minus);
        y->counts_up = a->counts_up && is_same(b);
    } else if (strcmp(name, "Mul") == 0) {
        *y = is_always(a, 1.0) ? *b : is_always(b, 1.0) ? *a : times(a, b);
    } else if (strcmp(name, "Div") == 0) {
        *y = is_always(b, 1.0) ? *a : over(a, b);
    } else if (strcmp(name, "Max") == 0) {
        *y = b->high <= a->low   ? *a
             : a->high <= b->low ? *b
                                 : between(fmax(a->low, b->low), fmax(a->high, b->high));
    } else if (strcmp(name, "Min") == 0) {
        *y = b->low >= a->high   ? *a
             : a->low >= b->high ? *b
                                 : between(fmin(a->low, b->low), fmin(a->high, b->high));
    } else if (strcmp(name, "Equal") == 0) {
        *y = equality(a, b);
    } else if (strcmp(name, "Less") == 0) {
        *y = order(a, b, false);
    } else if (strcmp(name, "LessOrEqual") == 0) {
        *y = order(a, b, true);
    } else if (strcmp(name, "Greater") == 0) {
        *y = order(b, a, false);
    } else if (strcmp(name, "GreaterOrEqual") == 0) {
        *y = order(b, a, true);
    } else if (strcmp(name, "And") == 0) {
        *y = between(fmin(left.low, right.low), fmin(left.high, right.high));
    } else if (strcmp(name, "Or") == 0) {
        *y = between(fmax(left.low, right.low), fmax(left.high, right.high));
    } else {
        return false;
    }
    return true;
}

/* 1, 2, ... of ones along the positions. */
static onnx_bounds running_sum(const onnx_reading *r, const onnx_bounds *a)
{
    const bool fits = is_always(a, 1.0) && strcmp(onnx_known_input(r, 0)->layout, "N,T") == 0 &&
                      (onnx_is_always(r, 1, 1.0) || onnx_is_always(r, 1, -1.0)) &&
                      onnx_integer_of(r, "reverse", 0) == 0;
    const double first = onnx_integer_of(r, "exclusive", 0) != 0 ? 0.0 : 1.0;
    return fits ? (onnx_bounds){.low = first, .high = HUGE_VAL, .counts_up = true} : anything;
}

/* The number of positions, of ones. */
static onnx_bounds total(const onnx_reading *r, const onnx_bounds *a)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    const onnx_known *k = onnx_known_input(r, 0);
    const bool fits = is_always(a, 1.0) && onnx_list_of(r, "axes", 1, &count, axes) == GRAIL_OK &&
                      count == 1 && axes[0] == 1 && k->rank > 1;
    return fits ? (onnx_bounds){.low = 1.0, .high = HUGE_VAL, .is_length = true} : anything;
}

/* A part of a row of positions begins further on. */
static onnx_bounds part(const onnx_reading *r, const onnx_bounds *a)
{
    onnx_bounds y = *a;
    int count = 0;
    int64_t first[ONNX_MOST_AXES];
    int64_t axes[ONNX_MOST_AXES];
    int64_t steps[ONNX_MOST_AXES];
    int step_count = 0;
    if (!a->counts_up) {
        return y;
    }
    y.counts_up = onnx_list_of(r, "starts", 1, &count, first) == GRAIL_OK && count == 1 &&
                  first[0] >= 0 && onnx_list_of(r, "axes", 3, &count, axes) == GRAIL_OK &&
                  (first[0] == 0 || (count == 1 && axes[0] != 0)) &&
                  onnx_list_of(r, "steps", 4, &step_count, steps) == GRAIL_OK &&
                  (step_count == 0 || steps[0] == 1);
    y.low += y.counts_up ? (double)first[0] : 0.0;
    return y;
}

static onnx_bounds cast(const onnx_reading *r, const onnx_bounds *a)
{
    return onnx_integer_of(r, "to", 0) == ONNX_BOOL ? as_truth(a) : rounded(a);
}

static grail_status filled(const onnx_reading *r, onnx_bounds *y)
{
    bool found = true;
    const onnx_attribute *a = onnx_node_attribute(r->node, "value");
    *y = between(0.0, 0.0);
    if (a != NULL && a->kind == ONNX_TENSOR) {
        CHECK(of_constant(r, a->tensor, &found, y));
    }
    return GRAIL_OK;
}

static onnx_bounds range(const onnx_bounds in[])
{
    const bool counts = is_always(&in[2], 1.0) && is_same(&in[0]);
    return (onnx_bounds){
        .low = in[2].low >= 0.0 ? in[0].low : -HUGE_VAL, .high = HUGE_VAL, .counts_up = counts};
}

/* New dimensions before all others leave positions in the last one. */
static bool keeps_row(const onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    return onnx_node_is(r->node, "Identity") || onnx_node_is(r->node, "Expand") ||
           (onnx_node_is(r->node, "Unsqueeze") &&
            onnx_list_of(r, "axes", 1, &count, axes) == GRAIL_OK && count == 1 && axes[0] == 0);
}

/* Operators whose elements are those of input 0, or between them. */
static bool takes_elements(const onnx_file_node *n)
{
    static const char *const names[] = {
        "Identity", "Unsqueeze", "Squeeze", "Reshape",        "Expand",    "Transpose", "Flatten",
        "Gather",   "GatherND",  "Tile",    "GatherElements", "ReduceMax", "ReduceMin", "Trilu"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (onnx_node_is(n, names[i])) {
            return true;
        }
    }
    return false;
}

/* Numbers that bounds were made of stay. */
static grail_status note_numbers(onnx_reading *r)
{
    for (int i = 0; i < r->node->node.input_count; i++) {
        onnx_numbers list;
        grail_status status = onnx_numbers_of(r, i, &list);
        for (int j = 0; status == GRAIL_OK && j < list.count; j++) {
            status = onnx_note_stays(r, &list.items[j]);
        }
        memory_free(list.items);
        CHECK(status);
    }
    return GRAIL_OK;
}

/* False: no rule says what the node makes of them. */
static grail_status transfer(const onnx_reading *r, const onnx_bounds in[], bool *found,
                             onnx_bounds *y)
{
    const onnx_file_node *n = r->node;
    const int count = n->node.input_count;
    *found = true;
    if (takes_elements(n)) {
        *y = in[0];
        y->counts_up = in[0].counts_up && keeps_row(r);
        if (onnx_node_is(n, "Trilu")) {
            const onnx_bounds zero = between(0.0, 0.0);
            *y = around(&in[0], &zero);
        }
    } else if (onnx_node_is(n, "Cast")) {
        *y = cast(r, &in[0]);
    } else if (onnx_node_is(n, "Slice")) {
        *y = part(r, &in[0]);
    } else if (onnx_node_is(n, "Concat")) {
        *y = in[0];
        for (int i = 1; i < count; i++) {
            *y = around(y, &in[i]);
        }
    } else if (onnx_node_is(n, "Not")) {
        const onnx_bounds is = as_truth(&in[0]);
        *y = between(1.0 - is.high, 1.0 - is.low);
    } else if (onnx_node_is(n, "Neg")) {
        *y = negative(&in[0]);
    } else if (onnx_node_is(n, "IsNaN")) {
        *y = between(0.0, 0.0);
    } else if (onnx_node_is(n, "Shape")) {
        *y = between(0.0, HUGE_VAL);
    } else if (onnx_node_is(n, "ConstantOfShape")) {
        return filled(r, y);
    } else if (onnx_node_is(n, "Range") && count == 3) {
        *y = range(in);
    } else if (onnx_node_is(n, "CumSum")) {
        *y = running_sum(r, &in[0]);
    } else if (onnx_node_is(n, "ReduceSum")) {
        *y = total(r, &in[0]);
    } else if (onnx_node_is(n, "Clip")) {
        *y = in[0];
        for (int i = 1; i < count; i++) {
            *y = onnx_has_input(r, i) && !combine(i == 1 ? "Max" : "Min", y, &in[i], y) ? anything
                                                                                        : *y;
        }
    } else if (onnx_node_is(n, "Where") && count == 3) {
        *y = in[0].low > 0.0 ? in[1] : in[0].high == 0.0 ? in[2] : around(&in[1], &in[2]);
    } else {
        *found = count == 2 && combine(n->node.operator_name, &in[0], &in[1], y);
    }
    return GRAIL_OK;
}

/* Whether the output has the dimensions of input 0, samples and positions. */
static bool keeps_dimensions(const onnx_reading *r)
{
    bool fits = false;
    const onnx_file_node *n = r->node;
    if (takes_elements(n) || onnx_node_is(n, "Concat") || onnx_node_is(n, "Slice") ||
        onnx_node_is(n, "ReduceSum")) {
        return onnx_node_is(n, "Identity");
    }
    for (int i = 0; i < n->node.input_count; i++) {
        const onnx_known *k = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
        const bool is_laid =
            k != NULL && (k->form == ONNX_BOUNDED || k->form == ONNX_IDS) && k->layout[0] != '\0';
        int64_t shape[ONNX_MOST_AXES];
        int64_t elements = 0;
        const bool is_one = k != NULL && k->form == ONNX_VALUE && k->tensor >= 0 &&
                            shape_elements(onnx_constant_shape(r, k, shape), shape, &elements) &&
                            elements == 1;
        if (k != NULL && !is_laid && !is_one) {
            return false;
        }
        fits = fits || is_laid;
    }
    return fits;
}

static grail_status give_bounds(onnx_reading *r, onnx_bounds b)
{
    onnx_known y = {
        .value = GRAPH_NONE, .tensor = -1, .form = ONNX_BOUNDED, .bounds = b, .count.element = -1};
    if (keeps_dimensions(r)) {
        onnx_set_layout(&y, "N,T");
    } else {
        y.rank = onnx_has_input(r, 0) ? onnx_known_input(r, 0)->rank : 1;
    }
    return onnx_give(r, 0, y);
}

/* -- ids --------------------------------------------------------------------------------------- */

/* No sample has the id that marks padding. */
static grail_status compare_ids(onnx_reading *r, const onnx_known *ids, int other)
{
    bool found = false;
    onnx_bounds b;
    graph_input *input = &r->g->inputs[ids->input];
    CHECK(bounds_of(r, other, &found, &b));
    if (!found || !is_same(&b) || b.low < 0.0 || b.low > (double)INT32_MAX ||
        (input->padding != GRAPH_NONE && input->padding != (int64_t)b.low)) {
        return onnx_misfit("compares token ids with more than one number, for which grail has no "
                           "row");
    }
    input->padding = (int64_t)b.low;
    return give_bounds(r, between(0.0, 0.0));
}

/* Rows of a table, by integers that samples hold beside other inputs: any of its rows, and those of
 * the smallest of several tables. */
static grail_status embed(onnx_reading *r, const onnx_known *k, const tensor_view *t)
{
    char text[ONNX_LAYOUT_SIZE];
    graph_input *input = &r->g->inputs[k->input];
    node n = node_of(NODE_EMBEDDING, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);
    onnx_known y = {.value = GRAPH_NONE,
                    .tensor = -1,
                    .one = input->channels == 1,
                    .width = t->shape[1],
                    .count.element = -1};
    if (!input->are_integers || t->shape[0] > GRAPH_LARGEST_INTEGER) {
        return onnx_misfit("takes rows by what are no integers, or of more than %d",
                           GRAPH_LARGEST_INTEGER);
    }
    if (snprintf(text, sizeof text, "%s,C", k->layout) >= (int)sizeof text) {
        return onnx_misfit("takes rows by integers in too many dimensions");
    }
    CHECK(onnx_add_parameter(r, t, false, &n.weight));
    CHECK(onnx_unpack(r, k->input, (extent){input->channels, 1}, 1, &n.inputs[0]));
    n.input_count = 1;
    input->rows = input->rows == 0 || input->rows > t->shape[0] ? t->shape[0] : input->rows;
    onnx_set_layout(&y, text);
    return onnx_give_node(r, &n, y);
}

/* Integers as real numbers are channels. */
static grail_status cast_given(onnx_reading *r, const onnx_known *k)
{
    const graph_input *input = &r->g->inputs[k->input];
    const int64_t to = onnx_integer_of(r, "to", 0);
    const bool stays = onnx_node_is(r->node, "Identity") ||
                       (input->are_integers && (to == ONNX_INT64 || to == ONNX_INT32));
    onnx_known y = {.value = GRAPH_NONE,
                    .tensor = -1,
                    .rank = FLAT_RANK,
                    .one = true,
                    .width = input->channels,
                    .count.element = -1};
    if (stays) {
        return onnx_give(r, 0, *k);
    }
    if (to != ONNX_FLOAT || k->rank != FLAT_RANK || input->rank != FLAT_RANK) {
        return onnx_misfit("makes numbers of another type of an input");
    }
    CHECK(onnx_unpack(r, k->input, (extent){1, 1}, input->channels, &y.value));
    return onnx_give(r, 0, y);
}

/* Integers in other dimensions, for rows to be taken by. */
static grail_status lay_given(onnx_reading *r)
{
    const bool is_given = onnx_has_input(r, 0) && onnx_known_input(r, 0)->form == ONNX_IDS;
    return is_given && onnx_node_is(r->node, "Reshape")     ? onnx_lay_reshaped(r)
           : is_given && onnx_node_is(r->node, "Unsqueeze") ? onnx_read_unsqueeze(r)
           : is_given && onnx_node_is(r->node, "Squeeze")
               ? onnx_read_squeeze(r)
               : onnx_misfit("computes with what a sample holds beside other inputs, for which "
                             "grail has a row where it chooses rows of a table, or becomes real "
                             "numbers");
}

/* Rows of a table, by ids that samples hold, or by positions. */
static grail_status look_up(onnx_reading *r)
{
    bool found = false;
    onnx_bounds b;
    const tensor_view *t = onnx_constant_of(r, 0);
    const onnx_known *k = onnx_known_input(r, 1);
    if (onnx_integer_of(r, "axis", 0) != 0 || t == NULL || t->rank != 2 ||
        !dtype_is_float(t->dtype) || onnx_known_input(r, 0)->transposed) {
        return onnx_misfit("takes rows of what is no table");
    }
    onnx_known y = {.value = GRAPH_NONE, .tensor = -1, .width = t->shape[1], .count.element = -1};
    if (k->form == ONNX_IDS && r->g->input_kind == INPUT_IMAGES) {
        return embed(r, k, t);
    }
    if (k->form == ONNX_IDS) {
        graph_input *input = &r->g->inputs[k->input];
        node n = node_of(NODE_EMBEDDING, GRAPH_NONE, r->g->input, GRAPH_NONE);
        if (input->rows != 0 && input->rows != t->shape[0]) {
            return onnx_misfit("takes rows of a table of %lld by ids that take those of one of "
                               "%lld, too",
                               (long long)t->shape[0], (long long)input->rows);
        }
        input->rows = t->shape[0];
        n.embedding.divisor = k->input + 1; /* until all are known (onnx_inputs.c) */
        CHECK(onnx_add_parameter(r, t, false, &n.weight));
        onnx_set_layout(&y, "N,T,C");
        return onnx_give_node(r, &n, y);
    }
    CHECK(bounds_of(r, 1, &found, &b));
    if (k->form == ONNX_BOUNDED && !b.counts_up && !is_same(&b)) {
        return give_bounds(r, anything);
    }
    if (!found || !(b.counts_up || is_always(&b, 0.0)) || !(b.low >= 0.0) ||
        b.low >= (double)t->shape[0] || floor(b.low) != b.low) {
        return onnx_misfit("takes rows by numbers that are neither ids nor positions");
    }
    y.form = ONNX_ROWS;
    y.bounds = b;
    y.copy = t;
    return onnx_give(r, 0, y);
}

static grail_status add_rows(onnx_reading *r, int rows)
{
    onnx_known *x = NULL;
    const onnx_known table = *onnx_known_input(r, rows);
    CHECK(onnx_any_input(r, 1 - rows, &x));
    node n = onnx_plain(NODE_POSITIONS, x, NULL);
    if (table.width != x->width || strcmp(x->layout, "N,T,C") != 0) {
        return onnx_misfit("adds rows of a table to other than positions of as many channels");
    }
    n.positions.one_for_all = !table.bounds.counts_up;
    n.positions.first = n.positions.one_for_all ? 0 : (int64_t)table.bounds.low;
    n.positions.may_be_fewer = true;
    CHECK(onnx_add_parameter(r, table.copy, false, &n.weight));
    return onnx_give_node(r, &n, *x);
}

/* -- other values ------------------------------------------------------------------------------ */

static bool is_value(const onnx_reading *r, int i)
{
    const onnx_known *k = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
    return k != NULL && (k->value != GRAPH_NONE || k->linear != 0 || k->form == ONNX_SCORES ||
                         k->form == ONNX_SHARES);
}

/* Terms of 0, factors of 1, and a choice that is the same everywhere give on the value. */
static grail_status give_on(onnx_reading *r)
{
    const bool chooses = onnx_node_is(r->node, "Where");
    const bool adds = onnx_node_is(r->node, "Add") || onnx_node_is(r->node, "Sub");
    const bool scales = onnx_node_is(r->node, "Mul") || onnx_node_is(r->node, "Div");
    const double neutral = adds ? 0.0 : 1.0;
    if (chooses) {
        const int taken = onnx_is_always(r, 0, 1.0) ? 1 : onnx_is_always(r, 0, 0.0) ? 2 : 0;
        if (taken > 0 && is_value(r, taken)) {
            return onnx_give(r, 0, *onnx_known_input(r, taken));
        }
    }
    for (int i = 0; (adds || scales) && i < 2; i++) {
        if (is_value(r, 1 - i) && onnx_is_always(r, i, neutral) &&
            (i == 1 || onnx_node_is(r->node, "Add") || onnx_node_is(r->node, "Mul"))) {
            return onnx_give(r, 0, *onnx_known_input(r, 1 - i));
        }
    }
    return onnx_misfit("puts what follows from a mask or from positions together with a value in a "
                       "way that grail has no row for");
}

/* The sum over positions, which is their mean times their number. */
static grail_status sum_positions(onnx_reading *r)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    onnx_known y = *x;
    if (strcmp(x->layout, "N,T,C") != 0 || count != 1 || onnx_axis_of(axes[0], 3) != 1) {
        return onnx_misfit("is a sum over other than positions");
    }
    y.form = ONNX_SUM;
    y.reshaped = onnx_integer_of(r, "keepdims", 1) != 0;
    return onnx_give(r, 0, y);
}

static grail_status divide_sum(onnx_reading *r)
{
    bool found = false;
    onnx_bounds b;
    onnx_known y = *onnx_known_input(r, 0);
    CHECK(bounds_of(r, 1, &found, &b));
    if (!onnx_node_is(r->node, "Div") || !found || !b.is_length) {
        return onnx_misfit("goes on with a sum over positions, other than to its mean");
    }
    node n = onnx_plain(NODE_MEAN, &y, NULL);
    const bool keeps = y.reshaped;
    y.form = ONNX_VALUE;
    y.reshaped = false;
    y.one = true;
    onnx_set_layout(&y, keeps ? "N,,C" : "N,C");
    return onnx_give_node(r, &n, y);
}

/* -- the node at hand -------------------------------------------------------------------------- */

static bool has_form(const onnx_reading *r, int i, onnx_form form)
{
    return onnx_has_input(r, i) && onnx_known_input(r, i)->form == form;
}

static bool any_has(const onnx_reading *r, onnx_form form)
{
    bool has = false;
    for (int i = 0; i < r->node->node.input_count; i++) {
        has = has || has_form(r, i, form);
    }
    return has;
}

/* Whether no input depends on a sample; beside one that is computed constants of any kind do not.
 */
static bool all_are_bounded(const onnx_reading *r)
{
    const bool is_computed = any_has(r, ONNX_BOUNDED);
    bool are = r->node->node.input_count > 0 && r->node->capture_count == 0;
    for (int i = 0; are && i < r->node->node.input_count; i++) {
        bool found = true;
        onnx_bounds b;
        are = !onnx_has_input(r, i) || (is_computed && onnx_known_input(r, i)->tensor >= 0) ||
              (bounds_of(r, i, &found, &b) == GRAIL_OK && found);
    }
    return are;
}

/* A Gather of a table. */
static bool takes_rows_of_table(const onnx_reading *r)
{
    const tensor_view *t = onnx_has_input(r, 1) ? onnx_constant_of(r, 0) : NULL;
    return onnx_node_is(r->node, "Gather") && t != NULL && dtype_is_float(t->dtype) && t->rank == 2;
}

bool onnx_reads_bounds(const onnx_reading *r)
{
    const onnx_file_node *n = r->node;
    const bool attends = onnx_node_is(n, "Attention"); /* its mask is judged there */
    const bool parts = onnx_node_is(n, "Split") && has_form(r, 0, ONNX_BOUNDED);
    if ((n->node.output_count != 1 && !parts) || !onnx_has_input(r, 0) || attends) {
        return false;
    }
    const bool takes_rows = takes_rows_of_table(r);
    if (r->g->input_kind != INPUT_TOKENS) {
        return any_has(r, ONNX_IDS) || any_has(r, ONNX_ROWS) || takes_rows;
    }
    const bool is_laid = (has_form(r, 0, ONNX_BOUNDED) || has_form(r, 0, ONNX_IDS)) &&
                         onnx_known_input(r, 0)->layout[0] != '\0';
    if (onnx_node_is(n, "Shape") && (is_laid || !has_form(r, 0, ONNX_BOUNDED))) {
        return false;
    }
    return any_has(r, ONNX_BOUNDED) || any_has(r, ONNX_IDS) || any_has(r, ONNX_ROWS) ||
           any_has(r, ONNX_SUM) || (onnx_node_is(n, "IsNaN") && is_value(r, 0)) ||
           (onnx_node_is(n, "ReduceSum") && is_value(r, 0)) || takes_rows || all_are_bounded(r);
}

grail_status onnx_read_bounds(onnx_reading *r)
{
    grail_status status = GRAIL_OK;
    const int count = r->node->node.input_count;
    onnx_bounds *in = NULL;
    onnx_bounds y = anything;
    bool found = false;
    for (int i = 0; i < count && i < 2; i++) {
        if (has_form(r, i, ONNX_IDS) && onnx_node_is(r->node, "Equal") && count == 2 &&
            r->g->input_kind == INPUT_TOKENS) {
            return compare_ids(r, onnx_known_input(r, i), 1 - i);
        }
        if (has_form(r, i, ONNX_ROWS)) {
            const bool stays = onnx_node_is(r->node, "Cast") || onnx_node_is(r->node, "Identity");
            if (stays && onnx_integer_of(r, "to", ONNX_FLOAT) == ONNX_FLOAT) {
                return onnx_give(r, 0, *onnx_known_input(r, i));
            }
            return onnx_node_is(r->node, "Add") && is_value(r, 1 - i)
                       ? add_rows(r, i)
                       : onnx_misfit("goes on with rows of a table that nothing is added to");
        }
    }
    if (has_form(r, 0, ONNX_IDS) &&
        (onnx_node_is(r->node, "Cast") || onnx_node_is(r->node, "Identity"))) {
        return r->g->input_kind == INPUT_IMAGES ? cast_given(r, onnx_known_input(r, 0))
                                                : onnx_give(r, 0, *onnx_known_input(r, 0));
    }
    if (onnx_node_is(r->node, "Gather") && onnx_has_input(r, 1) && onnx_constant_of(r, 0) != NULL &&
        dtype_is_float(onnx_constant_of(r, 0)->dtype)) {
        return look_up(r);
    }
    if (r->g->input_kind == INPUT_IMAGES ||
        (has_form(r, 0, ONNX_IDS) && onnx_node_is(r->node, "Reshape"))) {
        return lay_given(r);
    }
    if (has_form(r, 0, ONNX_SUM)) {
        return divide_sum(r);
    }
    /* A Split does not tell its parts. */
    for (int i = 1; i < r->node->node.output_count; i++) {
        const onnx_known part = {
            .value = GRAPH_NONE, .tensor = -1, .form = ONNX_BOUNDED, .bounds = anything, .rank = 1};
        CHECK(onnx_give(r, i, part));
    }
    if (onnx_node_is(r->node, "IsNaN") && is_value(r, 0)) { /* which ends a run */
        return give_bounds(r, between(0.0, 0.0));
    }
    if (onnx_node_is(r->node, "ReduceSum") && is_value(r, 0)) {
        return sum_positions(r);
    }
    if (!all_are_bounded(r)) {
        return give_on(r);
    }
    TRY(memory_new(&in, (size_t)count + 3, sizeof in[0]));
    for (int i = 0; i < count; i++) {
        bool has = false;
        TRY(bounds_of(r, i, &has, &in[i]));
    }
    TRY(transfer(r, in, &found, &y));
    TRY(note_numbers(r));
    TRY(give_bounds(r, found ? y : anything));
out:
    memory_free(in);
    return status;
}
