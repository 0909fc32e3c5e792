#include "study/page/axis.h"

#include <math.h>

static const struct {
    const char *name, *choice, *label;
} axes[] = {
    [AXIS_CUT] = {"cut", "units asked for", "units removed, %"},
    [AXIS_PARAMETERS] = {"parameters", "parameters removed", "parameters removed, %"},
    [AXIS_MACS] = {"macs", "MACs removed", "multiply-accumulates removed, %"},
    [AXIS_TIME] = {"time", "time", "time per image, ms"},
    [AXIS_SAMPLES] = {"samples", "samples", "calibration samples"},
};

const char *axis_name(axis_kind axis)
{
    return axes[axis].name;
}

const char *axis_choice(axis_kind axis)
{
    return axes[axis].choice;
}

const char *axis_label(axis_kind axis, const section *s)
{
    return axis == AXIS_TIME && s->kind == QUALITY_PERPLEXITY ? "time per window, ms"
                                                              : axes[axis].label;
}

double axis_value(axis_kind axis, const cell_group *g)
{
    switch (axis) {
    case AXIS_CUT:
        return 100.0 * g->key.sparsity;
    case AXIS_PARAMETERS:
        return 100.0 * g->removed.mean;
    case AXIS_MACS:
        return 100.0 * g->removed_macs.mean;
    case AXIS_TIME:
        return 1000.0 * g->latency.mean;
    case AXIS_SAMPLES:
        break;
    }
    return (double)g->key.samples;
}

double axis_of_dense(axis_kind axis, const section *s)
{
    return axis == AXIS_TIME ? 1000.0 * s->dense_latency : 0.0;
}

bool axis_occurs(axis_kind axis, const section *s)
{
    for (int i = 0; i < s->group_count; i++) {
        if (isfinite(axis_value(axis, &s->groups[i]))) {
            return true;
        }
    }
    return false;
}

bool axis_occurs_anywhere(axis_kind axis, const aggregate *a)
{
    for (int i = 0; i < a->section_count; i++) {
        if (axis_occurs(axis, &a->sections[i])) {
            return true;
        }
    }
    return false;
}

axis_kind axis_first(const aggregate *a)
{
    return axis_occurs_anywhere(AXIS_PARAMETERS, a) ? AXIS_PARAMETERS : AXIS_CUT;
}

scale axis_scale(axis_kind axis, const section *s, double start, double end)
{
    const double dense = axis_of_dense(axis, s);
    double most = isfinite(dense) ? dense : 0.0;
    for (int i = 0; i < s->group_count; i++) {
        const double value = axis_value(axis, &s->groups[i]);
        most = isfinite(value) ? fmax(most, value) : most;
    }
    return scale_linear(0.0, most, 5, start, end);
}
