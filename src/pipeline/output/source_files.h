/* The files of the model that a run reads: its weights, its configuration, and the companions that
 * are copied into the result (tokenizer, generation settings). They are identified before the first
 * block, and must be unchanged when the result is finished. */
#ifndef GRAIL_PIPELINE_OUTPUT_SOURCE_FILES_H
#define GRAIL_PIPELINE_OUTPUT_SOURCE_FILES_H

#include "arch/model.h"
#include "base/file.h"

typedef struct source_file {
    char *name;                     /* in the model's directory, "1_Pooling/config.json"; owned */
    char *path;                     /* owned; NULL for a document of a model in memory */
    const grail_document *document; /* borrowed from that model, which does not change */
    file_identity identity;
    bool is_companion;
} source_file;

typedef struct source_files {
    source_file *items; /* weights first */
    size_t count;
} source_files;

/**
 * Finds the files, or the documents of a model in memory that go with a result. A companion that is
 * not a regular file, or is larger than 256 MiB, or is a symbolic link to a file outside the
 * model's directory, is an error that names it. Links into the `blobs` of a Hugging Face cache,
 * beside its `snapshots`, are allowed. The caller calls source_files_fini afterwards, even after a
 * failure.
 */
grail_status source_files_find(const grail_model *model, source_files *out) GRAIL_MUST_CHECK;
void source_files_fini(source_files *files); /* works on a zeroed one */

/** Checks that all files are as they were found; the message names one that is not. */
grail_status source_files_check(const source_files *files) GRAIL_MUST_CHECK;

/** Appends a companion's bytes; a file that is not as it was found is an error. */
grail_status source_file_read(const source_file *file, buffer *out) GRAIL_MUST_CHECK;

#endif
