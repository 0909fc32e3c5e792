/* What a run's bytes depend on: the open loop and its session, seeds, threads, backends, memory,
 * and interruptions. */
#include "vision_sites.h"

#include "base/file.h"
#include "format/images/image_set.h"
#include "pipeline/request/session.h"

#include <grail/eval.h>
#include <grail/machine.h>

#include <string.h>

static void run_open(const vision_lab *v, const char *model, grail_session *session,
                     const char *selector, double sparsity, const char *output)
{
    grail_compress_options options = vision_options(v, model, vision_path(v, output));
    vision_cut(&options, sparsity);
    options.cut.selector = selector;
    options.fit.open_loop = 1;
    options.fit.repair = sparsity < 0.4;
    options.amount.sparsity_heads = 0.0;
    options.read.session = session;
    options.read.model = session == NULL ? model : NULL;
    assert_ok(lab_compress(&options));
}

TEST(a_session_of_several_ratios_gives_the_bytes_of_separate_runs)
{
    static const double ratios[] = {0.25, 0.5, 0.75};
    static const char *const selectors[] = {"wanda", "fold", "magnitude-l1"};
    vision_lab v;
    for (int f = 0; f < VISION_FAMILIES; f++) {
        grail_session *session = NULL;
        vision_open(&v);
        const char *model = vision_network(&v, (vision_family)f, "model");
        const grail_compress_options own = vision_options(&v, model, NULL);
        assert_ok(grail_session_open(model, own.read.reading, &session));
        for (int r = 0; r < 3; r++) {
            char alone[32];
            char shared[32];
            snprintf(alone, sizeof alone, "alone-%d", r);
            snprintf(shared, sizeof shared, "shared-%d", r);
            run_open(&v, model, session, selectors[(r + f) % 3], ratios[r], shared);
            run_open(&v, model, NULL, selectors[(r + f) % 3], ratios[r], alone);
            assert_same_checkpoint(vision_path(&v, alone), vision_path(&v, shared));
        }
        grail_session_close(session);
        vision_close(&v);
    }
}

/* The images of the laboratory in the order of their files, as a program would hold them. */
static grail_pixels pixels_of(const vision_lab *v, const grail_model *model, bool channels_first)
{
    enum { PLANE = VISION_SIDE * VISION_SIDE };
    grail_images *set = NULL;
    grail_image_source source = v->images;
    int64_t *labels = NULL;
    float *values = NULL;
    float *turned = NULL;
    source.split = "train";
    assert_ok(grail_images_open(model, &source, &set));
    const int64_t count = image_set_count(set);
    assert_ok(memory_new(&labels, (size_t)count, sizeof *labels));
    assert_ok(memory_new(&values, (size_t)count, 3 * PLANE * sizeof *values));
    assert_ok(memory_new(&turned, (size_t)count, 3 * PLANE * sizeof *values));
    for (int64_t i = 0; i < count; i++) {
        assert_ok(image_set_load(set, 1, &i, values + i * 3 * PLANE));
        labels[i] = image_set_label(set, i);
        for (int p = 0; p < 3 * PLANE; p++) {
            turned[i * 3 * PLANE + p % 3 * PLANE + p / 3] = values[i * 3 * PLANE + p];
        }
    }
    image_set_close(set);
    memory_free(channels_first ? values : turned);
    return (grail_pixels){.values = channels_first ? turned : values,
                          .channels_first = channels_first,
                          .count = count,
                          .side = VISION_SIDE,
                          .labels = labels};
}

TEST(images_in_memory_give_the_bytes_of_files)
{
    for (int f = 0; f < 2; f++) {
        OWNED(vision_lab) v;
        vision_open(&v);
        const char *model = vision_network(&v, f == 0 ? VISION_BASIC : VISION_TIMM_VIT, "model");
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "files"));
        OPENED(grail_model, opened, grail_model_open_with(model, options.read.reading, &opened));
        grail_pixels pixels = pixels_of(&v, opened, f == 1);
        const grail_image_source source = {.pixels = &pixels};
        vision_cut(&options, 0.5);
        assert_ok(lab_compress(&options));
        options.output.path = vision_path(&v, "memory");
        options.read.images = &source;
        assert_ok(lab_compress(&options));
        assert_same_checkpoint(vision_path(&v, "files"), vision_path(&v, "memory"));
        memory_free((void *)(uintptr_t)pixels.values);
        memory_free((void *)(uintptr_t)pixels.labels);
    }
}

