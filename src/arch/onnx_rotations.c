#include "arch/onnx_rotations.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_extents.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_numbers.h"
#include "arch/onnx_region_shapes.h"
#include "arch/onnx_search.h"
#include "arch/onnx_trials.h"

#include <math.h>
#include <string.h>

/* How far values may be from those of a rotation: angles are products in f32, of positions up to
 * ONNX_LONGEST_TRIED, and tables may be in FLOAT16. */
static const double tolerance = 4e-3;

/* -- the nodes: x cos + z sin, z the features of x in another order ---------------------------- */

enum { DEEPEST_ORDER = 8 };

/* Whether a value is made of x alone, by nodes that take parts of it, turn their signs and put them
 * together, which are swallowed. */
static bool is_made_of(search *s, int64_t value, int64_t x, int depth)
{
    static const char *const names[] = {"Slice",   "Split",     "Neg",     "Concat", "Cast",
                                        "Reshape", "Unsqueeze", "Squeeze", "Gather", "Flatten"};
    const int64_t at = value < 0 ? -1 : s->r->file->values[value].node;
    bool fits = at >= 0 && depth < DEEPEST_ORDER && s->count < MOST_SWALLOWED;
    size_t i = 0;
    if (value == x) {
        return true;
    }
    while (fits && i < sizeof names / sizeof names[0] && search_check(s, at, names[i]) < 0) {
        i++;
    }
    fits = fits && i < sizeof names / sizeof names[0];
    if (fits) {
        search_swallow(s, at);
    }
    const int inputs = !fits                                ? 0
                       : search_check(s, at, "Concat") >= 0 ? search_node(s, at)->node.input_count
                                                            : 1;
    for (int k = 0; k < inputs && fits; k++) {
        fits = is_made_of(s, search_input(s, at, k), x, depth + 1);
    }
    return fits;
}

/* The value that x is the same as in front of Casts, up to one that `value` is made of, too; -1:
 * there is none. */
static int64_t common_source(search *s, int64_t x, int64_t value)
{
    for (int i = 0; i < 3 && x >= 0; i++) {
        s->count = 0;
        if (x != value && is_made_of(s, value, x, 0)) {
            return x;
        }
        x = search_input(s, search_maker(s, x, "Cast"), 0);
    }
    return -1;
}

/* The nodes among those that are swallowed which state sizes; false: there are more than two, or
 * none turns a sign. */
static bool find_reshapes(const search *s, int64_t out[2])
{
    int count = 0;
    bool turns_sign = false;
    out[0] = out[1] = -1;
    for (int i = 0; i < s->count; i++) {
        const int64_t at = s->nodes[i];
        const bool states = search_check(s, at, "Reshape") >= 0;
        turns_sign = turns_sign || search_check(s, at, "Neg") >= 0;
        if (states && (count == 2 || search_node(s, at)->node.input_count < 2)) {
            return false;
        }
        if (states) {
            out[count++] = at;
        }
    }
    return turns_sign;
}

/* A part of what another node takes x from. */
static int64_t whole_of(const search *s, int64_t value)
{
    const int64_t at = value < 0 ? -1 : s->r->file->values[value].node;
    return at >= 0 && (search_check(s, at, "Slice") >= 0 || search_check(s, at, "Split") >= 0)
               ? search_input(s, at, 0)
               : -1;
}

/* Features of the head, or positions, that are not turned lie behind the others, or before. */
static void take_others(search *s, onnx_pattern *p)
{
    const int64_t made = search_node(s, p->last)->outputs[0];
    const int64_t whole = whole_of(s, p->input);
    const int64_t concat = whole < 0 ? -1 : search_reader(s, p->last, "Concat");
    const int64_t rest = concat < 0 || search_node(s, concat)->node.input_count != 2
                             ? -1
                             : search_other(s, concat, made);
    if (rest >= 0 && whole_of(s, rest) == whole && s->count + 3 <= MOST_SWALLOWED) {
        search_swallow(s, p->last);
        search_swallow(s, s->r->file->values[p->input].node);
        search_swallow(s, s->r->file->values[rest].node);
        p->last = concat;
        p->input = whole;
    }
}

