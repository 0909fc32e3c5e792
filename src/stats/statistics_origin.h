/* Where the statistics of a network come from, as the keys of their file tell: of which model, in
 * which precision, over which samples. Files can be added where the first three agree. */
#ifndef GRAIL_STATS_STATISTICS_ORIGIN_H
#define GRAIL_STATS_STATISTICS_ORIGIN_H

#include "arch/model.h"
#include "base/hash.h"
#include "format/gguf/gguf_write.h"

typedef struct statistics_origin {
    char model[HASH_TEXT_SIZE]; /* statistics_hash_model */
    char *precision;            /* backend and precision, "cpu f32"; owned */
    char *fit; /* how convolutions are fitted from whole Gram matrices, "channel" or "kernel"; ""
                  without such matrices; owned */
    int64_t context; /* tokens of a window, or pixels of an image's side */
    int64_t samples;
    json_t *calibrations; /* array: what report.json records of each calibration set; owned */
    hash_set hashes;      /* of the samples, as calibration.hashes has them */
} statistics_origin;

void statistics_origin_fini(statistics_origin *o); /* works on a zeroed one */

/** Hashes what the network computes with: its configuration, and name, dtype, shape and three
 * pieces of every tensor that it reads. A model of which every tensor has changed, such as a
 * fine-tuned one, has another hash; reading all of a large one would take longer than using its
 * statistics. */
grail_status statistics_hash_model(const grail_model *model,
                                   char out[HASH_TEXT_SIZE]) GRAIL_MUST_CHECK;

/** Whether a file has the keys of grail; those of other programs have none. */
bool statistics_origin_exists(const gguf_metadata *m);

/** Reads the keys; messages name the key. statistics_origin_fini, even after a failure. */
grail_status statistics_origin_read(const gguf_metadata *m,
                                    statistics_origin *out) GRAIL_MUST_CHECK;

/** Puts the keys, and those that llama.cpp's tools expect of an importance matrix. */
grail_status statistics_origin_put(const statistics_origin *o, gguf_pairs *out) GRAIL_MUST_CHECK;

/** Adds the samples of another file of the same model, context and precision; others are
 * GRAIL_ERROR_ARGUMENT. The paths are for messages. */
grail_status statistics_origin_add(const char *path, statistics_origin *o, const char *other_path,
                                   const statistics_origin *other) GRAIL_MUST_CHECK;

#endif
