/* A model directory handed over as a model in memory, for tests of runs. */
#ifndef GRAIL_TESTS_PIPELINE_MEMORY_LAB_H
#define GRAIL_TESTS_PIPELINE_MEMORY_LAB_H

#include "lab.h"

#include "format/weights/checkpoint.h"
#include "support/owned.h"

#include <grail/memory.h>

typedef struct memory_lab {
    checkpoint *files;
    memory_documents documents;
    grail_tensor *tensors; /* [count], to be changed at will; owned */
    int64_t count;
    grail_memory_model memory;
    /* of memory_lab_load */
    int64_t calls;
    int64_t fails_at; /* the call that fails with `answer`; 0: none */
    grail_status answer;
} memory_lab;

/** All tensors of a directory and its small files, by the name "memory". */
void memory_lab_open(memory_lab *m, const char *directory);
void memory_lab_close(memory_lab *m);
/** Lets a function give all tensors. */
void memory_lab_load(memory_lab *m);

/** Runs the options on the model, without a path or a session of theirs, to the end, with its
 * result in their output or in memory. *out is closed, then the session. */
grail_status memory_lab_run(const memory_lab *m, grail_compress_options options,
                            grail_session **session, grail_compression **out);

/** The result has the tensors of the checkpoint in `directory`, byte for byte, and the files beside
 * it, but for the times of report.json. */
void assert_result_is(const grail_memory_model *result, const char *directory);
/** Two files of a laboratory have the same bytes. */
void assert_same_file(const lab *l, const char *left, const char *right);

OWNS(memory_lab, memory_lab_close)

#endif
