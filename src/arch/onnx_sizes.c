/* Integers that nodes compute of shapes and constants: the targets of Reshape. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_nodes.h"

grail_status onnx_sizes_input(const onnx_reading *r, int i, onnx_sizes *out)
{
    const onnx_known *k = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
    int64_t elements = 0;
    *out = k == NULL ? (onnx_sizes){0} : k->sizes;
    if (k != NULL && k->tensor >= 0) {
        const onnx_tensor *t = &r->file->tensors[k->tensor];
        if (shape_elements(t->view.rank, t->view.shape, &elements) && elements <= IMAGE_RANK) {
            out->count = (int)elements;
            CHECK(onnx_tensor_integers(t, out->at));
        }
        for (int e = 0; e < out->count; e++) {
            out->from[e] = (onnx_count){.tensor = k->tensor, .element = e};
        }
    }
    return out->count > 0
               ? GRAIL_OK
               : onnx_misfit("its input %d is no list of at most %d integers that follow from "
                             "constants and shapes; fold the constants of the model first "
                             "(onnxsim)",
                             i, IMAGE_RANK);
}

bool onnx_reads_sizes(const onnx_reading *r)
{
    return onnx_has_input(r, 0) && onnx_known_input(r, 0)->value == GRAPH_NONE;
}

grail_status onnx_give_sizes(const onnx_reading *r, const onnx_sizes *sizes)
{
    return onnx_give(r, 0, (onnx_known){.value = GRAPH_NONE, .tensor = -1, .sizes = *sizes});
}

/* The number of channels is that of the value, whatever is cut. */
grail_status onnx_read_shape(onnx_reading *r)
{
    onnx_known *x = NULL;
    CHECK(onnx_value_input(r, 0, &x));
    if (r->node->node.attribute_count > 0) {
        return onnx_misfit("takes a part of the shape, for which grail has no row");
    }
    const int64_t positions = x->one ? 1 : ONNX_UNKNOWN_SIZE;
    onnx_sizes sizes = {.count = x->rank, .at = {ONNX_BATCH, x->width, positions, positions}};
    for (int e = 0; e < sizes.count; e++) {
        sizes.from[e].element = -1;
    }
    return onnx_give_sizes(r, &sizes);
}

/* Between types of floats, or of integers. */
grail_status onnx_read_cast(onnx_reading *r)
{
    const int64_t to = onnx_integer_of(r, "to", 0);
    if (!onnx_has_input(r, 0)) {
        return onnx_misfit("reads nothing");
    }
    const onnx_known *x = onnx_known_input(r, 0);
    const bool is_kept =
        x->value == GRAPH_NONE ? to == ONNX_INT32 || to == ONNX_INT64 : to == ONNX_FLOAT;
    return is_kept ? onnx_give(r, 0, *x)
                   : onnx_misfit("makes another type of it, for which grail has no row");
}

/* Elements `first`, `first` + 1 ... of input 0. */
static grail_status give_part(const onnx_reading *r, int64_t first, int64_t count)
{
    onnx_sizes sizes;
    onnx_sizes part = {.count = (int)count};
    CHECK(onnx_sizes_input(r, 0, &sizes));
    if (first < 0 || count < 1 || first > sizes.count - count) {
        return onnx_misfit("takes other elements than the %d there are", sizes.count);
    }
    for (int e = 0; e < part.count; e++) {
        part.at[e] = sizes.at[first + e];
        part.from[e] = sizes.from[first + e];
    }
    return onnx_give_sizes(r, &part);
}

/* A number of elements from the end, or beyond it, as an index. */
static int64_t index_of(int64_t given, int64_t count)
{
    const int64_t index = given < 0 ? given + count : given;
    return index < 0 ? 0 : index > count ? count : index;
}

grail_status onnx_read_slice(onnx_reading *r)
{
    static const char *const names[] = {"starts", "ends", "axes", "steps"};
    int64_t at[4][ONNX_MOST_AXES] = {{0}, {0}, {0}, {1}};
    onnx_sizes sizes;
    if (!onnx_reads_sizes(r)) {
        return onnx_misfit("takes a part of a value, for which grail has no row yet");
    }
    CHECK(onnx_sizes_input(r, 0, &sizes));
    for (int i = 0; i < 4; i++) {
        int count = 0;
        CHECK(onnx_list_of(r, names[i], i + 1, &count, at[i]));
        if (count != 1 && (count > 1 || i < 2)) {
            return onnx_misfit("has %d %s, expected 1", count, names[i]);
        }
    }
    if (at[2][0] != 0 || at[3][0] != 1) {
        return onnx_misfit("is along another dimension, or takes steps");
    }
    const int64_t first = index_of(at[0][0], sizes.count);
    return give_part(r, first, index_of(at[1][0], sizes.count) - first);
}

grail_status onnx_read_gather(onnx_reading *r)
{
    onnx_sizes which;
    onnx_sizes sizes;
    if (!onnx_reads_sizes(r) || onnx_integer_of(r, "axis", 0) != 0) {
        return onnx_misfit("takes parts of a value, for which grail has no row yet");
    }
    CHECK(onnx_sizes_input(r, 1, &which));
    CHECK(onnx_sizes_input(r, 0, &sizes));
    if (which.count != 1) {
        return onnx_misfit("takes %d elements, expected 1", which.count);
    }
    return give_part(r, which.at[0] < 0 ? which.at[0] + sizes.count : which.at[0], 1);
}

grail_status onnx_concat_sizes(onnx_reading *r)
{
    onnx_sizes all = {0};
    for (int i = 0; i < r->node->node.input_count; i++) {
        onnx_sizes part;
        CHECK(onnx_sizes_input(r, i, &part));
        if (part.count > IMAGE_RANK - all.count) {
            return onnx_misfit("makes a list of more than %d integers", IMAGE_RANK);
        }
        for (int e = 0; e < part.count; e++) {
            all.at[all.count] = part.at[e];
            all.from[all.count++] = part.from[e];
        }
    }
    return onnx_give_sizes(r, &all);
}
