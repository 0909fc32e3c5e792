#include "arch/onnx_patterns.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_regions.h"
#include "arch/onnx_rotations.h"
#include "arch/onnx_search.h"

#include <math.h>
#include <string.h>

/* Whether a value is a constant of one number. */
static bool take_number(const search *s, int64_t value, double *number)
{
    float found = 0.0F;
    int64_t elements = 0;
    const int64_t tensor = value < 0 ? -1 : s->r->file->values[value].tensor;
    const onnx_tensor *t = tensor < 0 ? NULL : &s->r->file->tensors[tensor];
    const bool is_taken = t != NULL && dtype_is_float(t->view.dtype) &&
                          shape_elements(t->view.rank, t->view.shape, &elements) && elements == 1 &&
                          onnx_tensor_f32(t, &found) == GRAIL_OK;
    *number = (double)found;
    return is_taken;
}

static bool is_number(const search *s, int64_t value, double number)
{
    double found = 0.0;
    return take_number(s, value, &found) && fabs(found - number) < 1e-6 * number;
}

/* The input of a node of two whose other input is that number; -1: none. */
static int64_t times(const search *s, int64_t at, double number)
{
    const int64_t a = search_input(s, at, 0);
    const int64_t b = search_input(s, at, 1);
    return is_number(s, b, number) ? a : is_number(s, a, number) ? b : -1;
}

/* -- GELU: x (1 + erf(x / sqrt 2)) / 2 --------------------------------------------------------- */

/* x times `gate` times 1/2, in any order, or without the half, which then is elsewhere. */
static bool halve(search *s, int64_t gate, int64_t x, onnx_pattern *p)
{
    const int64_t first = search_reader(s, gate, "Mul");
    const int64_t other = first < 0 ? -1 : search_other(s, first, search_node(s, gate)->outputs[0]);
    const int64_t half = search_maker(s, other, "Mul");
    if (other < 0) {
        return false;
    }
    p->last = first;
    if (half >= 0 && times(s, half, 0.5) == x && search_reader(s, half, "Mul") == first) {
        search_swallow(s, half);
        return true;
    }
    const int64_t second = search_reader(s, first, "Mul");
    const int64_t made = search_node(s, first)->outputs[0];
    const bool fits = other == x ? times(s, second, 0.5) == made
                                 : is_number(s, other, 0.5) && search_other(s, second, made) == x;
    if (second >= 0 && fits) {
        search_swallow(s, first);
        p->last = second;
        return true;
    }
    p->is_doubled = other == x;
    return p->is_doubled;
}

static bool find_gelu(search *s, int64_t erf, onnx_pattern *p)
{
    const int64_t scaled = search_input(s, erf, 0);
    const int64_t division = search_maker(s, scaled, "Div");
    const int64_t product = search_maker(s, scaled, "Mul");
    const int64_t x = division >= 0 && is_number(s, search_input(s, division, 1), sqrt(2.0))
                          ? search_input(s, division, 0)
                          : times(s, product, sqrt(0.5));
    const int64_t first = division >= 0 ? division : product;
    const int64_t gate = search_reader(s, erf, "Add");
    if (x < 0 || search_reader(s, first, "Erf") != erf ||
        times(s, gate, 1.0) != search_node(s, erf)->outputs[0]) {
        return false;
    }
    search_swallow(s, first);
    search_swallow(s, erf);
    search_swallow(s, gate);
    *p = (onnx_pattern){.kind = ONNX_GELU, .input = x};
    return halve(s, gate, x, p);
}

/* -- GELU by a tanh: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 ------------------------- */

enum { TERMS = 4, MOST_STEPS = 6 };

/* sum[TERMS] <- a b; false where that has higher powers. */
static bool multiply_terms(const double *a, const double *b, double *sum)
{
    double product[TERMS] = {0.0};
    for (int i = 0; i < TERMS; i++) {
        for (int k = 0; k < TERMS; k++) {
            if (i + k < TERMS) {
                product[i + k] += a[i] * b[k];
            } else if (a[i] != 0.0 && b[k] != 0.0) {
                return false;
            }
        }
    }
    memcpy(sum, product, sizeof product);
    return true;
}

