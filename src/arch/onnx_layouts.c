#include "arch/onnx_layouts.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_extents.h"
#include "arch/onnx_numbers.h"
#include "graph/operators.h"

#include <string.h>

enum { MOST_FACTORS = 16 };

/* A letter of a layout, as a factor of a dimension. */
typedef struct factor {
    char letter;
    int dimension;
    int64_t size; /* 0: not known */
    bool per_sample;
    int place; /* of channels: 0 for the outermost piece */
} factor;

typedef struct dimensions {
    int rank, count;
    factor items[MOST_FACTORS];
} dimensions;

static const char piece_letters[] = "PHD";

static bool is_channel(char letter)
{
    return letter == 'C' || strchr(piece_letters, letter) != NULL;
}

/* -- factors of dimensions --------------------------------------------------------------------- */

static int64_t size_of(const onnx_reading *r, const onnx_known *x, extent positions, char letter)
{
    const char *piece = strchr(piece_letters, letter);
    if (x->windows.height > 0) {
        positions.height /= x->windows.height;
        positions.width /= x->windows.width;
    }
    return letter == 'N'                       ? (r->samples > 0 ? r->samples : 1)
           : letter == 'C'                     ? x->width
           : letter == 'Y'                     ? positions.height
           : letter == 'X'                     ? positions.width
           : letter == 'V'                     ? x->windows.height
           : letter == 'U'                     ? x->windows.width
           : letter == 'R'                     ? x->repeats
           : letter == 'S' && x->spans_windows ? x->windows.height * x->windows.width
           : piece != NULL                     ? x->pieces[piece - piece_letters]
                                               : positions.height * positions.width;
}

static int place_of(const onnx_known *x, char letter)
{
    int place = 0;
    for (int i = 0; piece_letters[i] != letter && i < ONNX_PIECES && letter != 'C'; i++) {
        place += x->pieces[i] > 0 ? 1 : 0;
    }
    return place;
}

static grail_status lay_out(onnx_reading *r, const onnx_known *x, dimensions *out)
{
    char text[ONNX_LAYOUT_SIZE];
    extent positions;
    onnx_letters(x, text);
    CHECK(onnx_positions_of(r, x, &positions));
    *out = (dimensions){.rank = 1};
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == ',') {
            out->rank++;
        } else {
            out->items[out->count++] = (factor){.letter = *at,
                                                .dimension = out->rank - 1,
                                                .size = size_of(r, x, positions, *at),
                                                .per_sample = *at == 'N' && r->samples == 0,
                                                .place = place_of(x, *at)};
        }
    }
    return GRAIL_OK;
}

static void remove_factor(dimensions *d, int i)
{
    d->count--;
    memmove(&d->items[i], &d->items[i + 1], (size_t)(d->count - i) * sizeof d->items[0]);
}

static int64_t size_of_letter(const dimensions *d, char letter)
{
    int64_t size = 0;
    for (int i = 0; i < d->count; i++) {
        size = d->items[i].letter == letter ? d->items[i].size : size;
    }
    return size;
}

/* Windows whose rows, or columns, lie one after the other are none. */
static void join_windows(dimensions *d, extent *windows)
{
    for (int i = 0; i + 1 < d->count; i++) {
        factor *a = &d->items[i];
        const factor *b = &d->items[i + 1];
        const bool follow =
            (a->letter == 'V' && b->letter == 'Y') || (a->letter == 'U' && b->letter == 'X');
        if (follow && a->dimension == b->dimension) {
            a->size *= b->size;
            a->letter = b->letter;
            remove_factor(d, i + 1);
        }
    }
    const int64_t rows = size_of_letter(d, 'V');
    const int64_t columns = size_of_letter(d, 'U');
    *windows = rows + columns == 0 ? (extent){0}
                                   : (extent){rows > 0 ? rows : 1, columns > 0 ? columns : 1};
}

