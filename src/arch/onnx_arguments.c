#include "arch/onnx_arguments.h"

#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- what is refused --------------------------------------------------------------------------- */

grail_status onnx_in_node(const onnx_reading *r, grail_status status)
{
    const onnx_node *n = &r->node->node;
    const bool has_name = *n->name != '\0';
    const char *output = n->output_count > 0 ? n->outputs[0] : "";
    return error_in(status, "node %s'%s' (%s)", has_name ? "" : "of ", has_name ? n->name : output,
                    n->operator_name);
}

grail_status onnx_misfit(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set(GRAIL_ERROR_UNSUPPORTED, "%s", text);
}

/* -- attributes and inputs --------------------------------------------------------------------- */

int64_t onnx_integer_of(const onnx_reading *r, const char *name, int64_t usual)
{
    const onnx_attribute *a = onnx_node_attribute(r->node, name);
    return a != NULL && a->kind == ONNX_INTEGER ? a->integer : usual;
}

double onnx_real_of(const onnx_reading *r, const char *name, double usual)
{
    const onnx_attribute *a = onnx_node_attribute(r->node, name);
    return a != NULL && a->kind == ONNX_REAL ? a->real : usual;
}

bool onnx_text_is(const onnx_reading *r, const char *name, const char *text)
{
    const onnx_attribute *a = onnx_node_attribute(r->node, name);
    return a != NULL && a->kind == ONNX_TEXT && a->text.size == strlen(text) &&
           memcmp(a->text.bytes, text, a->text.size) == 0;
}

bool onnx_has_input(const onnx_reading *r, int i)
{
    return i < r->node->node.input_count && r->node->inputs[i] >= 0;
}

onnx_known *onnx_known_input(const onnx_reading *r, int i)
{
    return &r->values[r->node->inputs[i]];
}

/* Rows of a matrix, or numbers of a vector. */
static grail_status add_rows(const onnx_reading *r, const onnx_linear *l, const tensor_view *t,
                             int *out)
{
    char name[512];
    const bool is_matrix = t->rank > 1;
    storage_map map = storage_rows(l->first, l->count);
    int64_t shape[PARAMETER_MAX_RANK] = {l->count, 1, 1, 1};
    map.transposed = is_matrix && l->transposed;
    if (l->count == 0) {
        map.rows = (storage_axis){0};
        shape[0] = t->shape[map.transposed ? 1 : 0];
    } else if (l->run > 0) {
        map.rows = (storage_axis){l->first, {{l->run, 1}, {l->count / l->run, l->stride}}};
    }
    shape[1] = is_matrix ? t->shape[map.transposed ? 0 : 1] : 1;
    const int length = l->count == 0
                           ? snprintf(name, sizeof name, "%s", t->name)
                           : snprintf(name, sizeof name, "%s[%lld]", t->name, (long long)l->first);
    const int rank = is_matrix && l->is_convolution ? IMAGE_RANK : t->rank;
    return length >= (int)sizeof name
               ? onnx_misfit("the name of its tensor is longer than %zu bytes", sizeof name)
               : graph_add_stored(r->g, name, t->name, &map, rank, shape, out);
}

/* A map of all positions at once: the columns of W are those of a convolution as large as the
 * image, (channel, row, column), or lie as (row, column, channel). */
static grail_status add_whole(const onnx_reading *r, const onnx_linear *l, node *n)
{
    const tensor_view *t = l->weight;
    const int64_t taps = l->window.height * l->window.width;
    const int64_t shape[] = {t->shape[l->transposed ? 1 : 0],
                             t->shape[l->transposed ? 0 : 1] / taps, l->window.height,
                             l->window.width};
    storage_map map = {.transposed = l->transposed};
    if (l->channels_last) {
        map.columns.level[0] = (storage_level){taps, shape[1]};
        map.columns.level[1] = (storage_level){shape[1], 1};
    }
    *n = node_of(NODE_CONV2D, GRAPH_NONE, l->input, GRAPH_NONE);
    n->window.height.kernel = l->window.height;
    n->window.width.kernel = l->window.width;
    n->is_whole = true;
    return graph_add_stored(r->g, t->name, t->name, &map, IMAGE_RANK, shape, &n->weight);
}

int64_t onnx_linear_rows(const onnx_linear *linear)
{
    return linear->count > 0 ? linear->count : linear->weight->shape[linear->transposed ? 1 : 0];
}

