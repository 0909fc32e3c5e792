/* Fields by their descriptions: what texts, structs and documents may say, and what they become. */
#include "base/options.h"
#include "support/support.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const sizes[] = {"small", "large", NULL};

typedef struct owner {
    int flag;
    bool small_flag;
    int choice;
    int integer;
    int64_t long_integer;
    int64_t bytes;
    uint64_t seed;
    double real;
    double sparsity;
    double seconds;
    grail_number number;
    grail_colour colour;
    const char *text;
    const char *word;
} owner;

/* clang-format off */
#define FIELD(member) OPTION_FIELD(owner, member), .key = #member, .name = #member
static const grail_option fields[] = {
    {FIELD(flag), .type = GRAIL_OPTION_FLAG, .decides = 1},
    {FIELD(small_flag), .type = GRAIL_OPTION_FLAG},
    {FIELD(choice), .type = GRAIL_OPTION_CHOICE, .what = "choice", .words = sizes, .usual = "large"},
    {FIELD(integer), .type = GRAIL_OPTION_INTEGER, .what = "the integer", .least = 2.0,
     .below = 10.0, .usual = "3"},
    {FIELD(long_integer), .type = GRAIL_OPTION_INTEGER, .what = "the long integer",
     .zero_is_usual = 1, .words = OPTION_WORDS("auto", "8")},
    {FIELD(bytes), .type = GRAIL_OPTION_SIZE, .what = "the size", .zero_is_usual = 1},
    {FIELD(seed), .type = GRAIL_OPTION_SEED},
    {FIELD(real), .type = GRAIL_OPTION_REAL, .what = "the real", .below = 1.0, .zero_is_usual = 1},
    {FIELD(sparsity), .type = GRAIL_OPTION_SPARSITY, .what = "sparsity", .below = 1.0},
    {FIELD(seconds), .type = GRAIL_OPTION_SECONDS, .what = "the time", .zero_is_usual = 1},
    {FIELD(number), .type = GRAIL_OPTION_NUMBER, .what = "the number", .words = OPTION_WORDS("cv")},
    {FIELD(colour), .type = GRAIL_OPTION_COLOUR},
    {FIELD(text), .type = GRAIL_OPTION_TEXT, .what = "text"},
    {FIELD(word), .type = GRAIL_OPTION_WORD, .what = "word", .words = sizes, .usual = "small"},
    {0},
};
/* clang-format on */

static const grail_option *field_at(int i)
{
    return fields[i].field == NULL ? NULL : &fields[i];
}

static const grail_option *field(const char *name)
{
    const grail_option *found = grail_option_find(field_at, name);
    assert_non_null(found);
    return found;
}

static owner usual(void)
{
    owner o = {0};
    options_init(fields, &o);
    return o;
}

TEST(defaults)
{
    const owner o = usual();
    assert_int_equal(o.choice, 1);
    assert_int_equal(o.integer, 3);
    assert_int_equal(o.long_integer, 0);
    assert_int_equal(o.number.choice, GRAIL_NUMBER_USUAL);
    assert_int_equal(o.colour.given, 0);
    assert_null(o.text);
    assert_string_equal(o.word, "small");
    assert_ok(options_check(fields, &o));
    assert_null(grail_option_find(field_at, "no such field"));
}

/* -- texts ------------------------------------------------------------------------------------- */

static owner set(const char *name, const char *text)
{
    owner o = usual();
    assert_ok(grail_option_set(field(name), &o, text));
    assert_ok(options_check(fields, &o));
    return o;
}

