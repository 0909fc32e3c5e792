/* The file of a sweep's results: beginning, continuing and refusing it. */
#include "recipes.h"

#include "support/json_memory.h"
#include "support/support.h"

#include "base/file.h"
#include "study/results/line_fields.h"
#include "study/sweep/results_file.h"

#include <grail/compress.h>

#include <stdio.h>
#include <string.h>

enum { CELLS = 4 };

/* A recipe with four cells, a file of its results, and what was found in it. */
typedef struct file {
    char *directory, *path;
    sweep_recipe recipe;
    sweep_cell *cells;
    bool dense[1], found[CELLS];
    sweep_results results;
} file;

static const char four[] =
    RECIPE(ONE,
           "\"selectors\": [\"wanda\"], \"sparsities\": [0.1, 0.3, 0.55, 0.7], \"compensate\":"
           " [\"none\"]",
           "");
static const sweep_origin origin = {.cpu = "a cpu", .version = "0", .threads = 2};

static void setup(file *f)
{
    *f = (file){.directory = support_temporary_directory(), .recipe = recipe_parsed(four)};
    assert_ok(path_join(&f->path, f->directory, "r.jsonl"));
    assert_int_equal(recipe_cells(&f->recipe, &f->cells), CELLS);
}

static void teardown(file *f)
{
    sweep_results_close(&f->results);
    memory_free(f->cells);
    sweep_recipe_fini(&f->recipe);
    support_remove_tree(f->directory);
    memory_free(f->directory);
    memory_free(f->path);
}

static grail_status open_results(file *f)
{
    memset(f->found, 0, sizeof f->found);
    memset(f->dense, 0, sizeof f->dense);
    return sweep_results_open(f->path, &f->recipe, &origin, f->cells, CELLS, f->dense, f->found,
                              &f->results);
}

static void append_cell(file *f, int index)
{
    result_line line = {
        .kind = LINE_CELL, .settings = f->cells[index].settings, .measures = line_not_measured()};
    line.measures.top1 = 0.5;
    assert_ok(sweep_results_append(&f->results, &line));
}

static void append_dense(file *f)
{
    const result_line line = {.kind = LINE_DENSE,
                              .settings = {.checkpoint = "a"},
                              .path = "a.pth",
                              .architecture = "net",
                              .measures = line_not_measured()};
    assert_ok(sweep_results_append(&f->results, &line));
}

static void append_failure(file *f, int index)
{
    const result_line line = {
        .kind = LINE_FAILURE, .settings = f->cells[index].settings, .error = "no luck"};
    assert_ok(sweep_results_append(&f->results, &line));
}

static char *text_of(const file *f)
{
    buffer text = {0};
    assert_ok(file_read(f->path, 1 << 20, &text));
    assert_ok(buffer_append_string(&text, "")); /* terminates it if it is empty */
    return (char *)text.bytes;
}

static void write_text(const file *f, const char *text)
{
    support_write_file(f->directory, "r.jsonl", text, strlen(text));
}

static void a_new_file_begins_with_the_recipe(void **state)
{
    (void)state;
    file f;
    setup(&f);
    assert_ok(open_results(&f));
    char *text = text_of(&f);
    json_t *line = NULL;
    assert_int_equal(strncmp(text, "{\"grail_results\":2,\"recipe\":{", 28), 0);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_non_null(strstr(text, "\"sparsities\":[0.1,0.3,0.55,0.7]"));
    assert_ok(json_parse("header", text, strlen(text), &line));
    assert_true(json_equal(json_object_get(line, "recipe"), f.recipe.document));
    assert_int_equal(strlen(json_string_value(json_object_get(line, "started"))), 20);
    json_decref(line);
    memory_free(text);
    teardown(&f);
}

static void a_file_of_the_same_recipe_is_continued(void **state)
{
    (void)state;
    file f;
    setup(&f);
    assert_ok(open_results(&f));
    assert_false(f.dense[0]);
    append_dense(&f);
    append_cell(&f, 2);
    append_cell(&f, 0);
    sweep_results_close(&f.results);
    assert_ok(open_results(&f));
    assert_true(f.dense[0]);
    assert_true(f.found[0] && !f.found[1] && f.found[2] && !f.found[3]);
    append_cell(&f, 1);
    sweep_results_close(&f.results);
    assert_ok(open_results(&f));
    assert_true(f.found[0] && f.found[1] && f.found[2] && !f.found[3]);
    teardown(&f);
}

