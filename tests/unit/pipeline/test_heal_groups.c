/* Neighbouring blocks that are healed together: they are one training, one end, and one place that
 * a run goes on from. */
#include "heal_lab.h"

#include "support/json_memory.h"

#include <math.h>
#include <stdio.h>

enum { BLOCKS = 2 };

/* Both blocks as one group. */
static grail_compress_options together(const lab *l, const char *model, const char *output,
                                       const char *what)
{
    grail_compress_options options = heal_run_options(l, model, output, what);
    options.heal.group = BLOCKS;
    return options;
}

LAB_TEST(a_group_is_one_training)
{
    static const char *const models[] = {"llama3-bf16", "qwen2"};
    for (int m = 0; m < 2; m++) {
        heal_watch w = {0};
        const char *model = lab_golden(models[m]);
        const char *plain = lab_path_of(l, "%s-plain", models[m]);
        const char *healed = lab_path_of(l, "%s-healed", models[m]);
        grail_compress_options options = heal_run_options(l, model, plain, "none");
        assert_ok(lab_compress(&options));
        options = together(l, model, healed, "block");
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.count, 1);
        const grail_healing *h = heal_made(&w, 0);
        assert_int_equal(h->block, 0);
        assert_int_equal(h->last_block, BLOCKS - 1);
        assert_int_equal(h->blocks, BLOCKS);
        assert_true(h->held_after < h->held_before);
        assert_true(compare_models(model, healed, "cpu").mean_kl <
                    compare_models(model, plain, "cpu").mean_kl);
        assert_false(same_tensor(plain, healed, "model.layers.0.mlp.down_proj.weight"));
        assert_false(same_tensor(plain, healed, "model.layers.1.mlp.down_proj.weight"));
    }
}

/* No number is one block, and a number beyond the blocks is all of them. */
LAB_TEST(a_group_has_one_block_to_all)
{
    static const int64_t same[][2] = {{0, 1}, {BLOCKS, 1000000007}};
    for (int i = 0; i < 2; i++) {
        char paths[2][LAB_PATH];
        for (int k = 0; k < 2; k++) {
            snprintf(paths[k], LAB_PATH, "%s/%d-%d", l->directory, i, k);
            grail_compress_options options =
                heal_brief(l, lab_golden("llama3"), paths[k], "block,model");
            options.heal.group = same[i][k];
            assert_ok(lab_compress(&options));
        }
        assert_same_checkpoint(paths[0], paths[1]);
        assert_same_trainings(paths[0], paths[1]);
    }
}

/* The blocks are narrowed as they are without healing, and then trained. */
LAB_TEST(a_group_begins_with_the_closed_form)
{
    grail_compress_options options =
        heal_run_options(l, lab_golden("llama3"), lab_path(l, "plain"), "none");
    assert_ok(lab_compress(&options));
    for (int loop = 0; loop < 2; loop++) {
        heal_watch w = {0};
        options = together(l, lab_golden("llama3"), lab_path(l, "out"), "block");
        options.heal.time = 1e-9;
        options.fit.open_loop = loop;
        assert_ok(heal_run(options, &w));
        assert_int_equal(w.count, 1);
        assert_true(w.made[0].steps == 0 && isnan(w.made[0].held_before));
        assert_int_equal(w.made[0].last_block, BLOCKS - 1);
        if (loop == 0) {
            assert_same_checkpoint(lab_path(l, "plain"), options.output.path);
        }
        support_remove_tree(options.output.path);
    }
}

LAB_TEST(a_run_that_stopped_goes_on_to_the_same_bytes)
{
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3-bf16"), lab_path(l, "walk"), "block,model");
    options.heal.group = BLOCKS;
    assert_heals_on(options, 16);
    options = heal_brief(l, lab_golden("llama3-bf16"), lab_path(l, "open"), "block");
    options.heal.group = BLOCKS;
    options.fit.open_loop = 1;
    assert_heals_on(options, 10);
    const char *model = lab_f32(l, "llama3", "dense");
    options = heal_run_options(l, model, lab_path(l, "narrow"), "none");
    assert_ok(lab_compress(&options));
    options = heal_taught(l, lab_path(l, "narrow"), model, lab_path(l, "out"), "block");
    options.read.samples = 6;
    heal_briefly(&options, "block");
    options.heal.group = BLOCKS;
    assert_heals_on(options, 8);
}

/* A run that died when only the first block of a group was recorded makes the whole group again:
 * the second one cannot be fitted behind the first one healed. */
LAB_TEST(a_run_that_died_within_a_group_makes_it_again)
{
    heal_watch w = {0};
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3"), lab_path(l, "whole"), "block");
    options.heal.group = BLOCKS;
    assert_ok(heal_run(options, &w));
    options.output.path = lab_path(l, "out");
    w.cancel_at = w.calls; /* behind the last block */
    assert_fails(heal_run(options, &w), GRAIL_ERROR_CANCELLED, "cancelled");
    heal_forget_last_record(l, "\"block\"");
    options.output.resume = 1;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_path(l, "whole"), options.output.path);
    assert_same_trainings(lab_path(l, "whole"), options.output.path);
}

LAB_TEST(another_group_is_refused)
{
    heal_watch w = {.cancel_at = 3};
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3"), lab_path(l, "out"), "block");
    options.heal.group = -1;
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "the number of blocks that are healed together is -1");
    options.heal.group = BLOCKS;
    assert_fails(heal_run(options, &w), GRAIL_ERROR_CANCELLED, "cancelled");
    options.output.resume = 1;
    options.heal.group = 1;
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "heal.group was 2 and is now 1");
    options.heal.group = BLOCKS;
    assert_ok(lab_compress(&options));
}

LAB_TEST(failing_allocations_are_survived)
{
    if (!support_walks_failures()) {
        skip();
    }
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3"), lab_path(l, "out"), "block");
    options.heal.group = BLOCKS;
    options.read.samples = 2;
    options.heal.steps = 1;
    lab_fail_allocations(options);
}

CMFixtureFunction support_setup = json_memory_use;
