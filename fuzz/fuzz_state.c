/* Any bytes as the state of an interrupted run: as the file of its records, and as the text of one
 * record, which no checksum guards here. Records that are accepted are written and read back the
 * same, and so are the results of the sites that a record restores. */
#include "fuzz_network.h"

#include "base/record.h"
#include "pipeline/network/site_record.h"
#include "pipeline/output/run_records.h"

enum { HEADS_KEPT = 2, NEURONS_KEPT = 8 };

static void check_records(const uint8_t *data, size_t size)
{
    buffer text = {.maximum = SIZE_MAX / 2};
    json_t *records = NULL;
    json_t *again = NULL;
    if (record_parse("state", data, size, &records) == GRAIL_OK) {
        for (size_t i = 0; i < json_array_size(records); i++) {
            fuzz_require(record_append_line(json_array_get(records, i), &text) == GRAIL_OK);
        }
        fuzz_require(record_parse("again", text.bytes, text.size, &again) == GRAIL_OK);
        fuzz_require(json_equal(records, again));
    }
    buffer_fini(&text);
    json_decref(records);
    json_decref(again);
}

/* What records are read against: sites, and how much of each is kept. */
typedef struct asked {
    graph *graph;
    plan plan;
    grail_site_list sites;
    cutting cut;
} asked;

static void ask(asked *a)
{
    *a = (asked){.graph = fuzz_network()};
    a->cut = (cutting){.graph = a->graph, .sites = &a->sites.list, .plan = &a->plan};
    fuzz_require(sites_derive(a->graph, GQA_KV_GROUPS, &a->sites.list) == GRAIL_OK);
    fuzz_require(plan_init(&a->plan, &a->sites.list, &selector_wanda) == GRAIL_OK);
    fuzz_require(memory_new(&a->sites.facts, (size_t)a->sites.list.count,
                            sizeof a->sites.facts[0]) == GRAIL_OK);
    for (int i = 0; i < a->sites.list.count; i++) {
        const site *s = &a->sites.list.sites[i];
        a->plan.sites[i].kept = s->kind == SITE_HEADS ? HEADS_KEPT : NEURONS_KEPT;
        a->sites.facts[i] =
            (grail_site_facts){.name = s->name, .kind = site_kind_name(s->kind), .block = s->block};
    }
}

static void forget(asked *a)
{
    graph_free(a->graph);
    plan_fini(&a->plan);
    site_list_fini(&a->sites.list);
    memory_free(a->sites.facts);
}

static void check_reducer(const grail_reducer *r, const plan_site *planned)
{
    fuzz_require(r != NULL && r->units == planned->units && r->kept == planned->kept);
    for (int64_t j = 0; j < r->units; j++) {
        fuzz_require(r->labels[j] >= (r->folds ? 0 : -1) && r->labels[j] < r->kept);
    }
}

/* record -> results -> record -> results gives the same record again. */
static void check_round_trip(const asked *a, int index, const site_result *first)
{
    site_result *second = NULL;
    json_t *written = json_object();
    json_t *again = json_object();
    fuzz_require(site_results_create(a->sites.facts, &a->plan, &second) == GRAIL_OK);
    fuzz_require(site_result_to_json(first, written) == GRAIL_OK);
    fuzz_require(site_result_restore(a->graph, &a->sites.list.sites[index],
                                     a->plan.sites[index].kept, written,
                                     &second[index]) == GRAIL_OK);
    fuzz_require(site_result_to_json(&second[index], again) == GRAIL_OK);
    fuzz_require(json_equal(written, again));
    json_decref(written);
    json_decref(again);
    site_results_free(second, a->plan.count);
}

static void check_restored(const json_t *record)
{
    asked a;
    site_result *results = NULL;
    ask(&a);
    const int count = a.plan.count;
    fuzz_require(site_results_create(a.sites.facts, &a.plan, &results) == GRAIL_OK);
    if (record_restore_sites(record, &a.cut, GRAPH_NONE, true, "state", results) == GRAIL_OK) {
        for (int i = 0; i < count; i++) {
            check_reducer(results[i].reducer, &a.plan.sites[i]);
            check_round_trip(&a, i, &results[i]);
        }
    }
    site_results_free(results, count);
    forget(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *record = NULL;
    check_records(data, size);
    if (json_parse("record", data, size, &record) == GRAIL_OK) {
        check_restored(record);
    }
    json_decref(record);
    return 0;
}
