/* Healed runs of networks that read images: residual networks and vision transformers, cut inside
 * their blocks and along their residual streams, and on memory that no host code can touch. */
#include "vision_lab.h"

#include "heal_lab.h"
#include "support/guarded.h"

#include <stdio.h>
#include <string.h>

static double divergence(const vision_lab *v, const char *dense, const char *narrow)
{
    grail_comparison result = {0};
    OWNED(grail_model) *a = vision_model_open(dense);
    OWNED(grail_model) *b = vision_model_open(narrow);
    assert_ok(grail_verify_images(a, b, &v->images, 0, NULL, NULL, NULL, &result));
    return result.mean_kl;
}

static grail_compress_options halved(const vision_lab *v, const char *model, const char *output,
                                     bool with_stream)
{
    grail_compress_options options = vision_options(v, model, output);
    vision_cut(&options, 0.5);
    options.amount.sparsity_stream = with_stream ? 0.5 : 0.0;
    options.heal.steps = 16;
    options.heal.rate = 0.005;
    return options;
}

static int block_count(const char *path)
{
    OWNED(grail_model) *m = vision_model_open(path);
    return m->graph->block_count;
}

/* What each block is healed towards lies between the blocks: in random residual networks, whose
 * outputs are nearly those of the dense network, it may move these either way, and what is gained
 * on 12 images may be no more than chance: then they are kept as they were. Adds what gained to
 * *gained. */
static void assert_is_healed(const vision_lab *v, vision_family family, const char *model,
                             const grail_compress_options *plain, int way, int *gained)
{
    static const char *const kinds[] = {"block", "model"};
    const int blocks = block_count(model);
    const double before = divergence(v, model, plain->output.path);
    for (int i = 0; i < 2; i++) {
        heal_watch w = {0};
        grail_compress_options options = *plain;
        const char *output = lab_path_of(&v->l, "healed%d-%d", way, i);
        options.output.path = output;
        options.heal.what = kinds[i];
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.count, i == 1 ? 1 : blocks);
        int better = 0;
        for (int k = 0; k < w.count; k++) {
            const grail_healing *h = heal_made(&w, k);
            assert_int_equal(h->block, i == 1 ? -1 : k);
            better += h->held_after < h->held_before ? 1 : 0;
        }
        const bool tower = vision_family_is_tower(family);
        *gained += better > 0;
        if (better > 0 && family != VISION_BOTTLENECK && (i == 1 || tower)) {
            assert_true(divergence(v, model, output) < before);
        }
    }
}

/* With a stream that is cut, blocks are healed after the walk: until then it has its wide form. */
TEST(healing_brings_networks_nearer_to_the_dense_ones)
{
    int healed = 0;
    int gained = 0;
    for (int f = 0; f < VISION_FAMILIES; f++) {
        OWNED(vision_lab) v;
        vision_open(&v);
        const char *model = vision_network(&v, (vision_family)f, "model");
        const int ways = vision_family_is_tower((vision_family)f) ? 1 : 2;
        for (int way = 0; way < ways; way++) {
            const char *output = lab_path_of(&v.l, "plain%d", way);
            const grail_compress_options options = halved(&v, model, output, way == 1);
            assert_ok(lab_compress(&options));
            print_message("%s%s\n", vision_family_name((vision_family)f),
                          way == 1 ? " with its stream" : "");
            assert_is_healed(&v, (vision_family)f, model, &options, way, &gained);
            healed += 2;
        }
    }
    assert_true(4 * gained >= 3 * healed);
}

/* Gradients reach the first layer through all others; the moments of a BatchNorm stay. */
TEST(every_parameter_but_moments_is_trained)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        OWNED(vision_lab) v;
        OWNED(vision_model) before;
        char plain[LAB_PATH]; /* paths are used again */
        vision_open(&v);
        snprintf(plain, sizeof plain, "%s/plain", v.l.directory);
        const char *healed = lab_path(&v.l, "healed");
        const char *model = vision_network(&v, (vision_family)f, "model");
        grail_compress_options options = halved(&v, model, plain, false);
        options.read.samples = 12; /* of which too few judge to tell a gain from chance */
        assert_ok(lab_compress(&options));
        options.output.path = healed;
        options.heal.what = "model";
        assert_ok(lab_compress(&options));
        vision_read(&before, plain);
        for (int t = 0; t < before.count; t++) {
            const char *name = before.tensors[t].shape.name;
            const bool trained =
                strstr(name, "running_") == NULL && before.tensors[t].values != NULL;
            if (same_tensor(plain, healed, name) == trained) {
                fail_msg("%s: '%s' was%s trained", vision_family_name((vision_family)f), name,
                         trained ? " not" : "");
            }
        }
    }
}

