#include "arch/onnx_inputs.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_regions.h"

#include <string.h>

enum { MOST_CONTEXT = 1 << 20 }; /* positions, where no table says how many there are */

static bool is_real_input(const onnx_file *f, int64_t i)
{
    return f->values[f->inputs[i]].tensor < 0;
}

static bool is_integer(const onnx_value *v)
{
    return v->element == ONNX_INT64 || v->element == ONNX_INT32;
}

static bool is_mask(const onnx_value *v)
{
    return strstr(v->name, "mask") != NULL &&
           (is_integer(v) || v->element == ONNX_FLOAT || v->element == ONNX_BOOL);
}

bool onnx_reads_ids(const onnx_reading *r)
{
    const onnx_file *f = r->file;
    bool fits = true;
    bool has_ids = false;
    for (int64_t i = 0; i < f->input_count; i++) {
        const onnx_value *v = &f->values[f->inputs[i]];
        if (is_real_input(f, i)) {
            fits = fits && v->rank == 2 && (is_integer(v) || is_mask(v));
            has_ids = has_ids || (is_integer(v) && !is_mask(v));
        }
    }
    return fits && has_ids;
}

grail_status onnx_read_ids(onnx_reading *r)
{
    const onnx_file *f = r->file;
    graph *g = r->g;
    int64_t length = 0;
    g->input_kind = INPUT_TOKENS;
    g->gives_hidden = true;
    for (int64_t i = 0; i < f->input_count; i++) {
        const onnx_value *v = &f->values[f->inputs[i]];
        if (!is_real_input(f, i)) {
            continue;
        }
        const int64_t own = v->shape[1] > 0 ? v->shape[1] : 0;
        if (g->input_count > 0 && own != length) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "the inputs '%.100s' and '%.100s' have other numbers of positions",
                             g->inputs[0].name, v->name);
        }
        length = own;
        onnx_known k = {.value = GRAPH_NONE,
                        .tensor = -1,
                        .form = is_mask(v) ? ONNX_BOUNDED : ONNX_IDS,
                        .input = g->input_count,
                        .bounds = {.low = 1.0, .high = 1.0},
                        .readers = r->values[f->inputs[i]].readers,
                        .count.element = -1};
        onnx_set_layout(&k, "N,T");
        r->values[f->inputs[i]] = k;
        r->samples = v->shape[0] > 0 ? v->shape[0] : 0;
        CHECK(graph_add_input(g, v->name, 0));
        g->inputs[g->input_count - 1].rank = v->rank;
        g->inputs[g->input_count - 1].are_integers = is_integer(v);
        onnx_barriers_begin(r, f->inputs[i]);
    }
    g->context = length;
    r->length = length > 0 ? length : ONNX_OPEN_LENGTH;
    return GRAIL_OK;
}

/* -- open sizes ---------------------------------------------------------------------------------
 */

/* The name that the file has for dimension d of a value, where it leaves that open. */
static const char *open_name(const onnx_value *v, int d)
{
    return v->shape[d] < 0 ? v->symbols[d] : NULL;
}

const char *onnx_find_open_size(const onnx_file *f, const char *name)
{
    const char *found = NULL;
    for (int64_t i = 0; i < f->input_count && found == NULL; i++) {
        const onnx_value *v = &f->values[f->inputs[i]];
        for (int d = 1; d < v->rank && found == NULL; d++) {
            const char *symbol = open_name(v, d);
            found = symbol != NULL && strcmp(symbol, name) == 0 ? symbol : NULL;
        }
    }
    return found;
}

void onnx_append_open_sizes(const onnx_file *f)
{
    bool any = false;
    for (int64_t i = 0; i < f->input_count; i++) {
        const onnx_value *v = &f->values[f->inputs[i]];
        for (int d = 1; d < v->rank; d++) {
            const char *symbol = open_name(v, d);
            if (symbol != NULL && onnx_find_open_size(f, symbol) == symbol) { /* the first one */
                error_append("%s '%.100s'", any ? "," : "", symbol);
                any = true;
            }
        }
    }
    error_append(any ? "" : " none");
}

/* -- values side by side ------------------------------------------------------------------------
 */

bool onnx_reads_several(const onnx_reading *r)
{
    int64_t count = 0;
    for (int64_t i = 0; i < r->file->input_count; i++) {
        count += is_real_input(r->file, i) ? 1 : 0;
    }
    return count > 1;
}

/* A dimension behind the samples as the file states it, or else as it was asked for: rows, columns,
 * or positions in a row; of channels, which other dimensions tell apart, 0. */
