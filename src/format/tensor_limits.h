/* What a file of tensors may hold, whichever its format: readers enforce it, writers keep it. */
#ifndef GRAIL_FORMAT_TENSOR_LIMITS_H
#define GRAIL_FORMAT_TENSOR_LIMITS_H

enum { TENSOR_MOST_IN_FILE = 1000000, TENSOR_LONGEST_NAME = 4096 };

#endif