/* Puts neighbours of one dimension together: pieces that follow each other, rows and columns. */
static void join_neighbours(dimensions *d, const extent *windows)
{
    for (int i = 0; i + 1 < d->count;) {
        factor *a = &d->items[i];
        const factor *b = &d->items[i + 1];
        const bool pieces =
            is_channel(a->letter) && is_channel(b->letter) && b->place == a->place + 1;
        const bool lines = a->letter == 'Y' && b->letter == 'X' && windows->height == 0;
        if (a->dimension != b->dimension || !(pieces || lines)) {
            i++;
            continue;
        }
        const int place = b->place;
        a->size *= b->size;
        a->letter = pieces ? a->letter : 'T';
        remove_factor(d, i + 1);
        for (int k = 0; pieces && k < d->count; k++) {
            d->items[k].place -= is_channel(d->items[k].letter) && d->items[k].place >= place;
        }
    }
}

/* Two pieces that lie in one dimension the other way round are a shuffle of the channels. */
static grail_status shuffle(onnx_reading *r, dimensions *d, onnx_known *x)
{
    int count = 0;
    int at = -1;
    for (int i = 0; i < d->count; i++) {
        const factor *f = &d->items[i];
        count += is_channel(f->letter) ? 1 : 0;
        at = is_channel(f->letter) && f->place == 1 && i + 1 < d->count &&
                     is_channel(f[1].letter) && f[1].dimension == f->dimension
                 ? i
                 : at;
    }
    if (count != 2 || at < 0) {
        return GRAIL_OK;
    }
    CHECK(onnx_settle(r, x));
    node n = onnx_plain(NODE_SHUFFLE, x, NULL);
    factor *f = &d->items[at];
    n.runs = f[1].size;
    f->size *= f[1].size;
    f->place = 0;
    remove_factor(d, at + 1);
    return graph_add_node(r->g, &n, &x->value);
}

/* The letters of the pieces, by their places; false where there are too many. */
static bool name_pieces(dimensions *d, onnx_known *y)
{
    int count = 0;
    for (int i = 0; i < d->count; i++) {
        count += is_channel(d->items[i].letter) ? 1 : 0;
    }
    memset(y->pieces, 0, sizeof y->pieces);
    for (int i = 0; i < d->count && count <= ONNX_PIECES; i++) {
        factor *f = &d->items[i];
        if (is_channel(f->letter)) {
            const int at = ONNX_PIECES - count + f->place;
            f->letter = count == 1 ? 'C' : piece_letters[at];
            y->pieces[at] = count == 1 ? 0 : f->size;
        }
    }
    return count <= ONNX_PIECES;
}

/* Positions that are parted into rows and columns become an image of so many where they are not one
 * yet: the value is one of its own. */
static grail_status arrange(onnx_reading *r, const dimensions *d, onnx_known *x)
{
    extent is;
    const extent wanted = {size_of_letter(d, 'Y'), size_of_letter(d, 'X')};
    CHECK(onnx_positions_of(r, x, &is));
    if (size_of_letter(d, 'V') + size_of_letter(d, 'U') > 0 || wanted.height == 0 ||
        wanted.width == 0 || (wanted.height == is.height && wanted.width == is.width)) {
        return GRAIL_OK;
    }
    if (x->form != ONNX_VALUE) {
        return onnx_misfit("parts positions of attention into rows and columns");
    }
    CHECK(onnx_check_order(x));
    CHECK(onnx_settle(r, x));
    node n = onnx_plain(NODE_TAKE_TOKENS, x, NULL);
    n.tokens.size = wanted;
    return graph_add_node(r->g, &n, &x->value);
}

/* Positions of [N, C, T, 1] and [N, C, 1, T] are an image of one column or row. */
static grail_status see_image(onnx_reading *r, dimensions *d, onnx_known *x)
{
    extent is;
    factor *t = &d->items[2];
    if (x->form != ONNX_VALUE || d->rank != IMAGE_RANK || d->count != IMAGE_RANK - 1 ||
        d->items[0].letter != 'N' || d->items[1].letter != 'C' || d->items[1].dimension != 1 ||
        t->letter != 'T' || t->dimension < 2) {
        return GRAIL_OK;
    }
    CHECK(onnx_positions_of(r, x, &is));
    if (is.height == 0 || r->length == ONNX_OPEN_LENGTH) {
        return GRAIL_OK;
    }
    const bool is_row = t->dimension == 3;
    factor single = *t;
    single.size = 1;
    single.letter = is_row ? 'Y' : 'X';
    single.dimension = is_row ? 2 : 3;
    t->letter = is_row ? 'X' : 'Y';
    d->items[3] = is_row ? *t : single;
    d->items[2] = is_row ? single : *t;
    d->count++;
    return arrange(r, d, x);
}

