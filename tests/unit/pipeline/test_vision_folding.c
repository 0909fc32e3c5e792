/* Folding channels, residual streams, neurons and heads of networks that read images: duplicated
 * units fold without loss in every family, also when repaired. */
#include "vision_sites.h"

#include <string.h>

static const char *const modes[] = {"none", "grail", "full"};
enum { MODES = sizeof modes / sizeof modes[0] };

/* A family with every unit twice, which computes what the original does. With `repaired` its
 * BatchNorms have the statistics of the calibration images, so that REPAIR finds nothing to do. */
static const char *write_doubled(const vision_lab *v, vision_family family, bool repaired)
{
    vision_model m;
    const char *original = vision_network(v, family, "original");
    const char *doubled = vision_path(v, "doubled");
    vision_make(&m, family);
    if (repaired) {
        vision_repair(v, original, &m);
        vision_write(&m, vision_path(v, "repaired"));
        original = vision_path(v, "repaired");
    }
    vision_double(&m, original, VISION_EQUAL);
    vision_write(&m, doubled);
    vision_fini(&m);
    assert_near(vision_difference(v, original, doubled), 0.0, 1e-4);
    return doubled;
}

/* Half of everything folded in every mode; the ridge of the paper shrinks towards zero, by as much
 * as alpha says. */
static void assert_lossless(vision_family family, bool repair, bool open)
{
    OWNED(vision_lab) v;
    vision_open(&v);
    const char *model = write_doubled(&v, family, repair);
    for (int mode = 0; mode < MODES; mode++) {
        const char *output = lab_path(&v.l, modes[mode]);
        grail_compress_options options = vision_options(&v, model, output);
        vision_cut(&options, 0.5);
        options.cut.selector = "fold";
        options.fit.compensate = modes[mode];
        if (strcmp(modes[mode], "grail") == 0) {
            options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-9};
        }
        options.fit.repair = repair;
        options.fit.open_loop = open;
        options.amount.sparsity_heads = open ? 0.0 : 0.5;
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, model, output), 0.0, 2e-4);
    }
}

TEST(doubled_units_fold_without_loss)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        assert_lossless((vision_family)f, false, false);
    }
}

TEST(also_on_the_statistics_of_the_dense_network)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        assert_lossless((vision_family)f, false, true);
    }
}

TEST(also_with_norms_repaired)
{
    for (int f = 0; f < VISION_HUGGING_FACE_VIT; f++) {
        for (int open = 0; open < 2; open++) {
            if (support_takes(f + open, 2)) {
                assert_lossless((vision_family)f, true, open == 1);
            }
        }
    }
}

/* All rows and columns of a site become those of its first unit; only the BatchNorm tells the pairs
 * apart. */
VISION_TEST(units_are_told_apart_by_their_norm_too)
{
    static const grail_site_sparsity inner = {.site = "layer1.0.conv2", .sparsity = 0.5};
    vision_model m;
    write_doubled(v, VISION_BASIC, false);
    vision_read(&m, vision_path(v, "doubled"));
    vision_tensor *rows = vision_find(&m, "layer1.0.conv1.weight");
    vision_tensor *columns = vision_find(&m, "layer1.0.conv2.weight");
    const int64_t units = rows->shape.shape[0];
    const int64_t width = vision_elements(rows) / units;
    for (int64_t i = 0; i < vision_elements(rows); i++) {
        rows->values[i] = rows->values[i % width];
    }
    for (int64_t i = 0; i < vision_elements(columns); i++) {
        columns->values[i] = columns->values[i / (units * 9) * (units * 9) + i % 9];
    }
    for (int64_t j = 0; j < units; j++) { /* not a feature of the clustering */
        vision_find(&m, "layer1.0.bn1.running_mean")->values[j] = 0.1F;
        vision_find(&m, "layer1.0.bn1.running_var")->values[j] = 0.5F;
    }
    vision_write(&m, vision_path(v, "alike"));
    vision_fini(&m);
    const char *model = vision_path(v, "alike");
    grail_compress_options options = vision_options(v, model, vision_path(v, "out"));
    options.amount.site_sparsities = &inner;
    options.amount.site_sparsity_count = 1;
    options.cut.selector = "fold";
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    assert_near(vision_difference(v, model, options.output.path), 0.0, 2e-4);
}

VISION_TEST(units_fold_at_random_too)
{
    grail_site_report sites[16];
    for (int f = 0; f < VISION_FAMILIES; f++) {
        const char *model = vision_network(v, (vision_family)f, vision_family_name(f));
        const char *output = lab_path_of(&v->l, "%s-out", vision_family_name(f));
        grail_compress_options options = vision_options(v, model, output);
        vision_cut(&options, 0.4);
        options.cut.selector = "random-fold";
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
        const int count = lab_compress_reports(&options, sites, 16);
        for (int s = 0; s < count; s++) {
            if (sites[s].kept < sites[s].units) {
                assert_true(sites[s].fit.fit_before > 1e-4);
                assert_true(sites[s].fit.fit_after < sites[s].fit.fit_before);
            }
        }
    }
}
