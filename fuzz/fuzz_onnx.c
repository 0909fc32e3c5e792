/* Any bytes as an ONNX model. All of its nodes as a region are a model of the same nodes and values
 * behind them, unless they are refused. In an accepted one names lead to their values, edges to
 * what was made before, nodes and tensors lie in the file, and each tensor's values can be read.
 * Written again it has the same bytes, and with tensors, attributes and nodes replaced it is
 * accepted and has the same names. It is written below $TMPDIR or /tmp. */
#include "fuzz.h"

#include "format/onnx/onnx_edit.h"
#include "runtime/region_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

static grail_status give_ones(void *context, int64_t first, int64_t count, float *out)
{
    (void)context;
    (void)first;
    for (int64_t i = 0; i < count; i++) {
        out[i] = 1.0F;
    }
    return GRAIL_OK;
}

/* Other shapes for two tensors of three, by `choice`; of integers the values are 0. */
static void replace_tensor(const onnx_file *file, onnx_edit *e, int64_t i, size_t choice)
{
    enum { MOST = 4096, MORE = 300 };
    static const int64_t zeros[MOST];
    const onnx_tensor *t = &file->tensors[i];
    int64_t shape[ONNX_MAX_RANK];
    int64_t count = 0;
    memcpy(shape, t->view.shape, sizeof shape);
    if (t->view.rank > 0) {
        shape[0] = choice % 5 == 1 ? MORE : (shape[0] + 1) / 2;
    }
    if ((choice + (size_t)i) % 3 == 2 || !shape_elements(t->view.rank, shape, &count) ||
        count > MOST) {
        return;
    }
    if (dtype_is_float(t->view.dtype)) {
        fuzz_require(onnx_edit_tensor(e, i, t->view.rank, shape, give_ones, NULL) == GRAIL_OK);
    } else if (t->element == ONNX_INT64) {
        fuzz_require(onnx_edit_integers(e, i, t->view.rank, shape, zeros) == GRAIL_OK);
    }
}

/* Attributes replaced by themselves, and nodes, but for those that hold tensors. */
static void replace_node(const onnx_file *file, onnx_edit *e, int64_t i, size_t choice)
{
    const onnx_node *n = &file->nodes[i].node;
    for (int j = 0; j < n->attribute_count; j++) {
        if (n->attributes[j].tensor >= 0) {
            return;
        }
    }
    if ((choice + (size_t)i) % 3 == 0) {
        fuzz_require(onnx_edit_attributes(e, i, n->attribute_count, n->attributes) == GRAIL_OK);
    } else if ((choice + (size_t)i) % 3 == 1) {
        fuzz_require(onnx_edit_insert(e, i, n) == GRAIL_OK);
        onnx_edit_remove(e, i);
    }
}

static void check_written(const onnx_file *file, const char *path, bool is_same)
{
    onnx_file *again = NULL;
    fuzz_require(onnx_file_open(path, &again) == GRAIL_OK);
    fuzz_require(!is_same ||
                 (again->bytes.size == file->bytes.size &&
                  memcmp(again->bytes.bytes, file->bytes.bytes, file->bytes.size) == 0));
    fuzz_require(again->node_count == file->node_count && again->value_count == file->value_count);
    fuzz_require(again->tensor_count == file->tensor_count);
    for (int64_t i = 0; i < file->value_count; i++) {
        const int64_t other = onnx_file_find(again, file->values[i].name);
        fuzz_require(other >= 0 && again->values[other].node == file->values[i].node);
    }
    for (int64_t i = 0; i < file->node_count; i++) {
        const onnx_file_node *n = &again->nodes[i];
        fuzz_require(n->node.attribute_count == file->nodes[i].node.attribute_count);
        fuzz_require(n->capture_count == file->nodes[i].capture_count);
    }
    onnx_file_close(again);
}

/* `choice` says what is replaced, and whether values go to another file. */
static void check_edit(const onnx_file *file, bool replaces, size_t choice)
{
    const char *base = getenv("TMPDIR");
    char path[4096];
    char data[4200];
    onnx_edit *e = NULL;
    snprintf(path, sizeof path, "%s/grail-fuzz-%d.onnx", base == NULL ? "/tmp" : base,
             (int)getpid());
    snprintf(data, sizeof data, "%s.data", path);
    fuzz_require(onnx_edit_create(file, &e) == GRAIL_OK);
    for (int64_t i = 0; replaces && i < file->tensor_count; i++) {
        replace_tensor(file, e, i, choice);
    }
    for (int64_t i = 0; replaces && i < file->node_count; i++) {
        replace_node(file, e, i, choice);
    }
    fuzz_require(onnx_edit_write(e, path, choice % 2 == 0 ? ONNX_LARGEST_FILE : 64) == GRAIL_OK);
    onnx_edit_free(e);
    check_written(file, path, !replaces);
    (void)remove(path);
    (void)remove(data);
}

static void check_region(const onnx_file *file)
{
    enum { MOST = 64 };
    static int64_t nodes[MOST];
    static region_value inputs[MOST];
    int input_count = 0;
    buffer model;
    onnx_file *own = NULL;
    for (int64_t i = 0; i < file->input_count && file->input_count <= MOST; i++) {
        if (file->values[file->inputs[i]].tensor < 0) {
            inputs[input_count++] = (region_value){
                .value = file->inputs[i], .rank = REGION_IMAGE, .width = 3, .channels = 1};
        }
    }
    for (int64_t i = 0; i < file->node_count && i < MOST; i++) {
        nodes[i] = i;
    }
    buffer_init(&model, (size_t)1 << 30);
    if (file->node_count <= MOST && file->input_count <= MOST &&
        region_model_put(file, file->node_count, nodes, 0, NULL, input_count, inputs, 0, NULL,
                         &model) == GRAIL_OK) {
        fuzz_require(onnx_file_open_bytes("region", model.bytes, model.size, &own) == GRAIL_OK);
        fuzz_require(own->node_count == file->node_count && own->opset == file->opset);
        for (int64_t i = 0; i < file->node_count; i++) {
            fuzz_require(own->nodes[i].field.size == file->nodes[i].field.size);
            fuzz_require(own->nodes[i].capture_count == file->nodes[i].capture_count);
        }
    }
    onnx_file_close(own);
    buffer_fini(&model);
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
    check_region(file);
    check_edit(file, false, size);
    check_edit(file, true, size);
    onnx_file_close(file);
    return 0;
}
