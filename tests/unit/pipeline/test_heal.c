/* Healed runs of decoders: never further from the dense network, where nothing is to be healed
 * nothing changes, and a run that stopped is continued or refused. */
#include "heal_lab.h"

#include "base/file.h"
#include "base/record.h"
#include "support/json_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 2 };

/* Without memory blocks are run again on the way back, and the dense network in every step. */
LAB_TEST(what_does_not_fit_is_computed_again)
{
    heal_watch w[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        grail_compress_options options = heal_run_options(
            l, lab_golden("llama3"), lab_path(l, i == 0 ? "kept" : "again"), "model");
        options.run.backend = "ref";
        options.run.memory = i == 0 ? 0 : 1;
        options.heal.steps = 12;
        assert_ok(heal_run(options, &w[i]));
    }
    assert_true(heal_made(&w[0], 0)->held_after < w[0].made[0].held_before);
    assert_true(w[0].made[0].held_after == heal_made(&w[1], 0)->held_after);
    assert_same_checkpoint(lab_path(l, "kept"), lab_path(l, "again"));
}

/* A sublayer that is dropped stays dropped, and what stands before it is healed. */
LAB_TEST(dropped_sublayers_stay_dropped)
{
    static const char *const plans[] = {
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.mlp.down_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.0.self_attn.o_proj\", \"kept\": 1},"
        " {\"site\": \"model.layers.1.self_attn.o_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.1.mlp.down_proj\", \"kept\": 20}]}",
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.mlp.down_proj\", \"kept\": "
        "20},"
        " {\"site\": \"model.layers.1.self_attn.o_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.1.mlp.down_proj\", \"kept\": 0}]}"};
    const char *model = lab_f32(l, "qwen2", "dense");
    for (int p = 0; p < 2; p++) {
        heal_watch w = {0};
        char output[LAB_PATH];
        snprintf(output, sizeof output, "%s/plain%d", l->directory, p);
        grail_compress_options options = lab_options(l, model, output);
        options.amount.plan_text = plans[p];
        options.fit.refit = "all";
        assert_ok(lab_compress(&options));
        const double plain = lab_divergence(model, output);
        OWNED(json_t) *config = read_json(output, "config.json");
        snprintf(output, sizeof output, "%s/healed%d", l->directory, p);
        options.heal.what = "block,model";
        options.heal.steps = 48;
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.count, p == 0 ? BLOCKS + 1 : 2); /* block 1 has nothing left */
        for (int k = 0; k < w.count; k++) {
            (void)heal_made(&w, k);
        }
        OWNED(json_t) *healed = read_json(output, "config.json");
        assert_true(json_equal(config, healed));
        assert_true(lab_divergence(model, output) < plain);
    }
}

/* Samples that make one batch of one, and batches of which the last is shorter. */
LAB_TEST(any_number_of_samples_will_do)
{
    static const int64_t counts[] = {1, 2, 3, 5, 13};
    for (int i = 0; i < 5; i++) {
        heal_watch w = {0};
        const char *output = lab_path_of(l, "%d", i);
        grail_compress_options options =
            heal_run_options(l, lab_golden("llama3"), output, "block,model");
        options.read.samples = counts[i];
        options.heal.steps = 5;
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.count, BLOCKS + 1);
        for (int k = 0; k < w.count; k++) {
            const grail_healing *h = heal_made(&w, k);
            /* one sample is both seen and held out */
            assert_true(counts[i] > 1 || fabs(h->seen_after - h->held_after) < 1e-9);
        }
    }
}

/* -- what stays ------------------------------------------------------------------------------- */

LAB_TEST(nothing_is_healed_where_nothing_is_cut)
{
    heal_watch w = {0};
    grail_compress_options options =
        heal_run_options(l, lab_golden("llama3-bf16"), lab_path(l, "out"), "block,model");
    options.amount.sparsity_ffn = options.amount.sparsity_heads = 0.0;
    assert_ok(heal_run(options, &w));
    assert_int_equal(w.told, 0);
    assert_same_checkpoint(lab_golden("llama3-bf16"), options.output.path);
    OWNED(json_t) *report = read_json(options.output.path, "report.json");
    assert_null(json_object_get(report, "heal"));
    assert_null(json_object_get(report, "healed"));
}

/* Steps so large that nothing they lead to is better, or can be computed at all: those that are
 * left begin again where the closed form was. */
