/* The graph of an ONNX file: its nodes in an order in which the shorter branch of a sum comes
 * first, and blocks where values fork. */
#include "arch/onnx_network.h"

#include "arch/loader_lines.h"
#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_nodes.h"
#include "arch/onnx_patterns.h"
#include "arch/onnx_regions.h"

#include <string.h>

enum { MOST_INPUTS = 256 }; /* of a node, each of which is looked at once for every other */

/* -- the order of the nodes -------------------------------------------------------------------- */

static void count_readers(onnx_reading *r, const int64_t *values, int64_t count, int64_t *depth)
{
    for (int64_t k = 0; k < count; k++) {
        onnx_known *x = values[k] < 0 ? NULL : &r->values[values[k]];
        if (x != NULL) {
            x->readers++;
            *depth = x->depth > *depth ? x->depth : *depth;
        }
    }
}

static void measure_depths(onnx_reading *r)
{
    for (int64_t i = 0; i < r->file->node_count; i++) {
        const onnx_file_node *n = &r->file->nodes[i];
        int64_t depth = 0;
        count_readers(r, n->inputs, n->node.input_count, &depth);
        count_readers(r, n->captures, n->capture_count, &depth);
        for (int k = 0; k < n->node.output_count; k++) {
            if (n->outputs[k] >= 0) {
                r->values[n->outputs[k]].depth = depth + 1;
            }
        }
    }
}

/* The nearest value of these that is not made yet, if it is nearer than `best`; -1: none is. */
static int64_t nearer(const onnx_reading *r, const int64_t *values, int64_t count, int64_t best)
{
    for (int64_t k = 0; k < count; k++) {
        const int64_t maker = values[k] < 0 ? -1 : r->file->values[values[k]].node;
        if (maker >= 0 && !r->is_read[maker] &&
            (best < 0 || r->values[values[k]].depth < r->values[best].depth)) {
            best = values[k];
        }
    }
    return best;
}

/* The node that makes the nearest value that it reads and that is not made yet; -1 without. */
static int64_t next_before(const onnx_reading *r, const onnx_file_node *n)
{
    const onnx_pattern *pattern = onnx_pattern_at(r, n - r->file->nodes);
    int64_t value = nearer(r, n->inputs, n->node.input_count, -1);
    value = nearer(r, n->captures, n->capture_count, value);
    value = pattern == NULL ? value : nearer(r, &pattern->input, 1, value);
    return value < 0 ? -1 : r->file->values[value].node;
}

/* Each node behind what it reads, the shorter way first, so that the fit of the last map of a
 * branch knows what the branch is added to. */
static grail_status read_behind(onnx_reading *r, int64_t last)
{
    grail_status status = GRAIL_OK;
    int64_t *stack = NULL;
    int64_t count = 1;
    TRY(memory_new(&stack, (size_t)r->file->node_count, sizeof stack[0]));
    stack[0] = last;
    while (count > 0) {
        r->node = &r->file->nodes[stack[count - 1]];
        if (r->node->node.input_count > MOST_INPUTS) {
            FAIL(GRAIL_ERROR_UNSUPPORTED, "node of '%.100s' (%.40s) reads more than %d values",
                 r->node->node.output_count > 0 ? r->node->node.outputs[0] : "",
                 r->node->node.operator_name, MOST_INPUTS);
        }
        const int64_t before = next_before(r, r->node);
        if (before >= 0) {
            stack[count++] = before;
        } else {
            TRY(onnx_read_node(r, stack[--count]));
        }
    }
out:
    memory_free(stack);
    return status;
}

/* Whether a node computes numbers of sizes and constants alone, as all nodes before it do that
 * `are_sizes` says so of. */
static bool makes_sizes(const onnx_reading *r, const onnx_file_node *n, const bool *are_sizes)
{
    bool sizes = n->capture_count == 0;
    for (int k = 0; k < n->node.input_count; k++) {
        const int64_t value = n->inputs[k];
        const int64_t maker = value < 0 ? -1 : r->file->values[value].node;
        sizes = sizes &&
                (value < 0 || r->values[value].tensor >= 0 || (maker >= 0 && are_sizes[maker]));
    }
    return sizes || (onnx_node_is(n, "Shape") && n->node.input_count == 1);
}