/* A value as a polynomial of x, out[TERMS], whose nodes are swallowed; false: it is none, or
 * something else reads one of them. */
static bool expand(search *s, int64_t value, int64_t x, double *out)
{
    double b[TERMS] = {0.0};
    double power = 0.0;
    memset(out, 0, TERMS * sizeof out[0]);
    out[1] = value == x ? 1.0 : 0.0;
    if (value == x || take_number(s, value, &out[0])) {
        return true;
    }
    const int64_t at = value < 0 ? -1 : s->r->file->values[value].node;
    if (at < 0 || s->count > MOST_STEPS || s->r->values[value].readers != 1) {
        return false;
    }
    search_swallow(s, at);
    if (search_check(s, at, "Pow") >= 0) {
        bool fits = take_number(s, search_input(s, at, 1), &power) &&
                    (power == 2.0 || power == 3.0) && expand(s, search_input(s, at, 0), x, b);
        memcpy(out, b, sizeof b);
        for (; fits && power > 1.0; power -= 1.0) {
            fits = multiply_terms(out, b, out);
        }
        return fits;
    }
    const bool adds = search_check(s, at, "Add") >= 0;
    if ((!adds && search_check(s, at, "Mul") < 0) || !expand(s, search_input(s, at, 0), x, out) ||
        !expand(s, search_input(s, at, 1), x, b)) {
        return false;
    }
    for (int i = 0; adds && i < TERMS; i++) {
        out[i] += b[i];
    }
    return adds || multiply_terms(out, b, out);
}

/* x is somewhere on the way down through what the tanh reads. */
static bool find_gelu_tanh(search *s, int64_t tanh_at, onnx_pattern *p)
{
    const double scale = sqrt(2.0 / acos(-1.0));
    const double cubic = 0.044715 * scale;
    const int64_t gate = search_reader(s, tanh_at, "Add");
    int64_t x = search_input(s, tanh_at, 0);
    if (times(s, gate, 1.0) != search_node(s, tanh_at)->outputs[0]) {
        return false;
    }
    for (int i = 0; i < MOST_STEPS && x >= 0 && s->r->file->values[x].node >= 0; i++) {
        double terms[TERMS];
        double number = 0.0;
        const int64_t at = s->r->file->values[x].node;
        x = search_input(s, at, take_number(s, search_input(s, at, 0), &number) ? 1 : 0);
        s->count = 0;
        if (expand(s, search_input(s, tanh_at, 0), x, terms) && terms[0] == 0.0 &&
            terms[2] == 0.0 && fabs(terms[1] - scale) < 1e-3 * scale &&
            fabs(terms[3] - cubic) < 1e-3 * cubic) {
            search_swallow(s, tanh_at);
            search_swallow(s, gate);
            *p = (onnx_pattern){.kind = ONNX_GELU_TANH, .input = x};
            return halve(s, gate, x, p);
        }
    }
    return false;
}

/* -- a slope below 0: max(x, a x) -------------------------------------------------------------- */

static bool find_slope(search *s, int64_t root, onnx_pattern *p)
{
    for (int i = 0; i < 2 && search_node(s, root)->node.input_count == 2; i++) {
        const int64_t x = search_input(s, root, 1 - i);
        const int64_t product = search_maker(s, search_input(s, root, i), "Mul");
        const int64_t slope = product < 0 ? -1 : search_other(s, product, x);
        if (slope >= 0 && s->r->file->values[slope].tensor >= 0 &&
            search_other(s, product, slope) == x && search_reader(s, product, "Max") == root) {
            search_swallow(s, product);
            *p = (onnx_pattern){.kind = ONNX_SLOPE, .last = root, .input = x, .number = slope};
            return true;
        }
    }
    return false;
}

/* -- LayerNorm: (x - mean) / sqrt(mean of squares + epsilon) * weight + bias ------------------- */

