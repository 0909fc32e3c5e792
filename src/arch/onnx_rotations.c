#include "arch/onnx_rotations.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_region_shapes.h"
#include "arch/onnx_trials.h"

#include <math.h>
#include <string.h>

/* How far values may be from those of a rotation: angles are products in f32, of positions up to
 * ONNX_LONGEST_TRIED, and tables may be in FLOAT16. */
static const double tolerance = 2e-3;

/* -- angles -------------------------------------------------------------------------------------
 */

/* Two tables [length, turned]. */
typedef struct turns {
    const float *cosines, *sines;
    int64_t length, turned;
} turns;

/* What feature `i` turns by from each position to the next; each step doubles the distance, over
 * which the angle is known to less than half a turn. */
static double frequency_of(const turns *t, int64_t i)
{
    double frequency = 0.0;
    for (int64_t at = 1; at < t->length; at *= 2) {
        const int64_t k = at * t->turned + i;
        const double angle = atan2((double)t->sines[k], (double)t->cosines[k]);
        frequency += remainder(angle - frequency * (double)at, 2.0 * acos(-1.0)) / (double)at;
    }
    return frequency;
}

/* Whether both halves of the features turn by these angles. */
static bool turn_so(const turns *t, const onnx_rotation *a)
{
    for (int64_t i = 0; i < t->length * t->turned; i++) {
        const double angle =
            (double)(i / t->turned) * a->frequency[i % t->turned % (t->turned / 2)];
        if (!(fabs((double)t->cosines[i] - a->factor * cos(angle)) <= tolerance * a->factor) ||
            !(fabs((double)t->sines[i] - a->factor * sin(angle)) <= tolerance * a->factor)) {
            return false;
        }
    }
    return true;
}

/* Whether a tensor is a row of features for each position. */
static bool are_rows(const tensor_view *t, int64_t length)
{
    int64_t count = 0;
    return t->data != NULL && t->rank >= 2 && shape_elements(t->rank, t->shape, &count) &&
           count == length * t->shape[t->rank - 1] && count > 0;
}

static grail_status find_angles(const onnx_reading *r, onnx_rotation *a)
{
    grail_status status = GRAIL_OK;
    tensor_view made[2] = {{0}};
    int64_t length = 0;
    TRY(onnx_try_long(r, a->cosines, &a->length, &made[0]));
    TRY(onnx_try_long(r, a->sines, &length, &made[1]));
    bool fits = length == a->length && length > 1 && are_rows(&made[0], length) &&
                are_rows(&made[1], length);
    turns t = {made[0].data, made[1].data, length, fits ? made[0].shape[made[0].rank - 1] : 0};
    fits = fits && made[1].shape[made[1].rank - 1] == t.turned && t.turned % 2 == 0;
    if (fits) {
        TRY(memory_new(&a->frequency, (size_t)t.turned / 2, sizeof a->frequency[0]));
        a->turned = t.turned;
        a->factor = (double)t.cosines[0];
        for (int64_t i = 0; i < t.turned / 2; i++) {
            a->frequency[i] = frequency_of(&t, i);
        }
        fits = a->factor > 0.0 && turn_so(&t, a);
    }
    TRY(fits ? GRAIL_OK
             : onnx_misfit("multiplies heads by '%.100s' and '%.100s', which are no cosines and "
                           "sines of angles that grow with the position",
                           r->file->values[a->cosines].name, r->file->values[a->sines].name));
out:
    memory_free((void *)(uintptr_t)made[0].data);
    memory_free((void *)(uintptr_t)made[1].data);
    return status;
}

/* Finds the angles once for all readings. */
static grail_status find_rotation(const onnx_reading *r, int64_t cosines, int64_t sines,
                                  const onnx_rotation **out)
{
    onnx_barriers *b = r->barriers;
    for (int64_t i = 0; i < b->rotation_count; i++) {
        if (b->rotations[i].cosines == cosines && b->rotations[i].sines == sines) {
            *out = &b->rotations[i];
            return GRAIL_OK;
        }
    }
    CHECK(memory_reserve(&b->rotations, (size_t)b->rotation_count + 1, sizeof b->rotations[0]));
    onnx_rotation *a = &b->rotations[b->rotation_count++];
    *a = (onnx_rotation){.cosines = cosines, .sines = sines};
    const grail_status status = find_angles(r, a);
    if (status == GRAIL_ERROR_UNSUPPORTED || status == GRAIL_ERROR_SHAPE) {
        char why[ONNX_REASON_SIZE];
        error_copy(why, sizeof why);
        CHECK(memory_copy_string(&a->refusal, why));
    } else {
        CHECK(status);
    }
    *out = a;
    return GRAIL_OK;
}

/* -- what the nodes do with a head --------------------------------------------------------------
 */

