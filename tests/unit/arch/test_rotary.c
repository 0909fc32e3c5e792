/* Rotary positions: plain, of a part of each head, scaled in every way and both spellings, and what
 * is refused. */
#include "config.h"

#include "arch/rotary.h"

#include <math.h>
#include <string.h>

enum { DIM = 8, COUNT = DIM / 2 };

static const rotary_source usual = {.head_dim = DIM,
                                    .context = 256,
                                    .theta_key = "rope_theta",
                                    .partial_key = "partial_rotary_factor",
                                    .theta = 1e4,
                                    .partial = 1.0};

static grail_status read_from(const rotary_source *from, const char *text, rotary *out)
{
    OWNED(json_t) *config = NULL;
    assert_ok(json_parse("config.json", text, strlen(text), &config));
    return rotary_read("config.json", config, from, out);
}

static grail_status frequencies(const char *text)
{
    OWNED(rotary) r = {0};
    return read_from(&usual, text, &r);
}

static void assert_same(const double *found, const double *expected, int count)
{
    for (int k = 0; k < count; k++) {
        assert_near(found[k] / expected[k], 1.0, 1e-6);
    }
}

static void assert_frequencies(const char *text, const double expected[COUNT])
{
    OWNED(rotary) r = {0};
    assert_ok(read_from(&usual, text, &r));
    assert_same(r.frequency, expected, COUNT);
    assert_int_equal(r.turned, DIM);
    assert_true(r.factor == 1.0);
    assert_null(r.long_frequency);
}

TEST(frequencies_fall_by_powers_of_theta)
{
    assert_frequencies("{}", (double[]){1.0, 0.1, 0.01, 0.001}); /* 10000^(-2k/8) */
    assert_frequencies("{\"rope_theta\": 16}", (double[]){1.0, 0.5, 0.25, 0.125});
    assert_frequencies("{\"rope_theta\": 16.0, \"rope_scaling\": null}",
                       (double[]){1.0, 0.5, 0.25, 0.125});
    assert_frequencies("{\"rope_theta\": 7, \"rope_parameters\": {\"rope_theta\": 16}}",
                       (double[]){1.0, 0.5, 0.25, 0.125});
    assert_frequencies("{\"rope_theta\": 16, \"rope_parameters\": {\"rope_type\": \"default\"}}",
                       (double[]){1.0, 0.5, 0.25, 0.125});
}

TEST(linear_scaling_divides_them)
{
    const double expected[] = {0.25, 0.125, 0.0625, 0.03125};
    assert_frequencies("{\"rope_theta\": 16, \"rope_scaling\": {\"type\": \"linear\","
                       " \"factor\": 4}}",
                       expected);
    assert_frequencies("{\"rope_parameters\": {\"rope_theta\": 16, \"rope_type\": \"linear\","
                       " \"factor\": 4}}",
                       expected);
}

/* theta 10000: wavelengths 6.2832, 62.832, 628.32, 6283.2. With 2000 original positions, low 1 and
 * high 4 the bounds are 2000 and 500: two are kept, the third is blended with
 * s = (2000 / 628.3185 - 1) / 3 = 0.7276996: 0.01 (0.2723004 / 8 + 0.7276996) = 0.007617371,
 * the last is divided by 8. */
TEST(llama3_scaling_slows_long_waves_and_blends_between)
{
    const double expected[] = {1.0, 0.1, 0.0076173715, 0.000125};
    assert_frequencies("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0,"
                       " \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0,"
                       " \"original_max_position_embeddings\": 2000}}",
                       expected);
    assert_frequencies("{\"rope_parameters\": {\"rope_theta\": 10000, \"rope_type\": \"llama3\","
                       " \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4,"
                       " \"original_max_position_embeddings\": 2000}}",
                       expected);
    /* defaults are those of Llama 3.1: 8, 1, 4, 8192; bounds 8192 and 2048 */
    const double s = (8192.0 / 6283.1853 - 1.0) / 3.0;
    assert_frequencies("{\"rope_scaling\": {\"rope_type\": \"llama3\"}}",
                       (double[]){1.0, 0.1, 0.01, 0.001 * ((1.0 - s) / 8.0 + s)});
}

