/* --selector best in complete runs: the error of its fit is the least of those of its candidates.
 */
#include "vision_lab.h"

#include <math.h>
#include <string.h>

static const char *const candidates[] = {"obs",      "ziplm", "gram-css",    "slimgpt",
                                         "leverage", "wanda", "magnitude-l2"};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0], MOST_SITES = 16 };

/* The held-out error of the only site that is cut; `name` becomes the selector that decided. */
static double error_of(const lab *l, grail_compress_options options, const char *selector,
                       char *name)
{
    double error = (double)NAN;
    options.selector = selector;
    options.output = lab_path(l, selector);
    assert_ok(lab_compress(&options));
    json_t *report = read_json(options.output, "report.json");
    const json_t *list = json_object_get(report, "sites");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (json_object_get(one, "kept") != NULL &&
            json_integer_value(json_object_get(one, "kept")) <
                json_integer_value(json_object_get(one, "units"))) {
            error = json_number_value(json_object_get(one, "held_error_after"));
            snprintf(name, LAB_PATH, "%s", json_string_value(json_object_get(one, "selector")));
        }
    }
    json_decref(report);
    return error;
}

/* The winner is the candidate with the least error, and best has its error. */
static void assert_best(const lab *l, const grail_compress_options *options, const char *excluded)
{
    char winner[LAB_PATH];
    char name[LAB_PATH];
    double least = (double)INFINITY;
    const char *expected = NULL;
    const double error = error_of(l, *options, "best", winner);
    for (int i = 0; i < CANDIDATES; i++) {
        if (excluded != NULL && strcmp(candidates[i], excluded) == 0) {
            continue;
        }
        const double one = error_of(l, *options, candidates[i], name);
        assert_string_equal(name, candidates[i]);
        expected = one < least ? candidates[i] : expected;
        least = one < least ? one : least;
    }
    assert_near(error, least, 1e-12);
    assert_string_equal(winner, expected);
}

static void the_least_error_wins_at_neurons_and_heads(void **state)
{
    (void)state;
    static const char *const sites[] = {"model.layers.0.mlp.down_proj",
                                        "model.layers.1.self_attn.o_proj"};
    static const char *const repairs[] = {"full", "grail"};
    for (int i = 0; i < 4; i++) {
        lab l;
        lab_open(&l);
        const grail_site_sparsity cut = {.site = sites[i % 2], .sparsity = 0.5};
        grail_compress_options options = lab_options(&l, lab_f32(&l, "llama3", "dense"), NULL);
        options.sparsity_ffn = options.sparsity_heads = 0.0;
        options.compensate = repairs[i / 2];
        options.site_sparsities = &cut;
        options.site_sparsity_count = 1;
        assert_best(&l, &options, NULL);
        lab_close(&l);
    }
}

/* wanda scores channels by what produces them, which is gone when the consumer is met. */
static void the_least_error_wins_at_channels(void **state)
{
    (void)state;
    vision_lab v;
    vision_open(&v);
    const grail_site_sparsity cut = {.site = "layer1.0.conv2", .sparsity = 0.5};
    grail_compress_options options =
        vision_options(&v, vision_network(&v, VISION_BASIC, "model"), NULL);
    options.site_sparsities = &cut;
    options.site_sparsity_count = 1;
    assert_best(&v.l, &options, "wanda");
    vision_close(&v);
}

static void streams_are_decided_by_all_their_readers(void **state)
{
    (void)state;
    vision_lab v;
    vision_open(&v);
    grail_compress_options options =
        vision_options(&v, vision_network(&v, VISION_BASIC, "model"), vision_path(&v, "out"));
    options.sparsity_stream = 0.25;
    options.selector = "best";
    assert_ok(lab_compress(&options));
    vision_close(&v);
}

/* Nothing is fitted, so the plain cuts are compared. */
static void without_a_fit_the_plain_cuts_are_compared(void **state)
{
    (void)state;
    static const grail_site_sparsity cut = {.site = "model.layers.0.mlp.down_proj",
                                            .sparsity = 0.5};
    lab l;
    lab_open(&l);
    const char *model = lab_f32(&l, "llama3", "dense");
    grail_compress_options options = lab_options(&l, model, lab_path(&l, "out"));
    options.sparsity_ffn = options.sparsity_heads = 0.0;
    options.compensate = "none";
    options.site_sparsities = &cut;
    options.site_sparsity_count = 1;
    double least = (double)INFINITY;
    for (int i = 0; i < CANDIDATES; i++) {
        options.selector = candidates[i];
        options.output = lab_path(&l, candidates[i]);
        assert_ok(lab_compress(&options));
        least = fmin(least, compare_models(model, options.output, "cpu").mean_kl);
    }
    options.selector = "best";
    options.output = lab_path(&l, "best");
    assert_ok(lab_compress(&options));
    assert_true(compare_models(model, options.output, "cpu").mean_kl < 2.0 * least);
    lab_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_error_wins_at_neurons_and_heads),
        cmocka_unit_test(the_least_error_wins_at_channels),
        cmocka_unit_test(streams_are_decided_by_all_their_readers),
        cmocka_unit_test(without_a_fit_the_plain_cuts_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
