/* Records: entries are read back as they were written, and no changed bit goes unnoticed. Outputs
 * that appear only when they are complete: what a program that ends at any step leaves, and that
 * nothing is touched that is not the output's own. */
#include "support/place.h"
#include "support/support.h"

#include "base/file.h"
#include "base/record.h"
#include "support/json_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACE_TEST(name) PLACE_TEST_OF("out", name)

/* Whether the output is a file instead of a directory. */
static bool makes_file;

/* A test of both. */
#define FORM_TEST(name)                                                                            \
    static void name(const place *p);                                                              \
    PLACE_TEST(name##_as_directory)                                                                \
    {                                                                                              \
        makes_file = false;                                                                        \
        name(p);                                                                                   \
    }                                                                                              \
    PLACE_TEST(name##_as_file)                                                                     \
    {                                                                                              \
        makes_file = true;                                                                         \
        name(p);                                                                                   \
        makes_file = false;                                                                        \
    }                                                                                              \
    static void name(const place *p)

/* A path below the place; the string is static. */
static const char *in(const place *p, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", p->directory, name);
    return path;
}

/* -- lines of the log -------------------------------------------------------------------------- */

enum { ENTRIES = 3 };

static void write_entries(buffer *text)
{
    buffer_init(text, (size_t)1 << 20);
    for (int i = 0; i < ENTRIES; i++) {
        OWNED(json_t) *entry =
            json_pack("{s:i, s:[f,s]}", "block", i, "values", 0.1 * i, "a\nb\\\"");
        assert_ok(record_append_line(entry, text));
    }
}

static grail_status parse(const buffer *text, size_t size, json_t **out)
{
    return record_parse("state", text->bytes, size, out);
}

TEST(test_entries_are_read_back)
{
    OWNED(buffer) text;
    write_entries(&text);
    OPENED(json_t, entries, parse(&text, text.size, &entries));
    assert_int_equal(json_array_size(entries), ENTRIES);
    const json_t *last = json_array_get(entries, ENTRIES - 1);
    assert_int_equal(json_integer_value(json_object_get(last, "block")), ENTRIES - 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(last, "values"), 1)),
                        "a\nb\\\"");
}

TEST(test_no_text_is_no_entries)
{
    OPENED(json_t, entries, record_parse("state", "", 0, &entries));
    assert_int_equal(json_array_size(entries), 0);
}

/* However much of the last line was written, it is left out; the others stay. */
TEST(test_a_torn_last_line_is_no_entry)
{
    OWNED(buffer) text;
    write_entries(&text);
    size_t begin = text.size - 1;
    while (text.bytes[begin - 1] != '\n') {
        begin--;
    }
    for (size_t size = begin; size < text.size; size++) {
        OPENED(json_t, entries, parse(&text, size, &entries));
        assert_int_equal(json_array_size(entries), ENTRIES - 1);
    }
}

TEST(test_every_flipped_bit_is_noticed)
{
    OWNED(buffer) text;
    write_entries(&text);
    for (size_t i = 0; i < text.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            json_t *entries = NULL;
            const unsigned char flip = (unsigned char)(1 << bit);
            text.bytes[i] ^= flip;
            assert_fails(parse(&text, text.size, &entries), GRAIL_ERROR_FORMAT,
                         "'state' is damaged, or another version of grail wrote it: line ");
            text.bytes[i] ^= flip;
        }
    }
}

TEST(test_a_line_of_another_kind_is_named)
{
    static const char other[] = "{\"grail_state\":1}\n";
    OWNED(buffer) text;
    json_t *entries = NULL;
    write_entries(&text);
    assert_ok(buffer_append_string(&text, other));
    assert_fails(
        parse(&text, text.size, &entries), GRAIL_ERROR_FORMAT,
        "is damaged, or another version of grail wrote it: line 4 does not match its checksum");
}

/* -- a run in steps ---------------------------------------------------------------------------- */

enum { STEPS = 6 };

static grail_status put_entry(run_record *o, const char *key)
{
    json_t *entry = json_pack("{s:i}", key, 1);
    if (entry == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "no entry");
    }
    const grail_status status = record_put(o, entry);
    json_decref(entry);
    return status;
}

