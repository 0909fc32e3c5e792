#include "arch/onnx_arguments.h"

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

grail_status onnx_padded_input(const onnx_reading *r, int i, onnx_known **out)
{
    if (!onnx_has_input(r, i) || onnx_known_input(r, i)->value == GRAPH_NONE) {
        return onnx_misfit(
            "its input %d is a constant, or does not follow from the images; grail has "
            "no row for that",
            i);
    }
    *out = onnx_known_input(r, i);
    return GRAIL_OK;
}

bool onnx_is_padded(const onnx_known *x)
{
    return x->pads[0] + x->pads[1] + x->pads[2] + x->pads[3] > 0;
}

grail_status onnx_value_input(const onnx_reading *r, int i, onnx_known **out)
{
    CHECK(onnx_padded_input(r, i, out));
    return onnx_is_padded(*out)
               ? onnx_misfit("reads what '%s' has zeros around; grail has a row for that "
                             "before convolutions alone",
                             r->node->node.inputs[i])
               : GRAIL_OK;
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
        const int64_t tensor = onnx_known_input(r, input)->tensor;
        int64_t elements = 0;
        const onnx_tensor *t = tensor < 0 ? NULL : &r->file->tensors[tensor];
        if (t == NULL || t->element != ONNX_INT64 ||
            !shape_elements(t->view.rank, t->view.shape, &elements) || elements > ONNX_MOST_AXES) {
            return onnx_misfit(
                "'%s' is computed, or more than %d integers; fold the constants of the "
                "model first (onnxsim)",
                r->node->node.inputs[input], ONNX_MOST_AXES);
        }
        *count = (int)elements;
        return onnx_tensor_integers(t, list);
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

grail_status onnx_tensor_input(const onnx_reading *r, int i, int rank, bool *transposed,
                               const tensor_view **out)
{
    const onnx_known *k = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
    if (k == NULL || k->tensor < 0 || (k->transposed && transposed == NULL)) {
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
    const onnx_copy *copy = onnx_copy_at(r->copies, r->node - r->file->nodes, i);
    *out = copy == NULL ? t : &copy->view;
    return GRAIL_OK;
}

grail_status onnx_add_shaped(const onnx_reading *r, const tensor_view *t, bool transposed, int rank,
                             const int64_t shape[], int *out)
{
    const storage_map map = {.transposed = transposed};
    if (graph_find_parameter(r->g, t->name) != GRAPH_NONE) {
        return onnx_misfit(
            "its tensor '%.100s' is read by another node, too, of which one transposes it; give "
            "each a tensor of its own",
            t->name);
    }
    return graph_add_stored(r->g, t->name, t->name, &map, rank, shape, out);
}

grail_status onnx_add_parameter(const onnx_reading *r, const tensor_view *t, bool transposed,
                                int *out)
{
    const int64_t turned[2] = {t->shape[1], t->shape[0]};
    return onnx_add_shaped(r, t, transposed, t->rank, transposed ? turned : t->shape, out);
}

grail_status onnx_add_vector(const onnx_reading *r, int i, int64_t width, bool is_optional,
                             int *out)
{
    const tensor_view *t = NULL;
    *out = GRAPH_NONE;
    if (is_optional && !onnx_has_input(r, i)) {
        return GRAIL_OK;
    }
    CHECK(onnx_tensor_input(r, i, 1, NULL, &t));
    return t->shape[0] == width
               ? onnx_add_parameter(r, t, false, out)
               : onnx_misfit("its tensor '%.100s' has %lld values, but there are %lld channels",
                             t->name, (long long)t->shape[0], (long long)width);
}

grail_status onnx_note_count(onnx_reading *r, const char *name, int input, int64_t element,
                             int value)
{
    const onnx_attribute *a = onnx_node_attribute(r->node, name);
    CHECK(memory_reserve(&r->counts, (size_t)r->count_count + 1, sizeof r->counts[0]));
    r->counts[r->count_count++] =
        (onnx_count){.tensor = a == NULL ? onnx_known_input(r, input)->tensor : -1,
                     .node = r->node - r->file->nodes,
                     .attribute = a,
                     .element = element,
                     .value = value};
    return GRAIL_OK;
}

/* -- outputs ----------------------------------------------------------------------------------- */

grail_status onnx_give(const onnx_reading *r, int i, onnx_known like)
{
    const onnx_file_node *n = r->node;
    if (i >= n->node.output_count || n->outputs[i] < 0) {
        return onnx_misfit("has no output %d", i);
    }
    onnx_known *out = &r->values[n->outputs[i]];
    like.readers = out->readers;
    like.depth = out->depth;
    *out = like;
    return GRAIL_OK;
}

grail_status onnx_give_node(const onnx_reading *r, const node *n, onnx_known like)
{
    CHECK(graph_add_node(r->g, n, &like.value));
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

grail_status onnx_positions(const onnx_reading *r, const onnx_known *x, extent *out)
{
    grail_status status = GRAIL_OK;
    extent *extents = NULL;
    if (r->g->image.height == 0) {
        return onnx_misfit("needs to know how large images are; export the network for images of "
                           "one size");
    }
    TRY(memory_new(&extents, (size_t)r->g->value_count, sizeof extents[0]));
    TRY(graph_extents(r->g, r->g->image, extents));
    *out = extents[x->value];
out:
    memory_free(extents);
    return status;
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