/* Rows or columns within windows that lie in the dimension of the channels, in front of these, are
 * channels of what the windows become one position of. */
static grail_status merge(onnx_reading *r, dimensions *d, onnx_known *x)
{
    const int last = d->count - 1;
    int first = last;
    merge_attributes m = {1, 1, false};
    while (first > 0 && d->items[first - 1].dimension == d->items[last].dimension &&
           strchr("YX", d->items[first - 1].letter) != NULL) {
        first--;
    }
    const bool has_rows = size_of_letter(d, 'V') > 0;
    const bool has_columns = size_of_letter(d, 'U') > 0;
    bool fits = x->form == ONNX_VALUE && last >= 0 && d->items[last].letter == 'C' && first < last;
    for (int i = first; fits && i < last; i++) {
        const bool is_row = d->items[i].letter == 'Y';
        *(is_row ? &m.height : &m.width) = d->items[i].size;
        fits = is_row ? has_rows : has_columns;
    }
    m.columns_first = fits && d->items[first].letter == 'X';
    fits = fits && (!has_rows || m.height > 1) && (!has_columns || m.width > 1) &&
           x->roll.height + x->roll.width == 0;
    if (!fits) {
        return GRAIL_OK;
    }
    CHECK(onnx_settle(r, x));
    node n = onnx_plain(NODE_MERGE, x, NULL);
    n.merge = m;
    CHECK(graph_add_node(r->g, &n, &x->value));
    x->width *= m.height * m.width;
    x->windows = (extent){0};
    d->items[last].size = x->width;
    for (int i = last - 1; i >= first; i--) {
        remove_factor(d, i);
    }
    for (int i = 0; i < d->count; i++) {
        char *letter = &d->items[i].letter;
        *letter = *letter == 'V' ? 'Y' : *letter == 'U' ? 'X' : *letter;
    }
    return GRAIL_OK;
}

/* Gives output 0: `like` in these dimensions. */
static grail_status give_laid(onnx_reading *r, dimensions *d, onnx_known like)
{
    char text[ONNX_LAYOUT_SIZE] = {0};
    size_t length = 0;
    join_windows(d, &like.windows);
    CHECK(like.windows.height > 0 ? merge(r, d, &like) : GRAIL_OK);
    join_neighbours(d, &like.windows);
    CHECK(see_image(r, d, &like));
    CHECK(like.form == ONNX_VALUE ? shuffle(r, d, &like) : GRAIL_OK);
    if ((like.form == ONNX_VALUE && !name_pieces(d, &like)) ||
        d->rank + d->count + 1 > ONNX_LAYOUT_SIZE) {
        return onnx_misfit("parts the channels into more than %d pieces", ONNX_PIECES);
    }
    for (int k = 0; k < d->rank; k++) {
        for (int i = 0; i < d->count; i++) {
            if (d->items[i].dimension == k) {
                text[length++] = d->items[i].letter;
            }
        }
        text[length++] = k + 1 < d->rank ? ',' : '\0';
    }
    onnx_set_layout(&like, text);
    return onnx_give(r, 0, like);
}

/* -- sizes ------------------------------------------------------------------------------------- */

static grail_status sizes_of_constant(const onnx_reading *r, onnx_numbers *out)
{
    const onnx_numbers *computed = &r->numbers[r->node->inputs[0]];
    const onnx_known *k = onnx_known_input(r, 0);
    const tensor_view *t = k->tensor < 0 ? NULL : &r->file->tensors[k->tensor].view;
    const int64_t list[] = {computed->count};
    const int64_t matrix[] = {computed->columns > 0 ? computed->count / computed->columns : 0,
                              computed->columns};
    const int64_t *shape = k->form == ONNX_TABLE || k->reshaped ? k->shape
                           : t != NULL                          ? t->shape
                           : computed->rank == 2                ? matrix
                                                                : list;
    if (t == NULL && k->form != ONNX_TABLE && !computed->is_known) {
        return onnx_misfit("is of sizes that are not known");
    }
    out->count = k->form == ONNX_TABLE || k->reshaped ? k->rank
                 : t != NULL                          ? t->rank
                                                      : computed->rank;
    for (int i = 0; i < out->count; i++) {
        out->items[i] =
            (onnx_number){.factor = shape[i], .tensor = -1, .of = {.value = GRAPH_NONE}};
    }
    return GRAIL_OK;
}

