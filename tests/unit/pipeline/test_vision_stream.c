/* Residual streams: every consumer gets a fit of its own. */
#include "vision_sites.h"

#include <math.h>
#include <string.h>

/* The columns that a plain cut keeps of a weight, against those of a fitted one. */
static bool weights_differ(const char *a, const char *b, const char *name)
{
    OWNED(vision_model) left;
    OWNED(vision_model) right;
    vision_read(&left, a);
    vision_read(&right, b);
    const vision_tensor *x = vision_find(&left, name);
    const vision_tensor *y = vision_find(&right, name);
    assert_int_equal(vision_elements(x), vision_elements(y));
    const bool differ =
        memcmp(x->values, y->values, (size_t)vision_elements(x) * sizeof x->values[0]) != 0;
    return differ;
}

VISION_TEST(every_consumer_of_a_stream_is_fitted)
{
    static const char *const consumers[] = {"layer1.0.conv1.weight", "layer1.1.conv1.weight",
                                            "layer2.0.conv1.weight", "layer2.0.downsample.0.weight",
                                            "fc.weight"};
    static const char *const others[] = {"conv1.weight", "layer1.0.conv2.weight",
                                         "layer2.0.conv2.weight"};
    const char *model = vision_network(v, VISION_BASIC, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "plain"));
    options.amount.sparsity_stream = 0.5;
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    options.output.path = vision_path(v, "fitted");
    options.fit.compensate = "grail";
    assert_ok(lab_compress(&options));
    for (size_t i = 0; i < sizeof consumers / sizeof consumers[0]; i++) {
        assert_true(weights_differ(vision_path(v, "plain"), options.output.path, consumers[i]));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(weights_differ(vision_path(v, "plain"), options.output.path, others[i]));
    }
}

/* The report of a residual stream is the mean over its consumers, each measured on the network that
 * the earlier fits made. Errors before the fit of the first consumer alone are those of a run that
 * stops there.
 */
static int remember(void *user, const grail_site_report *site_report, int block, int blocks,
                    double left)
{
    double *sum = user;
    if (site_report != NULL && site_report->kept < site_report->units) {
        sum[0] += site_report->fit.fit_after;
        sum[1] += 1.0;
    }
    return 0;
}

VISION_TEST(a_stream_is_reported_once)
{
    double told[2] = {0.0, 0.0};
    grail_site_report sites[16];
    const char *model = vision_network(v, VISION_BASIC, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "out"));
    options.amount.sparsity_stream = 0.5;
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    options.run.observer = remember;
    options.run.observer_user = told;
    const int count = lab_compress_reports(&options, sites, 16);
    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        if (sites[i].kept < sites[i].units) {
            assert_true(isfinite(sites[i].fit.fit_before) && isfinite(sites[i].fit.held_after));
            assert_true(sites[i].fit.fit_after < sites[i].fit.fit_before);
            sum += sites[i].fit.fit_after;
        }
    }
    assert_near(told[1], 2.0, 0.0); /* two stages */
    assert_near(told[0], sum, 1e-12);
}

VISION_TEST(a_stream_reports_every_consumer)
{
    static const char *const consumers[] = {"layer1.0.conv1.weight", "layer1.1.conv1.weight",
                                            "layer2.0.downsample.0.weight",
                                            "layer2.0.conv1.weight"};
    const char *model = vision_network(v, VISION_BASIC, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "out"));
    options.amount.sparsity_stream = 0.5;
    assert_ok(lab_compress(&options));
    OWNED(json_t) *report = read_json(options.output.path, "report.json");
    const json_t *one = vision_reported_site(report, "layer1.0.conv1");
    double sum = 0.0;
    const json_t *fits = json_object_get(one, "consumers");
    assert_int_equal(json_array_size(fits), 4);
    for (size_t k = 0; k < 4; k++) {
        const json_t *fit = json_array_get(fits, k);
        assert_string_equal(json_string_value(json_object_get(fit, "consumer")), consumers[k]);
        sum += json_real_value(json_object_get(fit, "held_error_after")) / 4.0;
    }
    assert_near(json_real_value(json_object_get(one, "held_error_after")), sum, 1e-12);
}

static double fit_error_before(const char *output, const char *name)
{
    OWNED(json_t) *report = read_json(output, "report.json");
    const double error =
        json_real_value(json_object_get(vision_reported_site(report, name), "fit_error_before"));
    return error;
}

/* The rows of layer1.0.conv2 that the residual stream loses are made large; the error of the fit
 * counts only the others. */
VISION_TEST(errors_are_those_of_outputs_that_stay)
{
    static const char *const name = "layer1.0.conv2.weight";
    vision_model m;
    int64_t kept[64];
    double errors[2];
    const char *model = vision_network(v, VISION_BASIC, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "small"));
    options.amount.sparsity_conv = options.amount.sparsity_stream = 0.5;
    options.fit.compensate = "grail";
    assert_ok(lab_compress(&options));
    const int count = vision_kept_units(options.output.path, "layer1.0.conv1", kept, 64);
    vision_read(&m, model);
    vision_tensor *t = vision_find(&m, name);
    const int64_t row = vision_elements(t) / t->shape.shape[0];
    for (int64_t o = 0; o < t->shape.shape[0]; o++) {
        bool stays = false;
        for (int k = 0; k < count; k++) {
            stays = stays || kept[k] == o;
        }
        for (int64_t i = 0; i < row && !stays; i++) {
            t->values[o * row + i] *= 30.0F;
        }
    }
    vision_write(&m, vision_path(v, "loud"));
    vision_fini(&m);
    errors[0] = fit_error_before(options.output.path, "layer1.0.conv2");
    options.read.model = vision_path(v, "loud");
    options.output.path = vision_path(v, "large");
    assert_ok(lab_compress(&options));
    errors[1] = fit_error_before(options.output.path, "layer1.0.conv2");
    assert_true(errors[0] > 0.01);
    assert_near(errors[0], errors[1], 1e-6);
}

/* Narrowing residual streams and inner channels in one run: later sites see the earlier ones
 * compressed. */
TEST(all_sites_together_leave_a_better_network_fitted_than_not)
{
    static const char *const modes[] = {"none", "grail", "full"};
    vision_lab v;
    for (int f = 0; f < VISION_FAMILIES; f++) {
        double errors[3];
        vision_open(&v);
        const char *model = vision_network(&v, (vision_family)f, "model");
        vision_values dense = vision_outputs(&v, model, backend_host());
        for (int mode = 0; mode < 3; mode++) {
            grail_compress_options options =
                vision_options(&v, model, vision_path(&v, modes[mode]));
            vision_cut(&options, 0.34);
            options.fit.compensate = modes[mode];
            assert_ok(lab_compress(&options));
            vision_values narrow = vision_outputs(&v, options.output.path, backend_host());
            errors[mode] = 0.0;
            for (int64_t i = 0; i < dense.rows * dense.width; i++) {
                errors[mode] += pow(dense.data[i] - narrow.data[i], 2.0);
            }
            memory_free(narrow.data);
        }
        assert_true(errors[1] < errors[0]);
        assert_true(errors[2] < errors[1]);
        memory_free(dense.data);
        vision_close(&v);
    }
}
