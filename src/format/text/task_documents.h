/* Documents of multiple-choice tasks: each is some choices, of which one is
 * right, and a choice is a context with a continuation whose likelihood is measured. */
#ifndef GRAIL_FORMAT_TEXT_TASK_DOCUMENTS_H
#define GRAIL_FORMAT_TEXT_TASK_DOCUMENTS_H

#include "base/json.h"

/** Choices of a document, at least two. */
enum { TASK_MOST_CHOICES = 64 };

/** Places in `text` of the documents. Spaces at the end of the context belong to the continuation,
 * because tokens begin with them. */
typedef struct task_choice {
    size_t begin, split, end; /* the context, and from `split` on the continuation */
    int64_t characters;       /* of the choice itself, without the space before it */
} task_choice;

typedef struct task_document {
    int64_t first, count; /* of the choices */
    int64_t gold;         /* the right one, from 0 */
    int64_t line;         /* of the file, from 1 */
} task_document;

typedef struct task_documents {
    char *name;      /* of the task; owned */
    char *path;      /* of its file; owned */
    bool normalised; /* it has a score for which likelihoods are divided by lengths */
    buffer text;     /* UTF-8 */
    task_choice *choices;
    int64_t choice_count;
    task_document *documents;
    int64_t count;
    char hash[65];  /* SHA-256 of the lines of the entire file */
    buffer context; /* of the choices that are added next */
    buffer scratch;
} task_documents;

void task_documents_fini(task_documents *d); /* works on a zeroed one */

/** Adds d->context with " " and `choice` as a choice of the document that is read; an empty one is
 * refused in the name of `field`. */
grail_status task_add_choice(task_documents *d, const char *field,
                             const char *choice) GRAIL_MUST_CHECK;

#endif
