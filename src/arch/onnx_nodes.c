#include "arch/onnx_nodes.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_bounds.h"
#include "arch/onnx_extents.h"
#include "arch/onnx_indices.h"
#include "arch/onnx_masks.h"
#include "arch/onnx_patterns.h"
#include "arch/onnx_region_shapes.h"
#include "arch/onnx_regions.h"
#include "arch/onnx_shapes.h"
#include "arch/onnx_tables.h"

#include <string.h>

static const struct {
    const char *domain, *name;
    grail_status (*read)(onnx_reading *r);
} operators[] = {
#define ONNX_OPERATOR(Name, name) {"", #Name, onnx_read_##name},
#define ONNX_FUSED(Name, name) {"com.microsoft", #Name, onnx_read_##name},
#include "arch/onnx_operator_list.h"
};

static grail_status read_operator(onnx_reading *r)
{
    const onnx_node *n = &r->node->node;
    for (size_t k = 0; k < sizeof operators / sizeof operators[0]; k++) {
        if (strcmp(n->domain, operators[k].domain) == 0 &&
            strcmp(n->operator_name, operators[k].name) == 0) {
            return operators[k].read(r);
        }
    }
    return onnx_misfit("grail has no row for this operator");
}

grail_status onnx_read_by_operator(onnx_reading *r)
{
    if (*r->node->node.domain != '\0') { /* its steps are read by what follows */
        return read_operator(r);
    }
    if (onnx_computes_numbers(r)) {
        const grail_status status = onnx_read_numbers(r);
        if (status != GRAIL_ERROR_UNSUPPORTED || !onnx_reads_bounds(r)) {
            return status;
        }
    }
    if (onnx_hides_scores(r)) {
        return onnx_hide_scores(r);
    }
    if (onnx_reads_bounds(r)) {
        return onnx_read_bounds(r);
    }
    if (onnx_makes_table(r)) {
        return onnx_read_table(r);
    }
    if (onnx_reads_indices(r)) {
        return onnx_read_indices(r);
    }
    CHECK(onnx_check_positions(r));
    return read_operator(r);
}

static grail_status read_by_row(onnx_reading *r, int64_t i)
{
    const onnx_pattern *pattern = onnx_pattern_at(r, i);
    if (pattern != NULL) {
        onnx_note_read(r, pattern->input);
        return onnx_read_pattern(r, pattern);
    }
    return onnx_read_by_operator(r);
}

grail_status onnx_read_node(onnx_reading *r, int64_t i)
{
    r->node = &r->file->nodes[i];
    r->is_read[i] = true;
    grail_status status = onnx_is_opaque(r, i) ? GRAIL_OK : read_by_row(r, i);
    if (status == GRAIL_OK) {
        status = onnx_check_extents(r);
    }
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        CHECK(onnx_refuse_node(r, i));
    } else {
        CHECK(onnx_in_node(r, status));
    }
    if (onnx_is_opaque(r, i)) {
        return onnx_in_node(r, onnx_read_opaque(r));
    }
    for (int k = 0; k < r->node->node.input_count; k++) {
        onnx_note_read(r, r->node->inputs[k]);
    }
    return GRAIL_OK;
}
