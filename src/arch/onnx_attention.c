#include "arch/onnx_attention.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_extents.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_masks.h"
#include "arch/onnx_numbers.h"

#include <math.h>
#include <string.h>

/* The layout of a factor: [prefix, rows, columns]; heads that are repeated count as so many. */
typedef struct sides {
    char prefix[ONNX_LAYOUT_SIZE], rows[ONNX_LAYOUT_SIZE], columns[ONNX_LAYOUT_SIZE];
    bool fits;
} sides;

/* All channels of a single head are its features. */
static void name_features(char *letters)
{
    if (strcmp(letters, "C") == 0) {
        *letters = 'D';
    }
}

/* The letters of `text` that are among others. */
static void letters_among(const char *text, const char *others, char *out)
{
    for (; *text != '\0'; text++) {
        if (strchr(others, *text) != NULL) {
            *out++ = *text;
        }
    }
    *out = '\0';
}

/* Whether a factor has all positions of a sample in one dimension, or those of each window, or the
 * windows at each place within them. */
static bool are_runs(const onnx_known *x, const sides *s)
{
    char all[ONNX_LAYOUT_SIZE];
    char outer[ONNX_LAYOUT_SIZE];
    char before[ONNX_LAYOUT_SIZE];
    const bool is_turned =
        strcmp(s->rows, "S") == 0 || strcmp(s->rows, "D") == 0 || strcmp(s->rows, "C") == 0;
    const char *positions = is_turned ? s->columns : s->rows;
    letters_among(s->prefix, "VUYX", before);
    if (x->windows.height == 0) {
        return *before == '\0';
    }
    onnx_letters(x, all);
    letters_among(all, "VU", outer);
    return (strcmp(before, outer) == 0 && strcmp(positions, "YX") == 0) ||
           (strcmp(before, "YX") == 0 && strcmp(positions, "VU") == 0);
}

static sides sides_of(const onnx_known *x)
{
    sides s = {.fits = false};
    onnx_letters(x, s.prefix);
    for (int i = 0; i < 2; i++) {
        char *comma = strrchr(s.prefix, ',');
        if (comma == NULL) {
            return s;
        }
        memcpy(i == 0 ? s.columns : s.rows, comma + 1, strlen(comma));
        *comma = '\0';
    }
    char *repeat = strchr(s.prefix, 'R');
    if (repeat != NULL && strchr(s.prefix, 'H') == NULL) { /* of a single one */
        *repeat = 'H';
        name_features(s.rows);
        name_features(s.columns);
    } else if (repeat != NULL) {
        memmove(repeat, repeat + 1, strlen(repeat));
    }
    /* Samples, windows of these, and heads where channels are parted. */
    const bool has_heads = strchr(s.prefix, 'H') != NULL;
    size_t letters = 0;
    for (const char *at = s.prefix; *at != '\0'; at++) {
        letters += strchr(",VUYX", *at) == NULL ? 1 : 0;
    }
    s.fits = strchr(s.prefix, 'N') != NULL && letters == (has_heads ? 2 : 1) &&
             has_heads == (x->pieces[2] > 0 || x->repeats > 0) && are_runs(x, &s);
    return s;
}

static bool spans_windows(const sides *queries)
{
    return strcmp(queries->rows, "VU") == 0;
}

static double factor_of(const onnx_known *x)
{
    return x->factor == 0.0 ? 1.0 : x->factor;
}

static int64_t head_width(const onnx_known *x)
{
    return x->pieces[2] > 0 ? x->pieces[2] : x->width;
}

/* As many as queries have of their own. */
static int64_t head_count(const onnx_known *x)
{
    return x->width / head_width(x) * (x->repeats > 0 ? x->repeats : 1);
}

static bool is_head(const char *letters)
{
    return strcmp(letters, "D") == 0 || strcmp(letters, "C") == 0;
}

static grail_status misfit_of_products(void)
{
    return onnx_misfit("multiplies two values that are no heads of attention [samples, heads, "
                       "positions, features]; grail has no row for that");
}

/* Queries attend to keys and values at their own positions, all of which are in one letter. */
static grail_status check_positions(onnx_reading *r, int left, int right)
{
    const onnx_known a = {.value = left};
    const onnx_known b = {.value = right};
    extent of[2];
    CHECK(onnx_positions_of(r, &a, &of[0]));
    CHECK(onnx_positions_of(r, &b, &of[1]));
    return of[0].height * of[0].width == of[1].height * of[1].width
               ? GRAIL_OK
               : onnx_misfit(
                     "is attention to %lld other positions than the %lld of the queries, for "
                     "which grail has no row",
                     (long long)(of[1].height * of[1].width),
                     (long long)(of[0].height * of[0].width));
}

