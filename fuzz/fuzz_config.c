/* Any text as a decoder's config.json: an accepted text builds a graph with consistent widths and
 * sites. When the graph is cut at every site, its new configuration builds exactly the narrowed
 * network. */
#include "fuzz.h"

#include "arch/architecture.h"
#include "graph/site.h"

#include <string.h>

static void narrow_end(graph *g, const site_end *end, int axis, int64_t kept)
{
    const node *n = &g->nodes[end->node];
    g->parameters[n->weight].shape[axis] = kept * end->features_per_unit;
    if (axis == 0 && n->bias != GRAPH_NONE) {
        g->parameters[n->bias].shape[0] = kept * end->features_per_unit;
    }
}

/* Keeps half of every site, which leaves at least one unit of each group; true if no site has an
 * odd number, so that all widths keep their ratios. Whole experts stay: how many a router must
 * choose from is the plan's to check. So do sites of the kind `whole`: heads and values of heads
 * are not cut in one run. */
static bool halve_sites(graph *g, const site_list *sites, site_kind whole)
{
    bool alike = true;
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        const int64_t kept = (s->units / s->groups + 1) / 2 * s->groups;
        fuzz_require(s->units > 0 && s->units % s->groups == 0);
        if (s->kind == SITE_EXPERTS || s->kind == whole) {
            continue;
        }
        alike = alike && s->units / s->groups % 2 == 0;
        for (int p = 0; p < s->producer_count; p++) {
            narrow_end(g, &s->producers[p], 0, kept);
        }
        for (int c = 0; c < s->channel_count; c++) {
            narrow_end(g, &s->channels[c], 0, kept);
        }
        for (int k = 0; k < s->consumer_count; k++) {
            narrow_end(g, &s->consumers[k], 1, kept);
        }
    }
    return alike;
}

static void require_same_shapes(const graph *a, const graph *b)
{
    fuzz_require(a->parameter_count == b->parameter_count);
    for (int p = 0; p < a->parameter_count; p++) {
        fuzz_require(strcmp(a->parameters[p].name, b->parameters[p].name) == 0);
        fuzz_require(memcmp(a->parameters[p].shape, b->parameters[p].shape,
                            (size_t)a->parameters[p].rank * sizeof(int64_t)) == 0);
    }
}

/* The configuration that describes `narrowed` must build it again. Where widths lost their ratios
 * (`alike` is false), a family that states one width as a multiple of another may refuse. */
static void check_description(const graph *dense, const graph *narrowed, const architecture *a,
                              const json_t *config, bool alike)
{
    loader_verdict verdicts[LOADER_COUNT];
    const architecture *again = NULL;
    graph *g = NULL;
    json_t *described = json_deep_copy(config);
    const grail_status status = a->describe_narrowed(a, narrowed, described);
    if (status == GRAIL_ERROR_UNSUPPORTED && !alike) {
        json_decref(described);
        return;
    }
    fuzz_require(status == GRAIL_OK);
    fuzz_require(a->judge_loaders(a, described, dense, narrowed, verdicts) == GRAIL_OK);
    fuzz_require(architecture_find("config.json", described, &again) == GRAIL_OK);
    fuzz_require(again->build(again, "config.json", described, NULL, &g) == GRAIL_OK);
    require_same_shapes(narrowed, g);
    fuzz_require(a->context(a, config) == again->context(again, described));
    graph_free(g);
    json_decref(described);
}

static void check_mode(const architecture *a, const json_t *config, const graph *dense,
                       gqa_mode mode, site_kind whole)
{
    site_list sites = {0};
    graph *narrowed = NULL;
    int64_t *widths = NULL;
    fuzz_require(a->build(a, "config.json", config, NULL, &narrowed) == GRAIL_OK);
    fuzz_require(sites_derive(dense, mode, &sites) == GRAIL_OK);
    const bool alike = halve_sites(narrowed, &sites, whole);
    fuzz_require(memory_new(&widths, (size_t)narrowed->value_count, sizeof widths[0]) == GRAIL_OK);
    fuzz_require(graph_widths(narrowed, widths) == GRAIL_OK);
    check_description(dense, narrowed, a, config, alike);
    memory_free(widths);
    graph_free(narrowed);
    site_list_fini(&sites);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *config = NULL;
    const architecture *a = NULL;
    graph *g = NULL;
    if (json_parse("config.json", data, size, &config) == GRAIL_OK &&
        architecture_find("config.json", config, &a) == GRAIL_OK && a->family != NULL &&
        a->build(a, "config.json", config, NULL, &g) == GRAIL_OK) {
        fuzz_require(a->context(a, config) > 0);
        check_mode(a, config, g, GQA_KV_GROUPS, SITE_VALUES);
        check_mode(a, config, g, GQA_QUERY_PER_GROUP, SITE_VALUES);
        check_mode(a, config, g, GQA_KV_GROUPS, SITE_HEADS);
    }
    graph_free(g);
    json_decref(config);
    return 0;
}