VISION_TEST(images_in_memory_are_measured_as_files_are)
{
    OWNED(grail_model) *model = NULL;
    grail_images *of_files = NULL;
    grail_images *of_memory = NULL;
    grail_accuracy a;
    grail_accuracy b;
    assert_ok(grail_model_open(vision_network(v, VISION_BASIC, "model"), &model));
    grail_pixels pixels = pixels_of(v, model, false);
    grail_image_source source = v->images;
    source.split = "train";
    assert_ok(grail_images_open(model, &source, &of_files));
    assert_ok(grail_images_open(model, &(grail_image_source){.pixels = &pixels}, &of_memory));
    assert_ok(grail_accuracy_measure(model, of_files, 0, NULL, NULL, NULL, &a));
    assert_ok(grail_accuracy_measure(model, of_memory, 0, NULL, NULL, NULL, &b));
    assert_true(a.images == b.images && a.top1 == b.top1 && a.mean_nll == b.mean_nll);
    assert_string_equal(b.preset, "none");
    grail_images_close(of_files);
    grail_images_close(of_memory);
    memory_free((void *)(uintptr_t)pixels.values);
    memory_free((void *)(uintptr_t)pixels.labels);
}

/* Rows that the dense statistics of all nodes count, and where they lie. */
static int64_t counted(const grail_session *session, const grail_statistics **first)
{
    int64_t rows = 0;
    *first = NULL;
    for (int n = 0; n < session->model->graph->node_count; n++) {
        const dense_statistics *d = &session->of_nodes[n];
        if (d->fit != NULL) {
            rows += d->fit->count + d->held->count;
            *first = *first == NULL ? d->fit : *first;
        }
    }
    return rows;
}

VISION_TEST(the_dense_network_is_run_once)
{
    /* conv2 of three blocks, conv1 and downsample behind residual streams, fc */
    static const int64_t rows = 4 * 32 * 32 + 3 * 16 * 16 + 1;
    const grail_statistics *first = NULL;
    const grail_statistics *again = NULL;
    const char *model = vision_network(v, VISION_BASIC, "model");
    OPENED(grail_session, session, grail_session_open(model, NULL, &session));
    run_open(v, model, session, "wanda", 0.5, "half");
    assert_int_equal(counted(session, &first), VISION_IMAGES * rows);
    run_open(v, model, session, "fold", 0.25, "quarter");
    assert_int_equal(counted(session, &again), VISION_IMAGES * rows);
    assert_ptr_equal(first, again);
    /* a run that needs no data leaves the statistics in the session */
    grail_compress_options options = vision_options(v, model, vision_path(v, "plain"));
    vision_cut(&options, 0.5);
    options.fit.compensate = "none";
    options.fit.open_loop = 1;
    options.read.session = session;
    assert_ok(lab_compress(&options));
    assert_int_equal(counted(session, &again), VISION_IMAGES * rows);
    assert_ptr_equal(first, again);
    /* other samples need other statistics */
    options = vision_options(v, model, vision_path(v, "fewer"));
    vision_cut(&options, 0.5);
    options.read.session = session;
    options.fit.open_loop = 1;
    options.read.samples = 20;
    assert_ok(lab_compress(&options));
    assert_int_equal(counted(session, &again), 20 * rows);
}

VISION_TEST(the_samples_are_read_once)
{
    grail_session *session = NULL;
    calibration *c[5] = {NULL};
    const char *model = vision_network(v, VISION_BASIC, "model");
    grail_compress_options options = vision_options(v, model, NULL);
    grail_image_source images = *options.read.images;
    options.read.images = &images;
    assert_ok(grail_session_open(model, NULL, &session));
    for (int i = 0; i < 5; i++) {
        options.amount.sparsity_conv = 0.1 * i;
        options.read.samples = i == 2 ? 20 : 24;
        options.read.seed = i < 3 ? 0 : 1;
        images.preset = i < 4 ? NULL : "cifar-plain";
        assert_ok(session_calibration(session, &options, NULL, &c[i]));
        assert_int_equal(c[i] == c[i == 0 ? 0 : i - 1], i < 2);
        assert_int_equal(c[i]->count, options.read.samples);
    }
    grail_session_close(session);
    const size_t bytes = (size_t)24 * VISION_SIDE * VISION_SIDE * 3 * sizeof c[0]->pixels[0];
    assert_true(memcmp(c[0]->pixels, c[3]->pixels, bytes) != 0); /* another draw */
    assert_true(memcmp(c[3]->pixels, c[4]->pixels, bytes) != 0); /* another scale */
    for (int i = 0; i < 5; i++) {
        calibration_release(c[i]);
    }
}

