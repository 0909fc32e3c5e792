/* Healed runs of decoders: what comes out is nearer to the dense network, whatever was healed and
 * however the closed form was reached. Numbers: test_heal walks the same code with sanitizers. */
#include "heal_lab.h"

#include <stdio.h>
#include <string.h>

enum { BLOCKS = 2 };

/* The closed form, then the same with `count` kinds of healing. */
static void assert_is_healed(const lab *l, const char *model, const char *name, int count)
{
    static const char *const kinds[] = {"block,model", "block", "model"};
    static const int trainings[] = {BLOCKS + 1, BLOCKS, 1};
    char output[LAB_PATH];
    snprintf(output, sizeof output, "%s/%s", l->directory, name);
    grail_compress_options options = heal_run_options(l, model, output, "none");
    assert_ok(lab_compress(&options));
    const double plain = lab_divergence(model, output);
    for (int i = 0; i < count; i++) {
        heal_watch w = {0};
        snprintf(output, sizeof output, "%s/%s-%d", l->directory, name, i);
        options.heal.what = kinds[i];
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.count, trainings[i]);
        for (int k = 0; k < w.count; k++) {
            const grail_healing *h = heal_made(&w, k);
            assert_true(h->held_after < h->held_before && h->seen_after < h->seen_before);
            assert_int_equal(h->block, i == 2 || k == BLOCKS ? -1 : k);
            assert_int_equal(h->blocks, BLOCKS);
        }
        assert_true(lab_divergence(model, output) < plain);
    }
}

LAB_TEST(healing_brings_a_network_nearer_to_the_dense_one)
{
    static const char *const models[] = {"llama3-bf16", "llama3-sharded", "qwen2", "qwen3",
                                         "mistral"};
    for (int m = 0; m < 5; m++) {
        assert_is_healed(l, lab_golden(models[m]), models[m], support_takes(m, 5) ? 3 : 1);
    }
    assert_is_healed(l, lab_f32(l, "llama3", "dense"), "f32", 1);
}

/* Whether healing should have changed the tensors of blocks, the table of tokens and the others. */
typedef struct reach {
    bool blocks, table, others;
} reach;

static void assert_trained(const char *plain, const char *healed, const reach *expected)
{
    OWNED(lab_model) before;
    lab_read(&before, plain);
    for (int t = 0; t < before.count; t++) {
        const char *name = before.tensors[t].name;
        const bool trained = strstr(name, "layers") != NULL         ? expected->blocks
                             : strstr(name, "embed_tokens") != NULL ? expected->table
                                                                    : expected->others;
        if (same_tensor(plain, healed, name) == trained) {
            fail_msg("'%s' was%s trained", name, trained ? " not" : "");
        }
    }
}

/* Gradients reach the first block through all others, and the table of tokens where it is the
 * matrix of the head, too. */
LAB_TEST(all_that_was_asked_for_is_trained)
{
    static const struct {
        const char *model, *kind;
        reach trained;
    } runs[] = {{"qwen3", "block", {.blocks = true}},
                {"qwen3", "model", {.blocks = true, .others = true}},
                {"qwen2", "block", {.blocks = true}},
                {"qwen2", "model", {.blocks = true, .table = true, .others = true}}};
    for (int i = 0; i < 4; i++) {
        char paths[3][LAB_PATH];
        for (int p = 0; p < 3; p++) {
            snprintf(paths[p], LAB_PATH, "%s/%d-%d", l->directory, i, p);
        }
        lab_model m;
        lab_read(&m, lab_golden(runs[i].model));
        lab_write(&m, paths[0], GRAIL_DTYPE_F32);
        lab_fini(&m);
        grail_compress_options options = heal_run_options(l, paths[0], paths[1], "none");
        assert_ok(lab_compress(&options));
        options = heal_run_options(l, paths[0], paths[2], runs[i].kind);
        assert_ok(lab_compress(&options));
        assert_trained(paths[1], paths[2], &runs[i].trained);
    }
}

