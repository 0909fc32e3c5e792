/* What is healed after the closed form, and for how long. */
#ifndef GRAIL_HEAL_HEAL_OPTIONS_H
#define GRAIL_HEAL_HEAL_OPTIONS_H

#include "base/json.h"
#include "graph/graph.h"

#include <grail/compress.h>

/** The words of `what`: of two bits, 1 stands for blocks and 2 for the network. */
extern const char *const heal_words[];

/** The options, and what follows from them for a network. */
typedef struct heal_options {
    grail_heal_options chosen; /* with usual values in place of 0, but for the rate; its time may be
                                  infinity; without the teacher */
    bool blocks, network;      /* each block when it is fitted; the whole network at the end */
    double block_rate, network_rate;
    bool rate_grows; /* that of the network with the root of the tokens that its steps see */
} heal_options;

/** The usual rate depends on what the network reads, and on how wide it is. An unknown word is
 * GRAIL_ERROR_ARGUMENT. */
grail_status heal_options_read(const grail_heal_options *options, const graph *g,
                               heal_options *out) GRAIL_MUST_CHECK;

bool heals(const heal_options *options);

/** The largest rate of a training of the network whose steps see so many tokens, each counted as
 * often as it is seen. */
double heal_rate_of_network(const heal_options *options, double tokens);
/** Whether so many tokens move each row of a table often enough to train it. */
bool heal_trains_table(int64_t rows, double tokens);

/** The blocks that are trained together with `block`: *first to *last of `block_count`. It is alone
 * where blocks are not healed. */
void heal_group_of(const heal_options *options, int block, int block_count, int *first, int *last);

/** Samples of a step, where so many are seen: as chosen, or 64 images, or as many windows of
 * `length` tokens as 2,048 tokens hold, but 1 to 8. */
int64_t heal_step_samples(const heal_options *options, input_kind input, int64_t length,
                          int64_t seen);
/** Samples of `count` that no step sees: a sixteenth of the windows, at least 8, or an eighth of
 * the images, at least 16, but at most a quarter. */
int64_t heal_held_samples(input_kind input, int64_t count);

/** For fingerprints and reports. */
grail_status heal_options_to_json(const heal_options *options, json_t *object) GRAIL_MUST_CHECK;

#endif