/* Held-out batches show the same kinds of images as the others, whatever the order of the set. */
VISION_TEST(the_samples_are_mixed)
{
    enum { IMAGE = VISION_SIDE * VISION_SIDE * 3 };
    image_set *set = NULL;
    OWNED(float) *images = NULL;
    int64_t indices[VISION_IMAGES];
    bool found[VISION_IMAGES] = {false};
    int in_place = 0;
    const char *model = vision_network(v, VISION_BASIC, "model");
    OWNED(grail_model) *m = vision_model_open(model);
    const grail_compress_options options = vision_options(v, model, NULL);
    OPENED(calibration, c, calibration_read(m, &options, NULL, NULL, &c));
    assert_ok(image_set_open(&v->images, &set));
    assert_ok(image_set_sample(set, VISION_IMAGES, 0, indices));
    assert_ok(memory_new(&images, (size_t)VISION_IMAGES * IMAGE, sizeof images[0]));
    assert_ok(image_set_load(set, VISION_IMAGES, indices, images));
    image_set_close(set);
    assert_int_equal(c->count, VISION_IMAGES);
    for (int i = 0; i < VISION_IMAGES; i++) {
        int at = 0;
        while (at < VISION_IMAGES &&
               memcmp(c->pixels + (size_t)i * IMAGE, images + (size_t)at * IMAGE,
                      IMAGE * sizeof images[0]) != 0) {
            at++;
        }
        assert_true(at < VISION_IMAGES && !found[at]);
        found[at] = true;
        in_place += at == i;
    }
    assert_true(in_place < VISION_IMAGES / 4);
}

/* Two runs that need different statistics, both open at once in one session. */
static void assert_runs_apart(grail_compress_options left, grail_compress_options right)
{
    grail_compress_options *options[] = {&left, &right};
    const char *const shared[] = {left.output.path, right.output.path};
    char alone[2][LAB_PATH];
    grail_compression *runs[2] = {NULL, NULL};
    OWNED(grail_session) *session = NULL;
    assert_ok(grail_session_open(left.read.model, left.read.reading, &session));
    for (int i = 0; i < 2; i++) {
        snprintf(alone[i], sizeof alone[i], "%s-alone", shared[i]);
        options[i]->output.path = alone[i];
        assert_ok(lab_compress(options[i]));
        options[i]->output.path = shared[i];
        options[i]->read.session = session;
        assert_ok(grail_compression_open(options[i], &runs[i]));
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(grail_compression_run(runs[i]));
        assert_ok(grail_compression_finish(runs[i]));
        grail_compression_close(runs[i]);
        assert_same_checkpoint(alone[i], shared[i]);
    }
}

VISION_TEST(runs_of_a_session_keep_their_statistics_apart)
{
    char outputs[4][LAB_PATH];
    const char *model = vision_network(v, VISION_BASIC, "model");
    for (int i = 0; i < 4; i++) {
        snprintf(outputs[i], sizeof outputs[i], "%s-%d", vision_path(v, "out"), i);
    }
    grail_compress_options left = vision_options(v, model, outputs[0]);
    vision_cut(&left, 0.5);
    left.fit.open_loop = 1;
    grail_compress_options right = left;
    right.output.path = outputs[1];
    right.read.samples = 20;
    assert_runs_apart(left, right);
    left.output.path = outputs[2];
    left.read.samples = 8;
    right = left;
    right.output.path = outputs[3];
    right.run.backend = "ref";
    assert_runs_apart(left, right);
}

VISION_TEST(the_open_loop_sees_the_dense_network_upstream)
{
    static const grail_site_sparsity late = {.site = "layer2.0.conv2", .sparsity = 0.5};
    const char *model = vision_network(v, VISION_BASIC, "model");
    for (int open = 0; open < 2; open++) {
        grail_compress_options options =
            vision_options(v, model, vision_path(v, open ? "open" : "closed"));
        options.amount.sparsity_conv = 0.5;
        options.fit.open_loop = open;
        options.fit.target = "local";
        options.fit.bias = "off";
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
        assert_ok(lab_compress(&options));
        options.output.path = vision_path(v, open ? "open-late" : "closed-late");
        options.amount.sparsity_conv = 0.0;
        options.amount.site_sparsities = &late;
        options.amount.site_sparsity_count = 1;
        assert_ok(lab_compress(&options));
    }
    static const char *const name = "layer2.0.conv2.weight";
    assert_true(same_tensor(vision_path(v, "open"), vision_path(v, "open-late"), name));
    assert_false(same_tensor(vision_path(v, "closed"), vision_path(v, "closed-late"), name));
    assert_false(same_tensor(vision_path(v, "closed"), vision_path(v, "open"), name));
}

/* -- repeating -------------------------------------------------------------------------------- */

