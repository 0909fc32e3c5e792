/* What is usual in healing: by what the network reads, how wide it is, and how long its windows
 * are.
 */
#include "../graph/build.h"

#include "heal/heal_options.h"
#include "pipeline/network/heal_training.h"

#include <math.h>
#include <stdlib.h>

static heal_options read(input_kind input, int64_t width, double rate)
{
    graph *g = NULL;
    heal_options out;
    grail_compress_options options;
    grail_compress_options_init(&options);
    assert_ok(graph_create(&g));
    if (input == INPUT_TOKENS) {
        add_linear(g, 0, "head", width, 10, false, add_embedding(g, "e", 10, width));
    } else if (width > 0) { /* images that become tokens */
        const int x = add_linear(g, 0, "patches", 3, width, false, g->input);
        add_linear(g, 0, "head", width, 10, false, add_attention(g, 0, 8, x, x, x));
    } else {
        add_linear(g, 0, "head", 3, 10, false, g->input);
    }
    g->input_kind = input;
    options.heal.what = "block,model";
    options.heal.rate = rate;
    assert_ok(heal_options_read(&options.heal, g, &out));
    graph_free(g);
    assert_true(out.blocks && out.network);
    return out;
}

static void check_rates(input_kind input, int64_t width, double of_blocks, double of_network)
{
    const heal_options o = read(input, width, 0.0);
    assert_near(o.block_rate, of_blocks, 1e-12);
    assert_near(o.network_rate, of_network, 1e-12);
}

TEST(rates_of_text_fall_with_the_width)
{
    check_rates(INPUT_TOKENS, 8, 0.06, 0.02);
    check_rates(INPUT_TOKENS, 64, 0.06, 0.02);
    check_rates(INPUT_TOKENS, 160, 0.06, 0.02 * pow(0.4, 4.0 / 3.0));
    static const int64_t widths[] = {161, 576, 4096};
    for (int i = 0; i < 3; i++) {
        const double width = (double)widths[i];
        check_rates(INPUT_TOKENS, widths[i], 0.06 * pow(160.0 / width, 1.5),
                    0.02 * pow(64.0 / width, 4.0 / 3.0));
    }
}

/* By the root of the tokens, between half and two and a half; not one that is given, nor that of
 * images. */
TEST(the_rate_of_a_network_grows_with_the_tokens)
{
    const heal_options usual = read(INPUT_TOKENS, 64, 0.0);
    assert_near(heal_rate_of_network(&usual, 327680.0), 0.02, 1e-15);
    assert_near(heal_rate_of_network(&usual, 4.0 * 327680.0), 0.04, 1e-15);
    assert_near(heal_rate_of_network(&usual, 1.0), 0.01, 1e-15);
    assert_near(heal_rate_of_network(&usual, 1e9), 0.05, 1e-15);
    const heal_options given = read(INPUT_TOKENS, 64, 0.1);
    const heal_options images = read(INPUT_IMAGES, 0, 0.0);
    assert_near(heal_rate_of_network(&given, 1e9), 0.1, 1e-15);
    assert_near(heal_rate_of_network(&images, 0.0), 0.005, 1e-15);
    assert_true(heal_trains_table(512, 32768.0) && !heal_trains_table(513, 32768.0));
}

TEST(rates_of_images_do_where_they_become_tokens)
{
    check_rates(INPUT_IMAGES, 0, 0.06, 0.005);
    check_rates(INPUT_IMAGES, 64, 0.06, 0.003);
    check_rates(INPUT_IMAGES, 384, 0.06 * pow(160.0 / 384.0, 1.5),
                0.003 * pow(64.0 / 384.0, 4.0 / 3.0));
    const heal_options wide = read(INPUT_IMAGES, 384, 0.0);
    assert_near(heal_rate_of_network(&wide, 0.0), wide.network_rate, 1e-15);
}

TEST(a_rate_that_is_given_is_taken)
{
    const heal_options o = read(INPUT_TOKENS, 4096, 0.01);
    assert_true(o.block_rate == 0.01 && o.network_rate == 0.01);
}

TEST(a_step_of_text_has_about_as_many_tokens_whatever_its_windows)
{
    static const heal_options usual;
    static const int64_t cases[][3] = {/* length, windows that are seen, windows of a step */
                                       {1, 100, 8},    {256, 100, 8},  {257, 100, 7},
                                       {512, 100, 4},  {1024, 100, 2}, {2048, 100, 1},
                                       {4096, 100, 1}, {256, 3, 3},    {4096, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(heal_step_samples(&usual, INPUT_TOKENS, cases[i][0], cases[i][1]),
                         cases[i][2]);
    }
    assert_int_equal(heal_step_samples(&usual, INPUT_IMAGES, 1, 1000), 64);
    assert_int_equal(heal_step_samples(&usual, INPUT_IMAGES, 1, 10), 10);
}

TEST(samples_of_a_step_are_as_chosen_where_so_many_are_seen)
{
    static const heal_options chosen = {.chosen.batch = 20};
    assert_int_equal(heal_step_samples(&chosen, INPUT_TOKENS, 2048, 100), 20);
    assert_int_equal(heal_step_samples(&chosen, INPUT_IMAGES, 1, 100), 20);
    assert_int_equal(heal_step_samples(&chosen, INPUT_TOKENS, 16, 7), 7);
}

/* Gradients of means over many rows, of an instance with this precision. */
static double scale_on(const char *name, const char *precision, int64_t batch, int64_t rows)
{
    const calibration samples = {.positions = {512, 1}};
    const backend_options options = {.precision = precision};
    OPENED(backend, b, backend_open(name, &options, &b));
    const heal_setting s = {.backend = b, .samples = &samples};
    return step_scale(&s, batch, rows);
}

TEST(gradients_are_those_of_a_mean)
{
    assert_true(scale_on("cpu", "f32", 3, 500) == 1.0 / 1500.0);
    assert_true(scale_on("ref", "f64", 8, 512) == 1.0 / 4096.0);
}

TEST(gradients_of_f16_do_not_vanish)
{
    if (getenv("GRAIL_TORCH") == NULL) {
        print_message("skipped: GRAIL_TORCH names no PyTorch\n");
        skip();
    }
    assert_true(scale_on("torch:cpu", "bf16", 3, 500) == 1.0 / 1500.0);
    assert_true(scale_on("torch:cpu", "f16", 8, 512) == 64.0);
    assert_true(scale_on("torch:cpu", "f16", 3, 500) == 64.0 * 2048.0 / 1500.0);
}
