/* Finds the naming convention of a checkpoint. */
#include "arch/transformer_tower.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 128, MOST_WANTED = 16 };

/* The tensors that a network needs outside the layers and in the first layer. */
typedef struct wanted_names {
    char names[MOST_WANTED][NAME_SIZE];
    int count;
} wanted_names;

static void want(wanted_names *w, const char *format, ...) GRAIL_PRINTF(2, 3);

static void want(wanted_names *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->names[w->count++], NAME_SIZE, format, arguments);
    va_end(arguments);
}

static void list_wanted(const tower_names *n, wanted_names *w)
{
    *w = (wanted_names){0};
    want(w, "%s.weight", n->patch);
    if (n->class_token != NULL) {
        want(w, "%s", n->class_token);
    }
    if (n->positions != NULL) {
        want(w, "%s", n->positions);
    }
    want(w, "%s0.%s.weight", n->layer, n->attention_norm);
    if (n->fused_weight != NULL) {
        want(w, "%s0.%s", n->layer, n->fused_weight);
    } else {
        want(w, "%s0.%s.weight", n->layer, n->queries);
        want(w, "%s0.%s.weight", n->layer, n->keys);
        want(w, "%s0.%s.weight", n->layer, n->values);
    }
    want(w, "%s0.%s.weight", n->layer, n->output);
    want(w, "%s0.%s.weight", n->layer, n->ffn_norm);
    want(w, "%s0.%s.weight", n->layer, n->up);
    want(w, "%s0.%s.weight", n->layer, n->down);
    want(w, "%s.weight", n->last_norm);
}

static grail_status match_convention(const tower_names *names, const checkpoint *weights,
                                     tower_match *out)
{
    grail_status status = GRAIL_OK;
    tower_match m = {.names = names};
    wanted_names w;
    char *name = NULL;
    list_wanted(names, &w);
    TRY(memory_copy_string(&m.prefix, checkpoint_prefix(weights)));
    m.found.wanted = w.count;
    for (int i = 0; i < w.count; i++) {
        memory_free(name);
        name = NULL;
        TRY(tower_name(&name, m.prefix, "%s", w.names[i]));
        if (checkpoint_find(weights, name) != NULL) {
            m.found.matched++;
        } else if (m.found.missing[0] == 0) {
            snprintf(m.found.missing, sizeof m.found.missing, "%s", name);
        }
    }
    *out = m;
    m = (tower_match){0};
out:
    memory_free(name);
    tower_match_fini(&m);
    return status;
}

grail_status tower_find(const tower_family *family, const checkpoint *weights, tower_match *out)
{
    grail_status status = GRAIL_OK;
    tower_match best = {0};
    for (int i = 0; i < family->count; i++) {
        tower_match m = {0};
        TRY(match_convention(&family->conventions[i], weights, &m));
        if (best.names == NULL ||
            m.found.matched * best.found.wanted > best.found.matched * m.found.wanted) {
            tower_match_fini(&best);
            best = m;
        } else {
            tower_match_fini(&m);
        }
    }
    *out = best;
    best = (tower_match){0};
out:
    tower_match_fini(&best);
    return status;
}

grail_status tower_measure(const tower_family *family, const checkpoint *weights, recognition *r)
{
    tower_match m = {0};
    CHECK(tower_find(family, weights, &m));
    *r = m.found;
    tower_match_fini(&m);
    return GRAIL_OK;
}

void tower_match_fini(tower_match *m)
{
    memory_free(m->prefix);
    *m = (tower_match){0};
}

grail_status tower_name(char **out, const char *prefix, const char *format, ...)
{
    char name[NAME_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return memory_format(out, "%s%s", prefix, name);
}