/* The mean over one dimension, *over, which is kept: the last one, as it is to be found out. */
static int64_t mean_of(const search *s, int64_t value, int64_t *over)
{
    const int64_t at = search_maker(s, value, "ReduceMean");
    int64_t axis = 0;
    if (at < 0) {
        return -1;
    }
    const onnx_attribute *keeps = onnx_node_attribute(search_node(s, at), "keepdims");
    const onnx_attribute *axes = onnx_node_attribute(search_node(s, at), "axes");
    const int64_t given = search_input(s, at, 1);
    const int64_t tensor = given < 0 ? -1 : s->r->file->values[given].tensor;
    if (axes != NULL && axes->kind == ONNX_INTEGERS && axes->count == 1) {
        axis = axes->integers[0];
    } else if (tensor >= 0 && s->r->file->tensors[tensor].view.bytes == sizeof axis) {
        axis = onnx_tensor_integers(&s->r->file->tensors[tensor], &axis) == GRAIL_OK ? axis : 0;
    }
    *over = axis;
    return axis != 0 && (keeps == NULL || keeps->integer == 1) ? at : -1;
}

static bool is_constant(const search *s, int64_t value)
{
    return value >= 0 && s->r->file->values[value].tensor >= 0;
}

/* The constant that the only reader of a node's output multiplies or adds; that reader is then
 * the last node, and *last is swallowed. */
static int64_t take_constant(search *s, int64_t *last, const char *name)
{
    const int64_t next = search_reader(s, *last, name);
    const int64_t constant =
        next < 0 ? -1 : search_other(s, next, search_node(s, *last)->outputs[0]);
    if (!is_constant(s, constant)) {
        return -1;
    }
    search_swallow(s, *last);
    *last = next;
    return constant;
}

static bool find_layer_norm(search *s, int64_t root, onnx_pattern *p)
{
    const int64_t sum = search_maker(s, search_input(s, root, 0), "Add");
    const int at = is_constant(s, search_input(s, sum, 1)) ? 1 : 0;
    int64_t axes[2] = {0};
    const int64_t variance = sum < 0 ? -1 : mean_of(s, search_input(s, sum, 1 - at), &axes[0]);
    const int64_t power = search_maker(s, search_input(s, variance, 0), "Pow");
    const int64_t product = search_maker(s, search_input(s, variance, 0), "Mul");
    const int64_t squares = power >= 0 ? power : product;
    const int64_t centred = search_input(s, squares, 0);
    const int64_t difference = search_maker(s, centred, "Sub");
    const int64_t mean = difference < 0 ? -1 : mean_of(s, search_input(s, difference, 1), &axes[1]);
    int64_t last = search_reader(s, root, "Div");
    if (mean < 0 || last < 0 || axes[0] != axes[1] || !is_constant(s, search_input(s, sum, at)) ||
        search_input(s, mean, 0) != search_input(s, difference, 0) ||
        search_input(s, last, 0) != centred ||
        !(power >= 0 ? is_number(s, search_input(s, power, 1), 2.0)
                     : search_input(s, product, 1) == centred)) {
        return false;
    }
    search_swallow(s, mean);
    search_swallow(s, difference);
    search_swallow(s, squares);
    search_swallow(s, variance);
    search_swallow(s, sum);
    search_swallow(s, root);
    *p = (onnx_pattern){.kind = ONNX_LAYER_NORM,
                        .input = search_input(s, difference, 0),
                        .number = search_input(s, sum, at),
                        .axis = axes[0]};
    p->weight = take_constant(s, &last, "Mul");
    p->weight_node = last;
    p->bias = p->weight < 0 ? -1 : take_constant(s, &last, "Add");
    p->bias_node = last;
    p->last = last;
    return true;
}

/* -- RMS norm: x / sqrt(mean of squares + epsilon) * weight ------------------------------------ */

/* The node that multiplies x by 1 / root or divides it by the root; what makes 1 / root is
 * swallowed. -1: none. */
static int64_t divide_by_root(search *s, int64_t root, int64_t x)
{
    const int64_t division = search_reader(s, root, "Div");
    const bool is_inverse = division >= 0 && is_number(s, search_input(s, division, 0), 1.0);
    const int64_t inverse = is_inverse ? division : search_reader(s, root, "Reciprocal");
    const int64_t product = inverse < 0 ? -1 : search_reader(s, inverse, "Mul");
    if (product >= 0 && search_other(s, product, search_node(s, inverse)->outputs[0]) == x) {
        search_swallow(s, inverse);
        return product;
    }
    return search_input(s, division, 0) == x ? division : -1;
}