/* A node that the output does not need would read narrowed values, perhaps in a subgraph. */
static grail_status refuse_others(onnx_reading *r)
{
    grail_status status = GRAIL_OK;
    bool *are_sizes = NULL;
    TRY(memory_new(&are_sizes, (size_t)r->file->node_count + 1, sizeof are_sizes[0]));
    for (int64_t i = 0; i < r->file->node_count; i++) {
        r->node = &r->file->nodes[i];
        are_sizes[i] = makes_sizes(r, r->node, are_sizes);
        if (!r->is_read[i] && !are_sizes[i]) {
            TRY(onnx_in_node(r, onnx_misfit("makes nothing that the output needs; simplify the "
                                            "model first (onnxsim)")));
        }
    }
out:
    memory_free(are_sizes);
    return status;
}

/* -- blocks ------------------------------------------------------------------------------------ */

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

/* How the nodes read a value of the graph. Outputs of the network are held beside what goes on. */
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
    latest = of[g->input].last;
    for (int i = 0; i < g->node_count; i++) {
        reads *made = &of[g->nodes[i].output];
        made->is_alone = latest <= i;
        latest = made->last > latest ? made->last : latest;
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

/* Where what reads the means begins, or the last map without such. */
static int find_head(const graph *g, const reads *of)
{
    int last_map = g->node_count - 1;
    for (int i = g->node_count - 1; i > 0; i--) {
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

static grail_status add_blocks(graph *g)
{
    reads *of = NULL;
    CHECK(memory_new(&of, (size_t)g->node_count + 1, sizeof of[0]));
    find_reads(g, of);
    number_blocks(g, of);
    memory_free(of);
    return GRAIL_OK;
}

/* -- the network ------------------------------------------------------------------------------- */

/* The images: [N, channels, H, W], where sizes may be left open, or one position [N, channels]. */
static grail_status read_input(onnx_reading *r)
{
    const onnx_file *f = r->file;
    int64_t input = -1;
    int64_t count = 0;
    for (int64_t i = 0; i < f->input_count; i++) {
        const bool is_constant = f->values[f->inputs[i]].tensor >= 0;
        input = is_constant ? input : f->inputs[i];
        count += is_constant ? 0 : 1;
    }
    const onnx_value *v = input < 0 ? NULL : &f->values[input];
    const bool is_map = v != NULL && v->rank == IMAGE_RANK;
    if (count != 1 || v->element != ONNX_FLOAT || (!is_map && v->rank != FLAT_RANK) ||
        v->shape[1] < 1) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the model has %lld input(s), '%.100s' last; grail narrows networks of "
                         "ONNX with one, FLOAT [N, channels, height, width] or [N, channels]",
                         (long long)count, v == NULL ? "" : v->name);
    }
    const int64_t height = !is_map ? 1 : v->shape[2] > 0 ? v->shape[2] : 0;
    const int64_t width = !is_map ? 1 : v->shape[3] > 0 ? v->shape[3] : 0;
    if ((height == 0) != (width == 0)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the input '%.100s' states one of height and width; state both", v->name);
    }
    r->g->channels = v->shape[1];
    r->g->image = (extent){height, width};
    r->g->channels = v->shape[1];
    r->samples = v->shape[0] > 0 ? v->shape[0] : 0;
    r->values[input] = (onnx_known){.value = r->g->input,
                                    .tensor = -1,
                                    .rank = v->rank,
                                    .one = height * width == 1,
                                    .width = v->shape[1],
                                    .readers = r->values[input].readers};
    onnx_barriers_begin(r, input);
    return GRAIL_OK;
}

/* One row for each image that a matrix makes is logits; everything else is features. */
static bool is_logits(const onnx_reading *r, const onnx_known *k)
{
    const node *made = NULL;
    for (int i = 0; i < r->g->node_count && k->rank == FLAT_RANK; i++) {
        made = r->g->nodes[i].output == k->value ? &r->g->nodes[i] : made;
    }
    return made != NULL && (is_map(made) || made->kind == NODE_OPAQUE);
}

/* A value of the graph is an output where its channels are whole and have a dimension of their own,
 * anywhere between samples and positions in their order. */
static grail_status check_whole(const onnx_known *k)
{
    static const char *const orders[] = {"N", "NT", "NYX", "NY", "NX"};
    char text[ONNX_LAYOUT_SIZE];
    char letters[ONNX_LAYOUT_SIZE];
    char others[ONNX_LAYOUT_SIZE] = "";
    int channels = 0;
    onnx_letters(k, text);
    for (int d = 0; d < k->rank; d++) {
        onnx_dimension_text(text, d, letters);
        const bool is_channels = strcmp(letters, "C") == 0;
        channels += is_channels ? 1 : 0;
        strncat(others, is_channels ? "" : letters, sizeof others - strlen(others) - 1);
    }
    bool is_whole = false;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        is_whole = is_whole || strcmp(others, orders[i]) == 0;
    }
    is_whole =
        is_whole && channels == 1 && (k->form == ONNX_VALUE || k->form == ONNX_PROBABILITIES);
    return is_whole ? GRAIL_OK
                    : onnx_misfit("makes an output with channels in pieces, or beside positions, "
                                  "for which grail has no row");
}

