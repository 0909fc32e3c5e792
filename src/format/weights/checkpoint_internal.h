/* Shared by the parts of an open checkpoint: its files and its names. */
#ifndef GRAIL_FORMAT_WEIGHTS_CHECKPOINT_INTERNAL_H
#define GRAIL_FORMAT_WEIGHTS_CHECKPOINT_INTERNAL_H

#include "format/weights/checkpoint.h"
#include "format/weights/packed_groups.h"

typedef struct checkpoint_file {
    char *name; /* base name, owned */
    tensor_file *tensors;
} checkpoint_file;

/* A matrix that several tensors hold (packed_groups.h; pairs of MXFP4). */
typedef struct joined_tensor {
    char *name; /* owned */
    tensor_view whole;
    tensor_view parts[PACKED_PARTS]; /* of a matrix of groups */
    void *blocks;                    /* what those are put together to; owned */
} joined_tensor;

struct checkpoint {
    char *path;
    char *directory;
    char *index_name;       /* base name of the index of shards; NULL for one file */
    checkpoint_file *files; /* in name order */
    int file_count;
    const tensor_view **tensors; /* file by file, in the order of the data */
    int *file_of;
    int64_t count;
    joined_tensor *joined; /* [joined_count]; `tensors` has these instead of their parts */
    int64_t joined_count;
    name_index stored;
    name_index plain; /* by the names without those of wrappers */
    char **stripped;  /* [stripped_count]: the plain names; NULL: the stored one */
    int64_t stripped_count;
    char *base, *prefix;        /* of the network; NULL for "" */
    memory_documents documents; /* of a model in memory, which has no directory */
};

/** Indexes the names of the tensors, anew where they were indexed before. */
grail_status checkpoint_index_tensors(checkpoint *c) GRAIL_MUST_CHECK;
void checkpoint_free_names(checkpoint *c);

#endif
