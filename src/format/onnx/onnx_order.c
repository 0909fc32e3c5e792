#include "format/onnx/onnx_order.h"

#include "base/memory.h"

#include <string.h>

/* A walk from nodes to those that make what they read. */
typedef struct walk {
    const onnx_file *file;
    int64_t *stack; /* [nodes] from a node to one that it follows from, and so on */
    int64_t *next;  /* [nodes] how many of its values were looked at; -1: it is placed */
    int64_t *order; /* [nodes] those that are placed */
    int64_t count;
} walk;

/* Value k that a node reads, those of subgraphs behind its own; -1: none. */
static int64_t value_at(const onnx_file_node *n, int64_t k)
{
    return k < n->node.input_count ? n->inputs[k] : n->captures[k - n->node.input_count];
}

static bool is_sorted(const onnx_file *file)
{
    for (int64_t i = 0; i < file->node_count; i++) {
        const onnx_file_node *n = &file->nodes[i];
        for (int64_t k = 0; k < n->node.input_count + n->capture_count; k++) {
            const int64_t value = value_at(n, k);
            if (value >= 0 && file->values[value].node >= i) {
                return false;
            }
        }
    }
    return true;
}

static grail_status place_behind(walk *w, int64_t node)
{
    int64_t depth = 0;
    w->stack[0] = node;
    while (depth >= 0) {
        const int64_t at = w->stack[depth];
        const onnx_file_node *n = &w->file->nodes[at];
        int64_t before = -1;
        while (before < 0 && w->next[at] < n->node.input_count + n->capture_count) {
            const int64_t value = value_at(n, w->next[at]++);
            const int64_t maker = value < 0 ? -1 : w->file->values[value].node;
            before = maker >= 0 && w->next[maker] >= 0 ? maker : -1;
        }
        if (before < 0) {
            w->next[at] = -1;
            w->order[w->count++] = at;
            depth--;
        } else if (w->next[before] > 0 || before == at) { /* it is on the stack */
            const onnx_node *one = &w->file->nodes[before].node;
            return error_set(GRAIL_ERROR_FORMAT,
                             "node %s%s%s(%s) reads what follows from what it makes",
                             *one->name == '\0' ? "" : "'", one->name,
                             *one->name == '\0' ? "" : "' ", one->operator_name);
        } else {
            w->stack[++depth] = before;
        }
    }
    return GRAIL_OK;
}

/* Node k of the file becomes the one that is at order[k], and `order` the other way round. */
static grail_status permute(onnx_file *file, int64_t order[])
{
    onnx_file_node *nodes = NULL;
    CHECK(memory_new_unset(&nodes, (size_t)file->node_count, sizeof nodes[0]));
    for (int64_t k = 0; k < file->node_count; k++) {
        nodes[k] = file->nodes[order[k]];
    }
    memory_free(file->nodes);
    file->nodes = nodes;
    CHECK(memory_new_unset(&file->order, (size_t)file->node_count, sizeof file->order[0]));
    for (int64_t k = 0; k < file->node_count; k++) {
        file->order[order[k]] = k;
    }
    for (int64_t v = 0; v < file->value_count; v++) {
        const int64_t maker = file->values[v].node;
        file->values[v].node = maker < 0 ? maker : file->order[maker];
    }
    return GRAIL_OK;
}

grail_status onnx_order_nodes(onnx_file *file)
{
    grail_status status = GRAIL_OK;
    walk w = {.file = file};
    if (is_sorted(file)) {
        return GRAIL_OK;
    }
    TRY(memory_new(&w.stack, (size_t)file->node_count, sizeof w.stack[0]));
    TRY(memory_new(&w.next, (size_t)file->node_count, sizeof w.next[0]));
    TRY(memory_new(&w.order, (size_t)file->node_count, sizeof w.order[0]));
    for (int64_t i = 0; i < file->node_count; i++) {
        TRY(w.next[i] < 0 ? GRAIL_OK : place_behind(&w, i));
    }
    TRY(permute(file, w.order));
out:
    memory_free(w.stack);
    memory_free(w.next);
    memory_free(w.order);
    return status;
}
