/* Writes a model as an ONNX file: translates its graph to ONNX operators, lays out the file, then
 * writes tensor by tensor. */
#include "arch/model.h"
#include "base/name_list.h"
#include "base/options.h"
#include "base/stop.h"
#include "format/onnx/onnx_write.h"
#include "graph/operators.h"

#include <grail/onnx.h>

#include <math.h>
#include <stdio.h>

/* The tensors of the writer and their sources. */
typedef struct onnx_tensors {
    int *of_checkpoint;   /* [checkpoint_count] GRAPH_NONE: the network does not read it */
    int table;            /* of fixed positions; GRAPH_NONE if there is none */
    const double *values; /* of the table, borrowed from the graph */
    int64_t table_elements;
    int64_t outputs; /* of the network */
} onnx_tensors;

/* The layout of a value in ONNX: images [N, C, H, W], tokens [N, positions, C], vectors [N, C]. */
typedef enum layout { LAYOUT_IMAGE, LAYOUT_TOKENS, LAYOUT_VECTOR } layout;

/* A name that grail makes; no checkpoint contains one. */
typedef struct onnx_name {
    char text[40];
} onnx_name;

typedef struct translated {
    onnx_name name;
    layout layout;
} translated;

typedef struct translation {
    const grail_model *model;
    const graph *g;
    onnx_writer *w;
    const int64_t *widths;
    const extent *extents;
    onnx_tensors *tensors;
    translated *values; /* [value_count] */
    int names;          /* number of names made so far */
} translation;

/** A parameter as an input: the name of its tensor, or of the rows cut out of it. `text` may point
 * into the struct, so the struct must not be copied. */
typedef struct parameter_name {
    const char *text;
    onnx_name cut;
} parameter_name;

/* -- names, single operators, parameters and layouts of values --------------------------------- */

static onnx_attribute integers(const char *name, int count, const int64_t values[])
{
    return (onnx_attribute){
        .name = name, .kind = ONNX_INTEGERS, .integers = values, .count = count};
}

static onnx_name new_name(translation *t)
{
    onnx_name name;
    snprintf(name.text, sizeof name.text, "grail/%d", t->names++);
    return name;
}

static grail_status emit_with(translation *t, const char *operator_name, int input_count,
                              const char *const inputs[], int attribute_count,
                              const onnx_attribute attributes[], onnx_name *out)
{
    const onnx_name name = new_name(t);
    const onnx_node n = {operator_name,
                         .input_count = input_count,
                         .inputs = inputs,
                         .output_count = 1,
                         .outputs = (const char *const[]){name.text},
                         .attribute_count = attribute_count,
                         .attributes = attributes};
    CHECK(onnx_add_node(t->w, &n));
    *out = name; /* which an input may have been */
    return GRAIL_OK;
}

static grail_status emit_one(translation *t, const char *operator_name, onnx_name x, onnx_name *out)
{
    const char *const inputs[] = {x.text};
    return emit_with(t, operator_name, 1, inputs, 0, NULL, out);
}

static grail_status emit_two(translation *t, const char *operator_name, onnx_name a, onnx_name b,
                             onnx_name *out)
{
    const char *const inputs[] = {a.text, b.text};
    return emit_with(t, operator_name, 2, inputs, 0, NULL, out);
}

static grail_status add_integers(translation *t, int count, const int64_t values[], onnx_name *out)
{
    *out = new_name(t);
    return onnx_add_integers(t->w, out->text, count, values);
}

/* out = x operator value */
static grail_status emit_real(translation *t, const char *operator_name, onnx_name x, double value,
                              onnx_name *out)
{
    const onnx_name constant = new_name(t);
    CHECK(onnx_add_real(t->w, constant.text, value));
    return emit_two(t, operator_name, x, constant, out);
}

static grail_status emit_reshape(translation *t, onnx_name x, int rank, const int64_t shape[],
                                 onnx_name *out)
{
    onnx_name constant;
    CHECK(add_integers(t, rank, shape, &constant));
    return emit_two(t, "Reshape", x, constant, out);
}

static grail_status emit_transpose(translation *t, onnx_name x, int rank, const int64_t order[],
                                   onnx_name *out)
{
    const char *const inputs[] = {x.text};
    const onnx_attribute attribute = integers("perm", rank, order);
    return emit_with(t, "Transpose", 1, inputs, 1, &attribute, out);
}

