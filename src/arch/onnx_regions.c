#include "arch/onnx_regions.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"
#include "arch/onnx_places.h"

#include <stdlib.h>
#include <string.h>

enum {
    USUAL_SIDE = 224, /* of images of any size, on which shapes are asked for */
    TRIED_LENGTH = 7, /* of sequences of any length */
    REASON_SIZE = 1024,
    MOST_READINGS = 1000,  /* each finds one more opaque node at least */
    MOST_STEPS = 100000000 /* of all searches for regions */
};

struct onnx_barriers {
    const onnx_file *file;
    const char *path;
    bool *is_opaque;    /* of nodes */
    char **reasons;     /* of those nodes, owned */
    bool *follows;      /* of values: from the images */
    bool *is_wanted;    /* of values that opaque nodes make: a row reads it */
    onnx_place *places; /* of values: where their channels are */
    ort_tensor *asked;  /* of values: shapes out of a trial, NULL before it */
    ort_tensor *more;   /* the same with one image more, where their number is open */
    int64_t input;      /* the images */
    int64_t *marks;     /* of nodes: the last search that came there */
    int64_t *stack;     /* [nodes] of that search */
    int64_t search, steps, readings;
    bool has_grown; /* in this reading */
    bool has_size;  /* the images have one, and so has what follows from them */
    bool is_last;   /* reading, which makes regions */
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
    char reason[REASON_SIZE];
    error_copy(reason, sizeof reason);
    return make_opaque(r, i, reason);
}

/* -- shapes ------------------------------------------------------------------------------------ */

/* Whether a declared number of samples is that of the images; unsure where it is another symbol. */
static bool is_batch(const onnx_value *images, const onnx_value *v, bool *is_sure)
{
    const char *symbol = v->symbols[0];
    *is_sure = images->shape[0] > 0 || v->shape[0] > 0 || symbol == NULL ||
               (images->symbols[0] != NULL && strcmp(symbol, images->symbols[0]) == 0);
    return v->shape[0] == images->shape[0];
}

/* The dimension of the channels in [N, C], [N, T, C], [N, C, T], [N, C, H, W] and [N, H, W, C]. */
static int channels_at(const onnx_barriers *b, int64_t value, int rank)
{
    const onnx_place place = b->places[value];
    const bool is_last = place == ONNX_LAST || (place == ONNX_ANYWHERE && rank == REGION_TOKENS);
    return is_last ? rank - 1 : 1;
}

/* Dimensions of a value of a graph. */
static void set_shape(onnx_known *k, int rank, int channels, const int64_t shape[])
{
    static const char *const layouts[][2] = {{"N,,C", "N,T,C"}, {"N,,,C", "N,Y,X,C"}};
    k->rank = rank;
    k->width = shape[channels] > 0 ? shape[channels] : 0;
    k->one = true;
    for (int d = 1; d < rank; d++) {
        k->one = k->one && (d == channels || shape[d] == 1);
    }
    if (channels > 1) {
        onnx_set_layout(k, layouts[rank - REGION_TOKENS][k->one ? 0 : 1]);
    } else if (rank == REGION_TOKENS) {
        onnx_set_layout(k, k->one ? "N,C," : "N,C,T");
    }
}

/* What the file says of a value; *is_sure false: not enough. Width 0: it is no value of a graph. */
static onnx_known declared_shape(const onnx_barriers *b, int64_t value, bool *is_sure)
{
    const onnx_value *v = &b->file->values[value];
    onnx_known k = {.value = GRAPH_NONE, .tensor = -1};
    *is_sure = v->element != 0 && v->rank >= 0;
    if (!*is_sure || v->element != ONNX_FLOAT || v->rank < FLAT_RANK || v->rank > IMAGE_RANK) {
        return k;
    }
    if (!is_batch(&b->file->values[b->input], v, is_sure)) {
        return k;
    }
    const int channels = channels_at(b, value, v->rank);
    *is_sure = *is_sure && v->shape[channels] > 0;
    for (int d = 1; b->has_size && d < v->rank; d++) {
        *is_sure = *is_sure && v->shape[d] > 0;
    }
    set_shape(&k, v->rank, channels, v->shape);
    k.width = *is_sure ? k.width : 0;
    return k;
}

static int64_t samples_of(const onnx_barriers *b)
{
    const int64_t declared = b->file->values[b->input].shape[0];
    return declared > 0 ? declared : 2;
}