grail_status onnx_sizes_of(onnx_reading *r, onnx_numbers *out)
{
    dimensions d;
    if (!onnx_has_input(r, 0)) {
        return onnx_misfit("reads nothing");
    }
    onnx_known *x = onnx_known_input(r, 0);
    *out = (onnx_numbers){.rank = 1};
    CHECK(memory_new(&out->items, ONNX_MAX_RANK + 1, sizeof out->items[0]));
    const bool is_laid = x->form == ONNX_IDS || (x->form == ONNX_BOUNDED && onnx_has_layout(x));
    if (!is_laid && ((x->value == GRAPH_NONE && x->linear == 0) || x->form != ONNX_VALUE)) {
        return sizes_of_constant(r, out);
    }
    CHECK(lay_out(r, x, &d));
    out->count = d.rank;
    for (int k = 0; k < d.rank; k++) {
        out->items[k] = (onnx_number){.factor = 1, .tensor = -1, .of = {.value = GRAPH_NONE}};
    }
    for (int i = 0; i < d.count; i++) {
        const factor *f = &d.items[i];
        onnx_number *n = &out->items[f->dimension];
        const bool outer = n->of.outer;
        const bool second = n->of.second;
        n->factor *= f->size;
        n->is_open = n->is_open || f->size == 0;
        n->per_sample = n->per_sample || f->per_sample;
        if (is_channel(f->letter)) {
            n->of = onnx_channels_of(x);
            n->of.outer = outer || f->place == 0;
            n->of.second = second || f->place == 1 || f->letter == 'C';
        }
    }
    return GRAIL_OK;
}

/* -- reshaping --------------------------------------------------------------------------------- */

/* A product of sizes, and of the samples where they are not known. */
typedef struct product {
    int64_t factor;
    int samples;
} product;

static grail_status multiply(product *p, int64_t size, bool per_sample)
{
    p->samples += per_sample ? 1 : 0;
    return size > 0 && !__builtin_mul_overflow(p->factor, size, &p->factor)
               ? GRAIL_OK
               : onnx_misfit("moves sizes that are not known; the settings height=N and width=N "
                             "say how large the images are");
}

/* Puts sizes in the place of -1, and of 0 where that is the input's. */
static grail_status settle_target(const onnx_reading *r, const dimensions *d, onnx_numbers *to)
{
    product all = {1, 0};
    product given = {1, 0};
    int left = -1;
    for (int i = 0; i < d->count; i++) {
        CHECK(multiply(&all, d->items[i].size, d->items[i].per_sample));
    }
    for (int k = 0; k < to->count; k++) {
        onnx_number *n = &to->items[k];
        if (n->is_open || n->is_real || n->factor < -1 || (n->factor == -1 && left >= 0)) {
            return onnx_misfit("its target is computed of what is not known");
        }
        if (n->factor == 0 && onnx_integer_of(r, "allowzero", 0) == 0 && k < d->rank) {
            *n = (onnx_number){.factor = 1, .tensor = -1, .of = {.value = GRAPH_NONE}};
            for (int i = 0; i < d->count; i++) {
                n->factor *= d->items[i].dimension == k ? d->items[i].size : 1;
                n->per_sample |= d->items[i].dimension == k && d->items[i].per_sample;
            }
            n->element = -1; /* stays right by itself */
        }
        left = n->factor == -1 ? k : left;
        CHECK(n->factor == -1 ? GRAIL_OK : multiply(&given, n->factor, n->per_sample));
    }
    if (left >= 0) {
        onnx_number *n = &to->items[left];
        const int samples = all.samples - given.samples;
        *n = (onnx_number){.factor = all.factor / given.factor,
                           .per_sample = samples == 1,
                           .tensor = -1,
                           .element = -1,
                           .of = {.value = GRAPH_NONE}};
        CHECK(multiply(&given, n->factor, n->per_sample));
    }
    return all.factor == given.factor && all.samples == given.samples
               ? GRAIL_OK
               : onnx_misfit("makes another number of values than it reads");
}

