#include "arch/onnx_rolls.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_extents.h"
#include "arch/onnx_layouts.h"

#include <string.h>

/* Rows or columns that a Slice takes. */
typedef struct lines {
    bool are_rows, are_columns;
    int64_t begin, end, step, all;
} lines;

/* Whether dimension `axis` is all rows, or all columns, of an image that is not in windows. */
static bool are_lines(const onnx_known *x, int64_t axis, lines *out)
{
    char text[ONNX_LAYOUT_SIZE];
    char part[ONNX_LAYOUT_SIZE] = "";
    const bool is_part = x->form == ONNX_PART && x->windows.height > 0;
    const bool is_image = x->form == ONNX_VALUE && (x->value != GRAPH_NONE || x->linear != 0) &&
                          x->windows.height == 0 && !onnx_is_padded(x) && x->factor == 0.0;
    const int k = is_image || is_part ? onnx_axis_of(axis, x->rank) : -1;
    if (k >= 0) {
        onnx_letters(x, text);
        onnx_dimension_text(text, k, part);
    }
    *out = (lines){.are_rows = strcmp(part, "Y") == 0, .are_columns = strcmp(part, "X") == 0};
    return is_part ? (out->are_rows ? x->windows.height : x->windows.width) == 1 &&
                         (out->are_rows || out->are_columns)
                   : out->are_rows || out->are_columns;
}

/* What the Slice at hand takes of x; false: no run of lines, nor every one at a distance that they
 * are a multiple of, by numbers that are known. */
static bool lines_of(onnx_reading *r, const onnx_known *x, lines *out)
{
    static const char *const names[] = {"starts", "ends", "axes", "steps"};
    int64_t list[4][ONNX_MOST_AXES] = {{0}, {0}, {0}, {1}};
    extent positions;
    for (int i = 0; i < 4; i++) {
        int count = 0;
        if (onnx_list_of(r, names[i], i + 1, &count, list[i]) != GRAIL_OK || count > 1 ||
            (count == 0 && i < 3)) {
            return false;
        }
    }
    if (list[3][0] < 1 || !are_lines(x, list[2][0], out) ||
        onnx_positions_of(r, x, &positions) != GRAIL_OK) {
        return false;
    }
    out->all = out->are_rows ? positions.height : positions.width;
    out->begin = onnx_bound_of(list[0][0], out->all);
    out->end = onnx_bound_of(list[1][0], out->all);
    out->step = list[3][0];
    return out->all > 0 && out->begin < out->end &&
           (out->step == 1
                ? x->form == ONNX_VALUE
                : out->begin < out->step && out->end == out->all && out->all % out->step == 0 &&
                      (x->form == ONNX_PART || !onnx_is_moved(x)));
}

/* Whether all that reads a value is a Concat of what Slices make, as many as `count` (0: any), or
 * where `deep` a Slice of which that is so. */
static bool is_joined(const onnx_reading *r, int64_t value, int count, bool deep)
{
    const onnx_file *f = r->file;
    int readers = 0;
    bool fits = true;
    for (int64_t i = f->values[value].node + 1; fits && i < f->node_count; i++) {
        const onnx_file_node *n = &f->nodes[i];
        bool reads = false;
        for (int k = 0; k < n->node.input_count; k++) {
            reads = reads || n->inputs[k] == value;
        }
        if (!reads) {
            continue;
        }
        readers++;
        if (deep && onnx_node_is(n, "Slice") && n->node.output_count == 1) {
            fits = is_joined(r, n->outputs[0], count, false);
            continue;
        }
        fits = onnx_node_is(n, "Concat") && (count == 0 || n->node.input_count == count);
        for (int k = 0; fits && k < n->node.input_count; k++) {
            const int64_t maker = n->inputs[k] < 0 ? -1 : f->values[n->inputs[k]].node;
            fits = maker >= 0 && onnx_node_is(&f->nodes[maker], "Slice");
        }
    }
    return fits && readers > 0 && r->values[value].readers == readers;
}

bool onnx_takes_lines(const onnx_reading *r)
{
    lines of;
    onnx_reading own = *r;
    return r->fused == NULL && onnx_has_input(r, 0) && onnx_known_input(r, 0)->tensor < 0 &&
           lines_of(&own, onnx_known_input(r, 0), &of) &&
           ((of.step == 1 && of.end - of.begin == of.all) ||
            is_joined(r, r->node->outputs[0], of.step == 1 ? 2 : 0, of.step > 1));
}