static void a_cell_that_failed_is_not_there(void **state)
{
    (void)state;
    file f;
    setup(&f);
    assert_ok(open_results(&f));
    append_failure(&f, 1);
    append_failure(&f, 2);
    append_cell(&f, 2);
    sweep_results_close(&f.results);
    assert_ok(open_results(&f));
    assert_true(!f.found[1] && f.found[2]);
    teardown(&f);
}

static void the_next_line_takes_the_place_of_an_unfinished_one(void **state)
{
    (void)state;
    file f;
    setup(&f);
    assert_ok(open_results(&f));
    append_cell(&f, 0);
    char *before = text_of(&f);
    append_cell(&f, 3);
    sweep_results_close(&f.results);
    char *text = text_of(&f);
    char *whole = text_of(&f);
    for (size_t size = strlen(text) - 1; size > strlen(before); size -= 7) {
        text[size] = 0;
        write_text(&f, text);
        assert_ok(open_results(&f));
        assert_true(f.found[0] && !f.found[3]);
        append_cell(&f, 3);
        char *again = text_of(&f);
        assert_string_equal(again, whole);
        memory_free(again);
        sweep_results_close(&f.results);
    }
    memory_free(before);
    memory_free(whole);
    memory_free(text);
    teardown(&f);
}

static void every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    file f;
    setup(&f);
    assert_ok(open_results(&f));
    append_dense(&f);
    append_cell(&f, 3);
    append_failure(&f, 1);
    sweep_results_close(&f.results);
    char *text = text_of(&f);
    for (size_t i = 0; i < strlen(text); i++) {
        const char kept = text[i];
        text[i] = (char)(kept ^ (1 << i % 7));
        write_text(&f, text);
        assert_fails(open_results(&f), GRAIL_ERROR_FORMAT, "r.jsonl: ");
        text[i] = kept;
    }
    memory_free(text);
    teardown(&f);
}

static void an_unfinished_header_is_begun_anew(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "{\"grail_results\":2,\"rec"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        file f;
        setup(&f);
        write_text(&f, texts[i]);
        assert_ok(open_results(&f));
        append_cell(&f, 1);
        sweep_results_close(&f.results);
        assert_ok(open_results(&f));
        assert_true(f.found[1]);
        teardown(&f);
    }
}

static void assert_left_alone(const char *text, grail_status code, const char *message)
{
    file f;
    setup(&f);
    write_text(&f, text);
    assert_fails(open_results(&f), code, message);
    char *after = text_of(&f);
    assert_string_equal(after, text);
    memory_free(after);
    teardown(&f);
}

static void files_of_something_else_are_left_alone(void **state)
{
    (void)state;
    assert_left_alone("precious", GRAIL_ERROR_FORMAT, "not results of a sweep");
    assert_left_alone("{\"a\": 1}\n", GRAIL_ERROR_FORMAT, "not results of a sweep");
    assert_left_alone("{\"grail_results\":0,\"recipe\":{}}\n", GRAIL_ERROR_FORMAT,
                      "this version of grail cannot continue these results");
    assert_left_alone("{\"grail_results\":1,\"recipe\":{\"checkpoints\":[]}}\n",
                      GRAIL_ERROR_ARGUMENT,
                      "holds results of another recipe (\"checkpoints\" differs)");
}

/* Overwrites the first `from` in `text` with the bytes of `to`, its NUL too when `ends`. */
static void overwrite(char *text, const char *from, const char *to, bool ends)
{
    const size_t at = strlen(text) - strlen(strstr(text, from));
    memcpy(text + at, to, strlen(to) + (ends ? 1 : 0));
}

/* The header as the first version wrote it, which knew no checksums. */
static void make_first_version(char *header)
{
    overwrite(header, "2", "1", false);
    overwrite(header, ",\"crc32\"", "}\n", true);
}

static void a_file_of_the_first_version_is_continued(void **state)
{
    (void)state;
    file f;
    setup(&f);
    assert_ok(open_results(&f));
    sweep_results_close(&f.results);
    char *text = text_of(&f);
    make_first_version(text);
    write_text(&f, text);
    memory_free(text);
    assert_ok(open_results(&f));
    append_cell(&f, 2);
    sweep_results_close(&f.results);
    assert_ok(open_results(&f));
    assert_true(f.found[2]);
    sweep_results_close(&f.results);
    text = text_of(&f);
    overwrite(text, "0.55", "0.54", false); /* in the recipe, which has no checksum there */
    write_text(&f, text);
    assert_fails(open_results(&f), GRAIL_ERROR_ARGUMENT, "holds results of another recipe");
    overwrite(text, "0.54", "0.55", false);
    overwrite(text, "top1", "top2", false);
    write_text(&f, text);
    assert_fails(open_results(&f), GRAIL_ERROR_FORMAT, "line 2: does not match its checksum");
    memory_free(text);
    teardown(&f);
}

