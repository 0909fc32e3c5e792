#include "arch/onnx_emit.h"

#include <stdio.h>

static onnx_name new_name(translation *t)
{
    onnx_name name;
    snprintf(name.text, sizeof name.text, "grail/%d", t->names++);
    return name;
}

grail_status onnx_emit_with(translation *t, const char *operator_name, int input_count,
                            const char *const inputs[], int attribute_count,
                            const onnx_attribute attributes[], onnx_name *out)
{
    const onnx_name name = new_name(t);
    const grail_status status = onnx_add_node(t->w, &(onnx_node){.operator_name = operator_name,
                                                                 .input_count = input_count,
                                                                 .inputs = inputs,
                                                                 .output = name.text,
                                                                 .attribute_count = attribute_count,
                                                                 .attributes = attributes});
    *out = name;
    return status;
}

grail_status onnx_emit_one(translation *t, const char *operator_name, onnx_name x, onnx_name *out)
{
    const char *const inputs[] = {x.text};
    return onnx_emit_with(t, operator_name, 1, inputs, 0, NULL, out);
}

grail_status onnx_emit_two(translation *t, const char *operator_name, onnx_name a, onnx_name b,
                           onnx_name *out)
{
    const char *const inputs[] = {a.text, b.text};
    return onnx_emit_with(t, operator_name, 2, inputs, 0, NULL, out);
}

grail_status onnx_integers(translation *t, int count, const int64_t values[], onnx_name *out)
{
    *out = new_name(t);
    return onnx_add_integers(t->w, out->text, count, values);
}

/* out = x operator value */
grail_status onnx_emit_real(translation *t, const char *operator_name, onnx_name x, double value,
                            onnx_name *out)
{
    const onnx_name constant = new_name(t);
    CHECK(onnx_add_real(t->w, constant.text, value));
    return onnx_emit_two(t, operator_name, x, constant, out);
}

grail_status onnx_emit_reshape(translation *t, onnx_name x, int rank, const int64_t shape[],
                               onnx_name *out)
{
    onnx_name constant;
    CHECK(onnx_integers(t, rank, shape, &constant));
    return onnx_emit_two(t, "Reshape", x, constant, out);
}

grail_status onnx_emit_transpose(translation *t, onnx_name x, int rank, const int64_t order[],
                                 onnx_name *out)
{
    const char *const inputs[] = {x.text};
    const onnx_attribute attribute = {
        .name = "perm", .kind = ONNX_INTEGERS, .integers = order, .count = rank};
    return onnx_emit_with(t, "Transpose", 1, inputs, 1, &attribute, out);
}

/* The name of the complete tensor that contains a parameter, as in the checkpoint. */
static grail_status whole_tensor(translation *t, int parameter, const char **name)
{
    const tensor_view *view = t->model->tensors[parameter];
    const int64_t index = checkpoint_index_of(t->model->checkpoint, view->name);
    *name = view->name;
    int *place = &t->tensors->of_checkpoint[index];
    return *place != GRAPH_NONE ? GRAIL_OK
                                : onnx_add_tensor(t->w, view->name, view->rank, view->shape, place);
}

grail_status onnx_parameter(translation *t, int parameter, parameter_name *out)
{
    const graph_parameter *p = &t->g->parameters[parameter];
    CHECK(whole_tensor(t, parameter, &out->text));
    if (!storage_is_run_of_rows(&p->map, p->shape[0])) {
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
            CHECK(onnx_integers(t, 1, &ends[i], &range[i]));
        }
        const char *const inputs[] = {out->text, range[0].text, range[1].text, range[2].text};
        CHECK(onnx_emit_with(t, "Slice", 4, inputs, 0, NULL, &out->cut));
        out->text = out->cut.text;
    }
    return GRAIL_OK;
}

/* A constant for every channel, for a norm that lacks a parameter. */
static grail_status add_channels(translation *t, int64_t width, double value, onnx_name *out)
{
    const onnx_name scalar = new_name(t);
    onnx_name shape;
    CHECK(onnx_add_real(t->w, scalar.text, value));
    CHECK(onnx_integers(t, 1, &width, &shape));
    return onnx_emit_two(t, "Expand", scalar, shape, out);
}

grail_status onnx_channels(translation *t, int parameter, int64_t width, double value,
                           parameter_name *out)
{
    if (parameter != GRAPH_NONE) {
        return onnx_parameter(t, parameter, out);
    }
    const grail_status status = add_channels(t, width, value, &out->cut);
    out->text = out->cut.text;
    return status;
}

grail_status onnx_value(translation *t, const node *n, int i, bool tokens, translated *out)
{
    const int value = n->inputs[i];
    *out = t->values[value];
    if (tokens && out->layout == LAYOUT_IMAGE) {
        CHECK(onnx_emit_reshape(t, out->name, 3, (const int64_t[]){0, t->widths[value], -1},
                                &out->name));
        CHECK(onnx_emit_transpose(t, out->name, 3, (const int64_t[]){0, 2, 1}, &out->name));
        out->layout = LAYOUT_TOKENS;
    }
    return GRAIL_OK;
}

grail_status onnx_refuse(const char *what)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "cannot translate %s to ONNX", what);
}

grail_status onnx_image(translation *t, const node *n, const char *what, translated *out)
{
    const int64_t pixel[] = {0, t->widths[n->inputs[0]], 1, 1};
    *out = t->values[n->inputs[0]];
    if (out->layout == LAYOUT_VECTOR) {
        CHECK(onnx_emit_reshape(t, out->name, 4, pixel, &out->name));
        out->layout = LAYOUT_IMAGE;
    }
    return out->layout == LAYOUT_IMAGE ? GRAIL_OK : onnx_refuse(what);
}
