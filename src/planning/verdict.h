/* Whether chosen widths are taken: they are judged beside uniform ones by samples that the choice
 * has not seen, and taken where they are ahead by more than chance. */
#ifndef GRAIL_PLANNING_VERDICT_H
#define GRAIL_PLANNING_VERDICT_H

#include "planning/judgement.h"

/* Standard errors by which chosen widths must lead. A single sample that uniform widths lose gives
 * a lead of one standard error, however many samples there are; of two it takes four. */
enum { VERDICT_ERRORS = 2 };

typedef struct verdict {
    bool is_judged; /* the widths differ, and both were judged */
    bool is_ahead;  /* the chosen ones, by more than VERDICT_ERRORS */
    double divergence, uniform_divergence;
    lead lead; /* of the chosen ones */
} verdict;

/** Runs both compressions, kept[sites], with `options`, and judges them. */
grail_status verdict_find(const grail_compress_options *options, const int64_t *chosen,
                          const int64_t *uniform, int sites, verdict *out) GRAIL_MUST_CHECK;

enum { VERDICT_TEXT = 320 };

/** Says which widths were taken, and why: those that `name` chose, or uniform ones. */
void verdict_text(const verdict *v, const char *name, char out[VERDICT_TEXT]);
/** Says what uniform widths cost that were asked for, where free ones were chosen by `name`. */
void verdict_cost_text(const verdict *v, const char *name, char out[VERDICT_TEXT]);

#endif