static grail_status give_scores(onnx_reading *r, onnx_known *x, onnx_known *y, const sides *left,
                                const sides *right)
{
    if (!is_head(left->columns) || strcmp(left->columns, right->rows) != 0 ||
        head_width(x) != head_width(y) || strcmp(left->rows, right->columns) != 0 ||
        head_count(x) != head_count(y) || x->repeats > 0 || !onnx_moves_alike(x, y)) {
        return misfit_of_products();
    }
    CHECK(onnx_settle(r, x));
    CHECK(onnx_settle(r, y));
    CHECK(check_positions(r, x->value, y->value));
    onnx_known scores = *x;
    char text[ONNX_LAYOUT_SIZE];
    onnx_letters(x, text);
    onnx_replace_dimension(text, x->rank - 1, "S");
    scores.form = ONNX_SCORES;
    scores.spans_windows = spans_windows(left);
    scores.query = x->value;
    scores.key = y->value;
    scores.value = GRAPH_NONE;
    scores.linear = 0;
    scores.factor = factor_of(x) * factor_of(y);
    scores.slope = 0.0;
    onnx_set_layout(&scores, text);
    return onnx_give(r, 0, scores);
}

/* Its output is laid out as `like`, and has so many heads. */
static grail_status add_attention(onnx_reading *r, int query, int key, onnx_known *v,
                                  const onnx_known *like, const onnx_known *scores, int64_t heads,
                                  attention_attributes attributes)
{
    CHECK(check_positions(r, query, key));
    CHECK(check_positions(r, query, v->value));
    node n = node_of(NODE_ATTENTION, GRAPH_NONE, query, key);
    n.inputs[2] = v->value;
    n.input_count = 3;
    n.attention = attributes;
    if (onnx_is_moved(v)) {
        n.attention.windows = v->windows.height > 0 ? v->windows : (extent){1, 1};
        n.attention.roll = v->roll;
        n.attention.spans_windows = scores->spans_windows;
    }
    CHECK(onnx_bias_attention(r, scores, heads, &n));
    return onnx_give_node(r, &n, *like);
}

/* Rows see all, or back alone, or as far ahead as back. */
static grail_status check_sight(const onnx_known *scores)
{
    return scores->ahead == 1 || scores->ahead == scores->behind
               ? GRAIL_OK
               : onnx_misfit("is attention that looks %lld positions ahead and %lld back, for "
                             "which grail has no row",
                             (long long)scores->ahead, (long long)scores->behind);
}

/* Values of `own` heads, which those of queries share, come out as so many. */
static void lay_as_queries(const onnx_known *query, int64_t heads, int64_t own, onnx_known *y)
{
    char text[ONNX_LAYOUT_SIZE];
    const int64_t width = y->width / own;
    if (heads == own) {
        return;
    }
    if (query->pieces[2] > 0) {
        onnx_letters(query, text);
        onnx_replace_dimension(text, query->rank - 1, "D");
        y->pieces[1] = heads;
        y->pieces[2] = width;
        y->repeats = 0;
        onnx_set_layout(y, text);
    }
    y->width = heads * width;
}

static grail_status give_attention(onnx_reading *r, const onnx_known *x, onnx_known *v,
                                   const sides *left, const sides *right)
{
    const int64_t query_width = head_width(x);
    CHECK(check_sight(x));
    if (strcmp(left->columns, "S") != 0 || strcmp(left->rows, right->rows) != 0 ||
        !is_head(right->columns) || v->factor != 0.0 || head_count(v) != x->width / query_width ||
        !onnx_moves_alike(x, v)) {
        return misfit_of_products();
    }
    CHECK(onnx_settle(r, v));
    onnx_known y = *v;
    lay_as_queries(x, head_count(v), v->width / head_width(v), &y);
    return add_attention(
        r, x->query, x->key, v, &y, x, x->width / query_width,
        (attention_attributes){.head_dim = query_width,
                               .window = x->behind,
                               .bidirectional = x->ahead != 1,
                               .scale = factor_of(x) * (x->slope == 0.0 ? 1.0 : x->slope),
                               .cap = x->slope == 0.0 ? 0.0 : factor_of(x)});
}

