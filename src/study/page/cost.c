#include "study/page/cost.h"
#include "study/page/section.h"

static void add_group(cost *c, const cell_group *g)
{
    for (int i = 0; i < SECONDS_KINDS; i++) {
        spread_add(&c->seconds[i], g->seconds[i].mean);
    }
    spread_add(&c->peak, g->peak_bytes.most);
}

void cost_measure(const section *s, cost *costs)
{
    for (int v = 0; v < VARIANTS; v++) {
        costs[v].peak = spread_empty();
        for (int i = 0; i < SECONDS_KINDS; i++) {
            costs[v].seconds[i] = spread_empty();
        }
    }
    for (int i = 0; i < s->group_count; i++) {
        if (section_shows(s, &s->groups[i])) {
            add_group(&costs[s->groups[i].key.variant], &s->groups[i]);
        }
    }
}
