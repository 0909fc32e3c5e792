/* Directories that appear only when they are complete: what a program that ends at any step leaves,
 * and that nothing is touched that is not the output's own. */
#include "support/place.h"
#include "support/support.h"

#include "base/file.h"
#include "base/output_directory.h"
#include "base/records.h"
#include "support/json_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACE_TEST(name) PLACE_TEST_OF("out", name)

/* A path below the place; the string is static. */
static const char *in(const place *p, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", p->directory, name);
    return path;
}

/* -- a run in steps -----------------------------------------------------------------------------
 */

enum { STEPS = 6 };

static grail_status put_record(output_directory *o, const char *key, bool first)
{
    json_t *record = json_pack("{s:i}", key, 1);
    if (record == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "no record");
    }
    const grail_status status =
        first ? output_directory_begin(o, record) : output_directory_record(o, record);
    json_decref(record);
    return status;
}

/* The first `steps` steps of a run, or all of them, continuing what the records say is done. */
static grail_status run_steps(const char *path, bool resume, int steps)
{
    grail_status status = GRAIL_OK;
    output_directory *o = NULL;
    TRY(output_directory_open(path, resume, &o));
    const size_t done = json_array_size(output_directory_records(o));
    TRY(output_directory_declare(o, "weights"));
    TRY(output_directory_declare(o, "report"));
    if (steps > 1 && done < 1) {
        TRY(put_record(o, "begun", true));
    }
    if (steps > 2 && done < 2 && !output_directory_is_committed(o)) {
        TRY(output_directory_write(o, "weights", "w", 1));
    }
    if (steps > 3 && done < 2) {
        TRY(put_record(o, "weights", false));
    }
    if (steps > 4 && !output_directory_is_committed(o)) {
        TRY(output_directory_write(o, "report", "r", 1));
    }
    if (steps > 5) {
        TRY(output_directory_commit(o));
    }
out:
    output_directory_close(o);
    return status;
}

static void assert_finished(const place *p)
{
    assert_contents(in(p, "out/weights"), "w");
    assert_contents(in(p, "out/report"), "r");
    assert_false(file_exists(in(p, "out.partial")));
}

PLACE_TEST(test_a_directory_appears_with_its_commit)
{
    assert_ok(run_steps(p->path, false, STEPS));
    assert_finished(p);
}

PLACE_TEST(test_a_run_that_ends_at_any_step_is_continued)
{
    for (int steps = 1; steps < STEPS; steps++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _exit(run_steps(p->path, false, steps) == GRAIL_OK ? 0 : 1);
        }
        int ended = -1;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(ended, 0);
        assert_false(file_exists(p->path));
        if (steps > 1) {
            assert_fails(run_steps(p->path, false, STEPS), GRAIL_ERROR_EXISTS,
                         "resume it or delete it");
        }
        assert_ok(run_steps(p->path, true, STEPS));
        assert_finished(p);
        support_remove_tree(p->path);
    }
}

PLACE_TEST(test_without_a_beginning_a_run_is_not_refused)
{
    assert_ok(run_steps(p->path, false, 1));
    assert_true(file_exists(in(p, "out.partial/grail-state.jsonl")));
    assert_ok(run_steps(p->path, false, STEPS));
    assert_finished(p);
    support_remove_tree(p->path);
    assert_int_equal(mkdir(in(p, "out.partial"), 0777), 0);
    assert_ok(run_steps(p->path, false, STEPS));
    assert_finished(p);
}

/* The state that a run leaves when it ends right after the commit's rename. */
static void leave_behind_the_rename(const place *p)
{
    struct stat info;
    char from[512];
    buffer line;
    assert_ok(run_steps(p->path, false, STEPS - 1));
    snprintf(from, sizeof from, "%s", in(p, "out.partial/result"));
    assert_int_equal(stat(from, &info), 0);
    json_t *record =
        json_pack("{s:[I, I, I, I]}", "commit", (json_int_t)info.st_dev, (json_int_t)info.st_ino,
                  (json_int_t)info.st_mtim.tv_sec, (json_int_t)info.st_mtim.tv_nsec);
    buffer_init(&line, 1000);
    assert_ok(record_append_line(record, &line));
    const int state = open(in(p, "out.partial/grail-state.jsonl"), O_WRONLY | O_APPEND);
    assert_int_equal(write(state, line.bytes, line.size), line.size);
    close(state);
    assert_int_equal(rename(from, p->path), 0);
    json_decref(record);
    buffer_fini(&line);
}

/* The number of records that are seen; the first one says where the run begun. */
static size_t records_seen(const place *p)
{
    output_directory *o = NULL;
    assert_ok(output_directory_look(p->path, &o));
    const json_t *records = output_directory_records(o);
    const size_t count = json_array_size(records);
    if (count > 0) {
        const json_t *first = json_array_get(records, 0);
        assert_int_equal(json_integer_value(json_object_get(first, "begun")), 1);
    }
    output_directory_close(o);
    return count;
}

