/* Names of sites that fit beside a plot and can still be told apart. */
#include "support/support.h"

#include "study/page/short_names.h"

#include "base/utf8.h"

#include <string.h>

#define DOTS "\xE2\x80\xA6"

static void assert_shortened(const char *const *names, int count, size_t most,
                             const char *const *expected)
{
    short_names s = {0};
    assert_ok(short_names_make(names, count, most, &s));
    for (int i = 0; i < count; i++) {
        assert_string_equal(s.names[i], expected[i]);
    }
    short_names_fini(&s);
}

static void the_common_beginning_is_left_out(void **state)
{
    (void)state;
    static const char *const names[] = {"model.layers.0.mlp.down_proj", "model.layers.0.o_proj",
                                        "model.layers.11.mlp.down_proj"};
    static const char *const expected[] = {"0.mlp.down_proj", "0.o_proj", "11.mlp.down_proj"};
    short_names s = {0};
    assert_shortened(names, 3, 19, expected);
    assert_ok(short_names_make(names, 3, 19, &s));
    assert_int_equal(s.dropped, strlen("model.layers."));
    short_names_fini(&s);
}

/* The ends of both kinds of names are equal for 19 characters. */
static void names_that_end_alike_stay_distinct(void **state)
{
    (void)state;
    static const char *const names[] = {
        "vit.encoder.layer.0.attention.output.dense", "vit.encoder.layer.0.output.dense",
        "vit.encoder.layer.1.attention.output.dense", "vit.encoder.layer.1.output.dense"};
    static const char *const expected[] = {"0.attenti" DOTS "put.dense", "0.output.dense",
                                           "1.attenti" DOTS "put.dense", "1.output.dense"};
    assert_shortened(names, 4, 19, expected);
}

/* They differ in a place that the middle would leave out. */
static void the_cut_moves_to_where_names_are_equal(void **state)
{
    (void)state;
    static const char *const names[] = {"abcdefgh1ijklmnopqrst", "abcdefgh2ijklmnopqrst"};
    static const char *const expected[] = {"abcdefgh1" DOTS "t", "abcdefgh2" DOTS "t"};
    short_names s = {0};
    assert_ok(short_names_make(names, 2, 11, &s));
    assert_true(strcmp(s.names[0], s.names[1]) != 0);
    short_names_fini(&s);
    assert_shortened(names, 2, 11, expected);
}

static void names_without_a_common_place_are_numbered(void **state)
{
    (void)state;
    static const char *const names[] = {"1aaaaaaaaaaaaaaaaaaaaaaaaa", "2aaaaaaaaaaaaaaaaaaaaaaaaa",
                                        "aaaaaaaaaaaaa1aaaaaaaaaaaa", "aaaaaaaaaaaaa2aaaaaaaaaaaa"};
    short_names s = {0};
    assert_ok(short_names_make(names, 4, 12, &s));
    assert_string_equal(s.names[0], "1" DOTS "aaaaaa");
    assert_string_equal(s.names[3], "4" DOTS "aaaaaa");
    short_names_fini(&s);
}

static void characters_stay_whole(void **state)
{
    (void)state;
    static const char *const names[] = {"\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"};
    for (size_t most = 8; most < 16; most++) {
        short_names s = {0};
        assert_ok(short_names_make(names, 1, most, &s));
        assert_int_equal(utf8_valid_prefix(s.names[0], strlen(s.names[0])), strlen(s.names[0]));
        short_names_fini(&s);
    }
}

static void single_equal_and_no_names_are_kept(void **state)
{
    (void)state;
    static const char *const same[] = {"a.b", "a.b"};
    static const char *const single[] = {"a.b.c"};
    static const char *const expected[] = {"b", "b"};
    short_names s = {0};
    assert_shortened(same, 2, 19, expected);
    assert_shortened(single, 1, 19, single);
    assert_ok(short_names_make(NULL, 0, 19, &s));
    assert_int_equal(s.count, 0);
    short_names_fini(&s);
}

static grail_status shorten(void *context)
{
    short_names s = {0};
    const grail_status status = short_names_make(context, 2, 11, &s);
    short_names_fini(&s);
    return status;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    const char *names[] = {"abcdefgh1ijklmnopqrst", "abcdefgh2ijklmnopqrst"};
    support_fail_each_allocation(shorten, names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_common_beginning_is_left_out),
        cmocka_unit_test(names_that_end_alike_stay_distinct),
        cmocka_unit_test(the_cut_moves_to_where_names_are_equal),
        cmocka_unit_test(names_without_a_common_place_are_numbered),
        cmocka_unit_test(characters_stay_whole),
        cmocka_unit_test(single_equal_and_no_names_are_kept),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
