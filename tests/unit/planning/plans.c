#include "plans.h"

#include "support/support.h"

grail_plan_options plan_for(const grail_compress_options *run, const char *budget, double ratio)
{
    grail_plan_options options;
    grail_plan_options_init(&options);
    options.compress = *run;
    options.compress.cut.selector = "obs";
    options.budget = budget;
    options.ratio = ratio;
    options.tries = 8;
    return options;
}

grail_plan *made(const grail_plan_options *options)
{
    grail_plan *p = NULL;
    assert_ok(grail_plan_make(options, &p));
    return p;
}

void spaced_open(const grail_compress_options *run, width_sharing sharing, spaced *s)
{
    loss_times times;
    bool may_cut[SITE_KINDS] = {false};
    grail_model_facts facts = {0};
    const request_purpose purpose = {.reads_samples = true};
    may_cut[SITE_HEADS] = may_cut[SITE_FFN] = may_cut[SITE_CONV] = true;
    assert_ok(request_open(run, purpose, &s->request));
    assert_ok(network_create(s->request, 0, &s->network));
    assert_ok(loss_curves_collect(s->network, &times, &s->curves));
    assert_ok(grail_model_describe(s->request->model, &facts));
    assert_ok(width_space_init(s->request, s->curves, LIMIT_PARAMETERS,
                               0.8 * (double)facts.parameters, may_cut, sharing,
                               (alignment){.step = 1}, &s->space));
}

void spaced_close(spaced *s)
{
    width_space_fini(&s->space);
    loss_curves_free(s->curves, s->request->sites->list.count);
    network_free(s->network);
    request_close(s->request);
}