/* The first `steps` steps of a run, or all of them, continuing what the record says is done. */
static grail_status run_steps(const char *path, bool resume, int steps)
{
    OWNED(run_record) *o = NULL;
    CHECK(record_open(path, makes_file ? "weights" : NULL, resume, &o));
    const bool has_begun = record_first(o) != NULL;
    const bool has_weights = record_get(o, "weights", NULL) != NULL;
    const bool is_made = record_is_committed(o);
    if (!makes_file) {
        CHECK(record_declare(o, "weights"));
        CHECK(record_declare(o, "report"));
    }
    if (steps > 1 && !has_begun) {
        CHECK(put_entry(o, "begun"));
    }
    if (steps > 2 && !has_weights && !is_made) {
        CHECK(record_write(o, "weights", "w", 1));
    }
    if (steps > 3 && !has_weights) {
        CHECK(put_entry(o, "weights"));
    }
    if (steps > 4 && !makes_file && !is_made) {
        CHECK(record_write(o, "report", "r", 1));
    }
    if (steps > 5) {
        CHECK(record_commit(o));
    }
    return GRAIL_OK;
}

static void assert_finished(const place *p)
{
    if (makes_file) {
        assert_contents(p->path, "w");
    } else {
        assert_contents(in(p, "out/weights"), "w");
        assert_contents(in(p, "out/report"), "r");
    }
    assert_false(file_exists(in(p, "out.partial")));
}

FORM_TEST(test_an_output_appears_with_its_commit)
{
    assert_ok(run_steps(p->path, false, STEPS));
    assert_finished(p);
}

FORM_TEST(test_a_run_that_ends_at_any_step_is_continued)
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

FORM_TEST(test_without_a_beginning_a_run_is_not_refused)
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

static const char *outcome(const place *p)
{
    return in(p, makes_file ? "out.partial/result/weights" : "out.partial/result");
}

static void append_commit(const place *p)
{
    struct stat info;
    OWNED(buffer) line;
    assert_int_equal(stat(outcome(p), &info), 0);
    json_t *entry =
        json_pack("{s:[I, I, I, I]}", "commit", (json_int_t)info.st_dev, (json_int_t)info.st_ino,
                  (json_int_t)info.st_mtim.tv_sec, (json_int_t)info.st_mtim.tv_nsec);
    buffer_init(&line, 1000);
    assert_ok(record_append_line(entry, &line));
    const int state = open(in(p, "out.partial/grail-state.jsonl"), O_WRONLY | O_APPEND);
    assert_int_equal(write(state, line.bytes, line.size), line.size);
    close(state);
    json_decref(entry);
}

/* The state that a run leaves when it ends right after the commit's rename. */
static void leave_behind_the_rename(const place *p)
{
    assert_ok(run_steps(p->path, false, STEPS - 1));
    append_commit(p);
    assert_int_equal(rename(outcome(p), p->path), 0);
}

/* Whether entries are seen; the first one says where the run begun. */
static bool sees_entries(const place *p)
{
    OPENED(run_record, o, record_look(p->path, &o));
    const json_t *first = record_first(o);
    assert_true(first == NULL || json_integer_value(json_object_get(first, "begun")) == 1);
    return first != NULL;
}

PLACE_TEST(test_the_entries_of_an_interrupted_run_can_be_seen)
{
    assert_false(sees_entries(p));
    assert_ok(run_steps(p->path, false, 1));
    assert_false(sees_entries(p));
    assert_ok(run_steps(p->path, true, 4));
    assert_true(sees_entries(p));
    support_write_file(in(p, "out.partial"), "grail-state.jsonl", "no record\n", 10);
    assert_false(sees_entries(p));
}

PLACE_TEST(test_what_lies_at_a_place_is_told_before_a_run_begins)
{
    assert_ok(record_check(p->path, false));
    assert_false(file_exists(in(p, "out.partial")));
    assert_ok(run_steps(p->path, false, 4));
    assert_fails(record_check(p->path, false), GRAIL_ERROR_EXISTS, "interrupted run");
    assert_ok(record_check(p->path, true));
    assert_ok(run_steps(p->path, true, STEPS));
    assert_finished(p);
    assert_fails(record_check(p->path, false), GRAIL_ERROR_EXISTS, "exists already");
    assert_fails(record_check(p->path, true), GRAIL_ERROR_EXISTS, "exists already");
}

