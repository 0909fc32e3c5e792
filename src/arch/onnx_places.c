#include "arch/onnx_places.h"

#include <string.h>

/* What the operator of a node says of the first value that it reads. */
typedef enum reading { IN_SECOND, IN_LAST, BY_ORDER, BY_MATRIX, AS_MADE } reading;

static const struct {
    const char *name;
    reading how;
} operators[] = {
    {"Add", AS_MADE},
    {"AveragePool", IN_SECOND},
    {"BatchNormalization", IN_SECOND},
    {"Cast", AS_MADE},
    {"Clip", AS_MADE},
    {"Concat", AS_MADE},
    {"Conv", IN_SECOND},
    {"ConvTranspose", IN_SECOND},
    {"DepthToSpace", IN_SECOND},
    {"Div", AS_MADE},
    {"Dropout", AS_MADE},
    {"Erf", AS_MADE},
    {"Gelu", AS_MADE},
    {"GlobalAveragePool", IN_SECOND},
    {"GlobalMaxPool", IN_SECOND},
    {"GroupNormalization", IN_SECOND},
    {"HardSigmoid", AS_MADE},
    {"HardSwish", AS_MADE},
    {"Identity", AS_MADE},
    {"InstanceNormalization", IN_SECOND},
    {"LayerNormalization", IN_LAST},
    {"LeakyRelu", AS_MADE},
    {"MatMul", BY_MATRIX},
    {"Max", AS_MADE},
    {"MaxPool", IN_SECOND},
    {"Min", AS_MADE},
    {"Mul", AS_MADE},
    {"Pad", AS_MADE},
    {"Pow", AS_MADE},
    {"RMSNormalization", IN_LAST},
    {"Relu", AS_MADE},
    {"Reshape", AS_MADE},
    {"Resize", IN_SECOND},
    {"Sigmoid", AS_MADE},
    {"Slice", AS_MADE},
    {"Softplus", AS_MADE},
    {"Sqrt", AS_MADE},
    {"Sub", AS_MADE},
    {"Sum", AS_MADE},
    {"Tanh", AS_MADE},
    {"Transpose", BY_ORDER},
    {"Upsample", IN_SECOND},
};

/* [N, H, W, C] <-> [N, C, H, W], [N, T, C] <-> [N, C, T], where what is made tells more. */
static onnx_place place_by_order(const onnx_file_node *n, onnx_place made)
{
    static const int64_t to_second[] = {0, 3, 1, 2};
    static const int64_t to_last[] = {0, 2, 3, 1};
    static const int64_t turned[] = {0, 2, 1};
    const onnx_attribute *a = onnx_node_attribute(n, "perm");
    const int count = a != NULL && a->kind == ONNX_INTEGERS ? a->count : 0;
    if (count == 4) {
        return memcmp(a->integers, to_second, sizeof to_second) == 0 ? ONNX_LAST
               : memcmp(a->integers, to_last, sizeof to_last) == 0   ? ONNX_SECOND
                                                                     : ONNX_ANYWHERE;
    }
    return count != 3 || memcmp(a->integers, turned, sizeof turned) != 0 ? ONNX_ANYWHERE
           : made == ONNX_LAST                                           ? ONNX_SECOND
           : made == ONNX_SECOND                                         ? ONNX_LAST
                                                                         : ONNX_ANYWHERE;
}

static bool reads_matrix(const onnx_file *file, const onnx_file_node *n)
{
    const int64_t value = n->node.input_count == 2 ? n->inputs[1] : -1;
    const int64_t tensor = value < 0 ? -1 : file->values[value].tensor;
    return tensor >= 0 && file->tensors[tensor].view.rank == 2;
}

/* [N, H, W, 1] -> [N, 1, H, W]: a plane, whose order stays as it is. */
static bool brings_plane_forward(const onnx_file *file, const onnx_file_node *n)
{
    enum { RANK = 4 };
    const int64_t target = n->node.input_count == 2 ? n->inputs[1] : -1;
    const int64_t tensor = target < 0 ? -1 : file->values[target].tensor;
    const onnx_value *v = n->inputs[0] < 0 ? NULL : &file->values[n->inputs[0]];
    const onnx_tensor *t = tensor < 0 ? NULL : &file->tensors[tensor];
    int64_t to[RANK] = {0};
    return t != NULL && v != NULL && v->rank == RANK && v->shape[1] != 1 && v->shape[3] == 1 &&
           t->view.rank == 1 && t->view.shape[0] == RANK &&
           onnx_tensor_integers(t, to) == GRAIL_OK && to[1] == 1 && to[2] == v->shape[1] &&
           to[3] == v->shape[2];
}

static onnx_place place_of_input(const onnx_file *file, const onnx_file_node *n, int input,
                                 onnx_place made)
{
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (onnx_node_is(n, operators[i].name)) {
            const reading how = operators[i].how;
            if (onnx_node_is(n, "Reshape") && input == 0 && brings_plane_forward(file, n)) {
                return ONNX_LAST;
            }
            return how == AS_MADE                            ? made
                   : input > 0                               ? ONNX_ANYWHERE
                   : how == IN_SECOND                        ? ONNX_SECOND
                   : how == BY_ORDER                         ? place_by_order(n, made)
                   : how == IN_LAST || reads_matrix(file, n) ? ONNX_LAST
                                                             : ONNX_ANYWHERE;
        }
    }
    return ONNX_ANYWHERE;
}

void onnx_find_places(const onnx_file *file, onnx_place places[])
{
    for (int64_t i = file->node_count - 1; i >= 0; i--) { /* what reads a value comes behind it */
        const onnx_file_node *n = &file->nodes[i];
        const int64_t made = n->node.output_count > 0 ? n->outputs[0] : -1;
        for (int k = 0; k < n->node.input_count && made >= 0; k++) {
            const int64_t value = n->inputs[k];
            const onnx_place now =
                value < 0 ? ONNX_ANYWHERE : place_of_input(file, n, k, places[made]);
            if (now != ONNX_ANYWHERE && places[value] != ONNX_SECOND) {
                places[value] = now;
            }
        }
    }
}
