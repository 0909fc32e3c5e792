/* The name that was probably meant, lists of names in messages, and names that are missing. */
#include "support/support.h"

#include "base/names.h"
#include "base/status.h"

#include <string.h>

static const char *at(const void *list, int i)
{
    const char *const *names = list;
    return names[i];
}

static const char *const selectors[] = {"random", "wanda", "wanda++", "fold", "random-fold",
                                        "obs",    "gram",  "",        NULL};

static const char *nearest(const char *name)
{
    return grail_nearest_name(name, at, selectors);
}

TEST(test_each_kind_of_edit_is_one)
{
    assert_string_equal(nearest("wnda"), "wanda");
    assert_string_equal(nearest("wandda"), "wanda");
    assert_string_equal(nearest("wonda"), "wanda");
    assert_string_equal(nearest("awnda"), "wanda");
    assert_string_equal(nearest("fodl"), "fold"); /* two edits without the swap, one is allowed */
    assert_string_equal(nearest("wanda++"), "wanda++");
    assert_string_equal(nearest("wanda+"), "wanda"); /* the first of two that are as near */
    assert_string_equal(nearest("ob"), "obs");
}

TEST(test_names_that_are_far_are_not_meant)
{
    char longer[80];
    memset(longer, 'w', sizeof longer);
    longer[sizeof longer - 1] = 0;
    assert_null(nearest("foo"));
    assert_null(nearest("x"));
    assert_null(nearest("magnitude"));
    assert_null(nearest(longer));
    assert_string_equal(nearest("rondam"), "random"); /* two of six */
    assert_null(nearest("rondex"));                   /* three of six */
}

/* A list may hold names that are longer than anything that is compared. */
TEST(test_long_known_names_are_passed_over)
{
    char longer[200];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = 0;
    const char *const names[] = {longer, "aaaa", NULL};
    assert_string_equal(grail_nearest_name("aaab", at, names), "aaaa");
}

TEST(test_messages_list_the_names_and_the_one_that_was_meant)
{
    static const char *const names[] = {"none", "grail", "full", NULL};
    (void)error_set(GRAIL_ERROR_ARGUMENT, "unknown repair; expected");
    error_append_known("ful", names);
    assert_string_equal(grail_error_message(),
                        "unknown repair; expected none, grail, full; did you mean 'full'?");
    (void)error_set(GRAIL_ERROR_ARGUMENT, "unknown repair; expected");
    error_append_known(NULL, names);
    assert_string_equal(grail_error_message(), "unknown repair; expected none, grail, full");
}

TEST(test_a_missing_name_is_the_same_as_a_missing_one_alone)
{
    const char copy[] = "fold";
    assert_true(names_equal("fold", copy));
    assert_false(names_equal("fold", "folds"));
    assert_true(names_equal(NULL, NULL));
    assert_false(names_equal(NULL, ""));
    assert_false(names_equal("", NULL));
}
