#include "arch/onnx_tokens.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_extents.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"
#include "arch/onnx_products.h"
#include "arch/onnx_rolls.h"
#include "format/tensor_limits.h"

#include <stdio.h>
#include <string.h>

/* Input i, which there is, if it is a constant of floats. */
static const tensor_view *float_input(const onnx_reading *r, int i)
{
    const tensor_view *t = onnx_constant_of(r, i);
    return t != NULL && dtype_is_float(t->dtype) ? t : NULL;
}

static bool is_value(const onnx_known *x)
{
    return x->form == ONNX_VALUE && (x->value != GRAPH_NONE || x->linear != 0);
}

/* The dimension that is all positions in a row, or -1. */
static int row_dimension(const onnx_known *x)
{
    char text[ONNX_LAYOUT_SIZE];
    char part[ONNX_LAYOUT_SIZE];
    onnx_letters(x, text);
    for (int k = 0; k < x->rank; k++) {
        onnx_dimension_text(text, k, part);
        if (strcmp(part, "T") == 0) {
            return k;
        }
    }
    return -1;
}

/* -- tokens before positions ------------------------------------------------------------------- */

static bool is_token(const onnx_known *k)
{
    return k->form == ONNX_TOKEN || (k->value == GRAPH_NONE && k->tensor >= 0);
}

/* Whether a constant is [C], [1, C] or [1, K, C]. */
static bool are_tokens(const tensor_view *t)
{
    return t->rank == 1 || (t->rank >= 2 && t->rank <= 3 && t->shape[0] == 1);
}

/* K of them. */
static int64_t token_count(const tensor_view *t)
{
    return t->rank == 3 ? t->shape[1] : 1;
}

/* [1, K, C] for each sample */
grail_status onnx_read_expand(onnx_reading *r)
{
    const onnx_known *k = onnx_has_input(r, 0) ? onnx_known_input(r, 0) : NULL;
    const tensor_view *t = k == NULL ? NULL : float_input(r, 0);
    onnx_numbers to;
    if (k != NULL && is_value(k)) {
        return onnx_lay_repeated(r);
    }
    if (t == NULL || !are_tokens(t)) {
        return onnx_misfit("repeats other than a constant [1, K, C] for each sample");
    }
    CHECK(onnx_numbers_of(r, 1, &to));
    bool fits = to.is_known && to.count == 3;
    for (int i = 1; fits && i < 3; i++) {
        const onnx_number *n = &to.items[i];
        fits = !n->is_open && !n->per_sample &&
               (n->factor == 1 || (n->factor == -1 && t->rank == 3) ||
                n->factor == (i == 2 ? t->shape[t->rank - 1] : token_count(t)));
    }
    fits = fits &&
           (to.items[0].per_sample ? to.items[0].factor == 1 : to.items[0].factor == r->samples);
    memory_free(to.items);
    onnx_known y = {.value = GRAPH_NONE, .tensor = -1, .form = ONNX_TOKEN, .copy = t};
    return fits ? onnx_give(r, 0, y)
                : onnx_misfit("repeats a constant in other dimensions than that of the samples");
}

bool onnx_adds_tokens(const onnx_reading *r)
{
    const int last = r->node->node.input_count - 1;
    return last > 0 && onnx_has_input(r, 0) && onnx_has_input(r, last) &&
           is_token(onnx_known_input(r, 0)) && is_value(onnx_known_input(r, last)) &&
           onnx_has_layout(onnx_known_input(r, last));
}

/* *value <- token j of a constant before it. */
static grail_status add_token(onnx_reading *r, const tensor_view *t, int64_t j, int64_t width,
                              int *value)
{
    char name[TENSOR_LONGEST_NAME + 32];
    node n = node_of(NODE_CLASS_TOKEN, GRAPH_NONE, *value, GRAPH_NONE);
    const bool is_only = token_count(t) == 1;
    const storage_map part = storage_rows(j * width, width);
    snprintf(name, sizeof name, "%s[%lld]", t->name, (long long)j);
    CHECK(graph_add_stored(r->g, is_only ? t->name : name, t->name,
                           is_only ? &(storage_map){0} : &part, 1, &width, &n.weight));
    return graph_add_node(r->g, &n, value);
}

