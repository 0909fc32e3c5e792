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
    assert_ok(loss_curves_init(&s->request->sites->list, &s->curves));
    assert_ok(loss_curves_collect(s->network, &times, &s->curves));
    assert_ok(grail_model_describe(s->request->model, &facts));
    assert_ok(cost_table_init(s->request->model, &s->request->sites->list, may_cut,
                              LIMIT_PARAMETERS, &s->costs));
    s->space = (width_space){.graph = s->request->graph,
                             .sites = &s->request->sites->list,
                             .plan = &s->request->plan,
                             .costs = &s->costs,
                             .limit = 0.8 * (double)facts.parameters,
                             .sharing = sharing,
                             .align = {.step = 1}};
    assert_ok(width_space_init(&s->space, s->curves.of, may_cut));
}

void spaced_close(spaced *s)
{
    width_space_fini(&s->space);
    cost_table_fini(&s->costs);
    loss_curves_fini(&s->curves);
    network_free(s->network);
    request_close(s->request);
}