/* The name of the complete tensor, as in the checkpoint, or of the rows that are cut out of it. */
static grail_status name_parameter(translation *t, int parameter, parameter_name *out)
{
    const graph_parameter *p = &t->g->parameters[parameter];
    const tensor_view *view = t->model->tensors[parameter];
    int *place = &t->tensors->of_checkpoint[checkpoint_index_of(t->model->checkpoint, view->name)];
    out->text = view->name;
    if (*place == GRAPH_NONE) {
        CHECK(onnx_add_tensor(t->w, view->name, view->rank, view->shape, place));
    }
    if (!storage_is_run_of_rows(&p->map, p->shape[0]) || view->rank < p->rank) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "cannot write '%s' as ONNX: it is not a run of rows of tensor '%s', as they are",
            p->name, p->tensor);
    }
    if (!storage_axis_is_whole(&p->map.rows)) {
        const int64_t first = p->map.rows.first;
        const int64_t ends[] = {first, first + p->shape[0], p->map.transposed ? 1 : 0};
        onnx_name range[3]; /* from, to, axis */
        for (int i = 0; i < 3; i++) {
            CHECK(add_integers(t, 1, &ends[i], &range[i]));
        }
        const char *const inputs[] = {out->text, range[0].text, range[1].text, range[2].text};
        CHECK(emit_with(t, "Slice", 4, inputs, 0, NULL, &out->cut));
        out->text = out->cut.text;
    }
    return GRAIL_OK;
}

/* Without a parameter, as of a norm that lacks it: a constant for every channel. */
static grail_status name_channels(translation *t, int parameter, int64_t width, double value,
                                  parameter_name *out)
{
    if (parameter != GRAPH_NONE) {
        return name_parameter(t, parameter, out);
    }
    const onnx_name scalar = new_name(t);
    onnx_name shape;
    CHECK(onnx_add_real(t->w, scalar.text, value));
    CHECK(add_integers(t, 1, &width, &shape));
    CHECK(emit_two(t, "Expand", scalar, shape, &out->cut));
    out->text = out->cut.text;
    return GRAIL_OK;
}

static grail_status value_of(translation *t, const node *n, int i, bool tokens, translated *out)
{
    const int value = n->inputs[i];
    *out = t->values[value];
    if (tokens && out->layout == LAYOUT_IMAGE) {
        CHECK(
            emit_reshape(t, out->name, 3, (const int64_t[]){0, t->widths[value], -1}, &out->name));
        CHECK(emit_transpose(t, out->name, 3, (const int64_t[]){0, 2, 1}, &out->name));
        out->layout = LAYOUT_TOKENS;
    }
    return GRAIL_OK;
}

static grail_status refuse(const char *what)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "cannot translate %s to ONNX", what);
}

static grail_status image_of(translation *t, const node *n, const char *what, translated *out)
{
    const int64_t pixel[] = {0, t->widths[n->inputs[0]], 1, 1};
    *out = t->values[n->inputs[0]];
    if (out->layout == LAYOUT_VECTOR) {
        CHECK(emit_reshape(t, out->name, 4, pixel, &out->name));
        out->layout = LAYOUT_IMAGE;
    }
    return out->layout == LAYOUT_IMAGE ? GRAIL_OK : refuse(what);
}

static const char position_table[] = "grail/positions";

/* The attributes that Conv and pools share, and behind them the groups of a Conv or how a MaxPool
 * rounds. */
typedef struct window_attributes {
    int64_t kernel[2], strides[2], pads[4], dilations[2];
    onnx_attribute list[5];
} window_attributes;

static void describe_window(const window2d *w, window_attributes *a)
{
    const window_axis *h = &w->height;
    const window_axis *v = &w->width;
    *a = (window_attributes){.kernel = {h->kernel, v->kernel},
                             .strides = {h->stride, v->stride},
                             .pads = {h->before, v->before, h->behind, v->behind},
                             .dilations = {h->dilation, v->dilation}};
    a->list[0] = integers("kernel_shape", 2, a->kernel);
    a->list[1] = integers("strides", 2, a->strides);
    a->list[2] = integers("pads", 4, a->pads);
    a->list[3] = integers("dilations", 2, a->dilations);
}

static grail_status translate_convolution(translation *t, const node *n, translated *y)
{
    window_attributes window;
    parameter_name weight;
    parameter_name bias = {0};
    CHECK(image_of(t, n, "a convolution", y));
    CHECK(name_parameter(t, n->weight, &weight));
    if (n->bias != GRAPH_NONE) {
        CHECK(name_parameter(t, n->bias, &bias));
    }
    describe_window(&n->window, &window);
    window.list[4] = (onnx_attribute){.name = "group",
                                      .kind = ONNX_INTEGER,
                                      .integer = operator_of(n)->per_channel ? t->widths[n->output]
                                                                             : node_groups(n)};
    const char *const inputs[] = {y->name.text, weight.text, bias.text};
    return emit_with(t, "Conv", n->bias != GRAPH_NONE ? 3 : 2, inputs, node_is_map(n) ? 4 : 5,
                     window.list, &y->name);
}