grail_status onnx_add_tokens(onnx_reading *r)
{
    const int last = r->node->node.input_count - 1;
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, last, &x));
    onnx_known y = *x;
    const int axis = onnx_axis_of(onnx_integer_of(r, "axis", 0), x->rank);
    if (axis < 0 || axis != row_dimension(x) || !onnx_ends_in_channels(x) || x->rank != 3) {
        return onnx_misfit("puts a constant beside other than positions [samples, positions, "
                           "channels]");
    }
    for (int i = last - 1; i >= 0; i--) {
        const onnx_known *k = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
        const tensor_view *t = k == NULL || !is_token(k) ? NULL
                               : k->form == ONNX_TOKEN   ? k->copy
                                                         : float_input(r, i);
        if (t == NULL || !are_tokens(t) || (k->form != ONNX_TOKEN && t->rank != 3) ||
            t->shape[t->rank - 1] != x->width) {
            return onnx_misfit("puts other than tokens [1, K, %lld] before positions",
                               (long long)x->width);
        }
        CHECK(onnx_check_free(r, t));
        for (int64_t j = token_count(t) - 1; j >= 0; j--) {
            CHECK(add_token(r, t, j, x->width, &y.value));
        }
    }
    return onnx_give(r, 0, y);
}

/* -- a table of positions ---------------------------------------------------------------------- */

/* The input that is the table, or -1. */
static int table_input(const onnx_reading *r)
{
    for (int i = 0; i < 2 && onnx_has_input(r, 0) && onnx_has_input(r, 1); i++) {
        const onnx_known *k = onnx_known_input(r, i);
        const onnx_known *x = onnx_known_input(r, 1 - i);
        const tensor_view *t = k->value == GRAPH_NONE ? float_input(r, i) : NULL;
        const bool is_made = k->form == ONNX_TABLE && k->rank == 3 && k->shape[0] == 1;
        const bool has_rows =
            is_value(x) && x->rank == 3 && row_dimension(x) == 1 && onnx_ends_in_channels(x);
        if (is_made && has_rows) {
            return i;
        }
        if (t != NULL && (t->rank == 2 || (t->rank == 3 && t->shape[0] == 1)) &&
            t->shape[t->rank - 2] > 1 && has_rows) {
            return i;
        }
    }
    return -1;
}

bool onnx_adds_positions(const onnx_reading *r)
{
    return table_input(r) >= 0;
}

grail_status onnx_add_positions(onnx_reading *r)
{
    const int at = table_input(r);
    const onnx_known *k = onnx_known_input(r, at);
    const tensor_view *t = float_input(r, at);
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 1 - at, &x));
    CHECK(onnx_check_order(x));
    node n = onnx_plain(NODE_POSITIONS, x, NULL);
    n.positions.may_be_fewer = r->g->input_kind == INPUT_TOKENS;
    const int64_t *shape = t == NULL ? &k->shape[1] : &t->shape[t->rank - 2];
    onnx_known y = *x;
    if (shape[1] != x->width) {
        return onnx_misfit("its table has %lld channels, but there are %lld", (long long)shape[1],
                           (long long)x->width);
    }
    if (t == NULL) {
        n.positions.count = shape[0];
        n.positions.table = k->table;
        return onnx_give_node(r, &n, y);
    }
    CHECK(onnx_check_free(r, t));
    CHECK(graph_add_stored(r->g, t->name, t->name, &(storage_map){0}, 2, shape, &n.weight));
    return onnx_give_node(r, &n, y);
}

/* -- what takes a part ------------------------------------------------------------------------- */

/* Output `to` <- element `index` of dimension k: a piece of the channels. */
static grail_status take_piece(onnx_reading *r, int to, const onnx_known *x, int k, int64_t index,
                               bool keeps)
{
    char text[ONNX_LAYOUT_SIZE];
    onnx_known y = *x;
    const int piece = x->pieces[0] > 0 ? 0 : 1;
    if (index < 0 || index >= x->pieces[piece]) {
        return onnx_misfit("takes part %lld of %lld", (long long)index,
                           (long long)x->pieces[piece]);
    }
    y.width = x->width / x->pieces[piece];
    y.pieces[piece] = 0;
    CHECK(onnx_part_linear(r, x->linear, index * y.width, y.width, &y.linear));
    y.value = GRAPH_NONE;
    onnx_letters(x, text);
    onnx_replace_dimension(text, k, keeps ? "" : NULL);
    if (piece == 1) {
        y.pieces[2] = 0;
        *strchr(text, 'D') = 'C';
    }
    onnx_set_layout(&y, text);
    return onnx_give(r, to, y);
}

