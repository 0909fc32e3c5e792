/* obs: the units are removed one by one, each time the one whose removal costs least when all
 * others are refitted (docs/numerics.md, Elimination). The weights are first refitted on all units,
 * to the target of the fit that follows. */
#include "reduce/removal.h"
#include "reduce/selector.h"

static unsigned needs(const site *s)
{
    return site_kind_is_shared(s->kind) ? NEEDS_GRAM | NEEDS_MEANS | NEEDS_ALL_CONSUMERS
                                        : NEEDS_GRAM | NEEDS_MEANS | NEEDS_TARGET;
}

static const removal_options options = {.kind = VALUE_EXACT, .damping = 1e-2, .refits = true};

static grail_status decide(const site_view *v, grail_reducer **out)
{
    return removal_decide(v, &options, batch_of_one, out);
}

static grail_status losses(const site_view *v, double *out)
{
    grail_status status = GRAIL_OK;
    removal r = {0};
    TRY(removal_of_costs(v, &options, &r));
    TRY(removal_losses(&r, v->site->groups, out));
out:
    removal_fini(&r);
    return status;
}

const selector selector_obs = {
    .name = "obs",
    .summary = "removes unit after unit by what its removal costs once the others are refitted",
    .uses_data = true,
    .own = &removal_update,
    .needs = needs,
    .decide = decide,
    .losses = losses,
};