LAB_TEST(steps_that_are_too_large_begin_again)
{
    static const char *const models[] = {"llama3-bf16", "llama3-sharded"};
    for (int m = 0; m < 2; m++) {
        const char *output = lab_path(l, models[m]);
        const char *healed = lab_path_of(l, "%s-healed", models[m]);
        grail_compress_options options = heal_run_options(l, lab_golden(models[m]), output, "none");
        options.read.samples = 6; /* of which too few judge to tell a gain from chance */
        options.heal.rate = 0.99;
        assert_ok(lab_compress(&options));
        options.output.path = healed;
        options.heal.what = "block,model";
        int gained = 0;
        heal_watch w = {0};
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.count, BLOCKS + 1);
        for (int k = 0; k < w.count; k++) {
            const grail_healing *h = heal_made(&w, k);
            assert_true(h->best_step == 0 || h->best_step > h->most_steps / 2);
            assert_true(h->best_step == 0 ? h->held_after == h->held_before
                                          : h->held_after < h->held_before);
            gained += h->best_step > 0 ? 1 : 0;
        }
        assert_true(gained > 0);
    }
}

/* Weights that steps double leave f16. */
LAB_TEST(steps_that_diverge_only_end_the_training)
{
    lab_model m;
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; i < m.count; i++) {
        const bool norm = strstr(m.tensors[i].name, "norm") != NULL;
        for (int64_t k = 0; norm && k < lab_elements(&m.tensors[i]); k++) {
            m.tensors[i].values[k] *= 20000.0F; /* f16 ends at 65504 */
        }
        for (int64_t k = 0; !norm && strstr(m.tensors[i].name, "layers") != NULL &&
                            k < lab_elements(&m.tensors[i]);
             k++) {
            m.tensors[i].values[k] *= 0.01F;
        }
    }
    const char *model = lab_path(l, "model");
    lab_write(&m, model, GRAIL_DTYPE_F16);
    lab_fini(&m);
    grail_compress_options options = heal_run_options(l, model, lab_path(l, "out"), "block,model");
    options.heal.rate = 0.99;
    heal_watch w = {0};
    assert_ok(heal_run(options, &w));
    assert_int_equal(w.count, BLOCKS + 1);
    bool diverged = false;
    for (int k = 0; k < w.count; k++) {
        /* before four judgements could be lost */
        diverged = diverged || heal_made(&w, k)->steps - w.made[k].best_step < 4 * 3;
    }
    assert_true(diverged);
}

/* A limit that suffices for nothing leaves all as the closed form made it, and says so. */
LAB_TEST(a_time_limit_ends_the_healing)
{
    static const double limits[] = {1e-9, 0.05, 0.5};
    grail_compress_options options =
        heal_run_options(l, lab_golden("llama3"), lab_path(l, "plain"), "none");
    assert_ok(lab_compress(&options));
    for (int loop = 0; loop < 2; loop++) {
        for (int i = 0; i < 3; i++) {
            heal_watch w = {0};
            options.output.path = lab_path(l, "out");
            options.heal.what = "block,model";
            options.heal.steps = 1000000;
            options.heal.time = limits[i];
            options.fit.open_loop = loop;
            assert_ok(heal_run(options, &w));
            assert_int_equal(w.count, BLOCKS + 1);
            for (int k = 0; k < w.count; k++) {
                const grail_healing *h = &w.made[k];
                assert_true(h->steps < options.heal.steps);
                assert_true(!(h->held_after > h->held_before));
                assert_true(i > 0 || (h->steps == 0 && isnan(h->held_before)));
            }
            if (i == 0 && loop == 0) {
                assert_same_checkpoint(lab_path(l, "plain"), options.output.path);
            }
            support_remove_tree(options.output.path);
        }
    }
}

/* -- a network that was narrowed earlier ------------------------------------------------------- */