/* A maximum or a mean over a window. */
static grail_status translate_pool(translation *t, const node *n, translated *y)
{
    const bool mean = n->kind == NODE_AVERAGE_POOL;
    window_attributes window;
    CHECK(image_of(t, n, mean ? "a mean over a window" : "a maximum over a window", y));
    describe_window(&n->window, &window);
    window.list[4] = (onnx_attribute){.name = "ceil_mode", .kind = ONNX_INTEGER, .integer = 1};
    if (mean) { /* without dilation, which older versions of the operator do not know */
        window.list[3] = (onnx_attribute){.name = "count_include_pad",
                                          .kind = ONNX_INTEGER,
                                          .integer = n->counts_padding ? 1 : 0};
    }
    const char *const inputs[] = {y->name.text};
    return emit_with(t, mean ? "AveragePool" : "MaxPool", 1, inputs, n->window.rounds_up ? 5 : 4,
                     window.list, &y->name);
}

static grail_status translate_batch_norm(translation *t, const node *n, translated *y)
{
    const int64_t width = t->widths[n->output];
    parameter_name p[4]; /* weight, bias, mean, variance */
    CHECK(image_of(t, n, "a batch norm", y));
    CHECK(name_channels(t, n->weight, width, 1.0, &p[0]));
    CHECK(name_channels(t, n->bias, width, 0.0, &p[1]));
    CHECK(name_parameter(t, n->mean, &p[2]));
    CHECK(name_parameter(t, n->variance, &p[3]));
    const char *const inputs[] = {y->name.text, p[0].text, p[1].text, p[2].text, p[3].text};
    const onnx_attribute epsilon = {.name = "epsilon", .kind = ONNX_REAL, .real = n->norm.epsilon};
    return emit_with(t, "BatchNormalization", 5, inputs, 1, &epsilon, &y->name);
}

static grail_status translate_layer_norm(translation *t, const node *n, translated *y)
{
    parameter_name weight;
    parameter_name bias;
    CHECK(value_of(t, n, 0, true, y));
    CHECK(name_channels(t, n->weight, t->widths[n->output], 1.0, &weight));
    CHECK(name_channels(t, n->bias, t->widths[n->output], 0.0, &bias));
    const char *const inputs[] = {y->name.text, weight.text, bias.text};
    const onnx_attribute attributes[] = {
        {.name = "axis", .kind = ONNX_INTEGER, .integer = -1},
        {.name = "epsilon", .kind = ONNX_REAL, .real = n->norm.epsilon}};
    return emit_with(t, "LayerNormalization", 3, inputs, 2, attributes, &y->name);
}

static grail_status translate_linear(translation *t, const node *n, translated *y)
{
    parameter_name weight;
    parameter_name bias;
    CHECK(value_of(t, n, 0, true, y));
    CHECK(name_parameter(t, n->weight, &weight));
    if (!t->g->parameters[n->weight].map.transposed) { /* stored [out, in] */
        const char *const inputs[] = {weight.text};
        const onnx_attribute order = integers("perm", 2, (const int64_t[]){1, 0});
        CHECK(emit_with(t, "Transpose", 1, inputs, 1, &order, &weight.cut));
        weight.text = weight.cut.text;
    }
    const char *const factors[] = {y->name.text, weight.text};
    CHECK(emit_with(t, "MatMul", 2, factors, 0, NULL, &y->name));
    if (n->bias != GRAPH_NONE) {
        CHECK(name_parameter(t, n->bias, &bias));
        const char *const terms[] = {y->name.text, bias.text};
        CHECK(emit_with(t, "Add", 2, terms, 0, NULL, &y->name));
    }
    return GRAIL_OK;
}

/* x Phi(x) = x (1 + erf(x / sqrt 2)) / 2 */
static grail_status emit_gelu(translation *t, onnx_name x, onnx_name *y)
{
    onnx_name gate;
    CHECK(emit_real(t, "Mul", x, sqrt(0.5), &gate));
    CHECK(emit_one(t, "Erf", gate, &gate));
    CHECK(emit_real(t, "Add", gate, 1.0, &gate));
    CHECK(emit_real(t, "Mul", gate, 0.5, &gate));
    return emit_two(t, "Mul", x, gate, y);
}

/* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, with x + a x^3 = x (1 + a x^2) */
static grail_status emit_gelu_tanh(translation *t, onnx_name x, onnx_name *y)
{
    onnx_name gate;
    CHECK(emit_two(t, "Mul", x, x, &gate));
    CHECK(emit_real(t, "Mul", gate, 0.044715, &gate));
    CHECK(emit_real(t, "Add", gate, 1.0, &gate));
    CHECK(emit_two(t, "Mul", gate, x, &gate));
    CHECK(emit_real(t, "Mul", gate, sqrt(2.0 / acos(-1.0)), &gate));
    CHECK(emit_one(t, "Tanh", gate, &gate));
    CHECK(emit_real(t, "Add", gate, 1.0, &gate));
    CHECK(emit_real(t, "Mul", gate, 0.5, &gate));
    return emit_two(t, "Mul", x, gate, y);
}

/* x sigmoid(factor x) */
static grail_status emit_sigmoid_gate(translation *t, onnx_name x, double factor, onnx_name *y)
{
    onnx_name gate;
    CHECK(emit_real(t, "Mul", x, factor, &gate));
    CHECK(emit_one(t, "Sigmoid", gate, &gate));
    return emit_two(t, "Mul", x, gate, y);
}

static grail_status emit_relu6(translation *t, onnx_name x, onnx_name *y)
{
    CHECK(emit_one(t, "Relu", x, &x));
    return emit_real(t, "Min", x, 6.0, y);
}

static grail_status translate_activation(translation *t, const node *n, translated *y)
{
    CHECK(value_of(t, n, 0, false, y));
    switch (n->activation) {
    case ACTIVATION_RELU:
        return emit_one(t, "Relu", y->name, &y->name);
    case ACTIVATION_GELU:
        return emit_gelu(t, y->name, &y->name);
    case ACTIVATION_GELU_TANH:
        return emit_gelu_tanh(t, y->name, &y->name);
    case ACTIVATION_QUICK_GELU:
        return emit_sigmoid_gate(t, y->name, 1.702, &y->name);
    case ACTIVATION_SILU:
        return emit_sigmoid_gate(t, y->name, 1.0, &y->name);
    case ACTIVATION_SIGMOID:
        return emit_one(t, "Sigmoid", y->name, &y->name);
    case ACTIVATION_RELU6:
        return emit_relu6(t, y->name, &y->name);
    case ACTIVATION_HARD_SIGMOID:
        CHECK(emit_real(t, "Add", y->name, 3.0, &y->name));
        CHECK(emit_relu6(t, y->name, &y->name));
        return emit_real(t, "Div", y->name, 6.0, &y->name);
    case ACTIVATION_TANH:
        return emit_one(t, "Tanh", y->name, &y->name);
    case ACTIVATION_ERF:
        return emit_one(t, "Erf", y->name, &y->name);
    case ACTIVATION_ELU:
        return emit_one(t, "Elu", y->name, &y->name);
    case ACTIVATION_SOFTPLUS:
        return emit_one(t, "Softplus", y->name, &y->name);
    case ACTIVATION_KINDS:
        break;
    }
    return refuse("an activation");
}

/* The second operand in the layout of the first one, where one of them has no axis of positions, or
 * where one is an image and the other are tokens: then both become tokens. Axes of one element
 * are repeated by ONNX. */
static grail_status translate_elementwise(translation *t, const node *n, translated *y)
{
    translated other;
    const int64_t width = t->widths[n->inputs[1]];
    const layout left = t->values[n->inputs[0]].layout;
    const layout right = t->values[n->inputs[1]].layout;
    const bool tokens = left != right && left != LAYOUT_VECTOR && right != LAYOUT_VECTOR;
    CHECK(value_of(t, n, 0, tokens, y));
    CHECK(value_of(t, n, 1, tokens, &other));
    if (left == LAYOUT_VECTOR && right != LAYOUT_VECTOR) { /* one position, as the first one */
        CHECK(emit_reshape(t, other.name, 2, (const int64_t[]){0, width}, &other.name));
    } else if (left == LAYOUT_IMAGE && right == LAYOUT_VECTOR) {
        CHECK(emit_reshape(t, other.name, 4, (const int64_t[]){0, width, 1, 1}, &other.name));
    } else if (left == LAYOUT_TOKENS && right == LAYOUT_VECTOR) {
        CHECK(emit_reshape(t, other.name, 3, (const int64_t[]){0, 1, width}, &other.name));
    }
    return emit_two(t, n->kind == NODE_ADD ? "Add" : "Mul", y->name, other.name, &y->name);
}

