/* Token ids in memory, and networks that run on them. */
#include "unit/pipeline/lab.h"

#include <grail/runner.h>

#include <math.h>

enum { WINDOWS = LAB_SAMPLES, LENGTH = LAB_LENGTH, VOCABULARY = 96, SHORT = 7 };

static void make_ids(int32_t *ids)
{
    for (int i = 0; i < WINDOWS * LENGTH; i++) {
        ids[i] = (i * i * 31 + i * 7) % VOCABULARY;
    }
}

static grail_runner *open_runner(const grail_model *model)
{
    grail_runner *runner = NULL;
    assert_ok(grail_runner_open(model, NULL, &runner));
    assert_int_equal(grail_runner_outputs(runner), VOCABULARY);
    return runner;
}

LAB_TEST(ids_in_memory_are_those_of_a_file)
{
    static int32_t ids[WINDOWS * LENGTH];
    const grail_tokens tokens = {.ids = ids, .windows = WINDOWS, .length = LENGTH};
    const grail_text_source memory = {.tokens = &tokens};
    grail_perplexity a;
    grail_perplexity b;
    make_ids(ids);
    lab_write_ids(l, "same.npy", WINDOWS, LENGTH, ids);
    const grail_text_source file = {.path = lab_path(l, "same.npy")};
    OPENED(grail_model, model, grail_model_open(lab_golden("qwen3"), &model));
    assert_ok(grail_perplexity_measure(model, &file, 0, NULL, NULL, NULL, &a));
    assert_ok(grail_perplexity_measure(model, &memory, 0, NULL, NULL, NULL, &b));
    assert_true(a.mean_nll == b.mean_nll && a.scored_tokens == b.scored_tokens);
    grail_compress_options options = lab_options(l, lab_golden("qwen3"), lab_path(l, "of-file"));
    options.read.text = file;
    assert_ok(lab_compress(&options));
    options.output.path = lab_path(l, "of-memory");
    options.read.text = memory;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_path(l, "of-file"), lab_path(l, "of-memory"));
}

/* The losses of a window that is run alone. */
static void expect_alone(grail_runner *runner, const int32_t *ids, int64_t length,
                         const double *losses, const unsigned char *largest)
{
    double own[LENGTH - 1];
    unsigned char own_largest[LENGTH - 1];
    const grail_tokens one = {.ids = ids, .windows = 1, .length = length};
    assert_ok(grail_runner_losses(runner, &one, own, own_largest));
    for (int64_t i = 0; i < LENGTH - 1; i++) {
        if (i < length - 1) {
            assert_near(losses[i], own[i], 1e-5);
            assert_int_equal(largest[i], own_largest[i]);
        } else {
            assert_true(isnan(losses[i]) && largest[i] == 0);
        }
    }
}

TEST(windows_of_several_lengths_run_as_each_does_alone)
{
    static int32_t ids[WINDOWS * LENGTH];
    static double losses[WINDOWS * (LENGTH - 1)];
    static unsigned char largest[WINDOWS * (LENGTH - 1)];
    int64_t lengths[WINDOWS];
    double sum = 0.0;
    int64_t scored = 0;
    grail_model *model = NULL;
    grail_perplexity p;
    const grail_tokens tokens = {
        .ids = ids, .windows = WINDOWS, .length = LENGTH, .lengths = lengths};
    make_ids(ids);
    for (int w = 0; w < WINDOWS; w++) {
        lengths[w] = w % 3 == 0 ? LENGTH : SHORT + w % 2;
    }
    assert_ok(grail_model_open(lab_golden("qwen3"), &model));
    grail_runner *runner = open_runner(model);
    assert_ok(grail_runner_losses(runner, &tokens, losses, largest));
    for (int w = 0; w < WINDOWS; w++) {
        expect_alone(runner, ids + w * LENGTH, lengths[w], losses + w * (LENGTH - 1),
                     largest + w * (LENGTH - 1));
        for (int64_t i = 0; i < lengths[w] - 1; i++) {
            sum += losses[w * (LENGTH - 1) + i];
        }
        scored += lengths[w] - 1;
    }
    const grail_text_source source = {.tokens = &tokens};
    assert_ok(grail_perplexity_measure(model, &source, 0, NULL, NULL, NULL, &p));
    assert_int_equal(p.scored_tokens, scored);
    assert_near(p.mean_nll, sum / (double)scored, 1e-5);
    lengths[3] = 1;
    assert_fails(grail_perplexity_measure(model, &source, 0, NULL, NULL, NULL, &p),
                 GRAIL_ERROR_ARGUMENT, "has one token");
    grail_runner_close(runner);
    grail_model_close(model);
}

