/* The progress of trainings, and their results. */
#ifndef GRAIL_CLI_HEAL_PROGRESS_H
#define GRAIL_CLI_HEAL_PROGRESS_H

#include <grail/compress.h>

#include <jansson.h>

/** Prints a training's progress on stderr: a line when it has ended, and until then its steps by
 * print_progress; an observer of healing. */
int heal_progress_watch(void *user, const grail_healing *now);

/** Prints the results of a run's trainings on stdout, a line each. */
void heal_summaries_print(const grail_compression *c);
/** The same as a JSON array, owned. */
json_t *heal_summaries_json(const grail_compression *c);

#endif