/* The weight, behind a Cast, too, which an exporter writes to where the values came from. */
static int64_t take_weight(search *s, int64_t *last)
{
    const int64_t before = *last;
    const int64_t cast = search_reader(s, before, "Cast");
    *last = cast >= 0 ? cast : before;
    const int64_t weight = take_constant(s, last, "Mul");
    if (weight >= 0 && cast >= 0) {
        search_swallow(s, before);
    }
    return weight;
}

static bool find_rms_norm(search *s, int64_t root, onnx_pattern *p)
{
    const int64_t sum = search_maker(s, search_input(s, root, 0), "Add");
    const int at = is_constant(s, search_input(s, sum, 1)) ? 1 : 0;
    int64_t axis = 0;
    const int64_t mean = sum < 0 ? -1 : mean_of(s, search_input(s, sum, 1 - at), &axis);
    const int64_t power = search_maker(s, search_input(s, mean, 0), "Pow");
    const int64_t product = search_maker(s, search_input(s, mean, 0), "Mul");
    const int64_t squares = power >= 0 ? power : product;
    const int64_t x = search_input(s, squares, 0);
    if (mean < 0 || x < 0 || !is_constant(s, search_input(s, sum, at)) ||
        !(power >= 0 ? is_number(s, search_input(s, power, 1), 2.0)
                     : search_input(s, product, 1) == x)) {
        return false;
    }
    int64_t last = divide_by_root(s, root, x);
    if (last < 0) {
        return false;
    }
    search_swallow(s, squares);
    search_swallow(s, mean);
    search_swallow(s, sum);
    search_swallow(s, root);
    *p = (onnx_pattern){.kind = ONNX_RMS_NORM,
                        .input = x,
                        .number = search_input(s, sum, at),
                        .bias = -1,
                        .axis = axis};
    p->weight = take_weight(s, &last);
    p->weight_node = last;
    p->last = last;
    return p->weight >= 0; /* without one no channel could go */
}

/* -- response norm: x + weight x l / (mean(l) + epsilon) + bias, l the lengths of channels ----- */

/* What follows the quotient: the product with x, with a weight, perhaps with 1, the sums with a
 * bias and with x. */
static bool find_response(search *s, int64_t quotient, int64_t x, onnx_pattern *p)
{
    int64_t last = search_reader(s, quotient, "Mul");
    if (last < 0 || search_other(s, last, search_node(s, quotient)->outputs[0]) != x) {
        return false;
    }
    search_swallow(s, quotient);
    p->weight = take_constant(s, &last, "Mul");
    p->weight_node = last;
    const int64_t same = p->weight < 0 ? -1 : search_reader(s, last, "Mul");
    if (same >= 0 && times(s, same, 1.0) == search_node(s, last)->outputs[0]) {
        search_swallow(s, last);
        last = same;
    }
    p->bias = p->weight < 0 ? -1 : take_constant(s, &last, "Add");
    p->bias_node = last;
    p->last = p->bias < 0 ? -1 : search_reader(s, last, "Add");
    if (p->last < 0 || search_other(s, p->last, search_node(s, last)->outputs[0]) != x) {
        return false;
    }
    search_swallow(s, last);
    return true;
}

static bool find_response_norm(search *s, int64_t lengths, onnx_pattern *p)
{
    const int64_t value = search_node(s, lengths)->outputs[0];
    const int64_t x = search_input(s, lengths, 0);
    const int64_t quotient = search_check(s, s->reader[value], "Div");
    const int64_t sum = search_maker(s, search_input(s, quotient, 1), "Add");
    const int at = is_constant(s, search_input(s, sum, 1)) ? 1 : 0;
    const onnx_attribute *keeps = onnx_node_attribute(search_node(s, lengths), "keepdims");
    int64_t axis = 0;
    const int64_t mean = sum < 0 ? -1 : mean_of(s, search_input(s, sum, 1 - at), &axis);
    if (mean < 0 || x < 0 || search_input(s, mean, 0) != value ||
        search_input(s, quotient, 0) != value || s->r->values[value].readers != 2 ||
        !is_constant(s, search_input(s, sum, at)) || search_reader(s, mean, "Add") != sum ||
        search_reader(s, sum, "Div") != quotient || (keeps != NULL && keeps->integer != 1)) {
        return false;
    }
    search_swallow(s, lengths);
    search_swallow(s, mean);
    search_swallow(s, sum);
    *p = (onnx_pattern){.kind = ONNX_RESPONSE_NORM,
                        .input = x,
                        .number = search_input(s, sum, at),
                        .axis = axis,
                        .lengths = lengths};
    return find_response(s, quotient, x, p);
}

