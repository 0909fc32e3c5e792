/* A model's tensors, from safetensors, torch, GGUF or ONNX files, in one file or in shards that an
 * index names. */
#ifndef GRAIL_FORMAT_WEIGHTS_CHECKPOINT_H
#define GRAIL_FORMAT_WEIGHTS_CHECKPOINT_H

#include "base/file.h"
#include "base/json.h"
#include "format/gguf/gguf_write.h"
#include "format/onnx/onnx_weights.h"
#include "format/weights/memory_file.h"
#include "format/weights/safetensors.h"

#define CHECKPOINT_SINGLE_NAME "model.safetensors"
#define CHECKPOINT_INDEX_NAME "model.safetensors.index.json"
#define CHECKPOINT_TORCH_SINGLE_NAME "pytorch_model.bin"
#define CHECKPOINT_TORCH_INDEX_NAME "pytorch_model.bin.index.json"

typedef struct checkpoint checkpoint;
typedef struct weights_format weights_format; /* format/weights/weights_format.h */

/**
 * Opens a weights file, or those of a directory: model.safetensors, else its shards, else
 * pytorch_model.bin, else its shards, else the only weights file there is. A missing shard, a
 * tensor listed but absent, present twice or present but not listed, a weight_map file name that is
 * not a plain base name: GRAIL_ERROR_FORMAT. The path of a shard or of an index is
 * GRAIL_ERROR_ARGUMENT; the message names the directory to open. *out is owned: checkpoint_close.
 */
grail_status checkpoint_open(const char *path, checkpoint **out) GRAIL_MUST_CHECK;
/** The tensors of a model in memory, as those of one safetensors file. The model's structs are read
 * until the function returns. What it says there of tensors, and of documents that have no fit
 * name: GRAIL_ERROR_ARGUMENT, SHAPE or UNSUPPORTED. *out is owned. */
grail_status checkpoint_open_memory(const grail_memory_model *memory,
                                    checkpoint **out) GRAIL_MUST_CHECK;
void checkpoint_close(checkpoint *c); /* NULL is allowed */

/**
 * Copies the tensors that cannot be mapped: those of a torch checkpoint that are strided,
 * and matrices of compressed-tensors (packed_groups.h), which are one tensor here. Their
 * data is NULL until then, so that names and shapes can be checked before the cost of copying.
 */
grail_status checkpoint_load(checkpoint *c) GRAIL_MUST_CHECK;

/** The path that was opened, for messages. */
const char *checkpoint_path(const checkpoint *c);
/** The directory of its files; NULL for a model in memory. */
const char *checkpoint_directory(const checkpoint *c);
/** The documents of a model in memory; NULL for files. */
const memory_documents *checkpoint_documents(const checkpoint *c);
/** The format of its files, never NULL. */
const weights_format *checkpoint_format(const checkpoint *c);

int64_t checkpoint_count(const checkpoint *c);
const tensor_view *checkpoint_at(const checkpoint *c, int64_t i);
/** Finds a tensor by its stored name, otherwise by its plain name if only one tensor has it; -1
 * when there is none. */
int64_t checkpoint_index_of(const checkpoint *c, const char *name);
/** Name of tensor i without what wrappers of modules add anywhere in it, such as "module." or
 * "_fsdp_wrapped_module."; checkpoint_at(c, i)->name has them. */
const char *checkpoint_plain_name(const checkpoint *c, int64_t i);

/**
 * Says where a network lies among the tensors. Its names begin with `base`, apart from those of
 * what stands outside of the base, such as a head; "" where they have nothing in common. In the
 * plain names `prefix` stands in place of the base: for "model." that may be "", "model." or
 * "language_model.model.". Both are "" until they are set.
 */
grail_status checkpoint_set_prefix(checkpoint *c, const char *base,
                                   const char *prefix) GRAIL_MUST_CHECK;
const char *checkpoint_prefix(const checkpoint *c);
/**
 * Finds a tensor by its name in the network; -1 or NULL when there is none. What has no tensors
 * behind the prefix, such as a head, may also stand behind the first components of the prefix. A
 * name that has the prefix already is looked for as it is.
 */
int64_t checkpoint_place_of(const checkpoint *c, const char *name);
const tensor_view *checkpoint_find(const checkpoint *c, const char *name);
/** The plain name of tensor i without the prefix, or without those first components of it that it
 * has. */
const char *checkpoint_own_name(const checkpoint *c, int64_t i);
/** Whether the plain name of tensor i has the prefix. */
bool checkpoint_is_inside(const checkpoint *c, int64_t i);
/** How much of the stored name of tensor i comes before checkpoint_own_name. */
size_t checkpoint_own_begin(const checkpoint *c, int64_t i);

/** Gives a tensor its data, until it is released, where the checkpoint does not have it all the
 * time: what has to be copied, and what the function of a model in memory gives. Whoever reads data
 * calls this first. */