TEST(equal_threads_give_equal_bytes)
{
    static const char *const outputs[] = {"one", "one-again", "two", "two-again"};
    vision_lab v;
    const int before = grail_threads();
    for (int f = 0; f < VISION_FAMILIES; f++) {
        if (!support_takes(f,
                           VISION_FAMILIES - 1)) { /* a residual network by wanda, a tower folded */
            continue;
        }
        vision_open(&v);
        const char *model = vision_network(&v, (vision_family)f, "model");
        for (int i = 0; i < 4; i++) {
            grail_compress_options options = vision_options(&v, model, vision_path(&v, outputs[i]));
            vision_cut(&options, 0.4);
            options.cut.selector = f % 2 == 0 ? "wanda" : "fold";
            options.fit.repair = 1;
            grail_set_threads(1 + i / 2);
            assert_ok(lab_compress(&options));
        }
        grail_set_threads(before);
        assert_same_checkpoint(vision_path(&v, "one"), vision_path(&v, "one-again"));
        assert_same_checkpoint(vision_path(&v, "two"), vision_path(&v, "two-again"));
        assert_near(vision_difference(&v, vision_path(&v, "one"), vision_path(&v, "two")), 0.0,
                    1e-3);
        vision_close(&v);
    }
}

TEST(both_backends_agree)
{
    static const char *const selectors[] = {"wanda", "fold", "magnitude-l2", "random-fold"};
    static const char *const backends[] = {"cpu", "ref"};
    vision_lab v;
    for (int f = 0; f < VISION_FAMILIES; f++) {
        vision_open(&v);
        const char *model = vision_network(&v, (vision_family)f, "model");
        for (int b = 0; b < 2; b++) {
            grail_compress_options options =
                vision_options(&v, model, vision_path(&v, backends[b]));
            vision_cut(&options, 0.4);
            options.cut.selector = selectors[f % 4];
            options.fit.conv_fit = f % 2 == 0 ? "kernel" : "channel";
            options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
            options.fit.repair = f % 2;
            options.read.samples = 16;
            options.run.backend = backends[b];
            assert_ok(lab_compress(&options));
        }
        assert_near(vision_difference(&v, vision_path(&v, "cpu"), vision_path(&v, "ref")), 0.0,
                    1e-3);
        vision_close(&v);
    }
}

TEST(recomputing_what_was_not_kept_gives_the_same_answer)
{
    vision_lab v;
    for (int f = 0; f < VISION_FAMILIES; f++) {
        vision_open(&v);
        const char *model = vision_network(&v, (vision_family)f, "model");
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "kept"));
        vision_cut(&options, 0.4);
        options.cut.selector = f % 2 == 0 ? "fold" : "wanda";
        options.fit.repair = 1;
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
        options.run.memory = (int64_t)1 << 40;
        assert_ok(lab_compress(&options));
        options.output.path = vision_path(&v, "again");
        options.run.memory = 1;
        assert_ok(lab_compress(&options));
        json_t *report = read_json(options.output.path, "report.json");
        assert_true(json_is_false(json_object_get(report, "kept_activations")));
        json_decref(report);
        assert_near(vision_difference(&v, vision_path(&v, "kept"), options.output.path), 0.0, 1e-3);
        vision_close(&v);
    }
}

/* -- interruptions ---------------------------------------------------------------------------- */

/* Sites within blocks are finished block by block; where residual streams are cut, or norms are
 * repaired, the run begins anew. */
static void assert_resumed(vision_family family, const char *selector, const char *compensate,
                           bool streams, bool repair)
{
    OWNED(vision_lab) v;
    char partial[LAB_PATH];
    vision_open(&v);
    const char *model = vision_network(&v, family, "model");
    grail_compress_options options = vision_options(&v, model, vision_path(&v, "whole"));
    vision_cut(&options, 0.4);
    options.amount.sparsity_stream = streams ? 0.4 : 0.0;
    options.fit.repair = repair;
    options.cut.selector = selector;
    options.fit.compensate = compensate;
    assert_ok(lab_compress(&options));
    options.output.path = vision_path(&v, "parts");
    options.run.observer = vision_stop_behind_first_block;
    assert_int_equal(lab_compress(&options), GRAIL_ERROR_CANCELLED);
    snprintf(partial, sizeof partial, "%s.partial", vision_path(&v, "parts"));
    assert_true(file_is_directory(partial));
    options.run.observer = NULL;
    options.output.resume = 1;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(vision_path(&v, "whole"), options.output.path);
}

TEST(an_interrupted_run_is_continued_to_the_same_bytes)
{
    static const char *const selectors[] = {"magnitude-l1", "fold"};
    static const char *const modes[] = {"grail", "full"};
    for (int f = 0; f < VISION_FAMILIES; f++) {
        for (int i = 0; i < 4; i++) {
            if (!support_takes(i + f, 3)) {
                continue;
            }
            assert_resumed((vision_family)f, selectors[i % 2], modes[i / 2], false, false);
        }
        if (!vision_family_is_tower((vision_family)f)) {
            assert_resumed((vision_family)f, "fold", "full", true, false);
            assert_resumed((vision_family)f, "magnitude-l1", "full", false, true);
        }
    }
}
