/* Two networks on the same windows of text: the difference of their losses, whose error is smaller
 * than those of both, since what is hard for one is hard for the other. */
#ifndef GRAIL_CLI_PAIRED_H
#define GRAIL_CLI_PAIRED_H

#include <grail/eval.h>

#include <stdbool.h>

/** The mean NLL of each window that was measured so far. */
typedef struct window_losses {
    double *means; /* [count] owned */
    int64_t count;
} window_losses;

/** Takes those that an observer is told of. Returns whether there was memory. */
bool window_losses_take(window_losses *l, const grail_eval_progress *p);
void window_losses_fini(window_losses *l); /* works on a zeroed one */

typedef struct paired_difference {
    double mean;  /* of `of` less `from` */
    double error; /* its standard error over the windows; NaN with one */
} paired_difference;

/** Both have as many windows, at least one. */
paired_difference paired_difference_of(const window_losses *of, const window_losses *from);

#endif
