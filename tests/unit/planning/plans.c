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
