/* What a cut costs: the dense network, the plain cut and the result on the same data; of a healed
 * one the teacher, the network before it was healed, and the result. */
#ifndef GRAIL_CLI_QUALITY_H
#define GRAIL_CLI_QUALITY_H

#include "run_options.h"

#include <jansson.h>

/** What the data holds of the calibration set of one of the networks: the one that knows most of
 * it.
 */
typedef struct seen_data {
    double share;             /* of the calibration set, 0 to 1 */
    int64_t images, measured; /* so many of the measured images; 0 for text, or if not recorded */
} seen_data;

/** Perplexities, or accuracies as fractions; with half of their 95 % interval or their standard
 * error. `before` is of the plain cut, NaN where units were folded, or of the network that was
 * healed. */
typedef struct quality {
    const char *data; /* NULL: not measured */
    bool of_images, is_healed;
    double dense, before, result;
    double dense_error, before_error, result_error;
    seen_data seen;
} quality;

/** Whether the data can be read, so that a long run does not end in this error. Returns an exit
 * code, after a message. */
int quality_check(const command *c, const char *data);

/** Measures the network that is read on some samples of the data, before the run that the data are
 * for: so data of another kind, or with other classes, are refused or warned of in time. The
 * session of `r` is open. Returns an exit code, after a message. */
int quality_try(run_options *r, const char *data);

/** Finishes the run `c` of `r`. With `data` (NULL: none) first measures the three networks on it,
 * read as the calibration set was, and adds them to the result's model card: the result has its
 * name only when it is measured. Prints the failure, and how an interrupted measurement is
 * continued; returns an exit code. */
int quality_finish(grail_compression *c, run_options *r, const char *data, bool quiet,
                   quality *out);

void quality_print(const quality *q);
/** JSON null where nothing was measured. */
json_t *quality_json(const quality *q);

#endif
