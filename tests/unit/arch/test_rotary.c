/* Rotary frequencies: plain, linear and llama3 scaling in both spellings, and what is refused. */
#include "config.h"

#include <math.h>
#include <string.h>

enum { DIM = 8, COUNT = DIM / 2 };

static grail_status frequencies(const char *text, double *out)
{
    json_t *config = NULL;
    assert_ok(json_parse("config.json", text, strlen(text), &config));
    const grail_status status = rotary_frequencies("config.json", config, DIM, out);
    json_decref(config);
    return status;
}

static void assert_frequencies(const char *text, const double expected[COUNT])
{
    double found[COUNT];
    assert_ok(frequencies(text, found));
    for (int k = 0; k < COUNT; k++) {
        assert_near(found[k] / expected[k], 1.0, 1e-6);
    }
}

static void frequencies_fall_by_powers_of_theta(void **state)
{
    (void)state;
    assert_frequencies("{}", (double[]){1.0, 0.1, 0.01, 0.001}); /* 10000^(-2k/8) */
    assert_frequencies("{\"rope_theta\": 16}", (double[]){1.0, 0.5, 0.25, 0.125});
    assert_frequencies("{\"rope_theta\": 16.0, \"rope_scaling\": null}",
                       (double[]){1.0, 0.5, 0.25, 0.125});
    assert_frequencies("{\"rope_theta\": 7, \"rope_parameters\": {\"rope_theta\": 16}}",
                       (double[]){1.0, 0.5, 0.25, 0.125});
    assert_frequencies("{\"rope_theta\": 16, \"rope_parameters\": {\"rope_type\": \"default\"}}",
                       (double[]){1.0, 0.5, 0.25, 0.125});
}

static void linear_scaling_divides_them(void **state)
{
    (void)state;
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
static void llama3_scaling_slows_long_waves_and_blends_between(void **state)
{
    (void)state;
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

static void they_are_those_of_single_precision(void **state)
{
    (void)state;
    double found[COUNT];
    assert_ok(frequencies("{}", found));
    for (int k = 0; k < COUNT; k++) {
        assert_true(found[k] == (double)(float)found[k]);
    }
}

static void what_is_not_supported_is_named(void **state)
{
    (void)state;
    double found[COUNT];
    assert_fails(frequencies("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}", found),
                 GRAIL_ERROR_UNSUPPORTED,
                 "rotary scaling \"yarn\" is not supported; the supported types are default, "
                 "linear and llama3");
    assert_fails(frequencies("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}", found),
                 GRAIL_ERROR_FORMAT, "the rotary scaling factor is 0; it must be above 0");
    assert_fails(frequencies("{\"rope_scaling\": {\"rope_type\": \"llama3\","
                             " \"low_freq_factor\": 4.0}}",
                             found),
                 GRAIL_ERROR_FORMAT,
                 "all must be above 0, and high_freq_factor above low_freq_factor");
    assert_fails(frequencies("{\"rope_theta\": 0}", found), GRAIL_ERROR_UNSUPPORTED,
                 "rope_theta is 0 and");
    assert_fails(
        frequencies("{\"partial_rotary_factor\": 0.5}", found), GRAIL_ERROR_UNSUPPORTED,
        "and partial_rotary_factor is 0.5; rope_theta must be above 0 and partial_rotary_factor 1");
    assert_fails(frequencies("{\"rope_parameters\": {\"partial_rotary_factor\": 0.25}}", found),
                 GRAIL_ERROR_UNSUPPORTED,
                 "and partial_rotary_factor is 0.25; rope_theta must be above 0 and "
                 "partial_rotary_factor 1");
    assert_fails(frequencies("{\"rope_theta\": \"x\"}", found), GRAIL_ERROR_FORMAT,
                 "\"rope_theta\" is not a number");
    assert_fails(frequencies("{\"rope_scaling\": {\"type\": 7}}", found), GRAIL_ERROR_FORMAT,
                 "\"type\" is not a string");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_fall_by_powers_of_theta),
        cmocka_unit_test(linear_scaling_divides_them),
        cmocka_unit_test(llama3_scaling_slows_long_waves_and_blends_between),
        cmocka_unit_test(they_are_those_of_single_precision),
        cmocka_unit_test(what_is_not_supported_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