/* size = int(8 partial) of 8 features are turned, by theta^(-2k/size). */
TEST(a_part_of_each_head_is_turned)
{
    static const char *const texts[] = {
        "{\"partial_rotary_factor\": 0.5}",
        "{\"partial_rotary_factor\": 1, \"rope_parameters\": {\"partial_rotary_factor\": 0.5}}"};
    for (int i = 0; i < 2; i++) {
        OWNED(rotary) r = {0};
        assert_ok(read_from(&usual, texts[i], &r));
        assert_int_equal(r.turned, 4);
        assert_same(r.frequency, (double[]){1.0, 0.01}, 2);
    }
    rotary r = {0};
    assert_ok(read_from(&usual, "{\"partial_rotary_factor\": 0.4}", &r)); /* size 3, two pairs */
    assert_int_equal(r.turned, 4);
    assert_same(r.frequency, (double[]){1.0, pow(1e4, -2.0 / 3.0)}, 2);
    rotary_fini(&r);
}

/* theta 10000, 64 positions, factor 4: 32 turns are made by pair 8 ln(64 / (32 2 pi)) / (2 ln
 * theta) = -0.5, one by 1.008; so the ramp runs from pair 0 to 2, and pair 1 is blended half and
 * half: 0.1 (0.5 / 4 + 0.5). Without truncation it runs from 0 to 1.00805. */
TEST(yarn_slows_long_waves)
{
    rotary r = {0};
    assert_ok(read_from(&usual,
                        "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4,"
                        " \"original_max_position_embeddings\": 64}}",
                        &r));
    assert_same(r.frequency, (double[]){1.0, 0.0625, 0.0025, 0.00025}, COUNT);
    assert_near(r.factor, 0.1 * log(4.0) + 1.0, 1e-12);
    rotary_fini(&r);
    /* 256 positions are 4 times 64; mscale */
    assert_ok(read_from(&usual,
                        "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": null,"
                        " \"original_max_position_embeddings\": 64, \"truncate\": false,"
                        " \"mscale\": 2, \"mscale_all_dim\": 0.5}}",
                        &r));
    const double slowed = 1.0 / (8.0 * log(64.0 / 6.283185307179586) / (2.0 * log(1e4)));
    assert_same(r.frequency, (double[]){1.0, 0.1 * (slowed / 4.0 + 1.0 - slowed), 0.0025, 0.00025},
                COUNT);
    assert_near(r.factor, (0.2 * log(4.0) + 1.0) / (0.05 * log(4.0) + 1.0), 1e-12);
    rotary_fini(&r);
}

TEST(longrope_has_a_list_for_short_and_one_for_long_texts)
{
    static const char *const texts[] = {
        "{\"original_max_position_embeddings\": 64, \"rope_scaling\": {\"type\": \"su\","
        " \"short_factor\": [1, 2, 4, 8], \"long_factor\": [2, 2, 2, 5]}}",
        "{\"rope_parameters\": {\"rope_type\": \"longrope\", \"factor\": 4,"
        " \"original_max_position_embeddings\": 64, \"short_factor\": [1, 2, 4, 8],"
        " \"long_factor\": [2, 2, 2, 5]}}"};
    for (int i = 0; i < 2; i++) {
        OWNED(rotary) r = {0};
        assert_ok(read_from(&usual, texts[i], &r));
        assert_same(r.frequency, (double[]){1.0, 0.05, 0.0025, 0.000125}, COUNT);
        assert_same(r.long_frequency, (double[]){0.5, 0.05, 0.005, 0.0002}, COUNT);
        assert_int_equal(r.longest, 64);
        assert_near(r.factor, sqrt(1.0 + log(4.0) / log(64.0)), 1e-12);
    }
}

/* It scales in texts longer than max_position_embeddings alone. */
TEST(dynamic_scaling_keeps_them)
{
    assert_frequencies("{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4}}",
                       (double[]){1.0, 0.1, 0.01, 0.001});
}