PLACE_TEST(test_the_records_of_an_interrupted_run_can_be_seen)
{
    assert_int_equal(records_seen(p), 0);
    assert_ok(run_steps(p->path, false, 1));
    assert_int_equal(records_seen(p), 0);
    assert_ok(run_steps(p->path, true, 4));
    assert_true(records_seen(p) > 0);
    support_write_file(in(p, "out.partial"), "grail-state.jsonl", "no record\n", 10);
    assert_int_equal(records_seen(p), 0);
}

PLACE_TEST(test_a_run_that_ended_behind_its_commit_is_finished_by_resuming)
{
    leave_behind_the_rename(p);
    assert_fails(run_steps(p->path, false, STEPS), GRAIL_ERROR_EXISTS, "exists already");
    assert_ok(run_steps(p->path, true, STEPS));
    assert_finished(p);
}

PLACE_TEST(test_the_state_of_a_result_that_has_gone_is_in_nobodys_way)
{
    leave_behind_the_rename(p);
    support_remove_tree(p->path);
    assert_ok(run_steps(p->path, false, STEPS));
    assert_finished(p);
    support_remove_tree(p->path);
    leave_behind_the_rename(p);
    support_remove_tree(p->path);
    assert_int_equal(mkdir(p->path, 0777), 0); /* another directory of that name */
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_EXISTS, "exists already");
}

/* -- what is not the output's own ---------------------------------------------------------------
 */

PLACE_TEST(test_an_existing_output_is_left_alone)
{
    support_write_file(p->directory, "out", "mine", 4);
    for (int resume = 0; resume < 2; resume++) {
        assert_fails(run_steps(p->path, resume == 1, STEPS), GRAIL_ERROR_EXISTS,
                     "choose another output or delete it");
    }
    assert_contents(p->path, "mine");
    assert_false(file_exists(in(p, "out.partial")));
    assert_int_equal(unlink(p->path), 0);
    assert_int_equal(symlink("nowhere", p->path), 0);
    assert_fails(run_steps(p->path, false, STEPS), GRAIL_ERROR_EXISTS, "exists already");
}

PLACE_TEST(test_an_output_that_appears_meanwhile_loses_nothing)
{
    assert_ok(run_steps(p->path, false, STEPS - 1));
    output_directory *o = NULL;
    assert_ok(output_directory_open(p->path, true, &o));
    assert_int_equal(mkdir(p->path, 0777), 0);
    assert_fails(output_directory_commit(o), GRAIL_ERROR_EXISTS,
                 "appeared during the run; move it away");
    output_directory_close(o);
    assert_contents(in(p, "out.partial/result/weights"), "w");
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_EXISTS, "holds an interrupted run)");
    assert_int_equal(rmdir(p->path), 0);
    assert_ok(run_steps(p->path, true, STEPS));
    assert_finished(p);
}

PLACE_TEST(test_a_partial_that_is_a_link_is_not_followed)
{
    char partial[512];
    snprintf(partial, sizeof partial, "%s", in(p, "out.partial"));
    assert_int_equal(mkdir(in(p, "model"), 0777), 0);
    support_write_file(in(p, "model"), "weights", "precious", 8);
    assert_int_equal(symlink("model", partial), 0);
    for (int resume = 0; resume < 2; resume++) {
        assert_fails(run_steps(p->path, resume == 1, STEPS), GRAIL_ERROR_EXISTS,
                     "is not a directory, and the run needs a directory of this name; delete it");
    }
    assert_contents(in(p, "model/weights"), "precious");
}

PLACE_TEST(test_a_directory_that_no_run_left_is_left_alone)
{
    assert_int_equal(mkdir(in(p, "out.partial"), 0777), 0);
    support_write_file(in(p, "out.partial"), "weights", "precious", 8);
    for (int resume = 0; resume < 2; resume++) {
        assert_fails(run_steps(p->path, resume == 1, STEPS), GRAIL_ERROR_EXISTS,
                     "does not come from an interrupted run: it holds 'weights' but no record of a "
                     "run; move it away, or choose another output");
    }
    support_write_file(in(p, "out.partial"), "grail-state.jsonl", "", 0);
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_EXISTS, "it holds 'weights'");
    assert_contents(in(p, "out.partial/weights"), "precious");
}

PLACE_TEST(test_a_damaged_state_is_named_and_kept)
{
    buffer text = {0};
    assert_ok(run_steps(p->path, false, STEPS - 1));
    assert_ok(file_read(in(p, "out.partial/grail-state.jsonl"), 1 << 20, &text));
    text.bytes[12] ^= 4;
    support_write_file(in(p, "out.partial"), "grail-state.jsonl", text.bytes, text.size);
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_FORMAT,
                 "grail-state.jsonl' is damaged, or another version of grail wrote it: line 1 does "
                 "not match its checksum");
    assert_contents(in(p, "out.partial/result/weights"), "w");
    text.bytes[12] ^= 4;
    support_write_file(in(p, "out.partial"), "grail-state.jsonl", text.bytes, text.size);
    assert_ok(run_steps(p->path, true, STEPS));
    buffer_fini(&text);
}

