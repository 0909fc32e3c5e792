#ifndef GRAIL_MEMORY_H
#define GRAIL_MEMORY_H

#include <grail/compress.h>
#include <grail/dtype.h>
#include <grail/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A tensor in memory: row-major without gaps, little-endian. */
typedef struct grail_tensor {
    const char *name;
    grail_dtype dtype;    /* none of those of blocks */
    int rank;             /* 0 to 8 */
    const int64_t *shape; /* [rank]; may be NULL for rank 0 */
    const void *data;     /* of any alignment; NULL: the model's `load` gives it */
    GRAIL_ROOM(4);
} grail_tensor;

/**
 * Copies tensor number `tensor` to bytes[size], which is all of it: the product of its shape, in
 * its dtype. Returns GRAIL_OK; anything else says that it cannot, and the call that needed the
 * tensor fails with that status (GRAIL_ERROR_IO for a number that is none) and a message that names
 * the tensor, followed by the text that it left with grail_error_record(), if any. It runs on the
 * thread of that call, and must not use the model, nor what was opened from it.
 */
typedef grail_status (*grail_tensor_loader)(void *user, int64_t tensor, void *bytes, int64_t size);

/** A file beside the weights of a model. */
typedef struct grail_document {
    const char *name;  /* without a directory, such as "config.json" */
    const void *bytes; /* [size]; that of a result ends with a zero that is not counted */
    int64_t size;
    GRAIL_ROOM(4);
} grail_document;

/**
 * A model in memory: what its directory would hold. Zero it, then set what there is.
 *
 * Among the documents config.json (else grail.json) is the configuration; without one the family is
 * recognised from the tensors. Others are read where a directory's would be:
 * preprocessor_config.json, processor_config.json and open_clip_config.json (how images are
 * prepared), tokenizer.json, generation_config.json, and report.json with calibration.hashes of a
 * result. No other file of a tokenizer is read, and no chat template.
 */
typedef struct grail_memory_model {
    const char *name;            /* what messages and reports call it; NULL: "memory" */
    const grail_tensor *tensors; /* [tensor_count] */
    int64_t tensor_count;
    const grail_document *documents; /* [document_count], or NULL */
    int document_count;
    grail_tensor_loader load; /* for tensors without data; NULL where all have it */
    void *user;               /* of load */
    GRAIL_ROOM(4);
} grail_memory_model;

/**
 * Opens a model in memory, as grail_model_open_with opens a directory with one safetensors file.
 * The data of tensors, and `load` with `user`, are used until the model is closed and must not
 * change; everything else is copied. A tensor that `load` gives is asked for when it is needed and
 * kept no longer, so it is asked for several times: once before a run, which looks for NaN in all,
 * and in the passes over its block. A run holds the tensors of about one block and the table of
 * embeddings.
 *
 * A name that occurs twice, a shape with a negative number or of too many elements, a dtype of
 * blocks, data that is missing without `load`, and a document whose name is no plain file's are
 * refused; messages name the tensor or document. NaN and infinity are found as in files, when they
 * are read. *out is owned: grail_model_close, after all that was opened from it.
 */
GRAIL_API grail_status grail_model_open_memory(const grail_memory_model *memory,
                                               const grail_model_options *options,
                                               grail_model **out) GRAIL_MUST_CHECK;

/** A session (compress.h) on such a model. Runs with an output path write its narrow form as a
 * directory with one safetensors file and the documents. *out is owned: grail_session_close, after
 * every run that uses it. */
GRAIL_API grail_status grail_session_open_memory(const grail_memory_model *memory,
                                                 const grail_model_options *options,
                                                 grail_session **out) GRAIL_MUST_CHECK;

/**
 * The result of a run without output.path, which is done: what the output directory would hold.
 * The tensors have no data: load(user, i, bytes, size) of *out makes the bytes of tensors[i] from
 * the network that the run keeps, as often as it is called. So *out can be opened with
 * grail_model_open_memory as it is. The documents are the configuration (config.json, or grail.json
 * where the model had no config.json), plan.json, report.json, README.md, what loaders need
 * besides, and those of the model; the first call makes them.
 *
 * All of it is borrowed until the compression is closed. GRAIL_ERROR_ARGUMENT when the run is not
 * done, or wrote its result to its output; GRAIL_ERROR_UNSUPPORTED for a result that is a GGUF
 * file, which is written to a path alone.
 */
GRAIL_API grail_status grail_compression_result(grail_compression *compression,
                                                grail_memory_model *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
