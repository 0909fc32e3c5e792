/* What a run on images refuses, and in which words; and that it survives a lack of memory. */
#include "vision_sites.h"

#include "base/file.h"
#include "support/json_memory.h"

#include <math.h>
#include <string.h>

typedef struct refusal {
    vision_lab v;
    char model[LAB_PATH], output[LAB_PATH];
    grail_compress_options options;
} refusal;

static void setup(refusal *r, vision_family family)
{
    vision_open(&r->v);
    snprintf(r->model, LAB_PATH, "%s", vision_network(&r->v, family, "model"));
    snprintf(r->output, LAB_PATH, "%s", vision_path(&r->v, "out"));
    r->options = vision_options(&r->v, r->model, r->output);
    vision_cut(&r->options, 0.5);
}

static void assert_nothing_left(const vision_lab *v)
{
    assert_false(file_exists(vision_path(v, "out")));
    assert_false(file_exists(vision_path(v, "out.partial")));
}

static void assert_refused(refusal *r, grail_status code, const char *text)
{
    assert_fails(lab_compress(&r->options), code, text);
    assert_nothing_left(&r->v);
}

TEST(a_bias_needs_a_place)
{
    refusal r;
    setup(&r, VISION_PRE_ACTIVATION);
    r.options.amount.sparsity_stream = 0.0;
    r.options.fit.bias = "on";
    assert_refused(&r, GRAIL_ERROR_UNSUPPORTED,
                   "site 'layer1.0.conv2': no parameter of the checkpoint can take a fitted bias");
    r.options.fit.bias = "auto";
    assert_ok(lab_compress(&r.options));
    vision_close(&r.v);
}

TEST(a_batch_norm_behind_is_a_place)
{
    refusal r;
    setup(&r, VISION_BASIC);
    r.options.fit.bias = "on";
    assert_ok(lab_compress(&r.options));
    vision_close(&r.v);
}

TEST(statistics_of_later_producers_are_not_there_yet)
{
    refusal r;
    setup(&r, VISION_BASIC);
    r.options.cut.selector = "wanda";
    r.options.cut.stream_score = "all";
    assert_refused(
        &r, GRAIL_ERROR_UNSUPPORTED,
        "site 'layer1.0.conv1': selector 'wanda' needs activations, but it must score the "
        "units before the later producers have run; use the stream score 'first'");
    r.options.cut.stream_score = "branch"; /* where the stem begins a stream, it is the first */
    assert_refused(
        &r, GRAIL_ERROR_UNSUPPORTED,
        "site 'fc': selector 'wanda' needs activations, but it must score the units before the "
        "later producers have run; use the stream score 'first', or an open selection, which looks "
        "at the dense network");
    assert_string_equal(grail_error_fields(), "cut.stream_score cut.select");
    r.options.cut.select = "open"; /* what later blocks read depends on this site's own cut */
    r.options.cut.stream_score = "all";
    assert_refused(&r, GRAIL_ERROR_UNSUPPORTED, "use the stream score 'first'");
    r.options.cut.stream_score = "some";
    assert_refused(&r, GRAIL_ERROR_ARGUMENT, "unknown stream score 'some'");
    vision_close(&r.v);
}

/* When the run is opened, not at the site; sites that keep all units do not matter. */
TEST(a_selector_without_a_rule_for_channels_is_refused)
{
    refusal r;
    setup(&r, VISION_BASIC);
    grail_compression *c = NULL;
    r.options.cut.selector = "flap";
    r.options.output.dry_run = 1;
    r.options.amount.sparsity_stream = 0.0;
    assert_fails(grail_compression_open(&r.options, &c), GRAIL_ERROR_UNSUPPORTED,
                 "site 'layer1.0.conv2': selector 'flap' has no rule for sites of kind conv; these "
                 "selectors have one: random, magnitude-l1, magnitude-l2, wanda,");
    assert_null(strstr(grail_error_message(), ", flap"));
    r.options.output.dry_run = 0;
    r.options.amount.sparsity_stream = 0.5;
    assert_refused(&r, GRAIL_ERROR_UNSUPPORTED, "for sites of kind stream");
    vision_close(&r.v);
    setup(&r, VISION_TIMM_VIT);
    r.options.cut.selector = "flap";
    assert_ok(lab_compress(&r.options));
    vision_close(&r.v);
}

TEST(folded_heads_cannot_be_guessed_from_the_dense_ones)
{
    refusal r;
    setup(&r, VISION_TIMM_VIT);
    r.options.cut.selector = "fold";
    r.options.fit.open_loop = 1;
    assert_refused(&r, GRAIL_ERROR_UNSUPPORTED,
                   "site 'blocks.0.attn.proj': an open loop cannot fold heads");
    r.options.cut.selector = "magnitude-l2";
    assert_ok(lab_compress(&r.options));
    vision_close(&r.v);
}

