#include "arch/onnx_indices.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"

#include <string.h>

static int index_input(const onnx_reading *r)
{
    for (int i = 0; i < r->node->node.input_count && i < 2; i++) {
        if (onnx_has_input(r, i) && onnx_known_input(r, i)->form == ONNX_INDICES) {
            return i;
        }
    }
    return -1;
}

bool onnx_reads_indices(const onnx_reading *r)
{
    return index_input(r) >= 0;
}

static grail_status misfit(void)
{
    return onnx_misfit("takes values by indices that depend on the number of samples; grail has no "
                       "row for that but where all are taken in their order");
}

/* Times the channels of a sample. */
static grail_status multiply(onnx_reading *r, onnx_known y, int other)
{
    onnx_numbers list;
    CHECK(onnx_numbers_of(r, other, &list));
    const bool fits = list.is_known && list.count == 1 && y.width == 1 && !list.items[0].is_open &&
                      !list.items[0].is_real && !list.items[0].per_sample &&
                      list.items[0].factor > 0;
    const onnx_number n = fits ? list.items[0] : (onnx_number){0};
    memory_free(list.items);
    y.width = n.factor;
    CHECK(fits ? onnx_note_stays(r, &n) : misfit());
    return onnx_give(r, 0, y);
}

/* Plus 0, or plus 0, 1, ... width - 1 along dimension 1. */
static grail_status add(onnx_reading *r, onnx_known y, int other)
{
    int64_t *list = NULL;
    int64_t count = 0;
    const int64_t tensor = onnx_has_input(r, other) ? onnx_known_input(r, other)->tensor : -1;
    const onnx_tensor *t = tensor < 0 ? NULL : &r->file->tensors[tensor];
    if (t == NULL || t->element != ONNX_INT64 || t->view.rank != y.rank || y.rank < 2 ||
        !shape_elements(t->view.rank, t->view.shape, &count) ||
        (count != 1 && (count != y.width || y.one || t->view.shape[1] != count))) {
        return misfit();
    }
    CHECK(memory_new(&list, (size_t)count, sizeof list[0]));
    grail_status status = onnx_tensor_integers(t, list);
    bool fits = true;
    for (int64_t i = 0; status == GRAIL_OK && i < count; i++) {
        fits = fits && list[i] == i;
    }
    memory_free(list);
    CHECK(status);
    y.one = y.one || count == y.width;
    return fits ? onnx_give(r, 0, y) : misfit();
}

static grail_status unsqueeze(onnx_reading *r, onnx_known y)
{
    int count = 0;
    int64_t axes[ONNX_MOST_AXES];
    CHECK(onnx_list_of(r, "axes", 1, &count, axes));
    for (int i = 0; i < count; i++) {
        if (axes[i] <= 0 || axes[i] >= y.rank + count) {
            return misfit();
        }
    }
    y.rank += count;
    return onnx_give(r, 0, y);
}

/* The value is one whose samples and channels are in one dimension: it has those of the indices
 * then. */
static grail_status gather(onnx_reading *r, const onnx_known *indices)
{
    onnx_known *x = NULL;
    char text[ONNX_LAYOUT_SIZE] = "N,C";
    CHECK(onnx_laid_input(r, 0, &x));
    if (x->form != ONNX_VALUE || strcmp(x->layout, "NC") != 0 || indices->width != x->width ||
        !indices->one || indices->rank > ONNX_MAX_RANK || onnx_integer_of(r, "axis", 0) != 0) {
        return misfit();
    }
    const onnx_channels of = onnx_channels_of(x);
    const onnx_number number = onnx_whole(x->width); /* so the channels must stay */
    onnx_known y = *x;
    for (int k = 2; k < indices->rank; k++) {
        text[k + 1] = ',';
        text[k + 2] = '\0';
    }
    onnx_set_layout(&y, text);
    CHECK(onnx_note_number(r, &number, &of));
    return onnx_give(r, 0, y);
}

grail_status onnx_read_indices(onnx_reading *r)
{
    const int at = index_input(r);
    const onnx_known indices = *onnx_known_input(r, at);
    return onnx_node_is(r->node, "Mul")                 ? multiply(r, indices, 1 - at)
           : onnx_node_is(r->node, "Add")               ? add(r, indices, 1 - at)
           : onnx_node_is(r->node, "Unsqueeze")         ? unsqueeze(r, indices)
           : onnx_node_is(r->node, "Gather") && at == 1 ? gather(r, &indices)
                                                        : misfit();
}
