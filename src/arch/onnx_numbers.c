#include "arch/onnx_numbers.h"

#include <string.h>

onnx_number onnx_whole(int64_t value)
{
    return (onnx_number){.factor = value, .tensor = -1, .of = {.value = GRAPH_NONE}};
}

onnx_number onnx_real(double value)
{
    onnx_number n = onnx_whole(0);
    n.is_real = true;
    n.real = value;
    return n;
}

bool onnx_is_channels(const onnx_channels *c)
{
    return c->value != GRAPH_NONE || c->linear != 0;
}

grail_status onnx_note(onnx_reading *r, const onnx_count *count)
{
    CHECK(memory_reserve(&r->counts, (size_t)r->count_count + 1, sizeof r->counts[0]));
    r->counts[r->count_count++] = *count;
    return GRAIL_OK;
}

grail_status onnx_note_number(onnx_reading *r, const onnx_number *n, const onnx_channels *of)
{
    const onnx_channels none = {.value = GRAPH_NONE};
    const onnx_count count = {.tensor = n->tensor,
                              .node = onnx_node_number(r),
                              .reader = n->reader,
                              .input = n->input,
                              .element = n->element,
                              .of = n->above == 0 ? *of : none, /* it is in no proportion */
                              .by = n->of};
    return onnx_note(r, &count);
}

grail_status onnx_note_stays(onnx_reading *r, const onnx_number *n)
{
    const onnx_channels none = {.value = GRAPH_NONE};
    return n->tensor >= 0 || onnx_is_channels(&n->of) ? onnx_note_number(r, n, &none) : GRAIL_OK;
}

grail_status onnx_numbers_of_constant(const onnx_reading *r, int64_t tensor, onnx_numbers *out)
{
    grail_status status = GRAIL_OK;
    const onnx_tensor *t = &r->file->tensors[tensor];
    const bool is_real = dtype_is_float(t->view.dtype) && t->view.dtype != GRAIL_DTYPE_COUNT;
    const bool is_editable = t->element == ONNX_INT64 || t->element == ONNX_INT32;
    int64_t count = 0;
    int64_t *integers = NULL;
    float *reals = NULL;
    if (t->element == ONNX_STRING || !shape_elements(t->view.rank, t->view.shape, &count) ||
        count > ONNX_MOST_NUMBERS || t->view.rank > 1) {
        return GRAIL_OK;
    }
    TRY(memory_new(&out->items, (size_t)count + 1, sizeof out->items[0]));
    TRY(memory_new(&integers, (size_t)count + 1, sizeof integers[0]));
    TRY(memory_new(&reals, (size_t)count + 1, sizeof reals[0]));
    TRY(is_real ? onnx_tensor_f32(t, reals) : onnx_tensor_integers(t, integers));
    for (int64_t i = 0; i < count; i++) {
        out->items[i] = is_real ? onnx_real((double)reals[i]) : onnx_whole(integers[i]);
        out->items[i].tensor = is_editable ? tensor : -1;
        out->items[i].element = i;
    }
    out->is_known = true;
    out->count = (int)count;
    out->rank = t->view.rank;
out:
    memory_free(integers);
    memory_free(reals);
    if (status != GRAIL_OK) {
        memory_free(out->items);
        *out = (onnx_numbers){0};
    }
    return status;
}

grail_status onnx_copy_numbers(const onnx_numbers *from, onnx_numbers *out)
{
    CHECK(memory_new(&out->items, (size_t)from->count + 1, sizeof out->items[0]));
    memcpy(out->items, from->items, (size_t)from->count * sizeof out->items[0]);
    out->is_known = true;
    out->count = from->count;
    out->rank = from->rank;
    out->columns = from->columns;
    return GRAIL_OK;
}

grail_status onnx_numbers_of(const onnx_reading *r, int i, onnx_numbers *out)
{
    *out = (onnx_numbers){0};
    if (i >= r->node->node.input_count || r->node->inputs[i] < 0) {
        return GRAIL_OK;
    }
    const onnx_numbers *computed = &r->numbers[r->node->inputs[i]];
    const int64_t tensor = r->values[r->node->inputs[i]].tensor;
    CHECK(computed->is_known ? onnx_copy_numbers(computed, out)
          : tensor >= 0      ? onnx_numbers_of_constant(r, tensor, out)
                             : GRAIL_OK);
    for (int k = 0; k < out->count && !computed->is_known; k++) {
        out->items[k].reader = onnx_node_number(r);
        out->items[k].input = onnx_input_number(r, i);
    }
    return GRAIL_OK;
}
