/* Any text as a plan document, read against the sites of a small network. An accepted plan keeps
 * between no unit, so that its sublayer goes, and all, equally many of every group, and is the same
 * when it is written and read again. */
#include "fuzz_network.h"

#include "reduce/plan.h"

#include <math.h>
#include <string.h>

/* Ascending units of the site, as many of every group. */
static void check_units(const plan_site *own, const site *s)
{
    int64_t in_group[64] = {0};
    fuzz_require(s->groups <= 64 && !own->selector->folds);
    for (int64_t i = 0; i < own->kept; i++) {
        fuzz_require(own->kept_units[i] > (i == 0 ? -1 : own->kept_units[i - 1]));
        fuzz_require(own->kept_units[i] < s->units);
        in_group[own->kept_units[i] / (s->units / s->groups)]++;
    }
    for (int64_t g = 0; g < s->groups; g++) {
        fuzz_require(in_group[g] == own->kept / s->groups);
    }
}

static void check_kept(const plan *p, const site_list *sites)
{
    fuzz_require(p->count == sites->count);
    for (int i = 0; i < p->count; i++) {
        const site *s = &sites->sites[i];
        fuzz_require(p->sites[i].units == s->units);
        fuzz_require(p->sites[i].kept >= 0 && p->sites[i].kept <= s->units);
        fuzz_require(p->sites[i].kept % s->groups == 0);
        if (p->sites[i].kept_units != NULL) {
            check_units(&p->sites[i], s);
        }
    }
}

static void check_round_trip(const plan *p, const site_list *sites)
{
    plan again = {0};
    json_t *document = json_object();
    json_t *written = json_object();
    fuzz_require(isfinite(p->compensation.alpha.value) && p->compensation.alpha.value >= 0.0);
    fuzz_require(plan_to_json(p, sites, document) == GRAIL_OK);
    fuzz_require(plan_init(&again, sites, &selector_wanda) == GRAIL_OK);
    fuzz_require(plan_read("again", document, sites, &again) == GRAIL_OK);
    fuzz_require(plan_to_json(&again, sites, written) == GRAIL_OK);
    fuzz_require(json_equal(document, written));
    json_decref(document);
    json_decref(written);
    plan_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *document = NULL;
    gqa_mode gqa = GQA_KV_GROUPS;
    plan p = {0};
    site_list sites = {0};
    graph *g = fuzz_network();
    if (json_parse("plan.json", data, size, &document) == GRAIL_OK &&
        plan_read_gqa("plan.json", document, &gqa) == GRAIL_OK) {
        fuzz_require(sites_derive(g, gqa, &sites) == GRAIL_OK && sites.count == 4);
        p.gqa = gqa;
        fuzz_require(plan_init(&p, &sites, &selector_wanda) == GRAIL_OK);
        if (plan_read("plan.json", document, &sites, &p) == GRAIL_OK) {
            check_kept(&p, &sites);
            check_round_trip(&p, &sites);
        }
    }
    plan_fini(&p);
    site_list_fini(&sites);
    json_decref(document);
    graph_free(g);
    return 0;
}
