#include "study/page/sizes.h"

#include "study/page/pareto.h"

#include <math.h>

const char *size_name(size_kind kind)
{
    static const char *const names[SIZES] = {"ratio", "removed", "removed_macs", "latency"};
    return names[kind];
}

static double size_of(const cell_group *g, size_kind kind)
{
    const double sizes[SIZES] = {g->key.sparsity, g->removed.mean, g->removed_macs.mean,
                                 g->latency.mean};
    return sizes[kind];
}

static bool is_on(const pareto_point *front, int count, pareto_point p)
{
    for (int i = 0; i < count; i++) {
        if (front[i].x == p.x && front[i].y == p.y) {
            return true;
        }
    }
    return false;
}

/* `points` has room for all groups of the section and its dense network. */
static void find_pareto(const aggregate *a, const section *s, size_kind kind, pareto_point *points,
                        bool (*on_line)[SIZES], bool *dense)
{
    const pareto_point whole = {kind == SIZE_TIME ? s->dense_latency : 0.0, s->dense_quality.value};
    points[0] = whole;
    for (int i = 0; i < s->group_count; i++) {
        points[i + 1] = (pareto_point){size_of(&s->groups[i], kind), s->groups[i].quality.value};
    }
    const int count =
        pareto_front(points, s->group_count + 1, kind == SIZE_TIME, s->kind == QUALITY_PERPLEXITY);
    for (int i = 0; on_line != NULL && i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        on_line[g - a->groups][kind] =
            is_on(points, count, (pareto_point){size_of(g, kind), g->quality.value});
    }
    if (dense != NULL) {
        dense[kind] = is_on(points, count, whole);
    }
}

grail_status sizes_find_pareto(const aggregate *a, const section *s, bool (*on_line)[SIZES],
                               bool *dense)
{
    pareto_point *points = NULL;
    CHECK(memory_new(&points, (size_t)s->group_count + 1, sizeof points[0]));
    for (int kind = 0; kind < SIZES; kind++) {
        find_pareto(a, s, (size_kind)kind, points, on_line, dense);
    }
    memory_free(points);
    return GRAIL_OK;
}
