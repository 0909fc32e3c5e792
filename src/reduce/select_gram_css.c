/* gram-css: units are kept one by one, each time the one that explains most of the consumers'
 * outputs that the kept ones do not explain yet: greedy column subset selection, which minimises
 * the residual of a fit without ridge step by step (docs/numerics.md, Elimination). */
#include "reduce/removal.h"
#include "reduce/selector.h"

static grail_status decide(const site_view *v, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    removal r = {0};
    TRY(removal_of_gains(v, &r));
    TRY(removal_take(&r, v->site->groups, v->kept, true, batch_of_one, NULL));
    TRY(removal_reducer(&r, true, out));
out:
    removal_fini(&r);
    return status;
}

const selector selector_gram_css = {
    .name = "gram-css",
    .summary = "keeps unit after unit by how much of the output it explains",
    .uses_data = true,
    .needs = selector_needs_gram,
    .decide = decide,
};