/* -- the list ---------------------------------------------------------------------------------- */

static bool find_norm(search *s, int64_t root, onnx_pattern *p)
{
    if (find_layer_norm(s, root, p)) {
        return true;
    }
    s->count = 0;
    return find_rms_norm(s, root, p);
}

static grail_status find_in(search *s)
{
    const onnx_file *f = s->r->file;
    for (int64_t i = 0; i < f->node_count; i++) {
        for (int k = 0; k < f->nodes[i].node.input_count; k++) {
            if (f->nodes[i].inputs[k] >= 0) {
                s->reader[f->nodes[i].inputs[k]] = i;
            }
        }
    }
    for (int64_t i = 0; i < f->node_count; i++) {
        onnx_pattern p = {0};
        s->count = 0;
        const bool found = (search_check(s, i, "Erf") >= 0 && find_gelu(s, i, &p)) ||
                           (search_check(s, i, "Tanh") >= 0 && find_gelu_tanh(s, i, &p)) ||
                           (search_check(s, i, "Max") >= 0 && find_slope(s, i, &p)) ||
                           (search_check(s, i, "Add") >= 0 && onnx_find_rotation(s, i, &p)) ||
                           (search_check(s, i, "Sqrt") >= 0 && find_norm(s, i, &p)) ||
                           (search_check(s, i, "ReduceL2") >= 0 && find_response_norm(s, i, &p));
        if (found && !onnx_is_opaque(s->r, p.last)) {
            onnx_reading *r = s->r;
            CHECK(memory_reserve(&r->patterns, (size_t)r->pattern_count + 1, sizeof p));
            r->patterns[r->pattern_count++] = p;
            for (int k = 0; k < s->count; k++) {
                r->is_read[s->nodes[k]] = true;
            }
        }
    }
    return GRAIL_OK;
}

grail_status onnx_find_patterns(onnx_reading *r)
{
    search s = {.r = r};
    CHECK(memory_new(&s.reader, (size_t)r->file->value_count + 1, sizeof s.reader[0]));
    const grail_status status = find_in(&s);
    memory_free(s.reader);
    return status;
}

const onnx_pattern *onnx_pattern_at(const onnx_reading *r, int64_t i)
{
    for (int64_t k = 0; k < r->pattern_count; k++) {
        if (r->patterns[k].last == i) {
            return &r->patterns[k];
        }
    }
    return NULL;
}

/* -- reading ----------------------------------------------------------------------------------- */

/* The constant that a node reads as that value; NULL: value -1. */
static const tensor_view *constant_at(const onnx_reading *r, int64_t at, int64_t value)
{
    const onnx_copy *copy = NULL;
    if (value < 0) {
        return NULL;
    }
    for (int k = 0; k < r->file->nodes[at].node.input_count && copy == NULL; k++) {
        copy = r->file->nodes[at].inputs[k] == value ? onnx_copy_at(r->copies, at, k) : NULL;
    }
    return copy != NULL ? &copy->view : &r->file->tensors[r->values[value].tensor].view;
}

