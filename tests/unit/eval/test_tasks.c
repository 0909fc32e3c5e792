/* Choices as rows of tokens, their likelihoods in batches, and the scores of tasks. */
#include "eval/choice_scores.h"
#include "eval/task_score.h"
#include "eval/token_losses.h"
#include "format/text/task_file.h"
#include "unit/format/tokenizer_fixtures.h"
#include "unit/pipeline/lab_model.h"

#include <grail/status.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const with_bos = TEMPLATE("{\"SpecialToken\":{\"id\":\"<s>\"}},"
                                             "{\"Sequence\":{\"id\":\"A\"}}");

static void parse(const char *text, task_documents *out)
{
    assert_ok(task_documents_parse("t.jsonl", "t.jsonl", text, strlen(text), out));
}

/* Rows of a text for a network of `context` positions. */
static grail_status make_rows(const char *text, const char *beside, int64_t context,
                              choice_rows *out)
{
    graph g = {.vocabulary = 9};
    grail_model model = {.graph = &g, .context = context};
    task_documents d = {0};
    tokenizer *t = must_open_tokenizer(PLAIN, beside);
    parse(text, &d);
    const grail_status status = choice_rows_make(&model, t, &d, out);
    task_documents_fini(&d);
    tokenizer_close(t);
    return status;
}

static void assert_row(const choice_rows *rows, int64_t i, int64_t scored, const int32_t *ids)
{
    const choice_row *row = &rows->rows[i];
    int64_t count = 0;
    while (ids[count] >= 0) {
        count++;
    }
    assert_int_equal(row->scored, scored);
    assert_int_equal(row->inputs, count - 1);
    assert_memory_equal(rows->tokens.ids + row->first, ids, (size_t)count * sizeof ids[0]);
}

static void tokens_beyond_those_of_the_context_are_scored(void **state)
{
    (void)state;
    choice_rows rows = {0};
    assert_ok(
        make_rows("{\"context\":\"ca\",\"choices\":[\"b\",\"aab\"],\"answer\":0}", "", 16, &rows));
    assert_row(&rows, 0, 2, (const int32_t[]){3, 1, 8, 2, -1});
    assert_row(&rows, 1, 3, (const int32_t[]){3, 1, 8, 4, 2, -1});
    assert_int_equal(rows.shortened, 0);
    choice_rows_fini(&rows);
    assert_ok(make_rows("{\"context\":\"c \",\"choices\":[\"b\",\"a\"],\"answer\":0}", with_bos, 16,
                        &rows));
    assert_row(&rows, 0, 3, (const int32_t[]){7, 3, 8, 8, 2, -1});
    choice_rows_fini(&rows);
}

static void long_contexts_lose_their_beginning(void **state)
{
    (void)state;
    choice_rows rows = {0};
    assert_ok(make_rows("{\"context\":\"cbcbcb\",\"choices\":[\"b\",\"bb\"],\"answer\":0}",
                        with_bos, 8, &rows));
    assert_row(&rows, 0, 2, (const int32_t[]){7, 3, 2, 3, 2, 3, 2, 8, 2, -1});
    assert_row(&rows, 1, 3, (const int32_t[]){3, 2, 3, 2, 3, 2, 8, 2, 2, -1});
    assert_int_equal(rows.shortened, 1);
    choice_rows_fini(&rows);
    assert_fails(
        make_rows("\n{\"context\":\"c\",\"choices\":[\"b\",\"bcb\"],\"answer\":0}", "", 3, &rows),
        GRAIL_ERROR_ARGUMENT, "t.jsonl: line 2: choice 1: has 4 tokens behind 1");
}

static void an_empty_context_is_the_first_token_of_texts(void **state)
{
    (void)state;
    static const char text[] = "{\"context\":\"\",\"choices\":[\"b\",\"c\"],\"answer\":0}";
    choice_rows rows = {0};
    assert_ok(make_rows(text, with_bos, 8, &rows));
    assert_row(&rows, 0, 2, (const int32_t[]){7, 8, 2, -1});
    choice_rows_fini(&rows);
    assert_fails(make_rows(text, "", 8, &rows), GRAIL_ERROR_ARGUMENT,
                 "line 1: choice 0: the context is empty");
}

