#include "arch/onnx_shapes.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_region_shapes.h"

#include <math.h>
#include <string.h>

static onnx_number open_number(void)
{
    onnx_number n = onnx_whole(0);
    n.is_open = true;
    return n;
}

/* -- arithmetic -------------------------------------------------------------------------------- */

static double real_of(const onnx_number *n)
{
    return n->is_real ? n->real : (double)n->factor;
}

static bool is_one(const onnx_number *n)
{
    return !n->is_real && !n->is_open && n->factor == 1;
}

static onnx_number real_result(const char *name, double a, double b)
{
    return strcmp(name, "Mul") == 0   ? onnx_real(a * b)
           : strcmp(name, "Div") == 0 ? onnx_real(a / b)
           : strcmp(name, "Add") == 0 ? onnx_real(a + b)
           : strcmp(name, "Sub") == 0 ? onnx_real(a - b)
           : strcmp(name, "Pow") == 0 ? onnx_real(pow(a, b))
                                      : open_number();
}

/* Both numbers are without samples. Nothing is known of what leaves the range, or divides by 0. */
static onnx_number whole_result(const char *name, int64_t a, int64_t b)
{
    int64_t y = 0;
    bool fits = true;
    if (strcmp(name, "Mul") == 0) {
        fits = !__builtin_mul_overflow(a, b, &y);
    } else if (strcmp(name, "Add") == 0) {
        fits = !__builtin_add_overflow(a, b, &y);
    } else if (strcmp(name, "Sub") == 0) {
        fits = !__builtin_sub_overflow(a, b, &y);
    } else if (strcmp(name, "Equal") == 0) {
        y = a == b ? 1 : 0;
    } else if (b == 0 || (b == -1 && a == INT64_MIN)) {
        fits = false;
    } else if (strcmp(name, "Div") == 0) {
        y = a / b;
    } else if (strcmp(name, "Mod") == 0) {
        y = a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b;
    } else {
        fits = false;
    }
    return fits ? onnx_whole(y) : open_number();
}

static onnx_number result_of(const char *name, const onnx_number *a, const onnx_number *b)
{
    const bool multiplies = strcmp(name, "Mul") == 0;
    onnx_number y = open_number();
    if (a->is_open || b->is_open) {
        return y;
    }
    if (strcmp(name, "Equal") == 0 && a->per_sample != b->per_sample) { /* samples are some */
        return (a->per_sample ? b : a)->factor <= 0 ? onnx_whole(0) : y;
    }
    if (a->is_real || b->is_real) {
        return a->per_sample || b->per_sample ? y : real_result(name, real_of(a), real_of(b));
    }
    const bool parts = strcmp(name, "Div") == 0 && !b->per_sample && b->factor > 0 &&
                       a->factor % b->factor == 0; /* as many samples, or parts of each */
    if (multiplies ? a->per_sample && b->per_sample : (a->per_sample || b->per_sample) && !parts) {
        return y;
    }
    y = whole_result(name, a->factor, b->factor);
    y.per_sample = a->per_sample || b->per_sample;
    return y;
}

/* Whether a sum is of a number of channels and one that stays, as in a quotient that is rounded up.
 */
static bool may_round_off(const onnx_number *a, const onnx_number *b, const onnx_number *y)
{
    return !y->is_open && !y->is_real && onnx_is_channels(&a->of) && a->above == 0 &&
           !onnx_is_channels(&b->of);
}

/* A product with a number that stays goes with the other one; with 1 the literal is the same. */
static grail_status combine(onnx_reading *r, const char *name, const onnx_number *a,
                            const onnx_number *b, onnx_number *y)
{
    const bool multiplies = strcmp(name, "Mul") == 0;
    const bool scales = multiplies || strcmp(name, "Div") == 0;
    *y = result_of(name, a, b);
    if (strcmp(name, "Equal") == 0) {
        return GRAIL_OK;
    }
    if (multiplies && (is_one(a) || is_one(b)) && !onnx_is_channels(&(is_one(a) ? a : b)->of)) {
        const onnx_number *kept = is_one(a) ? b : a;
        y->tensor = kept->tensor;
        y->element = kept->element;
        y->reader = kept->reader;
        y->input = kept->input;
        y->of = kept->of;
        y->above = kept->above;
        return onnx_note_stays(r, is_one(a) ? a : b);
    }
    if (strcmp(name, "Add") == 0 && b->factor > 0 && may_round_off(a, b, y)) {
        y->of = a->of;
        y->above = b->factor;
        return onnx_note_stays(r, b);
    }
    const bool rounds_off = a->above > 0 && a->above < b->factor;
    const bool is_exact = !y->is_real && !y->is_open &&
                          (multiplies ? a->above == 0
                                      : b->factor != 0 && (a->factor - a->above) % b->factor == 0 &&
                                            (a->above == 0 || rounds_off));
    if (scales && is_exact && onnx_is_channels(&a->of) && !onnx_is_channels(&b->of)) {
        y->of = a->of;
        return onnx_note_stays(r, b);
    }
    CHECK(onnx_note_stays(r, a));
    return onnx_note_stays(r, b);
}