/* A network that lost a sublayer of each block, and one that lost a block. */
LAB_TEST(a_network_with_fewer_sublayers_is_healed_later)
{
    static const char *const plans[] = {
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.mlp.down_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.1.self_attn.o_proj\", \"kept\": 0}]}",
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.mlp.down_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.0.self_attn.o_proj\", \"kept\": 0}]}"};
    const char *model = lab_f32(l, "llama3", "dense");
    for (int p = 0; p < 2; p++) {
        char output[LAB_PATH];
        heal_watch w = {0};
        const char *narrow = lab_path_of(l, "narrow%d", p);
        snprintf(output, sizeof output, "%s/healed%d", l->directory, p);
        grail_compress_options options = lab_options(l, model, narrow);
        options.amount.plan_text = plans[p];
        assert_ok(lab_compress(&options));
        for (int loop = 0; loop < 2; loop++) {
            options = heal_taught(l, narrow, model, output, p == 0 ? "block,model" : "model");
            options.fit.open_loop = loop;
            snprintf(output, sizeof output, "%s/healed%d-%d", l->directory, p, loop);
            assert_ok(heal_run(options, &w));
            assert_int_equal(w.count, p == 0 ? BLOCKS + 1 : 1);
            assert_true(lab_divergence(model, output) < lab_divergence(model, narrow));
        }
        options = heal_taught(l, narrow, model, lab_path(l, "refused"), "block");
        if (p == 1) {
            assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                         "the model has 1 block, the teacher 2; heal the whole model instead");
        }
    }
}

static const char *with_vocabulary(const lab *l, int64_t tokens)
{
    OWNED(lab_model) m;
    const char *path = lab_path(l, "other-vocabulary");
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; i < m.count; i++) {
        if (m.tensors[i].shape[0] == lab_integer(&m, "vocab_size")) {
            m.tensors[i].shape[0] = tokens;
        }
    }
    lab_set_integer(&m, "vocab_size", tokens);
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

LAB_TEST(teachers_that_do_not_fit_are_refused)
{
    const char *model = lab_golden("llama3");
    grail_compress_options options =
        heal_taught(l, model, with_vocabulary(l, 80), lab_path(l, "out"), "model");
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "the model has a vocabulary of 96 tokens, the teacher one of 80");
    options.heal.teacher = lab_path(l, "missing");
    assert_int_equal(lab_compress(&options), GRAIL_ERROR_IO);
    options.heal.teacher = model;
    options.amount.sparsity_ffn = 0.5;
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "and cut in one run");
    assert_false(file_exists(lab_path(l, "out")));
    assert_false(file_exists(lab_path(l, "out.partial")));
}

LAB_TEST(numbers_that_make_no_sense_are_refused)
{
    static const struct {
        int64_t steps;
        double rate, time;
        const char *message;
    } bad[] = {{-1, 0.0, 0.0, "the number of steps of healing is -1"},
               {0, 1.0, 0.0, "the rate of healing is 1"},
               {0, -0.1, 0.0, "the rate of healing is -0.1"},
               {0, (double)NAN, 0.0, "the rate of healing is nan"},
               {0, 0.0, -1.0, "the time for healing in seconds is -1"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        grail_compress_options o =
            heal_run_options(l, lab_golden("llama3"), lab_path(l, "out"), "block");
        o.heal.steps = bad[i].steps;
        o.heal.rate = bad[i].rate;
        o.heal.time = bad[i].time;
        assert_fails(lab_compress(&o), GRAIL_ERROR_ARGUMENT, bad[i].message);
    }
}

/* -- runs that stop and go on ------------------------------------------------------------------ */

/* A run in "out.partial" that ended at a call. */
static grail_compress_options stopped(const lab *l, int at)
{
    heal_watch w = {.cancel_at = at};
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3"), lab_path(l, "out"), "block,model");
    assert_fails(heal_run(options, &w), GRAIL_ERROR_CANCELLED, "cancelled");
    options.output.resume = 1;
    return options;
}

/* That every option is compared: test_resume. */
LAB_TEST(other_options_of_healing_are_refused_by_name)
{
    const grail_compress_options options = stopped(l, 14);
    grail_compress_options other = options;
    other.heal.what = "model";
    assert_fails(lab_compress(&other), GRAIL_ERROR_ARGUMENT,
                 "heal.what was \"block,model\" and is now \"model\"");
    other.heal.what = "none";
    assert_fails(lab_compress(&other), GRAIL_ERROR_ARGUMENT, "heal");
    other = options;
    other.heal.steps = 7;
    assert_fails(lab_compress(&other), GRAIL_ERROR_ARGUMENT, "heal.steps was 6 and is now 7");
    assert_ok(lab_compress(&options)); /* no refusal has hurt it */
}

LAB_TEST(another_teacher_is_refused)
{
    heal_watch w = {.cancel_at = 2};
    const char *model = lab_f32(l, "llama3", "dense");
    const char *other = lab_f32(l, "llama-mha", "other");
    grail_compress_options options = heal_run_options(l, model, lab_path(l, "narrow"), "none");
    assert_ok(lab_compress(&options));
    options = heal_taught(l, lab_path(l, "narrow"), model, lab_path(l, "out"), "model");
    assert_fails(heal_run(options, &w), GRAIL_ERROR_CANCELLED, "cancelled");
    options.output.resume = 1;
    options.heal.teacher = other;
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "teacher_files");
    options.heal.teacher = model;
    assert_ok(lab_compress(&options));
}