/* Adds an output, and the nodes that it needs. */
static grail_status read_output(onnx_reading *r, int64_t output)
{
    const onnx_value *v = &r->file->values[output];
    onnx_known *k = &r->values[output];
    CHECK(v->node < 0 || r->is_read[v->node] ? GRAIL_OK : read_behind(r, v->node));
    onnx_note_read(r, output);
    CHECK(onnx_settle(r, k));
    if (v->node >= 0 && !onnx_is_opaque(r, v->node) && k->value != GRAPH_NONE &&
        check_whole(k) != GRAIL_OK) {
        CHECK(onnx_refuse_node(r, v->node)); /* all is read again, without this node */
        return graph_add_output(r->g, r->g->input, v->name, false);
    }
    CHECK(k->value == GRAPH_NONE ? onnx_refuse_first(r) : GRAIL_OK);
    if (k->value == GRAPH_NONE || k->value == r->g->input || onnx_is_padded(k)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the output '%.100s' is %s, which grail does not narrow; give a network "
                         "without that output",
                         v->name,
                         k->value == r->g->input  ? "an input"
                         : k->value == GRAPH_NONE ? "a constant"
                                                  : "zeros around another value");
    }
    return graph_add_output(r->g, k->value, v->name, is_logits(r, k));
}

static grail_status read_outputs(onnx_reading *r)
{
    const onnx_file *f = r->file;
    if (f->output_count == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "the model has no outputs");
    }
    for (int64_t i = 0; i < f->output_count; i++) {
        r->values[f->outputs[i]].readers++;
    }
    for (int64_t i = 0; i < f->output_count; i++) {
        CHECK(read_output(r, f->outputs[i]));
    }
    CHECK(refuse_others(r));
    r->g->classes = r->g->outputs[0].is_logits ? r->values[f->outputs[0]].width : 0;
    r->g->before_softmax = r->values[f->outputs[0]].form == ONNX_PROBABILITIES;
    return GRAIL_OK;
}

static void forget_numbers(onnx_reading *r)
{
    for (int64_t i = 0; r->numbers != NULL && i < r->file->value_count; i++) {
        memory_free(r->numbers[i].items);
        r->numbers[i] = (onnx_numbers){0};
    }
}

static void reading_fini(onnx_reading *r)
{
    graph_free(r->g);
    memory_free(r->values);
    memory_free(r->is_read);
    memory_free(r->counts);
    memory_free(r->is_held);
    memory_free(r->stand_ins);
    onnx_barriers_free(r->barriers);
    forget_numbers(r);
    memory_free(r->numbers);
    memory_free(r->linears);
    memory_free(r->extents);
    memory_free(r->patterns);
}

