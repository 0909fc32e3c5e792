#include "arch/onnx_nodes.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_indices.h"
#include "arch/onnx_patterns.h"
#include "arch/onnx_shapes.h"
#include "arch/onnx_tables.h"

static const struct {
    const char *name;
    grail_status (*read)(onnx_reading *r);
} operators[] = {
#define ONNX_OPERATOR(Name, name) {#Name, onnx_read_##name},
#include "arch/onnx_operator_list.h"
#undef ONNX_OPERATOR
};

grail_status onnx_read_node(onnx_reading *r, int64_t i)
{
    r->node = &r->file->nodes[i];
    r->is_read[i] = true;
    const onnx_pattern *pattern = onnx_pattern_at(r, i);
    if (pattern != NULL) {
        return onnx_in_node(r, onnx_read_pattern(r, pattern));
    }
    if (onnx_computes_numbers(r)) {
        return onnx_in_node(r, onnx_read_numbers(r));
    }
    if (onnx_makes_table(r)) {
        return onnx_in_node(r, onnx_read_table(r));
    }
    if (onnx_reads_indices(r)) {
        return onnx_in_node(r, onnx_read_indices(r));
    }
    for (size_t k = 0; k < sizeof operators / sizeof operators[0]; k++) {
        if (onnx_node_is(r->node, operators[k].name)) {
            return onnx_in_node(r, operators[k].read(r));
        }
    }
    return onnx_in_node(
        r, onnx_misfit("grail has no row for this operator in networks of ONNX yet; where "
                       "the checkpoint that the file was exported from is of a family it "
                       "reads, give that"));
}