grail_status checkpoint_need(checkpoint *c, const tensor_view *tensor) GRAIL_MUST_CHECK;
void checkpoint_release(const checkpoint *c, const tensor_view *tensor);

/** Files in name order, and which of them holds tensor i of checkpoint_at. */
int checkpoint_file_count(const checkpoint *c);
const char *checkpoint_file_name(const checkpoint *c, int file); /* base name */
int checkpoint_file_of(const checkpoint *c, int64_t i);
/** The identity of a file when it was opened; zeroed for a model in memory. */
file_identity checkpoint_file_identity(const checkpoint *c, int file);
bool checkpoint_is_sharded(const checkpoint *c); /* has an index file */
/** Base name of the index file, or NULL. */
const char *checkpoint_index_name(const checkpoint *c);
/** Key under which a torch file keeps its tensors; "" if there is no key, and for safetensors. */
const char *checkpoint_wrapper(const checkpoint *c, int file);
/** Key of another dictionary in it that could hold the network; "" without one. */
const char *checkpoint_rival(const checkpoint *c, int file);

/** What a GGUF file says beside its tensors; NULL for other formats. */
const gguf_metadata *checkpoint_metadata(const checkpoint *c);

/** The model that an ONNX file holds; NULL for other formats. */
const onnx_file *checkpoint_onnx(const checkpoint *c);
/** Has its model in another form, `bytes`, which it owns, even after a failure
 * (onnx_weights_fold). */
grail_status checkpoint_fold_onnx(checkpoint *c, unsigned char *bytes,
                                  size_t size) GRAIL_MUST_CHECK;
/** Whether nodes of its file compute tensor i, which it has since it was folded. */
bool checkpoint_is_computed(const checkpoint *c, int64_t i);
/** The tensors that several nodes of its model read. */
const onnx_copy_list *checkpoint_onnx_copies(const checkpoint *c);

/* Writes a checkpoint with the same tensors, or some of them, in other shapes. */
typedef struct checkpoint_writer checkpoint_writer;

/** The form of a written checkpoint; zeroed: that of another. */
typedef struct written_form {
    const weights_format *format;      /* NULL: that of the other */
    const gguf_pairs *pairs;           /* the keys of a GGUF file; NULL: those of the other */
    const onnx_integer_list *integers; /* of an ONNX file that differ; NULL: none */
    bool keeps_values;                 /* all tensors have those of the other */
    const tensor_view *table; /* a tensor of one file that the other lacks, with its values; NULL:
                                 none */
    const int64_t *order; /* [tensors of the other] in which they stand in a file; NULL: as there */
} written_form;

/**
 * Lays out a checkpoint in `directory` (which exists). `shapes[i]` gives dtype, rank, shape
 * and the new name of tensor i of `like`, which must outlive *out; one without a name is left out.
 * In the format of `like` it has the same files as `like`; the caller adds the index. A matrix of
 * groups (tensor/groups.h) is written as packed_groups.h says, its scales in the dtype that `like`
 * has for it. In another format it is one file: model.safetensors, model.gguf, or a file of the
 * same base name. `form` is read until the function returns; NULL: that of `like`. No reader opens
 * the files until they are sealed. On failure, files that are already laid out stay. *out is owned:
 * checkpoint_writer_close.
 */
grail_status checkpoint_writer_open(const char *directory, const checkpoint *like,
                                    const written_form *form, const tensor_view shapes[],
                                    layout_start start, checkpoint_writer **out) GRAIL_MUST_CHECK;
/** `name` is that of the tensor in `like`. */
grail_status checkpoint_writer_put(checkpoint_writer *writer, const char *name, const void *data,
                                   size_t bytes) GRAIL_MUST_CHECK;
/** Reads a tensor back, as this writer or an earlier one wrote it. */
grail_status checkpoint_writer_get(const checkpoint_writer *writer, const char *name, void *data,
                                   size_t bytes) GRAIL_MUST_CHECK;
grail_status checkpoint_writer_flush(const checkpoint_writer *writer) GRAIL_MUST_CHECK;
/** Seals the files, so that readers open them. All tensors must have been put. */
grail_status checkpoint_writer_seal(const checkpoint_writer *writer) GRAIL_MUST_CHECK;
void checkpoint_writer_close(checkpoint_writer *writer); /* NULL is allowed */

/** Base names of the files of a written checkpoint: those that checkpoint_writer_open lays out, and
 * the index if there is one. The format may be NULL, as there. *out is owned. */
int checkpoint_written_count(const checkpoint *like, const weights_format *format);
grail_status checkpoint_written_name(const checkpoint *like, const weights_format *format, int file,
                                     char **out) GRAIL_MUST_CHECK;
/** Contents of the index, {"metadata": {"total_size": bytes of all tensors}, "weight_map": {tensor:
 * file}}, if `like` has an index and is written in its own format. *out is owned. */
grail_status checkpoint_written_index(const checkpoint *like, const tensor_view shapes[],
                                      json_t **out) GRAIL_MUST_CHECK;

#endif
