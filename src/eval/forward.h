/* Runs the entire network over many windows, block by block. Each block's weights are loaded once
 * for as many windows as the memory of the sample stream allows. */
#ifndef GRAIL_EVAL_FORWARD_H
#define GRAIL_EVAL_FORWARD_H

#include "exec/sample_stream.h"
#include "format/text/windows.h"

/** Told of the part of the network that all windows have passed, 0 to 1; a failure ends the pass.
 */
typedef struct forward_watch {
    grail_status (*tell)(void *user, double passed);
    void *user;
} forward_watch;

/** The sample stream of windows [first, first + count), behind the last block or further on.
 * Windows of one size that follow each other are run together. */
typedef struct forward_pass {
    const grail_model *model;
    backend *backend;
    parameter_store *store; /* borrowed */
    matrix_pool *pool;
    execution *run;
    sample_stream stream;
    const token_windows *windows;
    int64_t first, count;
    int64_t *firsts; /* [batch_count + 1] first window of each batch, counted from `first`; owned */
    int64_t batch_count;
    const forward_watch *watch; /* set before forward_begin, or NULL */
} forward_pass;

/** Windows of random token ids, the same in every run; token_windows_fini. */
grail_status random_windows(const grail_model *model, int64_t count, int64_t length,
                            token_windows *out) GRAIL_MUST_CHECK;

/** What holds windows of one pass together. */
typedef struct forward_limit {
    int64_t memory; /* bytes of the sample stream; 0: 1 GiB */
    int64_t tokens; /* so few that several ranks have some, and so many that the time goes into
                       products and not into loading weights; 0: no limit */
} forward_limit;

/** How many windows of at most `length` tokens a pass takes within the limit; at least one. */
int64_t forward_chunk(const grail_model *model, const backend *b, int64_t length,
                      forward_limit limit);

/** Runs embedding and blocks. `store` may be thin over the checkpoint. forward_end frees,
 * even after a failure. */
grail_status forward_begin(forward_pass *f, const grail_model *model, parameter_store *store,
                           const token_windows *windows, int64_t first,
                           int64_t count) GRAIL_MUST_CHECK;
void forward_end(forward_pass *f); /* works on a zeroed one */

/** Runs all windows on, from where the sample stream is up to node `end`. */
grail_status forward_advance(forward_pass *f, int end) GRAIL_MUST_CHECK;

/** `rows` positions of window `window` (an index into windows) from position `from`, of live value
 * `i` of the sample stream: borrowed until it moves. */
matrix forward_rows(const forward_pass *f, int i, int64_t window, int64_t from, int64_t rows);

/** Positions of a window that an output of the network has: all, or 1. */
int64_t forward_length(const forward_pass *f, int output, int64_t window);
/** What an output has for those positions, in a network whose outputs are named (graph_output):
 * borrowed until the pass ends. */
matrix forward_output(const forward_pass *f, int output, int64_t window, int64_t from,
                      int64_t rows);
/** Logits of those positions: out[rows, vocabulary], borrowed until the next call; or what the
 * first output has. */
grail_status forward_logits(forward_pass *f, int64_t window, int64_t from, int64_t rows,
                            matrix *out) GRAIL_MUST_CHECK;

/** Positions whose logits are computed at once. */
enum { FORWARD_ROWS = 256 };

#endif
