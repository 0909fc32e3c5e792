/* Options of healing, and its progress. */
#ifndef GRAIL_CLI_HEAL_OPTIONS_H
#define GRAIL_CLI_HEAL_OPTIONS_H

#include "options.h"

#include <grail/compress.h>

#include <jansson.h>
#include <math.h>

typedef struct heal_options {
    const char *what, *time;
    int64_t steps;
    double rate;
    const char *scratch;
} heal_options;

/** With none of the options given. */
#define HEAL_OPTIONS_NONE                                                                          \
    {                                                                                              \
        .steps = -1, .rate = (double)NAN                                                           \
    }

/** Rows of a command's table that fill the heal_options `h`, a static variable. `usual` names what
 * is healed without the option, `only_healing` the options without which nothing is (NULL:
 * something is). */
/* clang-format off */
#define HEAL_OPTIONS(h, usual, only_healing)                                                                     \
    {GROUP_HEAL, "heal", OPTION_TEXT, &(h).what, "WHAT", "none block model block,model", .help =   \
     "train after the closed form, without labels: block (each block towards the dense "           \
     "network's stream), model (the whole network towards its outputs), block,model or none "      \
     "(" usual ")"},                                                                               \
    {GROUP_HEAL, "heal-steps", OPTION_INTEGER, &(h).steps, "N", NULL, .help =                      \
     "steps of every training (160)", .only_with = (only_healing), .never_with = "heal=none"},                                                             \
    {GROUP_HEAL, "heal-rate", OPTION_REAL, &(h).rate, "R", NULL, .help =                           \
     "largest step, as a share of each matrix's root mean square (0.06 for blocks; for the "       \
     "network 0.02 with text, 0.005 with images)", .only_with = (only_healing), .never_with = "heal=none"},                                                \
    {GROUP_HEAL, "heal-time", OPTION_TEXT, &(h).time, "TIME", NULL, .help =                        \
     "time for all trainings together, such as 90s, 10m or 2h; the result then depends on the "    \
     "speed of the machine (no limit)", .only_with = (only_healing), .never_with = "heal=none"},                                                           \
    {GROUP_MACHINE, "scratch", OPTION_TEXT, &(h).scratch, "DIR", NULL, .help =                     \
     "keep large matrices in files there instead of in memory", .recorded = ""}
/* clang-format on */

/** Fills in the healing of `out`. Returns EXIT_OK, or EXIT_USAGE after a message on stderr. */
int heal_options_read(const command *c, const heal_options *h, grail_compress_options *out);

/** Prints a training's progress on stderr: a line when it has ended, and on a terminal until then
 * one that is updated in place. */
void heal_progress_print(const grail_healing *now);

/** Prints the results of a run's trainings on stdout, a line each. */
void heal_summaries_print(const grail_compression *c);
/** The same as a JSON array, owned. */
json_t *heal_summaries_json(const grail_compression *c);

#endif
