/* What widths are rounded to. */
#ifndef GRAIL_REDUCE_ALIGNMENT_H
#define GRAIL_REDUCE_ALIGNMENT_H

#include <stdint.h>

enum { ALIGN_AUTO = 0, ANY_WIDTH = -1, FINEST_WIDTH = -2 };

/** What numbers of neurons, channels and latents become multiples of. */
typedef struct alignment {
    int64_t step;  /* ALIGN_AUTO: what suits a site; 1: all is counted as published codes count */
    int64_t block; /* of so many values in a row that are quantised together, of which `auto` keeps
                      whole ones; at most 1: none */
} alignment;

#endif
