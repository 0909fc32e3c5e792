/* Limits for files of tensors of every format: readers enforce them, writers keep them. */
#ifndef GRAIL_FORMAT_TENSOR_LIMITS_H
#define GRAIL_FORMAT_TENSOR_LIMITS_H

enum { TENSOR_MOST_IN_FILE = 1000000, TENSOR_LONGEST_NAME = 4096 };

#endif
