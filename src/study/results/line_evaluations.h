/* What a network was measured on, in the JSON of a line: the only evaluation without a name in the
 * object itself, others in its array "evaluations". */
#ifndef GRAIL_STUDY_RESULTS_LINE_EVALUATIONS_H
#define GRAIL_STUDY_RESULTS_LINE_EVALUATIONS_H

#include "study/results/line.h"

/** Writes what the measures of a line have where it has no evaluations. */
grail_status write_evaluations(const result_line *line, json_t *object) GRAIL_MUST_CHECK;
/** Into a line that has none; names and hashes are borrowed from the object. */
grail_status read_evaluations(const char *where, const json_t *object,
                              result_line *line) GRAIL_MUST_CHECK;

void line_evaluations_free(line_evaluation *evaluations, int count);

#endif