TEST(texts_that_are_taken)
{
    assert_int_equal(set("flag", "").flag, 1);
    assert_true(set("small_flag", "").small_flag);
    assert_int_equal(set("choice", "small").choice, 0);
    assert_int_equal(set("integer", "9").integer, 9);
    assert_int_equal(set("long_integer", "auto").long_integer, 0);
    assert_true(set("long_integer", "9223372036854775807").long_integer == INT64_MAX);
    assert_true(set("bytes", "3K").bytes == 3 << 10);
    assert_true(set("bytes", "500M").bytes == (int64_t)500 << 20);
    assert_true(set("bytes", "8589934591G").bytes == (int64_t)8589934591 << 30);
    assert_true(set("seed", "0").seed == 0);
    assert_true(set("real", "1e-300").real == 1e-300);
    assert_true(set("sparsity", "0").sparsity == 0.0);
    assert_true(set("seconds", "1.5m").seconds == 90.0);
    assert_true(set("seconds", "2h").seconds == 7200.0);
    assert_true(set("seconds", "7").seconds == 7.0);
    assert_int_equal(set("number", "cv").number.choice, GRAIL_NUMBER_CROSS_VALIDATED);
    assert_int_equal(set("number", "0").number.choice, GRAIL_NUMBER_GIVEN);
    assert_int_equal(set("colour", "0,1e-3,-2").colour.given, 1);
    assert_true(set("colour", "0,1e-3,-2").colour.values[1] == 1e-3);
    assert_true(set("colour", "0,1e-3,-2").colour.values[2] == -2.0);
    assert_string_equal(set("text", "anything").text, "anything");
}