PLACE_TEST(test_a_second_run_touches_nothing)
{
    output_directory *o = NULL;
    assert_ok(output_directory_open(p->path, false, &o));
    for (int resume = 0; resume < 2; resume++) {
        assert_fails(run_steps(p->path, resume == 1, STEPS), GRAIL_ERROR_EXISTS,
                     "wait until it ends, or choose another output");
    }
    assert_ok(output_directory_declare(o, "weights"));
    assert_ok(put_record(o, "begun", true));
    assert_ok(output_directory_write(o, "weights", "w", 1));
    for (int resume = 0; resume < 2; resume++) {
        assert_fails(run_steps(p->path, resume == 1, STEPS), GRAIL_ERROR_EXISTS,
                     "wait until it ends, or choose another output");
    }
    assert_ok(output_directory_commit(o));
    output_directory_close(o);
    assert_contents(in(p, "out/weights"), "w");
}

PLACE_TEST(test_an_abandoned_output_is_removed_with_what_was_declared)
{
    output_directory *o = NULL;
    for (int foreign = 0; foreign < 2; foreign++) {
        assert_ok(output_directory_open(p->path, false, &o));
        assert_ok(output_directory_declare(o, "weights"));
        assert_ok(put_record(o, "begun", true));
        assert_ok(output_directory_write(o, "weights", "w", 1));
        if (foreign == 1) {
            support_write_file(in(p, "out.partial/result"), "notes", "mine", 4);
        }
        output_directory_abandon(o);
        output_directory_close(o);
        assert_int_equal(file_exists(in(p, "out.partial")), foreign == 1);
        assert_false(file_exists(in(p, "out.partial/result/weights")));
    }
    assert_contents(in(p, "out.partial/result/notes"), "mine");
}

PLACE_TEST(test_only_names_of_files_are_declared)
{
    static const char *const wrong[] = {"",     ".",   "..", "../x", "/x",   "a/",
                                        "a/..", "./b", "//", "a//b", "a/b/c"};
    output_directory *o = NULL;
    assert_ok(output_directory_open(p->path, false, &o));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_fails(output_directory_declare(o, wrong[i]), GRAIL_ERROR_ARGUMENT,
                     "is not the name of a file");
    }
    output_directory_abandon(o);
    output_directory_close(o);
    assert_false(file_exists(in(p, "out.partial")));
}

PLACE_TEST(test_a_file_may_have_a_folder_of_its_own)
{
    output_directory *o = NULL;
    for (int ends = 0; ends < 3; ends++) { /* abandoned, laid out again, committed */
        assert_ok(output_directory_open(p->path, false, &o));
        assert_ok(output_directory_declare(o, "1_Pooling/config.json"));
        assert_ok(output_directory_declare(o, "1_Pooling/more.json"));
        assert_ok(output_directory_declare(o, "2_Normalize/config.json"));
        assert_ok(put_record(o, "begun", true));
        assert_ok(output_directory_write(o, "1_Pooling/config.json", "old", 3));
        assert_ok(output_directory_write(o, "1_Pooling/config.json", "{}", 2));
        assert_ok(output_directory_write(o, "1_Pooling/more.json", "[]", 2));
        assert_contents(in(p, "out.partial/result/1_Pooling/config.json"), "{}");
        if (ends == 0) {
            output_directory_abandon(o);
            assert_false(file_exists(in(p, "out.partial")));
        } else if (ends == 1) {
            output_directory_clear(o);
            assert_false(file_exists(in(p, "out.partial/result/1_Pooling")));
            output_directory_abandon(o);
        } else {
            assert_ok(output_directory_commit(o));
            assert_contents(in(p, "out/1_Pooling/config.json"), "{}");
            assert_contents(in(p, "out/1_Pooling/more.json"), "[]");
            assert_false(file_exists(in(p, "out/2_Normalize")));
        }
        output_directory_close(o);
        o = NULL;
    }
}

PLACE_TEST(test_a_slash_at_the_end_says_nothing)
{
    char path[512];
    snprintf(path, sizeof path, "%s//", p->path);
    assert_ok(run_steps(path, false, STEPS));
    assert_finished(p);
    assert_fails(run_steps("", false, STEPS), GRAIL_ERROR_ARGUMENT, "no output directory");
    assert_fails(run_steps("/nonexistent/out", false, STEPS), GRAIL_ERROR_IO,
                 "cannot create '/nonexistent/out.partial'");
}

static grail_status run_until_done(void *context)
{
    const place *p = context;
    return run_steps(p->path, true, STEPS);
}

PLACE_TEST(test_every_failing_allocation_is_reported)
{
    support_fail_each_allocation(run_until_done, p);
}

CMFixtureFunction support_setup = json_memory_use;