/* What the transposed matrices have. */
static sides turned(const sides *s)
{
    sides out = *s;
    memcpy(out.rows, s->columns, sizeof out.rows);
    memcpy(out.columns, s->rows, sizeof out.columns);
    return out;
}

grail_status onnx_multiply_heads(onnx_reading *r)
{
    onnx_known *x = NULL;
    onnx_known *y = NULL;
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(onnx_laid_input(r, 1, &y));
    const sides left = sides_of(x);
    const sides right = sides_of(y);
    if (!left.fits || !right.fits || strcmp(left.prefix, right.prefix) != 0 ||
        (y->form != ONNX_VALUE && (y->form != ONNX_SHARES || x->form != ONNX_VALUE)) ||
        x->form == ONNX_SCORES) {
        return misfit_of_products();
    }
    if (y->form == ONNX_SHARES) { /* values times shares, both the other way round */
        const sides of_shares = turned(&right);
        const sides of_values = turned(&left);
        return give_attention(r, y, x, &of_shares, &of_values);
    }
    return x->form == ONNX_SHARES ? give_attention(r, x, y, &left, &right)
                                  : give_scores(r, x, y, &left, &right);
}

/* Whether the first output of the node at hand is one of the network. */
static bool ends_network(const onnx_reading *r)
{
    bool found = false;
    for (int i = 0; i < r->file->output_count; i++) {
        found = found || r->file->outputs[i] == r->node->outputs[0];
    }
    return found;
}

/* Whether the dimensions from `axis` on, or that one alone in newer operator sets, are all channels
 * of single positions. */
static bool is_over_channels(const onnx_reading *r, const onnx_known *x, int axis)
{
    const int channels = onnx_channel_dimension(x);
    const bool joins = r->file->opset < 13 && axis != x->rank - 1;
    return channels > 0 && axis >= 0 && (joins ? axis <= channels && x->one : axis == channels);
}

/* The shares of scores; or those of the classes: the network ends before that, so that what is
 * compared are its logits. */
grail_status onnx_read_softmax(onnx_reading *r)
{
    onnx_known *x = NULL;
    const int64_t usual = r->file->opset < 13 ? 1 : -1;
    CHECK(onnx_laid_input(r, 0, &x));
    const bool is_of_scores = x->form == ONNX_SCORES;
    if (!is_of_scores) {
        CHECK(ends_network(r) ? onnx_any_input(r, 0, &x) : onnx_value_input(r, 0, &x));
        CHECK(ends_network(r) ? GRAIL_OK : onnx_needs_rank(x, FLAT_RANK));
    }
    const int axis = onnx_axis_of(onnx_integer_of(r, "axis", usual), x->rank);
    if (is_of_scores ? axis != x->rank - 1 : !is_over_channels(r, x, axis)) {
        return onnx_misfit("is over another dimension than the last one, or not over channels, for "
                           "which grail has no row");
    }
    onnx_known y = *x;
    y.form = is_of_scores ? ONNX_SHARES : ONNX_PROBABILITIES;
    return onnx_give(r, 0, y);
}

/* [samples, heads, positions, features], or [samples, positions, channels] of so many heads, which
 * the operator of ONNX states for queries and for keys, others for both. */