static onnx_attribute channel_axis(const translated *y)
{
    return (onnx_attribute){
        .name = "axis", .kind = ONNX_INTEGER, .integer = y->layout == LAYOUT_IMAGE ? 1 : -1};
}

static grail_status translate_concat(translation *t, const node *n, translated *y)
{
    translated parts[NODE_MAX_INPUTS];
    const char *inputs[NODE_MAX_INPUTS];
    bool tokens = false;
    for (int i = 1; i < n->input_count; i++) {
        tokens = tokens || t->values[n->inputs[i]].layout != t->values[n->inputs[0]].layout;
    }
    for (int i = 0; i < n->input_count; i++) {
        CHECK(value_of(t, n, i, tokens, &parts[i]));
        CHECK(parts[i].layout == parts[0].layout ? GRAIL_OK : refuse("a vector beside positions"));
        inputs[i] = parts[i].name.text;
    }
    y->layout = parts[0].layout;
    const onnx_attribute axis = channel_axis(y);
    return emit_with(t, "Concat", n->input_count, inputs, 1, &axis, &y->name);
}

static grail_status translate_slice(translation *t, const node *n, translated *y)
{
    const int64_t first = n->slice.first;
    CHECK(value_of(t, n, 0, false, y));
    const int64_t ends[] = {first, first + n->slice.length, channel_axis(y).integer};
    onnx_name range[3]; /* from, to, axis */
    for (int i = 0; i < 3; i++) {
        CHECK(add_integers(t, 1, &ends[i], &range[i]));
    }
    const char *const inputs[] = {y->name.text, range[0].text, range[1].text, range[2].text};
    return emit_with(t, "Slice", 4, inputs, 0, NULL, &y->name);
}

static grail_status translate_mean(translation *t, const node *n, translated *y)
{
    CHECK(value_of(t, n, 0, false, y));
    const bool image = y->layout == LAYOUT_IMAGE;
    const char *const inputs[] = {y->name.text};
    const onnx_attribute attributes[] = {
        integers("axes", image ? 2 : 1, image ? (const int64_t[]){2, 3} : (const int64_t[]){1}),
        {.name = "keepdims", .kind = ONNX_INTEGER, .integer = 0}};
    CHECK(emit_with(t, "ReduceMean", 1, inputs, 2, attributes, &y->name));
    y->layout = LAYOUT_VECTOR;
    return GRAIL_OK;
}

/* Takes every stride-th position, then adds zero channels on both sides. */
static grail_status translate_shortcut(translation *t, const node *n, translated *y)
{
    const int64_t ranges[][2] = {
        {0, 0}, {INT64_MAX, INT64_MAX}, {2, 3}, {n->window.height.stride, n->window.width.stride}};
    onnx_name names[4]; /* from, to, axes, steps */
    onnx_name pads;
    CHECK(image_of(t, n, "a shortcut", y));
    for (int i = 0; i < 4; i++) {
        CHECK(add_integers(t, 2, ranges[i], &names[i]));
    }
    const char *const inputs[] = {y->name.text, names[0].text, names[1].text, names[2].text,
                                  names[3].text};
    CHECK(emit_with(t, "Slice", 5, inputs, 0, NULL, &y->name));
    CHECK(add_integers(t, 8, (const int64_t[]){0, n->pad, 0, 0, 0, n->pad, 0, 0}, &pads));
    return emit_two(t, "Pad", y->name, pads, &y->name);
}

/* [N, C, gh h, gw w] -> [N, gh gw, h w C] */
static grail_status translate_patches(translation *t, const node *n, translated *y)
{
    const int64_t high = n->window.height.stride;
    const int64_t wide = n->window.width.stride;
    const extent in = t->extents[n->inputs[0]];
    const int64_t channels = t->widths[n->inputs[0]];
    CHECK(image_of(t, n, "patches", y));
    CHECK(emit_reshape(
        t, y->name, 6,
        (const int64_t[]){0, channels, in.height / high, high, in.width / wide, wide}, &y->name));
    CHECK(emit_transpose(t, y->name, 6, (const int64_t[]){0, 2, 4, 3, 5, 1}, &y->name));
    CHECK(emit_reshape(t, y->name, 3, (const int64_t[]){0, -1, t->widths[n->output]}, &y->name));
    y->layout = LAYOUT_TOKENS;
    return GRAIL_OK;
}

