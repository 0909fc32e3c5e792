/* After the last consumer of a site the calibration network has its narrow shapes, whatever decides
 * the site and wherever the sample stream waits; sites that span blocks stay wide. */
#include "vision_lab.h"

#include "pipeline/compression.h"
#include "pipeline/network/consumer.h"

/* After a closed loop the sites inside blocks are narrow, after an open one all that REPAIR runs.
 */
static bool is_narrow(const grail_compression *c, int index)
{
    const plan *p = &c->request->plan;
    const bool spans = site_spans_blocks(c->request->graph, site_at(c->request, index));
    return p->loop == LOOP_CLOSED ? !spans : p->repair;
}

/* The calibration network's own parameter on this axis of a site has as many rows or columns as the
 * result, or, where the site stays wide, as before the cut. What it has not set and does not run
 * again may be the dense one. Returns whether the axis is narrow. */
static int assert_axis(const grail_compression *c, const cut_axis *axis, bool by_rows,
                       int parameter)
{
    const plan *p = &c->request->plan;
    const matrix values = c->network->current.parameters->entries[parameter].values;
    if (axis->site == GRAPH_NONE) {
        return 0;
    }
    const bool narrow = is_narrow(c, axis->site);
    assert_true(matrix_exists(values) || !narrow ||
                (by_rows && c->network->passes.keep_activations));
    if (matrix_exists(values)) {
        const int64_t size = by_rows && values.rows > 1 ? values.rows : values.columns;
        const int64_t units = narrow ? p->sites[axis->site].kept : site_wide_units(p, axis->site);
        assert_int_equal(size, units * axis->features);
    }
    return narrow ? 1 : 0;
}

/* The consumers of sites inside blocks take a narrow weight as it is, without a pass through the
 * wide form. */
static void assert_consumers_are_set_narrow(const grail_compression *c)
{
    for (int i = 0; i < c->request->plan.count; i++) {
        const site *s = site_at(c->request, i);
        const int parameter = c->request->graph->nodes[s->consumers[0].node].weight;
        const matrix *own = &c->network->current.parameters->entries[parameter].values;
        const int64_t width = c->request->plan.sites[i].kept * s->consumers[0].features_per_unit;
        int64_t count = 0;
        OPENED(
            float, values,
            parameter_store_read_f32(c->network->current.parameters, parameter, &values, &count));
        values[0] = 3.0F;
        assert_ok(consumer_set(&c->request->cut, c->network->current.parameters,
                               c->network->results[i].reducer, i, 0, values, NULL));
        assert_int_equal(own->columns, width);
        OPENED(float, after,
               parameter_store_read_f32(c->network->current.parameters, parameter, &after, &count));
        assert_memory_equal(after, values, (size_t)count * sizeof values[0]);
    }
}

/* Returns how many axes are narrow. */
static int check_shapes(const grail_compression *c)
{
    int count = 0;
    for (int p = 0; p < c->request->graph->parameter_count; p++) {
        count += assert_axis(c, &c->request->cuts[p].rows, true, p);
        count += assert_axis(c, &c->request->cuts[p].columns, false, p);
    }
    return count;
}

LAB_TEST(the_sites_of_a_decoder_are_narrow)
{
    static const char *const selectors[] = {"wanda", "fold", "magnitude-l2"};
    static const char *const ways[] = {"full", "grail", "none"};
    for (int i = 0; i < 3; i++) {
        grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
        options.cut.selector = selectors[i];
        options.fit.compensate = ways[i];
        options.run.memory = i == 1 ? 1 : 0;
        OWNED(grail_compression) *c = lab_run_in_memory(options);
        assert_true(check_shapes(c) > 0);
        assert_consumers_are_set_narrow(c);
    }
}

VISION_TEST(streams_that_span_blocks_stay_wide)
{
    static const char *const selectors[] = {"wanda", "fold", "magnitude-l1"};
    for (int f = 0; f < VISION_FAMILIES; f++) {
        const char *model = vision_network(v, (vision_family)f, vision_family_name(f));
        for (int way = 0; way < 4; way++) {
            grail_compress_options options = vision_options(v, model, NULL);
            vision_cut(&options, 0.4);
            options.cut.selector = selectors[(f + way) % 3];
            options.fit.compensate = way == 1 ? "none" : "full";
            options.fit.repair = way % 2;
            options.fit.open_loop = way == 3 && !vision_family_is_tower((vision_family)f);
            options.run.memory = way == 2 ? 1 : 0;
            options.read.samples = 8;
            OWNED(grail_compression) *c = lab_run_in_memory(options);
            assert_true(check_shapes(c) > 0);
        }
    }
}
