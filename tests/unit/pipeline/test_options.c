/* What options may say, and how much memory they are estimated to take. */
#include "vision_lab.h"

#include <grail/machine.h>

#include <string.h>

TEST(kinds_of_sites_have_their_ratio_in_the_options)
{
    grail_compress_options o;
    int kinds = 0;
    grail_compress_options_init(&o);
    assert_ptr_equal(grail_compress_sparsity(&o, "ffn"), &o.amount.sparsity_ffn);
    assert_ptr_equal(grail_compress_sparsity(&o, "heads"), &o.amount.sparsity_heads);
    assert_ptr_equal(grail_compress_sparsity(&o, "conv"), &o.amount.sparsity_conv);
    assert_ptr_equal(grail_compress_sparsity(&o, "stream"), &o.amount.sparsity_stream);
    assert_ptr_equal(grail_compress_sparsity(&o, "experts"), &o.amount.sparsity_experts);
    assert_ptr_equal(grail_compress_sparsity(&o, "latent"), &o.amount.sparsity_latent);
    assert_ptr_equal(grail_compress_sparsity(&o, "values"), &o.amount.sparsity_values);
    assert_ptr_equal(grail_compress_sparsity(&o, "groups"), &o.amount.sparsity_groups);
    assert_null(grail_compress_sparsity(&o, "con"));
    for (; grail_site_kind_at(kinds) != NULL; kinds++) {
        *grail_compress_sparsity(&o, grail_site_kind_at(kinds)) += 0.5;
    }
    assert_int_equal(kinds, 8);
    assert_true(o.amount.sparsity_ffn == 0.5 && o.amount.sparsity_heads == 0.5 &&
                o.amount.sparsity_conv == 0.5 && o.amount.sparsity_stream == 0.5 &&
                o.amount.sparsity_experts == 0.5 && o.amount.sparsity_latent == 0.5 &&
                o.amount.sparsity_values == 0.5 && o.amount.sparsity_groups == 0.5);
    assert_null(grail_site_kind_at(-1));
}

TEST(a_selector_says_what_it_does)
{
    grail_selector_facts f = {0};
    assert_ok(grail_selector_describe("wanda", &f));
    assert_true(f.folds == 0 && f.draws == 0 && f.needs_statistics == 1);
    assert_string_equal(grail_selector_at(f.index), "wanda");
    assert_ok(grail_selector_describe("magnitude-l2", &f));
    assert_true(f.folds == 0 && f.draws == 0 && f.needs_statistics == 0);
    assert_ok(grail_selector_describe("random", &f));
    assert_true(f.folds == 0 && f.draws == 1 && f.needs_statistics == 0);
    assert_ok(grail_selector_describe("fold", &f));
    assert_true(f.folds == 1 && f.draws == 1 && f.needs_statistics == 0);
    f.index = -3;
    assert_fails(grail_selector_describe("finest", &f), GRAIL_ERROR_ARGUMENT,
                 "unknown selector 'finest'; expected one of random,");
    assert_int_equal(f.index, -3);
}

/* -- memory ------------------------------------------------------------------------------------ */

static grail_compress_options cut_options(const vision_lab *v, const char *path)
{
    grail_compress_options o = vision_options(v, path, NULL);
    vision_cut(&o, 0.3);
    return o;
}

static int64_t estimate(const grail_model *model, const grail_compress_options *o)
{
    int64_t bytes = -1;
    assert_ok(grail_compress_estimate(model, o, &bytes));
    return bytes;
}

