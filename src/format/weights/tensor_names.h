/* The names of a checkpoint's tensors: as they are stored, without those of wrappers, and as the
 * network in it calls them. */
#ifndef GRAIL_FORMAT_WEIGHTS_TENSOR_NAMES_H
#define GRAIL_FORMAT_WEIGHTS_TENSOR_NAMES_H

#include "format/name_index.h"

#include <stdbool.h>

typedef struct tensor_names {
    name_index stored;
    name_index plain; /* by the names without those of wrappers */
    const char **of;  /* [count]: the stored names */
    char **stripped;  /* [count]: the plain names; NULL: the stored one */
    int64_t count;
    char *base, *prefix; /* of the network; NULL for "" */
} tensor_names;

/** Takes `names`, which is owned from then on, also after a failure; what it points to must outlive
 * *out. */
grail_status tensor_names_init(int64_t count, const char **names,
                               tensor_names *out) GRAIL_MUST_CHECK;
void tensor_names_fini(tensor_names *n); /* works on a zeroed one */

/** By the stored name, otherwise by the plain one if only one tensor has it; -1 without one. */
int64_t tensor_names_index(const tensor_names *n, const char *name);
const char *tensor_names_plain(const tensor_names *n, int64_t i);

/* See checkpoint.h. */
grail_status tensor_names_set_prefix(tensor_names *n, const char *base,
                                     const char *prefix) GRAIL_MUST_CHECK;
int64_t tensor_names_place(const tensor_names *n, const char *name);
const char *tensor_names_own(const tensor_names *n, int64_t i);
bool tensor_names_is_inside(const tensor_names *n, int64_t i);
size_t tensor_names_own_begin(const tensor_names *n, int64_t i);

#endif
