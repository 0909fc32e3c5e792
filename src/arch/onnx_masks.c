#include "arch/onnx_masks.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_bounds.h"
#include "arch/onnx_region_shapes.h"
#include "arch/onnx_trials.h"

#include <string.h>

/* What a score is lowered by at least where its key is hidden: exp(-1e4) is 0 in f64. */
static const double least_hidden = -1e4;

/* -- what a mask hides ------------------------------------------------------------------------- */

/* A square of queries and keys. */
typedef struct square {
    const float *values;
    int64_t length;
    bool are_truths; /* they choose the scores that are seen, not what is added to them */
    bool shows_true;
} square;

static bool is_seen(const square *s, int64_t query, int64_t key)
{
    const float x = s->values[query * s->length + key];
    return s->are_truths ? (x != 0.0F) == s->shows_true : x == 0.0F;
}

static bool is_hidden(const square *s, int64_t query, int64_t key)
{
    const float x = s->values[query * s->length + key];
    return s->are_truths ? !is_seen(s, query, key) : (double)x <= least_hidden;
}

static bool agrees(const square *s, const onnx_mask *m)
{
    for (int64_t i = 0; i < s->length; i++) {
        for (int64_t j = 0; j < s->length; j++) {
            const bool is_visible =
                (m->behind == 0 || i - j < m->behind) && (m->ahead == 0 || j - i < m->ahead);
            if (is_visible ? !is_seen(s, i, j) : !is_hidden(s, i, j)) {
                return false;
            }
        }
    }
    return true;
}

/* The last query tells how far back keys are seen, the first one how far ahead. */
static void guess(const square *s, onnx_mask *m)
{
    const int64_t last = s->length - 1;
    int64_t first = 0;
    int64_t end = last;
    while (first < last && !is_seen(s, last, first)) {
        first++;
    }
    while (end > 0 && !is_seen(s, 0, end)) {
        end--;
    }
    m->behind = first == 0 ? 0 : s->length - first;
    m->ahead = end == last ? 0 : end + 1;
}

/* All squares of a tensor [.., length, length] hide the same. */
static grail_status judge(const tensor_view *t, bool are_truths, bool is_first, onnx_mask *m)
{
    static const char *const refusal = "adds to scores of attention, or chooses from them, "
                                       "otherwise than to hide keys that are too far from "
                                       "each query";
    int64_t count = 0;
    bool fits = t->data != NULL && t->rank >= 2 && t->shape[t->rank - 1] > 1 &&
                t->shape[t->rank - 1] == t->shape[t->rank - 2] &&
                shape_elements(t->rank, t->shape, &count) && count > 0;
    const int64_t length = fits ? t->shape[t->rank - 1] : 1;
    for (int64_t at = 0; fits && at < count; at += length * length) {
        const square s = {(const float *)t->data + at, length, are_truths, m->shows_true};
        if (at == 0 && is_first) {
            guess(&s, m);
        }
        fits = agrees(&s, m);
    }
    return fits ? GRAIL_OK : onnx_misfit("%s", refusal);
}

/* Short samples tell first what is no mask at all, with ids that are not all the same; long ones
 * tell of windows. */
static grail_status judge_mask(const onnx_reading *r, bool are_truths, onnx_mask *m)
{
    grail_status status = GRAIL_OK;
    tensor_view brief = {0};
    tensor_view made = {0};
    const onnx_trial t = {
        .value = m->value, .length = onnx_short_length(r), .alternates = true, .given = -1};
    if (t.length > ONNX_LONGEST_TRIED) { /* its square is computed */
        return onnx_misfit("hides scores of %lld positions, of which at most %d are looked at",
                           (long long)t.length, ONNX_LONGEST_TRIED);
    }
    TRY(onnx_try(r, &t, &brief));
    TRY(judge(&brief, are_truths, true, m));
    if (r->file->values[m->value].tensor >= 0) {
        goto out;
    }
    TRY(onnx_try_long(r, m->value, &m->length, &made));
    TRY(judge(&made, are_truths, true, m));
    TRY(judge(&brief, are_truths, false, m));
out:
    memory_free((void *)(uintptr_t)brief.data);
    memory_free((void *)(uintptr_t)made.data);
    return status;
}

