/* After the last consumer of a site the calibration network has its narrow shapes, whatever decides
 * the site and wherever the sample stream waits; sites that span blocks stay wide. */
#include "vision_lab.h"

#include "pipeline/compression.h"

static grail_compression *run_in_memory(grail_compress_options options)
{
    grail_compression *c = NULL;
    options.output = NULL; /* so no block is released */
    assert_ok(grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    return c;
}

/* The calibration network's parameters on this axis of a cut site have this many rows or columns.
 */
static void assert_axis(const grail_compression *c, const cut_axis *axis, int dimension,
                        int parameter, bool narrow)
{
    const plan *p = &c->request->plan;
    const parameter_entry *entry = NULL;
    if (axis->site == GRAPH_NONE) {
        return;
    }
    assert_ok(parameter_store_get(c->network->current.parameters, parameter, &entry));
    const int64_t size =
        dimension == 0 && entry->values.rows > 1 ? entry->values.rows : entry->values.columns;
    const int64_t units = narrow ? p->sites[axis->site].kept : site_wide_units(p, axis->site);
    assert_int_equal(size, units * axis->features);
}

/* Returns how many sites are narrow. */
static int check_shapes(const grail_compression *c)
{
    int count = 0;
    for (int i = 0; i < c->request->plan.count; i++) {
        const bool cut = site_is_cut(&c->request->plan, i);
        const bool spans = site_spans_blocks(c->request->graph, site_at(c->request, i));
        const bool closed = c->request->plan.loop == LOOP_CLOSED;
        assert_int_equal(c->network->results[i].is_narrow,
                         cut && (!spans || (!closed && c->request->plan.repair)));
        count += c->network->results[i].is_narrow ? 1 : 0;
    }
    for (int p = 0; p < c->request->graph->parameter_count; p++) {
        const parameter_cut *cut = &c->request->cuts[p];
        const bool rows = cut->rows.site != GRAPH_NONE;
        const bool columns = cut->columns.site != GRAPH_NONE;
        assert_axis(c, &cut->rows, 0, p, rows && c->network->results[cut->rows.site].is_narrow);
        assert_axis(c, &cut->columns, 1, p,
                    columns && c->network->results[cut->columns.site].is_narrow);
    }
    return count;
}

static void the_sites_of_a_decoder_are_narrow(void **state)
{
    (void)state;
    static const char *const selectors[] = {"wanda", "fold", "magnitude-l2"};
    static const char *const ways[] = {"full", "grail", "none"};
    lab l;
    lab_open(&l);
    for (int i = 0; i < 3; i++) {
        grail_compress_options options = lab_options(&l, lab_golden("llama3"), NULL);
        options.selector = selectors[i];
        options.compensate = ways[i];
        options.memory = i == 1 ? 1 : 0;
        grail_compression *c = run_in_memory(options);
        assert_int_equal(check_shapes(c), c->request->plan.count);
        grail_compression_close(c);
    }
    lab_close(&l);
}

static void streams_that_span_blocks_stay_wide(void **state)
{
    (void)state;
    static const char *const selectors[] = {"wanda", "fold", "magnitude-l1"};
    vision_lab v;
    vision_open(&v);
    for (int f = 0; f < VISION_FAMILIES; f++) {
        const char *model = vision_network(&v, (vision_family)f, vision_family_name(f));
        for (int way = 0; way < 4; way++) {
            grail_compress_options options = vision_options(&v, model, NULL);
            vision_cut(&options, 0.4);
            options.selector = selectors[(f + way) % 3];
            options.compensate = way == 1 ? "none" : "full";
            options.repair = way % 2;
            options.open_loop = way == 3 && !vision_family_is_tower((vision_family)f);
            options.memory = way == 2 ? 1 : 0;
            options.samples = 8;
            grail_compression *c = run_in_memory(options);
            assert_true(check_shapes(c) > 0);
            grail_compression_close(c);
        }
    }
    vision_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sites_of_a_decoder_are_narrow),
        cmocka_unit_test(streams_that_span_blocks_stay_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
