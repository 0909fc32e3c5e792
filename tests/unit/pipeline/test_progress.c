/* What is told while a block is worked on, and a run that is cancelled there. */
#include "lab.h"

#include "base/file.h"

enum { BLOCKS = 2, LEAST_STEPS = 8 };

/* What the observer of steps was told. */
typedef struct steps {
    int calls, cancel_at;
    int block, of_block[BLOCKS];
    double last, reached[BLOCKS];
} steps;

static int observe(void *user, int block, int blocks, double done)
{
    steps *s = user;
    assert_int_equal(blocks, BLOCKS);
    assert_in_range(block, s->block, BLOCKS - 1); /* blocks follow each other */
    assert_true(done > 0.0 && done <= 1.0);
    assert_true(block > s->block || done >= s->last);
    s->block = block;
    s->last = done;
    s->of_block[block]++;
    s->reached[block] = done;
    s->calls++;
    return s->calls == s->cancel_at;
}

static grail_status run_watched(grail_compress_options options, int cancel_at, steps *s)
{
    *s = (steps){.cancel_at = cancel_at};
    options.run.step_observer = observe;
    options.run.observer_user = s;
    return lab_compress(&options);
}

LAB_TEST(progress_moves_within_a_block)
{
    steps s;
    const char *kept = lab_path(l, "kept");
    grail_compress_options options = lab_options(l, lab_golden("llama3"), kept);
    assert_ok(run_watched(options, 0, &s));
    for (int b = 0; b < BLOCKS; b++) {
        assert_true(s.of_block[b] >= LEAST_STEPS);
    }
    assert_true(s.reached[0] == 1.0);
    options.output.path = lab_path(l, "recomputed"); /* passes begin at the begin of the block */
    options.run.memory = 1;
    assert_ok(run_watched(options, 0, &s));
    assert_true(s.reached[0] == 1.0);
}

LAB_TEST(a_run_that_is_cancelled_within_a_block_continues_to_the_same_bytes)
{
    steps s;
    char output[LAB_PATH + 16];
    const char *whole = lab_path(l, "whole");
    grail_compress_options options = lab_options(l, lab_golden("llama3"), whole);
    assert_ok(run_watched(options, 0, &s));
    const int calls = s.calls;
    options.output.path = output;
    for (int at = 1; at <= calls; at += 3) {
        snprintf(output, sizeof output, "%s-%d", whole, at);
        options.output.resume = 0;
        assert_fails(run_watched(options, at, &s), GRAIL_ERROR_CANCELLED, "cancelled in block");
        assert_false(file_exists(output));
        options.output.resume = 1;
        assert_ok(run_watched(options, 0, &s));
        assert_same_checkpoint(whole, output);
    }
}