/* Which of the two files holds the last state, by the records. */
static int last_saved_file(const lab *l)
{
    OWNED(buffer) text = {0};
    int file = -1;
    assert_ok(file_read(lab_path(l, "out.partial/grail-state.jsonl"), (size_t)1 << 24, &text));
    OPENED(json_t, records, record_parse("state", text.bytes, text.size, &records));
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *training = json_object_get(json_array_get(records, i), "training");
        const json_t *which = json_object_get(training, "file");
        if (which != NULL) {
            assert_int_not_equal(json_integer_value(which), file); /* they take turns */
            file = (int)json_integer_value(which);
        }
    }
    return file;
}

/* A run that died while it wrote a file had not yet said that the file counts. */
LAB_TEST(a_run_that_died_while_it_saved_goes_on_from_the_state_before)
{
    heal_watch w = {0};
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3"), lab_path(l, "whole"), "block,model");
    assert_ok(heal_run(options, &w));
    for (int back = 2; back <= 4; back++) { /* the last call comes after the last state */
        options = stopped(l, w.calls - back);
        const int other = 1 - last_saved_file(l);
        support_write_file(lab_path(l, "out.partial"),
                           other == 0 ? "grail-saved-0" : "grail-saved-1", "torn", 4);
        assert_ok(lab_compress(&options));
        assert_same_checkpoint(lab_path(l, "whole"), options.output.path);
        assert_same_trainings(lab_path(l, "whole"), options.output.path);
        assert_false(file_exists(lab_path(l, "out.partial")));
        support_remove_tree(options.output.path);
    }
}

LAB_TEST(a_damaged_state_is_named)
{
    char name[64];
    const grail_compress_options options = stopped(l, 26);
    const int file = last_saved_file(l);
    assert_true(file >= 0);
    snprintf(name, sizeof name, "out.partial/grail-saved-%d", file);
    FILE *f = fopen(lab_path(l, name), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 5000, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, 5000, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 4, f), byte ^ 4);
    assert_int_equal(fclose(f), 0);
    assert_fails(lab_compress(&options), GRAIL_ERROR_FORMAT,
                 "is damaged: the checksum of its matrix");
    assert_true(file_exists(lab_path(l, name))); /* what is finished stays */
}

/* A run that died when the healed tensors had taken the place of the fitted ones, but were not yet
 * recorded: only the report tells what was before. */
LAB_TEST(a_run_that_died_while_it_wrote_the_healed_network_goes_on)
{
    grail_compression *c = NULL;
    for (int loop = 0; loop < 2; loop++) {
        const char *whole = lab_path_of(l, "whole%d", loop);
        grail_compress_options options =
            heal_brief(l, lab_golden("llama3-bf16"), whole, "block,model");
        options.fit.open_loop = loop;
        assert_ok(lab_compress(&options));
        options.output.path = lab_path(l, "out");
        assert_ok(grail_compression_open(&options, &c));
        assert_ok(grail_compression_run(c));
        grail_compression_close(c);
        heal_forget_last_record(l, "weights");
        options.output.resume = 1;
        assert_ok(lab_compress(&options));
        assert_same_checkpoint(whole, options.output.path);
        assert_same_trainings(whole, options.output.path);
        support_remove_tree(options.output.path);
    }
}

/* -- memory ----------------------------------------------------------------------------------- */

LAB_TEST(failing_allocations_of_a_healed_run_are_survived)
{
    if (!support_walks_failures()) {
        skip();
    }
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3"), lab_path(l, "out"), "block,model");
    options.read.samples = 2;
    options.heal.steps = 2;
    lab_fail_allocations(options);
}

CMFixtureFunction support_setup = json_memory_use;