/* One of several parts that each head has: its queries, keys or values. */
static grail_status take_of_heads(onnx_reading *r, const onnx_known *x, int k, int64_t index,
                                  bool keeps)
{
    char text[ONNX_LAYOUT_SIZE];
    onnx_known y = *x;
    const int64_t *pieces = x->pieces;
    if (index < 0 || index >= pieces[1]) {
        return onnx_misfit("takes part %lld of %lld", (long long)index, (long long)pieces[1]);
    }
    y.width = pieces[0] * pieces[2];
    y.pieces[1] = pieces[0];
    y.pieces[0] = 0;
    y.value = GRAPH_NONE;
    CHECK(onnx_part_heads(r, x->linear, pieces[0], pieces[1] * pieces[2], index * pieces[2],
                          pieces[2], &y.linear));
    onnx_letters(x, text);
    onnx_replace_dimension(text, k, keeps ? "" : NULL);
    *strchr(text, 'P') = 'H';
    onnx_set_layout(&y, text);
    return onnx_give(r, 0, y);
}

static grail_status take_position(onnx_reading *r, onnx_known *x, int k, int64_t index, bool keeps)
{
    char text[ONNX_LAYOUT_SIZE];
    if (index != 0 || x->form != ONNX_VALUE || x->pieces[2] > 0) {
        return onnx_misfit("takes position %lld; grail has a row for the first one alone",
                           (long long)index);
    }
    CHECK(onnx_check_order(x));
    CHECK(onnx_settle(r, x));
    node n = onnx_plain(NODE_FIRST_TOKEN, x, NULL);
    onnx_known y = *x;
    onnx_letters(x, text);
    onnx_replace_dimension(text, k, keeps ? "" : NULL);
    y.one = true;
    onnx_set_layout(&y, text);
    return onnx_give_node(r, &n, y);
}

static grail_status take(onnx_reading *r, int64_t axis, int64_t index, bool keeps)
{
    onnx_known *x = NULL;
    char text[ONNX_LAYOUT_SIZE];
    char part[ONNX_LAYOUT_SIZE];
    CHECK(onnx_laid_input(r, 0, &x));
    const int k = onnx_axis_of(axis, x->rank);
    if (k < 0 || x->form != ONNX_VALUE || x->factor != 0.0) {
        return onnx_misfit("takes a part of what grail has no row for");
    }
    onnx_letters(x, text);
    onnx_dimension_text(text, k, part);
    const bool is_outer = strcmp(part, x->pieces[0] > 0 ? "P" : "H") == 0;
    const bool is_inner = !is_outer && strcmp(part, "H") == 0 && strchr(text, 'P') != NULL;
    return is_outer                 ? take_piece(r, 0, x, k, index, keeps)
           : is_inner               ? take_of_heads(r, x, k, index, keeps)
           : strcmp(part, "T") == 0 ? take_position(r, x, k, index, keeps)
                                    : onnx_misfit("takes a part of dimension %d of [%s], for which "
                                                  "grail has no row",
                                                  k, text);
}

grail_status onnx_read_gather(onnx_reading *r)
{
    onnx_numbers at;
    CHECK(onnx_numbers_of(r, 1, &at));
    const bool fits = at.is_known && at.count == 1 && !at.items[0].is_open && !at.items[0].is_real;
    const onnx_number n = fits ? at.items[0] : (onnx_number){0};
    memory_free(at.items);
    return fits ? take(r, onnx_integer_of(r, "axis", 0), n.factor, at.rank == 1)
                : onnx_misfit("takes parts that are computed, or more than one");
}

/* Notes that a bound follows the run of the node that was added last; where it cannot, that stays.
 */
