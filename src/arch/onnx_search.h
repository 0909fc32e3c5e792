/* What patterns of nodes are looked for with (onnx_patterns.c). */
#ifndef GRAIL_ARCH_ONNX_SEARCH_H
#define GRAIL_ARCH_ONNX_SEARCH_H

#include "arch/onnx_nodes.h"

enum { MOST_SWALLOWED = 24 };

/* The search: the last node that reads each value, and the nodes of the pattern at hand. */
typedef struct search {
    onnx_reading *r;
    int64_t *reader; /* [values] */
    int64_t nodes[MOST_SWALLOWED];
    int count;
} search;

static inline const onnx_file_node *search_node(const search *s, int64_t at)
{
    return &s->r->file->nodes[at];
}

/* The node of this operator that makes a value, or that alone reads it; -1: none. */
static inline int64_t search_check(const search *s, int64_t at, const char *name)
{
    return at >= 0 && onnx_node_is(search_node(s, at), name) &&
                   search_node(s, at)->node.output_count >= 1 && search_node(s, at)->outputs[0] >= 0
               ? at
               : -1;
}

static inline int64_t search_maker(const search *s, int64_t value, const char *name)
{
    return value < 0 ? -1 : search_check(s, s->r->file->values[value].node, name);
}

static inline int64_t search_reader(const search *s, int64_t at, const char *name)
{
    const int64_t value = at < 0 ? -1 : search_node(s, at)->outputs[0];
    return value < 0 || s->r->values[value].readers != 1 ? -1
                                                         : search_check(s, s->reader[value], name);
}

static inline int64_t search_input(const search *s, int64_t at, int i)
{
    return at >= 0 && i < search_node(s, at)->node.input_count ? search_node(s, at)->inputs[i] : -1;
}

/* The other input of a node of two that reads `value`. */
static inline int64_t search_other(const search *s, int64_t at, int64_t value)
{
    const int64_t first = search_input(s, at, 0);
    return first == value ? search_input(s, at, 1) : first;
}

/* The node is one of the pattern at hand. */
static inline void search_swallow(search *s, int64_t at)
{
    s->nodes[s->count++] = at;
}

#endif
