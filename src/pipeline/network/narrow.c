#include "pipeline/network/narrow.h"

#include "algebra/products.h"
#include "pipeline/network/consumer.h"

#include <string.h>

/* -- merged units ------------------------------------------------------------------------------ */

/* Sets the merged rows of a site among those of others in one parameter of the current network. */
static grail_status fill_merged(const cutting *cut, int index, const site_end *end, int parameter,
                                const grail_reducer *reducer, parameter_store *current)
{
    grail_status status = GRAIL_OK;
    const cut_axis *rows = &cut->axes[parameter].rows;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    float *wide = NULL;
    const int64_t u = end->features_per_unit;
    TRY(wide_values(cut, current, parameter, shape, &wide));
    const int64_t width = row_elements(cut->graph->parameters[parameter].rank, shape);
    float *own = wide + cut_wide_place(cut->plan, rows, end->first) * width;
    reducer_narrow_rows(reducer, end->exchangeable, u, width, own,
                        own + cut_site(cut, index)->units * u * width);
    TRY(parameter_store_set(current, parameter, shape, wide));
out:
    memory_free(wide);
    return status;
}

/* Sets one parameter of the current network to [rows | merged rows]. */
static grail_status append_merged(const cutting *cut, int index, const site_end *end, int parameter,
                                  const grail_reducer *reducer, parameter_store *dense,
                                  parameter_store *current)
{
    grail_status status = GRAIL_OK;
    const site *s = cut_site(cut, index);
    float *rows = NULL;
    float *wide = NULL;
    int64_t count = 0;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    const int64_t u = end->features_per_unit;
    if (s->is_part) {
        return fill_merged(cut, index, end, parameter, reducer, current);
    }
    TRY(parameter_store_read_f32(dense, parameter, &rows, &count));
    const int64_t columns = count / (s->units * u);
    const int64_t merged = reducer->kept * u * columns;
    TRY(memory_new_unset(&wide, (size_t)(count + merged), sizeof wide[0]));
    memcpy(wide, rows, (size_t)count * sizeof wide[0]);
    reducer_narrow_rows(reducer, end->exchangeable, u, columns, rows, wide + count);
    memcpy(shape, current->model->graph->parameters[parameter].shape, sizeof shape);
    shape[0] = (s->units + reducer->kept) * u;
    TRY(parameter_store_set(current, parameter, shape, wide));
out:
    memory_free(rows);
    memory_free(wide);
    return status;
}

static grail_status append_merged_node(const cutting *cut, int index, const site_end *end,
                                       const grail_reducer *reducer, parameter_store *dense,
                                       parameter_store *current)
{
    int parameters[NODE_MAX_PARAMETERS];
    const int count = node_parameters(&current->model->graph->nodes[end->node], parameters);
    for (int i = 0; i < count; i++) {
        CHECK(append_merged(cut, index, end, parameters[i], reducer, dense, current));
    }
    return GRAIL_OK;
}

grail_status site_append_merged(const cutting *cut, int index, const grail_reducer *reducer,
                                parameter_store *dense, parameter_store *current)
{
    const site *s = cut_site(cut, index);
    for (int p = 0; p < s->producer_count; p++) {
        CHECK(append_merged_node(cut, index, &s->producers[p], reducer, dense, current));
    }
    for (int k = 0; k < s->channel_count; k++) {
        CHECK(append_merged_node(cut, index, &s->channels[k], reducer, dense, current));
    }
    return GRAIL_OK;
}

/* -- narrow shapes ----------------------------------------------------------------------------- */

/* Those of one segment, relative to its begin in the wide form: of columns of a group, those of the
 * units of the group. */
static void segment_features(const plan *p, const grail_reducer *r, const cut_axis *axis,
                             int64_t group, int64_t *out)
{
    const int64_t u = axis->features;
    const int64_t units = r->units / axis_groups(axis);
    const int64_t *labels = r->labels + group * units;
    for (int64_t k = 0; site_is_remade(p, axis->site) && k < r->kept / axis_groups(axis) * u; k++) {
        *out++ = units * u + k;
    }
    for (int64_t f = 0; !site_is_remade(p, axis->site) && f < units * u; f++) {
        if (labels[f / u] >= 0) {
            *out++ = f;
        }
    }
}

void axis_reduced_features(const plan *p, const site_result *results, const cut_axis *axis,
                           int64_t group, int64_t dense, int64_t *out)
{
    const cut_axis *all = axis;
    int64_t at = 0; /* dense */
    for (; axis != NULL && axis->site != GRAPH_NONE; axis = axis->next) {
        const grail_reducer *r = results[axis->site].reducer;
        const int64_t count = r->kept / axis_groups(axis) * axis->features;
        const int64_t place = cut_wide_place(p, all, axis->first);
        while (at < axis->first) {
            *out++ = cut_wide_place(p, all, at++);
        }
        at += r->units / axis_groups(axis) * axis->features;
        segment_features(p, r, axis, group, out);
        for (int64_t k = 0; k < count; k++) {
            out[k] += place;
        }
        out += count;
    }
    while (at < dense) {
        *out++ = cut_wide_place(p, all, at++);
    }
}