/* The nodes of the file, as far as it is known which of them rows read. */
static grail_status read_nodes(onnx_reading *r)
{
    const onnx_file *f = r->file;
    graph_free(r->g);
    r->g = NULL;
    r->count_count = 0;
    CHECK(graph_create(&r->g));
    r->g->input_kind = INPUT_IMAGES;
    forget_numbers(r);
    r->linear_count = 0;
    r->stand_in_count = 0;
    r->extent_count = 0;
    r->pattern_count = 0;
    memset(r->is_read, 0, (size_t)f->node_count * sizeof r->is_read[0]);
    for (int64_t i = 0; i < f->value_count; i++) {
        r->values[i] =
            (onnx_known){.value = GRAPH_NONE, .tensor = f->values[i].tensor, .count.element = -1};
    }
    measure_depths(r);
    CHECK(onnx_find_patterns(r));
    CHECK(read_input(r));
    return read_outputs(r);
}

static grail_status read_network(const checkpoint *weights, onnx_reading *r)
{
    const onnx_file *f = checkpoint_onnx(weights);
    *r = (onnx_reading){.file = f, .copies = f == NULL ? NULL : checkpoint_onnx_copies(weights)};
    if (f == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "a network of the type onnx is one ONNX file, whose name ends in .onnx");
    }
    CHECK(memory_new(&r->values, (size_t)f->value_count, sizeof r->values[0]));
    CHECK(memory_new(&r->is_read, (size_t)f->node_count, sizeof r->is_read[0]));
    CHECK(memory_new(&r->is_held, (size_t)f->tensor_count, sizeof r->is_held[0]));
    CHECK(memory_new(&r->numbers, (size_t)f->value_count, sizeof r->numbers[0]));
    CHECK(onnx_barriers_create(f, checkpoint_path(weights), &r->barriers));
    for (bool again = true; again;) {
        CHECK(read_nodes(r));
        CHECK(onnx_barriers_end(r, &again));
    }
    CHECK(add_blocks(r->g));
    return graph_index(r->g);
}

static grail_status build(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out)
{
    (void)self;
    (void)source;
    (void)config;
    onnx_reading r;
    const grail_status status = error_in(read_network(weights, &r), "%s", checkpoint_path(weights));
    if (status == GRAIL_OK) {
        *out = r.g;
        r.g = NULL;
    }
    reading_fini(&r);
    return status;
}

/* -- what is narrow ---------------------------------------------------------------------------- */

/* Whether no constant states the number. */
static bool is_computed(const onnx_count *c)
{
    return c->tensor < 0 && c->attribute == NULL;
}

static bool is_of(const onnx_integers *integers, const onnx_count *c)
{
    return integers->tensor == c->tensor && integers->attribute == c->attribute;
}

/* Adds the integers among which one counts channels, as they are. */
static grail_status add_integers(const onnx_file *f, const onnx_count *c, onnx_integer_list *list)
{
    const onnx_attribute *a = c->attribute;
    const onnx_tensor *t = c->tensor < 0 ? NULL : &f->tensors[c->tensor];
    const size_t count = t != NULL ? t->view.bytes / (dtype_bits(t->view.dtype) / 8)
                         : a->kind == ONNX_INTEGERS ? (size_t)a->count
                                                    : 1;
    CHECK(memory_reserve(&list->items, (size_t)list->count + 1, sizeof list->items[0]));
    onnx_integers *one = &list->items[list->count++];
    *one = (onnx_integers){.tensor = c->tensor, .node = c->node, .attribute = a};
    CHECK(memory_new(&one->values, count, sizeof one->values[0]));
    if (t != NULL) {
        return onnx_tensor_integers(t, one->values);
    }
    memcpy(one->values, a->kind == ONNX_INTEGERS ? a->integers : &a->integer,
           count * sizeof one->values[0]);
    return GRAIL_OK;
}

/* *out <- where the integer that counts channels is in the list. */
static grail_status count_place(const onnx_file *f, const onnx_count *c, onnx_integer_list *list,
                                int64_t **out)
{
    int64_t i = 0;
    while (i < list->count && !is_of(&list->items[i], c)) {
        i++;
    }
    CHECK(i == list->count ? add_integers(f, c, list) : GRAIL_OK);
    *out = &list->items[i].values[c->element];
    return GRAIL_OK;
}

