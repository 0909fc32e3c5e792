#include "efforts.h"

#include "print.h"
#include "process.h"
#include "ranks.h"

#include <math.h>

static int watch_measuring(void *user, int block, int blocks, double done)
{
    (void)user;
    if (block < 0) {
        return shared_options_watch_before(block, done);
    }
    print_progress((double)NAN, "measuring how fast this machine is: block %d/%d", block + 1,
                   blocks);
    return interrupt_came();
}

static void print_phase(const grail_schedule_phase *p)
{
    char seconds[HUMAN_SIZE];
    char tokens[HUMAN_SIZE];
    if (p->seconds <= 0.0 && p->would_take > 0.0) {
        print_error("  %-20s left out, would take about %s\n", p->name,
                    human_seconds(p->would_take, seconds));
        return;
    }
    if (p->seconds <= 0.0) {
        print_error("  %-20s left out\n", p->name);
        return;
    }
    print_error("  %-20s about %-12s", p->name, human_seconds(p->seconds, seconds));
    if (p->steps > 0) {
        print_error(" up to %lld steps of %lld samples", (long long)p->steps,
                    (long long)p->step_samples);
    } else if (p->trials > 0) {
        print_error(" %d trials of %lld samples", p->trials, (long long)p->samples);
    } else if (p->samples > 0) {
        print_error(" %lld samples", (long long)p->samples);
    }
    if (p->tokens > 0) {
        print_error(", %s tokens", human_count((double)p->tokens, tokens));
    }
    print_error("\n");
}

static void print_schedule(const grail_schedule *s)
{
    const grail_schedule_facts f = grail_schedule_facts_get(s);
    char time[HUMAN_SIZE];
    char measured[HUMAN_SIZE];
    grail_schedule_phase phase;
    if (f.effort[0] != 0) {
        print_error("effort %s%s: %s\n", f.effort,
                    f.resumed != 0 ? ", as the interrupted run has chosen" : "", f.choices);
    }
    for (int i = 0; grail_schedule_phase_at(s, i, &phase) != 0; i++) {
        if (i == 0) {
            print_error("time %s, divided by what was measured in %s:\n",
                        human_seconds(f.time, time), human_seconds(f.measured, measured));
        }
        print_phase(&phase);
    }
    if (f.time > 0.0 && asked.data != NULL) {
        print_error("  measuring the result by --eval comes on top\n");
    }
}

int efforts_apply(grail_schedule_subject subject, const char *kinds, grail_schedule **out)
{
    enum { GIVEN_SIZE = 1024 };
    char given[GIVEN_SIZE];
    grail_plan_options *o = &asked.plan;
    const grail_step_observer before = asked.compress.run.step_observer;
    options_given_fields(given, sizeof given);
    o->compress = asked.compress;
    o->compress.run.step_observer = watch_measuring;
    o->kinds = kinds;
    const grail_status status = grail_schedule_make(&asked.effort, subject, given, o, out);
    print_progress_end();
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    asked.compress = o->compress;
    asked.compress.run.step_observer = before;
    if (ranks_is_first()) {
        print_schedule(*out);
    }
    return EXIT_OK;
}

json_t *efforts_json(const grail_schedule *s)
{
    const grail_schedule_facts f = grail_schedule_facts_get(s);
    grail_schedule_phase p;
    json_t *phases = json_array();
    for (int i = 0; grail_schedule_phase_at(s, i, &p) != 0; i++) {
        json_array_append_new(phases,
                              json_of("name", J(p.name), "seconds", J(p.seconds), "samples",
                                      J(p.samples), "tokens", J(p.tokens), "steps", J(p.steps),
                                      "step_samples", J(p.step_samples), "trials", J(p.trials),
                                      "would_take", J(p.would_take), NULL));
    }
    return json_of("effort", f.effort[0] == 0 ? json_null() : J(f.effort), "choices", J(f.choices),
                   "time", f.time > 0.0 ? J(f.time) : json_null(), "measured_seconds",
                   J(f.measured), "expected_seconds", J(f.expected), "resumed", J((bool)f.resumed),
                   "phases", phases, NULL);
}

int efforts_finish(grail_schedule *s)
{
    const grail_status status = s == NULL ? GRAIL_OK : grail_schedule_finish(s);
    return status == GRAIL_OK ? EXIT_OK : print_failure(status);
}
