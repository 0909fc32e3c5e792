/* Options that limit what a narrowed network may cost, and how its widths are chosen. */
#ifndef GRAIL_CLI_LIMIT_OPTIONS_H
#define GRAIL_CLI_LIMIT_OPTIONS_H

#include "options.h"

#include <grail/plan.h>

typedef struct limit_options {
    const char *ratio, *parameters, *macs, *kv_bytes, *size;
    grail_plan_options plan; /* what the other options ask for */
} limit_options;

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
    FIELDS_OF(GROUP_AMOUNT, grail_plan_option_at, GRAIL_SUBJECT_AMOUNT, (l).plan)
/* clang-format on */

/** Whether a limit was given. */
bool limit_options_given(const limit_options *l);

/** Fills in the limit of l->plan. Returns EXIT_OK, or EXIT_USAGE after a message on
 * stderr: exactly one limit is expected. */
int limit_options_read(const command *c, limit_options *l);

/** Says in a line where the widths of a plan miss the cut that its limit asks for by more than a
 * tenth; NULL: there is none. */
void limit_options_warn_missed(const grail_plan *plan);

/** How a choice of widths is reported; limit_watch_init fills it. */
typedef struct limit_watch {
    bool quiet;
    bool differ;     /* the widths may differ from layer to layer, and nobody has said so yet */
    char trial[200]; /* the last one in words, or "" */
} limit_watch;

/** `session` has the network. */
limit_watch limit_watch_init(const limit_options *l, grail_session *session, bool quiet);
/** Says once, where widths may differ, that stock loaders of text networks want them equal: at the
 * first trial, or when the widths are chosen. */
void limit_watch_note(limit_watch *w);
/** Prints the trials of a search on stderr, the best ones in lines of their own; an observer, whose
 * `user` is a limit_watch. */
int limit_options_watch(void *user, const grail_plan_trial *trial);
/** Says by print_progress how far a pass through the blocks is; an observer of steps. */
int limit_options_watch_steps(void *user, int block, int blocks, double done);

#endif
