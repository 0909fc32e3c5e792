/* Files of multiple-choice tasks: the contexts and continuations of each form, and every refusal.
 */
#include "support/support.h"

#include "format/text/task_file.h"

#include <stdio.h>
#include <string.h>

static grail_status parse(const char *name, const char *text, task_documents *out)
{
    return task_documents_parse("t.jsonl", name, text, strlen(text), out);
}

/* A document of two choices or more, written as context, "|" and continuation. */
static void assert_choices(const char *name, const char *text, const char *const expected[],
                           int64_t gold)
{
    task_documents d = {0};
    assert_ok(parse(name, text, &d));
    assert_int_equal(d.count, 1);
    assert_int_equal(d.documents[0].gold, gold);
    assert_int_equal(d.documents[0].first, 0);
    assert_int_equal(d.documents[0].count, d.choice_count);
    for (int64_t i = 0; i < d.choice_count; i++) {
        const task_choice *c = &d.choices[i];
        const char *bytes = (const char *)d.text.bytes;
        char found[256];
        assert_non_null(expected[i]);
        snprintf(found, sizeof found, "%.*s|%.*s", (int)(c->split - c->begin), bytes + c->begin,
                 (int)(c->end - c->split), bytes + c->split);
        assert_string_equal(found, expected[i]);
    }
    assert_null(expected[d.choice_count]);
    task_documents_fini(&d);
}

static void arc_finds_the_answer_among_labels(void **state)
{
    (void)state;
    static const char *const expected[] = {"Question: Why?\nAnswer:| one",
                                           "Question: Why?\nAnswer:| two", NULL};
    assert_choices("arc_easy",
                   "{\"id\":\"x\",\"question\":\"Why?\",\"choices\":{\"text\":[\"one\",\"two\"],"
                   "\"label\":[\"A\",\"B\"]},\"answerKey\":\"B\"}",
                   expected, 1);
    assert_choices("arc_challenge",
                   "{\"question\":\"Why?\",\"choices\":{\"text\":[\"one\",\"two\"],"
                   "\"label\":[\"1\",\"2\"]},\"answerKey\":\"1\"}",
                   expected, 0);
}

static void openbookqa_has_the_stem_alone_and_spaces_go_to_the_continuation(void **state)
{
    (void)state;
    static const char *const expected[] = {"The sun is| \t hot", "The sun is| \t cold", NULL};
    assert_choices("openbookqa",
                   "{\"question_stem\":\"The sun is \\t\",\"choices\":{\"text\":[\"hot\",\"cold\"],"
                   "\"label\":[\"A\",\"B\"]},\"answerKey\":\" A\"}",
                   expected, 0);
}

static void hellaswag_is_cleaned(void **state)
{
    (void)state;
    assert_choices("hellaswag",
                   "{\"activity_label\":\" Baking\",\"ctx_a\":\"[header][a] x [title]\","
                   "\"ctx_b\":\"sHE'S Here [step]\",\"endings\":[\" runs [x]   off\",\"a [b\"],"
                   "\"label\":\"1\"}",
                   (const char *const[]){"Baking: x. She's here|  runs  off",
                                         "Baking: x. She's here|  a [b", NULL},
                   1);
    /* a mark ends at the first "]", and in its line */
    assert_choices(
        "hellaswag",
        "{\"activity_label\":\"A\",\"ctx_a\":\"b\",\"ctx_b\":\"\\u00e9T\\u00c9\","
        "\"endings\":[\"[[a]] x\",\"[a\\n]\"],\"label\":0}",
        (const char *const[]){"A: b \u00c9t\u00e9| ] x", "A: b \u00c9t\u00e9| [a\n]", NULL}, 0);
}

static void piqa_and_boolq_have_two_choices(void **state)
{
    (void)state;
    assert_choices(
        "piqa", "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b c\",\"label\":1}",
        (const char *const[]){"Question: g\nAnswer:| a", "Question: g\nAnswer:| b c", NULL}, 1);
    static const char *const answers[] = {"p\nQuestion: q?\nAnswer:| no",
                                          "p\nQuestion: q?\nAnswer:| yes", NULL};
    assert_choices("boolq", "{\"passage\":\"p\",\"question\":\"q\",\"label\":0}", answers, 0);
    assert_choices("boolq", "{\"passage\":\"p\",\"question\":\"q\",\"label\":true}", answers, 1);
}