grail_status onnx_take_lines(onnx_reading *r)
{
    onnx_known *x = onnx_known_input(r, 0);
    lines of = {0};
    CHECK(x->form == ONNX_PART ? GRAIL_OK : onnx_any_input(r, 0, &x));
    if (!lines_of(r, x, &of)) {
        return onnx_misfit("takes rows or columns by numbers that are not known");
    }
    onnx_known y = *x;
    if (of.step == 1 && of.end - of.begin == of.all) {
        return onnx_give(r, 0, y);
    }
    if (y.form == ONNX_VALUE) {
        y.form = ONNX_PART;
        y.query = x->value;
        y.value = GRAPH_NONE;
        y.windows = of.step == 1 ? (extent){0} : (extent){1, 1};
    }
    if (of.step == 1) {
        y.behind = of.begin;
        y.ahead = of.end;
        return onnx_give(r, 0, y);
    }
    *(of.are_rows ? &y.windows.height : &y.windows.width) = of.step;
    *(of.are_rows ? &y.roll.height : &y.roll.width) = of.begin;
    return onnx_give(r, 0, y);
}

bool onnx_joins_lines(const onnx_reading *r)
{
    bool are_parts = r->node->node.input_count > 1;
    for (int i = 0; are_parts && i < r->node->node.input_count; i++) {
        are_parts = onnx_has_input(r, i) && onnx_known_input(r, i)->form == ONNX_PART;
    }
    return are_parts;
}

/* The value of which the parts are, as it was. */
static onnx_known whole_of(const onnx_known *part)
{
    onnx_known y = *part;
    y.form = ONNX_VALUE;
    y.value = part->query;
    y.query = GRAPH_NONE;
    y.behind = 0;
    y.ahead = 0;
    return y;
}

/* Every line from each of the first ones on, of rows or of columns first. */
static grail_status join_squares(onnx_reading *r)
{
    const onnx_known first = *onnx_known_input(r, 0);
    const extent step = first.windows;
    const int count = r->node->node.input_count;
    bool by_rows = count == step.height * step.width;
    bool by_columns = by_rows;
    for (int64_t i = 0; i < count; i++) {
        const onnx_known *x = onnx_known_input(r, (int)i);
        const bool is_one = x->query == first.query && x->windows.height == step.height &&
                            x->windows.width == step.width;
        by_rows = by_rows && is_one && x->roll.height == i / step.width &&
                  x->roll.width == i % step.width;
        by_columns = by_columns && is_one && x->roll.height == i % step.height &&
                     x->roll.width == i / step.height;
    }
    onnx_known y = whole_of(&first);
    y.windows = (extent){0};
    y.roll = (extent){0};
    if ((!by_rows && !by_columns) ||
        onnx_axis_of(onnx_integer_of(r, "axis", 0), y.rank) != onnx_channel_dimension(&y)) {
        return onnx_misfit("puts parts of an image together otherwise than as squares");
    }
    node n = onnx_plain(NODE_MERGE, &y, NULL);
    n.merge = (merge_attributes){step.height, step.width, !by_rows};
    y.width *= step.height * step.width;
    return onnx_give_node(r, &n, y);
}

grail_status onnx_join_lines(onnx_reading *r)
{
    const onnx_known *part = onnx_known_input(r, 0);
    const onnx_known *rest = onnx_known_input(r, 1);
    onnx_known y = whole_of(part);
    lines of = {0};
    extent positions;
    if (part->windows.height > 0) {
        return join_squares(r);
    }
    CHECK(onnx_positions_of(r, &y, &positions));
    if (!are_lines(&y, onnx_integer_of(r, "axis", 0), &of) || rest->query != part->query ||
        rest->windows.height > 0 || rest->behind != 0 || rest->ahead != part->behind ||
        part->ahead != (of.are_rows ? positions.height : positions.width)) {
        return onnx_misfit("puts parts of an image together otherwise than rolled");
    }
    int64_t *by = of.are_rows ? &y.roll.height : &y.roll.width;
    *by = (*by + part->behind) % part->ahead;
    return onnx_give(r, 0, y);
}