bool onnx_find_rotation(search *s, int64_t root, onnx_pattern *p)
{
    for (int i = 0; i < 8 && search_node(s, root)->node.input_count == 2; i++) {
        const int64_t plain = search_maker(s, search_input(s, root, i % 2), "Mul");
        const int64_t across = search_maker(s, search_input(s, root, 1 - i % 2), "Mul");
        const int64_t order = search_input(s, across, i / 2 % 2);
        const int64_t x = common_source(s, search_input(s, plain, i / 4), order);
        if (x < 0 || order < 0 || plain == across || search_reader(s, plain, "Add") != root ||
            search_reader(s, across, "Add") != root || s->count + 2 > MOST_SWALLOWED ||
            s->r->file->values[x].tensor >= 0) {
            continue;
        }
        int64_t reshapes[2];
        if (!find_reshapes(s, reshapes)) {
            continue;
        }
        search_swallow(s, plain);
        search_swallow(s, across);
        *p = (onnx_pattern){.kind = ONNX_ROTATION,
                            .reshapes = {reshapes[0], reshapes[1]},
                            .last = root,
                            .input = x,
                            .number = search_input(s, plain, 1 - i / 4),
                            .weight = search_input(s, across, 1 - i / 2 % 2)};
        take_others(s, p);
        return true;
    }
    return false;
}

/* -- heads of one sample ----------------------------------------------------------------------- */

/* [heads, length, width], or with `positions_first` [length, heads, width]. */
typedef struct heads {
    region_value form;
    int64_t count, length, width;
    bool positions_first;
} heads;

/* [N, H, T, D] and [N, T, H, D], perhaps of a single head. */
static grail_status lay_heads(onnx_reading *r, int64_t value, const onnx_known *x, heads *out)
{
    static const char *const orders[] = {"N,H,T,D", "N,,T,C", "N,T,H,D", "N,T,,C"};
    char text[ONNX_LAYOUT_SIZE];
    extent at = {0};
    size_t i = 0;
    onnx_letters(x, text);
    while (i < sizeof orders / sizeof orders[0] && strcmp(text, orders[i]) != 0) {
        i++;
    }
    if (i == sizeof orders / sizeof orders[0]) {
        return onnx_misfit("turns what are no heads [samples, heads, positions, features]");
    }
    CHECK(onnx_known_positions(r, x, &at));
    const int64_t count = x->pieces[1] > 0 ? x->pieces[1] : 1;
    *out = (heads){.count = count,
                   .length = at.height * at.width,
                   .width = x->width / count,
                   .positions_first = i >= 2};
    out->form =
        (region_value){.value = value, .rank = REGION_IMAGE, .width = out->width, .channels = 3};
    return onnx_is_half(r, value, &out->form.is_half);
}

static int64_t element_of(const heads *h, int64_t head, int64_t position, int64_t feature)
{
    const int64_t row =
        h->positions_first ? position * h->count + head : head * h->length + position;
    return row * h->width + feature;
}

/* x[count] <- numbers between -1 and 1 that repeat nowhere near, and that are not small. */
static void fill(int64_t count, double start, float *x)
{
    for (int64_t i = 0; i < count; i++) {
        const double turn = sin(start + (double)(i + 1) * (double)(i + 1) * 0.37);
        x[i] = (float)(turn + (turn < 0.0 ? -0.3 : 0.3));
    }
}

/* *x, *y <- heads of `length` positions, and what the nodes make of them; owned: memory_free. */
static grail_status try_heads(const onnx_reading *r, int64_t value, double start, heads *h,
                              float **x, tensor_view *y)
{
    enum { MOST_TRIED = 1 << 27 };
    int64_t made = 0;
    int64_t count = 0;
    const int64_t shape[] = {h->count, h->length, h->width};
    if (!shape_elements(3, shape, &count) || count > MOST_TRIED) {
        return onnx_misfit("turns heads of more than %d numbers in a sample", MOST_TRIED);
    }
    CHECK(memory_new(x, (size_t)count, sizeof **x));
    fill(count, start, *x);
    const onnx_trial t = {.value = value,
                          .length = h->length,
                          .given = h->form.value,
                          .form = h->form,
                          .at = {h->positions_first ? h->length : h->count,
                                 h->positions_first ? h->count : h->length},
                          .values = *x};
    CHECK(onnx_try(r, &t, y));
    return y->data != NULL && shape_elements(y->rank, y->shape, &made) && made == count
               ? GRAIL_OK
               : onnx_misfit("makes another number of features of heads than it reads");
}

/* -- angles ------------------------------------------------------------------------------------ */

/* The features of pair k. */
static void pair_of(const onnx_rotation *a, int64_t k, int64_t pair[2])
{
    pair[0] = a->neighbours ? 2 * k : k;
    pair[1] = a->neighbours ? 2 * k + 1 : a->turned / 2 + k;
}

static double angle_at(const onnx_rotation *a, int64_t position, int64_t k)
{
    return a->grows ? (double)position * a->angles[k] : a->angles[position * (a->turned / 2) + k];
}

