/* The choices of a cell beyond selector, ratio, repair, samples and seed: every field of
 * grail_compress_options and grail_plan_options that has a key, and the kinds of sites. A recipe or
 * a grid gives one value of each, or an array of values, which are then combined. */
#ifndef GRAIL_STUDY_RECIPE_CHOICES_H
#define GRAIL_STUDY_RECIPE_CHOICES_H

#include "base/json.h"

#include <grail/plan.h>

enum { SWEEP_MOST_KINDS = 16 };

/** One combination. */
typedef struct sweep_choice {
    json_t *values;                      /* owned: {key: a value} */
    const char *kinds[SWEEP_MOST_KINDS]; /* of sites that a ratio applies to; static */
    int kind_count;
    int unhealed; /* index of the combination for cells that are not healed */
    char *text;   /* of the keys that vary within the recipe, "align=32 target=local"; NULL: none
                     does; owned */
} sweep_choice;

typedef struct sweep_choices {
    sweep_choice *list;
    int count;
} sweep_choices;

/** The precisions that a sweep may have, up to NULL. */
extern const char *const sweep_precisions[];

/** i-th key beside "sites": its description, NULL beyond the last. */
const grail_option *sweep_choice_key_at(int i);

/** Checks the values of an object of the recipe, such as the recipe itself or a grid; `where` is
 * used in messages. */
grail_status sweep_choices_check(const char *where, const json_t *object) GRAIL_MUST_CHECK;
/** Adds the combinations of a grid, which takes what it lacks from the recipe (`document`), and
 * that are not there yet. numbers[*count] of them, owned, become indices of `choices`. */
grail_status sweep_choices_add(const char *where, const json_t *document, const json_t *grid,
                               sweep_choices *choices, double **numbers,
                               int *count) GRAIL_MUST_CHECK;
/** Writes the texts, when all grids have been added. */
grail_status sweep_choices_name(const json_t *document, sweep_choices *choices) GRAIL_MUST_CHECK;
void sweep_choices_fini(sweep_choices *choices); /* works on a zeroed one */

/** Index of a combination by its text; -1 where there is none. */
int sweep_choices_find(const sweep_choices *choices, const char *text);

/** Whether its widths are chosen together, for a limit. */
bool sweep_choice_plans(const sweep_choice *choice);
/** Whether a ratio applies to sites of that kind. */
bool sweep_choice_cuts(const sweep_choice *choice, const char *kind);
/** The options of a run with these choices; words are borrowed. */
grail_status sweep_choice_options(const sweep_choice *choice,
                                  grail_plan_options *out) GRAIL_MUST_CHECK;

#endif
