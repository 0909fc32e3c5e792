/* A model's tensors, in whatever files they come: safetensors or torch checkpoints, in one file or
 * in shards that an index names. */
#ifndef GRAIL_FORMAT_WEIGHTS_CHECKPOINT_H
#define GRAIL_FORMAT_WEIGHTS_CHECKPOINT_H

#include "base/file.h"
#include "base/json.h"
#include "format/weights/safetensors.h"

#define CHECKPOINT_SINGLE_NAME "model.safetensors"
#define CHECKPOINT_INDEX_NAME "model.safetensors.index.json"
#define CHECKPOINT_TORCH_SINGLE_NAME "pytorch_model.bin"
#define CHECKPOINT_TORCH_INDEX_NAME "pytorch_model.bin.index.json"

typedef enum checkpoint_kind {
    CHECKPOINT_LIKE, /* when writing: as what was read */
    CHECKPOINT_SAFETENSORS,
    CHECKPOINT_TORCH
} checkpoint_kind;

typedef struct checkpoint checkpoint;

/**
 * Opens a weights file, or those of a directory: model.safetensors, else its shards, else
 * pytorch_model.bin, else its shards, else the only weights file there is. A missing shard, a
 * tensor listed but absent, present twice or present but not listed, a weight_map file name that is
 * not a plain base name: GRAIL_ERROR_FORMAT. The path of a shard, or of an index:
 * GRAIL_ERROR_ARGUMENT that names the directory. *out is owned: checkpoint_close.
 */
grail_status checkpoint_open(const char *path, checkpoint **out) GRAIL_MUST_CHECK;
void checkpoint_close(checkpoint *c); /* NULL is allowed */

/**
 * Makes the data of tensors that a torch checkpoint does not hold as they are (deflated, or
 * strided), which are NULL until then: names and shapes can be judged before that costs anything.
 */
grail_status checkpoint_load(checkpoint *c) GRAIL_MUST_CHECK;

/** What was opened, for messages. */
const char *checkpoint_path(const checkpoint *c);
/** Where its files are: of a file, the folder it is in. */
const char *checkpoint_directory(const checkpoint *c);
/** CHECKPOINT_SAFETENSORS or CHECKPOINT_TORCH. */
checkpoint_kind checkpoint_kind_of(const checkpoint *c);

int64_t checkpoint_count(const checkpoint *c);
const tensor_view *checkpoint_at(const checkpoint *c, int64_t i);
/**
 * By the stored name, else by the plain one where just one tensor has it. NULL, or -1, when there
 * is none of that name.
 */
const tensor_view *checkpoint_find(const checkpoint *c, const char *name);
int64_t checkpoint_index_of(const checkpoint *c, const char *name);
/** Name of tensor i without "module." and "_orig_mod." in front, which torch's wrappers of modules
 * add; checkpoint_at(c, i)->name has them. */
const char *checkpoint_plain_name(const checkpoint *c, int64_t i);
void checkpoint_release(const checkpoint *c, const tensor_view *tensor);

/** Files in name order, and which of them holds tensor i of checkpoint_at. */
int checkpoint_file_count(const checkpoint *c);
const char *checkpoint_file_name(const checkpoint *c, int file); /* base name */
int checkpoint_file_of(const checkpoint *c, int64_t i);
/** Of a file as it was opened. */
file_identity checkpoint_file_identity(const checkpoint *c, int file);
bool checkpoint_is_sharded(const checkpoint *c); /* has an index file */
/** Base name of the index file, or NULL. */
const char *checkpoint_index_name(const checkpoint *c);
/** Key under which a torch file keeps its tensors; "" where they are bare, and in safetensors. */
const char *checkpoint_wrapper(const checkpoint *c, int file);
/** Whether a file is a TorchScript archive, which is never written. */
bool checkpoint_is_script(const checkpoint *c, int file);

/* Writing a checkpoint of the same names with other shapes. */
typedef struct checkpoint_writer checkpoint_writer;

/**
 * Lays out a checkpoint in `directory` (which exists). `shapes[i]` gives name, dtype, rank and
 * shape of tensor i of `like`, which must outlive *out. In the format of `like` it has the files of
 * `like`, to which the caller adds the index; only a TorchScript archive becomes a plain .pth. In
 * the other format it is one file: model.safetensors, or a .pth of the same base name. Until they
 * are sealed no reader opens the files; where it fails, those before the failing one stay. *out is
 * owned: checkpoint_writer_close.
 */
grail_status checkpoint_writer_open(const char *directory, const checkpoint *like,
                                    checkpoint_kind kind, const tensor_view shapes[],
                                    layout_start start, checkpoint_writer **out) GRAIL_MUST_CHECK;
grail_status checkpoint_writer_put(checkpoint_writer *writer, const char *name, const void *data,
                                   size_t bytes) GRAIL_MUST_CHECK;
/** Reads a tensor back, as it was put by this writer or one before it. */
grail_status checkpoint_writer_get(const checkpoint_writer *writer, const char *name, void *data,
                                   size_t bytes) GRAIL_MUST_CHECK;
grail_status checkpoint_writer_flush(const checkpoint_writer *writer) GRAIL_MUST_CHECK;
/** Makes the files such that readers open them, when all tensors were put. */
grail_status checkpoint_writer_seal(const checkpoint_writer *writer) GRAIL_MUST_CHECK;
void checkpoint_writer_close(checkpoint_writer *writer); /* NULL is allowed */

/** Base names of the files that make such a checkpoint: those of checkpoint_writer_open, and of the
 * index where there is one. *out is owned. */
int checkpoint_written_count(const checkpoint *like, checkpoint_kind kind);
grail_status checkpoint_written_name(const checkpoint *like, checkpoint_kind kind, int file,
                                     char **out) GRAIL_MUST_CHECK;
/** Contents of the index, {"metadata": {"total_size": bytes of all tensors}, "weight_map": {tensor:
 * file}}, where `like` has one and is written in its own format. *out is owned. */
grail_status checkpoint_written_index(const checkpoint *like, const tensor_view shapes[],
                                      json_t **out) GRAIL_MUST_CHECK;

#endif
