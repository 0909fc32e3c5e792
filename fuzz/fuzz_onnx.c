/* Any bytes as an ONNX model. In an accepted one names lead to their values, edges to what was made
 * before, nodes and tensors lie in the file, and each tensor's values can be read. */
#include "fuzz.h"

#include "format/onnx/onnx_file.h"

static void check_inside(const onnx_file *file, byte_range range)
{
    fuzz_require(range.bytes >= file->bytes.bytes);
    fuzz_require(range.size <= file->bytes.size - (size_t)(range.bytes - file->bytes.bytes));
}

static void check_tensor(const onnx_file *file, const onnx_tensor *t)
{
    enum { MOST_VALUES = 4096 };
    static float reals[MOST_VALUES];
    static int64_t integers[MOST_VALUES];
    static unsigned char bytes[16 * MOST_VALUES];
    int64_t count = 0;
    check_inside(file, t->message);
    fuzz_require(onnx_element_name(t->element) != NULL);
    fuzz_require(shape_elements(t->view.rank, t->view.shape, &count));
    if (t->view.data != NULL) {
        check_inside(file, (byte_range){t->view.data, t->view.bytes});
    }
    if (count <= MOST_VALUES) {
        fuzz_require((onnx_tensor_load(t, bytes) == GRAIL_OK) == (t->element != ONNX_STRING));
        fuzz_require((onnx_tensor_f32(t, reals) == GRAIL_OK) == dtype_is_float(t->view.dtype));
        fuzz_require(onnx_tensor_integers(t, integers) != GRAIL_OK ||
                     !dtype_is_float(t->view.dtype));
    }
}

static void check_edges(const onnx_file *file, const int64_t *values, int64_t count, int64_t node)
{
    for (int64_t i = 0; i < count; i++) {
        fuzz_require(values[i] >= -1 && values[i] < file->value_count);
        fuzz_require(values[i] < 0 || file->values[values[i]].node < node);
    }
}

static void check_node(const onnx_file *file, int64_t i)
{
    const onnx_file_node *n = &file->nodes[i];
    check_inside(file, n->field);
    check_edges(file, n->inputs, n->node.input_count, i);
    check_edges(file, n->captures, n->capture_count, i);
    for (int j = 0; j < n->node.output_count; j++) {
        fuzz_require(n->outputs[j] < 0 || file->values[n->outputs[j]].node == i);
    }
    for (int j = 0; j < n->node.attribute_count; j++) {
        const onnx_attribute *a = &n->node.attributes[j];
        fuzz_require(onnx_node_attribute(n, a->name) == a);
        fuzz_require(a->tensor < file->tensor_count);
        check_inside(file, a->message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    onnx_file *file = NULL;
    if (onnx_file_open_bytes("input", data, size, &file) != GRAIL_OK) {
        return 0;
    }
    for (int64_t i = 0; i < file->value_count; i++) {
        const onnx_value *v = &file->values[i];
        fuzz_require(onnx_file_find(file, v->name) == i);
        fuzz_require(v->tensor < file->tensor_count && v->rank <= ONNX_MAX_RANK);
    }
    for (int64_t i = 0; i < file->node_count; i++) {
        check_node(file, i);
    }
    for (int64_t i = 0; i < file->tensor_count; i++) {
        check_tensor(file, &file->tensors[i]);
    }
    onnx_file_close(file);
    return 0;
}