/* -- the node at hand -------------------------------------------------------------------------- */

static bool are_scores(const onnx_reading *r, int i)
{
    return onnx_has_input(r, i) && onnx_known_input(r, i)->form == ONNX_SCORES;
}

static bool may_be_mask(const onnx_reading *r, int i)
{
    if (!onnx_has_input(r, i)) {
        return false;
    }
    const onnx_known *k = onnx_known_input(r, i);
    const tensor_view *t = onnx_constant_of(r, i);
    return k->form == ONNX_BOUNDED || (t != NULL && t->rank >= 2);
}

bool onnx_hides_scores(const onnx_reading *r)
{
    const bool adds = onnx_node_is(r->node, "Add");
    const bool chooses = onnx_node_is(r->node, "Where");
    return (adds &&
            ((are_scores(r, 0) && may_be_mask(r, 1)) || (are_scores(r, 1) && may_be_mask(r, 0)))) ||
           (chooses && may_be_mask(r, 0) && (are_scores(r, 1) || are_scores(r, 2)));
}

/* Judges the mask once for all readings. */
static grail_status find_mask(onnx_reading *r, int mask, bool are_truths, bool shows_true,
                              const onnx_mask **out)
{
    onnx_barriers *b = r->barriers;
    const int64_t value = r->node->inputs[mask];
    for (int64_t i = 0; i < b->mask_count; i++) {
        if (b->masks[i].value == value && b->masks[i].shows_true == shows_true) {
            *out = &b->masks[i];
            return GRAIL_OK;
        }
    }
    onnx_mask m = {.value = value, .shows_true = shows_true};
    const grail_status status = judge_mask(r, are_truths, &m);
    if (status == GRAIL_ERROR_UNSUPPORTED || status == GRAIL_ERROR_SHAPE) {
        char why[ONNX_REASON_SIZE];
        error_copy(why, sizeof why);
        CHECK(memory_copy_string(&m.refusal, why));
    } else {
        CHECK(status);
    }
    if (memory_reserve(&b->masks, (size_t)b->mask_count + 1, sizeof b->masks[0]) != GRAIL_OK) {
        memory_free(m.refusal);
        return GRAIL_ERROR_MEMORY;
    }
    b->masks[b->mask_count] = m;
    *out = &b->masks[b->mask_count++];
    return GRAIL_OK;
}

/* The nearer of two limits; 0 is none. */
static int64_t nearer(int64_t a, int64_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

grail_status onnx_hide(onnx_reading *r, int mask, bool are_truths, bool shows_true, onnx_known *y)
{
    const onnx_mask *m = NULL;
    if (onnx_is_always(r, mask, are_truths && shows_true ? 1.0 : 0.0)) {
        return GRAIL_OK;
    }
    CHECK(find_mask(r, mask, are_truths, shows_true, &m));
    if (m->refusal != NULL) {
        return onnx_misfit("%s", m->refusal);
    }
    y->behind = nearer(y->behind, m->behind); /* what one of two masks hides is hidden */
    y->ahead = nearer(y->ahead, m->ahead);
    onnx_note_longest(r, m->length);
    return GRAIL_OK;
}

grail_status onnx_hide_scores(onnx_reading *r)
{
    const bool chooses = onnx_node_is(r->node, "Where");
    const int scores = chooses ? (are_scores(r, 1) ? 1 : 2) : are_scores(r, 0) ? 0 : 1;
    onnx_known y = *onnx_known_input(r, scores);
    if (chooses && !onnx_is_at_most(r, 3 - scores, least_hidden) &&
        !onnx_is_always(r, 0, scores == 1 ? 1.0 : 0.0)) {
        return onnx_misfit("chooses between scores of attention and what does not hide them");
    }
    CHECK(onnx_hide(r, chooses ? 0 : 1 - scores, chooses, scores == 1, &y));
    return onnx_give(r, 0, y);
}