/* The network's inputs as those of a region, with the sizes of images. */
static grail_status list_inputs(const onnx_reading *r, region_parts *out, region_positions sizes[])
{
    const onnx_file *f = r->file;
    const bool are_several = r->g->input_count > 0;
    const int count = are_several ? r->g->input_count : 1;
    const bool are_ids = r->g->input_kind == INPUT_TOKENS;
    if (count > REGION_MOST_INPUTS) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "ONNX Runtime is asked for shapes of up to %d images, and this network "
                         "has %d inputs",
                         REGION_MOST_INPUTS, count);
    }
    for (int i = 0; i < count; i++) {
        const int64_t value =
            are_several ? onnx_file_find(f, r->g->inputs[i].name) : r->barriers->input;
        const extent at = are_several ? r->g->inputs[i].positions : r->g->image;
        const bool is_open = at.height <= 0;
        if (are_ids) {
            out->inputs[i] = (region_value){value, REGION_IDS, 1, 1};
            sizes[i] =
                (region_positions){r->length < ONNX_OPEN_LENGTH ? r->length : TRIED_LENGTH, 1};
            continue;
        }
        if (r->values[value].form == ONNX_IDS) {
            out->inputs[i] = (region_value){value, REGION_IDS, r->g->inputs[i].channels, 1};
            sizes[i] = (region_positions){1, 1};
            continue;
        }
        const int rank = f->values[value].rank;
        out->inputs[i] =
            (region_value){value, rank, are_several ? r->g->inputs[i].channels : r->g->channels,
                           are_several && r->g->inputs[i].channels_last ? rank - 1 : 1};
        sizes[i] =
            (region_positions){is_open ? USUAL_SIDE : at.height, !is_open       ? at.width
                                                                 : r->g->in_row ? 1
                                                                                : USUAL_SIDE};
    }
    out->input_count = count;
    return GRAIL_OK;
}

/* Lets ONNX Runtime run the network on zeros for all shapes that the file does not tell. */
static grail_status ask_shapes(onnx_reading *r)
{
    grail_status status = GRAIL_OK;
    onnx_barriers *b = r->barriers;
    const onnx_file *f = b->file;
    int64_t *values = NULL;
    int64_t *nodes = NULL;
    ort_tensor *shapes = NULL;
    ort_tensor *more = NULL;
    int64_t count = 0;
    TRY(memory_new(&values, (size_t)f->value_count, sizeof values[0]));
    TRY(memory_new(&nodes, (size_t)f->node_count, sizeof nodes[0]));
    for (int64_t i = 0; i < f->node_count; i++) {
        nodes[i] = i;
    }
    for (int64_t v = 0; v < f->value_count; v++) {
        bool is_sure = true;
        if (b->follows[v] && !f->values[v].is_input) {
            (void)declared_shape(b, v, &is_sure);
        }
        if (!is_sure) {
            values[count++] = v;
        }
    }
    TRY(memory_new(&shapes, (size_t)count, sizeof shapes[0]));
    TRY(memory_new(&more, (size_t)count, sizeof more[0]));
    region_parts network = {.file = f, .node_count = f->node_count, .nodes = nodes};
    region_positions sizes[REGION_MOST_INPUTS];
    TRY(list_inputs(r, &network, sizes));
    TRY(region_probe(&network, samples_of(b), f->values[b->input].shape[0] <= 0, sizes, count,
                     values, shapes, more));
    TRY(memory_new(&b->more, (size_t)f->value_count, sizeof b->more[0]));
    TRY(memory_new(&b->asked, (size_t)f->value_count, sizeof b->asked[0]));
    for (int64_t i = 0; i < count; i++) {
        b->asked[values[i]] = shapes[i];
        b->more[values[i]] = more[i];
    }
out:
    memory_free(values);
    memory_free(nodes);
    memory_free(shapes);
    memory_free(more);
    return status;
}

/* Whether a value has one row more of an image more, where the number of images is open. */
static bool follows_samples(const onnx_barriers *b, int64_t value)
{
    const ort_tensor *t = &b->asked[value];
    const ort_tensor *more = &b->more[value];
    const int64_t samples = b->file->values[b->input].shape[0] > 0 ? 0 : 1;
    return t->element == more->element && t->rank == more->rank && t->rank > 0 &&
           more->shape[0] == t->shape[0] + samples &&
           memcmp(&t->shape[1], &more->shape[1], (size_t)(t->rank - 1) * sizeof t->shape[0]) == 0;
}

bool onnx_is_inner(const onnx_reading *r, int64_t value)
{
    const int64_t maker = r->file->values[value].node;
    return maker >= 0 && r->barriers->is_opaque[maker] && r->values[value].value == GRAPH_NONE;
}

