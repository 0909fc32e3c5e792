#include "pipeline/network/trial.h"

#include "pipeline/network/fit.h"

#include <math.h>

/* Fits copies of the sums; `o` keeps its own. */
static grail_status try_fit(const site_trial *t, const observation *o, const grail_reducer *r,
                            double *error)
{
    grail_status status = GRAIL_OK;
    observation copy = *o;
    fitted_map fitted = {0};
    float *prior = NULL;
    const bool fits = t->network->request->plan.compensation.enabled;
    copy.fit = NULL;
    copy.held = NULL;
    TRY(statistics_copy(o->fit, &copy.fit));
    TRY(statistics_copy(o->held, &copy.held));
    TRY(consumer_merge(t->network, r, o->site, o->consumer, o->weight, &prior));
    TRY(fit_solve(t->network, &copy, r, prior, &fitted));
    const ridge_result *found = &fitted.result;
    *error = fits ? found->held_after : found->held_before;
    if (isnan(*error)) { /* nothing was held out */
        *error = fits ? found->fit_after : found->fit_before;
    }
out:
    grail_statistics_free(copy.fit);
    grail_statistics_free(copy.held);
    memory_free(prior);
    fitted_map_fini(&fitted);
    return status;
}

/* With the dense network's statistics of a consumer's input, and its own output as the target. */
static grail_status try_consumer(const site_trial *t, int consumer, const grail_reducer *r,
                                 double *error)
{
    grail_status status = GRAIL_OK;
    observation o = {0};
    const compression_request *request = t->network->request;
    const int reader = site_at(request, t->site)->consumers[consumer].node;
    const dense_statistics *dense = &request->session->of_nodes[reader];
    TRY(observation_init_input(request, t->site, consumer, &o));
    TRY(consumer_read(t->network, t->site, consumer, &o.weight));
    TRY(grail_statistics_add(o.fit, dense->fit));
    TRY(grail_statistics_add(o.held, dense->held));
    TRY(try_fit(t, &o, r, error));
out:
    observation_fini(&o);
    return status;
}

grail_status site_trial_run(void *context, const grail_reducer *r, double *error)
{
    grail_status status = GRAIL_OK;
    const site_trial *t = context;
    const int count = site_at(t->network->request, t->site)->consumer_count;
    if (t->observed != NULL) {
        return try_fit(t, t->observed, r, error);
    }
    *error = 0.0;
    for (int k = 0; k < count; k++) {
        double one = 0.0;
        TRY(try_consumer(t, k, r, &one));
        *error += one / count;
    }
out:
    return status;
}