static grail_status note_bound(onnx_reading *r, bool is_end)
{
    onnx_count count;
    const onnx_channels none = {.value = GRAPH_NONE};
    slice_attributes *run = &r->g->nodes[r->g->node_count - 1].slice;
    const grail_status status =
        onnx_count_at(r, is_end ? "ends" : "starts", is_end ? 2 : 1, 0, none, &count);
    if (status == GRAIL_ERROR_UNSUPPORTED) { /* another node needs it as it is */
        *run = (slice_attributes){run->first, run->length, true, false};
        return GRAIL_OK;
    }
    CHECK(status);
    count.slice = r->g->node_count;
    count.is_end = is_end;
    run->stays = run->stays || (count.tensor < 0 && count.attribute == NULL);
    return onnx_note(r, &count);
}

/* A run of channels. Bounds that are computed, or count from the end, are no numbers to be changed;
 * whether the first ones are right by themselves is found out in the end (onnx_counts.h). */
static grail_status take_channels(onnx_reading *r, int64_t begin, int64_t end)
{
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    onnx_known y = *x;
    node n = onnx_plain(NODE_SLICE, x, NULL);
    const int64_t first = onnx_bound_of(begin, x->width);
    const int64_t last = onnx_bound_of(end, x->width);
    const bool from_end = begin < 0 || end < 0;
    y.width = last - first;
    n.slice = (slice_attributes){first, y.width, from_end, !from_end};
    if (y.width <= 0) {
        return onnx_misfit("takes no channels");
    }
    CHECK(onnx_give_node(r, &n, y));
    CHECK(!from_end && first > 0 ? note_bound(r, false) : GRAIL_OK);
    return !from_end && last < x->width ? note_bound(r, true) : GRAIL_OK;
}

static grail_status no_run(int64_t begin, int64_t end)
{
    return onnx_misfit("takes a run from %lld to %lld, for which grail has no row",
                       (long long)begin, (long long)end);
}

/* Output `to` <- so many features of each head, which stay. */
static grail_status take_features(onnx_reading *r, int to, const onnx_known *x, int64_t first,
                                  int64_t size)
{
    onnx_known y = *x;
    if (size < 1 || size > x->pieces[2] - first) {
        return onnx_misfit("takes more features than the %lld of a head", (long long)x->pieces[2]);
    }
    y.width = x->pieces[1] * size;
    y.pieces[2] = size;
    y.value = GRAPH_NONE;
    CHECK(onnx_part_heads(r, x->linear, x->pieces[1], x->pieces[2], first, size, &y.linear));
    return onnx_give(r, to, y);
}

/* All positions behind the first ones, which are tokens of the network's own. */
static grail_status take_later(onnx_reading *r, int64_t axis, int64_t begin, int64_t end)
{
    onnx_known *x = NULL;
    char text[ONNX_LAYOUT_SIZE];
    char part[ONNX_LAYOUT_SIZE] = "";
    extent positions = {0};
    CHECK(onnx_laid_input(r, 0, &x));
    const int k = onnx_axis_of(axis, x->rank);
    if (k >= 0) {
        onnx_letters(x, text);
        onnx_dimension_text(text, k, part);
    }
    if (strcmp(part, "T") != 0 || x->form != ONNX_VALUE || x->factor != 0.0 || x->pieces[2] > 0) {
        return no_run(begin, end);
    }
    CHECK(onnx_check_order(x));
    CHECK(onnx_settle(r, x));
    CHECK(onnx_positions_of(r, x, &positions));
    const int64_t all = positions.height * positions.width;
    if (begin <= 0 || end < (all > 0 ? all : INT32_MAX)) {
        return no_run(begin, end);
    }
    node n = onnx_plain(NODE_TAKE_TOKENS, x, NULL);
    n.tokens.left_out = begin;
    return onnx_give_node(r, &n, *x);
}

/* One of several runs of the channels of a Linear, all of which keep the same share of theirs, so
 * that the numbers between them do, too. */
static grail_status part_in_runs(onnx_reading *r, const onnx_known *x, int64_t first, int64_t last)
{
    onnx_known y = *x;
    y.value = GRAPH_NONE;
    y.width = last - first;
    CHECK(onnx_part_linear(r, x->linear, first, y.width, &y.linear));
    CHECK(first == 0 ? GRAIL_OK : onnx_note_channels(r, "starts", 1, 0, onnx_channels_of(x)));
    CHECK(last == x->width ? GRAIL_OK : onnx_note_channels(r, "ends", 2, 0, onnx_channels_of(x)));
    return onnx_give(r, 0, y);
}

