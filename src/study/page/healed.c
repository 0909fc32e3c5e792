#include "study/page/healed.h"
#include "study/page/section.h"

#include <math.h>

static void add_cell(healed *h, const result_cell *cell, bool of_blocks)
{
    double seconds = NOT_MEASURED;
    for (int i = 0; i < cell->healing_count; i++) {
        const line_healing *one = &cell->healings[i];
        if (isnan(one->block) == of_blocks) {
            continue;
        }
        spread_add(&h->steps, one->steps);
        spread_add(&h->before, one->held_before);
        spread_add(&h->after, one->held_after);
        if (!isnan(one->seconds)) {
            seconds = isnan(seconds) ? one->seconds : seconds + one->seconds;
        }
    }
    spread_add(&h->seconds, seconds);
}

healed healed_measure(const section *s, variant v, bool of_blocks)
{
    healed h = {spread_empty(), spread_empty(), spread_empty(), spread_empty()};
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        for (int j = 0; g->key.variant == v && section_shows(s, g) && j < g->count; j++) {
            add_cell(&h, g->cells[j], of_blocks);
        }
    }
    return h;
}