/* Puts the class token, repeated for every image of the batch, before the other tokens. */
static grail_status translate_class_token(translation *t, const node *n, translated *y)
{
    const int64_t rest[] = {1, t->widths[n->output]};
    parameter_name token;
    onnx_name tail;
    onnx_name shape;
    CHECK(value_of(t, n, 0, true, y));
    CHECK(name_parameter(t, n->weight, &token));
    const char *const x[] = {y->name.text};
    const onnx_attribute first[] = {{.name = "start", .kind = ONNX_INTEGER, .integer = 0},
                                    {.name = "end", .kind = ONNX_INTEGER, .integer = 1}};
    CHECK(emit_with(t, "Shape", 1, x, 2, first, &shape)); /* [N] */
    CHECK(add_integers(t, 2, rest, &tail));
    const onnx_attribute sizes = {.name = "axis", .kind = ONNX_INTEGER, .integer = 0};
    const char *const parts[] = {shape.text, tail.text};
    CHECK(emit_with(t, "Concat", 2, parts, 1, &sizes, &shape)); /* [N, 1, C] */
    const char *const repeated[] = {token.text, shape.text};
    CHECK(emit_with(t, "Expand", 2, repeated, 0, NULL, &tail));
    const onnx_attribute positions = {.name = "axis", .kind = ONNX_INTEGER, .integer = 1};
    const char *const all[] = {tail.text, y->name.text};
    return emit_with(t, "Concat", 2, all, 1, &positions, &y->name);
}

static grail_status translate_positions(translation *t, const node *n, translated *y)
{
    parameter_name positions = {.text = position_table};
    CHECK(value_of(t, n, 0, true, y));
    if (n->weight != GRAPH_NONE) {
        CHECK(name_parameter(t, n->weight, &positions));
    } else {
        if (t->tensors->table != GRAPH_NONE) {
            return refuse("two tables of positions");
        }
        const int64_t shape[] = {n->positions.count, t->widths[n->output]};
        CHECK(onnx_add_tensor(t->w, positions.text, 2, shape, &t->tensors->table));
        t->tensors->values = n->positions.table;
        t->tensors->table_elements = shape[0] * shape[1];
    }
    const char *const terms[] = {y->name.text, positions.text};
    return emit_with(t, "Add", 2, terms, 0, NULL, &y->name);
}

/* [N, T, heads d] -> [N, heads, T, d], or [N, heads, d, T] for keys */
static grail_status emit_heads(translation *t, const node *n, int input, bool keys, onnx_name *out)
{
    const int64_t heads = t->widths[n->inputs[input]] / n->attention.head_dim;
    translated x;
    CHECK(value_of(t, n, input, true, &x));
    CHECK(emit_reshape(t, x.name, 4, (const int64_t[]){0, 0, heads, n->attention.head_dim}, out));
    return emit_transpose(
        t, *out, 4, keys ? (const int64_t[]){0, 2, 3, 1} : (const int64_t[]){0, 2, 1, 3}, out);
}

static grail_status translate_attention(translation *t, const node *n, translated *y)
{
    onnx_name q;
    onnx_name k;
    onnx_name v;
    if (!n->attention.bidirectional || n->attention.window > 0 ||
        t->widths[n->inputs[0]] != t->widths[n->inputs[1]]) {
        return refuse("attention that masks positions or shares key/value heads");
    }
    if (n->attention.positions > 0 || n->attention.windows.height > 0) {
        return refuse("attention within windows, or with biases of its scores");
    }
    CHECK(emit_heads(t, n, 0, false, &q));
    CHECK(emit_heads(t, n, 1, true, &k));
    CHECK(emit_heads(t, n, 2, false, &v));
    CHECK(emit_real(t, "Mul", q, n->attention.scale, &q));
    CHECK(emit_two(t, "MatMul", q, k, &q));
    CHECK(emit_one(t, "Softmax", q, &q)); /* over the last axis */
    CHECK(emit_two(t, "MatMul", q, v, &q));
    CHECK(emit_transpose(t, q, 4, (const int64_t[]){0, 2, 1, 3}, &q));
    CHECK(emit_reshape(t, q, 3, (const int64_t[]){0, 0, t->widths[n->output]}, &y->name));
    y->layout = LAYOUT_TOKENS;
    return GRAIL_OK;
}

static grail_status translate_first_token(translation *t, const node *n, translated *y)
{
    const int64_t zero = 0;
    onnx_name index;
    CHECK(value_of(t, n, 0, true, y));
    CHECK(add_integers(t, -1, &zero, &index));
    const char *const inputs[] = {y->name.text, index.text};
    const onnx_attribute axis = {.name = "axis", .kind = ONNX_INTEGER, .integer = 1};
    CHECK(emit_with(t, "Gather", 2, inputs, 1, &axis, &y->name));
    y->layout = LAYOUT_VECTOR;
    return GRAIL_OK;
}

