#include "arch/onnx_regions.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"
#include "arch/onnx_places.h"
#include "arch/onnx_region_shapes.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_READINGS = 1000,  /* each finds one more opaque node at least */
    MOST_STEPS = 100000000 /* of all searches for regions */
};

grail_status onnx_barriers_create(const onnx_file *file, const char *path, onnx_barriers **out)
{
    const size_t nodes = (size_t)file->node_count;
    const size_t values = (size_t)file->value_count;
    CHECK(memory_new(out, 1, sizeof **out));
    onnx_barriers *b = *out;
    b->file = file;
    b->path = path;
    CHECK(memory_new(&b->is_opaque, nodes, sizeof b->is_opaque[0]));
    CHECK(memory_new(&b->reasons, nodes, sizeof b->reasons[0]));
    CHECK(memory_new(&b->marks, nodes, sizeof b->marks[0]));
    CHECK(memory_new(&b->stack, nodes, sizeof b->stack[0]));
    CHECK(memory_new(&b->follows, values, sizeof b->follows[0]));
    CHECK(memory_new(&b->is_wanted, values, sizeof b->is_wanted[0]));
    CHECK(memory_new(&b->places, values, sizeof b->places[0]));
    onnx_find_places(file, b->places);
    return GRAIL_OK;
}

void onnx_barriers_free(onnx_barriers *b)
{
    if (b == NULL) {
        return;
    }
    for (int64_t i = 0; b->reasons != NULL && i < b->file->node_count; i++) {
        memory_free(b->reasons[i]);
    }
    for (int64_t i = 0; i < b->mask_count; i++) {
        memory_free(b->masks[i].biases);
        memory_free(b->masks[i].refusal);
    }
    for (int64_t i = 0; i < b->rotation_count; i++) {
        memory_free(b->rotations[i].angles);
        memory_free(b->rotations[i].refusal);
    }
    memory_free(b->masks);
    memory_free(b->rotations);
    memory_free(b->is_opaque);
    memory_free(b->reasons);
    memory_free(b->marks);
    memory_free(b->stack);
    memory_free(b->follows);
    memory_free(b->is_wanted);
    memory_free(b->places);
    memory_free(b->asked);
    memory_free(b->more);
    memory_free(b);
}

onnx_place onnx_place_of(const onnx_reading *r, int64_t value)
{
    return r->barriers->places[value];
}

bool onnx_is_opaque(const onnx_reading *r, int64_t i)
{
    return r->barriers->is_opaque[i];
}

void onnx_note_read(onnx_reading *r, int64_t value)
{
    const int64_t maker = value < 0 ? -1 : r->file->values[value].node;
    if (maker >= 0 && r->barriers->is_opaque[maker]) {
        r->barriers->is_wanted[value] = true;
    }
}

/* -- readings ---------------------------------------------------------------------------------- */

static bool any_follows(const onnx_barriers *b, const int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (values[i] >= 0 && b->follows[values[i]]) {
            return true;
        }
    }
    return false;
}

void onnx_barriers_begin(onnx_reading *r, int64_t input)
{
    onnx_barriers *b = r->barriers;
    b->input = input;
    b->has_grown = false;
    b->has_size = r->g->image.height > 0;
    b->follows[input] = true;
    for (int64_t i = 0; i < b->file->node_count; i++) {
        const onnx_file_node *n = &b->file->nodes[i];
        const bool follows = any_follows(b, n->inputs, n->node.input_count) ||
                             any_follows(b, n->captures, n->capture_count);
        for (int k = 0; follows && k < n->node.output_count; k++) {
            if (n->outputs[k] >= 0) {
                b->follows[n->outputs[k]] = true;
            }
        }
    }
    if (!b->is_last) { /* which goes by what the one before has found */
        memset(b->is_wanted, 0, (size_t)b->file->value_count * sizeof b->is_wanted[0]);
    }
}