/* Its channels lie in the last dimension; weight and bias are w, NULL without. */
static grail_status add_norm(onnx_reading *r, node_kind kind, onnx_known *x, double epsilon,
                             const tensor_view *const w[2])
{
    node n = onnx_plain(kind, x, NULL);
    int *parameters[] = {&n.weight, &n.bias};
    n.norm.epsilon = epsilon;
    const bool of_heads = kind == NODE_RMS_NORM && x->pieces[1] > 0 && x->pieces[0] == 0 &&
                          x->layout[strlen(x->layout) - 1] == 'D';
    const int64_t width = of_heads ? x->pieces[2] : x->width;
    n.norm.group = of_heads ? width : 0;
    if (!of_heads && !onnx_ends_in_channels(x)) {
        return onnx_misfit("is a norm over other dimensions than that of the channels");
    }
    for (int i = 0; i < 2; i++) {
        const tensor_view *t = w[i];
        if (t != NULL && (t->rank != 1 || t->shape[0] != width || !dtype_is_float(t->dtype))) {
            return onnx_misfit("its weight or bias is no constant of %lld channels",
                               (long long)width);
        }
        CHECK(t == NULL ? GRAIL_OK : onnx_add_parameter(r, t, false, parameters[i]));
    }
    return onnx_give_node(r, &n, *x);
}

static grail_status read_norm(onnx_reading *r, node_kind kind)
{
    onnx_known *x = NULL;
    const tensor_view *w[2] = {NULL, NULL};
    CHECK(onnx_any_input(r, 0, &x));
    for (int i = 0; i < 2 && onnx_has_input(r, i + 1); i++) {
        CHECK(onnx_tensor_input(r, i + 1, 1, NULL, &w[i]));
    }
    if (onnx_axis_of(onnx_integer_of(r, "axis", -1), x->rank) != x->rank - 1 ||
        r->node->node.output_count != 1) {
        return onnx_misfit("is a norm over several dimensions, or gives its means, too");
    }
    return add_norm(r, kind, x, onnx_real_of(r, "epsilon", 1e-5), w);
}

grail_status onnx_read_layer_norm(onnx_reading *r)
{
    return read_norm(r, NODE_LAYER_NORM);
}

grail_status onnx_read_rms_norm(onnx_reading *r)
{
    return onnx_has_input(r, 1) && !onnx_has_input(r, 2)
               ? read_norm(r, NODE_RMS_NORM)
               : onnx_misfit("has no scale, or more than that");
}

/* A vector of channels that another node reads as that value. */
static grail_status add_channels_at(onnx_reading *r, int64_t at, int64_t value, const onnx_known *x,
                                    int *out)
{
    const onnx_file_node *own = r->node;
    r->node = &r->file->nodes[at];
    const int input = r->node->inputs[0] == value ? 0 : 1;
    const grail_status status = onnx_add_channels(r, input, x, (storage_map){0}, out);
    r->node = own;
    return status;
}

/* Whether the lengths are taken over all positions, and their mean over the channels. */
static grail_status check_lengths(onnx_reading *r, const onnx_pattern *p, const onnx_known *x)
{
    const onnx_file_node *own = r->node;
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    const int channels = onnx_channel_dimension(x);
    r->node = &r->file->nodes[p->lengths];
    const grail_status status = onnx_list_of(r, "axes", 1, &count, axes);
    r->node = own;
    CHECK(status);
    bool over[ONNX_MAX_RANK] = {true}; /* the samples are apart */
    bool fits = count == x->rank - 2 && channels > 0 && onnx_axis_of(p->axis, x->rank) == channels;
    for (int k = 0; fits && k < count; k++) {
        const int axis = onnx_axis_of(axes[k], x->rank);
        fits = axis >= 0 && axis != channels && !over[axis];
        over[fits ? axis : 0] = true;
    }
    return fits ? GRAIL_OK
                : onnx_misfit("norms other than the lengths of channels over all positions");
}

/* x (1 + f) + bias, f the weight times the lengths by their mean */
static grail_status add_response_norm(onnx_reading *r, const onnx_pattern *p, onnx_known *x,
                                      double epsilon)
{
    onnx_known y = *x;
    node n = onnx_plain(NODE_RESPONSE_NORM, x, NULL);
    n.norm.epsilon = epsilon;
    CHECK(check_lengths(r, p, x));
    CHECK(add_channels_at(r, p->weight_node, p->weight, x, &n.weight));
    CHECK(graph_add_node(r->g, &n, &y.value));
    n = onnx_plain(NODE_AFFINE, &y, NULL);
    n.affine = (affine_attributes){1.0, 1.0};
    CHECK(graph_add_node(r->g, &n, &y.value));
    n = onnx_plain(NODE_MULTIPLY, x, &y);
    n.repeats_second = true;
    CHECK(graph_add_node(r->g, &n, &y.value));
    n = onnx_plain(NODE_AFFINE, &y, NULL);
    n.affine.scale = 1.0;
    CHECK(add_channels_at(r, p->bias_node, p->bias, x, &n.bias));
    return onnx_give_node(r, &n, *x);
}

