/* --select open: the units are those that an open loop chooses, the fits are those of a closed
 * loop.
 */
#include "vision_sites.h"

#include "pipeline/request/session.h"

#include <math.h>

/* What a run with these options keeps, as its report lists the units; json_decref. */
static json_t *kept_units(grail_compress_options options, const char *output)
{
    options.output.path = output;
    assert_ok(lab_compress(&options));
    OWNED(json_t) *report = read_json(output, "report.json");
    const json_t *sites = json_object_get(report, "sites");
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(sites); i++) {
        json_t *units = json_object_get(json_array_get(sites, i), "kept_units");
        assert_int_equal(json_array_append(list, units == NULL ? json_null() : units), 0);
    }
    return list;
}

static bool holds_statistics(const grail_session *session)
{
    bool held = false;
    for (int n = 0; n < session->model->graph->node_count; n++) {
        held = held || session->of_nodes[n].fit != NULL || session->of_nodes[n].held != NULL;
    }
    return held;
}

static const char *named(const lab *l, const char *selector, const char *how)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%s", selector, how);
    return lab_path(l, name);
}

/* Runs in an open loop, with an open and with a closed selection, all in one session. Returns
 * whether the closed one keeps other units. */
static bool assert_units_of_an_open_loop(const lab *l, grail_compress_options options,
                                         const char *consumer)
{
    const char *selector = options.cut.selector;
    assert_ok(grail_session_open(options.read.model, NULL, &options.read.session));
    json_t *closed = kept_units(options, named(l, selector, "closed"));
    options.cut.select = "open";
    json_t *both = kept_units(options, named(l, selector, "select"));
    assert_false(holds_statistics(options.read.session));
    options.cut.select = NULL;
    options.fit.open_loop = 1;
    json_t *open = kept_units(options, named(l, selector, "loop"));
    options.fit.open_loop = 0;
    options.cut.select = "open";
    json_decref(kept_units(options, named(l, selector, "again")));
    assert_true(json_equal(both, open));
    assert_same_checkpoint(named(l, selector, "select"), named(l, selector, "again"));
    assert_false(same_tensor(named(l, selector, "select"), named(l, selector, "loop"), consumer));
    const bool differs = !json_equal(both, closed);
    json_decref(closed);
    json_decref(both);
    json_decref(open);
    grail_session_close(options.read.session);
    return differs;
}

LAB_TEST(units_are_those_of_an_open_loop)
{
    static const char *const selectors[] = {"wanda", "obs", "flap"};
    int different = 0;
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
        options.amount.sparsity_ffn = 0.5;
        options.fit.compensate = "grail";
        options.cut.selector = selectors[i];
        different +=
            assert_units_of_an_open_loop(l, options, "model.layers.1.mlp.down_proj.weight");
    }
    assert_true(different >= 2);
}

/* Residual streams, which end behind the blocks, and channels, whose norms know earlier cuts. */
VISION_TEST(channels_are_those_of_an_open_loop)
{
    static const char *const selectors[] = {"wanda", "gram-css", "obs"};
    const char *model = vision_network(v, VISION_BASIC, "model");
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        grail_compress_options options = vision_options(v, model, NULL);
        vision_cut(&options, 0.5);
        options.fit.compensate = "grail";
        options.cut.selector = selectors[i];
        (void)assert_units_of_an_open_loop(&v->l, options, "layer1.1.conv2.weight");
    }
}

LAB_TEST(rules_without_statistics_are_not_changed)
{
    static const char *const selectors[] = {"random", "fold", "magnitude-l2"};
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
        options.cut.selector = selectors[i];
        options.fit.compensate = "grail";
        json_decref(kept_units(options, named(l, selectors[i], "closed")));
        options.cut.select = "open";
        json_decref(kept_units(options, named(l, selectors[i], "open")));
        assert_same_checkpoint(named(l, selectors[i], "closed"), named(l, selectors[i], "open"));
    }
}

static int stop_in_second_block(void *user, int block, int blocks, double done)
{
    int *calls = user;
    (*calls)++;
    return block == 1;
}

/* Stopped while the dense network runs, and behind the first block. */
LAB_TEST(a_run_that_was_stopped_gives_the_same_bytes)
{
    int calls = 0;
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "whole"));
    options.cut.selector = "flap";
    options.fit.refit = "all";
    options.cut.select = "open";
    assert_ok(lab_compress(&options));
    options.output.path = lab_path(l, "parts");
    options.run.step_observer = stop_in_second_block;
    options.run.observer_user = &calls;
    assert_fails(lab_compress(&options), GRAIL_ERROR_CANCELLED, "cancelled in block 2 of 2");
    assert_true(calls > 1);
    options.run.step_observer = NULL;
    options.run.observer = vision_stop_behind_first_block;
    options.output.resume = 1;
    assert_int_equal(lab_compress(&options), GRAIL_ERROR_CANCELLED);
    options.run.observer = NULL;
    options.cut.select = NULL;
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "was started with other options or files: cut.select was \"open\"");
    options.cut.select = "open";
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_path(l, "whole"), lab_path(l, "parts"));
}

LAB_TEST(what_has_no_meaning_is_refused)
{
    lab_model m;
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    options.cut.select = "open";
    options.cut.selector = "wanda++";
    assert_fails(
        lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
        "site 'model.layers.0.self_attn.o_proj': selector 'wanda++' needs the gradients of "
        "the network as narrowed so far, which an open selection does not look at; use a "
        "closed selection");
    assert_string_equal(grail_error_fields(), "cut.select");
    options.cut.selector = "obs";
    options.cut.select = "ajar";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "unknown selection 'ajar'; expected one of closed, open");
    lab_read(&m, lab_golden("llama3"));
    lab_find(&m, 1, "mlp.up_proj.weight")->values[3] = (float)NAN;
    options.read.model = lab_path(l, "damaged");
    lab_write(&m, options.read.model, GRAIL_DTYPE_F32);
    lab_fini(&m);
    options.cut.select = "open";
    assert_fails(lab_compress(&options), GRAIL_ERROR_NUMERIC,
                 "tensor 'model.layers.1.mlp.up_proj.weight' holds a NaN or infinity at element 3");
}