grail_status onnx_barriers_end(onnx_reading *r, bool *again)
{
    onnx_barriers *b = r->barriers;
    bool any = false;
    for (int64_t i = 0; i < b->file->node_count && !any; i++) {
        any = b->is_opaque[i];
    }
    *again = b->has_grown || (any && !b->is_last);
    b->is_last = !b->has_grown;
    return ++b->readings <= MOST_READINGS
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "has more than %d nodes that no row reads one after the other",
                           MOST_READINGS);
}

/* Constants that a node reads may not be narrowed. */
static void hold(onnx_reading *r, const int64_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t tensor = values[i] < 0 ? -1 : r->values[values[i]].tensor;
        if (tensor >= 0) {
            r->is_held[tensor] = true;
        }
    }
}

static grail_status make_opaque(onnx_reading *r, int64_t i, const char *reason)
{
    onnx_barriers *b = r->barriers;
    const onnx_file_node *n = &r->file->nodes[i];
    CHECK(memory_copy_string(&b->reasons[i], reason));
    b->is_opaque[i] = true;
    b->has_grown = true;
    b->is_last = false;
    hold(r, n->inputs, n->node.input_count);
    hold(r, n->captures, n->capture_count);
    return GRAIL_OK;
}

grail_status onnx_refuse_node(onnx_reading *r, int64_t i)
{
    char reason[ONNX_REASON_SIZE];
    error_copy(reason, sizeof reason);
    return make_opaque(r, i, reason);
}

grail_status onnx_refuse_first(onnx_reading *r)
{
    return onnx_first_opaque(r)
               ? onnx_in_node(r, onnx_misfit("%s", r->barriers->reasons[onnx_node_number(r)]))
               : GRAIL_OK;
}

/* -- regions ----------------------------------------------------------------------------------- */

/* A region that is being found. */
typedef struct cone {
    int64_t *nodes; /* owned */
    int64_t node_count;
    int64_t *inputs; /* values of the file, owned */
    int64_t input_count;
    region_numbers *numbers; /* owned */
    int64_t number_count;
    bool asks_size; /* a node reads the size of the images */
} cone;

static void cone_fini(cone *c)
{
    memory_free(c->nodes);
    memory_free(c->inputs);
    memory_free(c->numbers);
}

/* What parts a Linear that is read as a whole, too, is left to regions. */
static grail_status leave_parts(onnx_reading *r, const onnx_known *x, bool *is_parted)
{
    for (int i = 1; i < r->linear_count; i++) {
        const onnx_linear *l = &r->linears[i];
        const bool parts = x->linear != 0 && l->parent == x->linear;
        *is_parted = *is_parted || parts;
        if (parts && !r->barriers->is_opaque[l->node]) {
            CHECK(make_opaque(r, l->node, "parts what nodes that no row reads read as a whole"));
        }
    }
    return GRAIL_OK;
}

static grail_status make_whole(onnx_reading *r, onnx_known *x)
{
    bool is_parted = false;
    CHECK(leave_parts(r, x, &is_parted));
    return is_parted ? GRAIL_OK : onnx_settle(r, x);
}

/* *out <- whether a value of the graph is read in place of what makes it. Zeros around one are no
 * part of it, and one whose dimensions lie otherwise is read where they do not yet. */
static grail_status find_border(onnx_reading *r, int64_t value, bool through_opaque, bool *out)
{
    static const char *const borders[] = {"N,T,C", "N,,C", "N,Y,X,C", "N,,,C", "N,C,T", "N,C,"};
    char letters[ONNX_LAYOUT_SIZE];
    onnx_known *k = &r->values[value];
    const int64_t maker = r->file->values[value].node;
    if (r->file->values[value].is_input && maker < 0 && r->values[value].tensor < 0 &&
        (r->g->input_kind == INPUT_TOKENS || k->form == ONNX_IDS)) {
        *out = true;
        return GRAIL_OK;
    }
    *out = (k->value != GRAPH_NONE || k->linear != 0) && k->form == ONNX_VALUE &&
           !onnx_is_padded(k) && !onnx_is_moved(k) &&
           !(through_opaque && maker >= 0 && r->barriers->is_opaque[maker]);
    if (*out && onnx_has_layout(k)) {
        onnx_letters(k, letters);
        *out = false;
        for (size_t i = 0; i < sizeof borders / sizeof borders[0]; i++) {
            *out = *out || strcmp(letters, borders[i]) == 0;
        }
    }
    bool is_parted = false;
    return *out ? make_whole(r, k) : leave_parts(r, k, &is_parted);
}

