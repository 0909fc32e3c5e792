/* The graph of an ONNX file: its nodes in an order in which the shorter branch of a sum comes
 * first. */
#include "arch/onnx_network.h"

#include "arch/loader_lines.h"
#include "arch/onnx_arguments.h"
#include "arch/onnx_blocks.h"
#include "arch/onnx_counts.h"
#include "arch/onnx_inputs.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_nodes.h"
#include "arch/onnx_patterns.h"
#include "arch/onnx_regions.h"
#include "graph/operators.h"

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
    if (pattern != NULL && pattern->kind == ONNX_ROTATION) {
        value = nearer(r, &pattern->number, 1, value);
        value = nearer(r, &pattern->weight, 1, value);
        for (int i = 0; i < 2 && pattern->reshapes[i] >= 0; i++) {
            value = nearer(r, &r->file->nodes[pattern->reshapes[i]].inputs[1], 1, value);
        }
    }
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

/* -- the network ------------------------------------------------------------------------------- */

/* What the file states of a size of the images, or else what was asked for; 0: neither. */
static grail_status settle_size(const onnx_value *v, int dimension, const char *setting,
                                int64_t asked, int64_t *out)
{
    const int64_t stated = v->rank <= dimension      ? 1
                           : v->shape[dimension] > 0 ? v->shape[dimension]
                                                     : 0;
    if (asked > 0 && stated > 0 && asked != stated) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "the input '%.100s' has a %s of %lld, but the setting %s=%lld says another", v->name,
            setting, (long long)stated, setting, (long long)asked);
    }
    *out = stated > 0 ? stated : asked;
    return GRAIL_OK;
}

/* Colours or a plane behind the positions, which a Transpose brings to the front. */
static bool is_channels_last(const onnx_reading *r, int64_t input)
{
    enum { MOST_PLANES = 4 };
    const onnx_value *v = &r->file->values[input];
    return v->rank == IMAGE_RANK && v->shape[3] > 0 && v->shape[3] <= MOST_PLANES &&
           onnx_place_of(r, input) == ONNX_LAST;
}

/* The images: [N, channels, H, W], where sizes may be left open, or [N, H, W, channels], [N,
 * channels, T], which is as wide as one position, or one position [N, channels]. */
static grail_status read_input(onnx_reading *r)
{
    const onnx_file *f = r->file;
    int64_t input = -1;
    for (int64_t i = 0; i < f->input_count; i++) {
        const bool is_constant = f->values[f->inputs[i]].tensor >= 0;
        input = is_constant ? input : f->inputs[i];
    }
    const onnx_value *v = input < 0 ? NULL : &f->values[input];
    const bool is_map = v != NULL && v->rank == IMAGE_RANK;
    const bool is_row = v != NULL && v->rank == REGION_TOKENS;
    if (v == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "the model has no input but constants");
    }
    const bool is_last = is_channels_last(r, input);
    const int channels = is_last ? 3 : 1;
    const bool is_real = v->element == ONNX_FLOAT || v->element == ONNX_FLOAT16;
    if (!is_real || (!is_map && !is_row && v->rank != FLAT_RANK) || v->shape[channels] < 1) {
        char text[64] = "";
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the input '%.100s' has element type %d and shape %s; grail reads FLOAT "
                         "(1) [N, channels, height, width], [N, height, width, channels] where a "
                         "Transpose follows, [N, channels, length] or [N, channels] with a stated "
                         "number of channels, or INT32 or INT64 (6, 7) [N, positions]",
                         v->name, v->element,
                         v->rank < 0 ? "that is not declared"
                                     : shape_text(v->rank, v->shape, text, sizeof text));
    }
    extent *image = &r->g->image;
    CHECK(settle_size(v, is_last ? 1 : 2, "height", r->asked.height, &image->height));
    CHECK(settle_size(v, is_last ? 2 : 3, "width", r->asked.width, &image->width));
    image->width = is_row && image->height == 0 ? 0 : image->width;
    if ((image->height == 0) != (image->width == 0)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the input '%.100s' leaves the %s of the images open, but not the other "
                         "size; the setting %s=N says it",
                         v->name, image->height == 0 ? "height" : "width",
                         image->height == 0 ? "height" : "width");
    }
    r->g->channels = v->shape[channels];
    r->g->channels_last = is_last;
    r->samples = v->shape[0] > 0 ? v->shape[0] : 0;
    r->values[input] = (onnx_known){.value = r->g->input,
                                    .tensor = -1,
                                    .rank = v->rank,
                                    .one = image->height * image->width == 1,
                                    .width = v->shape[channels],
                                    .readers = r->values[input].readers};
    if (is_row) {
        onnx_set_layout(&r->values[input], image->height == 1 ? "N,C," : "N,C,T");
    } else if (is_last) {
        onnx_set_layout(&r->values[input], r->values[input].one ? "N,,,C" : "N,Y,X,C");
    }
    r->g->in_row = is_row;
    onnx_barriers_begin(r, input);
    return GRAIL_OK;
}