/* Whether y is x, turned. */
static bool is_turned(const heads *h, const onnx_rotation *a, const float *x, const float *y)
{
    for (int64_t head = 0; head < h->count; head++) {
        for (int64_t position = 0; position < h->length; position++) {
            const int64_t row = element_of(h, head, position, 0);
            for (int64_t k = 0; k < a->turned / 2; k++) {
                int64_t pair[2];
                pair_of(a, k, pair);
                const double angle = angle_at(a, position, k);
                const double c = a->factor * cos(angle);
                const double s = a->factor * sin(angle);
                const double u = (double)x[row + pair[0]];
                const double v = (double)x[row + pair[1]];
                const double far = fabs((double)y[row + pair[0]] - (c * u - s * v)) +
                                   fabs((double)y[row + pair[1]] - (s * u + c * v));
                if (!(far <= tolerance * fmax(1.0, a->factor))) {
                    return false;
                }
            }
            for (int64_t i = a->turned; i < h->width; i++) {
                if (!(fabs((double)y[row + i] - (double)x[row + i]) <= tolerance)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* The features up to the last one that changes. */
static int64_t count_turned(const heads *h, const float *x, const float *y)
{
    int64_t turned = 0;
    for (int64_t i = 0; i < h->count * h->length * h->width; i++) {
        const bool stays = fabs((double)y[i] - (double)x[i]) <= tolerance;
        turned = !stays && i % h->width >= turned ? i % h->width + 1 : turned;
    }
    return turned + turned % 2 <= h->width ? turned + turned % 2 : turned;
}

/* angles[length, turned / 2] and the factor, as the first head has them. */
static void measure(const heads *h, const float *x, const float *y, onnx_rotation *a)
{
    a->factor = 0.0;
    for (int64_t position = 0; position < h->length; position++) {
        for (int64_t k = 0; k < a->turned / 2; k++) {
            int64_t pair[2];
            pair_of(a, k, pair);
            const int64_t row = element_of(h, 0, position, 0);
            const double u = (double)x[row + pair[0]];
            const double v = (double)x[row + pair[1]];
            const double p = (double)y[row + pair[0]];
            const double q = (double)y[row + pair[1]];
            const double c = (p * u + q * v) / (u * u + v * v);
            const double s = (q * u - p * v) / (u * u + v * v);
            a->angles[position * (a->turned / 2) + k] = atan2(s, c);
            a->factor = fmax(a->factor, sqrt(c * c + s * s));
        }
    }
}

/* Angles that grow with the position are those of a frequency: each step doubles the distance, over
 * which the angle is known to less than half a turn. Else they stay a table. */
static void find_growth(const heads *h, const float *x, const float *y, onnx_rotation *a)
{
    const int64_t half = a->turned / 2;
    double *table = a->angles;
    double *frequency = table + h->length * half;
    memset(frequency, 0, (size_t)half * sizeof frequency[0]);
    for (int64_t k = 0; k < half; k++) {
        for (int64_t at = 1; at < h->length; at *= 2) {
            const double rest = table[at * half + k] - frequency[k] * (double)at;
            frequency[k] += remainder(rest, 2.0 * acos(-1.0)) / (double)at;
        }
    }
    a->grows = true;
    a->angles = frequency;
    a->grows = h->length > 2 && is_turned(h, a, x, y);
    a->angles = table;
    if (a->grows) {
        memmove(table, frequency, (size_t)half * sizeof table[0]);
    }
}

/* Tries pairs of both halves, and of neighbours. */
static grail_status find_angles(const heads *h, const float *x, const float *y, onnx_rotation *a)
{
    a->turned = count_turned(h, x, y);
    a->length = h->length;
    const size_t count = (size_t)(h->length + 1) * (size_t)(a->turned / 2) + 1;
    CHECK(memory_new(&a->angles, count, sizeof a->angles[0]));
    for (int i = 0; i < 2 && a->turned > 0 && a->turned % 2 == 0; i++) {
        a->neighbours = i == 1;
        measure(h, x, y, a);
        if (is_turned(h, a, x, y)) {
            find_growth(h, x, y, a);
            return GRAIL_OK;
        }
    }
    return onnx_misfit("multiplies heads and their features in another order by what follows from "
                       "positions, and does not turn pairs of features");
}

/* The longest samples first; those that tables of the file do not reach fail. */
static grail_status try_long(const onnx_reading *r, int64_t value, heads h, onnx_rotation *a)
{
    grail_status status = GRAIL_ERROR_UNSUPPORTED;
    const bool is_open = h.length % ONNX_OPEN_LENGTH == 0;
    h.length = is_open ? ONNX_LONGEST_TRIED : h.length;
    while (status == GRAIL_ERROR_UNSUPPORTED && h.length >= 2 && a->angles == NULL) {
        float *x = NULL;
        tensor_view y = {0};
        status = try_heads(r, value, 0.0, &h, &x, &y);
        status = status == GRAIL_OK ? find_angles(&h, x, y.data, a) : status;
        memory_free(x);
        memory_free((void *)(uintptr_t)y.data);
        h.length = is_open && ort_load() == GRAIL_OK ? h.length / 2 : 0;
    }
    return status;
}

/* Finds the angles once for all readings. */
static grail_status find_rotation(const onnx_reading *r, const onnx_pattern *p, int64_t value,
                                  const heads *h, onnx_rotation **out)
{
    onnx_barriers *b = r->barriers;
    for (int64_t i = 0; i < b->rotation_count; i++) {
        if (b->rotations[i].cosines == p->number && b->rotations[i].sines == p->weight) {
            *out = &b->rotations[i];
            return GRAIL_OK;
        }
    }
    CHECK(memory_reserve(&b->rotations, (size_t)b->rotation_count + 1, sizeof b->rotations[0]));
    *out = &b->rotations[b->rotation_count++];
    **out = (onnx_rotation){.cosines = p->number, .sines = p->weight};
    const grail_status status = try_long(r, value, *h, *out);
    if (status == GRAIL_ERROR_UNSUPPORTED || status == GRAIL_ERROR_SHAPE) {
        char why[ONNX_REASON_SIZE];
        error_copy(why, sizeof why);
        return memory_copy_string(&(*out)->refusal, why);
    }
    return status;
}

/* The nodes do to these heads, too, what was found. */
static grail_status check_nodes(const onnx_reading *r, int64_t value, heads h,
                                const onnx_rotation *a)
{
    grail_status status = GRAIL_OK;
    float *x = NULL;
    tensor_view y = {0};
    h.length = h.length % ONNX_OPEN_LENGTH == 0 ? ONNX_SHORTEST_TRIED : h.length;
    TRY(try_heads(r, value, 1.0, &h, &x, &y));
    TRY(h.width >= a->turned && (a->grows || h.length <= a->length) && is_turned(&h, a, x, y.data)
            ? GRAIL_OK
            : onnx_misfit("turns features of heads otherwise than others that are multiplied by "
                          "the same cosines and sines"));
out:
    memory_free(x);
    memory_free((void *)(uintptr_t)y.data);
    return status;
}

/* Sizes that nodes between state follow the heads in the dimension of these, and stay elsewhere. */
static grail_status note_sizes(onnx_reading *r, const onnx_pattern *p, const onnx_known *x,
                               const heads *h)
{
    const onnx_file_node *own = r->node;
    const int of_heads = h->positions_first ? 2 : 1;
    grail_status status = GRAIL_OK;
    for (int i = 0; i < 2 && p->reshapes[i] >= 0 && status == GRAIL_OK; i++) {
        onnx_numbers to = {0};
        r->node = &r->file->nodes[p->reshapes[i]];
        status = onnx_numbers_of(r, 1, &to);
        for (int k = 0; status == GRAIL_OK && k < to.count; k++) {
            onnx_channels of = {.value = GRAPH_NONE};
            if (k == of_heads && x->pieces[1] > 0) {
                of = onnx_channels_of(x);
                of.second = false;
            }
            status = to.items[k].element >= 0 ? onnx_note_number(r, &to.items[k], &of) : GRAIL_OK;
        }
        status = status != GRAIL_OK || to.is_known
                     ? status
                     : onnx_misfit("puts turned features together by sizes that are not known");
        memory_free(to.items);
    }
    r->node = own;
    return status;
}

grail_status onnx_read_rotation(onnx_reading *r, const onnx_pattern *p, onnx_known *x)
{
    grail_status status = GRAIL_OK;
    onnx_rotation *a = NULL;
    double *table = NULL;
    heads h;
    TRY(lay_heads(r, p->input, x, &h));
    TRY(find_rotation(r, p, r->node->outputs[0], &h, &a));
    TRY(a->refusal == NULL ? GRAIL_OK : onnx_misfit("%s", a->refusal));
    TRY(check_nodes(r, r->node->outputs[0], h, a));
    TRY(note_sizes(r, p, x, &h));
    TRY(onnx_check_order(x));
    TRY(onnx_settle(r, x));
    node n = onnx_plain(NODE_ROPE, x, NULL);
    const size_t count = (size_t)(a->turned / 2 * (a->grows ? 1 : a->length));
    TRY(memory_new(&table, count, sizeof table[0]));
    memcpy(table, a->angles, count * sizeof table[0]);
    n.rope = (rope_attributes){.head_dim = h.width,
                               .turned = a->turned,
                               .factor = a->factor,
                               .frequency = a->grows ? table : NULL,
                               .angles = a->grows ? NULL : table,
                               .positions = a->length,
                               .neighbours = a->neighbours};
    TRY(graph_own_table(r->g, &table));
    onnx_note_longest(r, a->length);
    TRY(onnx_give_node(r, &n, *x));
out:
    memory_free(table);
    return status;
}
