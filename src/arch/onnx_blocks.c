#include "arch/onnx_blocks.h"

static bool is_map(const node *n)
{
    return n->kind == NODE_CONV2D || n->kind == NODE_LINEAR;
}

static int maps_between(const graph *g, int begin, int end)
{
    int count = 0;
    for (int i = begin; i < end; i++) {
        count += is_map(&g->nodes[i]) ? 1 : 0;
    }
    return count;
}

/* How the nodes read a value of the graph. Outputs of the network are held beside what goes on, and
 * so is each of several inputs, which nodes further behind may be the first to read. */
typedef struct reads {
    int last, count;
    bool is_alone; /* all that is read behind the node that makes it */
} reads;

static void find_reads(const graph *g, reads *of)
{
    int latest = 0; /* node that reads a value made before */
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        for (int k = 0; k < n->input_count; k++) {
            of[n->inputs[k]].last = i;
            of[n->inputs[k]].count++;
        }
    }
    latest = g->input_count > 0 ? 0 : of[g->input].last;
    for (int i = 0; i < g->node_count; i++) {
        reads *made = &of[g->nodes[i].output];
        const bool is_part = g->nodes[i].kind == NODE_UNPACK;
        made->is_alone = latest <= i && !is_part;
        latest = made->last > latest && !is_part ? made->last : latest;
    }
}

/* Whether a block may begin with node i. */
static bool is_cut(const graph *g, const reads *of, int i)
{
    return i > 0 && of[g->nodes[i - 1].output].is_alone;
}

/* Whether several nodes read that value, and what they begin is added or put side by side in the
 * end: not so the factors of a value by itself, or by its means. */
static bool is_fork(const graph *g, const reads *of, int i)
{
    if (!is_cut(g, of, i) || of[g->nodes[i - 1].output].count < 2) {
        return false;
    }
    int end = i + 1;
    while (end < g->node_count && !is_cut(g, of, end)) {
        end++;
    }
    return g->nodes[end - 1].kind == NODE_ADD || g->nodes[end - 1].kind == NODE_CONCAT;
}

/* The last node that reads one of several inputs; 0 without such. */
static int find_last_input(const graph *g, const reads *of)
{
    int last = 0;
    for (int i = 0; i < g->node_count; i++) {
        const int read = g->nodes[i].kind == NODE_UNPACK ? of[g->nodes[i].output].last : 0;
        last = read > last ? read : last;
    }
    return last;
}

/* Where what reads the means begins, or the last map without such: behind all inputs. */
static int find_head(const graph *g, const reads *of)
{
    const int last_input = find_last_input(g, of);
    int last_map = g->node_count - 1;
    for (int i = g->node_count - 1; i > last_input; i--) {
        if (is_cut(g, of, i) && g->nodes[i].kind == NODE_MEAN) {
            return i;
        }
        if (is_cut(g, of, i) && is_map(&g->nodes[i]) && !is_map(&g->nodes[last_map])) {
            last_map = i;
        }
    }
    return last_map;
}

/* Where what is behind the last sum and its activations begins; `head` where no map is there. */
static int find_tail(const graph *g, const reads *of, int fork, int head)
{
    int tail = fork + 1;
    while (tail < head && !is_cut(g, of, tail)) {
        tail++;
    }
    while (tail < head &&
           (g->nodes[tail].kind == NODE_ACTIVATION || g->nodes[tail].kind == NODE_CLAMP ||
            g->nodes[tail].kind == NODE_BATCH_NORM || g->nodes[tail].kind == NODE_AFFINE)) {
        tail++;
    }
    return maps_between(g, tail, head) > 0 ? tail : head;
}

/* A block begins where a value forks, and ends where the next one does. What is before the first
 * fork is a block where it has maps enough for a site, or nothing forks; the tail is one more. */
static void number_blocks(graph *g, const reads *of)
{
    const int head = find_head(g, of);
    int first = head;
    int last = 0;
    for (int i = 1; i < head; i++) {
        if (is_fork(g, of, i)) {
            first = first == head ? i : first;
            last = i;
        }
    }
    const int tail = last == 0 ? head : find_tail(g, of, last, head);
    int block = last == 0 || maps_between(g, 0, first) > 1 ? 0 : GRAPH_NONE;
    for (int i = 0; i < g->node_count; i++) {
        block += (i < head && is_fork(g, of, i)) || i == tail || i == head ? 1 : 0;
        g->nodes[i].block = block;
    }
}

grail_status onnx_add_blocks(graph *g)
{
    reads *of = NULL;
    CHECK(memory_new(&of, (size_t)g->node_count + 1, sizeof of[0]));
    find_reads(g, of);
    number_blocks(g, of);
    memory_free(of);
    return GRAIL_OK;
}