/* A row for each position that a matrix makes, with a number for each id, in a network of ids whose
 * positions see no later ones: the scores of the next token. */
static bool scores_next_token(const onnx_reading *r, const onnx_known *k)
{
    const graph *g = r->g;
    int64_t rows = 0;
    int tables = 0;
    bool looks_back = false;
    bool is_made = false;
    for (int i = 0; i < g->input_count; i++) {
        rows = g->inputs[i].rows > 0 ? g->inputs[i].rows : rows;
        tables += g->inputs[i].rows > 0 ? 1 : 0;
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (operator_of(n)->axis == AXIS_HEADS && n->attention.bidirectional) {
            return false;
        }
        looks_back = looks_back || operator_of(n)->axis == AXIS_HEADS;
        is_made = is_made || (n->output == k->value && node_is_map(n));
    }
    const bool is_last = g->node_count > 0 && g->nodes[g->node_count - 1].output == k->value;
    return g->input_kind == INPUT_TOKENS && tables == 1 && rows == k->width && looks_back &&
           is_made && is_last && r->file->output_count == 1 && strcmp(k->layout, "N,T,C") == 0;
}

/* One row for each image that a matrix makes is logits, or a region, but not one that divides it by
 * another value, such as its length, and what a Softmax is behind, and the scores of next tokens;
 * everything else is features. */
static bool is_logits(const onnx_reading *r, int64_t value)
{
    const onnx_known *k = &r->values[value];
    const int64_t maker = r->file->values[value].node;
    const bool divides = maker >= 0 && onnx_node_is(&r->file->nodes[maker], "Div");
    const node *made = NULL;
    if (k->form == ONNX_PROBABILITIES) {
        return r->g->input_kind == INPUT_IMAGES;
    }
    if (scores_next_token(r, k)) {
        return true;
    }
    for (int i = 0; i < r->g->node_count && k->rank == FLAT_RANK; i++) {
        made = r->g->nodes[i].output == k->value ? &r->g->nodes[i] : made;
    }
    return made != NULL && r->g->input_kind == INPUT_IMAGES &&
           (node_is_map(made) || (made->kind == NODE_OPAQUE && !divides));
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
    CHECK(onnx_check_order(k));
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

/* The output that this value is, or their number. */
static int find_output(const graph *g, int value)
{
    int i = 0;
    while (i < g->output_count && g->outputs[i].value != value) {
        i++;
    }
    return i;
}

/* One that stands for others already becomes an output by itself, and stays what it was: features,
 * unless those that it stands for rank it. */
static grail_status add_output(onnx_reading *r, int64_t value, bool may_be_logits)
{
    graph *g = r->g;
    const onnx_known *k = &r->values[value];
    const bool logits = may_be_logits && is_logits(r, value);
    const int i = find_output(g, k->value);
    if (i == g->output_count || g->outputs[i].stands_for == NULL) {
        onnx_note_read(r, value);
        CHECK(graph_add_output(g, k->value, r->file->values[value].name, logits));
    }
    if (g->outputs[0].value == k->value) {
        g->classes = g->outputs[0].is_logits && (k->rank == FLAT_RANK || k->one) ? k->width : 0;
        g->before_softmax = g->before_softmax || k->form == ONNX_PROBABILITIES;
    }
    return GRAIL_OK;
}

/* An output that no value of the graph can be, such as a list of boxes or the classes by number:
 * what the last nodes read that lead to it becomes an output in its place, unless that is ids or
 * masks, which no cut changes. *any <- whether there is anything. */
static grail_status read_sources(onnx_reading *r, int64_t output, bool *any)
{
    grail_status status = GRAIL_OK;
    const onnx_value *v = &r->file->values[output];
    int64_t *sources = NULL;
    int64_t count = 0;
    r->node = &r->file->nodes[v->node];
    TRY(onnx_find_sources(r, &sources, &count));
    const bool ranks = onnx_node_is(r->node, "ArgMax") || onnx_node_is(r->node, "TopK");
    *any = false;
    for (int64_t s = 0; s < count; s++) {
        const int value = r->values[sources[s]].value;
        const int i = find_output(r->g, value);
        if (value == GRAPH_NONE) {
            *any = true;
        } else if (value != r->g->input) {
            TRY(i < r->g->output_count ? GRAIL_OK : add_output(r, sources[s], ranks));
            TRY(graph_stand_for(r->g, i, v->name));
            *any = true;
        }
    }
out:
    memory_free(sources);
    return status;
}

/* Adds an output, and the nodes that it needs. */
static grail_status read_output(onnx_reading *r, int64_t output)
{
    const onnx_value *v = &r->file->values[output];
    onnx_known *k = &r->values[output];
    bool any = false;
    CHECK(v->node < 0 || r->is_read[v->node] ? GRAIL_OK : read_behind(r, v->node));
    CHECK(onnx_settle(r, k));
    if (v->node >= 0 && !onnx_is_opaque(r, v->node) && k->value != GRAPH_NONE &&
        check_whole(k) != GRAIL_OK) {
        CHECK(onnx_refuse_node(r, v->node)); /* all is read again, without this node */
        return graph_add_output(r->g, r->g->input, v->name, false);
    }
    if (v->node >= 0 && (k->value == GRAPH_NONE || onnx_is_padded(k))) {
        CHECK(read_sources(r, output, &any));
    }
    if (any) {
        return GRAIL_OK;
    }
    CHECK(k->value == GRAPH_NONE ? onnx_refuse_first(r) : GRAIL_OK);
    const bool is_input = k->value == r->g->input || v->is_input;
    if (k->value == GRAPH_NONE || is_input || onnx_is_padded(k)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "the output '%.100s' is %s, which grail does not narrow; give a network "
                         "without that output",
                         v->name,
                         is_input                 ? "an input"
                         : k->value == GRAPH_NONE ? "a constant"
                                                  : "zeros around another value");
    }
    return add_output(r, output, true);
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
    if (r->g->output_count == 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "its outputs follow from ids and masks alone, in nodes that grail has no "
                         "rows for");
    }
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
    memory_free(r->own.values);
}