TEST(calibration_must_be_of_the_kind_that_the_network_reads)
{
    refusal r;
    setup(&r, VISION_BASIC);
    r.options.read.images = NULL;
    assert_refused(&r, GRAIL_ERROR_ARGUMENT, "this network reads images");
    r.options.read.text.path = r.v.data;
    assert_refused(&r, GRAIL_ERROR_ARGUMENT, "this network reads images");
    r.options.read.images = &r.v.images;
    r.options.read.model = lab_golden("llama3");
    r.options.read.reading = NULL;
    r.options.read.text.path = NULL;
    assert_refused(&r, GRAIL_ERROR_ARGUMENT, "needs calibration text");
    vision_close(&r.v);
}

TEST(images_must_be_enough_and_of_the_networks_size)
{
    refusal r;
    setup(&r, VISION_BASIC);
    r.options.read.samples = VISION_IMAGES + 1;
    assert_refused(&r, GRAIL_ERROR_ARGUMENT, "has 48 images, but 49 samples were requested");
    r.options.read.samples = -1;
    assert_refused(&r, GRAIL_ERROR_ARGUMENT, "the number of samples is -1, expected 0 or more");
    r.options.read.samples = 0;
    r.v.images.size = 24;
    assert_refused(&r, GRAIL_ERROR_ARGUMENT,
                   "the images are 32 x 32, but the preset cifar needs 24 x");
    vision_close(&r.v);
}

TEST(a_weight_that_is_not_a_number_is_named)
{
    refusal r;
    vision_model m;
    vision_open(&r.v);
    vision_make(&m, VISION_BASIC);
    vision_find(&m, "layer1.1.conv1.weight")->values[7] = (float)NAN;
    vision_write(&m, vision_path(&r.v, "model"));
    vision_fini(&m);
    r.options = vision_options(&r.v, vision_path(&r.v, "model"), vision_path(&r.v, "out"));
    vision_cut(&r.options, 0.5);
    assert_refused(&r, GRAIL_ERROR_NUMERIC, "layer1.1.conv1.weight");
    vision_close(&r.v);
}

TEST(nothing_cut_needs_no_images)
{
    refusal r;
    setup(&r, VISION_BASIC);
    vision_cut(&r.options, 0.0);
    r.options.read.images = NULL;
    r.options.fit.repair = 1;
    assert_ok(lab_compress(&r.options));
    assert_same_checkpoint(vision_path(&r.v, "model"), r.options.output.path);
    vision_close(&r.v);
}

/* -- a lack of memory ------------------------------------------------------------------------- */

/* Fails from every tenth allocation on or so, more sparsely later. Half-written files are removed,
 * unless memory is lacking for that too; nothing ever looks finished. */
static void assert_survives(refusal *r)
{
    grail_status status = GRAIL_ERROR_MEMORY;
    char partial[LAB_PATH];
    snprintf(partial, sizeof partial, "%s.partial", vision_path(&r->v, "out"));
    for (int64_t n = 1; status != GRAIL_OK; n = support_next_failure(n)) {
        memory_fail_after(n);
        status = lab_compress(&r->options);
        memory_fail_after(-1);
        assert_true(status == GRAIL_OK || status == GRAIL_ERROR_MEMORY);
        assert_int_equal(file_exists(r->output), status == GRAIL_OK);
        support_remove_tree(partial);
    }
}

TEST(failing_allocations_of_a_run_are_survived)
{
    if (!support_walks_failures()) {
        skip();
    }
    refusal r;
    for (int f = 0; f < VISION_FAMILIES; f++) {
        setup(&r, (vision_family)f);
        r.options.read.samples = 4;
        r.options.cut.selector = f % 2 == 0 ? "fold" : "wanda";
        r.options.fit.repair = 1;
        r.options.fit.open_loop = f % 3 == 0;
        r.options.fit.conv_fit = f % 4 < 2 ? "kernel" : "channel";
        r.options.amount.sparsity_heads = f == VISION_HUGGING_FACE_VIT ? 0.5 : 0.0;
        r.options.fit.open_loop = r.options.fit.open_loop && f != VISION_HUGGING_FACE_VIT;
        assert_survives(&r);
        vision_close(&r.v);
    }
}

static grail_status compress_in_memory(void *context)
{
    const refusal *r = context;
    OWNED(grail_compression) *c = NULL;
    CHECK(grail_compression_open(&r->options, &c));
    return grail_compression_run(c);
}

/* The smallest run there is: every one of its allocations fails in turn. */
TEST(every_failing_allocation_is_survived)
{
    static const grail_site_sparsity inner = {.site = "layer1.0.conv2", .sparsity = 0.5};
    refusal r;
    setup(&r, VISION_PADDED);
    vision_cut(&r.options, 0.0);
    r.options.amount.site_sparsities = &inner;
    r.options.amount.site_sparsity_count = 1;
    r.options.output.path = NULL;
    r.options.read.samples = 2;
    r.options.cut.selector = "fold";
    r.options.fit.conv_fit = "channel";
    support_fail_each_allocation(compress_in_memory, &r);
    vision_close(&r.v);
}

CMFixtureFunction support_setup = json_memory_use;