static grail_status read_pairs(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    const onnx_numbers *a = &in[0];
    const onnx_numbers *b = &in[1];
    if (a->count != b->count && a->count != 1 && b->count != 1) {
        return onnx_misfit("reads %d and %d numbers", a->count, b->count);
    }
    out->count = a->count == 1 ? b->count : a->count;
    out->rank = a->rank > b->rank ? a->rank : b->rank;
    CHECK(memory_new(&out->items, (size_t)out->count + 1, sizeof out->items[0]));
    for (int i = 0; i < out->count; i++) {
        CHECK(combine(r, r->node->node.operator_name, &a->items[a->count == 1 ? 0 : i],
                      &b->items[b->count == 1 ? 0 : i], &out->items[i]));
    }
    return GRAIL_OK;
}

/* -- operators --------------------------------------------------------------------------------- */

/* An integer that is known, in [-most, most]. */
static grail_status known_integer(onnx_reading *r, const onnx_numbers *list, int i, int64_t *out)
{
    if (i >= list->count || list->items[i].is_open || list->items[i].is_real ||
        list->items[i].per_sample) {
        return onnx_misfit("its bounds depend on sizes that are not known");
    }
    *out = list->items[i].factor;
    return onnx_note_stays(r, &list->items[i]);
}

static int64_t bounded(int64_t at, int64_t low, int64_t high)
{
    return at < low ? low : at > high ? high : at;
}

static grail_status read_gather(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    out->count = in[1].count;
    out->rank = in[1].rank;
    CHECK(memory_new(&out->items, (size_t)out->count + 1, sizeof out->items[0]));
    for (int i = 0; i < out->count; i++) {
        int64_t at = 0;
        CHECK(known_integer(r, &in[1], i, &at));
        at += at < 0 ? in[0].count : 0;
        if (at < 0 || at >= in[0].count) {
            return onnx_misfit("takes number %lld of %d", (long long)at, in[0].count);
        }
        out->items[i] = in[0].items[at];
    }
    return GRAIL_OK;
}

/* Numbers, or rows of a matrix, with a step of any sign. */
static grail_status read_slice(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    int64_t first = 0;
    int64_t end = 0;
    int64_t step = 1;
    int64_t axis = 0;
    const int wide = in[0].rank == 2 ? in[0].columns : 1;
    const int64_t rows = in[0].count / wide;
    CHECK(known_integer(r, &in[1], 0, &first));
    CHECK(known_integer(r, &in[2], 0, &end));
    CHECK(in[3].is_known ? known_integer(r, &in[3], 0, &axis) : GRAIL_OK);
    CHECK(in[4].is_known ? known_integer(r, &in[4], 0, &step) : GRAIL_OK);
    if (step == 0 || step < -ONNX_MOST_NUMBERS || in[1].count != 1 ||
        onnx_axis_of(axis, in[0].rank) != 0) {
        return onnx_misfit("takes other numbers than a run");
    }
    first = bounded(first < 0 ? first + rows : first, 0, step > 0 ? rows : rows - 1);
    end = bounded(end < 0 ? end + rows : end, step > 0 ? 0 : -1, step > 0 ? rows : rows - 1);
    *out = (onnx_numbers){.rank = in[0].rank, .columns = in[0].columns};
    CHECK(memory_new(&out->items, (size_t)in[0].count + 1, sizeof out->items[0]));
    for (int64_t i = first; rows > 0 && (step > 0 ? i < end : i > end);
         i += bounded(step, -rows, rows)) {
        memcpy(&out->items[out->count], &in[0].items[i * wide],
               (size_t)wide * sizeof out->items[0]);
        out->count += wide;
    }
    return GRAIL_OK;
}