bool onnx_inner_sizes(const onnx_reading *r, int64_t value, onnx_numbers *out)
{
    const onnx_barriers *b = r->barriers;
    const ort_tensor *t = b->asked == NULL ? NULL : &b->asked[value];
    const ort_tensor *more = t == NULL ? NULL : &b->more[value];
    bool are_known = t != NULL && b->has_size && r->g->input_kind == INPUT_IMAGES && t->rank > 0 &&
                     t->rank == more->rank;
    for (int d = 0; are_known && d < t->rank; d++) {
        const int64_t by_sample = more->shape[d] - t->shape[d];
        out->items[d] = onnx_whole(by_sample > 0 ? by_sample : t->shape[d]);
        out->items[d].per_sample = by_sample > 0;
        are_known = by_sample == 0 || by_sample * samples_of(b) == t->shape[d];
    }
    out->count = are_known ? t->rank : 0;
    return are_known;
}

/* The node at hand becomes the first one that no row reads; false: there is none. */
static bool find_first(onnx_reading *r)
{
    for (int64_t i = 0; i < r->file->node_count; i++) {
        if (r->barriers->is_opaque[i]) {
            r->node = &r->file->nodes[i];
            return true;
        }
    }
    return false;
}

grail_status onnx_refuse_first(onnx_reading *r)
{
    return find_first(r)
               ? onnx_in_node(r, onnx_misfit("%s", r->barriers->reasons[r->node - r->file->nodes]))
               : GRAIL_OK;
}

/* *out <- rank and width of a value as one of a graph; a width of 0: it cannot be one. */
static grail_status shape_of(onnx_reading *r, int64_t value, onnx_known *out)
{
    onnx_barriers *b = r->barriers;
    bool is_sure = true;
    *out = (onnx_known){.value = GRAPH_NONE, .tensor = -1};
    if (!b->follows[value]) {
        return GRAIL_OK;
    }
    *out = declared_shape(b, value, &is_sure);
    if (is_sure) {
        return GRAIL_OK;
    }
    if (b->asked == NULL) {
        const grail_status status = ask_shapes(r);
        if (status != GRAIL_OK) {
            char why[REASON_SIZE];
            error_copy(why, sizeof why);
            (void)find_first(r);
            error_set(status, "%s", b->reasons[r->node - r->file->nodes]);
            error_append("; the file does not declare the shape of '%s', and it cannot be found "
                         "out: %s",
                         b->file->values[value].name, why);
            return status;
        }
    }
    const ort_tensor *t = &b->asked[value];
    if (follows_samples(b, value) && t->element == ONNX_FLOAT && t->rank >= FLAT_RANK &&
        t->rank <= IMAGE_RANK && t->shape[0] == samples_of(b)) {
        set_shape(out, t->rank, channels_at(b, value, t->rank), t->shape);
    }
    return GRAIL_OK;
}

/* Height and width of a value of the graph; 0 where they are not known. */
static extent positions_of(const onnx_reading *r, int64_t value, const onnx_known *k)
{
    const onnx_value *v = &r->file->values[value];
    const ort_tensor *t = r->barriers->asked == NULL ? NULL : &r->barriers->asked[value];
    const int first = onnx_has_layout(k) && onnx_ends_in_channels(k) ? 1 : 2;
    if (v->rank == IMAGE_RANK && v->shape[first] > 0 && v->shape[first + 1] > 0) {
        return (extent){v->shape[first], v->shape[first + 1]};
    }
    return t != NULL && t->rank == IMAGE_RANK ? (extent){t->shape[first], t->shape[first + 1]}
                                              : (extent){0, 0};
}

