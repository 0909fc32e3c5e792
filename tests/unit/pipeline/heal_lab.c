#include "heal_lab.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void heal_briefly(grail_compress_options *options, const char *what)
{
    options->heal.what = what;
    options->heal.steps = 6;
}

grail_compress_options heal_run_options(const lab *l, const char *model, const char *output,
                                        const char *what)
{
    grail_compress_options options = lab_options(l, model, output);
    options.amount.sparsity_ffn = 0.5;
    options.heal.what = what;
    options.heal.steps = 48;
    options.heal.rate = 0.02;
    return options;
}

grail_compress_options heal_taught(const lab *l, const char *narrow, const char *teacher,
                                   const char *output, const char *what)
{
    grail_compress_options options = heal_run_options(l, narrow, output, what);
    options.amount.sparsity_ffn = options.amount.sparsity_heads = 0.0;
    options.heal.teacher = teacher;
    return options;
}

grail_compress_options heal_brief(const lab *l, const char *model, const char *output,
                                  const char *what)
{
    grail_compress_options options = heal_run_options(l, model, output, what);
    options.read.samples = 6;
    heal_briefly(&options, what);
    return options;
}

static void copy_partial(const heal_watch *w)
{
    OWNED(char) *command = NULL;
    assert_ok(memory_format(&command, "cp -r -- '%s.partial' '%s.partial'", w->output, w->copy));
    assert_int_equal(system(command), 0);
}

static int count_call(heal_watch *w)
{
    w->calls++;
    if (w->calls == w->copy_at) {
        copy_partial(w);
    }
    return w->calls == w->cancel_at;
}

static int watch_site(void *user, const grail_site_report *site, int block, int blocks,
                      double seconds_left)
{
    return count_call(user);
}

static int watch_healing(void *user, const grail_healing *now)
{
    heal_watch *w = user;
    w->told++;
    assert_true(now->steps <= now->most_steps);
    assert_true(!(now->held_after > now->held_before)); /* NaN: there was no time */
    if (now->ended != 0) {
        assert_true(w->count < HEAL_TRAININGS);
        w->made[w->count++] = *now;
    }
    return count_call(w);
}

grail_status heal_run(grail_compress_options options, heal_watch *w)
{
    w->calls = w->count = w->told = 0;
    w->output = options.output.path;
    options.run.observer = watch_site;
    options.run.heal_observer = watch_healing;
    options.run.observer_user = w;
    return lab_compress(&options);
}

const grail_healing *heal_made(const heal_watch *w, int i)
{
    const grail_healing *h = &w->made[i];
    assert_true(i < w->count);
    assert_true(isfinite(h->held_before) && h->held_after <= h->held_before);
    assert_true(isfinite(h->seen_before) && isfinite(h->seen_after));
    assert_int_equal(h->held_after<h->held_before, h->best_step> 0);
    return h;
}

void heal_forget_last_record(const lab *l, const char *expected)
{
    OWNED(buffer) text = {0};
    assert_ok(file_read(lab_path(l, "out.partial/grail-state.jsonl"), (size_t)1 << 24, &text));
    size_t size = text.size - 1;
    while (text.bytes[size - 1] != '\n') {
        size--;
    }
    assert_non_null(strstr((const char *)text.bytes + size, expected));
    support_write_file(lab_path(l, "out.partial"), "grail-state.jsonl", text.bytes, size);
}

static json_t *trainings_of(const char *directory)
{
    json_t *report = read_json(directory, "report.json");
    json_t *list = json_deep_copy(json_object_get(report, "healed"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        assert_int_equal(json_object_del(json_array_get(list, i), "seconds"), 0);
    }
    json_decref(report);
    assert_true(json_array_size(list) > 0);
    return list;
}

void assert_same_trainings(const char *left, const char *right)
{
    OWNED(json_t) *a = trainings_of(left);
    OWNED(json_t) *b = trainings_of(right);
    if (!json_equal(a, b)) {
        fail_msg("'%s' and '%s' report other trainings", left, right);
    }
}

static void assert_same_result(const char *left, const char *right)
{
    assert_same_checkpoint(left, right);
    assert_same_trainings(left, right);
}

/* Cancels at a call, and takes a copy of what is there at the same moment, as if the program had
 * died. Both go on. */
static void assert_goes_on_from(grail_compress_options options, int at)
{
    OWNED(char) *output = NULL;
    OWNED(char) *copy = NULL;
    const char *whole = options.output.path;
    assert_ok(memory_format(&output, "%s-%d", whole, at));
    assert_ok(memory_format(&copy, "%s-%d-copy", whole, at));
    heal_watch w = {.cancel_at = at, .copy_at = at, .copy = copy};
    options.output.path = output;
    assert_fails(heal_run(options, &w), GRAIL_ERROR_CANCELLED, "cancelled");
    options.output.resume = 1;
    heal_watch again = {0};
    assert_ok(heal_run(options, &again));
    assert_same_result(whole, output);
    options.output.path = copy;
    assert_ok(heal_run(options, &again));
    assert_same_result(whole, copy);
}

void assert_heals_on(grail_compress_options options, int places)
{
    heal_watch w = {0};
    assert_ok(heal_run(options, &w));
    assert_true(w.calls >= places);
    const int calls = w.calls;
    for (int at = 1; at <= calls; at++) {
        if (support_takes(at - 1, 3)) { /* no multiple of two, as files of states take turns */
            assert_goes_on_from(options, at);
        }
    }
}