static grail_status read_concat(const onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    out->rank = 1;
    CHECK(memory_new(&out->items, ONNX_MOST_NUMBERS, sizeof out->items[0]));
    for (int k = 0; k < r->node->node.input_count; k++) {
        if (out->count + in[k].count > ONNX_MOST_NUMBERS) {
            return onnx_misfit("makes more than %d numbers", ONNX_MOST_NUMBERS);
        }
        memcpy(&out->items[out->count], in[k].items, (size_t)in[k].count * sizeof in[k].items[0]);
        out->count += in[k].count;
    }
    return GRAIL_OK;
}

static grail_status read_cast(onnx_reading *r, onnx_numbers *out)
{
    const int64_t to = onnx_integer_of(r, "to", 0);
    const bool is_real =
        to == ONNX_FLOAT || to == ONNX_FLOAT16 || to == ONNX_DOUBLE || to == ONNX_BFLOAT16;
    for (int i = 0; i < out->count; i++) {
        onnx_number *n = &out->items[i];
        if (n->is_real && !is_real && isfinite(n->real) && fabs(n->real) < 1e15) {
            *n = onnx_whole((int64_t)n->real);
        } else if (!n->is_real && is_real) {
            CHECK(onnx_note_stays(r, n));
            *n = n->is_open || n->per_sample ? open_number() : onnx_real((double)n->factor);
        } else if (n->is_real && !is_real) {
            *n = open_number();
        }
    }
    return GRAIL_OK;
}

/* The functions of one real number; others are of whole ones, too, and keep them. */
static grail_status read_function(onnx_reading *r, onnx_numbers *out)
{
    const bool is_root = onnx_node_is(r->node, "Sqrt");
    const bool is_ceiling = onnx_node_is(r->node, "Ceil");
    for (int i = 0; i < out->count; i++) {
        onnx_number *n = &out->items[i];
        if (is_root || n->is_real) {
            CHECK(onnx_note_stays(r, n));
            const double x = real_of(n);
            *n = n->is_open || n->per_sample ? open_number()
                                             : onnx_real(is_root      ? sqrt(x)
                                                         : is_ceiling ? ceil(x)
                                                                      : floor(x));
        }
    }
    return GRAIL_OK;
}

static grail_status read_clip(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    for (int k = 1; k < 3; k++) {
        if (in[k].is_known &&
            (in[k].count != 1 || in[k].items[0].is_open || in[k].items[0].per_sample)) {
            return onnx_misfit("its bounds depend on sizes that are not known");
        }
    }
    for (int i = 0; i < out->count; i++) {
        onnx_number *n = &out->items[i];
        const bool is_low = in[1].is_known && real_of(n) < real_of(&in[1].items[0]);
        const bool is_high = in[2].is_known && real_of(n) > real_of(&in[2].items[0]);
        CHECK(onnx_note_stays(r, n));
        *n = n->is_open || n->per_sample ? open_number()
             : is_high                   ? in[2].items[0]
             : is_low                    ? in[1].items[0]
             : n->is_real                ? onnx_real(n->real)
                                         : onnx_whole(n->factor);
    }
    return GRAIL_OK;
}

static grail_status read_transpose(const onnx_numbers in[], onnx_numbers *out)
{
    const int rows = in[0].rank == 2 ? in[0].count / in[0].columns : 0;
    if (rows == 0) {
        return onnx_misfit("turns no matrix of numbers");
    }
    for (int i = 0; i < out->count; i++) {
        out->items[i % in[0].columns * rows + i / in[0].columns] = in[0].items[i];
    }
    out->columns = rows;
    return GRAIL_OK;
}

/* Makes a list; the number that fills it is an attribute. */
static grail_status read_filled(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    const onnx_attribute *a = onnx_node_attribute(r->node, "value");
    onnx_numbers fill = {0};
    int64_t count = 1;
    CHECK(in[0].count > 0 ? known_integer(r, &in[0], 0, &count) : GRAIL_OK);
    if (in[0].count > 1 || count < 0 || count > ONNX_MOST_NUMBERS) {
        return onnx_misfit("makes more than %d numbers", ONNX_MOST_NUMBERS);
    }
    CHECK(a != NULL && a->kind == ONNX_TENSOR ? onnx_numbers_of_constant(r, a->tensor, &fill)
                                              : GRAIL_OK);
    out->rank = in[0].count;
    out->count = (int)count;
    const grail_status status = memory_new(&out->items, (size_t)count + 1, sizeof out->items[0]);
    for (int i = 0; status == GRAIL_OK && i < out->count; i++) {
        out->items[i] = fill.count == 1 ? fill.items[0]
                        : a == NULL     ? onnx_real(0.0)
                                        : open_number();
        out->items[i].tensor = -1;
    }
    memory_free(fill.items);
    return status;
}