TEST(every_way_to_the_closed_form_is_healed)
{
    static const vision_family families[] = {VISION_BASIC, VISION_TIMM_VIT};
    for (int f = 0; f < 2; f++) {
        OWNED(vision_lab) v;
        vision_open(&v);
        const char *model = vision_network(&v, families[f], "model");
        for (int way = 0; way < 4; way++) {
            char output[LAB_PATH];
            heal_watch w = {0};
            snprintf(output, sizeof output, "%s/plain%d", v.l.directory, way);
            grail_compress_options options =
                halved(&v, model, output, way == 3 && !vision_family_is_tower(families[f]));
            options.fit.repair = way == 0;
            options.fit.open_loop = way == 1 || way == 3;
            options.cut.selector = way == 2 ? "fold" : "magnitude-l2";
            options.fit.repair = options.fit.repair || way == 3;
            assert_ok(lab_compress(&options));
            const double before = divergence(&v, model, output);
            options.heal.what = "block,model";
            snprintf(output, sizeof output, "%s/healed%d", v.l.directory, way);
            assert_ok(heal_run(options, &w));
            assert_int_equal(w.count, block_count(model) + 1);
            for (int k = 0; k < w.count; k++) {
                (void)heal_made(&w, k);
            }
            assert_true(divergence(&v, model, output) < before);
        }
    }
}

TEST(nothing_is_healed_where_nothing_is_cut)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        OWNED(vision_lab) v;
        vision_open(&v);
        heal_watch w = {0};
        const char *model = vision_network(&v, (vision_family)f, "model");
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "out"));
        options.heal.what = "block,model";
        options.fit.repair = 1;
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.told, 0);
        assert_same_checkpoint(model, options.output.path);
    }
}

TEST(steps_that_are_too_large_change_nothing)
{
    static const vision_family families[] = {VISION_BASIC, VISION_TIMM_VIT};
    for (int f = 0; f < 2; f++) {
        OWNED(vision_lab) v;
        heal_watch w = {0};
        vision_open(&v);
        const char *model = vision_network(&v, families[f], "model");
        grail_compress_options options = halved(&v, model, vision_path(&v, "plain"), false);
        options.heal.rate = 0.99;
        options.heal.steps = 4;
        assert_ok(lab_compress(&options));
        options.output.path = vision_path(&v, "healed");
        options.heal.what = "block,model";
        assert_ok(heal_run(options, &w));
        assert_true(w.count > 1);
        for (int k = 0; k < w.count; k++) {
            assert_int_equal(heal_made(&w, k)->best_step, 0);
        }
        assert_same_checkpoint(vision_path(&v, "plain"), options.output.path);
    }
}

/* -- networks that were narrowed earlier ------------------------------------------------------- */

static grail_compress_options taught(const vision_lab *v, const char *narrow, const char *teacher,
                                     const char *output, const char *what)
{
    grail_compress_options options = vision_options(v, narrow, output);
    options.read.reading = NULL; /* a narrowed network says how it is read */
    options.heal.teacher = teacher;
    options.heal.what = what;
    options.heal.steps = 16;
    options.heal.rate = 0.005;
    return options;
}

TEST(a_network_narrowed_earlier_is_healed_as_in_one_run)
{
    static const vision_family families[] = {VISION_BASIC, VISION_PADDED, VISION_HUGGING_FACE_VIT};
    for (int f = 0; f < 3; f++) {
        OWNED(vision_lab) v;
        heal_watch at_once = {0};
        heal_watch later = {0};
        vision_open(&v);
        const char *model = vision_network(&v, families[f], "model");
        grail_compress_options options =
            halved(&v, model, vision_path(&v, "narrow"), families[f] == VISION_BASIC);
        assert_ok(lab_compress(&options));
        options.output.path = vision_path(&v, "at-once");
        options.heal.what = "model";
        assert_ok(heal_run(options, &at_once));
        options = taught(&v, vision_path(&v, "narrow"), model, vision_path(&v, "later"), "model");
        assert_ok(heal_run(options, &later));
        assert_true(heal_made(&later, 0)->held_before == heal_made(&at_once, 0)->held_before);
        assert_true(later.made[0].held_after == at_once.made[0].held_after);
        assert_same_checkpoint(vision_path(&v, "at-once"), vision_path(&v, "later"));
        options = taught(&v, vision_path(&v, "narrow"), model, vision_path(&v, "blocks"), "block");
        if (families[f] == VISION_BASIC) {
            assert_fails(
                lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                "behind block 1 the model's residual stream has 4 channels, the teacher's 8");
        } else {
            assert_ok(heal_run(options, &later));
            assert_int_equal(later.count, block_count(model));
        }
    }
}

