#include "pipeline/network/consumer.h"

#include "graph/operators.h"
#include "pipeline/request/consumer_tail.h"

#include <string.h>

static const node *consumer_node(const cutting *cut, int index, int consumer)
{
    return &cut->graph->nodes[cut_site(cut, index)->consumers[consumer].node];
}

static consumer_layout layout_of(const cutting *cut, const node *n, int64_t features)
{
    const graph_parameter *weight = &cut->graph->parameters[n->weight];
    const cut_axis *rows = &cut->axes[n->weight].rows;
    const int64_t taps = weight_taps(weight);
    const bool by_tap = map_is_fitted_by_tap(&cut->plan->compensation, n);
    return (consumer_layout){
        .rows = cut_wide_place(cut->plan, rows, weight->shape[0]),
        .features = features / node_groups(n),
        .groups = node_groups(n),
        .taps = by_tap ? taps : 1,
        .tap_rows = by_tap ? 1 : taps,
    };
}

consumer_layout consumer_layout_of(const cutting *cut, int index, int consumer)
{
    const site *s = cut_site(cut, index);
    return layout_of(cut, consumer_node(cut, index, consumer),
                     s->units * s->consumers[consumer].features_per_unit);
}

consumer_layout map_layout_of(const cutting *cut, int node_index)
{
    const node *n = &cut->graph->nodes[node_index];
    return layout_of(cut, n, cut->graph->parameters[n->weight].shape[1] * node_groups(n));
}

/* out[rows, inner, outer] <- in[rows, outer, inner] */
static void swap_inner(int64_t rows, int64_t outer, int64_t inner, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < outer; o++) {
            for (int64_t i = 0; i < inner; i++) {
                out[(r * inner + i) * outer + o] = in[(r * outer + o) * inner + i];
            }
        }
    }
}

/* out[outer, wide inner] <- in[outer, dense inner], with zeros for merged units. */
static void spread(const plan *p, const cut_axis *axis, int64_t outer, int64_t dense, int64_t inner,
                   const float *in, float *out)
{
    const int64_t wide = cut_wide_place(p, axis, dense);
    for (int64_t i = 0; i < dense; i++) {
        const int64_t place = cut_wide_place(p, axis, i);
        for (int64_t o = 0; o < outer; o++) {
            memcpy(out + (o * wide + place) * inner, in + (o * dense + i) * inner,
                   (size_t)inner * sizeof *out);
        }
    }
}

/* *values[outer, wide inner] in place of *values[outer, dense inner] where the sites of an axis are
 * parts and their merged units are not there yet. *size is that of the axis. */
static grail_status spread_part(const cutting *cut, const cut_axis *axis, int64_t outer,
                                int64_t dense, int64_t inner, int64_t *size, float **values)
{
    float *in = *values;
    const int64_t wide = cut_wide_place(cut->plan, axis, dense);
    if (axis->site == GRAPH_NONE || !cut_site(cut, axis->site)->is_part || *size != dense ||
        wide == dense) {
        return GRAIL_OK;
    }
    *values = NULL;
    const grail_status status = memory_new(values, (size_t)(outer * wide * inner), sizeof *in);
    if (status == GRAIL_OK) {
        spread(cut->plan, axis, outer, dense, inner, in, *values);
        *size = wide;
    }
    memory_free(in);
    return status;
}

grail_status wide_values(const cutting *cut, parameter_store *current, int parameter,
                         int64_t shape[PARAMETER_MAX_RANK], float **out)
{
    const parameter_cut *axes = &cut->axes[parameter];
    const graph_parameter *dense = &cut->graph->parameters[parameter];
    int64_t count = 0;
    memcpy(shape, parameter_store_shape(current, parameter), PARAMETER_MAX_RANK * sizeof shape[0]);
    CHECK(parameter_store_read_f32(current, parameter, out, &count));
    int64_t width = count / shape[0];
    CHECK(spread_part(cut, &axes->rows, 1, dense->shape[0], width, &shape[0], out));
    const int64_t before = width;
    CHECK(spread_part(cut, &axes->columns, shape[0], row_elements(dense->rank, dense->shape), 1,
                      &width, out));
    shape[1] = shape[1] * width / before;
    return GRAIL_OK;
}

/* The columns that a site reads of a node that reads others, too: where they begin in the wide
 * form, and how many they are. */
