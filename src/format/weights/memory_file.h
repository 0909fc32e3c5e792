/* A model in memory (grail/memory.h) in the form of a weights file: its tensors, and the documents
 * that would lie beside it. */
#ifndef GRAIL_FORMAT_WEIGHTS_MEMORY_FILE_H
#define GRAIL_FORMAT_WEIGHTS_MEMORY_FILE_H

#include "format/tensor_file.h"

#include <grail/memory.h>

/** What messages call the model. */
const char *memory_model_name(const grail_memory_model *memory);

/** Checks the tensors, and copies all but their data; *out is owned: tensor_file_close. What the
 * model's `load` gives has its data from tensor_file_need to tensor_file_release. Messages name
 * the model and the tensor. */
grail_status memory_file_open(const grail_memory_model *memory, tensor_file **out) GRAIL_MUST_CHECK;

/* Copies of documents. */
typedef struct memory_documents {
    grail_document *items; /* [count]; names and bytes are owned, and a zero follows the bytes */
    int count;
} memory_documents;

/** The caller calls memory_documents_fini afterwards, even after a failure. */
grail_status memory_documents_copy(const grail_memory_model *memory,
                                   memory_documents *out) GRAIL_MUST_CHECK;
/** Adds a copy. */
grail_status memory_documents_add(memory_documents *documents,
                                  const grail_document *document) GRAIL_MUST_CHECK;
void memory_documents_fini(memory_documents *documents); /* works on a zeroed one */
/** NULL when there is none of that name. */
const grail_document *memory_documents_find(const memory_documents *documents, const char *name);

#endif