static void winogrande_measures_what_follows_the_gap(void **state)
{
    (void)state;
    static const char *const expected[] = {"So Al|  ran_off.", "So Bo|  ran_off.", NULL};
    assert_choices("winogrande",
                   "{\"sentence\":\"So _  ran_off. \",\"option1\":\"Al\",\"option2\":\"Bo\","
                   "\"answer\":\"2\"}",
                   (const char *const[]){"So Al| ran_off.", "So Bo| ran_off.", NULL}, 1);
    assert_choices("winogrande",
                   "{\"sentence\":\"So _  ran_off. \",\"option1\":\"Al \",\"option2\":\"Bo \","
                   "\"answer\":1}",
                   expected, 0);
}

static void own_files_have_context_choices_and_answer(void **state)
{
    (void)state;
    assert_choices("mine.jsonl", "{\"context\":\"\",\"choices\":[\"a\",\"b\",\"c\"],\"answer\":2}",
                   (const char *const[]){"| a", "| b", "| c", NULL}, 2);
    assert_choices("mine.jsonl.gz",
                   "{\"context\":\"c\\u00a0\",\"choices\":[\"a\",\"b\"],\"answer\":\"0\"}",
                   (const char *const[]){"c|\u00a0 a", "c|\u00a0 b", NULL}, 0);
}

static void lengths_are_characters(void **state)
{
    (void)state;
    task_documents d = {0};
    assert_ok(parse("m.jsonl",
                    "\n{\"context\":\"x\",\"choices\":[\"na\\u00efve\",\"\\u4e2d\\ud83d\\ude00\"],"
                    "\"answer\":0}\n",
                    &d));
    assert_int_equal(d.choices[0].characters, 5);
    assert_int_equal(d.choices[1].characters, 2);
    assert_int_equal(d.documents[0].line, 2);
    assert_true(d.normalised);
    assert_int_equal(strlen(d.hash), 64);
    task_documents_fini(&d);
}

static void assert_refused(const char *name, const char *line, const char *text)
{
    task_documents d = {0};
    assert_fails(parse(name, line, &d), GRAIL_ERROR_FORMAT, text);
    assert_non_null(strstr(grail_error_message(), "t.jsonl: "));
    assert_null(d.documents);
}

static void what_a_line_lacks_is_named(void **state)
{
    (void)state;
    assert_refused("piqa", "{\"goal\":\"g\",\"sol1\":\"a\",\"label\":1}",
                   "line 1: \"sol2\": expected a string, found nothing");
    assert_refused("piqa", "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"\",\"label\":1}",
                   "line 1: \"sol2\": expected a text");
    assert_refused("piqa", "\n\n{\"goal\":7}", "line 3: \"goal\": expected a string, found 7");
    assert_refused("piqa", "[1]", "line 1: expected an object");
    assert_refused("piqa", "{", "line 1: document: not valid JSON");
    assert_refused("piqa", "", "is empty");
    assert_refused("piqa", "\n \n", "holds no text");
    assert_refused("winogrande", "{\"sentence\":\"no gap\"}", "expected a gap \"_\"");
    assert_refused("winogrande",
                   "{\"sentence\":\"a _ \",\"option1\":\"b\",\"option2\":\"c\",\"answer\":\"1\"}",
                   "\"sentence\": expected a text");
    assert_refused("openbookqa", "{\"question_stem\":\"s\",\"choices\":[]}",
                   "\"choices\": expected an object, found an array");
    assert_refused("hellaswag",
                   "{\"activity_label\":\"a\",\"ctx_a\":\"b\",\"ctx_b\":\"c\",\"endings\":[\"[x]\","
                   "\"y\"],\"label\":\"0\"}",
                   "\"endings\": expected a text");
}

static void answers_that_name_no_choice_are_refused(void **state)
{
    (void)state;
    assert_refused("piqa", "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":2}",
                   "\"label\": expected an integer from 0 to 1, found 2");
    assert_refused("piqa", "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":-1}",
                   "found -1; the answers of this split are not public");
    assert_refused("piqa", "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":0.5}",
                   "found a fraction");
    assert_refused("m.jsonl", "{\"context\":\"x\",\"choices\":[\"a\",\"b\"],\"answer\":\"\"}",
                   "\"answer\": expected an integer from 0 to 1, found \"\"; the answers");
    assert_refused("m.jsonl",
                   "{\"context\":\"x\",\"choices\":[\"a\",\"b\"],"
                   "\"answer\":\"99999999999999999999999\"}",
                   "\"answer\": expected an integer");
    assert_refused(
        "arc_easy",
        "{\"question\":\"q\",\"choices\":{\"text\":[\"a\",\"b\"],\"label\":[\"A\",\"B\"]},"
        "\"answerKey\":\"C\"}",
        "\"answerKey\": expected one of the labels, found \"C\"; they are A, B");
    assert_refused("arc_easy",
                   "{\"question\":\"q\",\"choices\":{\"text\":[\"a\",\"b\"],\"label\":[\"A\",\"B\","
                   "\"C\"]},\"answerKey\":\"C\"}",
                   "\"choices\": \"label\": expected 2 strings, as many as \"text\" has, found 3");
}