/* The last token is predicted, and not read. */
TEST(a_window_may_have_one_token_more_than_the_context)
{
    grail_model_facts facts;
    OWNED(int32_t) *ids = NULL;
    OWNED(double) *losses = NULL;
    OPENED(grail_model, model, grail_model_open(lab_golden("qwen3"), &model));
    assert_ok(grail_model_describe(model, &facts));
    assert_ok(memory_new(&ids, (size_t)facts.context + 2, sizeof *ids));
    assert_ok(memory_new(&losses, (size_t)facts.context + 1, sizeof *losses));
    grail_tokens tokens = {.ids = ids, .windows = 1, .length = facts.context + 1};
    OWNED(grail_runner) *runner = open_runner(model);
    assert_ok(grail_runner_losses(runner, &tokens, losses, NULL));
    assert_true(isfinite(losses[facts.context - 1]));
    tokens.length++;
    assert_fails(grail_runner_losses(runner, &tokens, losses, NULL), GRAIL_ERROR_ARGUMENT,
                 "longer than the model's");
    tokens.length = 1;
    assert_ok(grail_runner_losses(runner, &tokens, losses, NULL));
}

TEST(logits_have_the_losses)
{
    enum { FEW = 3 };
    static int32_t ids[WINDOWS * LENGTH];
    static float logits[FEW * LENGTH * VOCABULARY];
    static float last[FEW * VOCABULARY];
    static double losses[FEW * (LENGTH - 1)];
    const int64_t lengths[FEW] = {LENGTH, SHORT, LENGTH};
    grail_model *model = NULL;
    const grail_tokens tokens = {.ids = ids, .windows = FEW, .length = LENGTH, .lengths = lengths};
    make_ids(ids);
    assert_ok(grail_model_open(lab_golden("qwen3"), &model));
    grail_runner *runner = open_runner(model);
    assert_ok(grail_runner_tokens(runner, &tokens, 0, logits));
    assert_ok(grail_runner_tokens(runner, &tokens, 1, last));
    assert_ok(grail_runner_losses(runner, &tokens, losses, NULL));
    for (int w = 0; w < FEW; w++) {
        const float *of_window = logits + w * LENGTH * VOCABULARY;
        for (int v = 0; v < VOCABULARY; v++) { /* one row is multiplied otherwise than several */
            assert_near((double)last[w * VOCABULARY + v],
                        (double)of_window[(lengths[w] - 1) * VOCABULARY + v], 1e-5);
        }
        for (int64_t i = 0; i + 1 < lengths[w]; i++) {
            const float *x = of_window + i * VOCABULARY;
            double total = 0.0;
            for (int v = 0; v < VOCABULARY; v++) {
                total += exp((double)x[v]);
            }
            assert_near(losses[w * (LENGTH - 1) + i],
                        log(total) - (double)x[ids[w * LENGTH + i + 1]], 1e-4);
        }
        for (int64_t i = lengths[w] * VOCABULARY; i < LENGTH * VOCABULARY; i++) {
            assert_true(of_window[i] == 0.0F);
        }
    }
    grail_runner_close(runner);
    grail_model_close(model);
}

TEST(what_is_no_array_of_ids_is_refused)
{
    int32_t ids[4] = {1, 2, 3, VOCABULARY};
    int64_t lengths[2] = {2, 3};
    double losses[2];
    grail_perplexity p;
    grail_tokens tokens = {.ids = ids, .windows = 2, .length = 2};
    grail_text_source source = {.tokens = &tokens};
    OPENED(grail_model, model, grail_model_open(lab_golden("qwen3"), &model));
    OWNED(grail_runner) *runner = open_runner(model);
    assert_fails(grail_runner_losses(runner, &tokens, losses, NULL), GRAIL_ERROR_ARGUMENT,
                 "window 1 in memory has the token id 96 at position 1; expected 0 to 95");
    ids[3] = -1;
    assert_fails(grail_runner_losses(runner, &tokens, losses, NULL), GRAIL_ERROR_ARGUMENT,
                 "has the token id -1");
    ids[3] = 4;
    tokens.lengths = lengths;
    assert_fails(grail_runner_losses(runner, &tokens, losses, NULL), GRAIL_ERROR_ARGUMENT,
                 "window 1 in memory has a length of 3; expected 1 to 2");
    tokens.lengths = NULL;
    tokens.windows = INT64_MAX;
    assert_fails(grail_runner_losses(runner, &tokens, losses, NULL), GRAIL_ERROR_ARGUMENT,
                 "expected at least one window");
    tokens.windows = 0;
    assert_fails(grail_runner_losses(runner, &tokens, losses, NULL), GRAIL_ERROR_ARGUMENT,
                 "expected at least one window");
    tokens.windows = 2;
    tokens.ids = NULL;
    assert_fails(grail_runner_losses(runner, &tokens, losses, NULL), GRAIL_ERROR_ARGUMENT,
                 "no ids");
    tokens.ids = ids;
    source.context = 2;
    assert_fails(grail_perplexity_measure(model, &source, 0, NULL, NULL, NULL, &p),
                 GRAIL_ERROR_ARGUMENT, "leave out the context");
    source.context = 0;
    source.path = "elsewhere.txt";
    assert_fails(grail_perplexity_measure(model, &source, 0, NULL, NULL, NULL, &p),
                 GRAIL_ERROR_ARGUMENT, "leave out the path");
}