static void lines_that_are_no_cells_of_the_recipe_are_refused(void **state)
{
    (void)state;
#define LINE(checkpoint, sparsity, more)                                                           \
    "{\"cell\":{\"checkpoint\":\"" checkpoint "\",\"selector\":\"wanda\",\"sparsity\":" sparsity   \
    ",\"compensate\":\"none\",\"repair\":false,\"samples\":128,\"seed\":0,\"loop\":"               \
    "\"closed\"" more "}\n"
    static const struct {
        const char *line, *message;
    } lines[] = {
        {"{\"cell\":{}}\n", "line 2: \"checkpoint\" is missing"},
        {"{}\n", "line 2: expected an object that has an object \"dense\" or \"cell\""},
        {"not json\n", "r.jsonl"},
        {"{\"dense\":{\"checkpoint\":\"b\"}}\n",
         "line 2: \"dense\" names a checkpoint that the recipe"},
        {LINE("a", "0.2", "}"), "line 2: this cell is not in the recipe"},
        {LINE("b", "0.3", "}"), "line 2: the recipe has no checkpoint \"b\""},
        {LINE("a", "0.3", ",\"refit\":\"all\"}"), "line 2: unknown key \"refit\""},
        {LINE("a", "0.3", "},\"top1\":7"), "line 2: \"top1\" is 7, expected 0 to 1"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        file f;
        char *joined = NULL;
        setup(&f);
        assert_ok(open_results(&f));
        sweep_results_close(&f.results);
        char *text = text_of(&f);
        make_first_version(text);
        assert_ok(memory_format(&joined, "%s%s", text, lines[i].line));
        write_text(&f, joined);
        assert_fails(open_results(&f), GRAIL_ERROR_FORMAT, lines[i].message);
        assert_non_null(strstr(grail_error_message(), "r.jsonl"));
        memory_free(text);
        memory_free(joined);
        teardown(&f);
    }
}

static void two_sweeps_do_not_write_to_one_file(void **state)
{
    (void)state;
    file f;
    sweep_results second = {0};
    setup(&f);
    assert_ok(open_results(&f));
    assert_fails(
        sweep_results_open(f.path, &f.recipe, &origin, f.cells, CELLS, f.dense, f.found, &second),
        GRAIL_ERROR_EXISTS, "another sweep is writing to this file");
    append_cell(&f, 0);
    teardown(&f);
}

static void looking_writes_nothing(void **state)
{
    (void)state;
    file f;
    setup(&f);
    assert_ok(sweep_results_look(f.path, &f.recipe, f.cells, CELLS, f.dense, f.found));
    assert_false(file_exists(f.path));
    assert_ok(open_results(&f));
    append_cell(&f, 1);
    assert_ok(sweep_results_look(f.path, &f.recipe, f.cells, CELLS, f.dense, f.found));
    assert_true(f.found[1] && !f.found[0]);
    teardown(&f);
}

static grail_status parse_enumerate_and_open(void *context)
{
    const file *f = context;
    grail_status status = GRAIL_OK;
    sweep_recipe r = {0};
    sweep_cell *cells = NULL;
    sweep_results results = {.log = {.descriptor = -1}};
    int64_t count = 0;
    bool dense[1] = {false};
    bool found[CELLS] = {false};
    TRY(recipe_parse(four, &r));
    TRY(sweep_cells(&r, &cells, &count));
    TRY(sweep_results_open(f->path, &r, &origin, cells, count, dense, found, &results));
out:
    sweep_results_close(&results);
    memory_free(cells);
    sweep_recipe_fini(&r);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    file f;
    setup(&f);
    assert_ok(open_results(&f));
    append_dense(&f);
    append_cell(&f, 1);
    sweep_results_close(&f.results);
    support_fail_each_allocation(parse_enumerate_and_open, &f);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_file_begins_with_the_recipe),
        cmocka_unit_test(a_file_of_the_same_recipe_is_continued),
        cmocka_unit_test(a_cell_that_failed_is_not_there),
        cmocka_unit_test(the_next_line_takes_the_place_of_an_unfinished_one),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(an_unfinished_header_is_begun_anew),
        cmocka_unit_test(files_of_something_else_are_left_alone),
        cmocka_unit_test(a_file_of_the_first_version_is_continued),
        cmocka_unit_test(lines_that_are_no_cells_of_the_recipe_are_refused),
        cmocka_unit_test(two_sweeps_do_not_write_to_one_file),
        cmocka_unit_test(looking_writes_nothing),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
