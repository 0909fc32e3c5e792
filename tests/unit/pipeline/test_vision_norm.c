/* REPAIR: the statistics of every BatchNorm after a run are those of its input in the narrow
 * network, exactly; what does not vary, or is switched off, stays harmless. */
#include "vision_sites.h"

#include "reduce/selector.h"

#include <math.h>
#include <string.h>

/* Running the narrow network on the calibration images and taking two passes over each input in
 * turn gives what the run stored. */
static void assert_repaired(const vision_lab *v, const char *output)
{
    vision_model stored;
    vision_model expected;
    vision_read(&stored, output);
    vision_read(&expected, output);
    for (int i = 0; i < expected.count; i++) { /* wrong ones to begin with */
        const vision_tensor *t = &expected.tensors[i];
        if (strstr(t->shape.name, "running_") != NULL) {
            for (int64_t k = 0; k < vision_elements(t); k++) {
                t->values[k] = 0.25F;
            }
        }
    }
    vision_repair(v, output, &expected);
    for (int i = 0; i < stored.count; i++) {
        const vision_tensor *t = &stored.tensors[i];
        if (strstr(t->shape.name, "running_") == NULL) {
            continue;
        }
        const float *wanted = vision_find(&expected, t->shape.name)->values;
        for (int64_t k = 0; k < vision_elements(t); k++) {
            const double tolerance = 2e-5 * (1.0 + fabs((double)wanted[k]));
            assert_near((double)t->values[k], (double)wanted[k], tolerance);
        }
    }
    vision_fini(&stored);
    vision_fini(&expected);
}

TEST(statistics_are_those_of_the_narrow_network)
{
    static const char *const modes[] = {"none", "grail", "full"};
    static const char *const selectors[] = {"magnitude-l1", "fold", "wanda"};
    vision_lab v;
    for (int f = 0; f < VISION_HUGGING_FACE_VIT; f++) {
        for (int mode = 0; mode < 3; mode++) {
            vision_open(&v);
            const char *model = vision_network(&v, (vision_family)f, "model");
            grail_compress_options options = vision_options(&v, model, vision_path(&v, "out"));
            vision_cut(&options, 0.4);
            options.fit.compensate = modes[mode];
            options.cut.selector = selectors[(mode + f) % 3];
            options.fit.repair = 1;
            options.fit.open_loop = (mode + f) % 2;
            assert_ok(lab_compress(&options));
            assert_repaired(&v, options.output.path);
            vision_close(&v);
        }
    }
}

/* A convolution of zeros makes a channel that is the same everywhere. */
static void write_dead_and_silent(const vision_lab *v, bool doubled)
{
    OWNED(vision_model) m;
    const char *model = vision_network(v, VISION_BASIC, "original");
    vision_make(&m, VISION_BASIC);
    if (doubled) {
        vision_double(&m, model, VISION_EQUAL);
    }
    vision_tensor *conv = vision_find(&m, "layer1.0.conv1.weight");
    const int64_t row = vision_elements(conv) / conv->shape.shape[0];
    memset(conv->values + 2 * row, 0, (size_t)row * sizeof conv->values[0]);
    vision_find(&m, "layer1.0.bn2.weight")->values[3] = 0.0F; /* switched off */
    vision_find(&m, "layer2.0.bn2.weight")->values[1] = 1e-9F;
    vision_find(&m, "layer1.0.bn1.running_var")->values[4] = 0.0F; /* divides by epsilon alone */
    vision_write(&m, vision_path(v, "model"));
}

static void assert_finite(const vision_lab *v, const char *output)
{
    vision_values y = vision_outputs(v, output, backend_host());
    for (int64_t i = 0; i < y.rows * y.width; i++) {
        assert_true(isfinite(y.data[i]));
    }
    memory_free(y.data);
}

VISION_TEST(a_channel_that_does_not_vary_keeps_its_variance)
{
    OWNED(vision_model) dense;
    OWNED(vision_model) narrow;
    write_dead_and_silent(v, false);
    grail_compress_options options =
        vision_options(v, vision_path(v, "model"), vision_path(v, "out"));
    const grail_site_sparsity far = {.site = "layer2.0.conv2", .sparsity = 0.5};
    options.amount.site_sparsities = &far;
    options.amount.site_sparsity_count = 1;
    options.fit.repair = 1;
    assert_ok(lab_compress(&options));
    vision_read(&dense, vision_path(v, "model"));
    vision_read(&narrow, options.output.path);
    const float *before = vision_find(&dense, "layer1.0.bn1.running_var")->values;
    const float *after = vision_find(&narrow, "layer1.0.bn1.running_var")->values;
    assert_true(before[2] == after[2]);
    assert_false(before[1] == after[1]);
    assert_true(vision_find(&narrow, "layer1.0.bn1.running_mean")->values[2] == 0.0F);
}

TEST(dead_and_silent_channels_make_no_nan)
{
    static const char *const modes[] = {"none", "grail", "full"};
    static const char *const fits[] = {"kernel", "channel"};
    vision_lab v;
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        const bool of_channels = selector_decides(selector_at(i), SITE_STREAM);
        for (int mode = 0; mode < 6 && of_channels; mode++) {
            if (!support_takes(mode + i, 3)) {
                continue;
            }
            vision_open(&v);
            write_dead_and_silent(&v, i % 2 == 1);
            grail_compress_options options =
                vision_options(&v, vision_path(&v, "model"), vision_path(&v, "out"));
            vision_cut(&options, 0.3);
            options.cut.selector = grail_selector_at(i);
            options.fit.compensate = modes[mode % 3];
            options.fit.conv_fit = fits[mode / 3];
            options.fit.repair = (mode + i) % 2;
            options.fit.open_loop = mode / 3;
            assert_ok(lab_compress(&options));
            assert_finite(&v, options.output.path);
            vision_close(&v);
        }
    }
}

/* A BatchNorm that switches a channel off cannot bring the drift there back: the fit does not try,
 * however large the drift becomes in its units. */
VISION_TEST(the_drift_behind_a_silent_norm_is_left_alone)
{
    OWNED(vision_model) narrow;
    write_dead_and_silent(v, false);
    grail_compress_options options =
        vision_options(v, vision_path(v, "model"), vision_path(v, "out"));
    options.amount.sparsity_conv = 0.5;
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-4};
    assert_ok(lab_compress(&options));
    vision_read(&narrow, options.output.path);
    const vision_tensor *t = vision_find(&narrow, "layer2.0.conv2.weight");
    for (int64_t i = 0; i < vision_elements(t); i++) {
        assert_true(fabs((double)t->values[i]) < 100.0);
    }
}
