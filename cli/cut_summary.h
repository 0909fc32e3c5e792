/* What a run cuts: the widths, the cut that was reached beside the one asked for, and how well the
 * repair went. */
#ifndef GRAIL_CLI_CUT_SUMMARY_H
#define GRAIL_CLI_CUT_SUMMARY_H

#include "shared_options.h"

#include <jansson.h>

/** Warns of what is known before the run: few samples, a quantised type that not all matrices have,
 * and kinds that the model lacks (where `named`, since they were asked for by name). */
void cut_summary_warn(const grail_compression *c, bool named);
/** Says where a device was too small for whole batches. */
void cut_summary_note_memory(const grail_compression *c);
/** Warns of what is known after the run: sites whose units all scored equal, experts that no
 * calibration token reached, and fits that are worse than the plain cut on samples that they were
 * not made from. */
void cut_summary_warn_after(const grail_compression *c);
/** Says in a line by kind where rounding misses the cut that was asked for by more than a tenth, or
 * leaves a site uncut. */
void cut_summary_warn_missed(const grail_compression *c);

/** Prints the widths, the cut by kind, and after a run the errors by kind. */
void cut_summary_print(const grail_compression *c);
/** Prints who loads the result, and what would load where the widths are the reason. */
void cut_summary_print_loaders(const grail_compression *c);
/** [{"kind", "asked", "reached", "error_before", "error_after", "sites", "bias_only",
 * "kept_plain"}, ...], fractions, with null for what is not known. */
json_t *cut_summary_json(const grail_compression *c);

/** Widths at which a GPU is slow: how many, and the first one. */
typedef struct width_note {
    const char *site;
    int64_t width;
    int count;
} width_note;

/** Adds the width of a site, if it is one, or says what was found and a remedy. */
void cut_summary_note_width(const char *site, int64_t width, width_note *note);
void cut_summary_print_note(const width_note *note, const char *remedy);

#endif