static int64_t size_at(const onnx_reading *r, const onnx_value *v, int d, int channels)
{
    return v->shape[d] > 0         ? v->shape[d]
           : d == channels         ? 0
           : v->rank != IMAGE_RANK ? r->asked.length
           : d == 2                ? r->asked.height
                                   : r->asked.width;
}

/* Where the parts of an input lie in a sample; false: no sample holds such an input. */
static bool lay_in_sample(const onnx_reading *r, int64_t value, graph_input *in)
{
    const onnx_value *v = &r->file->values[value];
    const bool is_row = v->rank == REGION_TOKENS;
    int64_t size = 1;
    int64_t shape[IMAGE_RANK] = {0};
    in->channels_last = is_row && onnx_place_of(r, value) == ONNX_LAST;
    in->are_truths = v->element == ONNX_BOOL;
    in->are_integers = is_integer(v) || in->are_truths;
    bool fits =
        v->rank > 0 && (in->are_integers ? v->rank <= FLAT_RANK
                                         : v->element == ONNX_FLOAT && v->rank <= IMAGE_RANK);
    for (int d = 1; fits && d < v->rank; d++) {
        shape[d] = size_at(r, v, d, v->rank <= FLAT_RANK ? 0 : in->channels_last ? 2 : 1);
        fits = shape[d] > 0 && !__builtin_mul_overflow(size, shape[d], &size);
    }
    if (!fits || __builtin_add_overflow(r->g->channels, size, &size) || size > INT32_MAX) {
        return false;
    }
    in->first = r->g->channels;
    r->g->channels = size;
    in->rank = v->rank;
    in->channels = v->rank == 1 ? 1 : shape[in->channels_last ? 2 : 1];
    in->positions = (extent){is_row                  ? shape[in->channels_last ? 1 : 2]
                             : v->rank == IMAGE_RANK ? shape[2]
                                                     : 1,
                             v->rank == IMAGE_RANK ? shape[3] : 1};
    return true;
}

/* Integers, and numbers without channels, are no values of the graph until a node makes some of
 * them. */
static grail_status give_input(onnx_reading *r, int64_t value, int input)
{
    const graph_input *in = &r->g->inputs[input];
    onnx_known k = {.value = GRAPH_NONE,
                    .tensor = -1,
                    .rank = in->rank,
                    .one = in->positions.height * in->positions.width == 1,
                    .width = in->channels,
                    .input = input,
                    .readers = r->values[value].readers,
                    .count.element = -1};
    if (in->are_integers || in->rank == 1) {
        k.form = ONNX_IDS;
        onnx_set_layout(&k, in->rank == 1 ? "N" : in->channels == 1 ? "N," : "N,T");
    } else {
        CHECK(onnx_unpack(r, input, in->positions, in->channels, &k.value));
    }
    if (in->rank == REGION_TOKENS) {
        onnx_set_layout(&k, in->channels_last ? (k.one ? "N,,C" : "N,T,C")
                            : k.one           ? "N,C,"
                                              : "N,C,T");
    }
    r->values[value] = k;
    onnx_barriers_begin(r, value);
    return GRAIL_OK;
}

static grail_status add_several(onnx_reading *r, int64_t value)
{
    const onnx_value *v = &r->file->values[value];
    char text[64] = "";
    graph_input in = {.padding = GRAPH_NONE};
    if (!lay_in_sample(r, value, &in)) {
        for (int d = 1; d < v->rank; d++) {
            if (open_name(v, d) != NULL) {
                error_set(
                    GRAIL_ERROR_UNSUPPORTED,
                    "the input '%.100s' leaves sizes open, which a run of a network of several "
                    "inputs needs; settings NAME=N say them, by the names that the file has for "
                    "them:",
                    v->name);
                onnx_append_open_sizes(r->file);
                return GRAIL_ERROR_UNSUPPORTED;
            }
        }
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "the input '%.100s' has type %d and shape %s; beside other inputs grail reads FLOAT "
            "(1) [N, channels, height, width], [N, channels, length], [N, length, channels], [N, "
            "channels] and [N], and INT32, INT64 or BOOL (6, 7, 9) [N, positions] and [N], of "
            "sizes that the file states; height=N and width=N say those of images that it leaves "
            "open, length=N positions and lengths",
            v->name, v->element,
            v->rank < 0 ? "that is not declared"
                        : shape_text(v->rank, v->shape, text, sizeof text));
    }
    CHECK(graph_add_input(r->g, v->name, 0));
    in.name = r->g->inputs[r->g->input_count - 1].name;
    r->g->inputs[r->g->input_count - 1] = in;
    return give_input(r, value, r->g->input_count - 1);
}