/* The slope or epsilon. */
static grail_status number_of(const onnx_reading *r, const onnx_pattern *p, double *out)
{
    float number = 0.0F;
    int64_t elements = 0;
    const onnx_tensor *t = &r->file->tensors[r->file->values[p->number].tensor];
    if (!shape_elements(t->view.rank, t->view.shape, &elements) || elements != 1) {
        return onnx_misfit("its %s is no number", p->kind == ONNX_SLOPE ? "slope" : "epsilon");
    }
    CHECK(onnx_tensor_f32(t, &number));
    *out = (double)number;
    return GRAIL_OK;
}

/* A function of each element. */
static grail_status add_function(onnx_reading *r, const onnx_pattern *p, const onnx_known *x)
{
    node n = onnx_plain(NODE_PRELU, x, NULL);
    if (p->kind == ONNX_GELU || p->kind == ONNX_GELU_TANH) {
        n = onnx_plain(NODE_ACTIVATION, x, NULL);
        n.activation = p->kind == ONNX_GELU ? ACTIVATION_GELU : ACTIVATION_GELU_TANH;
        if (!p->is_doubled) {
            return onnx_give_node(r, &n, *x);
        }
        onnx_known y = *x;
        CHECK(graph_add_node(r->g, &n, &y.value));
        n = onnx_plain(NODE_AFFINE, &y, NULL);
        n.affine.scale = 2.0;
        return onnx_give_node(r, &n, y);
    }
    CHECK(number_of(r, p, &n.slope));
    return n.slope <= 1.0 ? onnx_give_node(r, &n, *x)
                          : onnx_misfit("is the larger one of a value and %g times it", n.slope);
}

grail_status onnx_read_pattern(onnx_reading *r, const onnx_pattern *p)
{
    double epsilon = 0.0;
    onnx_known *x = &r->values[p->input];
    const bool may_be_scaled = p->kind == ONNX_ROTATION;
    if (x->form != ONNX_VALUE || (x->factor != 0.0 && !may_be_scaled) ||
        (x->value == GRAPH_NONE && x->linear == 0)) {
        return onnx_misfit("'%.100s' does not follow from the images",
                           r->file->values[p->input].name);
    }
    if (p->kind == ONNX_ROTATION) {
        return onnx_read_rotation(r, p, x);
    }
    CHECK(onnx_settle(r, x));
    if (p->kind == ONNX_GELU || p->kind == ONNX_GELU_TANH || p->kind == ONNX_SLOPE) {
        return add_function(r, p, x);
    }
    CHECK(number_of(r, p, &epsilon));
    if (p->kind == ONNX_RESPONSE_NORM) {
        CHECK(onnx_check_order(x));
        return add_response_norm(r, p, x, epsilon);
    }
    const node_kind kind = p->kind == ONNX_RMS_NORM ? NODE_RMS_NORM : NODE_LAYER_NORM;
    const int axis = onnx_axis_of(p->axis, x->rank);
    if (axis == x->rank - 1) {
        const tensor_view *const w[2] = {constant_at(r, p->weight_node, p->weight),
                                         constant_at(r, p->bias_node, p->bias)};
        return add_norm(r, kind, x, epsilon, w);
    }
    node n = onnx_plain(kind, x, NULL);
    n.norm.epsilon = epsilon;
    if (axis < 0 || axis != onnx_channel_dimension(x)) {
        return onnx_misfit("is a norm over other dimensions than that of the channels");
    }
    CHECK(p->weight < 0 ? GRAIL_OK : add_channels_at(r, p->weight_node, p->weight, x, &n.weight));
    CHECK(p->bias < 0 ? GRAIL_OK : add_channels_at(r, p->bias_node, p->bias, x, &n.bias));
    return onnx_give_node(r, &n, *x);
}