/* The first or the last channels of a Linear: the number between them, which the file states,
 * counts the first. */
static grail_status part_in_two(onnx_reading *r, onnx_known *x, int64_t begin, int64_t end)
{
    const onnx_known whole = *x;
    const int64_t first = onnx_bound_of(begin, x->width);
    const int64_t last = onnx_bound_of(end, x->width);
    const int64_t cut = first == 0 ? last : first;
    onnx_known y = whole;
    onnx_known before = whole;
    if (last <= first || begin < 0 || end < 0 || (first == 0 && last == x->width)) {
        return take_channels(r, begin, end);
    }
    if (x->readers > 2) {
        return part_in_runs(r, &whole, first, last);
    }
    if (first > 0 && last < x->width) {
        return take_channels(r, begin, end);
    }
    y.value = GRAPH_NONE;
    y.width = last - first;
    before.value = GRAPH_NONE;
    CHECK(onnx_part_linear(r, x->linear, 0, cut, &before.linear));
    CHECK(onnx_part_linear(r, whole.linear, first, y.width, &y.linear));
    CHECK(onnx_note_channels(r, first == 0 ? "ends" : "starts", first == 0 ? 2 : 1, 0,
                             onnx_channels_of(&before)));
    return onnx_give(r, 0, y);
}

/* A run of the positions that a sum of positions makes. */
static grail_status take_mixed(onnx_reading *r, const onnx_known *x, int64_t begin, int64_t end)
{
    onnx_known y = *x;
    const int64_t all = onnx_linear_rows(&r->linears[x->linear]);
    const int64_t first = onnx_bound_of(begin, all);
    const int64_t count = onnx_bound_of(end, all) - first;
    y.value = GRAPH_NONE;
    CHECK(count > 0 ? GRAIL_OK : no_run(begin, end));
    CHECK(onnx_part_positions(r, x->linear, first, count, &y.linear));
    return onnx_give(r, 0, y);
}

/* Every second row or column of an image, or at another distance, from the first one on. */
static grail_status take_every(onnx_reading *r, int count, int64_t list[4][ONNX_MOST_AXES])
{
    onnx_known *x = NULL;
    extent positions = {0};
    CHECK(onnx_any_input(r, 0, &x));
    CHECK(onnx_check_order(x));
    CHECK(onnx_needs_rank(x, IMAGE_RANK));
    CHECK(onnx_positions_of(r, x, &positions));
    node n = onnx_plain(NODE_SHORTCUT, x, NULL);
    n.window = (window2d)WINDOW2D(1, 1, 1, 0, 1);
    for (int i = 0; i < count; i++) {
        const int axis = onnx_axis_of(list[2][i], IMAGE_RANK);
        const int64_t all = axis == 2 ? positions.height : positions.width;
        window_axis *along = axis == 2 ? &n.window.height : &n.window.width;
        if (onnx_channel_dimension(x) != 1 || axis < 2 || along->stride != 1 || list[0][i] != 0 ||
            list[1][i] < (all > 0 ? all : INT32_MAX) || list[3][i] < 1 || list[3][i] > INT32_MAX) {
            return onnx_misfit("takes every %lldth of dimension %lld from %lld to %lld, for which "
                               "grail has no row",
                               (long long)list[3][i], (long long)list[2][i], (long long)list[0][i],
                               (long long)list[1][i]);
        }
        along->stride = list[3][i];
    }
    return onnx_give_node(r, &n, *x);
}

/* Whether dimension k is the features of each head. */
static bool is_of_features(const onnx_known *x, int k)
{
    char text[ONNX_LAYOUT_SIZE];
    char part[ONNX_LAYOUT_SIZE] = "";
    onnx_letters(x, text);
    if (k >= 0) {
        onnx_dimension_text(text, k, part);
    }
    return strcmp(part, "D") == 0 && x->pieces[0] == 0;
}