grail_status onnx_settle(const onnx_reading *r, onnx_known *x)
{
    onnx_linear *l = x->linear == 0 ? NULL : &r->linears[x->linear];
    if (l != NULL && l->value == GRAPH_NONE) {
        node n = node_of(l->is_convolution ? NODE_CONV2D
                         : l->mixes        ? NODE_MIX
                                           : NODE_LINEAR,
                         GRAPH_NONE, l->input, GRAPH_NONE);
        n.window = l->is_convolution ? (window2d)WINDOW2D(1, 1, 1, 0, 1) : n.window;
        for (int i = 1; i < r->linear_count; i++) {
            if (r->linears[i].parent == x->linear) {
                return onnx_misfit("reads what another node parts");
            }
        }
        CHECK(l->window.height > 0 ? add_whole(r, l, &n) : add_rows(r, l, l->weight, &n.weight));
        CHECK(l->bias == NULL ? GRAIL_OK : add_rows(r, l, l->bias, &n.bias));
        CHECK(graph_add_node(r->g, &n, &l->value));
    }
    x->value = l == NULL ? x->value : l->value;
    x->linear = 0;
    return GRAIL_OK;
}

grail_status onnx_laid_input(const onnx_reading *r, int i, onnx_known **out)
{
    const onnx_known *x = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
    const bool has_letters =
        x != NULL && (x->form == ONNX_SCORES || x->form == ONNX_SHARES || x->form == ONNX_IDS);
    if (x == NULL || (x->value == GRAPH_NONE && x->linear == 0 && !has_letters)) {
        return onnx_misfit(
            "its input %d is a constant, or does not follow from the images; grail has "
            "no row for that",
            i);
    }
    *out = onnx_known_input(r, i);
    return GRAIL_OK;
}

grail_status onnx_check_order(const onnx_known *x)
{
    return onnx_is_moved(x)
               ? onnx_misfit("reads positions in windows, or rolled ones, for which grail has a "
                             "row in attention alone")
               : GRAIL_OK;
}

/* Whether a node makes each position of the same one alone. */
static bool is_of_rows(const onnx_file_node *n)
{
    static const char *const names[] = {"Add",
                                        "Cast",
                                        "Div",
                                        "Erf",
                                        "Gelu",
                                        "Gemm",
                                        "HardSigmoid",
                                        "HardSwish",
                                        "Identity",
                                        "LayerNormalization",
                                        "MatMul",
                                        "Mul",
                                        "Pow",
                                        "QuickGelu",
                                        "Relu",
                                        "Sigmoid",
                                        "SimplifiedLayerNormalization",
                                        "Slice",
                                        "Sub",
                                        "Tanh"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found = found || strcmp(n->node.operator_name, names[i]) == 0; /* of any domain */
    }
    return found;
}

grail_status onnx_padded_input(const onnx_reading *r, int i, onnx_known **out)
{
    CHECK(onnx_laid_input(r, i, out));
    if ((*out)->form == ONNX_PROBABILITIES) {
        return onnx_misfit("reads what a Softmax makes, for which grail has a row at the output "
                           "alone");
    }
    if ((*out)->form != ONNX_VALUE) {
        return onnx_misfit("reads the scores of attention, such as to mask some; grail has no row "
                           "for that");
    }
    CHECK(is_of_rows(r->node) ? GRAIL_OK : onnx_check_order(*out));
    if ((*out)->factor != 0.0) {
        return onnx_misfit("reads heads times %g, for which grail has no row but in the scores of "
                           "attention",
                           (*out)->factor);
    }
    return onnx_settle(r, *out);
}

grail_status onnx_unpack(onnx_reading *r, int input, extent positions, int64_t channels, int *out)
{
    graph *g = r->g;
    node n = node_of(NODE_UNPACK, GRAPH_NONE, g->input, GRAPH_NONE);
    n.unpack = (unpack_attributes){
        .first = g->inputs[input].first, .channels = channels, .positions = positions};
    for (int i = 0; i < g->node_count; i++) {
        const unpack_attributes *u = &g->nodes[i].unpack;
        if (g->nodes[i].kind == NODE_UNPACK && u->first == n.unpack.first &&
            u->channels == channels && u->positions.height == positions.height &&
            u->positions.width == positions.width) {
            *out = g->nodes[i].output;
            return GRAIL_OK;
        }
    }
    return graph_add_node(g, &n, out);
}

bool onnx_is_padded(const onnx_known *x)
{
    return x->pads[0] + x->pads[1] + x->pads[2] + x->pads[3] > 0;
}

