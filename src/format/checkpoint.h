/* A model directory's tensors: one model.safetensors, or shards named by
 * model.safetensors.index.json. */
#ifndef GRAIL_FORMAT_CHECKPOINT_H
#define GRAIL_FORMAT_CHECKPOINT_H

#include "format/safetensors.h"

#define CHECKPOINT_SINGLE_NAME "model.safetensors"
#define CHECKPOINT_INDEX_NAME "model.safetensors.index.json"

typedef struct checkpoint checkpoint;

/**
 * Opens every shard of a directory. A missing shard, a tensor listed but absent, present twice or
 * present but not listed, a weight_map file name that is not a plain base name: GRAIL_ERROR_FORMAT.
 * *out is owned: checkpoint_close.
 */
grail_status checkpoint_open(const char *directory, checkpoint **out) GRAIL_MUST_CHECK;
void checkpoint_close(checkpoint *c); /* NULL is allowed */

const char *checkpoint_directory(const checkpoint *c);
int64_t checkpoint_count(const checkpoint *c);
const tensor_view *checkpoint_at(const checkpoint *c, int64_t i);
/** NULL, or -1, when there is none of that name. */
const tensor_view *checkpoint_find(const checkpoint *c, const char *name);
int64_t checkpoint_index_of(const checkpoint *c, const char *name);
void checkpoint_release(const checkpoint *c, const tensor_view *tensor);

/** Files in name order, and which of them holds tensor i of checkpoint_at. */
int checkpoint_file_count(const checkpoint *c);
const char *checkpoint_file_name(const checkpoint *c, int file); /* base name */
int checkpoint_file_of(const checkpoint *c, int64_t i);
bool checkpoint_is_sharded(const checkpoint *c); /* has an index file */

/* Writing a checkpoint of the same files and names with other shapes. */
typedef struct checkpoint_writer checkpoint_writer;

/**
 * Lays out a checkpoint in `directory` (which exists) with the files of `like`. `shapes[i]` gives
 * name, dtype, rank and shape of tensor i of `like`, which must outlive *out. Writes the index when
 * `like` has one. `resume` is that of safetensors_writer_open. On failure the files that this call
 * created are removed. *out is owned: checkpoint_writer_close.
 */
grail_status checkpoint_writer_open(const char *directory, const checkpoint *like,
                                    const tensor_view shapes[], bool resume,
                                    checkpoint_writer **out) GRAIL_MUST_CHECK;
grail_status checkpoint_writer_put(checkpoint_writer *writer, const char *name, const void *data,
                                   size_t bytes) GRAIL_MUST_CHECK;
grail_status checkpoint_writer_sync(checkpoint_writer *writer) GRAIL_MUST_CHECK;
void checkpoint_writer_close(checkpoint_writer *writer); /* NULL is allowed */

#endif