/* What stays of an axis. */
typedef struct kept_features {
    int64_t count;
    int64_t groups;    /* equal runs of rows, of each of which other columns stay; 1 of most */
    int64_t *features; /* [groups, count], owned; NULL: all */
} kept_features;

/* `dense` is the size of the axis in the dense network. */
static grail_status find_kept(const plan *p, const site_result *results, const cut_axis *axis,
                              int64_t dense, kept_features *out)
{
    *out = (kept_features){.count = cut_narrow_place(p, axis, dense), .groups = axis_groups(axis)};
    CHECK(memory_new_unset(&out->features, (size_t)(out->groups * out->count),
                           sizeof out->features[0]));
    for (int64_t g = 0; g < out->groups; g++) {
        axis_reduced_features(p, results, axis, g, dense, out->features + g * out->count);
    }
    return GRAIL_OK;
}

/* Which of an axis's `size` features stay: all where it is narrow already, or not cut by this site.
 */
static grail_status kept_of_axis(const plan *p, const site_result *results, const cut_axis *axis,
                                 int64_t dense, int index, int64_t size, kept_features *out)
{
    const bool is_cut = axis->site != GRAPH_NONE && (index == GRAPH_NONE || axis->site == index);
    const bool is_wide = is_cut && size != cut_narrow_place(p, axis, dense);
    *out = (kept_features){.count = size, .groups = 1};
    return is_wide ? find_kept(p, results, axis, dense, out) : GRAIL_OK;
}

/* narrow[rows, columns] = wide[kept rows, kept columns] */
static void take(const kept_features *rows, const kept_features *columns, int64_t wide_columns,
                 const float *wide, float *narrow)
{
    for (int64_t r = 0; r < rows->count; r++) {
        const float *from = wide + (rows->features == NULL ? r : rows->features[r]) * wide_columns;
        const int64_t *kept = columns->features;
        kept = kept == NULL ? NULL : kept + r * columns->groups / rows->count * columns->count;
        for (int64_t c = 0; c < columns->count; c++) {
            narrow[r * columns->count + c] = from[kept == NULL ? c : kept[c]];
        }
    }
}

/* What of a parameter's rows and columns stays; *width is that of its rows before. */
typedef struct narrow_form {
    kept_features rows, columns;
    int64_t width;
} narrow_form;

static void narrow_form_fini(narrow_form *f)
{
    memory_free(f->rows.features);
    memory_free(f->columns.features);
}

static bool is_narrower(const narrow_form *f)
{
    return f->rows.features != NULL || f->columns.features != NULL;
}

/* *out is owned, even after a failure; shape becomes the narrow one. */
static grail_status find_form(const cutting *cut, const site_result *results,
                              parameter_store *store, int parameter, int index,
                              int64_t shape[PARAMETER_MAX_RANK], narrow_form *out)
{
    const parameter_cut *axes = &cut->axes[parameter];
    const graph_parameter *dense = &cut->graph->parameters[parameter];
    memcpy(shape, parameter_store_shape(store, parameter), PARAMETER_MAX_RANK * sizeof shape[0]);
    out->width = row_elements(dense->rank, shape);
    CHECK(kept_of_axis(cut->plan, results, &axes->rows, dense->shape[0], index, shape[0],
                       &out->rows));
    CHECK(kept_of_axis(cut->plan, results, &axes->columns, row_elements(dense->rank, dense->shape),
                       index, out->width, &out->columns));
    shape[0] = out->rows.count;
    shape[1] = shape[1] * out->columns.count / out->width;
    return GRAIL_OK;
}

grail_status narrow_values(const cutting *cut, const site_result *results, parameter_store *store,
                           int parameter, int index, int64_t shape[PARAMETER_MAX_RANK], float **out)
{
    grail_status status = GRAIL_OK;
    narrow_form form = {0};
    float *wide = NULL;
    int64_t count = 0;
    TRY(find_form(cut, results, store, parameter, index, shape, &form));
    if (is_narrower(&form)) {
        TRY(parameter_store_read_f32(store, parameter, &wide, &count));
        TRY(memory_new_unset(out, (size_t)(form.rows.count * form.columns.count), sizeof **out));
        take(&form.rows, &form.columns, form.width, wide, *out);
    }
out:
    memory_free(wide);
    narrow_form_fini(&form);
    return status;
}

/* A matrix that the current network has on a device, and its shape. */
static grail_status narrow_there(const cutting *cut, const site_result *results,
                                 parameter_store *current, int parameter, int index)
{
    narrow_form form = {0};
    int64_t shape[PARAMETER_MAX_RANK];
    parameter_entry *own = &current->entries[parameter];
    grail_status status = find_form(cut, results, current, parameter, index, shape, &form);
    if (status == GRAIL_OK && is_narrower(&form)) {
        status = keep_elements(form.rows.features, form.rows.count, form.columns.features,
                               form.columns.count, &own->values);
    }
    if (status == GRAIL_OK) {
        memcpy(own->shape, shape, sizeof own->shape);
    }
    narrow_form_fini(&form);
    return status;
}