grail_status onnx_read_attention(onnx_reading *r)
{
    enum { MASK = 3 };
    onnx_known *in[3];
    sides s[3];
    int64_t heads[3];
    const bool states_both = onnx_node_attribute(r->node, "num_heads") != NULL;
    const char *names[] = {states_both ? "num_heads" : "q_num_heads",
                           states_both ? "num_heads" : "kv_num_heads"};
    bool fits = r->node->node.output_count == 1 && onnx_real_of(r, "softcap", 0.0) == 0.0;
    for (int i = 0; i < r->node->node.input_count; i++) {
        fits = fits && (i < 3 || (i == MASK && !states_both) || !onnx_has_input(r, i));
    }
    for (int i = 0; i < 3; i++) {
        CHECK(onnx_laid_input(r, i, &in[i]));
        s[i] = sides_of(in[i]);
        const bool are_laid = in[i]->pieces[2] > 0 || in[i]->repeats > 0;
        heads[i] = are_laid ? head_count(in[i]) : onnx_integer_of(r, names[i > 0 ? 1 : 0], 1);
        fits = fits && s[i].fits && is_head(s[i].columns) && in[i]->form == ONNX_VALUE &&
               in[i]->factor == 0.0 && strcmp(s[i].prefix, s[0].prefix) == 0 &&
               strcmp(s[i].rows, s[0].rows) == 0 && onnx_moves_alike(in[i], in[0]) &&
               heads[i] >= 1 && (are_laid || in[i]->width % heads[i] == 0) &&
               heads[i] == heads[i > 0 ? 1 : 0];
    }
    if (!fits || heads[0] % heads[1] != 0 || in[0]->repeats > 0) {
        return onnx_misfit("is attention with a cap, earlier keys or other heads, for which grail "
                           "has no row in networks of ONNX");
    }
    const int64_t head_dim = in[0]->pieces[2] > 0 ? head_width(in[0]) : in[0]->width / heads[0];
    const double scale = onnx_real_of(r, "scale", 0.0); /* 0 where others leave it to the heads */
    const bool is_causal =
        onnx_integer_of(r, "is_causal", 0) != 0 || onnx_integer_of(r, "unidirectional", 0) != 0;
    onnx_known scores = {.ahead = is_causal ? 1 : 0,
                         .windows = in[0]->windows,
                         .spans_windows = spans_windows(&s[0])};
    if (onnx_has_input(r, MASK)) {
        const int element = r->file->values[r->node->inputs[MASK]].element;
        CHECK(element != 0 ? onnx_hide(r, MASK, element == ONNX_BOOL, true, &scores)
                           : onnx_misfit("has a mask whose type is not declared"));
    }
    CHECK(check_sight(&scores));
    for (int i = 0; i < 3; i++) {
        CHECK(onnx_settle(r, in[i]));
    }
    for (int i = 0; i < (states_both ? 1 : 2); i++) {
        CHECK(onnx_node_attribute(r->node, names[i]) == NULL
                  ? GRAIL_OK
                  : onnx_note_channels(r, names[i], 0, 0, onnx_channels_of(in[i])));
    }
    onnx_known y = *in[2];
    lay_as_queries(in[0], heads[0], in[2]->repeats > 0 ? heads[2] / in[2]->repeats : heads[2], &y);
    return add_attention(
        r, in[0]->value, in[1]->value, in[2], &y, &scores, heads[0],
        (attention_attributes){.head_dim = head_dim,
                               .window = scores.behind,
                               .bidirectional = scores.ahead != 1,
                               .scale = scale == 0.0 ? 1.0 / sqrt((double)head_dim) : scale});
}

/* -- scales ------------------------------------------------------------------------------------ */

static bool is_scaled(const onnx_known *x)
{
    return x->form == ONNX_SCORES || (x->form == ONNX_VALUE && x->pieces[2] > 0 &&
                                      (x->value != GRAPH_NONE || x->linear != 0));
}

grail_status onnx_cap_scores(onnx_reading *r)
{
    onnx_known y = *onnx_known_input(r, 0);
    if (y.slope != 0.0 || y.behind > 0 || y.ahead > 0 || y.biased != 0) {
        return onnx_misfit("caps scores of attention a second time, or hidden ones");
    }
    y.slope = factor_of(&y);
    y.factor = 1.0;
    return onnx_give(r, 0, y);
}

bool onnx_scales_heads(const onnx_reading *r)
{
    return onnx_has_input(r, 0) && onnx_has_input(r, 1) &&
           (is_scaled(onnx_known_input(r, 0)) || is_scaled(onnx_known_input(r, 1)));
}

grail_status onnx_scale_heads(onnx_reading *r, bool divides)
{
    const int at = is_scaled(onnx_known_input(r, 0)) ? 0 : 1;
    onnx_known y = *onnx_known_input(r, at);
    onnx_numbers list;
    CHECK(onnx_numbers_of(r, 1 - at, &list));
    const bool is_one = list.is_known && list.count == 1 && !list.items[0].is_open &&
                        !list.items[0].per_sample && (at == 0 || !divides);
    const onnx_number n = is_one ? list.items[0] : (onnx_number){0};
    memory_free(list.items);
    const double number = n.is_real ? n.real : (double)n.factor;
    const double by = divides ? 1.0 / number : number;
    if (!is_one || !isfinite(by) || by == 0.0 || y.biased != 0) {
        return onnx_misfit("multiplies heads or scores of attention by what is not one number that "
                           "is known");
    }
    y.factor = factor_of(&y) * by;
    CHECK(onnx_note_stays(r, &n));
    return onnx_give(r, 0, y);
}