grail_status onnx_any_input(const onnx_reading *r, int i, onnx_known **out)
{
    CHECK(onnx_padded_input(r, i, out));
    return onnx_is_padded(*out)
               ? onnx_misfit("reads what '%s' has %s around; grail has a row for that before %s "
                             "alone",
                             r->node->node.inputs[i],
                             (*out)->pads_lowest ? "minus infinity" : "zeros",
                             (*out)->pads_lowest ? "maxima"
                                                 : "convolutions, and maxima of what a Relu makes,")
               : GRAIL_OK;
}

grail_status onnx_value_input(const onnx_reading *r, int i, onnx_known **out)
{
    CHECK(onnx_any_input(r, i, out));
    return (*out)->layout[0] == '\0'
               ? GRAIL_OK
               : onnx_misfit("reads dimensions [%s], for which grail has no row", (*out)->layout);
}

static grail_status integers_of(const onnx_reading *r, int input, int *count,
                                int64_t list[ONNX_MOST_AXES])
{
    onnx_numbers n;
    CHECK(onnx_numbers_of(r, input, &n));
    bool fits = n.is_known && n.count <= ONNX_MOST_AXES;
    for (int i = 0; fits && i < n.count; i++) {
        fits = !n.items[i].is_open && !n.items[i].is_real;
        list[i] = n.items[i].per_sample ? -1 : n.items[i].factor;
    }
    *count = n.count;
    memory_free(n.items);
    return fits ? GRAIL_OK
                : onnx_misfit(
                      "'%s' is computed of what is not known, or more than %d integers; fold the "
                      "constants of the model first (onnxsim)",
                      r->node->node.inputs[input], ONNX_MOST_AXES);
}

grail_status onnx_list_of(const onnx_reading *r, const char *name, int input, int *count,
                          int64_t list[ONNX_MOST_AXES])
{
    const onnx_attribute *a = onnx_node_attribute(r->node, name);
    *count = 0;
    if (a != NULL && a->kind == ONNX_INTEGERS && a->count <= ONNX_MOST_AXES) {
        *count = a->count;
        memcpy(list, a->integers, (size_t)a->count * sizeof list[0]);
    } else if (a != NULL) {
        return onnx_misfit("its attribute '%s' is no list of at most %d integers", name,
                           ONNX_MOST_AXES);
    } else if (input > 0 && onnx_has_input(r, input)) {
        return integers_of(r, input, count, list);
    }
    return GRAIL_OK;
}

grail_status onnx_number_of(const onnx_reading *r, const char *name, int input, bool *found,
                            double *out)
{
    float value = 0.0F;
    int64_t elements = 0;
    *out = onnx_real_of(r, name, 0.0);
    *found = onnx_node_attribute(r->node, name) != NULL;
    if (!onnx_has_input(r, input)) {
        return GRAIL_OK;
    }
    const int64_t tensor = onnx_known_input(r, input)->tensor;
    const onnx_tensor *t = tensor < 0 ? NULL : &r->file->tensors[tensor];
    if (t == NULL || !shape_elements(t->view.rank, t->view.shape, &elements) || elements != 1) {
        return onnx_misfit("'%s' is no constant number", r->node->node.inputs[input]);
    }
    CHECK(onnx_tensor_f32(t, &value));
    *found = true;
    *out = (double)value;
    return GRAIL_OK;
}

const tensor_view *onnx_constant_of(const onnx_reading *r, int i)
{
    const onnx_known *k = onnx_known_input(r, i);
    const onnx_copy *copy = onnx_copy_at(r->copies, onnx_node_number(r), onnx_input_number(r, i));
    return k->copy != NULL ? k->copy
           : copy != NULL  ? &copy->view
           : k->tensor < 0 ? NULL
                           : &r->file->tensors[k->tensor].view;
}

grail_status onnx_tensor_input(const onnx_reading *r, int i, int rank, bool *transposed,
                               const tensor_view **out)
{
    const onnx_known *k = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
    if (k == NULL || k->tensor < 0 || k->reshaped || (k->transposed && transposed == NULL)) {
        return onnx_misfit(
            "its weights (input %d) are computed, or missing; grail narrows weights that "
            "are constants",
            i);
    }
    const tensor_view *t = &r->file->tensors[k->tensor].view;
    bool is_fit =
        t->rank == rank && dtype_is_float(t->dtype) && !r->file->tensors[k->tensor].is_numbers;
    for (int d = 0; is_fit && d < rank; d++) {
        is_fit = t->shape[d] > 0;
    }
    if (!is_fit) {
        char text[64];
        return onnx_misfit(
            "its tensor '%.100s' has shape %s, expected %d dimensions of floating-point "
            "values",
            t->name, shape_text(t->rank, t->shape, text, sizeof text), rank);
    }
    if (transposed != NULL) {
        *transposed = k->transposed;
    }
    *out = onnx_constant_of(r, i);
    return GRAIL_OK;
}