static int64_t part_of(const cutting *cut, int index, const node *n, int64_t *features)
{
    const cut_axis *columns = &cut->axes[n->weight].columns;
    const cut_axis *own = cut_by_site(columns, index);
    *features = cut->plan->sites[index].units / axis_groups(own) * own->features;
    return cut_wide_place(cut->plan, columns, own->first);
}

int64_t consumer_first(const cutting *cut, int index, int consumer)
{
    const node *n = consumer_node(cut, index, consumer);
    int64_t features = 0;
    return part_of(cut, index, n, &features) / weight_taps(&cut->graph->parameters[n->weight]);
}

/* *values[rows, all] becomes those of the columns of a part alone, or of the others: zeros in its
 * place, and for its merged units. */
static grail_status read_part(const cutting *cut, parameter_store *current, int index,
                              const node *n, bool others, float **values)
{
    grail_status status = GRAIL_OK;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    int64_t features = 0;
    float *all = NULL;
    const int64_t first = part_of(cut, index, n, &features);
    TRY(wide_values(cut, current, n->weight, shape, &all));
    const int64_t width = shape[1] * weight_taps(&cut->graph->parameters[n->weight]);
    if (others) {
        const cut_axis *axis = cut_by_site(&cut->axes[n->weight].columns, index);
        const int64_t own = site_wide_units(cut->plan, index) / axis_groups(axis) * axis->features;
        for (int64_t r = 0; r < shape[0]; r++) {
            memset(all + r * width + first, 0, (size_t)own * sizeof all[0]);
        }
        *values = all;
        return GRAIL_OK;
    }
    TRY(memory_new_unset(values, (size_t)shape[0], (size_t)features * sizeof all[0]));
    for (int64_t r = 0; r < shape[0]; r++) {
        memcpy(*values + r * features, all + r * width + first, (size_t)features * sizeof all[0]);
    }
out:
    memory_free(all);
    return status;
}

/* *values[rows, features, taps] in the form for the regression. */
static grail_status turn(consumer_layout l, float **values)
{
    float *turned = NULL;
    const int64_t count = l.rows * l.tap_rows * l.features * l.taps;
    if (l.tap_rows > 1) {
        CHECK(memory_new_unset(&turned, (size_t)count, sizeof turned[0]));
        swap_inner(l.rows, l.features, l.tap_rows, *values, turned);
        memory_free(*values);
        *values = turned;
    }
    return GRAIL_OK;
}

static grail_status read_weight(parameter_store *current, int weight, consumer_layout l,
                                float **out)
{
    int64_t count = 0;
    CHECK(parameter_store_read_f32(current, weight, out, &count));
    if (count != l.rows * l.tap_rows * l.features * l.taps) {
        return error_set(GRAIL_ERROR_INTERNAL, "a consumer has %lld weights, expected %lld x %lld",
                         (long long)count, (long long)(l.rows * l.tap_rows),
                         (long long)(l.features * l.taps));
    }
    return turn(l, out);
}

grail_status consumer_read(const cutting *cut, parameter_store *current, int index, int consumer,
                           float **out)
{
    if (cut_site(cut, index)->is_part) {
        CHECK(read_part(cut, current, index, consumer_node(cut, index, consumer), false, out));
        return turn(consumer_layout_of(cut, index, consumer), out);
    }
    return read_weight(current, consumer_node(cut, index, consumer)->weight,
                       consumer_layout_of(cut, index, consumer), out);
}

grail_status consumer_read_others(const cutting *cut, parameter_store *current, int index,
                                  int consumer, float **out)
{
    return read_part(cut, current, index, consumer_node(cut, index, consumer), true, out);
}

grail_status map_read(const cutting *cut, parameter_store *current, int node_index, float **out)
{
    return read_weight(current, cut->graph->nodes[node_index].weight,
                       map_layout_of(cut, node_index), out);
}

bool weight_is_placed(parameter_store *current, int weight, const consumer_layout *l)
{
    int64_t count = 0;
    const int rank = current->model->graph->parameters[weight].rank;
    return !backend_is_host(current->backend) && l->tap_rows == 1 &&
           shape_elements(rank, parameter_store_shape(current, weight), &count) &&
           count == l->rows * l->features * l->taps;
}

grail_status weight_place(parameter_store *current, int weight, const consumer_layout *l,
                          const float *values, matrix *out)
{
    const int64_t rows = l->rows * l->tap_rows;
    const int64_t columns = l->features * l->taps;
    if (weight_is_placed(current, weight, l)) {
        CHECK(matrix_new(current->backend, GRAIL_DTYPE_F32, rows, columns, out));
        return parameter_store_copy(current, weight, *out);
    }
    return matrix_import(current->backend, GRAIL_DTYPE_F32, rows, columns, columns, values, out);
}