grail_status onnx_read_slice(onnx_reading *r)
{
    static const char *const names[] = {"starts", "ends", "axes", "steps"};
    int64_t list[4][ONNX_MOST_AXES] = {{0}, {0}, {0}, {1}};
    int counts[4] = {0};
    if (onnx_takes_lines(r)) {
        return onnx_take_lines(r);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(onnx_list_of(r, names[i], i + 1, &counts[i], list[i]));
    }
    const int strides = counts[3];
    if (strides > 0 && (list[3][0] != 1 || (strides > 1 && list[3][1] != 1)) &&
        counts[0] == strides && counts[1] == strides && counts[2] == strides) {
        return take_every(r, strides, list);
    }
    for (int i = 0; i < 4; i++) {
        const int count = counts[i];
        if (count > 1 || (i < 2 && count != 1)) {
            return onnx_misfit("takes parts of %d dimensions, for which grail has no row", count);
        }
    }
    const onnx_known *x = onnx_has_input(r, 0) ? onnx_known_input(r, 0) : NULL;
    const bool of_channels = x != NULL && is_value(x) && list[3][0] == 1 &&
                             onnx_channel_dimension(x) > 0 &&
                             onnx_axis_of(list[2][0], x->rank) == onnx_channel_dimension(x);
    const onnx_linear *linear = x == NULL || x->linear == 0 ? NULL : &r->linears[x->linear];
    const bool parts = linear != NULL && linear->value == GRAPH_NONE;
    if (of_channels) {
        return parts && !linear->mixes
                   ? part_in_two(r, onnx_known_input(r, 0), list[0][0], list[1][0])
                   : take_channels(r, list[0][0], list[1][0]);
    }
    if (list[3][0] != 1) {
        return no_run(list[0][0], list[1][0]);
    }
    if (parts && is_of_features(x, onnx_axis_of(list[2][0], x->rank))) {
        const int64_t first = onnx_bound_of(list[0][0], x->pieces[2]);
        return take_features(r, 0, x, first, onnx_bound_of(list[1][0], x->pieces[2]) - first);
    }
    if (parts && linear->mixes && onnx_axis_of(list[2][0], x->rank) == row_dimension(x)) {
        return take_mixed(r, x, list[0][0], list[1][0]);
    }
    return list[0][0] >= 0 && list[1][0] == list[0][0] + 1
               ? take(r, list[2][0], list[0][0], true)
               : take_later(r, list[2][0], list[0][0], list[1][0]);
}

/* Channels in runs of any length, which are stated, or else equal, and must stay so. */
static grail_status part_channels(onnx_reading *r, const onnx_known *x, bool is_stated, int count,
                                  const int64_t sizes[])
{
    int64_t first = 0;
    onnx_number as_first = onnx_whole(sizes[0]);
    for (int i = 0; i < count; i++) {
        onnx_known y = *x;
        if (sizes[i] < 1 || sizes[i] > x->width - first) {
            return onnx_misfit("takes more channels than the %lld there are", (long long)x->width);
        }
        y.width = sizes[i];
        y.value = GRAPH_NONE;
        CHECK(onnx_part_linear(r, x->linear, first, sizes[i], &y.linear));
        CHECK(onnx_give(r, i, y));
        const onnx_channels of = onnx_channels_of(&y);
        as_first.of = i == 0 ? of : as_first.of;
        CHECK(is_stated ? onnx_note_channels(r, "split", 1, i, of)
                        : onnx_note_number(r, &as_first, &of));
        first += sizes[i];
    }
    return first == x->width ? GRAIL_OK : onnx_misfit("leaves channels out");
}

/* What mixes positions, in runs of the positions that it makes. */
static grail_status part_positions(onnx_reading *r, const onnx_known *x, int64_t all, int count,
                                   const int64_t sizes[])
{
    int64_t first = 0;
    for (int i = 0; i < count; i++) {
        onnx_known y = *x;
        y.value = GRAPH_NONE;
        if (sizes[i] < 1 || sizes[i] > all - first) {
            return onnx_misfit("takes more positions than the %lld there are", (long long)all);
        }
        CHECK(onnx_part_positions(r, x->linear, first, sizes[i], &y.linear));
        CHECK(onnx_give(r, i, y));
        first += sizes[i];
    }
    return first == all ? GRAIL_OK : onnx_misfit("leaves positions out");
}