/* Leaves a result whose rename failed. */
PLACE_TEST(test_the_entries_of_a_result_without_its_name_can_be_seen)
{
    assert_ok(run_steps(p->path, false, STEPS - 1));
    append_commit(p);
    assert_true(sees_entries(p));
    assert_int_equal(rename(in(p, "out.partial/result"), p->path), 0);
    assert_false(sees_entries(p));
}

FORM_TEST(test_a_run_that_ended_behind_its_commit_is_finished_by_resuming)
{
    leave_behind_the_rename(p);
    assert_fails(run_steps(p->path, false, STEPS), GRAIL_ERROR_EXISTS, "exists already");
    assert_ok(run_steps(p->path, true, STEPS));
    assert_finished(p);
}

FORM_TEST(test_the_state_of_a_result_that_has_gone_is_in_nobodys_way)
{
    leave_behind_the_rename(p);
    support_write_file(in(p, "out.partial"), "grail-saved-1", "s", 1);
    support_remove_tree(p->path);
    assert_ok(run_steps(p->path, false, STEPS));
    assert_finished(p);
    support_remove_tree(p->path);
    leave_behind_the_rename(p);
    support_remove_tree(p->path);
    assert_int_equal(mkdir(p->path, 0777), 0); /* another directory of that name */
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_EXISTS, "exists already");
}

/* -- what is not the output's own -------------------------------------------------------------- */

FORM_TEST(test_an_existing_output_is_left_alone)
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

FORM_TEST(test_an_output_that_appears_meanwhile_loses_nothing)
{
    assert_ok(run_steps(p->path, false, STEPS - 1));
    run_record *o = NULL;
    assert_ok(record_open(p->path, makes_file ? "weights" : NULL, true, &o));
    assert_int_equal(mkdir(p->path, 0777), 0);
    assert_fails(record_commit(o), GRAIL_ERROR_EXISTS, "appeared during the run; move it away");
    record_close(o);
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
        assert_false(file_exists(in(p, "out.partial/grail-state.jsonl")));
    }
    support_write_file(in(p, "out.partial"), "grail-state.jsonl", "", 0);
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_EXISTS, "it holds 'weights'");
    assert_contents(in(p, "out.partial/weights"), "precious");
}

FORM_TEST(test_a_damaged_state_is_named_and_kept)
{
    OWNED(buffer) text = {0};
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
}

PLACE_TEST(test_the_next_entry_takes_the_place_of_a_torn_one)
{
    buffer text = {0};
    assert_ok(run_steps(p->path, false, 3));
    assert_ok(file_read(in(p, "out.partial/grail-state.jsonl"), 1 << 20, &text));
    assert_ok(buffer_append_string(&text, "{\"record\":{\"weights\":1, and much more than that"));
    support_write_file(in(p, "out.partial"), "grail-state.jsonl", text.bytes, text.size);
    assert_ok(run_steps(p->path, true, 4));
    assert_true(sees_entries(p));
    buffer_fini(&text);
    assert_ok(file_read(in(p, "out.partial/grail-state.jsonl"), 1 << 20, &text));
    assert_int_equal(text.bytes[text.size - 1], '\n'); /* nothing of the torn line is left */
    assert_ok(run_steps(p->path, true, STEPS));
    assert_finished(p);
    buffer_fini(&text);
}

PLACE_TEST(test_a_log_that_is_too_large_is_refused)
{
    assert_int_equal(mkdir(in(p, "out.partial"), 0777), 0);
    support_write_file(in(p, "out.partial"), "grail-state.jsonl", "", 0);
    assert_int_equal(truncate(in(p, "out.partial/grail-state.jsonl"), (1L << 30) + 1), 0);
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_FORMAT,
                 "has 1073741825 bytes, more than the allowed 1073741824");
}

PLACE_TEST(test_a_log_that_is_no_file_is_refused)
{
    char log[512];
    snprintf(log, sizeof log, "%s", in(p, "out.partial/grail-state.jsonl"));
    assert_int_equal(mkdir(in(p, "out.partial"), 0777), 0);
    assert_int_equal(mkfifo(log, 0600), 0);
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_IO, "not a regular file");
    assert_int_equal(unlink(log), 0);
    support_write_file(p->directory, "elsewhere", "mine", 4);
    assert_int_equal(symlink("../elsewhere", log), 0);
    assert_fails(run_steps(p->path, true, STEPS), GRAIL_ERROR_IO, "cannot open");
    assert_contents(in(p, "elsewhere"), "mine");
}