/* Sizes by the names of the file, of which all values have them. */
static void set_sizes(const graph_sizes *asked, onnx_value *v)
{
    for (int d = 0; d < v->rank; d++) {
        const char *symbol = v->shape[d] < 0 ? v->symbols[d] : NULL;
        for (int i = 0; i < asked->named_count && symbol != NULL; i++) {
            v->shape[d] =
                strcmp(symbol, asked->named[i].name) == 0 ? asked->named[i].size : v->shape[d];
        }
    }
}

/* r->own <- the file, with room for what is made within a node. */
static grail_status own_values(const onnx_file *f, onnx_reading *r)
{
    const int64_t count = f->value_count + ONNX_SCRATCH_VALUES;
    r->own = *f;
    r->own.values = NULL;
    CHECK(memory_new(&r->own.values, (size_t)count, sizeof r->own.values[0]));
    r->own.value_count = count;
    memcpy(r->own.values, f->values, (size_t)f->value_count * sizeof f->values[0]);
    for (int64_t i = f->value_count; i < count; i++) {
        r->own.values[i] = (onnx_value){.name = "", .node = -1, .tensor = -1, .rank = -1};
    }
    for (int64_t i = 0; i < f->value_count; i++) {
        set_sizes(&r->asked, &r->own.values[i]);
    }
    r->file = &r->own;
    return GRAIL_OK;
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
    r->longest = INT64_MAX;
    memset(r->is_read, 0, (size_t)f->node_count * sizeof r->is_read[0]);
    for (int64_t i = 0; i < f->value_count; i++) {
        r->values[i] =
            (onnx_known){.value = GRAPH_NONE, .tensor = f->values[i].tensor, .count.element = -1};
    }
    measure_depths(r);
    CHECK(onnx_find_patterns(r));
    const bool reads_ids = onnx_reads_ids(r);
    if (r->asked.length > 0 && (reads_ids || !onnx_reads_several(r))) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the setting length=%lld is for positions of one of several inputs, which "
                         "this network has not",
                         (long long)r->asked.length);
    }
    CHECK(reads_ids               ? onnx_read_ids(r)
          : onnx_reads_several(r) ? onnx_read_several(r)
                                  : read_input(r));
    CHECK(read_outputs(r));
    return onnx_settle_ids(r);
}