/* Cuts factor i into an outer one of this size and the rest. */
static bool cut_factor(dimensions *d, int i, int64_t size)
{
    factor *f = &d->items[i];
    const char window = f->letter == 'Y' ? 'V' : f->letter == 'X' ? 'U' : '\0';
    const bool is_split = f->letter == 'T' || is_channel(f->letter) ||
                          (window != '\0' && size_of_letter(d, window) == 0);
    if (!is_split || d->count == MOST_FACTORS || f->size % size != 0) {
        return false;
    }
    memmove(f + 1, f, (size_t)(d->count - i) * sizeof *f);
    d->count++;
    f[0].size = size;
    f[1].size /= size;
    if (is_channel(f->letter)) {
        for (int k = 0; k < d->count; k++) {
            factor *other = &d->items[k];
            other->place += other != f && is_channel(other->letter) && other->place >= f->place;
        }
        f[1].place = f->place + 1;
    } else if (window != '\0') {
        f[0].letter = window;
    } else {
        f[0].letter = 'Y';
        f[1].letter = 'X';
    }
    return true;
}

static bool has_factor(const dimensions *d, int dimension)
{
    bool found = false;
    for (int i = 0; i < d->count; i++) {
        found = found || d->items[i].dimension == dimension;
    }
    return found;
}

/* A single channel has no place in an order of values: where it went to a dimension of others, and
 * one is left empty, it is that one, as exporters write a Transpose of a plane. */
static void part_single_channel(dimensions *d)
{
    int at = 0;
    int empty = d->rank - 1;
    while (at < d->count && !(is_channel(d->items[at].letter) && d->items[at].size == 1)) {
        at++;
    }
    while (empty > 0 && has_factor(d, empty)) {
        empty--;
    }
    const bool shares =
        at < d->count &&
        ((at > 0 && d->items[at - 1].dimension == d->items[at].dimension) ||
         (at + 1 < d->count && d->items[at + 1].dimension == d->items[at].dimension));
    if (!shares || empty == 0) {
        return;
    }
    factor single = d->items[at];
    single.dimension = empty;
    remove_factor(d, at);
    for (at = d->count; at > 0 && d->items[at - 1].dimension > empty; at--) {
        d->items[at] = d->items[at - 1];
    }
    d->items[at] = single;
    d->count++;
}

/* Deals the factors out to dimensions of these sizes, in their order. */
static grail_status deal_out(dimensions *d, const onnx_numbers *to)
{
    int i = 0;
    for (int k = 0; k < to->count; k++) {
        int64_t rest = to->items[k].factor;
        bool samples = to->items[k].per_sample;
        const bool takes_one = i < d->count && d->items[i].letter == 'N' && d->items[i].size == 1;
        for (bool first = takes_one; (rest != 1 || samples || first) && i < d->count;
             first = false) {
            factor *f = &d->items[i];
            if (f->per_sample ? !samples : rest % f->size != 0) {
                if (f->per_sample || rest == 1 || !cut_factor(d, i, rest)) {
                    return onnx_misfit("puts samples, positions and channels together in a way "
                                       "that grail has no row for");
                }
            }
            f = &d->items[i++];
            samples = samples && !f->per_sample;
            rest /= f->per_sample ? 1 : f->size;
            f->dimension = k;
        }
    }
    for (; i < d->count; i++) {
        d->items[i].dimension = to->count - 1;
    }
    d->rank = to->count;
    part_single_channel(d);
    return GRAIL_OK;
}

