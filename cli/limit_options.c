#include "limit_options.h"

#include "interrupt.h"
#include "print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The limits in the order of their options; `limit` is the library's word. */
typedef struct limit_value {
    const char *option, *limit, *text;
} limit_value;

enum { LIMITS = 5 };

static void list_limits(const limit_options *l, limit_value list[LIMITS])
{
    list[0] = (limit_value){"target-ratio", "params", l->ratio};
    list[1] = (limit_value){"target-params", "params", l->parameters};
    list[2] = (limit_value){"target-macs", "macs", l->macs};
    list[3] = (limit_value){"target-kv-bytes", "kv-bytes", l->kv_bytes};
    list[4] = (limit_value){"target-size", "size", l->size};
}

bool limit_options_given(const limit_options *l)
{
    limit_value list[LIMITS];
    bool given = false;
    list_limits(l, list);
    for (int i = 0; i < LIMITS; i++) {
        given = given || list[i].text != NULL;
    }
    return given;
}

/* A positive number with a suffix of thousands: K, M, G or B, T, each perhaps with a B for bytes.
 */
static bool read_amount(const char *text, double *out)
{
    char *end = NULL;
    double factor = 1.0;
    const double number = strtod(text, &end);
    if (end == text || !isfinite(number) || !(number > 0.0)) {
        return false;
    }
    switch (*end) {
    case 'K':
    case 'k':
        factor = 1e3;
        break;
    case 'M':
        factor = 1e6;
        break;
    case 'G':
    case 'B':
        factor = 1e9;
        break;
    case 'T':
        factor = 1e12;
        break;
    default:
        break;
    }
    end += factor > 1.0 ? 1 : 0;
    end += factor > 1.0 && *end == 'B' ? 1 : 0;
    *out = number * factor;
    return *end == 0;
}

static int read_limit(const command *c, const limit_value *v, bool is_ratio,
                      grail_plan_options *out)
{
    double *amount = is_ratio ? &out->ratio : &out->most;
    const bool valid = read_amount(v->text, amount) && (!is_ratio || *amount <= 1.0);
    out->limit = v->limit;
    if (valid) {
        return EXIT_OK;
    }
    print_error("grail %s: --%s takes %s, not '%s'; see grail %s --help\n", c->name, v->option,
                is_ratio ? "a number above 0 and at most 1"
                         : "a number above 0, such as 700M, 5B or 4GB",
                v->text, c->name);
    return EXIT_USAGE;
}

int limit_options_read(const command *c, limit_options *l)
{
    limit_value list[LIMITS];
    int code = EXIT_OK;
    int given = 0;
    list_limits(l, list);
    for (int i = 0; i < LIMITS && code == EXIT_OK; i++) {
        if (list[i].text != NULL) {
            given++;
            code = read_limit(c, &list[i], i == 0, &l->plan);
        }
    }
    if (code == EXIT_OK && given != 1) {
        print_error("grail %s: give exactly one of --target-ratio, --target-params, --target-macs, "
                    "--target-kv-bytes and --target-size\n",
                    c->name);
        return EXIT_USAGE;
    }
    return code;
}

limit_watch limit_watch_init(const limit_options *l, grail_session *session, bool quiet)
{
    grail_model_facts facts = {0};
    const bool uniform = l->plan.uniform_widths != 0 || strcmp(l->plan.budget, "uniform") == 0;
    const bool known = grail_model_describe(grail_session_model(session), &facts) == GRAIL_OK;
    return (limit_watch){.quiet = quiet, .differ = !uniform && known && facts.reads_images == 0};
}

void limit_watch_note(limit_watch *w)
{
    if (w->differ) {
        print_error("grail: note: layers get widths of their own, which some loaders of language "
                    "models open for some families; --uniform-heads lets FFNs alone differ, which "
                    "more of them open, --uniform-widths gives all layers the same\n");
    }
    w->differ = false;
}

/* Without the end of the line. */
static void describe_trial(const grail_plan_trial *t, char *text, size_t size)
{
    char cost[HUMAN_SIZE];
    char left[HUMAN_SIZE];
    snprintf(text, size, "%s %d/%d  %-22s  %8s  divergence %.5f%s",
             t->is_alone != 0 ? "weighing site" : "trial", t->tried, t->most, t->name,
             human_count(t->cost, cost), t->divergence, t->is_best != 0 ? "  best so far" : "");
    if (t->seconds_left > 0.0) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, ", about %s left", human_seconds(t->seconds_left, left));
    }
}

/* The best trials have lines, the others are progress. */
int limit_options_watch(void *user, const grail_plan_trial *t)
{
    limit_watch *w = user;
    describe_trial(t, w->trial, sizeof w->trial);
    if (!w->quiet && t->is_best != 0) {
        print_error("%s\n", w->trial);
    } else if (!w->quiet && t->tried < t->most) {
        print_progress((double)NAN, "%s", w->trial);
    }
    return interrupt_came() ? 1 : 0;
}

/* The observer of trials is the one that stops. */
int limit_options_watch_steps(void *user, int block, int blocks, double done)
{
    const limit_watch *w = user;
    if (!w->quiet) {
        print_progress((double)NAN, "%s%sblock %d/%d: %.0f %%", w->trial,
                       w->trial[0] == 0 ? "measuring " : "; now ", block + 1, blocks, 100.0 * done);
    }
    return 0;
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