/* -- likelihoods ------------------------------------------------------------------------------- */

enum { ROWS = 40, VOCABULARY = 96 };

static void random_rows(choice_rows *out)
{
    random_state random;
    random_seed(&random, 4, 0);
    *out = (choice_rows){.count = ROWS};
    assert_ok(memory_new(&out->rows, ROWS, sizeof out->rows[0]));
    for (int64_t i = 0; i < ROWS; i++) {
        const int64_t inputs = 1 + (int64_t)random_below(&random, 64);
        out->rows[i] = (choice_row){.first = out->tokens.count,
                                    .inputs = inputs,
                                    .scored = 1 + (int64_t)random_below(&random, (uint64_t)inputs)};
        for (int64_t t = 0; t <= inputs; t++) {
            assert_ok(token_list_push(&out->tokens, (int32_t)random_below(&random, VOCABULARY)));
        }
    }
}

/* The score of a row that runs alone, from the losses of its window. */
static double score_alone(parameter_store *store, const choice_rows *rows, int64_t i)
{
    const choice_row *row = &rows->rows[i];
    const token_windows window = {
        .ids = rows->tokens.ids + row->first, .count = 1, .length = row->inputs + 1};
    entropy_sums losses[64];
    forward_pass f = {0};
    double sum = 0.0;
    assert_ok(forward_begin(&f, store->model, store, &window, 0, 1));
    assert_ok(token_losses(&f, targets_of_windows(&window), 0, losses));
    for (int64_t t = row->inputs - row->scored; t < row->inputs; t++) {
        sum -= entropy_of(&losses[t]);
    }
    forward_end(&f);
    return sum;
}

static grail_status count_calls(void *user, int64_t done)
{
    int64_t *last = user;
    assert_true(done > *last);
    *last = done;
    return GRAIL_OK;
}

static void batches_give_what_rows_give_alone(void **state)
{
    (void)state;
    grail_model *model = NULL;
    parameter_store *store = NULL;
    choice_rows rows;
    double found[ROWS];
    int64_t done = 0;
    assert_ok(grail_model_open(lab_golden("llama3"), &model));
    assert_ok(parameter_store_create(model, backend_host(), NULL, &store));
    random_rows(&rows);
    assert_ok(choice_scores(store, &rows, NULL, count_calls, &done, found));
    assert_int_equal(done, ROWS);
    for (int64_t i = 0; i < ROWS; i++) {
        assert_near(found[i], score_alone(store, &rows, i), 1e-4);
    }
    choice_rows_fini(&rows);
    parameter_store_free(store);
    grail_model_close(model);
}

/* -- scores ------------------------------------------------------------------------------------ */

static void scores_are_shares_with_standard_errors(void **state)
{
    (void)state;
    static const char text[] = "{\"context\":\"c\",\"choices\":[\"a\",\"aaaa\"],\"answer\":0}\n"
                               "{\"context\":\"c\",\"choices\":[\"a\",\"aaaa\"],\"answer\":1}\n"
                               "{\"context\":\"c\",\"choices\":[\"b\",\"c\"],\"answer\":1}\n";
    /* by sums 0 1 0 (of equal ones the first), by character 1 1 0 */
    static const double likelihoods[] = {-2.0, -4.0, -3.0, -2.0, -5.0, -5.0};
    task_documents d = {0};
    grail_task_score score;
    const choice_rows rows = {.shortened = 2};
    parse(text, &d);
    task_score_fill(&d, &rows, likelihoods, &score);
    assert_string_equal(score.name, "t.jsonl");
    assert_int_equal(score.documents, 3);
    assert_int_equal(score.choices, 6);
    assert_int_equal(score.shortened, 2);
    assert_near(score.accuracy, 2.0 / 3.0, 1e-15);
    assert_near(score.accuracy_norm, 1.0 / 3.0, 1e-15);
    /* the sample deviation of 1, 1, 0 is sqrt(1/3) */
    assert_near(score.accuracy_error, sqrt(1.0 / 3.0) / sqrt(3.0), 1e-15);
    assert_near(score.accuracy_norm_error, sqrt(1.0 / 3.0) / sqrt(3.0), 1e-15);
    d.count = 1;
    d.normalised = false;
    task_score_fill(&d, &rows, likelihoods, &score);
    assert_near(score.accuracy, 1.0, 0.0);
    assert_true(isnan(score.accuracy_error));
    assert_true(isnan(score.accuracy_norm) && isnan(score.accuracy_norm_error));
    task_documents_fini(&d);
}

