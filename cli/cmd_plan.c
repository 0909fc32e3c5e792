/* grail plan: choose the widths of all sites together, under a limit. */
#include "commands.h"
#include "input_options.h"
#include "print.h"

#include <grail/grail.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static grail_plan_options o;
static image_options images;
static const char *output, *calib, *protocol, *align_text = "auto";
static const char *ratio, *params, *macs, *kv_bytes, *size;
static int64_t seed, threads, tries;
static bool quiet, window_bos, uniform_widths;

static const option table[] = {
    {"output", OPTION_TEXT, &output, "FILE", NULL, "plan to write; must not exist; short form: -o"},
    {"calib", OPTION_TEXT, &calib, "PATH", NULL, "calibration set, as for grail compress"},
    {"target-ratio", OPTION_TEXT, &ratio, "R", NULL, "keep this share of the parameters"},
    {"target-params", OPTION_TEXT, &params, "N", NULL, "keep at most N parameters"},
    {"budget", OPTION_TEXT, &o.budget, "NAME", NULL, "how"},
    {"protocol", OPTION_TEXT, &protocol, "NAME", "plain lines wikitext2 ptb c4", "protocol"},
    {"window-bos", OPTION_FLAG, &window_bos, NULL, NULL, "begin every window with the BOS token"},
    {"context", OPTION_INTEGER, &o.compress.calibration.context, "N", NULL, "tokens"},
    IMAGE_OPTIONS(images, "train"),
    {"samples", OPTION_INTEGER, &o.compress.samples, "N", NULL, "samples"},
    {"seed", OPTION_INTEGER, &seed, "N", NULL, "seed"},
    {"selector", OPTION_SELECTOR, &o.compress.selector, "NAME", NULL, "selector (obs):"},
    {"sites", OPTION_TEXT, &o.kinds, "LIST", "ffn heads conv stream ffn,heads conv,stream",
     "kinds"},
    {"align", OPTION_TEXT, &align_text, "N", "auto 1 8 32 64 128 256", "align"},
    {"compensate", OPTION_TEXT, &o.compress.compensate, "NAME", "none grail full", "repair"},
    {"refit", OPTION_TEXT, &o.compress.refit, "NAME", "none all", "refit"},
    {"uniform-widths", OPTION_FLAG, &uniform_widths, NULL, NULL, "uniform"},
    {"tries", OPTION_INTEGER, &tries, "N", NULL, "tries"},
    {"seconds", OPTION_REAL, &o.seconds, "S", NULL, "seconds"},
    {"threads", OPTION_THREADS, &threads, "N", NULL, "threads"},
    {"quiet", OPTION_FLAG, &quiet, NULL, NULL, "no progress"},
    {0},
};
const option *const plan_options = table;

static int watch(void *user, const grail_plan_trial *t)
{
    (void)user;
    if (!quiet) {
        print_error("%3d/%d  %-24s cost %.6g  divergence %.5f%s\n", t->tried, t->most, t->name,
                    t->cost, t->divergence, t->is_best != 0 ? "  best" : "");
    }
    return 0;
}

static int run(int argc, char **argv)
{
    bool help = false;
    grail_plan *p = NULL;
    grail_plan_options_init(&o);
    int code = options_parse(&command_plan, table, argc, argv, &o.compress.model, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    o.compress.align = strcmp(align_text, "auto") == 0 ? 0 : atoll(align_text);
    o.compress.calibration.path = calib;
    o.compress.calibration.protocol = protocol == NULL ? "plain" : protocol;
    o.compress.calibration.window_bos = window_bos ? 1 : 0;
    o.compress.images = calib == NULL ? NULL : image_options_source(&images, calib);
    o.compress.seed = (uint64_t)seed;
    o.uniform_widths = uniform_widths ? 1 : 0;
    o.tries = (int)tries;
    o.observer = watch;
    o.ratio = ratio == NULL ? 0.0 : atof(ratio);
    o.most = params == NULL ? 0.0 : atof(params);
    if (threads > 0) {
        grail_set_threads((int)threads);
    }
    grail_status status = grail_plan_make(&o, &p);
    status = status == GRAIL_OK ? grail_plan_write(p, output) : status;
    if (status != GRAIL_OK) {
        code = print_failure(status);
    } else {
        const grail_plan_facts f = grail_plan_facts_get(p);
        printf("%s: %s %.10g of %.10g (limit %.10g) by '%s'; %.1f s\n", f.budget, f.limit, f.cost,
               f.dense_cost, f.most, f.formula, f.seconds);
    }
    grail_plan_free(p);
    return code;
}

const command command_plan = {
    .name = "plan",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "choose the widths of all sites under a limit",
    .run = run,
};