/* How many channels of a value are left, of how many. */
typedef struct share {
    int64_t left, all;
} share;

static bool are_equal(share a, share b)
{
    return a.left * b.all == b.left * a.all;
}

/* The share of a Linear is that of what is made of it. Its parts must keep the same share. */
static grail_status share_of_linear(const onnx_reading *r, const int64_t *dense,
                                    const int64_t *narrow, int linear, bool *has_parts, share *out)
{
    const int value = r->linears[linear].value;
    *has_parts = false;
    *out = value == GRAPH_NONE ? (share){1, 1} : (share){narrow[value], dense[value]};
    for (int i = linear + 1; i < r->linear_count; i++) {
        bool inner = false;
        share part = {1, 1};
        if (r->linears[i].parent == linear) {
            CHECK(share_of_linear(r, dense, narrow, i, &inner, &part));
            if (*has_parts && !are_equal(*out, part)) {
                return onnx_misfit("counts channels of parts, which keep other numbers");
            }
            *out = part;
            *has_parts = true;
        }
    }
    return GRAIL_OK;
}

/* The share that a number must have which counts those channels, or is computed from them. */
static grail_status share_of(const onnx_reading *r, const int64_t *dense, const int64_t *narrow,
                             const onnx_channels *c, share *out)
{
    bool has_parts = false;
    share found = {1, 1};
    if (c->linear != 0) {
        CHECK(share_of_linear(r, dense, narrow, c->linear, &has_parts, &found));
    } else if (c->value != GRAPH_NONE) {
        found = (share){narrow[c->value], dense[c->value]};
    }
    *out = (has_parts ? c->second : c->outer) ? found : (share){1, 1};
    return GRAIL_OK;
}

/* *out <- the narrow number; what is computed must be right by itself. */
static grail_status narrow_number(const onnx_reading *r, const onnx_count *c, const int64_t *dense,
                                  const int64_t *narrow, onnx_integer_list *list, int64_t *out)
{
    int64_t *place = NULL;
    share wanted;
    share computed;
    CHECK(share_of(r, dense, narrow, &c->of, &wanted));
    CHECK(share_of(r, dense, narrow, &c->by, &computed));
    *out = 0;
    if (is_computed(c)) {
        return are_equal(wanted, computed)
                   ? GRAIL_OK
                   : onnx_misfit("counts channels by a number that is computed from others, which "
                                 "are not narrowed alike");
    }
    CHECK(count_place(r->file, c, list, &place));
    *out = *place;
    if (*out <= 0 || wanted.left == wanted.all) {
        return GRAIL_OK;
    }
    if (*out > INT32_MAX || *out * wanted.left % wanted.all != 0) {
        return onnx_misfit("counts %lld of %lld channels, of which %lld are left, in pieces",
                           (long long)*out, (long long)wanted.all, (long long)wanted.left);
    }
    *out = *out * wanted.left / wanted.all;
    return GRAIL_OK;
}

/* Puts the narrow numbers in the place of the dense ones; one that two nodes count by must suit
 * both. */
static grail_status put_numbers(const onnx_reading *r, const int64_t *numbers, bool *differ,
                                onnx_integer_list *list)
{
    for (int round = 0; round < 2; round++) {
        for (int64_t i = 0; i < r->count_count; i++) {
            const onnx_count *c = &r->counts[i];
            int64_t *place = NULL;
            if (is_computed(c)) {
                continue;
            }
            CHECK(count_place(r->file, c, list, &place));
            if (round == 1 && *place != numbers[i]) {
                return error_set(GRAIL_ERROR_UNSUPPORTED,
                                 "the constant '%s' counts channels for several nodes, which keep "
                                 "other numbers; give each a constant of its own",
                                 c->tensor < 0 ? c->attribute->name
                                               : r->file->tensors[c->tensor].view.name);
            }
            *differ = *differ || *place != numbers[i];
            *place = numbers[i];
        }
    }
    return GRAIL_OK;
}