/* Heads of one sample, [rows, columns, width], of which one is the positions. */
typedef struct heads {
    region_value form;
    region_positions at;
    bool positions_first;
    int64_t width;
} heads;

/* [N, H, T, D] and [N, T, H, D], perhaps of a single head. */
static grail_status lay_heads(onnx_reading *r, int64_t value, const onnx_known *x, heads *out)
{
    static const char *const orders[] = {"N,H,T,D", "N,,T,C", "N,T,H,D", "N,T,,C"};
    char text[ONNX_LAYOUT_SIZE];
    size_t i = 0;
    onnx_letters(x, text);
    while (i < sizeof orders / sizeof orders[0] && strcmp(text, orders[i]) != 0) {
        i++;
    }
    if (i == sizeof orders / sizeof orders[0]) {
        return onnx_misfit("turns what are no heads [samples, heads, positions, features]");
    }
    const int64_t count = x->pieces[1] > 0 ? x->pieces[1] : 1;
    const int64_t length = onnx_short_length(r);
    *out = (heads){.positions_first = i >= 2, .width = x->width / count};
    out->form =
        (region_value){.value = value, .rank = REGION_IMAGE, .width = out->width, .channels = 3};
    out->at = out->positions_first ? (region_positions){length, count}
                                   : (region_positions){count, length};
    return onnx_is_half(r, value, &out->form.is_half);
}

/* Numbers between -1 and 1 that repeat nowhere near. */
static void fill(int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)sin((double)(i + 1) * (double)(i + 1) * 0.37);
    }
}

/* Whether y is x, turned. */
static bool is_turned(const heads *h, const onnx_rotation *a, const float *x, const float *y)
{
    const int64_t half = a->turned / 2;
    for (int64_t i = 0; i < h->at.height * h->at.width * h->width; i++) {
        const int64_t row = i / h->width;
        const int64_t feature = i % h->width;
        const int64_t place = h->positions_first ? row / h->at.width : row % h->at.width;
        const bool is_first = feature < half;
        const double angle = (double)place * a->frequency[feature % half];
        const double other = (double)x[is_first ? i + half : feature < a->turned ? i - half : i];
        const double wanted = feature >= a->turned
                                  ? (double)x[i]
                                  : a->factor * ((double)x[i] * cos(angle) +
                                                 (is_first ? -other : other) * sin(angle));
        if (!(fabs((double)y[i] - wanted) <= 2.0 * tolerance * fmax(1.0, a->factor))) {
            return false;
        }
    }
    return true;
}

static grail_status try_nodes(const onnx_reading *r, int64_t value, const heads *h,
                              const onnx_rotation *a)
{
    grail_status status = GRAIL_OK;
    const int64_t count = h->at.height * h->at.width * h->width;
    float *x = NULL;
    tensor_view y = {0};
    int64_t made = 0;
    TRY(memory_new(&x, (size_t)count, sizeof x[0]));
    fill(count, x);
    const onnx_trial t = {.value = value,
                          .length = onnx_short_length(r),
                          .given = h->form.value,
                          .form = h->form,
                          .at = h->at,
                          .values = x};
    TRY(onnx_try(r, &t, &y));
    TRY(y.data != NULL && shape_elements(y.rank, y.shape, &made) && made == count &&
                h->width >= a->turned && is_turned(h, a, x, y.data)
            ? GRAIL_OK
            : onnx_misfit("turns features of heads otherwise than the first half of them with the "
                          "second"));
out:
    memory_free(x);
    memory_free((void *)(uintptr_t)y.data);
    return status;
}

grail_status onnx_read_rotation(onnx_reading *r, const onnx_pattern *p, onnx_known *x)
{
    grail_status status = GRAIL_OK;
    const onnx_rotation *a = NULL;
    double *frequency = NULL;
    heads h;
    TRY(lay_heads(r, p->input, x, &h));
    TRY(find_rotation(r, p->number, p->weight, &a));
    TRY(a->refusal == NULL ? GRAIL_OK : onnx_misfit("%s", a->refusal));
    TRY(try_nodes(r, r->node->outputs[0], &h, a));
    TRY(onnx_settle(r, x));
    node n = onnx_plain(NODE_ROPE, x, NULL);
    const size_t pairs = (size_t)a->turned / 2;
    TRY(memory_new(&frequency, pairs, sizeof frequency[0]));
    memcpy(frequency, a->frequency, pairs * sizeof frequency[0]);
    n.rope = (rope_attributes){
        .head_dim = h.width, .turned = a->turned, .factor = a->factor, .frequency = frequency};
    TRY(graph_own_table(r->g, &frequency));
    onnx_note_longest(r, a->length);
    TRY(onnx_give_node(r, &n, *x));
out:
    memory_free(frequency);
    return status;
}