/* The features of each head in runs of any length, which stay. */
static grail_status part_heads(onnx_reading *r, const onnx_known *x, int count,
                               const int64_t sizes[])
{
    int64_t first = 0;
    for (int i = 0; i < count; i++) {
        CHECK(take_features(r, i, x, first, sizes[i]));
        first += sizes[i];
    }
    return first == x->pieces[2] ? GRAIL_OK : onnx_misfit("leaves features of heads out");
}

grail_status onnx_part_all(onnx_reading *r)
{
    onnx_known *x = NULL;
    int count = 0;
    int64_t sizes[ONNX_MOST_AXES];
    char text[ONNX_LAYOUT_SIZE];
    char part[ONNX_LAYOUT_SIZE];
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(onnx_list_of(r, "split", 1, &count, sizes));
    const onnx_known whole = *x;
    const int outputs = r->node->node.output_count;
    const int k = onnx_axis_of(onnx_integer_of(r, "axis", 0), x->rank);
    onnx_letters(x, text);
    onnx_dimension_text(text, k < 0 ? 0 : k, part);
    const int piece = x->pieces[0] > 0 ? 0 : 1;
    if (k < 0 || x->form != ONNX_VALUE || x->factor != 0.0 || (count != 0 && count != outputs)) {
        return onnx_misfit("parts what grail has no row for");
    }
    const bool is_stated = count == outputs;
    const bool mixes = whole.linear != 0 && r->linears[whole.linear].mixes;
    const int64_t all = mixes                    ? onnx_linear_rows(&r->linears[whole.linear])
                        : strcmp(part, "D") == 0 ? whole.pieces[2]
                                                 : whole.width;
    for (int i = 0; i < outputs && outputs <= ONNX_MOST_AXES && !is_stated; i++) {
        sizes[i] = all / outputs;
    }
    if (mixes) {
        return strcmp(part, "T") == 0 && outputs <= ONNX_MOST_AXES
                   ? part_positions(r, &whole, all, outputs, sizes)
                   : onnx_misfit("parts channels behind a sum of positions");
    }
    if (strcmp(part, "D") == 0 && outputs <= ONNX_MOST_AXES && whole.pieces[0] == 0) {
        return part_heads(r, &whole, outputs, sizes);
    }
    if (strcmp(part, "C") == 0 && outputs <= ONNX_MOST_AXES) {
        return part_channels(r, &whole, is_stated, outputs, sizes);
    }
    if (strcmp(part, piece == 0 ? "P" : "H") != 0 || outputs != whole.pieces[piece]) {
        return onnx_misfit("parts dimension %d of [%s] into %d, for which grail has no row", k,
                           text, outputs);
    }
    for (int i = 0; i < outputs; i++) {
        CHECK(take_piece(r, i, &whole, k, i, true));
    }
    return GRAIL_OK;
}

grail_status onnx_reduce_over(onnx_reading *r, node n, int count, const int64_t axes[])
{
    onnx_known *x = NULL;
    char text[ONNX_LAYOUT_SIZE];
    char part[ONNX_LAYOUT_SIZE];
    const bool keeps = onnx_integer_of(r, "keepdims", 1) != 0;
    CHECK(onnx_any_input(r, 0, &x));
    onnx_known y = *x;
    onnx_letters(x, text);
    for (int k = x->rank - 1; k >= 0; k--) { /* from behind, where dimensions go */
        bool goes = false;
        for (int i = 0; i < count; i++) {
            goes = goes || onnx_axis_of(axes[i], x->rank) == k;
        }
        onnx_dimension_text(text, k, part);
        const bool is_position =
            strcmp(part, "T") == 0 || strcmp(part, "Y") == 0 || strcmp(part, "X") == 0;
        if (strlen(part) > 1 || (part[0] != '\0' && goes != is_position)) {
            return onnx_misfit("is over other dimensions than the positions, for which grail has "
                               "no row");
        }
        if (goes) {
            onnx_replace_dimension(text, k, keeps ? "" : NULL);
        }
    }
    n.inputs[0] = x->value; /* which reading it may have made */
    y.one = true;
    onnx_set_layout(&y, text);
    return onnx_give_node(r, &n, y);
}