static grail_status set_counts(onnx_reading *r, const int64_t *narrow, bool *differ,
                               onnx_integer_list *list)
{
    grail_status status = GRAIL_OK;
    int64_t *dense = NULL;
    int64_t *numbers = NULL;
    TRY(memory_new(&dense, (size_t)r->g->value_count, sizeof dense[0]));
    TRY(memory_new(&numbers, (size_t)r->count_count + 1, sizeof numbers[0]));
    TRY(graph_widths(r->g, dense));
    for (int64_t i = 0; i < r->count_count; i++) {
        r->node = &r->file->nodes[r->counts[i].node];
        TRY(onnx_in_node(r, narrow_number(r, &r->counts[i], dense, narrow, list, &numbers[i])));
    }
    TRY(put_numbers(r, numbers, differ, list));
out:
    memory_free(dense);
    memory_free(numbers);
    return status;
}

static grail_status keep_values(const int64_t *values, int64_t count, onnx_integer_list *list)
{
    for (int64_t k = 0; k < count; k++) {
        if (values[k] >= 0) {
            CHECK(memory_reserve(&list->kept, (size_t)list->kept_count + 1, sizeof list->kept[0]));
            list->kept[list->kept_count++] = values[k];
        }
    }
    return GRAIL_OK;
}

/* What regions read and make keeps its shape. */
static grail_status keep_regions(const onnx_reading *r, onnx_integer_list *list)
{
    for (int64_t i = 0; i < r->file->node_count; i++) {
        const onnx_file_node *n = &r->file->nodes[i];
        if (onnx_is_opaque(r, i)) {
            CHECK(keep_values(n->inputs, n->node.input_count, list));
            CHECK(keep_values(n->captures, n->capture_count, list));
            CHECK(keep_values(n->outputs, n->node.output_count, list));
        }
    }
    return GRAIL_OK;
}

grail_status onnx_network_integers(const checkpoint *weights, const graph *narrowed,
                                   onnx_integer_list *out)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    bool differ = false;
    onnx_reading r = {0};
    *out = (onnx_integer_list){0};
    if (checkpoint_onnx(weights) == NULL) {
        return GRAIL_OK;
    }
    TRY(read_network(weights, &r));
    TRY(memory_new(&widths, (size_t)narrowed->value_count, sizeof widths[0]));
    TRY(graph_widths(narrowed, widths));
    TRY(error_in(set_counts(&r, widths, &differ, out), "%s", checkpoint_path(weights)));
    if (!differ) {
        onnx_integer_list_fini(out);
    }
    TRY(keep_regions(&r, out));
out:
    memory_free(widths);
    reading_fini(&r);
    return status;
}

/* The nodes state no widths but those of their tensors. */
static grail_status describe_narrowed(const architecture *self, const graph *narrowed,
                                      json_t *config)
{
    (void)self;
    (void)narrowed;
    (void)config;
    return GRAIL_OK;
}

static grail_status judge_loaders(const architecture *self, const json_t *config,
                                  const graph *dense, const graph *narrowed,
                                  loader_verdict *verdicts)
{
    (void)self;
    (void)config;
    (void)dense;
    (void)narrowed;
    verdicts[0] = (loader_verdict){.loader = "its own program", .loads = true};
    remark(&verdicts[0], "what runs the dense file runs this one: it has the same inputs, outputs "
                         "and operators");
    verdicts[1] = (loader_verdict){.loader = "ONNX Runtime", .loads = true};
    remark(&verdicts[1], "the file itself");
    return GRAIL_OK;
}

/* Constants that are no parameters stay as they are. */
static outside_part outside(const char *tensor)
{
    (void)tensor;
    return OUTSIDE_BUFFER;
}

static const char *preset(const json_t *config)
{
    return json_string_value(json_object_get(config, "preset"));
}

static const char *const settings[] = {"preset", NULL};

const architecture architecture_onnx = {
    .name = "onnx",
    .settings = settings,
    .build = build,
    .image_processor = "ConvNext",
    .preset = preset,
    .describe_narrowed = describe_narrowed,
    .judge_loaders = judge_loaders,
    .outside = outside,
};
