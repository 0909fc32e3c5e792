#include "arch/onnx_extents.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_region_shapes.h"
#include "graph/operators.h"

#include <string.h>

static extent stand_in_positions(const onnx_reading *r, int value)
{
    extent found = {0};
    for (int i = 0; i < r->stand_in_count; i++) {
        found = r->stand_ins[i].value == value ? r->stand_ins[i].positions : found;
    }
    return found;
}

/* Those of all values of the graph so far. Sequences have one position here; stand-ins of theirs
 * have as many. */
static grail_status note_extents(onnx_reading *r)
{
    const graph *g = r->g;
    const bool is_sequence = g->input_kind == INPUT_TOKENS;
    const extent all = is_sequence ? (extent){1, 1} : g->image;
    if (r->extent_count >= g->value_count) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&r->extents, (size_t)g->value_count, sizeof r->extents[0]));
    r->extents[g->input] = all;
    int first = g->node_count;
    while (first > 0 && g->nodes[first - 1].output >= r->extent_count) {
        first--;
    }
    for (int i = first; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        extent in[NODE_MAX_INPUTS + 1] = {[NODE_MAX_INPUTS] = all};
        for (int k = 0; k < n->input_count; k++) {
            in[k] = r->extents[n->inputs[k]];
        }
        extent *made = &r->extents[n->output];
        *made = n->kind != NODE_OPAQUE ? (extent){0}
                : is_sequence          ? all
                                       : stand_in_positions(r, n->output);
        CHECK((n->kind == NODE_OPAQUE && n->region == NULL) || made->height > 0
                  ? GRAIL_OK
                  : node_extent(g, n, in, made));
        r->extent_count = n->output + 1;
    }
    r->extent_count = g->value_count;
    return GRAIL_OK;
}

grail_status onnx_check_extents(onnx_reading *r)
{
    graph *g = r->g;
    char text[ONNX_REASON_SIZE];
    const bool are_known = g->image.height > 0 || g->input_kind == INPUT_TOKENS;
    const grail_status status = are_known ? note_extents(r) : GRAIL_OK;
    if (status != GRAIL_ERROR_SHAPE) {
        return status;
    }
    while (g->node_count > 0 && g->nodes[g->node_count - 1].output >= r->extent_count) {
        g->value_count = g->nodes[--g->node_count].output;
    }
    for (int i = 0; i < r->node->node.input_count; i++) {
        if (onnx_has_input(r, i) && onnx_known_input(r, i)->value >= g->value_count) {
            return status; /* a map in front of the node, which others may have read */
        }
    }
    error_copy(text, sizeof text);
    const char *said = strncmp(text, "block ", 6) == 0 ? strstr(text, ": ") : NULL;
    return onnx_misfit("%s", said == NULL ? text : said + 2); /* blocks are not known yet */
}

grail_status onnx_positions_of(onnx_reading *r, const onnx_known *x, extent *out)
{
    const graph *g = r->g;
    const int value = x->linear != 0          ? r->linears[x->linear].input
                      : x->form == ONNX_VALUE ? x->value
                                              : x->query;
    if (x->linear != 0 && r->linears[x->linear].mixes) {
        *out = (extent){onnx_linear_rows(&r->linears[x->linear]), 1};
        return GRAIL_OK;
    }
    *out = x->one ? (extent){1, 1} : (extent){r->length, r->length > 0 ? 1 : 0};
    if (x->form == ONNX_IDS && g->input_kind == INPUT_IMAGES) { /* beside other inputs */
        *out = (extent){g->inputs[x->input].channels, 1};
        return GRAIL_OK;
    }
    if (x->one || r->length > 0 || g->image.height < 1 || value < 0) {
        return GRAIL_OK;
    }
    CHECK(note_extents(r));
    *out = r->extents[value];
    return GRAIL_OK;
}

grail_status onnx_known_positions(onnx_reading *r, const onnx_known *x, extent *out)
{
    CHECK(onnx_positions_of(r, x, out));
    return out->height > 0 ? GRAIL_OK
                           : onnx_misfit("needs to know how large images are; export the network "
                                         "for images of one size");
}
