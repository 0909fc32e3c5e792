#include "arch/network_prefix.h"

#include "base/name_list.h"

#include <string.h>

enum {
    MOST_ANCHORS = 8,
    MOST_CANDIDATES = 64, /* prefixes that are tried; a network has hardly any namesakes */
};

typedef struct search {
    checkpoint *weights;
    const char *base;
    const architecture *a;             /* whose tensors are looked for, */
    const graph *g;                    /* or (not NULL) those of its parameters */
    const char *anchors[MOST_ANCHORS]; /* names in the first block, without the base */
    int anchor_count;
    char *candidates[MOST_CANDIDATES]; /* prefixes, owned */
    int64_t shown_by[MOST_CANDIDATES]; /* the tensor that shows each */
    int count;
} search;

/* Adds what stands before the anchor in the name of a tensor, where it consists of complete
 * components. A tensor shows the same network, whichever anchors it ends with. */
static grail_status add_candidate(search *s, const char *anchor, int64_t tensor)
{
    const char *name = checkpoint_plain_name(s->weights, tensor);
    if (s->count == MOST_CANDIDATES || !name_ends_with(name, anchor)) {
        return GRAIL_OK;
    }
    const size_t length = strlen(name) - strlen(anchor);
    bool is_new = length == 0 || name[length - 1] == '.';
    for (int i = 0; i < s->count; i++) {
        is_new =
            is_new && s->shown_by[i] != tensor &&
            (strlen(s->candidates[i]) != length || strncmp(s->candidates[i], name, length) != 0);
    }
    if (is_new) {
        CHECK(memory_format(&s->candidates[s->count], "%.*s", (int)length, name));
        s->shown_by[s->count++] = tensor;
    }
    return GRAIL_OK;
}

static bool is_complete(const recognition *r)
{
    return r->wanted > 0 && r->matched == r->wanted;
}

/* How much is there of a network behind the prefix that is set. */
static grail_status judge(const search *s, recognition *found)
{
    if (s->g == NULL) {
        return s->a->match(s->a, s->weights, found);
    }
    found->wanted = s->g->parameter_count;
    for (int p = 0; p < s->g->parameter_count; p++) {
        found->matched += checkpoint_place_of(s->weights, s->g->parameters[p].tensor) >= 0 ? 1 : 0;
    }
    return GRAIL_OK;
}

/* Sets the prefix to the best candidate. */
static grail_status run(search *s, recognition *found)
{
    grail_status status = GRAIL_OK;
    const char *best = s->base;
    bool complete = false;
    *found = (recognition){0};
    for (int a = 0; a < s->anchor_count; a++) {
        for (int64_t i = 0; i < checkpoint_count(s->weights); i++) {
            TRY(add_candidate(s, s->anchors[a], i));
        }
    }
    for (int i = 0; i < s->count; i++) {
        recognition r = {0};
        TRY(checkpoint_set_prefix(s->weights, s->base, s->candidates[i]));
        TRY(judge(s, &r));
        if (complete && is_complete(&r)) {
            const char *one = best[0] == 0 ? s->candidates[i] : best;
            const char *other = best[0] == 0 ? best : s->candidates[i];
            FAIL(GRAIL_ERROR_UNSUPPORTED,
                 "%s: two networks fit: the tensors of one begin with '%s', %s%s%s; grail narrows "
                 "one network: save the state_dict() of the one that is wanted by itself",
                 checkpoint_path(s->weights), one,
                 other[0] == 0 ? "those of the other have no prefix" : "those of the other with '",
                 other, other[0] == 0 ? "" : "'");
        }
        if (i == 0 || is_complete(&r) || (!complete && r.matched > found->matched)) {
            best = s->candidates[i];
            *found = r;
            complete = is_complete(&r);
        }
    }
    TRY(checkpoint_set_prefix(s->weights, s->base, best));
out:
    for (int i = 0; i < s->count; i++) {
        memory_free(s->candidates[i]);
    }
    return status;
}

grail_status network_prefix_of_family(const architecture *a, checkpoint *weights,
                                      recognition *found)
{
    search s = {.weights = weights, .base = "", .a = a};
    if (a->anchors == NULL) {
        return GRAIL_OK;
    }
    while (a->anchors[s.anchor_count] != NULL && s.anchor_count < MOST_ANCHORS) {
        s.anchors[s.anchor_count] = a->anchors[s.anchor_count];
        s.anchor_count++;
    }
    return run(&s, found);
}

grail_status network_prefix_of_graph(const graph *g, const char *base, checkpoint *weights)
{
    recognition found = {0};
    search s = {.weights = weights, .base = base, .g = g};
    for (int p = 0; p < g->parameter_count && s.anchor_count < MOST_ANCHORS; p++) {
        const char *name = g->parameters[p].tensor;
        const char *end = NULL;
        if (name_begins_with(name, base) && name_find_number(name, &end) != NULL) {
            s.anchors[s.anchor_count++] = name + strlen(base);
        }
    }
    return run(&s, &found);
}
