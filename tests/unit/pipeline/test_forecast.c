/* What a run is expected to take: hand counts, and how the options change it. */
#include "lab.h"

#include <grail/machine.h>

/* An operation in f32 takes a nanosecond, and one in f64 two; values and weights take nothing. */
static const grail_rates slow = {.products = 1e-9,
                                 .attention = 1e-9,
                                 .statistics = 1e-9,
                                 .selection = 2e-9,
                                 .fits = 2e-9,
                                 .healing = 1.0};

static double seconds_of(const grail_compress_options *options, const grail_rates *rates)
{
    grail_compression *c = NULL;
    grail_forecast f = {0};
    grail_compress_options dry = *options;
    dry.output.dry_run = 1;
    assert_ok(grail_compression_open(&dry, &c));
    assert_ok(grail_compression_forecast_at(c, &dry, rates, &f));
    grail_compression_close(c);
    return f.seconds;
}

static grail_forecast forecast_of(const grail_compress_options *options)
{
    grail_compression *c = NULL;
    grail_forecast f = {0};
    grail_compress_options dry = *options;
    dry.output.dry_run = 1;
    assert_ok(grail_compression_open(&dry, &c));
    assert_ok(grail_compression_forecast_at(c, &dry, &slow, &f));
    grail_compression_close(c);
    return f;
}

static grail_compress_options options_of(const lab *l, const char *selector, const char *compensate)
{
    grail_compress_options o = lab_options(l, lab_golden("llama3"), NULL);
    o.cut.selector = selector;
    o.fit.compensate = compensate;
    o.read.samples = 8;
    return o;
}

LAB_TEST(a_run_without_data_takes_no_time)
{
    const grail_compress_options o = options_of(l, "magnitude-l1", "none");
    const grail_forecast f = forecast_of(&o);
    assert_true(f.seconds == 0.0);
    assert_int_equal(f.samples, 0);
    assert_true(f.bytes > 0);
}

/* One pass: 2 operations for each multiply-accumulate of each token. */
LAB_TEST(a_plain_cut_by_activations_takes_one_pass)
{
    grail_model *model = NULL;
    grail_model_facts facts = {0};
    assert_ok(grail_model_open(lab_golden("llama3"), &model));
    assert_ok(grail_model_describe(model, &facts));
    grail_model_close(model);
    grail_compress_options o = options_of(l, "wanda", "none");
    o.read.text.context = 32;
    const grail_rates products = {.products = 1e-9};
    const double pass = 2.0 * (double)facts.macs_per_token * 8.0 * 32.0;
    assert_near(seconds_of(&o, &products) / (1e-9 * pass), 1.0, 1e-9);
    assert_int_equal(forecast_of(&o).samples, 8);
}

/* Attention reads windows that are twice as long for twice as many queries; other nodes, and the
 * weights, which are loaded once, do not. */
LAB_TEST(each_kind_of_work_is_counted)
{
    const grail_rates attention = {.attention = 1.0};
    const grail_rates values = {.elementwise = 1.0};
    const grail_rates weights = {.weights = 1.0};
    grail_compress_options o = options_of(l, "wanda", "none");
    const grail_rates *const rates[] = {&attention, &values, &weights};
    const double expected[] = {4.0, 2.0, 1.0};
    for (int i = 0; i < 3; i++) {
        o.read.text.context = 16;
        const double half = seconds_of(&o, rates[i]);
        o.read.text.context = 32;
        assert_true(half > 0.0);
        assert_near(seconds_of(&o, rates[i]) / (half * expected[i]), 1.0, 1e-9);
    }
}

LAB_TEST(more_samples_and_more_repair_take_longer)
{
    grail_compress_options o = options_of(l, "wanda", "none");
    const grail_forecast plain = forecast_of(&o);
    o.fit.compensate = "grail";
    const grail_forecast paper = forecast_of(&o);
    o.fit.target = "dense";
    const grail_forecast dense = forecast_of(&o);
    o.fit.refit = "all";
    const grail_forecast refitted = forecast_of(&o);
    assert_true(plain.seconds < paper.seconds && paper.seconds < dense.seconds &&
                dense.seconds < refitted.seconds);
    assert_true(plain.bytes <= paper.bytes && paper.bytes <= dense.bytes);
    o.read.samples = 16;
    const grail_forecast twice = forecast_of(&o);
    assert_true(twice.seconds > refitted.seconds && twice.seconds < 2.0 * refitted.seconds);
    o.cut.selector = "obs";
    assert_true(forecast_of(&o).seconds > twice.seconds);
}

/* Two batches of three windows and one, of which nothing else takes time. */
LAB_TEST(drawing_takes_time_of_its_own)
{
    const grail_rates rates = {.draw_place = 1e-3, .draw_token = 1e-4, .draw_windows = 3};
    const grail_text_part parts[] = {{.path = "self"}, {.path = l->calibration}};
    grail_compress_options o = options_of(l, "obs", "full");
    grail_compression *c = NULL;
    grail_forecast f = {0};
    o.output.dry_run = 1;
    o.read.parts = parts;
    o.read.part_count = 2;
    o.read.text.context = LAB_LENGTH;
    assert_ok(grail_compression_open(&o, &c));
    assert_ok(grail_compression_forecast_at(c, &o, &rates, &f));
    assert_near(f.draw_seconds, LAB_LENGTH * (2.0 * 1e-3 + 4.0 * 1e-4), 1e-9);
    assert_near(f.seconds, f.draw_seconds, 1e-12);
    assert_ok(grail_compression_forecast_at(c, &o, &slow, &f)); /* nothing is measured */
    assert_true(f.draw_seconds > 0.0 && f.seconds > f.draw_seconds);
    grail_compression_close(c);
}

/* Trainings come on top, those of blocks and of the network add up, and a limit is one. */
LAB_TEST(healing_takes_time_of_its_own)
{
    grail_compress_options o = options_of(l, "magnitude-l1", "none");
    o.heal.what = "block";
    const grail_forecast blocks = forecast_of(&o);
    o.heal.what = "model";
    const grail_forecast network = forecast_of(&o);
    o.heal.what = "block,model";
    const grail_forecast both = forecast_of(&o);
    o.heal.steps = 320; /* instead of 160 */
    const grail_forecast longer = forecast_of(&o);
    o.heal.time = 0.25 * both.heal_seconds;
    const grail_forecast limited = forecast_of(&o);
    o.heal.time = 0.0;
    o.fit.compensate = "full";
    const grail_forecast repaired = forecast_of(&o);
    o.heal.what = "none";
    const grail_forecast plain = forecast_of(&o);
    assert_true(blocks.heal_seconds > 0.0 && network.heal_seconds > blocks.heal_seconds);
    assert_true(blocks.seconds == blocks.heal_seconds);
    assert_int_equal(blocks.samples, 8);
    assert_near(both.heal_seconds / (blocks.heal_seconds + network.heal_seconds), 1.0, 1e-9);
    assert_true(longer.heal_seconds > 1.5 * both.heal_seconds &&
                longer.heal_seconds < 2.0 * both.heal_seconds);
    assert_true(limited.heal_seconds == 0.25 * both.heal_seconds);
    assert_near(repaired.seconds / (plain.seconds + repaired.heal_seconds), 1.0, 1e-9);
    assert_true(plain.heal_seconds == 0.0);
}