/* A number for each sample. */
static bool counts_samples(const onnx_numbers in[])
{
    bool fits = true;
    for (int k = 0; k < 3; k++) {
        const onnx_number *n = &in[k].items[0];
        fits = fits && in[k].count == 1 && !n->is_open && !n->is_real &&
               n->per_sample == (k == 1) && n->factor == (k == 0 ? 0 : 1);
    }
    return fits;
}

static grail_status read_range(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    int64_t first = 0;
    int64_t end = 0;
    int64_t step = 0;
    if (counts_samples(in) && r->g->input_kind == INPUT_IMAGES) {
        return onnx_give(
            r, 0,
            (onnx_known){
                .value = GRAPH_NONE, .tensor = -1, .form = ONNX_INDICES, .width = 1, .rank = 1});
    }
    CHECK(known_integer(r, &in[0], 0, &first));
    CHECK(known_integer(r, &in[1], 0, &end));
    CHECK(known_integer(r, &in[2], 0, &step));
    const double steps = step == 0 ? 0.0 : ceil(((double)end - (double)first) / (double)step);
    if (step == 0 || steps > ONNX_MOST_NUMBERS) {
        return onnx_misfit("makes more than %d numbers", ONNX_MOST_NUMBERS);
    }
    out->rank = 1;
    out->count = steps > 0.0 ? (int)steps : 0;
    CHECK(memory_new(&out->items, (size_t)out->count + 1, sizeof out->items[0]));
    for (int i = 0; i < out->count; i++) {
        out->items[i] = onnx_whole(first + i * step);
    }
    return GRAIL_OK;
}

static grail_status read_expand(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    int64_t count = 1;
    CHECK(in[1].count > 0 ? known_integer(r, &in[1], 0, &count) : GRAIL_OK);
    if (in[1].count > 1 || count < 0 || count > ONNX_MOST_NUMBERS ||
        (in[0].count != 1 && in[0].count != count && count != 1)) {
        return onnx_misfit("makes more than %d numbers", ONNX_MOST_NUMBERS);
    }
    out->rank = in[1].count > in[0].rank ? in[1].count : in[0].rank;
    out->count = in[0].count == 1 ? (int)count : in[0].count;
    CHECK(memory_new(&out->items, (size_t)out->count + 1, sizeof out->items[0]));
    for (int i = 0; i < out->count; i++) {
        out->items[i] = in[0].items[in[0].count == 1 ? 0 : i];
    }
    return GRAIL_OK;
}

static grail_status read_where(const onnx_numbers in[], onnx_numbers *out)
{
    int count = 1;
    for (int k = 0; k < 3; k++) {
        count = in[k].count > count || in[k].count == 0 ? in[k].count : count;
        out->rank = in[k].rank > out->rank ? in[k].rank : out->rank;
    }
    out->count = count;
    CHECK(memory_new(&out->items, (size_t)count + 1, sizeof out->items[0]));
    for (int i = 0; i < count; i++) {
        const onnx_number *n[3];
        for (int k = 0; k < 3; k++) {
            if (in[k].count != 1 && in[k].count != count) {
                return onnx_misfit("reads %d, %d and %d numbers", in[0].count, in[1].count,
                                   in[2].count);
            }
            n[k] = &in[k].items[in[k].count == 1 ? 0 : i];
        }
        out->items[i] = n[0]->is_open ? open_number() : *n[n[0]->factor != 0 ? 1 : 2];
    }
    return GRAIL_OK;
}

/* The last dimension of the matrix that numbers are to be; 0: they are not so many. */
static grail_status read_columns(onnx_reading *r, const onnx_numbers *to, int count, int *columns)
{
    int64_t size[2];
    for (int k = 0; k < 2; k++) {
        CHECK(known_integer(r, to, k, &size[k]));
    }
    if (size[0] > 0 && size[1] == -1) {
        size[1] = count / size[0];
    }
    *columns =
        size[1] > 0 && size[1] <= ONNX_MOST_NUMBERS && count % size[1] == 0 ? (int)size[1] : 0;
    return GRAIL_OK;
}