TEST(types_of_layers_have_parameters_of_their_own)
{
    static const char nested[] = "{\"rope_parameters\": {\"a\": {\"rope_theta\": 16},"
                                 " \"b\": {\"rope_theta\": 81}}}";
    static const char flat[] = "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2},"
                               " \"rope_theta\": 16, \"own_theta\": 81}";
    rotary_source from = usual;
    rotary r = {0};
    from.layer_type = "b";
    assert_ok(read_from(&from, nested, &r));
    assert_same(r.frequency, (double[]){1.0, 1.0 / 3.0, 1.0 / 9.0, 1.0 / 27.0}, COUNT);
    rotary_fini(&r);
    assert_ok(read_from(&from, flat, &r));
    assert_same(r.frequency, (double[]){0.5, 0.25, 0.125, 0.0625}, COUNT);
    rotary_fini(&r);
    from.theta_key = "own_theta";
    from.unscaled = true;
    assert_ok(read_from(&from, flat, &r));
    assert_same(r.frequency, (double[]){1.0, 1.0 / 3.0, 1.0 / 9.0, 1.0 / 27.0}, COUNT);
    rotary_fini(&r);
}

TEST(they_are_those_of_single_precision)
{
    OWNED(rotary) r = {0};
    assert_ok(read_from(&usual, "{}", &r));
    for (int k = 0; k < COUNT; k++) {
        assert_true(r.frequency[k] == (double)(float)r.frequency[k]);
    }
}

#define SCALING(members) "{\"rope_scaling\": {" members "}}"

TEST(what_is_not_supported_is_named)
{
    static const struct {
        const char *config;
        grail_status status;
        const char *text;
    } bad[] = {
        {SCALING("\"type\": \"mrope\""), GRAIL_ERROR_UNSUPPORTED,
         "rotary scaling \"mrope\" is not supported; the supported types are default, linear, "
         "dynamic, llama3, yarn, longrope, su"},
        {SCALING("\"type\": \"linear\", \"factor\": 0"), GRAIL_ERROR_FORMAT,
         "the rotary scaling factor is 0; it must be above 0"},
        {SCALING("\"rope_type\": \"llama3\", \"low_freq_factor\": 4.0"), GRAIL_ERROR_FORMAT,
         "all must be above 0, and high_freq_factor above low_freq_factor"},
        {SCALING("\"type\": \"yarn\", \"factor\": -1"), GRAIL_ERROR_FORMAT,
         "has original_max_position_embeddings 256 and factor -1; expected 2 to"},
        {SCALING("\"type\": \"yarn\", \"original_max_position_embeddings\": 1e300"),
         GRAIL_ERROR_FORMAT, "has original_max_position_embeddings 1e+300"},
        {SCALING("\"type\": \"yarn\", \"beta_slow\": 33"), GRAIL_ERROR_FORMAT,
         "has beta_fast 32 and beta_slow 33"},
        {SCALING("\"type\": \"yarn\", \"attention_factor\": 0"), GRAIL_ERROR_FORMAT,
         "has attention_factor 0; it must be above 0"},
        {SCALING("\"type\": \"longrope\", \"long_factor\": [1, 2, 4]"), GRAIL_ERROR_FORMAT,
         "\"long_factor\" of the rotary scaling has 3 numbers, expected one for each of the 4 "
         "pairs"},
        {SCALING("\"type\": \"longrope\", \"long_factor\": [1, 2, 4, \"8\"]"), GRAIL_ERROR_FORMAT,
         "\"long_factor\" of the rotary scaling has 0 at 3"},
        {SCALING("\"type\": \"longrope\", \"long_factor\": [1, 2, 4, 8]"), GRAIL_ERROR_FORMAT,
         "\"short_factor\" of the rotary scaling has 0 numbers"},
        {SCALING("\"type\": 7"), GRAIL_ERROR_FORMAT, "\"type\" is not a string"},
        {"{\"rope_theta\": 0}", GRAIL_ERROR_FORMAT, "rope_theta is 0 and"},
        {"{\"rope_theta\": \"x\"}", GRAIL_ERROR_FORMAT, "\"rope_theta\" is not a number"},
        {"{\"partial_rotary_factor\": 1.5}", GRAIL_ERROR_FORMAT,
         "and partial_rotary_factor is 1.5; rope_theta must be above 0, and partial_rotary_factor "
         "above 0 and at most 1"},
        {"{\"partial_rotary_factor\": 0.01}", GRAIL_ERROR_FORMAT,
         "0.01 of head_dim 8 are turned by rotary positions, which need an even number"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(frequencies(bad[i].config), bad[i].status, bad[i].text);
    }
    rotary_source odd = usual;
    rotary r = {0};
    odd.head_dim = 7;
    assert_fails(read_from(&odd, "{}", &r), GRAIL_ERROR_FORMAT,
                 "1 of head_dim 7 are turned by rotary positions, which need an even number");
}