static grail_status read_network(const checkpoint *weights, graph_sizes asked, onnx_reading *r)
{
    const onnx_file *f = checkpoint_onnx(weights);
    *r = (onnx_reading){.original = f,
                        .copies = f == NULL ? NULL : checkpoint_onnx_copies(weights),
                        .asked = asked};
    if (f == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "a network of the type onnx is one ONNX file, whose name ends in .onnx");
    }
    CHECK(own_values(f, r));
    f = r->file;
    CHECK(memory_new(&r->values, (size_t)f->value_count, sizeof r->values[0]));
    CHECK(memory_new(&r->is_read, (size_t)f->node_count, sizeof r->is_read[0]));
    CHECK(memory_new(&r->is_held, (size_t)f->tensor_count, sizeof r->is_held[0]));
    CHECK(memory_new(&r->numbers, (size_t)f->value_count, sizeof r->numbers[0]));
    CHECK(onnx_barriers_create(f, checkpoint_path(weights), &r->barriers));
    for (bool again = true; again;) {
        CHECK(read_nodes(r));
        CHECK(onnx_barriers_end(r, &again));
    }
    CHECK(onnx_pin_computed(r));
    CHECK(onnx_add_blocks(r->g));
    r->g->asked = asked;
    return graph_index(r->g);
}

enum { MOST_POSITIONS = 1 << 16 }; /* of a side */

static grail_status check_size(const char *source, const char *name, int64_t size)
{
    return size >= 1 && size <= MOST_POSITIONS
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT,
                           "%s: the setting %.100s=%lld is not between 1 and %d", source, name,
                           (long long)size, MOST_POSITIONS);
}

static grail_status read_named_sizes(const char *source, const json_t *config, const onnx_file *f,
                                     graph_sizes *asked)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_t *sizes = json_object_get(config, "sizes");
    if (sizes != NULL && !json_is_object(sizes)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"sizes\" is no object of names and sizes",
                         source);
    }
    json_object_foreach (sizes, name, value) {
        const char *own = onnx_find_open_size(f, name);
        if (own == NULL) {
            error_set(GRAIL_ERROR_ARGUMENT,
                      "%s: a onnx network has no setting '%.100s', and no input of the file has an "
                      "open size of that name; known settings: preset, height, width, length, and "
                      "names of open sizes:",
                      source, name);
            onnx_append_open_sizes(f);
            return GRAIL_ERROR_ARGUMENT;
        }
        if (asked->named_count == GRAPH_NAMED_SIZES || !json_is_integer(value)) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "%s: the size '%.100s' is no whole number, or one of more than %d",
                             source, name, GRAPH_NAMED_SIZES);
        }
        CHECK(check_size(source, name, json_integer_value(value)));
        asked->named[asked->named_count].name = own;
        asked->named[asked->named_count++].size = json_integer_value(value);
    }
    return GRAIL_OK;
}

static grail_status build(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out)
{
    (void)self;
    onnx_reading r;
    graph_sizes asked = {0};
    struct {
        const char *name;
        int64_t *size;
    } const sizes[] = {
        {"height", &asked.height}, {"width", &asked.width}, {"length", &asked.length}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK(json_get_integer(source, config, sizes[i].name, 0, sizes[i].size));
        CHECK(*sizes[i].size == 0 ? GRAIL_OK : check_size(source, sizes[i].name, *sizes[i].size));
    }
    if (checkpoint_onnx(weights) != NULL) {
        CHECK(read_named_sizes(source, config, checkpoint_onnx(weights), &asked));
    }
    const grail_status status =
        error_in(read_network(weights, asked, &r), "%s", checkpoint_path(weights));
    if (status == GRAIL_OK) {
        *out = r.g;
        r.g = NULL;
    }
    reading_fini(&r);
    return status;
}

/* -- what is narrow ---------------------------------------------------------------------------- */

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
    bool differ = false;
    onnx_reading r = {0};
    *out = (onnx_integer_list){0};
    if (checkpoint_onnx(weights) == NULL) {
        return GRAIL_OK;
    }
    TRY(read_network(weights, narrowed->asked, &r));
    TRY(error_in(onnx_set_counts(&r, narrowed, &differ, out), "%s", checkpoint_path(weights)));
    if (!differ) {
        onnx_integer_list_fini(out);
    }
    TRY(keep_regions(&r, out));
out:
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

static const char *const settings[] = {"preset", "height", "width", "length", NULL};

const architecture architecture_onnx = {
    .name = "onnx",
    .settings = settings,
    .settings_name_sizes = true,
    .build = build,
    .image_processor = "ConvNext",
    .preset = preset,
    .describe_narrowed = describe_narrowed,
    .judge_loaders = judge_loaders,
    .outside = outside,
};