grail_status onnx_check_positions(const onnx_reading *r)
{
    extent first = {0, 0};
    for (int k = 0; k < r->node->node.input_count; k++) {
        const int64_t value = r->node->inputs[k];
        const bool is_image = value >= 0 && r->values[value].value != GRAPH_NONE &&
                              r->values[value].rank == IMAGE_RANK;
        const extent now = is_image ? positions_of(r, value, &r->values[value]) : (extent){0, 0};
        if (now.height <= 1 && now.width <= 1) {
            continue;
        }
        if (first.height > 0 && (first.height != now.height || first.width != now.width)) {
            return onnx_misfit("reads %lld x %lld and %lld x %lld positions, expected the same",
                               (long long)first.height, (long long)first.width,
                               (long long)now.height, (long long)now.width);
        }
        first = now;
    }
    return GRAIL_OK;
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
static grail_status make_whole(onnx_reading *r, onnx_known *x)
{
    bool is_parted = false;
    for (int i = 1; i < r->linear_count; i++) {
        const onnx_linear *l = &r->linears[i];
        const bool parts = x->linear != 0 && l->parent == x->linear;
        is_parted = is_parted || parts;
        if (parts && !r->barriers->is_opaque[l->node]) {
            CHECK(make_opaque(r, l->node, "parts what nodes that no row reads read as a whole"));
        }
    }
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
           !onnx_is_padded(k) && !(through_opaque && maker >= 0 && r->barriers->is_opaque[maker]);
    if (*out && onnx_has_layout(k)) {
        onnx_letters(k, letters);
        *out = false;
        for (size_t i = 0; i < sizeof borders / sizeof borders[0]; i++) {
            *out = *out || strcmp(letters, borders[i]) == 0;
        }
    }
    return *out ? make_whole(r, k) : GRAIL_OK;
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
    b->stack[depth++] = r->node - r->file->nodes;
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
                         r->barriers->reasons[r->node - r->file->nodes], (long long)c->input_count,
                         NODE_MAX_INPUTS);
    }
    return make_opaque(r, last,
                       "it is in front of nodes that no row reads, and that read more values than "
                       "a node of grail does");
}

static region_value region_value_of(int64_t value, const onnx_known *k)
{
    const bool is_last = onnx_has_layout(k) && onnx_ends_in_channels(k);
    return (region_value){value, k->rank, k->width, is_last ? k->rank - 1 : 1};
}

static grail_status add_region(onnx_reading *r, const cone *c, int64_t value, onnx_known *k)
{
    grail_status status = GRAIL_OK;
    const onnx_barriers *b = r->barriers;
    region *made = NULL;
    node n = node_of(NODE_OPAQUE, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE);
    region_parts parts = {.file = r->file,
                          .path = b->path,
                          .node_count = c->node_count,
                          .nodes = c->nodes,
                          .number_count = c->number_count,
                          .numbers = c->numbers,
                          .input_count = (int)c->input_count,
                          .output = region_value_of(value, k),
                          .asks_size = c->asks_size,
                          .takes_one_sample = r->file->values[b->input].shape[0] == 1};
    for (int i = 0; i < parts.input_count; i++) {
        const onnx_known *x = &r->values[c->inputs[i]];
        const bool is_given = x->value == GRAPH_NONE; /* an input of the network */
        int held = is_given ? r->g->input : x->value;
        if (is_given && r->g->input_kind == INPUT_IMAGES) {
            TRY(onnx_unpack(r, x->input, (extent){1, 1}, x->width, &held));
        }
        const int64_t width = r->g->input_kind == INPUT_IMAGES ? x->width : 1;
        parts.inputs[i] = is_given ? (region_value){c->inputs[i], REGION_IDS, width, 1}
                                   : region_value_of(c->inputs[i], x);
        n.inputs[n.input_count++] = held;
    }
    if (c->asks_size) {
        parts.inputs[parts.input_count++] =
            (region_value){b->input, r->file->values[b->input].rank, r->g->channels, 1};
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

/* Notes the positions of what a region makes, 0 x 0 where they are not known: nodes behind it ask
 * for them, and need not run it. */
static grail_status note_positions(onnx_reading *r, int64_t value, const onnx_known *k)
{
    const ort_tensor *t = r->barriers->asked == NULL ? NULL : &r->barriers->asked[value];
    const onnx_value *v = &r->file->values[value];
    extent positions = k->one ? (extent){1, 1} : positions_of(r, value, k);
    if (!k->one && k->rank == REGION_TOKENS) {
        const int d = k->layout[2] == 'C' ? 2 : 1;
        const bool is_declared = v->rank == REGION_TOKENS && v->shape[d] > 0;
        positions = (extent){is_declared ? v->shape[d] : t != NULL ? t->shape[d] : 0, 1};
    }
    CHECK(memory_reserve(&r->stand_ins, (size_t)r->stand_in_count + 1, sizeof r->stand_ins[0]));
    r->stand_ins[r->stand_in_count++] = (onnx_stand_in){k->value, positions};
    return GRAIL_OK;
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
        return note_positions(r, value, k);
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
    TRY(note_positions(r, value, k));
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
        CHECK(shape_of(r, n->outputs[i], &k));
        if (k.width > 0) {
            CHECK(give_made(r, n->outputs[i], &k));
        }
        k.rank = k.value == GRAPH_NONE ? 0 : k.rank;
        CHECK(onnx_give(r, i, k));
    }
    return GRAIL_OK;
}