LAB_TEST(the_reference_heals_as_cpu_does)
{
    static const char *const backends[] = {"cpu", "ref"};
    heal_watch w[2] = {{0}};
    const char *model = lab_f32(l, "llama3", "dense");
    for (int b = 0; b < 2; b++) {
        grail_compress_options options =
            heal_run_options(l, model, lab_path(l, backends[b]), "block,model");
        options.run.backend = backends[b];
        options.heal.steps = 12;
        assert_ok(heal_run(options, &w[b]));
        assert_int_equal(w[b].count, BLOCKS + 1);
    }
    for (int k = 0; k <= BLOCKS; k++) {
        const double cpu = heal_made(&w[0], k)->held_after;
        const double ref = heal_made(&w[1], k)->held_after;
        assert_near(cpu, ref, 0.02 * ref);
        assert_true(ref < w[1].made[k].held_before);
    }
}

/* All that changes how the closed form is reached, and when blocks are healed. */
LAB_TEST(every_way_to_the_closed_form_is_healed)
{
    const char *const models[] = {lab_f32(l, "llama3", "dense"),
                                  lab_with_biases(l, "llama3", "biased")};
    for (int way = 0; way < 5; way++) {
        heal_watch w = {0};
        char output[LAB_PATH];
        const char *model = models[way == 3];
        snprintf(output, sizeof output, "%s/%d", l->directory, way);
        grail_compress_options options = heal_run_options(l, model, output, "none");
        options.heal.steps = 32;
        options.heal.rate = 0.005;
        options.fit.open_loop = way == 1;
        options.cut.selector = way == 2 ? "fold" : "wanda";
        options.fit.compensate = way == 3 ? "none" : "full";
        options.fit.refit = way == 4 ? "all" : "none";
        assert_ok(lab_compress(&options));
        const double plain = lab_divergence(model, output);
        options.heal.what = "block,model";
        snprintf(output, sizeof output, "%s/%d-healed", l->directory, way);
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.count, BLOCKS + 1);
        for (int k = 0; k < w.count; k++) {
            (void)heal_made(&w, k);
        }
        assert_true(lab_divergence(model, output) < plain);
    }
}

/* The same network, so the same loss before, and from there the same way. */
LAB_TEST(a_network_narrowed_earlier_is_healed_as_in_one_run)
{
    const char *model = lab_f32(l, "llama3", "dense");
    grail_compress_options options = heal_run_options(l, model, lab_path(l, "narrow"), "none");
    assert_ok(lab_compress(&options));
    heal_watch at_once = {0};
    heal_watch later = {0};
    options = heal_run_options(l, model, lab_path(l, "at-once"), "model");
    assert_ok(heal_run(options, &at_once));
    options = heal_taught(l, lab_path(l, "narrow"), model, lab_path(l, "later"), "model");
    assert_ok(heal_run(options, &later));
    assert_true(heal_made(&later, 0)->held_before == heal_made(&at_once, 0)->held_before);
    assert_true(later.made[0].held_after == at_once.made[0].held_after);
    assert_same_checkpoint(lab_path(l, "at-once"), lab_path(l, "later"));
    json_t *report = read_json(options.output.path, "report.json");
    assert_string_equal(json_string_value(json_object_get(report, "teacher")), model);
    json_decref(report);

    for (int loop = 0; loop < 2; loop++) {
        const char *output = lab_path(l, loop == 0 ? "blocks" : "open");
        options = heal_taught(l, lab_path(l, "narrow"), model, output, "block,model");
        options.fit.open_loop = loop;
        assert_ok(heal_run(options, &later));
        assert_int_equal(later.count, BLOCKS + 1);
        for (int k = 0; k < later.count; k++) {
            assert_true(heal_made(&later, k)->best_step > 0);
        }
        assert_true(lab_divergence(model, options.output.path) <
                    lab_divergence(model, lab_path(l, "narrow")));
    }
}