VISION_TEST(the_estimate_grows_with_what_takes_memory)
{
    const char *path = vision_network(v, VISION_BASIC, "dense");
    OWNED(grail_model) *model = vision_model_open(path);
    grail_compress_options o = cut_options(v, path);
    o.fit.compensate = "grail";
    const int64_t grail = estimate(model, &o);
    o.read.samples = 256; /* 128 by default */
    assert_true(estimate(model, &o) > grail);
    o = cut_options(v, path);
    /* full: every kernel position, and a second sample stream */
    assert_true(estimate(model, &o) > grail);
    o.fit.conv_fit = "channel";
    o.fit.target = "local";
    assert_true(estimate(model, &o) == grail);
    o.fit.open_loop = 1;
    assert_true(estimate(model, &o) > grail);
    o = cut_options(v, path);
    o.fit.compensate = "none";
    o.cut.selector = "magnitude-l1";
    const int64_t plain = estimate(model, &o);
    assert_true(plain < grail);
    o.fit.repair = 1;
    assert_in_range(estimate(model, &o), plain + 1, grail - 1);
    o.fit.repair = 0;
    o.cut.selector = "fold";
    assert_true(estimate(model, &o) > plain);
    o.cut.selector = "wanda";
    const int64_t first = estimate(model, &o);
    o.cut.selector = "leverage"; /* looks at the Gram matrices of all that read a residual stream */
    assert_true(estimate(model, &o) > first);
    o.cut.selector = "magnitude-l1";
    o.heal.what = "block"; /* a sample stream more, and what the training of a block takes */
    const int64_t block = estimate(model, &o);
    assert_true(block > plain);
    o.heal.what = "model";
    assert_true(estimate(model, &o) > block);
    o.heal.what = "head";
    int64_t bytes = -1;
    assert_fails(grail_compress_estimate(model, &o, &bytes), GRAIL_ERROR_ARGUMENT,
                 "unknown healing 'head'; expected one of none, block, model, block,model");
}

/* The estimate for no samples at all, from that for one and for two. */
static int64_t estimate_without_samples(const grail_model *model, grail_compress_options o)
{
    o.read.samples = 2;
    const int64_t two = estimate(model, &o);
    o.read.samples = 1;
    return 2 * estimate(model, &o) - two;
}

/* What 64 samples take more than 32. */
static int64_t estimate_of_samples(const grail_model *model, grail_compress_options o)
{
    o.read.samples = 64;
    const int64_t more = estimate(model, &o);
    o.read.samples = 32;
    return more - estimate(model, &o);
}

VISION_TEST(a_training_takes_copies_of_parameters_and_a_second_stream)
{
    grail_model_facts facts = {0};
    const char *path = vision_network(v, VISION_BASIC, "dense");
    OWNED(grail_model) *model = vision_model_open(path);
    assert_ok(grail_model_describe(model, &facts));
    grail_compress_options o = cut_options(v, path);
    o.fit.compensate = "full";
    const int64_t of_two_streams = estimate_of_samples(model, o);
    o.fit.compensate = "none";
    o.cut.selector = "magnitude-l1";
    const int64_t plain = estimate_without_samples(model, o);
    assert_int_equal(estimate_of_samples(model, o), 0);
    o.heal.what = "model";
    assert_int_equal(estimate_of_samples(model, o), of_two_streams);
    const int64_t copies = estimate_without_samples(model, o) - plain;
    const int64_t six = 6 * (int64_t)sizeof(float) * facts.parameters;
    assert_in_range(copies, six - six / 20, six);
    o.heal.what = "block";
    assert_in_range(estimate_without_samples(model, o) - plain, 1, copies - 1);
}

VISION_TEST(nothing_cut_takes_no_calibration)
{
    const char *path = vision_network(v, VISION_BASIC, "dense");
    OWNED(grail_model) *model = vision_model_open(path);
    grail_compress_options o = vision_options(v, path, NULL);
    o.read.samples = 1000000;
    const int64_t whole = estimate(model, &o);
    o.heal.what = "model"; /* a network in which nothing is cut has nothing to heal */
    assert_true(estimate(model, &o) == whole);
    o.heal.what = NULL;
    o.amount.sparsity_heads = 0.5; /* this network has none */
    assert_true(estimate(model, &o) == whole);
    o.amount.sparsity_conv = 0.5;
    assert_true(estimate(model, &o) > whole);
}