static grail_status add_input(cone *c, int64_t value)
{
    for (int64_t i = 0; i < c->input_count; i++) {
        if (c->inputs[i] == value) {
            return GRAIL_OK;
        }
    }
    CHECK(memory_reserve(&c->inputs, (size_t)c->input_count + 1, sizeof c->inputs[0]));
    c->inputs[c->input_count++] = value;
    return GRAIL_OK;
}

/* *out <- whether a value is integers that are known, whatever the images hold: a constant of the
 * region. Those that count samples are computed in it, and so are those that follow channels. */
static grail_status find_numbers(onnx_reading *r, int64_t value, cone *c, bool *out)
{
    const onnx_numbers *n = &r->numbers[value];
    const int64_t maker = r->file->values[value].node;
    const int declared = r->file->values[value].element;
    const int element =
        declared != 0 || r->barriers->asked == NULL ? declared : r->barriers->asked[value].element;
    *out = element == ONNX_INT64 && r->barriers->has_size && maker >= 0 &&
           !r->barriers->is_opaque[maker] && n->is_known && n->rank <= 1 &&
           n->count <= REGION_MOST_NUMBERS;
    for (int i = 0; i < n->count && *out; i++) {
        const onnx_number *x = &n->items[i];
        *out = !x->is_open && !x->is_real && !x->per_sample && !onnx_is_channels(&x->of);
    }
    for (int64_t i = 0; i < c->number_count && *out; i++) {
        if (c->numbers[i].value == value) {
            return GRAIL_OK;
        }
    }
    if (*out) {
        CHECK(memory_reserve(&c->numbers, (size_t)c->number_count + 1, sizeof c->numbers[0]));
        region_numbers *made = &c->numbers[c->number_count++];
        *made = (region_numbers){.value = value, .rank = n->rank, .count = n->count};
        for (int i = 0; i < n->count; i++) {
            made->items[i] = n->items[i].factor;
            CHECK(onnx_note_stays(r, &n->items[i]));
        }
    }
    return GRAIL_OK;
}

/* Goes to what makes these values, but not beyond those that the graph has. */
static grail_status visit(onnx_reading *r, const int64_t *values, int64_t count,
                          bool through_opaque, int64_t *depth, cone *c)
{
    onnx_barriers *b = r->barriers;
    for (int64_t i = 0; i < count; i++) {
        if (values[i] < 0 || ++b->steps > MOST_STEPS) {
            CHECK(values[i] < 0
                      ? GRAIL_OK
                      : error_set(GRAIL_ERROR_UNSUPPORTED, "has too many nodes that no row reads"));
            continue;
        }
        const int64_t maker = r->file->values[values[i]].node;
        bool is_border = false;
        bool are_numbers = false;
        CHECK(find_border(r, values[i], through_opaque, &is_border));
        CHECK(is_border ? GRAIL_OK : find_numbers(r, values[i], c, &are_numbers));
        if (are_numbers) {
            continue;
        }
        if (is_border) {
            CHECK(add_input(c, values[i]));
        } else if (maker >= 0 && b->marks[maker] != b->search) {
            b->marks[maker] = b->search;
            b->stack[(*depth)++] = maker;
        }
    }
    return GRAIL_OK;
}