static bool is_taken(const onnx_reading *r, const tensor_view *t)
{
    const int64_t value = onnx_file_find(r->file, t->name);
    bool found = graph_find_parameter(r->g, t->name) != GRAPH_NONE ||
                 (value >= 0 && r->is_held[r->file->values[value].tensor]);
    for (int i = 1; i < r->linear_count && !found; i++) {
        found = r->linears[i].weight == t || r->linears[i].bias == t;
    }
    return found;
}

grail_status onnx_check_free(const onnx_reading *r, const tensor_view *t)
{
    return is_taken(r, t)
               ? onnx_misfit("its tensor '%.100s' is read by another node, too; give each a tensor "
                             "of its own",
                             t->name)
               : GRAIL_OK;
}

grail_status onnx_add_shaped(const onnx_reading *r, const tensor_view *t, bool transposed, int rank,
                             const int64_t shape[], int *out)
{
    const storage_map map = {.transposed = transposed};
    CHECK(onnx_check_free(r, t));
    return graph_add_stored(r->g, t->name, t->name, &map, rank, shape, out);
}

grail_status onnx_add_parameter(const onnx_reading *r, const tensor_view *t, bool transposed,
                                int *out)
{
    const int64_t turned[2] = {t->shape[1], t->shape[0]};
    return onnx_add_shaped(r, t, transposed, t->rank, transposed ? turned : t->shape, out);
}

grail_status onnx_vector_input(const onnx_reading *r, int i, int64_t width, const tensor_view **out)
{
    CHECK(onnx_tensor_input(r, i, 1, NULL, out));
    return (*out)->shape[0] == width
               ? onnx_check_free(r, *out)
               : onnx_misfit("its tensor '%.100s' has %lld values, but there are %lld channels",
                             (*out)->name, (long long)(*out)->shape[0], (long long)width);
}

grail_status onnx_add_vector(const onnx_reading *r, int i, int64_t width, bool is_optional,
                             int *out)
{
    const tensor_view *t = NULL;
    *out = GRAPH_NONE;
    if (is_optional && !onnx_has_input(r, i)) {
        return GRAIL_OK;
    }
    CHECK(onnx_vector_input(r, i, width, &t));
    return onnx_add_parameter(r, t, false, out);
}

int onnx_constant_shape(const onnx_reading *r, const onnx_known *k, int64_t shape[ONNX_MOST_AXES])
{
    const tensor_view *t = &r->file->tensors[k->tensor].view;
    const int rank = k->reshaped ? k->rank : t->rank;
    for (int d = 0; d < rank; d++) {
        shape[d] = k->reshaped ? k->shape[d] : t->shape[k->transposed ? rank - 1 - d : d];
    }
    return rank;
}

grail_status onnx_one_number(const onnx_reading *r, int i, const onnx_known *x, bool *found,
                             double *value)
{
    int64_t shape[ONNX_MOST_AXES];
    int64_t elements = 0;
    float number = 0.0F;
    const onnx_known *k = onnx_known_input(r, i);
    const int rank = onnx_constant_shape(r, k, shape);
    *found = rank <= x->rank && shape_elements(rank, shape, &elements) && elements == 1;
    if (!*found) {
        return GRAIL_OK;
    }
    CHECK(onnx_tensor_f32(&r->file->tensors[k->tensor], &number));
    *value = (double)number;
    return isfinite(number)
               ? GRAIL_OK
               : onnx_misfit("its constant '%s' is no finite number", r->node->node.inputs[i]);
}

static onnx_channels all_of(int value)
{
    return (onnx_channels){.value = value, .outer = true, .second = true};
}

grail_status onnx_count_at(const onnx_reading *r, const char *name, int input, int64_t element,
                           onnx_channels of, onnx_count *out)
{
    const onnx_attribute *a = onnx_node_attribute(r->node, name);
    *out = (onnx_count){.tensor = -1,
                        .node = onnx_node_number(r),
                        .attribute = a,
                        .element = element,
                        .of = of,
                        .by = {.value = GRAPH_NONE}};
    if (a == NULL) {
        onnx_numbers list;
        CHECK(onnx_numbers_of(r, input, &list));
        out->tensor = list.items[element].tensor;
        out->element = list.items[element].element;
        out->reader = list.items[element].reader;
        out->input = list.items[element].input;
        out->by = list.items[element].of;
        memory_free(list.items);
    }
    return out->tensor >= 0 && r->is_held[out->tensor]
               ? onnx_misfit("'%s' is read by a node that stays as it is, too",
                             r->node->node.inputs[input])
               : GRAIL_OK;
}