/* Whether an input, an image or not, leaves a size open. */
static bool leaves_open(const onnx_reading *r, bool is_image, int d)
{
    bool found = false;
    for (int64_t i = 0; i < r->file->input_count; i++) {
        const onnx_value *v = &r->file->values[r->file->inputs[i]];
        found = found || (is_real_input(r->file, i) && (v->rank == IMAGE_RANK) == is_image &&
                          d < v->rank && v->shape[d] <= 0);
    }
    return found;
}

static grail_status check_settings(const onnx_reading *r)
{
    const graph_sizes *asked = &r->asked;
    const char *name = asked->height > 0 && !leaves_open(r, true, 2)  ? "height"
                       : asked->width > 0 && !leaves_open(r, true, 3) ? "width"
                       : asked->length > 0 && !leaves_open(r, false, 1) && !leaves_open(r, false, 2)
                           ? "length"
                           : NULL;
    return name == NULL ? GRAIL_OK
                        : error_set(GRAIL_ERROR_ARGUMENT,
                                    "the setting %s says a size that no input leaves open", name);
}

grail_status onnx_read_several(onnx_reading *r)
{
    const onnx_file *f = r->file;
    CHECK(check_settings(r));
    r->g->image = (extent){1, 1};
    r->g->channels = 0;
    for (int64_t i = f->input_count - 1; i >= 0; i--) {
        if (is_real_input(f, i)) {
            r->samples =
                f->values[f->inputs[i]].shape[0] > 0 ? f->values[f->inputs[i]].shape[0] : 0;
        }
    }
    for (int64_t i = 0; i < f->input_count; i++) {
        const onnx_value *v = &f->values[f->inputs[i]];
        const int64_t samples = v->rank > 0 && v->shape[0] > 0 ? v->shape[0] : 0;
        if (is_real_input(f, i) && samples != r->samples) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "the input '%.100s' has another number of samples than the first one; "
                             "grail reads networks whose inputs all have samples in their first "
                             "dimension",
                             v->name);
        }
        CHECK(is_real_input(f, i) ? add_several(r, f->inputs[i]) : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* -- what all nodes say together ----------------------------------------------------------------
 */

/* The largest table is that of the words: its rows are the ids of a text. */
static grail_status set_divisors(graph *g)
{
    int64_t product = 1;
    for (int count = 0; count < g->input_count; count++) {
        graph_input *next = NULL;
        for (int i = 0; i < g->input_count; i++) {
            graph_input *one = &g->inputs[i];
            const bool is_open = one->rows > 0 && one->divisor == 0;
            next = is_open && (next == NULL || one->rows > next->rows) ? one : next;
        }
        if (next == NULL) {
            break;
        }
        next->divisor = product;
        if (__builtin_mul_overflow(product, next->rows, &product) || product > INT32_MAX) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "the rows of the tables that the inputs choose from have more than "
                             "%ld combinations",
                             (long)INT32_MAX);
        }
    }
    g->vocabulary = product;
    return GRAIL_OK;
}

grail_status onnx_settle_ids(onnx_reading *r)
{
    graph *g = r->g;
    if (g->input_kind != INPUT_TOKENS) {
        return GRAIL_OK;
    }
    CHECK(set_divisors(g));
    for (int i = 0; i < g->input_count; i++) {
        const bool is_used = g->inputs[i].rows > 0;
        const char *name = g->inputs[i].name;
        if (!is_used && strstr(name, "mask") == NULL) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "the input '%.100s' is neither a mask nor chooses rows of a table, "
                             "which is all that grail has rows for of integers",
                             name);
        }
    }
    int64_t most = g->context > 0 ? g->context : MOST_CONTEXT;
    most = r->longest < most ? r->longest : most;
    for (int i = 0; i < g->node_count; i++) {
        node *n = &g->nodes[i];
        if (n->kind == NODE_EMBEDDING) {
            n->embedding.divisor = g->inputs[n->embedding.divisor - 1].divisor;
        } else if (n->kind == NODE_POSITIONS && !n->positions.one_for_all) {
            const int64_t rows = n->weight == GRAPH_NONE
                                     ? n->positions.count
                                     : g->parameters[n->weight].shape[0] - n->positions.first;
            most = rows < most ? rows : most;
        }
    }
    g->context = most;
    return GRAIL_OK;
}
