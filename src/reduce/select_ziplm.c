/* ziplm: the units are removed one by one, each time the one whose removal costs least, from the
 * dense weights (Kurtic et al., arXiv 2302.04089). */
#include "reduce/removal.h"
#include "reduce/selector.h"

static grail_status decide(const site_view *v, grail_reducer **out)
{
    static const removal_options options = {.kind = VALUE_EXACT, .damping = 1e-2};
    return removal_decide(v, &options, batch_of_one, out);
}

const selector selector_ziplm = {
    .name = "ziplm",
    .summary = "removes unit after unit by the cost of its removal from the dense weights",
    .uses_data = true,
    .own = &removal_update,
    .needs = selector_needs_gram,
    .decide = decide,
};