grail_status onnx_note_channels(onnx_reading *r, const char *name, int input, int64_t element,
                                onnx_channels of)
{
    onnx_count count;
    CHECK(onnx_count_at(r, name, input, element, of, &count));
    return onnx_note(r, &count);
}

grail_status onnx_note_count(onnx_reading *r, const char *name, int input, int64_t element,
                             int value)
{
    return onnx_note_channels(r, name, input, element, all_of(value));
}

grail_status onnx_note_groups(onnx_reading *r, const char *name, int value, int weight)
{
    onnx_count count;
    CHECK(onnx_count_at(r, name, 0, 0, all_of(value), &count));
    count.grouped_by = 1 + weight;
    return onnx_note(r, &count);
}

int onnx_channel_dimension(const onnx_known *x)
{
    const char *at = x->layout[0] == '\0' ? "N,C" : x->layout;
    int dimension = 0;
    for (; *at != '\0'; at++) {
        if (strncmp(at, ",C", 2) == 0 && (at[2] == ',' || at[2] == '\0')) {
            return dimension + 1;
        }
        dimension += *at == ',' ? 1 : 0;
    }
    return -1;
}

grail_status onnx_add_channels(onnx_reading *r, int i, const onnx_known *x, storage_map map,
                               int *out)
{
    char text[64];
    int64_t shape[ONNX_MOST_AXES];
    const onnx_known *k = onnx_known_input(r, i);
    const tensor_view *t = onnx_constant_of(r, i);
    const int rank = onnx_constant_shape(r, k, shape);
    const int channels = onnx_channel_dimension(x);
    bool is_fit = channels >= 0 && rank <= x->rank && dtype_is_float(t->dtype) &&
                  !r->file->tensors[k->tensor].is_numbers;
    for (int d = 0; is_fit && d < rank; d++) {
        is_fit = shape[d] == (d + x->rank - rank == channels ? x->width : 1);
    }
    if (!is_fit) {
        return onnx_misfit("its constant '%.100s' has shape %s, expected one value for each of the "
                           "%lld channels, or one for all",
                           t->name, shape_text(rank, shape, text, sizeof text),
                           (long long)x->width);
    }
    if (t->shape[t->rank - 1] != x->width) { /* before dimensions of 1 */
        map.rows = storage_rows(0, x->width).rows;
    }
    if (k->count.element >= 0) {
        onnx_count count = k->count;
        count.of = all_of(x->value);
        CHECK(onnx_note(r, &count));
    }
    CHECK(onnx_check_free(r, t));
    return graph_add_stored(r->g, t->name, t->name, &map, 1, &x->width, out);
}

/* -- outputs ----------------------------------------------------------------------------------- */

grail_status onnx_give(const onnx_reading *r, int i, onnx_known like)
{
    const onnx_file_node *n = r->node;
    if (i >= n->node.output_count || n->outputs[i] < 0) {
        return onnx_misfit("has no output %d", i);
    }
    onnx_known *out = &r->values[n->outputs[i]];
    like.readers = like.readers > out->readers ? like.readers : out->readers;
    like.depth = out->depth;
    *out = like;
    return GRAIL_OK;
}

grail_status onnx_give_node(const onnx_reading *r, const node *n, onnx_known like)
{
    CHECK(graph_add_node(r->g, n, &like.value));
    like.readers = 0;
    return onnx_give(r, 0, like);
}

node onnx_plain(node_kind kind, const onnx_known *left, const onnx_known *right)
{
    return node_of(kind, GRAPH_NONE, left->value, right == NULL ? GRAPH_NONE : right->value);
}

grail_status onnx_needs_rank(const onnx_known *x, int rank)
{
    return x->rank == rank ? GRAIL_OK
                           : onnx_misfit("reads %d dimensions, expected %s", x->rank,
                                         rank == IMAGE_RANK ? "[N, C, H, W]" : "[N, C]");
}

bool onnx_are_positions(int count, const int64_t axes[])
{
    bool is_there[2] = {false, false};
    for (int i = 0; i < count; i++) {
        const int64_t axis = axes[i] < 0 ? axes[i] + IMAGE_RANK : axes[i];
        if (axis != 2 && axis != 3) {
            return false;
        }
        is_there[axis - 2] = true;
    }
    return is_there[0] && is_there[1];
}