VISION_TEST(teachers_that_do_not_fit_are_refused)
{
    const char *model = vision_network(v, VISION_BASIC, "model");
    const char *other = vision_network(v, VISION_BOTTLENECK, "other");
    grail_compress_options options =
        taught(v, model, lab_golden("llama3"), vision_path(v, "out"), "model");
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "the model reads images, the teacher text");
    options.heal.teacher = other;
    options.heal.what = "block";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "behind block 1 the model's residual stream has 8 channels, the teacher's 10; "
                 "heal the whole model instead of its blocks");
    vision_model m;
    vision_make(&m, VISION_BASIC);
    vision_find(&m, "fc.weight")->shape.shape[0] = VISION_CLASSES - 1;
    vision_find(&m, "fc.bias")->shape.shape[0] = VISION_CLASSES - 1;
    vision_write(&m, vision_path(v, "fewer"));
    vision_fini(&m);
    options.heal.teacher = vision_path(v, "fewer");
    options.heal.what = "model";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "the model has 5 classes, the teacher 4");
}

/* -- runs that stop and go on ------------------------------------------------------------------ */

TEST(a_run_that_stopped_heals_on_to_the_same_bytes)
{
    static const vision_family families[] = {VISION_BASIC, VISION_TIMM_VIT};
    for (int f = 0; f < 2; f++) {
        OWNED(vision_lab) v;
        vision_open(&v);
        const char *model = vision_network(&v, families[f], "model");
        grail_compress_options options = halved(&v, model, vision_path(&v, "out"), false);
        heal_briefly(&options, "block,model");
        options.heal.steps = 3;
        options.read.samples = 8;
        assert_heals_on(options, 20);
    }
}

/* Here no gain is more than chance, which the losses at the start tell. */
TEST(a_run_that_goes_on_knows_what_is_chance)
{
    OWNED(vision_lab) v;
    vision_open(&v);
    const char *model = vision_network(&v, VISION_HUGGING_FACE_VIT, "model");
    grail_compress_options options = halved(&v, model, vision_path(&v, "out"), false);
    options.heal.what = "model";
    options.heal.steps = 6;
    assert_heals_on(options, 6);
}

VISION_TEST(so_does_one_with_a_cut_stream_stored_for_torch)
{
    vision_write_torch(vision_network(v, VISION_BASIC, "model"), vision_path(v, "torch"));
    grail_compress_options options =
        halved(v, vision_path(v, "torch"), vision_path(v, "out"), true);
    options.fit.repair = 1;
    heal_briefly(&options, "block,model");
    options.heal.steps = 3;
    options.read.samples = 8;
    assert_heals_on(options, 20);
}

/* -- on a backend of its own memory ------------------------------------------------------------ */

static void assert_same_run(grail_compress_options *options, const char *host, const char *guarded)
{
    options->output.path = host;
    options->run.backend = "cpu";
    assert_ok(lab_compress(options));
    options->output.path = guarded;
    options->run.backend = "guarded";
    assert_ok(lab_compress(options));
    assert_same_checkpoint(host, guarded);
    assert_same_trainings(host, guarded);
}

LAB_TEST(networks_are_healed_without_a_touch)
{
    vision_lab v;
    guarded_want(0); /* samples one by one, as the host takes them */
    for (int f = 0; f < VISION_FAMILIES; f++) {
        vision_open(&v);
        grail_compress_options options = halved(&v, vision_network(&v, (vision_family)f, "model"),
                                                NULL, !vision_family_is_tower((vision_family)f));
        heal_briefly(&options, "block,model");
        options.heal.steps = 3;
        options.read.samples = 8;
        assert_same_run(&options, vision_path(&v, "host"), vision_path(&v, "guarded"));
        vision_close(&v);
    }
    grail_compress_options options = lab_options(l, lab_golden("qwen3"), NULL);
    heal_briefly(&options, "block,model");
    assert_same_run(&options, lab_path(l, "host"), lab_path(l, "guarded"));
}

int main(void)
{
    guarded_add();
    return support_run_tests();
}
