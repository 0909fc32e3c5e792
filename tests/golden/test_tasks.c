/* Zero-shot tasks against lm-evaluation-harness: the log-likelihoods of every choice, and the
 * scores, of the documents in tasks/ on real weights. make_task_golden.py made the references. */
#include "support/support.h"

#include "base/file.h"
#include "base/json.h"

#include <grail/eval.h>

#include <stdio.h>
#include <string.h>

#define TASKS GRAIL_SOURCE_DIR "/tests/golden/tasks"

enum { PATH_SIZE = 1024 };

static const double tolerance = 1e-3; /* of a log-likelihood, absolute */

/* The next line of a text, with its end replaced. */
static char *next_line(char **rest)
{
    return *rest == NULL || **rest == 0 ? NULL : strsep(rest, "\n");
}

static void compare_line(const json_t *expected, const char *line)
{
    json_t *found = NULL;
    size_t i = 0;
    const json_t *value = NULL;
    char name[64];
    assert_ok(json_parse("line", line, strlen(line), &found));
    snprintf(name, sizeof name, "%s", json_string_value(json_object_get(found, "task")));
    name[strcspn(name, ".")] = 0;
    const json_t *documents = json_object_get(json_object_get(expected, name), "log_likelihoods");
    const json_t *wanted =
        json_array_get(documents, (size_t)json_integer_value(json_object_get(found, "index")));
    const json_t *values = json_object_get(found, "log_likelihoods");
    assert_non_null(wanted);
    assert_int_equal(json_array_size(values), json_array_size(wanted));
    json_array_foreach (wanted, i, value) {
        assert_near(json_number_value(json_array_get(values, i)), json_number_value(value),
                    tolerance);
    }
    json_decref(found);
}

static void compare_lines(const json_t *expected, const char *path)
{
    buffer text = {.maximum = 1 << 20};
    size_t documents = 0;
    size_t lines = 0;
    const char *name = NULL;
    json_t *task = NULL;
    assert_ok(file_read(path, 1 << 20, &text));
    char *rest = (char *)text.bytes;
    for (char *line = next_line(&rest); line != NULL; line = next_line(&rest)) {
        compare_line(expected, line);
        lines++;
    }
    json_object_foreach ((json_t *)expected, name, task) {
        documents += json_array_size(json_object_get(task, "log_likelihoods"));
    }
    assert_int_equal(lines, documents);
    buffer_fini(&text);
}

static void compare_number(const json_t *task, const char *key, double found)
{
    const json_t *value = json_object_get(task, key);
    if (json_is_number(value)) {
        assert_near(found, json_number_value(value), 1e-9);
    } else {
        assert_true(found != found);
    }
}

static void compare_scores(const json_t *expected, const grail_task_scores *scores)
{
    for (int i = 0; i < scores->count; i++) {
        const grail_task_score *score = &scores->tasks[i];
        char name[64];
        snprintf(name, sizeof name, "%s", score->name);
        name[strcspn(name, ".")] = 0;
        const json_t *task = json_object_get(expected, name);
        assert_non_null(task);
        compare_number(task, "acc", score->accuracy);
        compare_number(task, "acc_stderr", score->accuracy_error);
        compare_number(task, "acc_norm", score->accuracy_norm);
        compare_number(task, "acc_norm_stderr", score->accuracy_norm_error);
    }
}

static void documents_score_as_in_the_harness(void **state)
{
    static grail_task_scores scores;
    const char *directory = *state;
    const char *weights = support_shared_data("stories260k");
    grail_model *model = NULL;
    json_t *expected = NULL;
    char path[PATH_SIZE];
    if (weights == NULL) {
        print_message("without the weights of stories260k: skipped\n");
        skip();
    }
    const grail_task_options options = {
        .tasks = "arc_easy,arc_challenge,hellaswag,piqa,boolq,winogrande,openbookqa,stories.jsonl",
        .directory = TASKS,
        .per_document = path};
    const grail_compute compute = {.precision = "f32"};
    snprintf(path, sizeof path, "%s/lines.jsonl", directory);
    assert_ok(json_read_file(TASKS "/expected.json", 1 << 20, &expected));
    assert_ok(grail_model_open(weights, &model));
    assert_ok(grail_tasks_measure(model, &options, &compute, NULL, NULL, &scores));
    assert_int_equal(scores.count, json_object_size(expected));
    compare_lines(expected, path);
    compare_scores(expected, &scores);
    json_decref(expected);
    grail_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(documents_score_as_in_the_harness, support_open_directory,
                                        support_close_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
