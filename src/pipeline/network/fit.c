#include "pipeline/network/fit.h"

#include "pipeline/request/consumer_tail.h"

void fitted_map_fini(fitted_map *m)
{
    memory_free(m->weight);
    memory_free(m->bias_change);
    *m = (fitted_map){0};
}

static grail_status make_regression(const grail_comm *comm, const observation *o,
                                    const grail_reducer *reducer, grail_statistics *s,
                                    const float *prior, regression *out)
{
    const int64_t rows = o->layout.rows * o->layout.tap_rows;
    const grail_reducer *map = o->remade ? NULL : reducer; /* the sums are those of Z already */
    const int64_t u = map == NULL ? 1 : o->layout.features / map->units * o->layout.taps;
    return regression_derive(comm, s, map, u, rows, o->weight, prior, out);
}

static ridge_options options_of(const compression_request *request, int consumer)
{
    const compensation *how = &request->plan.compensation;
    const bool validate = how->alpha.choice == GRAIL_NUMBER_CROSS_VALIDATED;
    return (ridge_options){
        .ridge = how->ridge,
        .scale = how->ridge_scale,
        .bias = consumer_fits_bias(request->graph, how, consumer),
        .keeps_weights = how->fit == FIT_BIAS_ONLY,
        .of_all = how->ridge_of == RIDGE_OF_ALL,
        .alpha = validate ? 1e-3 : how->alpha.value,
        .alphas = ridge_alphas,
        .comm = request->comm,
        .alpha_count = validate ? RIDGE_ALPHAS : 0,
    };
}

/* judged[rows * tap_rows]: whether the narrowed network has this output. The outputs of units that
 * are removed, or replaced by merged ones, are computed only to keep the calibration network's
 * shape. *out is owned; NULL when the consumer's rows are not cut, or when it is not yet decided
 * which. */
static grail_status find_judged(const calibration_network *network, const observation *o,
                                bool **out)
{
    const node *n = &network->request->graph->nodes[o->node];
    const cut_axis *rows = &network->request->cuts[n->weight].rows;
    const grail_reducer *r = rows->site == GRAPH_NONE ? NULL : network->results[rows->site].reducer;
    if (r == NULL) {
        return GRAIL_OK;
    }
    const bool behind = site_is_remade(&network->request->plan, rows->site);
    CHECK(memory_new(out, (size_t)(o->layout.rows * o->layout.tap_rows), sizeof **out));
    for (int64_t i = 0; i < o->layout.rows * o->layout.tap_rows; i++) {
        const int64_t unit = i / o->layout.tap_rows / rows->features;
        (*out)[i] = behind ? unit >= r->units : r->labels[unit] >= 0;
    }
    return GRAIL_OK;
}

grail_status fit_solve(const calibration_network *network, observation *o,
                       const grail_reducer *reducer, const float *prior, fitted_map *out)
{
    grail_status status = GRAIL_OK;
    regression fit = {0};
    regression held = {0};
    matrix weight = {0};
    bool *judged = NULL;
    ridge_options options = options_of(network->request, o->node);
    TRY(find_judged(network, o, &judged));
    options.judged = judged;
    options.moves_prior = reducer != NULL; /* a map that was not cut lacks nothing of its own */
    TRY(make_regression(options.comm, o, reducer, o->fit, prior, &fit));
    TRY(make_regression(options.comm, o, reducer, o->held, prior, &held));
    TRY(matrix_new(network->request->backend, GRAIL_DTYPE_F64, fit.outputs, fit.width, &weight));
    if (options.bias) {
        TRY(memory_new(&out->bias_change, (size_t)fit.outputs, sizeof out->bias_change[0]));
    }
    TRY(ridge_solve(&fit, &held, prior, &options, weight, out->bias_change, &out->result));
    regression_fini(&fit);
    regression_fini(&held);
    TRY(memory_new_unset(&out->weight, (size_t)matrix_count(weight), sizeof out->weight[0]));
    TRY(matrix_download_f32(weight, out->weight));
    out->bias = options.bias && out->result.fallback != RIDGE_FALLBACK_PLAIN;
out:
    memory_free(judged);
    regression_fini(&fit);
    regression_fini(&held);
    matrix_free(&weight);
    return status;
}

grail_status fit_solve_drift(const calibration_network *network, const observation *o,
                             const drift_sums *fit, const drift_sums *held, double *share,
                             fitted_map *out)
{
    grail_status status = GRAIL_OK;
    bool *judged = NULL;
    const int64_t outputs = o->layout.rows;
    ridge_options options = options_of(network->request, o->node);
    TRY(find_judged(network, o, &judged));
    options.judged = judged;
    TRY(memory_new_unset(&out->weight, (size_t)(outputs * o->layout.features),
                         sizeof out->weight[0]));
    if (options.bias) {
        TRY(memory_new(&out->bias_change, (size_t)outputs, sizeof out->bias_change[0]));
    }
    TRY(drift_solve(fit, held, outputs, o->weight, o->mixes, &options, out->weight,
                    out->bias_change, share, &out->result));
    out->bias = options.bias && out->result.fallback != RIDGE_FALLBACK_PLAIN;
out:
    memory_free(judged);
    return status;
}