/* Narrows what a site cuts in a parameter of the current network. */
static grail_status narrow_own(const cutting *cut, const site_result *results,
                               parameter_store *current, int parameter, int index)
{
    grail_status status = GRAIL_OK;
    int64_t shape[PARAMETER_MAX_RANK];
    float *narrow = NULL;
    if (!backend_is_host(current->backend) && current->entries[parameter].values.rows > 1 &&
        axis_groups(&cut->axes[parameter].columns) == 1) {
        return narrow_there(cut, results, current, parameter, index);
    }
    TRY(narrow_values(cut, results, current, parameter, index, shape, &narrow));
    if (narrow != NULL) {
        TRY(parameter_store_set(current, parameter, shape, narrow));
    }
out:
    memory_free(narrow);
    return status;
}

static bool is_used_by(const node *n, int parameter)
{
    int used[NODE_MAX_PARAMETERS];
    const int count = node_parameters(n, used);
    bool found = false;
    for (int i = 0; i < count; i++) {
        found = found || used[i] == parameter;
    }
    return found;
}

/* Whether the parameter runs again, or lies in memory already. The narrow form of any other one
 * would only take memory until it is written. */
static bool is_wanted(const network_run *current, int parameter)
{
    const graph *g = current->graph;
    bool wanted = parameter_store_owns(current->parameters, parameter);
    for (int n = current->stream.position; n < g->node_count && !wanted; n++) {
        wanted = is_used_by(&g->nodes[n], parameter);
    }
    return wanted;
}

/* Those that a site cuts, or any for GRAPH_NONE. */
static grail_status narrow_parameters(const cutting *cut, const site_result *results, int index,
                                      network_run *current)
{
    for (int p = 0; p < cut->graph->parameter_count; p++) {
        const parameter_cut *axes = &cut->axes[p];
        const bool any = index == GRAPH_NONE;
        const bool is_cut = (any ? axes->rows.site != index : axes->rows.site == index) ||
                            (any ? axes->columns.site != index : axes->columns.site == index);
        if (is_cut && is_wanted(current, p)) {
            CHECK(narrow_own(cut, results, current->parameters, p, index));
        }
    }
    return GRAIL_OK;
}

/* The input of the last consumer, where the sample stream holds it. A sample stream that waits
 * inside the site is carried there first, so that it holds nothing else of the site. */
static grail_status narrow_held_input(const cutting *cut, const site_result *results, int index,
                                      sample_passes *passes)
{
    grail_status status = GRAIL_OK;
    const site *s = cut_site(cut, index);
    const site_end *last = &s->consumers[s->consumer_count - 1];
    const int position = passes->current->stream.position;
    const cut_axis axis = {.site = index, .features = last->features_per_unit};
    kept_features kept = {0};
    if (position > s->producers[0].node && position < last->node) {
        TRY(pass_to(passes, last->node, GRAPH_NONE));
    }
    TRY(find_kept(cut->plan, results, &axis, s->units * axis.features, &kept));
    TRY(sample_stream_gather(&passes->current->stream, cut->graph->nodes[last->node].inputs[0],
                             kept.count, kept.features));
out:
    memory_free(kept.features);
    return status;
}

grail_status site_take_narrow_shape(const cutting *cut, const site_result *results, int index,
                                    sample_passes *passes)
{
    if (!site_narrows_in_walk(cut, index)) {
        return GRAIL_OK;
    }
    if (cut_site(cut, index)->consumer_count > 0) {
        CHECK(narrow_held_input(cut, results, index, passes));
    }
    return narrow_parameters(cut, results, index, passes->current);
}

grail_status sites_take_narrow_shapes(const cutting *cut, const site_result *results,
                                      network_run *current)
{
    if (current->sliced.nodes != NULL) {
        cuts_place_nodes(cut->graph, cut->axes, cut->plan, true, current->sliced.nodes);
    }
    return narrow_parameters(cut, results, GRAPH_NONE, current);
}

/* -- dropped sublayers ------------------------------------------------------------------------- */

grail_status silence_block(const cutting *cut, int block, parameter_store *current)
{
    for (int i = 0; i < cut->plan->count; i++) {
        if (site_is_dropped(cut->plan, i) && cut_site(cut, i)->block == block) {
            const node *n = &cut->graph->nodes[cut_site(cut, i)->consumers[0].node];
            CHECK(parameter_store_set_zero(current, n->weight));
            CHECK(parameter_store_set_zero(current, n->bias));
        }
    }
    return GRAIL_OK;
}

grail_status silence_dropped(const cutting *cut, parameter_store *current)
{
    for (int block = 0; block < cut->graph->block_count; block++) {
        CHECK(silence_block(cut, block, current));
    }
    return GRAIL_OK;
}