/* What keeps the numbers and says how many dimensions they lie in. */
static grail_status read_moved(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    if (onnx_node_is(r->node, "Reshape")) {
        out->rank = in[1].count;
        CHECK(out->rank == 2 ? read_columns(r, &in[1], out->count, &out->columns) : GRAIL_OK);
    } else {
        CHECK(onnx_list_of(r, "axes", 1, &count, axes));
        out->rank += onnx_node_is(r->node, "Squeeze") ? -(count == 0 ? out->rank : count) : count;
        out->columns = 0;
    }
    return out->rank == 1 || (out->rank == 0 && out->count == 1) ||
                   (out->rank == 2 && out->columns > 0)
               ? GRAIL_OK
               : onnx_misfit("makes numbers in %d dimensions", out->rank);
}

/* The sizes of any value. */
static grail_status read_shape(onnx_reading *r, onnx_numbers *out)
{
    *out = (onnx_numbers){.rank = 1};
    if (!onnx_has_input(r, 0) || !onnx_is_inner(r, r->node->inputs[0])) {
        CHECK(onnx_sizes_of(r, out));
    } else {
        CHECK(memory_new(&out->items, ONNX_MAX_RANK + 1, sizeof out->items[0]));
        CHECK(onnx_inner_sizes(r, r->node->inputs[0], out)
                  ? GRAIL_OK
                  : onnx_misfit("is of sizes that are not known"));
    }
    const int64_t first = onnx_integer_of(r, "start", 0);
    const int64_t last = onnx_integer_of(r, "end", out->count);
    const int64_t from = bounded(first < 0 ? first + out->count : first, 0, out->count);
    const int64_t to = bounded(last < 0 ? last + out->count : last, from, out->count);
    memmove(out->items, &out->items[from], (size_t)(to - from) * sizeof out->items[0]);
    out->count = (int)(to - from);
    return GRAIL_OK;
}

/* What the numbers of a node begin as: those of its first input, which a weight may not be, or
 * nothing. */
typedef enum rule { KEEPS, MOVES, MAKES } rule;

static grail_status compute(onnx_reading *r, const onnx_numbers in[], onnx_numbers *out)
{
    const onnx_file_node *n = r->node;
    return onnx_node_is(n, "Gather")            ? read_gather(r, in, out)
           : onnx_node_is(n, "Slice")           ? read_slice(r, in, out)
           : onnx_node_is(n, "Concat")          ? read_concat(r, in, out)
           : onnx_node_is(n, "ConstantOfShape") ? read_filled(r, in, out)
           : onnx_node_is(n, "Range")           ? read_range(r, in, out)
           : onnx_node_is(n, "Expand")          ? read_expand(r, in, out)
           : onnx_node_is(n, "Where")           ? read_where(in, out)
           : onnx_node_is(n, "Cast")            ? read_cast(r, out)
           : onnx_node_is(n, "Clip")            ? read_clip(r, in, out)
           : onnx_node_is(n, "Transpose")       ? read_transpose(in, out)
           : onnx_node_is(n, "Sqrt") || onnx_node_is(n, "Ceil") || onnx_node_is(n, "Floor")
               ? read_function(r, out)
           : onnx_node_is(n, "Identity") ? GRAIL_OK
           : onnx_node_is(n, "Reshape") || onnx_node_is(n, "Squeeze") ||
                   onnx_node_is(n, "Unsqueeze")
               ? read_moved(r, in, out)
               : read_pairs(r, in, out);
}

/* The operators, with the inputs that each has at least, and the dimensions that these may have. */
static const struct {
    const char *name;
    int inputs, rank;
    rule rule;
} computed[] = {
    {"Add", 2, 1, MAKES},       {"Cast", 1, 2, KEEPS},      {"Ceil", 1, 2, KEEPS},
    {"Clip", 1, 2, KEEPS},      {"Concat", 1, 1, MAKES},    {"ConstantOfShape", 1, 1, MAKES},
    {"Div", 2, 1, MAKES},       {"Equal", 2, 1, MAKES},     {"Expand", 2, 1, MAKES},
    {"Floor", 1, 2, KEEPS},     {"Gather", 2, 1, MAKES},    {"Identity", 1, 2, MOVES},
    {"Mod", 2, 1, MAKES},       {"Mul", 2, 1, MAKES},       {"Pow", 2, 1, MAKES},
    {"Range", 3, 1, MAKES},     {"Reshape", 2, 2, MOVES},   {"Slice", 3, 2, MAKES},
    {"Sqrt", 1, 2, KEEPS},      {"Squeeze", 1, 1, MOVES},   {"Sub", 2, 1, MAKES},
    {"Transpose", 1, 2, MOVES}, {"Unsqueeze", 1, 1, MOVES}, {"Where", 3, 1, MAKES},
};

