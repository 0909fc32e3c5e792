/* The files of the model that a run reads: its weights, its configuration, and the companions that
 * go over into the result (tokenizer, generation settings). They are looked at before the first
 * block, and must be what they were when the result is finished. */
#ifndef GRAIL_PIPELINE_OUTPUT_SOURCE_FILES_H
#define GRAIL_PIPELINE_OUTPUT_SOURCE_FILES_H

#include "arch/model.h"
#include "base/file.h"

typedef struct source_file {
    char *name; /* base name, owned */
    char *path; /* owned */
    file_identity identity;
    bool is_companion;
} source_file;

typedef struct source_files {
    source_file *items; /* weights first */
    size_t count;
} source_files;

/**
 * Finds them. A companion that is not a regular file, that is a symbolic link out of the model's
 * directory, or that is larger than companions are, is an error that names it. Links into the
 * `blobs` of a Hugging Face cache, beside its `snapshots`, are not out of it. To be followed by
 * source_files_fini, even where it fails.
 */
grail_status source_files_find(const grail_model *model, source_files *out) GRAIL_MUST_CHECK;
void source_files_fini(source_files *files); /* works on a zeroed one */

/** Whether all are as they were found; the one that is not is named. */
grail_status source_files_check(const source_files *files) GRAIL_MUST_CHECK;

/** Appends a companion's bytes, if it is as it was found. */
grail_status source_file_read(const source_file *file, buffer *out) GRAIL_MUST_CHECK;

#endif