static void numbers_of_choices_have_limits(void **state)
{
    (void)state;
    char line[4096] = "{\"context\":\"x\",\"answer\":0,\"choices\":[\"a\"";
    assert_refused("m.jsonl", "{\"context\":\"x\",\"choices\":[],\"answer\":0}",
                   "\"choices\": expected 2 to 64 strings, found 0");
    assert_refused("m.jsonl", "{\"context\":\"x\",\"choices\":[\"a\",1],\"answer\":0}",
                   "\"choices\": expected an array of strings, found 1");
    assert_refused("m.jsonl", "{\"context\":\"x\",\"choices\":\"a\",\"answer\":0}",
                   "\"choices\": expected an array of strings, found \"a\"");
    for (int i = 1; i < TASK_MOST_CHOICES + 1; i++) {
        strcat(line, ",\"b\"");
    }
    strcat(line, "]}");
    assert_refused("m.jsonl", line, "expected 2 to 64 strings, found 65");
}

static void unknown_names_get_the_known_ones(void **state)
{
    (void)state;
    assert_ok(task_check_name("boolq"));
    assert_ok(task_check_name("mine.jsonl"));
    assert_fails(task_check_name("bolq"), GRAIL_ERROR_ARGUMENT, "did you mean 'boolq'?");
    assert_fails(task_check_name(""), GRAIL_ERROR_ARGUMENT, "arc_easy, arc_challenge, hellaswag");
}

static void files_are_found_by_the_name_of_the_task(void **state)
{
    static const char line[] = "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":1}\n"
                               "{\"goal\":\"h\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":0}\n";
    const char *directory = *state;
    task_documents d = {0};
    assert_fails(task_documents_read(directory, "piqa", 0, &d), GRAIL_ERROR_IO,
                 "has no 'piqa.jsonl' or 'piqa.jsonl.gz'; write the validation split");
    assert_fails(task_documents_read(directory, "hellaswag", 0, &d), GRAIL_ERROR_IO,
                 "or 'hellaswag_val.jsonl'");
    assert_fails(task_documents_read(directory, "x.jsonl", 0, &d), GRAIL_ERROR_IO,
                 "has no file 'x.jsonl'");
    support_write_file(directory, "piqa.jsonl", line, sizeof line - 1);
    assert_ok(task_documents_read(directory, "piqa", 0, &d));
    assert_int_equal(d.count, 2);
    task_documents_fini(&d);
    assert_ok(task_documents_read(directory, "piqa", 1, &d));
    assert_int_equal(d.count, 1);
    assert_int_equal(d.choice_count, 2);
    task_documents_fini(&d);
    assert_ok(task_documents_read(directory, "piqa", 9, &d));
    assert_int_equal(d.count, 2);
    task_documents_fini(&d);
}

static grail_status parse_once(void *context)
{
    task_documents d = {0};
    const grail_status status =
        parse(context,
              "{\"activity_label\":\"a\",\"ctx_a\":\"b\",\"ctx_b\":\"c\",\"endings\":[\"x\",\"y\"],"
              "\"label\":\"0\",\"context\":\"c\",\"choices\":[\"a\",\"b\"],\"answer\":1}",
              &d);
    task_documents_fini(&d);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    char hellaswag[] = "hellaswag";
    char own[] = "own.jsonl";
    support_fail_each_allocation(parse_once, hellaswag);
    support_fail_each_allocation(parse_once, own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arc_finds_the_answer_among_labels),
        cmocka_unit_test(openbookqa_has_the_stem_alone_and_spaces_go_to_the_continuation),
        cmocka_unit_test(hellaswag_is_cleaned),
        cmocka_unit_test(piqa_and_boolq_have_two_choices),
        cmocka_unit_test(winogrande_measures_what_follows_the_gap),
        cmocka_unit_test(own_files_have_context_choices_and_answer),
        cmocka_unit_test(lengths_are_characters),
        cmocka_unit_test(what_a_line_lacks_is_named),
        cmocka_unit_test(answers_that_name_no_choice_are_refused),
        cmocka_unit_test(numbers_of_choices_have_limits),
        cmocka_unit_test(unknown_names_get_the_known_ones),
        cmocka_unit_test_setup_teardown(files_are_found_by_the_name_of_the_task,
                                        support_open_directory, support_close_directory),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
