/* Calls in an order that makes no sense: errors that change nothing, and never a result. */
#include "lab.h"

#include "base/file.h"

typedef struct misuse {
    lab l;
    grail_compress_options options;
    char partial[LAB_PATH];
} misuse;

static void setup(misuse *m)
{
    lab_open(&m->l);
    m->options = lab_options(&m->l, lab_golden("llama3"), lab_path(&m->l, "out"));
    snprintf(m->partial, sizeof m->partial, "%s.partial", m->options.output.path);
}

/* Nothing can be made of what the handle holds, and the partial output stays. */
static void assert_no_result(const misuse *m, grail_compression *c, const char *why)
{
    const char *directory = NULL;
    grail_accuracy accuracy;
    assert_fails(grail_compression_finish(c), GRAIL_ERROR_ARGUMENT, why);
    assert_fails(grail_compression_seal(c, &directory), GRAIL_ERROR_ARGUMENT, why);
    assert_null(directory);
    assert_int_not_equal(grail_compression_accuracy(c, NULL, 0, NULL, NULL, &accuracy), GRAIL_OK);
    assert_false(file_exists(m->options.output.path));
    assert_true(file_exists(m->partial));
}

TEST(what_has_not_run_has_no_result)
{
    misuse m;
    grail_compression *c = NULL;
    setup(&m);
    assert_ok(grail_compression_open(&m.options, &c));
    assert_no_result(&m, c, "it has not run yet");
    assert_ok(grail_compression_run(c));
    assert_ok(grail_compression_finish(c));
    grail_compression_close(c);
    assert_true(file_exists(m.options.output.path));
    lab_close(&m.l);
}

TEST(what_was_described_cannot_be_run)
{
    misuse m;
    grail_compression *c = NULL;
    setup(&m);
    m.options.output.dry_run = 1;
    assert_ok(grail_compression_open(&m.options, &c));
    assert_fails(grail_compression_run(c), GRAIL_ERROR_ARGUMENT, "dry_run");
    assert_fails(grail_compression_finish(c), GRAIL_ERROR_ARGUMENT, "dry_run");
    grail_compression_close(c);
    assert_false(file_exists(m.partial));
    lab_close(&m.l);
}

TEST(a_run_is_done_and_finished_once)
{
    misuse m;
    grail_compression *c = NULL;
    setup(&m);
    assert_ok(grail_compression_open(&m.options, &c));
    assert_ok(grail_compression_run(c));
    assert_fails(grail_compression_run(c), GRAIL_ERROR_ARGUMENT, "it has run already");
    assert_ok(grail_compression_finish(c));
    assert_fails(grail_compression_run(c), GRAIL_ERROR_ARGUMENT, "it is finished already");
    assert_fails(grail_compression_finish(c), GRAIL_ERROR_ARGUMENT, "it is finished already");
    assert_fails(grail_compression_card_add(c, "Late", "text"), GRAIL_ERROR_ARGUMENT,
                 "it is finished already");
    assert_null(grail_compression_site(c, -1).name);
    assert_null(grail_compression_site(c, grail_compression_site_count(c)).name);
    grail_compression_close(c);
    lab_close(&m.l);
}

/* Cancels when a block has ended. */
static int cancel_after(void *user, const grail_site_report *site, int block, int blocks,
                        double seconds_left)
{
    return site == NULL && block == *(const int *)user;
}

static int cancel_healing(void *user, const grail_healing *now)
{
    return now->block == *(const int *)user;
}

/* A handle whose run was cancelled has no result; another one continues its output. */
static void assert_cancelled(misuse *m, const char *text)
{
    grail_compression *c = NULL;
    assert_ok(grail_compression_open(&m->options, &c));
    assert_fails(grail_compression_run(c), GRAIL_ERROR_CANCELLED, text);
    assert_no_result(m, c, "failed or was cancelled");
    assert_fails(grail_compression_run(c), GRAIL_ERROR_ARGUMENT, "failed or was cancelled");
    grail_compression_close(c);
    m->options.output.resume = 1;
    m->options.run.observer = NULL;
    m->options.run.heal_observer = NULL;
    assert_ok(lab_compress(&m->options));
}

TEST(a_cancelled_run_has_no_result_and_names_its_block)
{
    static const char *const texts[] = {"cancelled after block 1 of 2",
                                        "cancelled after block 2 of 2"};
    for (int block = 0; block < 2; block++) {
        misuse m;
        setup(&m);
        m.options.run.observer = cancel_after;
        m.options.run.observer_user = &block;
        assert_cancelled(&m, texts[block]);
        lab_close(&m.l);
    }
}

TEST(a_cancelled_healing_has_no_result_and_names_its_block)
{
    static const char *const texts[] = {"cancelled after 0 steps of healing",
                                        "cancelled in block 1 of 2", "cancelled in block 2 of 2"};
    for (int block = -1; block < 2; block++) {
        misuse m;
        setup(&m);
        m.options.heal.what = block < 0 ? "model" : "block";
        m.options.heal.steps = 1;
        m.options.run.heal_observer = cancel_healing;
        m.options.run.observer_user = &block;
        assert_cancelled(&m, texts[block + 1]);
        lab_close(&m.l);
    }
}