static int compare_nodes(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* The images, where nodes that lead to others read their size: they are no input for that alone,
 * unless there is no other. */
static grail_status settle_size(const onnx_barriers *b, cone *c)
{
    for (int64_t i = 0; i < c->input_count; i++) {
        c->asks_size = c->asks_size && c->inputs[i] != b->input;
    }
    if (c->asks_size && c->input_count == 0) {
        c->asks_size = false;
        return add_input(c, b->input);
    }
    return GRAIL_OK;
}

/* A node that makes an input and something else that is needed makes the input, too. */
static void drop_made(const onnx_reading *r, cone *c)
{
    const onnx_barriers *b = r->barriers;
    int64_t count = 0;
    for (int64_t i = 0; i < c->input_count; i++) {
        const int64_t maker = r->file->values[c->inputs[i]].node;
        if (maker < 0 || b->marks[maker] != b->search) {
            c->inputs[count++] = c->inputs[i];
        }
    }
    c->input_count = count;
}

/* All that leads to the node at hand. */
static grail_status find_cone(onnx_reading *r, bool through_opaque, cone *c)
{
    onnx_barriers *b = r->barriers;
    int64_t depth = 0;
    c->node_count = 0;
    c->input_count = 0;
    c->number_count = 0;
    c->asks_size = false;
    b->search++;
    b->stack[depth++] = onnx_node_number(r);
    b->marks[b->stack[0]] = b->search;
    while (depth > 0) {
        const int64_t i = b->stack[--depth];
        const onnx_file_node *n = &r->file->nodes[i];
        CHECK(memory_reserve(&c->nodes, (size_t)c->node_count + 1, sizeof c->nodes[0]));
        c->nodes[c->node_count++] = i;
        if (onnx_node_is(n, "Shape") && n->inputs[0] == b->input && r->g->input_count == 0) {
            c->asks_size = true;
            continue;
        }
        CHECK(visit(r, n->inputs, n->node.input_count, through_opaque, &depth, c));
        CHECK(visit(r, n->captures, n->capture_count, through_opaque, &depth, c));
    }
    drop_made(r, c);
    qsort(c->nodes, (size_t)c->node_count, sizeof c->nodes[0], compare_nodes);
    return settle_size(b, c);
}

grail_status onnx_find_sources(onnx_reading *r, int64_t **values, int64_t *count)
{
    cone c = {0};
    const grail_status status = find_cone(r, true, &c);
    *values = c.inputs;
    *count = c.input_count;
    memory_free(c.nodes);
    memory_free(c.numbers);
    return status;
}

/* Makes the node of the last of its inputs a part of it, so that it reads what that reads: in the
 * end the images alone. */
static grail_status enlarge(onnx_reading *r, const cone *c)
{
    int64_t last = -1;
    for (int64_t i = 0; i < c->input_count; i++) {
        const int64_t maker = r->file->values[c->inputs[i]].node;
        last = maker > last ? maker : last;
    }
    if (last < 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s; what is left to ONNX Runtime would read %lld inputs of the network, "
                         "and reads at most %d",
                         r->barriers->reasons[onnx_node_number(r)], (long long)c->input_count,
                         NODE_MAX_INPUTS);
    }
    return make_opaque(r, last,
                       "it is in front of nodes that no row reads, and that read more values than "
                       "a node of grail does");
}

static grail_status region_value_of(onnx_reading *r, int64_t value, const onnx_known *k,
                                    region_value *out)
{
    const bool is_last = onnx_has_layout(k) && onnx_ends_in_channels(k);
    *out = (region_value){
        .value = value, .rank = k->rank, .width = k->width, .channels = is_last ? k->rank - 1 : 1};
    return onnx_is_half(r, value, &out->is_half);
}