/* -- a complete measurement -------------------------------------------------------------------- */

typedef struct measurement {
    grail_model *model;
    grail_task_options options;
} measurement;

static grail_status measure(void *context)
{
    const measurement *m = context;
    static grail_task_scores scores;
    const grail_compute compute = {.backend = "ref"};
    return grail_tasks_measure(m->model, &m->options, &compute, NULL, NULL, &scores);
}

static int cancel(void *user, const grail_eval_progress *p)
{
    (void)user;
    return p->done > 0 && p->total == 4 && isnan(p->so_far);
}

static void wrong_requests_are_about_their_field(void **state)
{
    (void)state;
    measurement m = {0};
    static grail_task_scores scores;
    assert_ok(grail_model_open(GRAIL_SOURCE_DIR "/demo/model", &m.model));
    assert_fails(measure(&m), GRAIL_ERROR_ARGUMENT, "no tasks were given");
    m.options.tasks = "piqa,bolq";
    assert_fails(measure(&m), GRAIL_ERROR_ARGUMENT, "no directory with the files");
    assert_string_equal(grail_error_fields(), "directory");
    m.options.directory = GRAIL_SOURCE_DIR "/tests/golden/tasks";
    assert_fails(measure(&m), GRAIL_ERROR_ARGUMENT, "unknown task 'bolq'");
    assert_string_equal(grail_error_fields(), "tasks");
    m.options.tasks = "piqa,piqa";
    assert_fails(measure(&m), GRAIL_ERROR_ARGUMENT, "task 'piqa' is given twice");
    m.options.tasks = "piqa";
    m.options.limit = -1;
    assert_fails(measure(&m), GRAIL_ERROR_ARGUMENT, "the number of documents");
    assert_string_equal(grail_error_fields(), "limit");
    m.options.limit = 2;
    m.options.per_document = "/nonexistent/file";
    assert_fails(measure(&m), GRAIL_ERROR_IO, "/nonexistent");
    m.options.per_document = NULL;
    assert_fails(grail_tasks_measure(m.model, &m.options, NULL, cancel, NULL, &scores),
                 GRAIL_ERROR_CANCELLED, "of 4 choices");
    grail_model_close(m.model);
}

static void every_failing_allocation_is_survived(void **state)
{
    char path[512];
    measurement m = {.options = {.tasks = "piqa",
                                 .directory = GRAIL_SOURCE_DIR "/tests/golden/tasks",
                                 .limit = 1,
                                 .per_document = path}};
    snprintf(path, sizeof path, "%s/lines", (const char *)*state);
    assert_ok(grail_model_open(GRAIL_SOURCE_DIR "/demo/model", &m.model));
    support_fail_each_allocation(measure, &m);
    grail_model_close(m.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_beyond_those_of_the_context_are_scored),
        cmocka_unit_test(long_contexts_lose_their_beginning),
        cmocka_unit_test(an_empty_context_is_the_first_token_of_texts),
        cmocka_unit_test(batches_give_what_rows_give_alone),
        cmocka_unit_test(scores_are_shares_with_standard_errors),
        cmocka_unit_test(wrong_requests_are_about_their_field),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_survived,
                                        support_open_directory, support_close_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