VISION_TEST(a_run_and_its_accuracy_stay_below_the_estimate)
{
    static const struct {
        const char *selector, *heal;
    } runs[] = {{"wanda", NULL},    {"fold", NULL},     {"leverage", NULL},
                {"wanda", "block"}, {"wanda", "model"}, {"fold", "block,model"}};
    for (int f = 0; f < VISION_FAMILIES; f++) {
        const char *path = vision_network(v, (vision_family)f, vision_family_name(f));
        OWNED(grail_model) *model = vision_model_open(path);
        grail_images *images = NULL;
        assert_ok(grail_images_open(model, &v->images, &images));
        for (int s = 0; s < (int)(sizeof runs / sizeof runs[0]); s++) {
            if (!support_takes(f + s, 3)) {
                continue;
            }
            grail_compression *c = NULL;
            grail_accuracy a = {0};
            grail_compress_options o = cut_options(v, path);
            o.cut.selector = runs[s].selector;
            o.heal.what = runs[s].heal;
            o.heal.steps = 2;
            const int64_t before = memory_in_use();
            grail_memory_peak_begin();
            assert_true(grail_memory_peak() == before);
            assert_ok(grail_compression_open(&o, &c));
            assert_ok(grail_compression_run(c));
            assert_ok(grail_compression_accuracy(c, images, 0, NULL, NULL, &a));
            grail_compression_close(c);
            assert_in_range(grail_memory_peak() - before, 1, estimate(model, &o));
        }
        grail_images_close(images);
    }
}

/* Networks of text, with longer and shorter windows, refitted, folded and healed. */
LAB_TEST(a_run_on_text_and_its_perplexity_stay_below_the_estimate)
{
    static const struct {
        const char *selector, *heal, *refit;
        int64_t context;
    } runs[] = {
        {"obs", NULL, "all", 32}, {"fold", NULL, "none", 16}, {"wanda", "block,model", NULL, 32}};
    grail_model *model = NULL;
    assert_ok(grail_model_open(lab_golden("llama3"), &model));
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        grail_compression *c = NULL;
        grail_perplexity p = {0};
        grail_compress_options o = lab_options(l, lab_golden("llama3"), NULL);
        o.cut.selector = runs[i].selector;
        o.heal.what = runs[i].heal;
        o.heal.steps = 2;
        o.fit.refit = runs[i].refit;
        o.read.text.context = runs[i].context;
        const int64_t before = memory_in_use();
        grail_memory_peak_begin();
        assert_ok(grail_compression_open(&o, &c));
        assert_ok(grail_compression_run(c));
        assert_ok(grail_compression_perplexity(c, &o.read.text, 0, NULL, NULL, &p));
        grail_compression_close(c);
        assert_in_range(grail_memory_peak() - before, 1, estimate(model, &o) - (1 << 30));
    }
    grail_model_close(model);
}

VISION_TEST(what_cannot_be_estimated_is_refused)
{
    int64_t bytes = -1;
    const grail_site_sparsity single = {.site = "conv1", .sparsity = 0.5};
    const char *path = vision_network(v, VISION_BASIC, "dense");
    OWNED(grail_model) *model = vision_model_open(path);
    grail_compress_options o = cut_options(v, path);
    o.amount.plan = "plan.json";
    assert_fails(grail_compress_estimate(model, &o, &bytes), GRAIL_ERROR_UNSUPPORTED,
                 "cannot estimate the memory for a plan or for sparsities of single sites");
    o = cut_options(v, path);
    o.amount.site_sparsities = &single;
    o.amount.site_sparsity_count = 1;
    assert_fails(grail_compress_estimate(model, &o, &bytes), GRAIL_ERROR_UNSUPPORTED,
                 "cannot estimate the memory for a plan or for sparsities of single sites");
    o = cut_options(v, path);
    o.cut.selector = "finest";
    assert_fails(grail_compress_estimate(model, &o, &bytes), GRAIL_ERROR_ARGUMENT,
                 "unknown selector");
    assert_true(bytes == -1);
}