static grail_status add_region(onnx_reading *r, const cone *c, int64_t value, onnx_known *k)
{
    grail_status status = GRAIL_OK;
    const onnx_barriers *b = r->barriers;
    region *made = NULL;
    node n = node_of(NODE_OPAQUE, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);
    region_parts parts = {.file = r->original,
                          .path = b->path,
                          .node_count = c->node_count,
                          .nodes = c->nodes,
                          .number_count = c->number_count,
                          .numbers = c->numbers,
                          .input_count = (int)c->input_count,
                          .asks_size = c->asks_size,
                          .is_sequence = r->g->input_kind == INPUT_TOKENS && !k->one,
                          .takes_one_sample = r->file->values[b->input].shape[0] == 1};
    TRY(region_value_of(r, value, k, &parts.output));
    for (int i = 0; i < parts.input_count; i++) {
        const onnx_known *x = &r->values[c->inputs[i]];
        const bool is_given = x->value == GRAPH_NONE; /* an input of the network */
        int held = is_given ? r->g->input : x->value;
        if (is_given && r->g->input_kind == INPUT_IMAGES) {
            TRY(onnx_unpack(r, x->input, (extent){1, 1}, x->width, &held));
        }
        const int64_t width = r->g->input_kind == INPUT_IMAGES ? x->width : 1;
        parts.inputs[i] = (region_value){
            .value = c->inputs[i], .rank = REGION_IDS, .width = width, .channels = 1};
        TRY(is_given ? GRAIL_OK : region_value_of(r, c->inputs[i], x, &parts.inputs[i]));
        n.inputs[n.input_count++] = held;
    }
    if (c->asks_size) {
        const onnx_value *images = &r->file->values[b->input];
        parts.inputs[parts.input_count++] =
            (region_value){.value = b->input,
                           .rank = images->rank,
                           .width = r->g->channels,
                           .channels = r->g->channels_last ? images->rank - 1 : 1,
                           .is_half = images->element == ONNX_FLOAT16};
    }
    for (int64_t i = 0; !b->is_opaque[c->nodes[i]]; i++) {
        parts.first = c->nodes[i + 1]; /* of constants and pads come before */
    }
    parts.first = b->is_opaque[c->nodes[0]] ? c->nodes[0] : parts.first;
    parts.reason = b->reasons[parts.first];
    TRY(region_create(&parts, &made));
    n.region = made;
    TRY(graph_own_region(r->g, &made));
    TRY(graph_add_node(r->g, &n, &k->value));
out:
    region_free(made);
    return status;
}

/* Stands for a region until all opaque nodes are known. */
static grail_status add_stand_in(onnx_reading *r, onnx_known *k)
{
    const node n = node_of(NODE_OPAQUE, GRAPH_NONE, r->g->input, GRAPH_NONE);
    return graph_add_node(r->g, &n, &k->value);
}

/* Gives a value that a row may read: made by a region, or, until all opaque nodes are known, by
 * none. */
static grail_status give_made(onnx_reading *r, int64_t value, onnx_known *k)
{
    grail_status status = GRAIL_OK;
    onnx_barriers *b = r->barriers;
    cone c = {0};
    if (!b->is_last) {
        CHECK(add_stand_in(r, k));
        return onnx_note_positions(r, value, k);
    }
    if (!b->is_wanted[value]) {
        return GRAIL_OK;
    }
    TRY(find_cone(r, false, &c));
    if (c.input_count > NODE_MAX_INPUTS) {
        TRY(find_cone(r, true, &c));
    }
    TRY(c.input_count > NODE_MAX_INPUTS ? enlarge(r, &c) : GRAIL_OK);
    TRY(b->is_last ? add_region(r, &c, value, k) : add_stand_in(r, k));
    TRY(onnx_note_positions(r, value, k));
out:
    cone_fini(&c);
    return status;
}

grail_status onnx_read_opaque(onnx_reading *r)
{
    const onnx_file_node *n = r->node;
    if (r->file->values[r->barriers->input].shape[0] > 1) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s; that is left to ONNX Runtime in networks of any number of images or "
                         "of one, and this one takes %lld at a time",
                         r->barriers->reasons[n - r->file->nodes],
                         (long long)r->file->values[r->barriers->input].shape[0]);
    }
    for (int i = 0; i < n->node.output_count; i++) {
        onnx_known k;
        if (n->outputs[i] < 0 || r->values[n->outputs[i]].readers == 0) {
            continue;
        }
        CHECK(onnx_shape_of(r, n->outputs[i], &k));
        if (k.width > 0) {
            CHECK(give_made(r, n->outputs[i], &k));
        }
        k.rank = k.value == GRAPH_NONE ? 0 : k.rank;
        CHECK(onnx_give(r, i, k));
    }
    return GRAIL_OK;
}
