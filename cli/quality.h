/* What a cut costs: the dense network, the plain cut and the result on the same data; of a healed
 * one the teacher, the network before it was healed, and the result. */
#ifndef GRAIL_CLI_QUALITY_H
#define GRAIL_CLI_QUALITY_H

#include "shared_options.h"

#include <grail/eval.h>

#include <jansson.h>

/** Rows of a command's table that say what is measured beside a run; `what` are the networks. */
/* clang-format off */
#define EVAL_OPTIONS(what)                                                                      \
    {GROUP_MEASURE, "eval", OPTION_TEXT, &asked.data, "PATH", NULL, .help =                          \
     "measure " what " on this data, which is read as the calibration set is", .recorded = ""},    \
    {GROUP_MEASURE, "windows", OPTION_INTEGER, &asked.windows, "N", NULL, .help =                    \
     "measure only the first N windows of a text (all)", .only_with = "eval", .recorded = ""},     \
    {GROUP_MEASURE, "images", OPTION_INTEGER, &asked.image_count, "N", NULL, .help =                      \
     "measure only N images, evenly spaced over the data, the same in every run (all)",            \
     .only_with = "eval", .field = "count", .recorded = ""}
/* clang-format on */

/** What the data holds of the calibration set of one of the networks: the one that knows most of
 * it.
 */
typedef struct seen_data {
    double share;             /* of the calibration set, 0 to 1 */
    int64_t images, measured; /* so many of the measured images; 0 for text, or if not recorded */
} seen_data;

/** What is measured: of a network with logits the perplexity, of images with classes the accuracy,
 * of an encoder of text how near its vectors of documents are to the dense network's, of other
 * networks of images, and where no image has a class, the relative error of their outputs. */
typedef enum quality_kind {
    QUALITY_PERPLEXITY,
    QUALITY_TOP1,
    QUALITY_COSINE,
    QUALITY_OUTPUTS
} quality_kind;

/** A perplexity, an accuracy as a fraction, a cosine or a relative error; with half of its 95 %
 * interval or its standard error. NaN where it was not measured. */
typedef struct quality_value {
    double value, error;
    double same,
        same_error;    /* of an encoder: the share of documents with the same nearest one; of
                          outputs: that of images with the same class as the dense network's */
    const char *worst; /* the output that the relative error is of */
    grail_output_comparison *outputs; /* [output_count of quality], or NULL; owned */
} quality_value;

/** `before` is of the plain cut, NaN where units were folded, or of the network that was healed.
 * `dense` is what the others are compared with where they are encoders. */
typedef struct quality {
    const char *data; /* NULL: not measured */
    quality_kind measure;
    bool is_healed;
    quality_value dense, before, result;
    grail_answers dense_answers, answers; /* of models that answer */
    char pooling[8];                      /* of an encoder */
    int64_t samples;
    const char *samples_name; /* "windows", "images" or "documents" */
    int64_t output_count;     /* whose names are those of the session's model */
    seen_data seen;
} quality;

/** Whether the data, if any, can be read, so that a long run does not end in this error. Returns an
 * exit code, after a message. */
int quality_check(void);

/** What is going to be measured. */
typedef struct quality_forecast {
    const char *samples_name; /* as of quality */
    int64_t samples;          /* 0: nothing is measured */
    char class_notice[256];   /* of grail_accuracy, for JSON; "" for text */
} quality_forecast;

/** Looks at the data, and measures the network that is read on some samples of it, but in a dry
 * run, before the run that the data are for: so data of another kind, or with other classes, are
 * refused or warned of in time. The session of asked.compress is open. Returns an exit code, after
 * a message.
 */
int quality_try(quality_forecast *out);

/** Finishes the run `c`. With data first measures the three networks on it,
 * read as the calibration set was, and adds them to the result's model card: the result has its
 * name only when it is measured. Prints the failure, and how an interrupted measurement is
 * continued; returns an exit code. */
int quality_finish(grail_compression *c, quality *out);

void quality_fini(quality *q);
void quality_print(const quality *q);
/** JSON null where nothing was measured. */
json_t *quality_json(const quality *q);

#endif