static int row_of(const onnx_file_node *n)
{
    const int count = (int)(sizeof computed / sizeof computed[0]);
    for (int i = 0; i < count; i++) {
        if (onnx_node_is(n, computed[i].name)) {
            return i;
        }
    }
    return -1;
}

/* Constants of one dimension alone: others, and large ones, are weights. The scales of a Resize are
 * put together from two pairs. */
static bool is_numbers(const onnx_reading *r, int i)
{
    const int64_t tensor = onnx_known_input(r, i)->tensor;
    const tensor_view *t = tensor < 0 ? NULL : &r->file->tensors[tensor].view;
    const int64_t most_real = onnx_node_is(r->node, "Concat") ? 2 : 1;
    const int64_t most = t != NULL && dtype_is_float(t->dtype) ? most_real : ONNX_MOST_NUMBERS;
    return r->numbers[r->node->inputs[i]].is_known ||
           (t != NULL && (t->rank == 0 || (t->rank == 1 && t->shape[0] <= most)));
}

/* A constant of few values that is given on, perhaps in other dimensions, may be a weight. */
static bool gives_weight(const onnx_reading *r, int row)
{
    const int64_t tensor = computed[row].rule == MOVES ? onnx_known_input(r, 0)->tensor : -1;
    return tensor >= 0 && dtype_is_float(r->file->tensors[tensor].view.dtype);
}

bool onnx_computes_numbers(const onnx_reading *r)
{
    const int row = row_of(r->node);
    bool has_some = onnx_node_is(r->node, "ConstantOfShape") || onnx_node_is(r->node, "Range");
    if (onnx_node_is(r->node, "Shape")) {
        return true;
    }
    if (row < 0 || r->node->node.output_count != 1 ||
        r->node->node.input_count < computed[row].inputs) {
        return false;
    }
    for (int i = 0; i < r->node->node.input_count; i++) {
        if (onnx_has_input(r, i) ? !is_numbers(r, i) : i < computed[row].inputs) {
            return false;
        }
        has_some = has_some || onnx_has_input(r, i);
    }
    return has_some && !gives_weight(r, row);
}

grail_status onnx_read_numbers(onnx_reading *r)
{
    grail_status status = GRAIL_OK;
    const int inputs = r->node->node.input_count;
    onnx_numbers *in = NULL;
    onnx_numbers out = {0};
    if (r->node->node.output_count < 1 || r->node->outputs[0] < 0) {
        return onnx_misfit("makes nothing");
    }
    TRY(memory_new(&in, (size_t)inputs + 5, sizeof in[0]));
    if (onnx_node_is(r->node, "Shape")) {
        TRY(read_shape(r, &out));
    } else {
        for (int i = 0; i < inputs; i++) {
            TRY(onnx_numbers_of(r, i, &in[i]));
            if (in[i].rank > computed[row_of(r->node)].rank) {
                FAIL(GRAIL_ERROR_UNSUPPORTED, "reads a matrix of numbers, '%s'",
                     r->node->node.inputs[i]);
            }
            if (onnx_has_input(r, i) && !in[i].is_known) {
                FAIL(GRAIL_ERROR_UNSUPPORTED, "'%s' is no list of at most %d numbers",
                     r->node->node.inputs[i], ONNX_MOST_NUMBERS);
            }
        }
        TRY(computed[row_of(r->node)].rule != MAKES ? onnx_copy_numbers(&in[0], &out) : GRAIL_OK);
        TRY(compute(r, in, &out));
    }
    out.is_known = r->values[r->node->outputs[0]].form == ONNX_VALUE;
    r->numbers[r->node->outputs[0]] = out;
    out.items = NULL;
out:
    memory_free(out.items);
    for (int i = 0; in != NULL && i < inputs; i++) {
        memory_free(in[i].items);
    }
    memory_free(in);
    return status;
}
