/* Options that limit what a narrowed network may cost, and how its widths are chosen. */
#ifndef GRAIL_CLI_LIMIT_OPTIONS_H
#define GRAIL_CLI_LIMIT_OPTIONS_H

#include "options.h"

#include <grail/plan.h>

#include <math.h>

typedef struct limit_options {
    const char *ratio, *parameters, *macs, *kv_bytes, *size, *budget;
    int64_t tries;
    double seconds;
    double heads_removed;
    bool uniform_widths, drop_sublayers;
} limit_options;

/** With none of the options given. */
#define LIMIT_OPTIONS_NONE                                                                         \
    {                                                                                              \
        .heads_removed = (double)NAN                                                               \
    }

#define LIMITS_GIVEN "target-ratio target-params target-macs target-kv-bytes target-size"
#define NOT_SEARCHED "budget=uniform budget=flap budget=slimgpt budget=error"

/** Rows of a command's table that fill the limit_options `l`, a static variable. */
/* clang-format off */
#define LIMIT_OPTIONS(l)                                                                           \
    {GROUP_AMOUNT, "target-ratio", OPTION_TEXT, &(l).ratio, "R", NULL, .help =                     \
     "choose the widths of all sites so that this share of the parameters stays, above 0 to 1",    \
     .need = ONE_REQUIRED},                                                                        \
    {GROUP_AMOUNT, "target-params", OPTION_TEXT, &(l).parameters, "N", NULL, .help =               \
     "so that at most N parameters stay, such as 5B or 700M", .need = ONE_REQUIRED},               \
    {GROUP_AMOUNT, "target-macs", OPTION_TEXT, &(l).macs, "N", NULL, .help =                       \
     "so that at most N multiply-accumulates for each token or image stay, such as 1.2G",          \
     .need = ONE_REQUIRED},                                                                        \
    {GROUP_AMOUNT, "target-kv-bytes", OPTION_TEXT, &(l).kv_bytes, "BYTES", NULL, .help =           \
     "so that the key and value cache takes at most this for each token", .need = ONE_REQUIRED},   \
    {GROUP_AMOUNT, "target-size", OPTION_TEXT, &(l).size, "BYTES", NULL, .help =                   \
     "so that the weights take at most this, such as 4GB", .need = ONE_REQUIRED},                  \
    {GROUP_AMOUNT, "budget", OPTION_TEXT, &(l).budget, "NAME",                                     \
     "uniform flap slimgpt error search", .help =                                                  \
     "how widths are chosen for a limit: uniform (the same share everywhere), flap (units by "     \
     "their scores over the network), slimgpt (more from deeper blocks), error (the least sum "    \
     "of errors), search (trials, judged on samples kept apart) (search)", .only_with = LIMITS_GIVEN},                        \
    {GROUP_AMOUNT, "heads-removed", OPTION_REAL, &(l).heads_removed, "R", NULL, .help =            \
     "share of all heads to remove, 0 to below 1, with the rest of the cut on the other sites; "   \
     "for the budgets uniform, flap and error (chosen by the budget)", .only_with = LIMITS_GIVEN},                            \
    {GROUP_AMOUNT, "uniform-widths", OPTION_FLAG, &(l).uniform_widths, NULL, NULL, .help =         \
     "give all sites of one kind the same width, as stock loaders want; only the split between "   \
     "kinds is chosen", .only_with = LIMITS_GIVEN},                                                                           \
    {GROUP_AMOUNT, "drop-sublayers", OPTION_FLAG, &(l).drop_sublayers, NULL, NULL, .help =         \
     "let whole attentions and FFNs go where that is better, with --uniform-widths whole "         \
     "layers; for --budget search and error", .only_with = LIMITS_GIVEN},                                                     \
    {GROUP_AMOUNT, "tries", OPTION_INTEGER, &(l).tries, "N", NULL, .help =                         \
     "trials of a search (48)", .only_with = LIMITS_GIVEN, .never_with = NOT_SEARCHED},                                                                   \
    {GROUP_AMOUNT, "search-seconds", OPTION_REAL, &(l).seconds, "S", NULL, .help =                 \
     "begin no trial of a search after this time (no limit)", .only_with = LIMITS_GIVEN, .never_with = NOT_SEARCHED}
/* clang-format on */

/** Whether a limit was given. */
bool limit_options_given(const limit_options *l);

/** Fills in the limit and the choices of `out`. Returns EXIT_OK, or EXIT_USAGE after a message on
 * stderr: exactly one limit is expected. */
int limit_options_read(const command *c, const limit_options *l, grail_plan_options *out);

/** How a choice of widths is reported; limit_watch_init fills it. */
typedef struct limit_watch {
    bool quiet;
    bool differ; /* the widths may differ from layer to layer, and nobody has said so yet */
} limit_watch;

/** `session` has the network. */
limit_watch limit_watch_init(const limit_options *l, grail_session *session, bool quiet);
/** Says once, where widths may differ, that stock loaders of text networks want them equal: at the
 * first trial, or when the widths are chosen. */
void limit_watch_note(limit_watch *w);
/** Prints the trials of a search on stderr; an observer, whose `user` is a limit_watch. */
int limit_options_watch(void *user, const grail_plan_trial *trial);

#endif