grail_status consumer_merge(const cutting *cut, const grail_reducer *reducer, int index,
                            int consumer, const float *weight, float **out)
{
    const consumer_layout l = consumer_layout_of(cut, index, consumer);
    const site_end *end = &cut_site(cut, index)->consumers[consumer];
    const int64_t u = end->features_per_unit * l.taps;
    const int64_t rows = l.rows * l.tap_rows / l.groups;
    const int64_t before = l.features * l.taps;
    const int64_t after = reducer->kept / l.groups * u;
    CHECK(memory_new_unset(out, (size_t)(l.groups * rows * after), sizeof **out));
    if (l.groups == 1) {
        reducer_merge_columns(reducer, end->exchangeable, u, rows, weight, *out);
    }
    for (int64_t g = 0; l.groups > 1 && g < l.groups; g++) {
        grail_reducer *own = NULL;
        CHECK(reducer_of_group(reducer, l.groups, g, &own));
        reducer_merge_columns(own, false, u, rows, weight + g * rows * before,
                              *out + g * rows * after);
        grail_reducer_free(own);
    }
    return GRAIL_OK;
}

/* wide[rows, W] <- narrow[rows, K u / groups] in the columns that the reduced units have there:
 * those of the dense ones, or `behind` them. Each of equal runs of rows has its group's units. */
static void scatter_columns(const grail_reducer *r, bool behind, const cut_axis *axis, int64_t rows,
                            int64_t wide_width, const float *narrow, float *wide)
{
    const int64_t groups = axis_groups(axis);
    const int64_t u = axis->features;
    const int64_t units = r->units / groups;
    const int64_t kept = r->kept / groups;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t group = row * groups / rows;
        const int64_t *labels = r->labels + group * units;
        const float *from = narrow + row * kept * u;
        float *to = wide + row * wide_width;
        if (behind) {
            memcpy(to + units * u, from, (size_t)(kept * u) * sizeof *to);
            continue;
        }
        for (int64_t j = 0; j < units; j++) {
            if (labels[j] >= 0) {
                memcpy(to + j * u, from + (labels[j] - group * kept) * u, (size_t)u * sizeof *to);
            }
        }
    }
}

/* out_o = sum over the taps of output o: what they add together where the patch lies inside the
 * image. */
static void sum_taps(int64_t rows, int64_t taps, const double *in, double *out)
{
    for (int64_t r = 0; r < rows; r++) {
        out[r] = 0.0;
        for (int64_t t = 0; t < taps; t++) {
            out[r] += in[r * taps + t];
        }
    }
}

/* Nothing without a change. */
static grail_status change_bias(const cutting *cut, parameter_store *current, int node_index,
                                const consumer_layout *l, const double *change)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    double *sums = NULL;
    int64_t count = 0;
    if (change == NULL) {
        return GRAIL_OK;
    }
    const bias_slot slot = consumer_bias_slot(cut->graph, node_index);
    TRY(memory_new(&sums, (size_t)l->rows, sizeof sums[0]));
    sum_taps(l->rows, l->tap_rows, change, sums);
    TRY(parameter_store_read_f32(current, slot.parameter, &bias, &count));
    for (int64_t o = 0; o < count; o++) {
        bias[o] = (float)((double)bias[o] + slot.sign * sums[o]);
    }
    TRY(parameter_store_set(current, slot.parameter, &count, bias));
out:
    memory_free(bias);
    memory_free(sums);
    return status;
}

/* Whether a consumer that is set runs on the wide axis: other consumers of its site follow, or the
 * site spans blocks or is a part. In an open loop it does not run before all sites are narrow. */
static bool runs_wide(const cutting *cut, int index, int consumer)
{
    const bool is_last = consumer == cut_site(cut, index)->consumer_count - 1;
    return cut_site(cut, index)->is_part ||
           (cut->plan->loop == LOOP_CLOSED && !(is_last && site_narrows_in_walk(cut, index)));
}