/* x / max(||x||, 1e-12) */
static grail_status translate_unit_length(translation *t, const node *n, translated *y)
{
    onnx_name length;
    CHECK(value_of(t, n, 0, true, y));
    const char *const inputs[] = {y->name.text};
    const onnx_attribute axes = integers("axes", 1, (const int64_t[]){-1});
    CHECK(emit_with(t, "ReduceL2", 1, inputs, 1, &axes, &length));
    CHECK(emit_real(t, "Max", length, 1e-12, &length));
    return emit_two(t, "Div", y->name, length, &y->name);
}

typedef grail_status (*translator)(translation *t, const node *n, translated *y);

static const translator translators[] = {
    [NODE_LINEAR] = translate_linear,           [NODE_ATTENTION] = translate_attention,
    [NODE_ACTIVATION] = translate_activation,   [NODE_MULTIPLY] = translate_elementwise,
    [NODE_ADD] = translate_elementwise,         [NODE_CONV2D] = translate_convolution,
    [NODE_DEPTHWISE] = translate_convolution,   [NODE_BATCH_NORM] = translate_batch_norm,
    [NODE_LAYER_NORM] = translate_layer_norm,   [NODE_MAX_POOL] = translate_pool,
    [NODE_AVERAGE_POOL] = translate_pool,       [NODE_MEAN] = translate_mean,
    [NODE_SHORTCUT] = translate_shortcut,       [NODE_PATCHES] = translate_patches,
    [NODE_CLASS_TOKEN] = translate_class_token, [NODE_POSITIONS] = translate_positions,
    [NODE_FIRST_TOKEN] = translate_first_token, [NODE_UNIT_LENGTH] = translate_unit_length,
    [NODE_CONCAT] = translate_concat,           [NODE_SLICE] = translate_slice,
};

/* Declares input, nodes, tensors and output for images of size `image`. The caller allocates
 * tensors->of_checkpoint. */
static grail_status declare_graph(const grail_model *model, extent image, onnx_writer *w,
                                  onnx_tensors *tensors)
{
    grail_status status = GRAIL_OK;
    const graph *g = model->graph;
    const size_t values = (size_t)g->value_count;
    const size_t known = sizeof translators / sizeof translators[0];
    int64_t *widths = NULL;
    extent *extents = NULL;
    translation t = {.model = model, .g = g, .w = w, .tensors = tensors};
    for (int64_t i = 0; i < checkpoint_count(model->checkpoint); i++) {
        tensors->of_checkpoint[i] = GRAPH_NONE;
    }
    tensors->table = GRAPH_NONE;
    tensors->table_elements = 0;
    TRY(memory_new(&widths, values, sizeof widths[0]));
    TRY(memory_new(&extents, values, sizeof extents[0]));
    TRY(memory_new(&t.values, values, sizeof t.values[0]));
    TRY(graph_widths(g, widths));
    TRY(graph_extents(g, image, extents));
    t.widths = widths;
    t.extents = extents;
    TRY(onnx_add_input(w, "pixels", 4,
                       (const int64_t[]){ONNX_ANY_SIZE, g->channels, image.height, image.width}));
    t.values[g->input] = (translated){.name = {"pixels"}, .layout = LAYOUT_IMAGE};
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        const translator translate = (size_t)n->kind < known ? translators[n->kind] : NULL;
        TRY(translate == NULL
                ? refuse(n->kind == NODE_OPAQUE ? "a region of an ONNX file, which is one already"
                                                : "a node of a decoder")
                : translate(&t, n, &t.values[n->output]));
    }
    TRY(g->output_count == 1 ? GRAIL_OK : refuse("several outputs"));
    const translated *y = &t.values[g->output];
    const onnx_node last = {"Identity", .input_count = 1,
                            .inputs = (const char *const[]){y->name.text}, .output_count = 1,
                            .outputs = (const char *const[]){"logits"}};
    TRY(y->layout == LAYOUT_VECTOR ? onnx_add_node(w, &last) : refuse("an output per position"));
    tensors->outputs = widths[g->output];
    TRY(onnx_add_output(w, "logits", 2, (const int64_t[]){ONNX_ANY_SIZE, tensors->outputs}));
out:
    memory_free(widths);
    memory_free(extents);
    memory_free(t.values);
    return status;
}

/* -- writing ----------------------------------------------------------------------------------- */

enum { PIECE = 1 << 18 }; /* elements converted at once */