/* The channels in a dimension are those that the number of it counts. */
static grail_status note_targets(onnx_reading *r, const dimensions *d, const onnx_known *x,
                                 const onnx_numbers *to)
{
    const bool are_scores = x->form == ONNX_SCORES || x->form == ONNX_SHARES; /* of each head */
    int pieces = are_scores ? 1 : 0;
    for (int i = 0; i < d->count; i++) {
        pieces += is_channel(d->items[i].letter) ? 1 : 0;
    }
    for (int k = 0; k < to->count; k++) {
        onnx_channels of = {.value = GRAPH_NONE};
        for (int i = 0; i < d->count; i++) {
            const factor *f = &d->items[i];
            if (f->dimension == k && is_channel(f->letter)) {
                const bool outer = of.outer;
                const bool second = of.second;
                of = onnx_channels_of(x);
                of.value = are_scores ? x->query : of.value;
                of.outer = outer || f->place == 0;
                of.second = second || f->place == 1 || pieces == 1;
            }
        }
        CHECK(to->items[k].element >= 0 ? onnx_note_number(r, &to->items[k], &of) : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* Neither has the only position of an image. */
static void drop_single_position(dimensions *d, onnx_known *x)
{
    int count = 0;
    bool is_single = x->form == ONNX_VALUE;
    for (int i = 0; i < d->count; i++) {
        const bool is_position = strchr("YX", d->items[i].letter) != NULL;
        count += is_position ? 1 : 0;
        is_single = is_single && (!is_position || d->items[i].size == 1);
    }
    for (int i = d->count - 1; i >= 0 && is_single && count > 0; i--) {
        if (strchr("YX", d->items[i].letter) != NULL) {
            remove_factor(d, i);
            x->one = true;
        }
    }
}

static grail_status reshape(onnx_reading *r, const onnx_known *from, onnx_numbers *to)
{
    onnx_known whole = *from;
    onnx_known *x = &whole;
    dimensions d;
    CHECK(lay_out(r, x, &d));
    if (to->count < 1 || to->count > ONNX_MAX_RANK) {
        return onnx_misfit("makes %d dimensions", to->count);
    }
    CHECK(settle_target(r, &d, to));
    drop_single_position(&d, x);
    CHECK(deal_out(&d, to));
    CHECK(note_targets(r, &d, x, to));
    CHECK(arrange(r, &d, x));
    return give_laid(r, &d, *x);
}

grail_status onnx_lay_reshaped(onnx_reading *r)
{
    onnx_known *x = NULL;
    onnx_numbers to;
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(onnx_numbers_of(r, 1, &to));
    const grail_status status = reshape(r, x, &to);
    memory_free(to.items);
    return status;
}

grail_status onnx_lay_transposed(onnx_reading *r, int count, const int64_t order[])
{
    onnx_known *x = NULL;
    dimensions d;
    int to[ONNX_MAX_RANK];
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(lay_out(r, x, &d));
    for (int k = 0; k < ONNX_MAX_RANK; k++) {
        to[k] = -1;
    }
    for (int k = 0; k < d.rank; k++) {
        const int from = onnx_axis_of(count == 0  ? d.rank - 1 - k
                                      : k < count ? order[k]
                                                  : -99,
                                      d.rank);
        if ((count != 0 && count != d.rank) || from < 0 || to[from] >= 0) {
            return onnx_misfit("its 'perm' is no order of %d dimensions", d.rank);
        }
        to[from] = k;
    }
    dimensions turned = {.rank = d.rank};
    for (int k = 0; k < d.rank; k++) {
        for (int i = 0; i < d.count; i++) {
            if (to[d.items[i].dimension] == k) {
                turned.items[turned.count] = d.items[i];
                turned.items[turned.count++].dimension = k;
            }
        }
    }
    return give_laid(r, &turned, *x);
}

grail_status onnx_lay_flat(onnx_reading *r)
{
    onnx_known *x = NULL;
    dimensions d;
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(lay_out(r, x, &d));
    const int64_t axis = onnx_integer_of(r, "axis", 1);
    for (int i = 0; i < d.count; i++) {
        d.items[i].dimension = d.items[i].dimension < (axis < 0 ? axis + d.rank : axis) ? 0 : 1;
    }
    d.rank = 2;
    return give_laid(r, &d, *x);
}

/* Whether dimension k has a size of 1. */
static bool is_single(const dimensions *d, int k)
{
    for (int i = 0; i < d->count; i++) {
        if (d->items[i].dimension == k && (d->items[i].size != 1 || d->items[i].letter == 'N')) {
            return false;
        }
    }
    return true;
}

grail_status onnx_lay_squeezed(onnx_reading *r, int count, const int64_t axes[])
{
    onnx_known *x = NULL;
    dimensions d;
    bool goes[ONNX_MAX_RANK] = {false};
    int to[ONNX_MAX_RANK];
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(lay_out(r, x, &d));
    for (int k = 0; k < count; k++) {
        const int axis = onnx_axis_of(axes[k], d.rank);
        if (axis < 0 || !is_single(&d, axis)) {
            return onnx_misfit("takes out a dimension that is not of size 1");
        }
        goes[axis] = true;
    }
    int left = 0;
    bool is_line = false; /* one row or column: the other one is all positions */
    for (int k = 0; k < d.rank; k++) {
        goes[k] = goes[k] || (count == 0 && is_single(&d, k));
        to[k] = left;
        left += goes[k] ? 0 : 1;
    }
    for (int i = d.count - 1; i >= 0; i--) {
        if (goes[d.items[i].dimension] && !is_channel(d.items[i].letter)) {
            is_line = is_line || d.items[i].letter == 'Y' || d.items[i].letter == 'X';
            remove_factor(&d, i);
        } else {
            d.items[i].dimension = to[d.items[i].dimension];
        }
    }
    for (int i = 0; i < d.count && is_line; i++) {
        const bool is_position = d.items[i].letter == 'Y' || d.items[i].letter == 'X';
        d.items[i].letter = is_position ? 'T' : d.items[i].letter;
    }
    d.rank = left;
    return give_laid(r, &d, *x);
}

grail_status onnx_lay_unsqueezed(onnx_reading *r, int count, const int64_t axes[])
{
    onnx_known *x = NULL;
    dimensions d;
    bool is_new[2 * ONNX_MAX_RANK] = {false};
    int to[ONNX_MAX_RANK];
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(lay_out(r, x, &d));
    const int rank = d.rank + count;
    for (int k = 0; k < count; k++) {
        const int axis = onnx_axis_of(axes[k], rank);
        if (rank > ONNX_MAX_RANK || axis < 0 || is_new[axis]) {
            return onnx_misfit("its 'axes' are none of %d dimensions", rank);
        }
        is_new[axis] = true;
    }
    for (int k = 0, at = 0; k < rank; k++) {
        if (!is_new[k]) {
            to[at++] = k;
        }
    }
    for (int i = 0; i < d.count; i++) {
        d.items[i].dimension = to[d.items[i].dimension];
    }
    d.rank = rank;
    return give_laid(r, &d, *x);
}

/* The dimension behind that of the heads, where nothing is yet, that numbers state a size of; *size
 * <- it. -1: there is none, or others change, too. */
static int repeated_dimension(const dimensions *d, const onnx_numbers *to, int64_t *size)
{
    int found = -1;
    for (int k = 0; k < to->count; k++) {
        const onnx_number *n = &to->items[k];
        product own = {1, 0};
        for (int i = 0; i < d->count; i++) {
            const factor *f = &d->items[i];
            if (f->dimension == k && multiply(&own, f->size, f->per_sample) != GRAIL_OK) {
                return -1;
            }
        }
        const bool stays = !n->per_sample && (n->factor == 1 || n->factor == -1);
        if (n->is_open || n->is_real) {
            return -1;
        }
        if (stays || (n->factor == own.factor && n->per_sample == (own.samples > 0))) {
            continue;
        }
        if (found >= 0 || has_factor(d, k) || n->per_sample || n->factor < 1) {
            return -1;
        }
        found = k;
        *size = n->factor;
    }
    return found;
}

grail_status onnx_lay_repeated(onnx_reading *r)
{
    onnx_known *x = NULL;
    onnx_numbers to;
    dimensions d;
    int64_t size = 0;
    int at = 0;
    CHECK(onnx_laid_input(r, 0, &x));
    CHECK(lay_out(r, x, &d));
    CHECK(onnx_numbers_of(r, 1, &to));
    const int k = to.is_known && to.count == d.rank ? repeated_dimension(&d, &to, &size) : -1;
    while (at < d.count && d.items[at].dimension < k) {
        at++;
    }
    const factor *before = at > 0 ? &d.items[at - 1] : NULL;
    const bool fits = k > 0 && before != NULL && x->form == ONNX_VALUE && x->repeats == 0 &&
                      d.count < MOST_FACTORS &&
                      (before->letter == 'H' || (x->pieces[2] == 0 && before->letter == 'N'));
    const grail_status status =
        fits ? note_targets(r, &d, x, &to)
             : onnx_misfit("repeats other than each head, or a constant [1, K, C] for each sample");
    memory_free(to.items);
    CHECK(status);
    onnx_known y = *x;
    y.repeats = size;
    memmove(&d.items[at + 1], &d.items[at], (size_t)(d.count - at) * sizeof d.items[0]);
    d.items[at] = (factor){.letter = 'R', .dimension = k, .size = size};
    d.count++;
    return give_laid(r, &d, y);
}
