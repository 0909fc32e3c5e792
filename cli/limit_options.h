/* Options that limit what a narrowed network may cost, and how its widths are chosen. */
#ifndef GRAIL_CLI_LIMIT_OPTIONS_H
#define GRAIL_CLI_LIMIT_OPTIONS_H

#include "shared_options.h"

/** Rows of a command's table. */
/* clang-format off */
#define LIMIT_OPTIONS                                                                              \
    {GROUP_AMOUNT, "target-ratio", OPTION_TEXT, &asked.target_ratio, "R", NULL, .help =                     \
     "choose the widths of all sites so that this share of the parameters stays, above 0 to 1",    \
     .need = ONE_REQUIRED},                                                                        \
    {GROUP_AMOUNT, "target-params", OPTION_TEXT, &asked.target_params, "N", NULL, .help =               \
     "so that at most N parameters stay, such as 5B or 700M", .need = ONE_REQUIRED},               \
    {GROUP_AMOUNT, "target-macs", OPTION_TEXT, &asked.target_macs, "N", NULL, .help =                       \
     "so that at most N multiply-accumulates for each token or image stay, such as 1.2G",          \
     .need = ONE_REQUIRED},                                                                        \
    {GROUP_AMOUNT, "target-kv-bytes", OPTION_TEXT, &asked.target_kv_bytes, "BYTES", NULL, .help =           \
     "so that the key and value cache takes at most this for each token", .need = ONE_REQUIRED},   \
    {GROUP_AMOUNT, "target-size", OPTION_TEXT, &asked.target_size, "BYTES", NULL, .help =                   \
     "so that the weights take at most this, such as 4GB", .need = ONE_REQUIRED},                  \
    FIELDS_OF(GROUP_AMOUNT, grail_plan_option_at, GRAIL_SUBJECT_AMOUNT, asked.plan)
/* clang-format on */

/** Whether a limit was given. */
bool limit_options_given(void);

/** Completes asked.plan. Returns EXIT_OK, or EXIT_USAGE after a message on stderr: exactly one
 * limit is expected. */
int limit_options_read(void);

/** Chooses the widths for the limit that was given, of the kinds of sites `kinds`, in the session
 * of asked.compress: prints the trials of a search on stderr, the best ones in lines of their own.
 * Returns an exit code. */
int limit_options_choose(const char *kinds, grail_plan **out);
/** Says once that stock loaders of text networks want equal widths, where those chosen may differ.
 */
void limit_options_note(void);

/** Says in a line where the widths of a plan miss the cut that its limit asks for by more than a
 * tenth; NULL: there is none. */
void limit_options_warn_missed(const grail_plan *plan);

#endif
