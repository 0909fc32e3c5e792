#include "arch/onnx_masks.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_biases.h"
#include "arch/onnx_bounds.h"
#include "arch/onnx_region_shapes.h"
#include "arch/onnx_regions.h"
#include "arch/onnx_trials.h"

#include <string.h>

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
    const int64_t maker = r->file->values[r->node->inputs[i]].node;
    const bool is_unknown = maker >= 0 && onnx_is_opaque(r, maker) && k->value == GRAPH_NONE &&
                            k->linear == 0 && k->tensor < 0;
    return k->form == ONNX_BOUNDED || (t != NULL && t->rank >= 2) || is_unknown;
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
    const grail_status status = onnx_find_biases(r, are_truths, &m);
    if (status == GRAIL_ERROR_UNSUPPORTED || status == GRAIL_ERROR_SHAPE) {
        char why[ONNX_REASON_SIZE];
        error_copy(why, sizeof why);
        CHECK(memory_copy_string(&m.refusal, why));
    } else {
        CHECK(status);
    }
    if (memory_reserve(&b->masks, (size_t)b->mask_count + 1, sizeof b->masks[0]) != GRAIL_OK) {
        memory_free(m.refusal);
        memory_free(m.biases);
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
    const tensor_view *t = onnx_constant_of(r, mask);
    const bool has_heads = t != NULL && t->rank > 2 && t->shape[t->rank - 3] > 1; /* of its own */
    if (!has_heads && onnx_is_always(r, mask, are_truths && shows_true ? 1.0 : 0.0)) {
        return GRAIL_OK;
    }
    CHECK(find_mask(r, mask, are_truths, shows_true, &m));
    if (m->refusal != NULL) {
        return onnx_misfit("%s", m->refusal);
    }
    y->behind = nearer(y->behind, m->behind); /* what one of two masks hides is hidden */
    y->ahead = nearer(y->ahead, m->ahead);
    onnx_note_longest(r, m->length);
    if (m->biases == NULL) {
        return GRAIL_OK;
    }
    const int64_t windows = y->spans_windows ? 0 : y->windows.height * y->windows.width;
    if (m->windows > 0 && m->windows != windows) {
        return onnx_misfit("adds to scores of %lld windows, and there are %lld",
                           (long long)m->windows, (long long)windows);
    }
    if ((m->windows > 0 ? y->window_masks : y->biased) != 0 || y->slope != 0.0) {
        return onnx_misfit("adds biases to scores of attention a second time, or to capped ones");
    }
    if (m->windows > 0) {
        y->window_masks = 1 + (m - r->barriers->masks);
        return GRAIL_OK;
    }
    y->biased = 1 + (m - r->barriers->masks);
    y->biases = m->is_tensor ? onnx_constant_of(r, mask) : NULL;
    return GRAIL_OK;
}

/* Has the node add the numbers of a table. */
static grail_status add_table(const onnx_reading *r, const onnx_mask *m, attention_attributes *a)
{
    const int64_t each = m->by_distance ? 2 * m->positions - 1 : m->positions * m->positions;
    double *table = NULL;
    CHECK(memory_new(&table, (size_t)(m->heads * each), sizeof table[0]));
    memcpy(table, m->biases, (size_t)(m->heads * each) * sizeof table[0]);
    a->biases = table;
    a->bias_heads = m->heads / (m->windows > 0 ? m->windows : 1);
    a->bias_windows = m->windows;
    a->by_distance = m->by_distance;
    const grail_status status = graph_own_table(r->g, &table);
    memory_free(table);
    return status;
}

grail_status onnx_bias_attention(const onnx_reading *r, const onnx_known *scores, int64_t heads,
                                 node *n)
{
    const onnx_mask *masks = r->barriers->masks;
    const onnx_mask *m = scores->biased == 0 ? NULL : &masks[scores->biased - 1];
    const onnx_mask *w = scores->window_masks == 0 ? NULL : &masks[scores->window_masks - 1];
    const onnx_mask *any = m != NULL ? m : w;
    const bool is_tensor = m != NULL && scores->biases != NULL && m->heads == heads;
    if (any == NULL) {
        return GRAIL_OK;
    }
    if (m != NULL && m->heads != 1 && m->heads != heads) {
        return onnx_misfit("has biases for %lld heads, and there are %lld", (long long)m->heads,
                           (long long)heads);
    }
    if (w != NULL && w->heads != w->windows && (m != NULL || w->heads != heads * w->windows)) {
        return onnx_misfit("has biases of windows for other heads than its own");
    }
    if (m != NULL && w != NULL && (!is_tensor || m->positions != w->positions)) {
        return onnx_misfit("has biases of windows beside others that are no tensor");
    }
    n->attention.positions = any->positions;
    if (is_tensor) {
        const int64_t shape[] = {heads, m->positions, m->positions};
        CHECK(onnx_add_shaped(r, scores->biases, false, 3, shape, &n->bias));
        m = NULL;
    }
    return m == NULL && w == NULL ? GRAIL_OK : add_table(r, m != NULL ? m : w, &n->attention);
}

grail_status onnx_hide_scores(onnx_reading *r)
{
    const bool chooses = onnx_node_is(r->node, "Where");
    const int scores = chooses ? (are_scores(r, 1) ? 1 : 2) : are_scores(r, 0) ? 0 : 1;
    onnx_known y = *onnx_known_input(r, scores);
    if (chooses && !onnx_is_at_most(r, 3 - scores, ONNX_LEAST_HIDDEN) &&
        !onnx_is_always(r, 0, scores == 1 ? 1.0 : 0.0)) {
        return onnx_misfit("chooses between scores of attention and what does not hide them");
    }
    CHECK(onnx_hide(r, chooses ? 0 : 1 - scores, chooses, scores == 1, &y));
    return onnx_give(r, 0, y);
}
