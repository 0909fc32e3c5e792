/* Calibration samples: windows of text or images, in batches. */
#ifndef GRAIL_PIPELINE_REQUEST_CALIBRATION_H
#define GRAIL_PIPELINE_REQUEST_CALIBRATION_H

#include "arch/model.h"
#include "exec/execution.h"
#include "pipeline/request/drawn_text.h"
#include "stats/network_statistics.h"

#include <grail/compress.h>

typedef struct calibration {
    token_windows windows; /* of text */
    hash_set hashes; /* of images, or of runs of tokens; those of the model's own calibration too */
    char tokenizer_hash[65];
    float *pixels;    /* images [count, height, width, channels], owned; NULL for a dry run */
    int64_t channels; /* of images */
    int64_t count;    /* number of samples; 0 when nothing needs data */
    int64_t drawn;    /* of these, windows that the network drew itself */
    extent positions; /* of one sample; of documents in the mean */
    int64_t *firsts;  /* [batch_count + 1] the first sample of each batch, owned */
    int64_t batch_count;
    json_t *description; /* for report.json, owned */
    int users;           /* runs and sessions that hold it */
} calibration;

/** Reads the samples that the options name, for this model: a number below 0 is at most as many.
 * What is recorded of them includes the samples of these statistics, which may be NULL; `kept` is
 * that of drawn_text_read. *out is held once: calibration_release. */
grail_status calibration_read(const grail_model *model, const grail_compress_options *options,
                              const network_statistics *statistics, drawn_windows *kept,
                              calibration **out) GRAIL_MUST_CHECK;
/** Makes a calibration without samples, only with their description, for a run that needs no data.
 * *out is held once, even after a failure: calibration_release. */
grail_status calibration_empty(const grail_model *model, const network_statistics *statistics,
                               calibration **out) GRAIL_MUST_CHECK;
/** Fills an empty array, which is then equal whenever options and statistics name the same samples
 * of unchanged files. */
grail_status calibration_key(const grail_compress_options *options,
                             const network_statistics *statistics, json_t *key) GRAIL_MUST_CHECK;
calibration *calibration_hold(calibration *c);
void calibration_release(calibration *c); /* NULL is allowed */

/** Samples of one batch have equal positions. */
batch_shape calibration_shape(const calibration *c, int64_t batch);
batch_input calibration_input(const calibration *c, int64_t batch);
extent calibration_positions(const calibration *c, int64_t sample);
/** The batch that holds a sample. */
int64_t calibration_batch_of(const calibration *c, int64_t sample);

/** Whether a batch is held out to choose alpha and measure errors: every fourth batch; with two or
 * three batches the last; a single batch never. */
bool calibration_holds_out(const calibration *c, int64_t batch);

/** One of so many batches judges. */
enum { JUDGING_ONE_IN = 4 };

/** Which batches judge a narrowed network, if any: those by which widths are chosen, or others that
 * the choice has not seen. */
typedef enum judging { JUDGES_NOTHING, JUDGES_CHOICES, JUDGES_THE_CHOICE } judging;

/** Whether a batch is one of those that judge the result: every fourth one of four or more. */
bool calibration_judges(const calibration *c, judging which, int64_t batch);

/** Batches [first, end), whose sums are kept by themselves before they are added to those of the
 * chunks before them. */
typedef struct calibration_chunk {
    int64_t first, end;
} calibration_chunk;

/** The chunks follow from the samples alone, so sums have the same bits whoever takes them. */
int64_t calibration_chunk_count(const calibration *c);
calibration_chunk calibration_chunk_at(const calibration *c, int64_t chunk);

#endif
