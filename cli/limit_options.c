#include "limit_options.h"

#include "print.h"
#include "process.h"
#include "ranks.h"
#include "shared_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* `limit` is the library's word. */
static const struct {
    const char *option, *limit;
    const char *const *text;
} limits[] = {{"target-ratio", "params", &asked.target_ratio},
              {"target-params", "params", &asked.target_params},
              {"target-macs", "macs", &asked.target_macs},
              {"target-kv-bytes", "kv-bytes", &asked.target_kv_bytes},
              {"target-size", "size", &asked.target_size}};

enum { LIMITS = sizeof limits / sizeof limits[0] };

static int count_given(void)
{
    int given = 0;
    for (int i = 0; i < LIMITS; i++) {
        given += *limits[i].text != NULL ? 1 : 0;
    }
    return given;
}

bool limit_options_given(void)
{
    return count_given() > 0;
}

/* A positive number with a suffix of thousands: K, M, G or B, T, each perhaps with a B for bytes.
 */
static bool read_amount(const char *text, double *out)
{
    static const struct {
        char letter;
        double factor;
    } suffixes[] = {{'K', 1e3}, {'k', 1e3}, {'M', 1e6}, {'G', 1e9}, {'B', 1e9}, {'T', 1e12}};
    char *end = NULL;
    double factor = 1.0;
    const double number = strtod(text, &end);
    if (end == text || !isfinite(number) || !(number > 0.0)) {
        return false;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        factor = *end == suffixes[i].letter ? suffixes[i].factor : factor;
    }
    end += factor > 1.0 ? 1 : 0;
    end += factor > 1.0 && *end == 'B' ? 1 : 0;
    *out = number * factor;
    return *end == 0;
}

int limit_options_read(void)
{
    for (int i = 0; i < LIMITS; i++) {
        const char *text = *limits[i].text;
        const bool is_ratio = i == 0;
        double *amount = is_ratio ? &asked.plan.ratio : &asked.plan.most;
        if (text == NULL) {
            continue;
        }
        asked.plan.limit = limits[i].limit;
        if (!read_amount(text, amount) || (is_ratio && !(*amount <= 1.0))) {
            return print_misuse("--%s takes %s, not '%s'", limits[i].option,
                                is_ratio ? "a number above 0 and at most 1"
                                         : "a number above 0, such as 700M, 5B or 4GB",
                                text);
        }
    }
    if (count_given() != 1) {
        print_command_error("give exactly one of --target-ratio, --target-params, --target-macs, "
                            "--target-kv-bytes and --target-size");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static bool widths_differ;   /* they may, from layer to layer, and nobody has said so yet */
static char last_trial[200]; /* in words, or "" */

void limit_options_note(void)
{
    if (widths_differ) {
        print_error("grail: note: layers get widths of their own, which some loaders of language "
                    "models open for some families; --uniform-heads lets FFNs alone differ, which "
                    "more of them open, --uniform-widths gives all layers the same\n");
    }
    widths_differ = false;
}

/* The best trials have lines, the others are progress. */
static int watch(void *user, const grail_plan_trial *t)
{
    (void)user;
    char cost[HUMAN_SIZE];
    char left[HUMAN_SIZE];
    snprintf(last_trial, sizeof last_trial, "%s %d/%d  %-22s  %8s  divergence %.5f%s",
             t->is_alone != 0 ? "weighing site" : "trial", t->tried, t->most, t->name,
             human_count(t->cost, cost), t->divergence, t->is_best != 0 ? "  best so far" : "");
    if (t->seconds_left > 0.0) {
        append_text(last_trial, sizeof last_trial, ", about %s left",
                    human_seconds(t->seconds_left, left));
    }
    if (!asked.quiet && t->is_best != 0) {
        print_error("%s\n", last_trial);
    } else if (t->tried < t->most) {
        print_progress((double)NAN, "%s", last_trial);
    }
    return interrupt_came();
}

/* The observer of trials is the one that stops. */
static int watch_steps(void *user, int block, int blocks, double done)
{
    (void)user;
    if (block < 0) {
        return shared_options_watch_before(block, done);
    }
    print_progress((double)NAN, "%s%sblock %d/%d: %.0f %%", last_trial,
                   last_trial[0] == 0 ? "measuring " : "; now ", block + 1, blocks, 100.0 * done);
    return 0;
}

int limit_options_choose(const char *kinds, grail_plan **out)
{
    grail_plan_options *o = &asked.plan;
    grail_model_facts facts = {0};
    const grail_model *model = grail_session_model(asked.compress.read.session);
    widths_differ = o->uniform_widths == 0 && strcmp(o->budget, "uniform") != 0 &&
                    grail_model_describe(model, &facts) == GRAIL_OK && facts.reads_images == 0;
    o->compress = asked.compress;
    o->compress.run.step_observer = watch_steps;
    o->kinds = kinds;
    o->observer = watch;
    const grail_status status = grail_plan_make(o, out);
    print_progress_end();
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    const grail_plan_facts f = grail_plan_facts_get(*out);
    widths_differ = widths_differ && (f.stands_in != 0 || strcmp(f.formula, "uniform") != 0);
    const char *reason = f.reason;
    if (reason[0] != 0 && ranks_is_first() && !interrupt_came()) {
        print_error("grail: note: %s\n", reason);
    }
    return EXIT_OK;
}

void limit_options_warn_missed(const grail_plan *plan)
{
    static const double most_missed = 0.1;
    char most[HUMAN_SIZE];
    char cost[HUMAN_SIZE];
    const grail_plan_facts f = plan == NULL ? (grail_plan_facts){0} : grail_plan_facts_get(plan);
    if (f.most - f.cost > most_missed * (f.dense_cost - f.most) && f.most < f.dense_cost) {
        print_error("grail: warning: %s of %s stay where the limit lets %s stay, since one step of "
                    "the sites that may be cut would exceed it; let more kinds of sites be cut "
                    "(--sites), let their widths differ, or lower --align\n",
                    human_count(f.cost, cost), f.limit, human_count(f.most, most));
    }
}