/* Copies the values of a checkpoint tensor, piece by piece, to the writer's tensor `to`. */
static grail_status copy_tensor(const grail_model *m, const tensor_view *view, int to,
                                onnx_writer *w, float *piece)
{
    const size_t element = dtype_bits(view->dtype) / 8;
    CHECK(checkpoint_need(m->checkpoint, view));
    const int64_t count = (int64_t)(view->bytes / element);
    for (int64_t first = 0; first < count; first += PIECE) {
        const int64_t now = count - first < PIECE ? count - first : PIECE;
        const unsigned char *source = (const unsigned char *)view->data + (size_t)first * element;
        CHECK(stop_check());
        CHECK(convert_to_f32(view->dtype, source, now, piece));
        const int64_t bad = find_non_finite(piece, now);
        if (bad >= 0) {
            CHECK(model_error_non_finite(m, view, first + bad));
        }
        CHECK(onnx_put(w, to, first, now, piece));
    }
    checkpoint_release(m->checkpoint, view);
    return GRAIL_OK;
}

/* The tensors, and the table of fixed positions, if the graph has one. */
static grail_status copy_all(const grail_model *m, const onnx_tensors *tensors, onnx_writer *w,
                             bool *converted)
{
    grail_status status = GRAIL_OK;
    float *piece = NULL;
    TRY(memory_new_unset(&piece, PIECE, sizeof piece[0]));
    for (int64_t i = 0; i < checkpoint_count(m->checkpoint); i++) {
        const tensor_view *view = checkpoint_at(m->checkpoint, i);
        if (tensors->of_checkpoint[i] != GRAPH_NONE) {
            *converted = *converted || view->dtype != GRAIL_DTYPE_F32;
            TRY(copy_tensor(m, view, tensors->of_checkpoint[i], w, piece));
        }
    }
    for (int64_t first = 0; first < tensors->table_elements; first += PIECE) {
        const int64_t left = tensors->table_elements - first;
        const int64_t now = left < PIECE ? left : PIECE;
        for (int64_t i = 0; i < now; i++) {
            piece[i] = (float)tensors->values[first + i];
        }
        TRY(onnx_put(w, tensors->table, first, now, piece));
    }
out:
    memory_free(piece);
    return status;
}

/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_onnx_options, member), .zero_is_usual = 1,                \
                      .subject = GRAIL_SUBJECT_OUTPUT
static const grail_option fields[] = {
    {FIELD(side), .type = GRAIL_OPTION_INTEGER, .what = "the side of the images", .name = "side",
     .argument = "N",
     .help = "side of the input images in pixels (the network's, or its preset's)"},
    {FIELD(largest), .type = GRAIL_OPTION_SIZE, .what = "the size of the largest file",
     .name = "largest", .argument = "BYTES",
     .help = "largest size of FILE; if it would be larger, the weights go into FILE.data (2 GB)"},
    OPTION_ROOM(grail_onnx_options, room, grail_onnx_options),
    {0},
};
/* clang-format on */

const grail_option *grail_onnx_option_at(int i)
{
    return option_at(fields, i);
}

grail_status grail_onnx_write(const grail_model *model, const char *path,
                              const grail_onnx_options *options, grail_onnx_facts *facts)
{
    grail_status status = GRAIL_OK;
    const grail_onnx_options defaults = {0};
    const grail_onnx_options *chosen = options == NULL ? &defaults : options;
    const int64_t largest = chosen->largest > 0 ? chosen->largest : ONNX_LARGEST_FILE;
    grail_onnx_facts found = {0};
    onnx_tensors tensors = {0};
    onnx_writer *w = NULL;
    bool converted = false;
    TRY(options_check(fields, chosen));
    TRY(name_check_ending(path, "an ONNX file", ".onnx"));
    if (model->graph->input_kind != INPUT_IMAGES) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "%s: cannot write a decoder as ONNX, only a network that reads images; convert the "
             "checkpoint with a tool for decoders",
             checkpoint_path(model->checkpoint));
    }
    found.side = chosen->side > 0 ? chosen->side : model_image_extent(model).height;
    TRY(memory_new(&tensors.of_checkpoint, (size_t)checkpoint_count(model->checkpoint),
                   sizeof tensors.of_checkpoint[0]));
    TRY(onnx_writer_create(&w));
    TRY(declare_graph(model, (extent){.height = found.side, .width = found.side}, w, &tensors));
    TRY(onnx_begin(w, path, largest));
    TRY(copy_all(model, &tensors, w, &converted));
    TRY(onnx_finish(w));
    found.outputs = tensors.outputs;
    found.bytes = onnx_bytes(w);
    found.split = onnx_is_split(w);
    found.converted = converted;
    if (facts != NULL) {
        *facts = found;
    }
out:
    onnx_writer_free(w);
    memory_free(tensors.of_checkpoint);
    return status;
}