grail_status consumer_set_stored(const cutting *cut, parameter_store *current,
                                 const grail_reducer *reducer, int index, int consumer,
                                 const float *narrow)
{
    grail_status status = GRAIL_OK;
    const node *n = consumer_node(cut, index, consumer);
    const consumer_layout l = consumer_layout_of(cut, index, consumer);
    const graph_parameter *weight = &cut->graph->parameters[n->weight];
    const int64_t taps = l.taps * l.tap_rows;
    const cut_axis *all = &cut->axes[n->weight].columns;
    const cut_axis *axis = cut_by_site(all, index);
    const bool is_wide = runs_wide(cut, index, consumer);
    const int64_t width = is_wide ? cut_wide_place(cut->plan, all, weight->shape[1] * taps)
                                  : reducer->kept / axis_groups(axis) * axis->features;
    float *wide = NULL;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    if (cut_site(cut, index)->is_part) {
        TRY(consumer_read_others(cut, current, index, consumer, &wide));
    } else if (is_wide) {
        TRY(memory_new(&wide, (size_t)(l.rows * width), sizeof wide[0]));
    }
    if (is_wide) {
        scatter_columns(reducer, site_is_remade(cut->plan, index), axis, l.rows, width, narrow,
                        wide + cut_wide_place(cut->plan, all, axis->first));
    }
    memcpy(shape, weight->shape, sizeof shape);
    shape[0] = l.rows;
    shape[1] = width / taps;
    TRY(parameter_store_set(current, n->weight, shape, is_wide ? wide : narrow));
out:
    memory_free(wide);
    return status;
}

grail_status consumer_set(const cutting *cut, parameter_store *current,
                          const grail_reducer *reducer, int index, int consumer,
                          const float *narrow, const double *bias_change)
{
    grail_status status = GRAIL_OK;
    const node *n = consumer_node(cut, index, consumer);
    const consumer_layout l = consumer_layout_of(cut, index, consumer);
    const int64_t taps = l.taps * l.tap_rows;
    const int64_t kept = reducer->kept / l.groups *
                         (cut_by_site(&cut->axes[n->weight].columns, index)->features / taps);
    const float *natural = narrow;
    float *turned = NULL;
    if (l.tap_rows > 1) {
        TRY(memory_new_unset(&turned, (size_t)(l.rows * kept * taps), sizeof turned[0]));
        swap_inner(l.rows, taps, kept, narrow, turned);
        natural = turned;
    }
    TRY(consumer_set_stored(cut, current, reducer, index, consumer, natural));
    TRY(change_bias(cut, current, cut_site(cut, index)->consumers[consumer].node, &l, bias_change));
out:
    memory_free(turned);
    return status;
}

grail_status consumer_set_matrix(const cutting *cut, parameter_store *current,
                                 const grail_reducer *reducer, int index, int consumer,
                                 matrix narrow, const double *bias_change)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    const node *n = consumer_node(cut, index, consumer);
    const consumer_layout l = consumer_layout_of(cut, index, consumer);
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    if (l.tap_rows > 1 || runs_wide(cut, index, consumer)) {
        TRY(host_view_open(narrow, GRAIL_DTYPE_F32, HOST_READS, &v));
        TRY(consumer_set(cut, current, reducer, index, consumer, v.values, bias_change));
    } else {
        memcpy(shape, cut->graph->parameters[n->weight].shape, sizeof shape);
        shape[0] = l.rows;
        shape[1] = narrow.columns / l.taps;
        TRY(parameter_store_set_matrix(current, n->weight, shape, narrow));
        TRY(change_bias(cut, current, cut_site(cut, index)->consumers[consumer].node, &l,
                        bias_change));
    }
out:
    host_view_drop(&v);
    return status;
}

grail_status map_set(const cutting *cut, parameter_store *current, int node_index, matrix weight,
                     const double *bias_change)
{
    grail_status status = GRAIL_OK;
    const int parameter = cut->graph->nodes[node_index].weight;
    const consumer_layout l = map_layout_of(cut, node_index);
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    host_view v = {0};
    float *turned = NULL;
    memcpy(shape, cut->graph->parameters[parameter].shape, sizeof shape);
    shape[0] = l.rows;
    if (l.tap_rows > 1) {
        TRY(memory_new_unset(&turned, (size_t)(l.rows * l.tap_rows * l.features),
                             sizeof turned[0]));
        TRY(host_view_open(weight, GRAIL_DTYPE_F32, HOST_READS, &v));
        swap_inner(l.rows, l.tap_rows, l.features, v.values, turned);
    }
    TRY(turned == NULL ? parameter_store_set_matrix(current, parameter, shape, weight)
                       : parameter_store_set(current, parameter, shape, turned));
    TRY(change_bias(cut, current, node_index, &l, bias_change));
out:
    host_view_drop(&v);
    memory_free(turned);
    return status;
}
