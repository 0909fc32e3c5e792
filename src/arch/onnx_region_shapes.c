#include "arch/onnx_region_shapes.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"

#include <string.h>

enum {
    USUAL_SIDE = 224, /* of images of any size, on which shapes are asked for */
    TRIED_LENGTH = 7  /* of sequences of any length */
};

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

/* Whether a value of a network of ids can be [N, T, C] or [N, C, T]. One of four dimensions has
 * heads, and other sizes are no positions. */
static bool is_sequence(const onnx_barriers *b, int rank, int64_t positions)
{
    const onnx_value *ids = &b->file->values[b->input];
    const int64_t length = ids->rank > 1 && ids->shape[1] > 0 ? ids->shape[1] : TRIED_LENGTH;
    return rank < IMAGE_RANK && (rank == FLAT_RANK || positions <= 1 || positions == length);
}

static bool is_real(int element)
{
    return element == ONNX_FLOAT || element == ONNX_FLOAT16;
}

/* Dimensions of a value of a graph. */
static void set_shape(const onnx_barriers *b, onnx_known *k, int rank, int channels,
                      const int64_t shape[])
{
    static const char *const layouts[][2] = {{"N,,C", "N,T,C"}, {"N,,,C", "N,Y,X,C"}};
    const bool fits = is_real(b->file->values[b->input].element) ||
                      is_sequence(b, rank, shape[channels == 1 ? 2 : 1]);
    k->rank = rank;
    k->width = shape[channels] > 0 && fits ? shape[channels] : 0;
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
    if (!*is_sure || !is_real(v->element) || v->rank < FLAT_RANK || v->rank > IMAGE_RANK) {
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
    set_shape(b, &k, v->rank, channels, v->shape);
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
    if (count > REGION_MOST_GIVEN) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "ONNX Runtime is asked for shapes of networks of up to %d inputs, and this "
            "one has %d",
            REGION_MOST_GIVEN, count);
    }
    for (int i = 0; i < count; i++) {
        const int64_t value =
            are_several ? onnx_file_find(f, r->g->inputs[i].name) : r->barriers->input;
        const extent at = are_several ? r->g->inputs[i].positions : r->g->image;
        const bool is_open = at.height <= 0;
        if (are_ids) {
            out->inputs[i] = (region_value){value, REGION_IDS, 1, 1, false};
            sizes[i] =
                (region_positions){r->length < ONNX_OPEN_LENGTH ? r->length : TRIED_LENGTH, 1};
            continue;
        }
        if (r->values[value].form == ONNX_IDS) {
            out->inputs[i] = (region_value){value, REGION_IDS, r->g->inputs[i].channels, 1, false};
            sizes[i] = (region_positions){1, 1};
            continue;
        }
        const int rank = f->values[value].rank;
        const bool is_last = are_several ? r->g->inputs[i].channels_last : r->g->channels_last;
        out->inputs[i] =
            (region_value){value, rank, are_several ? r->g->inputs[i].channels : r->g->channels,
                           is_last ? rank - 1 : 1, f->values[value].element == ONNX_FLOAT16};
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
    region_parts network = {.file = r->original, .node_count = f->node_count, .nodes = nodes};
    region_positions sizes[REGION_MOST_GIVEN];
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

bool onnx_first_opaque(onnx_reading *r)
{
    for (int64_t i = 0; i < r->file->node_count; i++) {
        if (r->barriers->is_opaque[i]) {
            r->node = &r->file->nodes[i];
            return true;
        }
    }
    return false;
}

grail_status onnx_shape_of(onnx_reading *r, int64_t value, onnx_known *out)
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
            char why[ONNX_REASON_SIZE];
            error_copy(why, sizeof why);
            (void)onnx_first_opaque(r);
            error_set(status, "%s", b->reasons[onnx_node_number(r)]);
            error_append("; the file does not declare the shape of '%s', and it cannot be found "
                         "out%s: %s",
                         b->file->values[value].name,
                         b->has_size || r->g->input_kind != INPUT_IMAGES
                             ? ""
                             : " with images of 224 x 224, whose size it leaves open (the settings "
                               "height=N and width=N say another)",
                         why);
            return status;
        }
    }
    const ort_tensor *t = &b->asked[value];
    if (follows_samples(b, value) && is_real(t->element) && t->rank >= FLAT_RANK &&
        t->rank <= IMAGE_RANK && t->shape[0] == samples_of(b)) {
        set_shape(b, out, t->rank, channels_at(b, value, t->rank), t->shape);
    }
    return GRAIL_OK;
}

grail_status onnx_is_half(onnx_reading *r, int64_t value, bool *out)
{
    const onnx_barriers *b = r->barriers;
    bool has_halves = false;
    *out = r->file->values[value].element == ONNX_FLOAT16;
    if (r->file->values[value].element != 0) {
        return GRAIL_OK;
    }
    for (int64_t i = 0; i < r->file->tensor_count && !has_halves; i++) {
        has_halves = r->file->tensors[i].element == ONNX_FLOAT16;
    }
    CHECK(has_halves && b->asked == NULL ? ask_shapes(r) : GRAIL_OK);
    *out = b->asked != NULL && b->asked[value].is_half;
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
                              r->values[value].rank == IMAGE_RANK &&
                              r->values[value].pieces[2] == 0 && r->values[value].repeats == 0;
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

grail_status onnx_note_positions(onnx_reading *r, int64_t value, const onnx_known *k)
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