PLACE_TEST(test_a_second_run_touches_nothing)
{
    run_record *o = NULL;
    assert_ok(record_open(p->path, NULL, false, &o));
    for (int resume = 0; resume < 2; resume++) {
        assert_fails(run_steps(p->path, resume == 1, STEPS), GRAIL_ERROR_EXISTS,
                     "wait until it ends, or choose another output");
    }
    assert_ok(record_declare(o, "weights"));
    assert_ok(put_entry(o, "begun"));
    assert_ok(record_write(o, "weights", "w", 1));
    for (int resume = 0; resume < 2; resume++) {
        assert_fails(run_steps(p->path, resume == 1, STEPS), GRAIL_ERROR_EXISTS,
                     "wait until it ends, or choose another output");
    }
    assert_ok(record_commit(o));
    record_close(o);
    assert_contents(in(p, "out/weights"), "w");
}

PLACE_TEST(test_an_abandoned_output_is_removed_with_what_was_declared)
{
    run_record *o = NULL;
    for (int foreign = 0; foreign < 2; foreign++) {
        assert_ok(record_open(p->path, NULL, false, &o));
        assert_ok(record_declare(o, "weights"));
        assert_ok(put_entry(o, "begun"));
        assert_ok(record_write(o, "weights", "w", 1));
        if (foreign == 1) {
            support_write_file(in(p, "out.partial/result"), "notes", "mine", 4);
        }
        record_abandon(o);
        record_close(o);
        assert_int_equal(file_exists(in(p, "out.partial")), foreign == 1);
        assert_false(file_exists(in(p, "out.partial/result/weights")));
    }
    assert_contents(in(p, "out.partial/result/notes"), "mine");
}

PLACE_TEST(test_only_names_of_files_are_declared)
{
    static const char *const wrong[] = {"",     ".",   "..", "../x", "/x",   "a/",
                                        "a/..", "./b", "//", "a//b", "a/b/c"};
    run_record *o = NULL;
    assert_ok(record_open(p->path, NULL, false, &o));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_fails(record_declare(o, wrong[i]), GRAIL_ERROR_ARGUMENT,
                     "is not the name of a file");
    }
    record_abandon(o);
    record_close(o);
    assert_false(file_exists(in(p, "out.partial")));
}

PLACE_TEST(test_a_file_may_have_a_folder_of_its_own)
{
    run_record *o = NULL;
    for (int ends = 0; ends < 3; ends++) { /* abandoned, laid out again, committed */
        assert_ok(record_open(p->path, NULL, false, &o));
        assert_ok(record_declare(o, "1_Pooling/config.json"));
        assert_ok(record_declare(o, "1_Pooling/more.json"));
        assert_ok(record_declare(o, "2_Normalize/config.json"));
        assert_ok(put_entry(o, "begun"));
        assert_ok(record_write(o, "1_Pooling/config.json", "old", 3));
        assert_ok(record_write(o, "1_Pooling/config.json", "{}", 2));
        assert_ok(record_write(o, "1_Pooling/more.json", "[]", 2));
        assert_contents(in(p, "out.partial/result/1_Pooling/config.json"), "{}");
        if (ends == 0) {
            record_abandon(o);
            assert_false(file_exists(in(p, "out.partial")));
        } else if (ends == 1) {
            record_clear(o);
            assert_false(file_exists(in(p, "out.partial/result/1_Pooling")));
            record_abandon(o);
        } else {
            assert_ok(record_commit(o));
            assert_contents(in(p, "out/1_Pooling/config.json"), "{}");
            assert_contents(in(p, "out/1_Pooling/more.json"), "[]");
            assert_false(file_exists(in(p, "out/2_Normalize")));
        }
        record_close(o);
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

FORM_TEST(test_every_failing_allocation_is_reported)
{
    support_fail_each_allocation(run_until_done, (void *)(uintptr_t)p);
}

CMFixtureFunction support_setup = json_memory_use;
