/* Text and numbers in markup: escaped, shortened, in every locale, and what happens when it fails.
 */
#include "support/support.h"

#include "study/page/markup.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*append)(markup *m);

static void assert_appends(append body, const char *expected)
{
    markup m;
    markup_init(&m, 1 << 20);
    body(&m);
    assert_ok(markup_status(&m));
    assert_string_equal((const char *)m.bytes.bytes, expected);
    markup_fini(&m);
}

static void append_special(markup *m)
{
    markup_text(m, "a<b>&\"c'\td\n");
}

static void special_characters_become_entities(void **state)
{
    (void)state;
    assert_appends(append_special, "a&lt;b&gt;&amp;&quot;c&#39;\td\n");
}

static void append_controls(markup *m)
{
    markup_text(m, "a\x01\x7F\xEF\xBF\xBE\xE2\x80\xAE\xE2\x81\xA6z\xE2\x80\xA6");
    markup_text(m, "\xC2\x9B\xC2\xA0\xE2\x80\xA7\xE2\x80\xA8");
}

static void characters_that_do_harm_are_replaced(void **state)
{
    (void)state;
    assert_appends(append_controls, "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz"
                                    "\xE2\x80\xA6\xEF\xBF\xBD\xC2\xA0\xE2\x80\xA7\xEF\xBF\xBD");
}

static void append_shortened(markup *m)
{
    markup_raw(m, start_of("<\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 3).text);
    markup_raw(m, "|");
    markup_raw(m, start_of("abc", 3).text);
    markup_raw(m, "|");
    markup_part(m, "<\xC3\xA9>", 3);
}

static void long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    assert_appends(append_shortened, "&lt;\xC3\xA9\xE2\x80\xA6|abc|&lt;\xC3\xA9");
}

/* Each of the most characters at its longest, six bytes, and a text that ends within a character.
 */
static void starts_have_room_for_the_longest_text(void **state)
{
    (void)state;
    char quotes[MOST_START + 2];
    memset(quotes, '"', sizeof quotes);
    quotes[MOST_START + 1] = 0;
    assert_int_equal(strlen(start_of(quotes, MOST_START).text), 6 * (MOST_START - 1) + 3);
    assert_int_equal(strlen(start_of(quotes + 1, MOST_START).text), 6 * MOST_START);
    memset(quotes, 0x80, sizeof quotes - 1); /* no character begins */
    memcpy(quotes, "\"\"\"", 3);
    assert_int_equal(strlen(start_of(quotes, 4).text), 3 * 6 + MOST_START + 1 - 3);
    assert_string_equal(start_of("a\xE2", 3).text, "a\xE2");
    assert_string_equal(start_of("", 3).text, "");
}

static void append_numbers(markup *m)
{
    const double numbers[] = {0.0, -0.04, 12.345, -12.35, 999.96, 1e11, 2.5e15, NAN, INFINITY};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        markup_raw(m, number_text(numbers[i], 1).text);
        markup_raw(m, " ");
    }
    markup_raw(m, number_text(7.6, 0).text);
    markup_raw(m, " ");
    markup_raw(m, number_text(0.00012, 4).text);
}

static const char expected_numbers[] = "0.0 0.0 12.3 -12.4 1000.0 100000000000.0 2.5e15 "
                                       "\xE2\x80\x93 \xE2\x80\x93 8 0.0001";

static void numbers_have_the_decimals_asked_for(void **state)
{
    (void)state;
    assert_appends(append_numbers, expected_numbers);
}

/* A German locale of our own making, as machines that build software rarely have one installed. */
static bool use_decimal_comma(const char *directory)
{
    char *command = NULL;
    assert_ok(memory_format(&command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >'%s/log' 2>&1",
                            directory, directory));
    const bool made = system(command) == 0 && setenv("LOCPATH", directory, 1) == 0;
    memory_free(command);
    return made && setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

static void the_decimal_mark_is_a_point_in_every_locale(void **state)
{
    (void)state;
    char *directory = support_temporary_directory();
    const bool comma = use_decimal_comma(directory);
    if (comma) {
        char text[16];
        snprintf(text, sizeof text, "%.1f", 0.5);
        assert_string_equal(text, "0,5");
        assert_appends(append_numbers, expected_numbers);
        setlocale(LC_ALL, "C");
    }
    support_remove_tree(directory);
    memory_free(directory);
    if (!comma) {
        print_message("no locale with a decimal comma can be made\n");
        skip();
    }
}

static void append_measures(markup *m)
{
    markup_raw(m, percent_text(0.8604).text);
    markup_raw(m, " ");
    markup_raw(m, ratio_text(0.3).text);
    markup_raw(m, " ");
    markup_raw(m, ratio_text(0.125).text);
    markup_raw(m, " ");
    markup_raw(m, scaled_text(11173962.0, "").text);
    markup_raw(m, " ");
    markup_raw(m, scaled_text(999.6, "B").text);
    markup_raw(m, " ");
    markup_raw(m, scaled_text(12.0, "").text);
}

static void measures_are_scaled(void **state)
{
    (void)state;
    assert_appends(append_measures, "86.0 30 12.5 11.2\xC2\xA0M 1.00\xC2\xA0kB 12");
}

static void append_times(markup *m)
{
    const double times[] = {0.0,    8.5e-7, 0.0004567, 0.012345, 0.9996, 4.561,
                            123.45, 599.9,  3661.0,    90000.0,  NAN};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        markup_raw(m, i > 0 ? ", " : "");
        markup_raw(m, seconds_text(times[i]).text);
    }
}

static void times_have_units_that_fit(void **state)
{
    (void)state;
    assert_appends(append_times,
                   "0\xC2\xA0s, 0.85\xC2\xA0\xC2\xB5s, 457\xC2\xA0\xC2\xB5s, 12.3\xC2\xA0ms, "
                   "1.00\xC2\xA0s, 4.56\xC2\xA0s, 123\xC2\xA0s, 10.0\xC2\xA0min, "
                   "61.0\xC2\xA0min, 25.0\xC2\xA0h, \xE2\x80\x93");
}

static void the_first_failure_is_kept(void **state)
{
    (void)state;
    markup m;
    markup_init(&m, 8);
    markup_raw(&m, "12345");
    markup_raw(&m, "67890");
    markup_raw(&m, "6");
    assert_fails(markup_status(&m), GRAIL_ERROR_FORMAT, "more than the allowed 8 bytes");
    assert_string_equal((const char *)m.bytes.bytes, "12345");
    markup whole;
    markup_init(&whole, 100);
    markup_append(&whole, &m);
    assert_int_equal(whole.status, GRAIL_ERROR_FORMAT);
    markup_fini(&m);
    markup_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_characters_become_entities),
        cmocka_unit_test(characters_that_do_harm_are_replaced),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(starts_have_room_for_the_longest_text),
        cmocka_unit_test(numbers_have_the_decimals_asked_for),
        cmocka_unit_test(the_decimal_mark_is_a_point_in_every_locale),
        cmocka_unit_test(measures_are_scaled),
        cmocka_unit_test(times_have_units_that_fit),
        cmocka_unit_test(the_first_failure_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
