#include "reduce/group_views.h"

#include "base/memory.h"

/* A view of one group, and what it points to. */
typedef struct group_view {
    site_view view;
    site site;
    input_statistics input;
    site_end *ends; /* of producers, then of nodes with channels; owned */
} group_view;

/* How many problems the view's statistics make. */
static int64_t count_groups(const site_view *v)
{
    return v->input_count == 1 && v->inputs[0].groups > 1 ? v->inputs[0].groups : 1;
}

/* The ends of a group's units. */
static site_end *move_ends(const site_end *from, int count, int64_t unit, site_end *to)
{
    for (int i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].first += unit * from[i].features_per_unit;
    }
    return to;
}

/* Row `row` of a matrix that may be missing, and the following ones. */
static matrix rows_at(matrix m, int64_t row, int64_t rows)
{
    return matrix_exists(m) ? matrix_rows(m, row, rows) : m;
}

static const double *values_at(const double *values, int64_t at)
{
    return values == NULL ? NULL : values + at;
}

/* Run `g` of the sums. */
static input_statistics input_of_group(const input_statistics *all, int64_t g)
{
    input_statistics own = *all;
    const int64_t width = all->width / all->groups;
    const int64_t outputs = matrix_exists(all->cross) ? all->cross.rows / all->groups : 0;
    own.groups = 1;
    own.width = width;
    own.diagonal = values_at(all->diagonal, g * width);
    own.means = values_at(all->means, g * width);
    own.gram = rows_at(all->gram, g * width, width);
    own.cross = rows_at(all->cross, g * outputs, outputs);
    own.target_means = values_at(all->target_means, g * outputs);
    return own;
}

static grail_status group_view_init(const site_view *v, int64_t groups, int64_t g, group_view *out)
{
    const site *s = v->site;
    const int64_t units = s->units / groups;
    const size_t ends = (size_t)s->producer_count + (size_t)s->channel_count;
    *out = (group_view){.view = *v, .site = *s, .input = input_of_group(&v->inputs[0], g)};
    CHECK(memory_new(&out->ends, ends + 1, sizeof out->ends[0]));
    out->site.units = units;
    out->site.groups = s->groups / groups;
    out->site.producers = move_ends(s->producers, s->producer_count, g * units, out->ends);
    out->site.channels =
        move_ends(s->channels, s->channel_count, g * units, out->ends + s->producer_count);
    out->site.consumer_count = 1;
    out->view.site = &out->site;
    out->view.kept = v->kept / groups;
    out->view.inputs = &out->input;
    out->view.group = g;
    out->view.group_count = groups;
    out->view.stream = v->stream ^ (uint64_t)g << 32;
    return GRAIL_OK;
}

/* *m[rows, groups * columns] in place of the blocks m[rows, columns], with zeros elsewhere. */
static grail_status spread_blocks(int64_t groups, matrix *m)
{
    matrix all = no_matrix;
    if (!matrix_exists(*m)) {
        return GRAIL_OK;
    }
    const int64_t rows = m->rows / groups;
    CHECK(matrix_new_zero(m->owner, GRAIL_DTYPE_F64, m->rows, groups * m->columns, &all));
    grail_status status = GRAIL_OK;
    for (int64_t g = 0; status == GRAIL_OK && g < groups; g++) {
        status = matrix_copy(
            matrix_rows(*m, g * rows, rows),
            matrix_columns(matrix_rows(all, g * rows, rows), g * m->columns, m->columns));
    }
    matrix_free(m);
    *m = all;
    return status;
}

/* Beside other consumers there is one problem for all groups. */
static grail_status join_blocks(const site_view *v)
{
    for (int i = 0; v->input_count > 1 && i < v->input_count; i++) {
        input_statistics *in = &v->inputs[i];
        if (in->groups > 1) {
            CHECK(spread_blocks(in->groups, &in->gram));
            CHECK(spread_blocks(in->groups, &in->cross));
            in->groups = 1;
        }
    }
    return GRAIL_OK;
}

static grail_status choose_one(const selector *rule, const site_view *v, int64_t groups, int64_t g,
                               grail_reducer **out)
{
    group_view own = {0};
    grail_status status = group_view_init(v, groups, g, &own);
    if (status == GRAIL_OK) {
        status = selector_choose(rule, &own.view, out);
    }
    memory_free(own.ends);
    return status;
}

grail_status group_views_choose(const selector *rule, const site_view *v, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    const int64_t groups = rule->folds ? 1 : count_groups(v);
    int64_t *kept = NULL;
    int64_t count = 0;
    bool tied = false;
    CHECK(join_blocks(v));
    if (groups == 1) {
        return selector_choose(rule, v, out);
    }
    TRY(memory_new_unset(&kept, (size_t)v->kept, sizeof kept[0]));
    for (int64_t g = 0; g < groups; g++) {
        grail_reducer *own = NULL;
        TRY(choose_one(rule, v, groups, g, &own));
        for (int64_t j = 0; j < own->units; j++) {
            if (own->labels[j] >= 0) {
                kept[count++] = g * own->units + j;
            }
        }
        tied = tied || own->tied;
        grail_reducer_free(own);
    }
    TRY(grail_reducer_from_selection(v->site->units, v->kept, kept, out));
    (*out)->tied = tied;
out:
    memory_free(kept);
    return status;
}

grail_status group_views_losses(const selector *rule, const site_view *v, double *losses)
{
    grail_status status = GRAIL_OK;
    const int64_t groups = count_groups(v);
    const int64_t units = v->site->units / groups;
    double *own = NULL;
    group_view view = {0};
    CHECK(join_blocks(v));
    if (groups == 1) {
        return rule->losses(v, losses);
    }
    TRY(memory_new_unset(&own, (size_t)units + 1, sizeof own[0]));
    for (int64_t k = 0; k <= v->site->units; k++) {
        losses[k] = 0.0;
    }
    for (int64_t g = 0; g < groups; g++) {
        TRY(group_view_init(v, groups, g, &view));
        TRY(rule->losses(&view.view, own));
        memory_free(view.ends);
        view.ends = NULL;
        for (int64_t k = 0; k <= v->site->units; k++) {
            losses[k] += own[k / groups];
        }
    }
out:
    memory_free(view.ends);
    memory_free(own);
    return status;
}