TEST(texts_that_are_refused)
{
    static const char *const bad[][2] = {
        {"choice", "Small"},
        {"choice", ""},
        {"integer", "1"},
        {"integer", "10"},
        {"integer", "4294967299"}, /* 3 in 32 bits */
        {"integer", "3.0"},
        {"integer", "3 "},
        {"integer", ""},
        {"integer", "nan"},
        {"long_integer", "0"}, /* auto says that */
        {"long_integer", "-1"},
        {"long_integer", "8K"},
        {"long_integer", "9223372036854775808"},
        {"bytes", "0"},
        {"bytes", "1T"},
        {"bytes", "1MB"},
        {"bytes", "K"},
        {"bytes", "8589934592G"}, /* 2^63 */
        {"seed", "-1"},
        {"seed", "99999999999999999999"},
        {"real", "0"},
        {"real", "1"},
        {"real", "nan"},
        {"real", "inf"},
        {"real", "1e-9x"},
        {"sparsity", "-0.1"},
        {"sparsity", "1"},
        {"sparsity", "nan"},
        {"seconds", "0"},
        {"seconds", "-1h"},
        {"seconds", "inf"},
        {"seconds", "1e999"},
        {"seconds", "1d"},
        {"seconds", "1e308h"}, /* overflows in seconds */
        {"seconds", "h"},
        {"number", "CV"},
        {"number", "-1"},
        {"number", "1e999"},
        {"number", ""},
        {"colour", "1,2"},
        {"colour", "1,2,3,4"},
        {"colour", "1,,3"},
        {"colour", "a,b,c"},
        {"colour", ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const owner before = usual();
        owner o = before;
        char expected[200];
        char said[400];
        grail_option_expected(field(bad[i][0]), expected, sizeof expected);
        snprintf(said, sizeof said, "%s takes %s, not '%s'", bad[i][0], expected, bad[i][1]);
        assert_fails(grail_option_set(field(bad[i][0]), &o, bad[i][1]), GRAIL_ERROR_ARGUMENT, said);
        assert_string_equal(grail_error_fields(), bad[i][0]);
        assert_memory_equal(&o, &before, sizeof o);
    }
}

TEST(what_is_expected)
{
    static const char *const expected[][2] = {
        {"choice", "small or large"},
        {"integer", "an integer from 2 to 9"},
        {"long_integer", "auto or an integer of at least 1"},
        {"bytes", "a number of bytes above 0, such as 500M"},
        {"seed", "an integer of at least 0"},
        {"real", "a number above 0 and below 1"},
        {"sparsity", "a number of at least 0 and below 1"},
        {"seconds", "a time above 0, such as 90s, 10m or 2h"},
        {"number", "cv or a number of at least 0"},
        {"colour", "three numbers separated by commas"},
        {"word", "small or large"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char text[200];
        char small[8];
        grail_option_expected(field(expected[i][0]), text, sizeof text);
        assert_string_equal(text, expected[i][1]);
        grail_option_expected(field(expected[i][0]), small, sizeof small);
        assert_memory_equal(small, text, sizeof small - 1);
        assert_int_equal(small[sizeof small - 1], 0);
    }
}

/* -- values ------------------------------------------------------------------------------------ */

#define assert_out_of_range(member, value, said)                                                   \
    do {                                                                                           \
        owner o = usual();                                                                         \
        o.member = value;                                                                          \
        assert_fails(options_check(fields, &o), GRAIL_ERROR_ARGUMENT, said);                       \
        assert_string_equal(grail_error_fields(), #member);                                        \
    } while (0)

TEST(values_out_of_range)
{
    static const grail_number no_choice = {(grail_number_choice)3, 0.0};
    static const grail_number unused = {GRAIL_NUMBER_USUAL, 0.5};
    static const grail_number infinite = {GRAIL_NUMBER_GIVEN, (double)INFINITY};
    assert_out_of_range(flag, 2, "flag is 2, expected 0 or 1");
    assert_out_of_range(flag, INT_MIN, "expected 0 or 1");
    assert_out_of_range(choice, -1, "choice is -1, expected 0 or 1");
    assert_out_of_range(choice, 2, "expected 0 or 1");
    assert_out_of_range(integer, 1, "the integer is 1, expected 2 to 9");
    assert_out_of_range(integer, 10, "the integer is 10, expected 2 to 9");
    assert_out_of_range(long_integer, -1, "the long integer is -1, expected 0 or more");
    assert_out_of_range(bytes, INT64_MIN, "expected 0 or more");
    assert_out_of_range(real, 1.0, "the real is 1, expected above 0 and below 1");
    assert_out_of_range(real, (double)NAN, "the real is nan");
    assert_out_of_range(sparsity, (double)NAN, "sparsity nan is outside [0, 1)");
    assert_out_of_range(sparsity, 30.0, "such as 0.3 for 30 %");
    assert_out_of_range(seconds, (double)INFINITY, "the time is inf, expected 0 or more");
    assert_out_of_range(number, no_choice, "the choice of the number is 3, expected 0 to 2");
    assert_out_of_range(number, unused, "is not used; choose GRAIL_NUMBER_GIVEN");
    assert_out_of_range(number, infinite, "the number is inf, expected 0 or more");
    assert_out_of_range(word, "smal", "unknown word 'smal'; expected one of small, large");
    assert_out_of_range(word, NULL, "no word was given");
}

/* -- documents --------------------------------------------------------------------------------- */

static void assert_round_trip(const owner *o)
{
    owner again = {0};
    OWNED(json_t) *object = json_object();
    assert_ok(options_to_json(fields, o, object));
    assert_ok(options_from_json("d", object, fields, &again));
    assert_int_equal(again.flag, o->flag);
    assert_int_equal(again.small_flag, o->small_flag);
    assert_int_equal(again.choice, o->choice);
    assert_int_equal(again.integer, o->integer);
    assert_true(again.long_integer == o->long_integer && again.bytes == o->bytes);
    assert_true(again.seed == o->seed && again.real == o->real && again.sparsity == o->sparsity &&
                again.seconds == o->seconds);
    assert_int_equal(again.number.choice, o->number.choice);
    assert_true(again.number.value == o->number.value);
    assert_memory_equal(&again.colour, &o->colour, sizeof o->colour);
    assert_string_equal(again.word, o->word);
}

TEST(documents_keep_values)
{
    owner o = usual();
    assert_round_trip(&o);
    o = (owner){.flag = 1,
                .small_flag = true,
                .integer = 9,
                .long_integer = INT64_MAX,
                .bytes = 1,
                .seed = UINT64_MAX,
                .real = 0.1,
                .sparsity = 1.0 - 0x1p-53,
                .seconds = 5e-324,
                .number = {.choice = GRAIL_NUMBER_CROSS_VALIDATED},
                .colour = {1, {0.1, -1e300, 0.0}},
                .word = "large"};
    assert_round_trip(&o);
    o.number = (grail_number){GRAIL_NUMBER_GIVEN, 0.0};
    assert_round_trip(&o);
}

static void read_json(const char *text, grail_status expected, const char *said)
{
    static const char *const no_more[] = {"other", NULL};
    owner o = usual();
    OPENED(json_t, object, json_parse("d", text, strlen(text), &object));
    grail_status status = options_check_keys("d", object, fields, no_more);
    status = status == GRAIL_OK ? options_from_json("d", object, fields, &o) : status;
    if (expected == GRAIL_OK) {
        assert_ok(status);
        assert_ok(options_check(fields, &o));
    } else {
        assert_fails(status, expected, said);
        assert_int_equal(strncmp(grail_error_message(), "d: ", 3), 0);
    }
}

TEST(documents_are_checked)
{
    read_json("{}", GRAIL_OK, "");
    read_json("{\"integer\": null, \"other\": 1, \"number\": 0}", GRAIL_OK, "");
    read_json("{\"intger\": 3}", GRAIL_ERROR_FORMAT, "intger");
    read_json("{\"integer\": 10}", GRAIL_ERROR_FORMAT, "d: \"integer\" is 10, expected 2 to 9");
    read_json("{\"integer\": 4294967299}", GRAIL_ERROR_FORMAT, "expected 2 to 9");
    read_json("{\"integer\": 3.5}", GRAIL_ERROR_FORMAT, "integer");
    read_json("{\"integer\": \"3\"}", GRAIL_ERROR_FORMAT, "integer");
    read_json("{\"flag\": 1}", GRAIL_ERROR_FORMAT, "flag");
    read_json("{\"real\": 1.5}", GRAIL_ERROR_FORMAT,
              "\"real\" is 1.5, expected above 0 and below 1");
    read_json("{\"sparsity\": 1}", GRAIL_ERROR_FORMAT, "\"sparsity\" is 1, expected 0 to below 1");
    read_json("{\"seconds\": -1}", GRAIL_ERROR_FORMAT, "\"seconds\" is -1, expected 0 or more");
    read_json("{\"number\": -1}", GRAIL_ERROR_FORMAT, "cross-validation");
    read_json("{\"number\": \"cv\"}", GRAIL_ERROR_FORMAT, "number");
    read_json("{\"colour\": [1, 2]}", GRAIL_ERROR_FORMAT,
              "d: \"colour\" is not an array of three numbers");
    read_json("{\"colour\": [1, 2, \"3\"]}", GRAIL_ERROR_FORMAT, "colour");
    read_json("{\"word\": \"lrge\"}", GRAIL_ERROR_FORMAT,
              "d: \"word\" is \"lrge\", expected one of small, large; did you mean 'large'?");
    read_json("{\"choice\": 1}", GRAIL_ERROR_FORMAT, "choice");
}

TEST(only_what_decides_is_recorded)
{
    const owner o = usual();
    OWNED(json_t) *object = json_object();
    assert_ok(options_record(fields, &o, object));
    assert_int_equal(json_object_size(object), 1);
    assert_true(json_is_false(json_object_get(object, "flag")));
}

/* -- from one struct to another ---------------------------------------------------------------- */

TEST(words_become_choices_and_back)
{
    static const grail_option words[] = {
        {OPTION_FIELD(owner, word), .type = GRAIL_OPTION_WORD, .words = sizes, .key = "size"},
        {OPTION_FIELD(owner, number), .type = GRAIL_OPTION_NUMBER, .key = "number"},
        {OPTION_FIELD(owner, flag), .type = GRAIL_OPTION_FLAG, .key = "alone"},
        {0},
    };
    static const grail_option choices[] = {
        {OPTION_FIELD(owner, choice), .type = GRAIL_OPTION_CHOICE, .words = sizes, .key = "size"},
        {OPTION_FIELD(owner, number), .type = GRAIL_OPTION_NUMBER, .key = "number"},
        {0},
    };
    owner to = {.number = {GRAIL_NUMBER_GIVEN, 2.0}};
    owner from = {.flag = 1, .word = "large"};
    assert_ok(options_transfer(words, &from, choices, &to));
    assert_int_equal(to.choice, 1);
    assert_int_equal(to.flag, 0);
    assert_true(to.number.value == 2.0); /* the usual one leaves what is there */
    from.word = NULL;
    assert_ok(options_transfer(words, &from, choices, &to));
    assert_int_equal(to.choice, 1);
    assert_ok(options_transfer(choices, &to, words, &from));
    assert_string_equal(from.word, "large");
    assert_true(from.number.value == 2.0);
}
