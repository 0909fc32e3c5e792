/* Runs in bf16: close to those in f32, exact where nothing is computed, and the same again. */
#include "lab.h"

#include "backend/backend.h"
#include "support/json_memory.h"

#include <stdio.h>

static bool multiplies_bf16(void)
{
    OWNED(backend) *b = NULL;
    const grail_status status = backend_open("cpu", &(backend_options){.precision = "bf16"}, &b);
    if (status != GRAIL_OK) {
        print_message("skipped: %s\n", grail_error_message());
    }
    return status == GRAIL_OK;
}

static grail_compress_options in_bf16(const lab *l, const char *model, const char *output)
{
    grail_compress_options options = lab_options(l, model, output);
    options.run.precision = "bf16";
    return options;
}

/* The divergence from the dense network, whose golden models are random, is as in f32 but for what
 * bf16 rounds. */
LAB_TEST(results_are_close_to_those_in_f32)
{
    static const char *const models[] = {"llama3-bf16", "llama3-sharded", "llama-mha", "qwen3"};
    static const char *const repairs[] = {"none", "grail", "full"};
    for (int m = 0; m < 4; m++) {
        for (int k = 0; k < 3; k++) {
            char outputs[2][LAB_PATH];
            double found[2] = {0.0, 0.0};
            for (int p = 0; p < 2; p++) {
                snprintf(outputs[p], LAB_PATH, "%s/%d-%d-%d", l->directory, m, k, p);
                grail_compress_options options = in_bf16(l, lab_golden(models[m]), outputs[p]);
                options.fit.compensate = repairs[k];
                options.cut.selector = "magnitude-l2";
                options.run.precision = p == 0 ? "f32" : "bf16";
                assert_ok(lab_compress(&options));
                found[p] = lab_divergence(lab_golden(models[m]), outputs[p]);
            }
            if (k == 0) {
                assert_same_checkpoint(outputs[0], outputs[1]);
            } else {
                assert_near(found[1] / found[0], 1.0, 0.05);
                assert_false(
                    same_tensor(outputs[0], outputs[1], "model.layers.0.mlp.down_proj.weight"));
            }
        }
    }
}

LAB_TEST(what_is_not_cut_stays_as_it_was)
{
    grail_compress_options options = in_bf16(l, lab_golden("llama3-bf16"), lab_path(l, "out"));
    options.amount.sparsity_ffn = options.amount.sparsity_heads = 0.0;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_golden("llama3-bf16"), lab_path(l, "out"));
}

LAB_TEST(a_second_run_gives_the_same_bytes)
{
    static const char *const models[] = {"llama3-bf16", "qwen2"};
    for (int m = 0; m < 2; m++) {
        char outputs[2][LAB_PATH];
        for (int i = 0; i < 2; i++) {
            snprintf(outputs[i], LAB_PATH, "%s/%d-%d", l->directory, m, i);
            grail_compress_options options = in_bf16(l, lab_golden(models[m]), outputs[i]);
            options.cut.selector = "obs";
            options.fit.refit = "all";
            options.fit.token_weights = "stream";
            assert_ok(lab_compress(&options));
        }
        assert_same_checkpoint(outputs[0], outputs[1]);
    }
}

static int stop_at_second_block(void *user, const grail_site_report *site, int block, int blocks,
                                double seconds_left)
{
    return block >= 1 ? 1 : 0;
}

LAB_TEST(a_run_goes_on_in_its_own_precision)
{
    grail_compress_options options = in_bf16(l, lab_golden("llama3-bf16"), lab_path(l, "whole"));
    assert_ok(lab_compress(&options));
    options.output.path = lab_path(l, "parts");
    options.run.observer = stop_at_second_block;
    assert_fails(lab_compress(&options), GRAIL_ERROR_CANCELLED, "cancelled");
    options.run.observer = NULL;
    options.output.resume = 1;
    options.run.precision = "f32";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "precision was \"bf16\" and is now \"f32\"");
    options.run.precision = "auto"; /* alone it would be f32 for so few weights */
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_path(l, "whole"), lab_path(l, "parts"));
}

/* Weights that are trained are held as values, and their gradients are those of f32. */
LAB_TEST(blocks_and_the_network_are_healed)
{
    const char *model = lab_golden("llama3-bf16");
    grail_compress_options options = in_bf16(l, model, lab_path(l, "plain"));
    options.amount.sparsity_ffn = 0.5;
    assert_ok(lab_compress(&options));
    options.heal.what = "block,model";
    options.heal.steps = 48;
    options.heal.rate = 0.02;
    options.output.path = lab_path(l, "healed");
    assert_ok(lab_compress(&options));
    assert_true(lab_divergence(model, lab_path(l, "healed")) <
                lab_divergence(model, lab_path(l, "plain")));
}

/* This selector runs blocks back whose weights are not trained. */
LAB_TEST(regional_gradients_are_those_of_f32)
{
    static const char *const repairs[] = {"own", "full"};
    for (int i = 0; i < 2; i++) {
        char outputs[2][LAB_PATH];
        for (int p = 0; p < 2; p++) {
            snprintf(outputs[p], LAB_PATH, "%s/%d-%d", l->directory, i, p);
            grail_compress_options options = in_bf16(l, lab_golden("llama3-bf16"), outputs[p]);
            options.cut.selector = "wanda++";
            options.fit.compensate = repairs[i];
            if (i == 0) {
                options.fit.refit = options.fit.token_weights = NULL; /* nothing is fitted */
            }
            options.run.precision = p == 0 ? "f32" : "bf16";
            assert_ok(lab_compress(&options));
        }
        assert_near(lab_divergence(lab_golden("llama3-bf16"), outputs[1]) /
                        lab_divergence(lab_golden("llama3-bf16"), outputs[0]),
                    1.0, 0.3);
    }
}

LAB_TEST(failing_allocations_are_survived)
{
    if (!support_walks_failures()) {
        skip();
    }
    grail_compress_options options = in_bf16(l, lab_golden("llama3-bf16"), lab_path(l, "out"));
    options.read.samples = 2;
    lab_fail_allocations(options);
}

CMFixtureFunction support_setup = json_memory_use;

int main(void)
{
    return multiplies_bf16() ? support_run_tests() : TEST_SKIPPED;
}
