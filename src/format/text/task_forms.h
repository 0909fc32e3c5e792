/* How a JSON line of each task becomes contexts, continuations and the number of the right one, as
 * in lm-evaluation-harness. */
#ifndef GRAIL_FORMAT_TEXT_TASK_FORMS_H
#define GRAIL_FORMAT_TEXT_TASK_FORMS_H

#include "format/text/task_documents.h"

typedef struct task_form {
    const char *name;
    /* Adds the choices of an object to `out`, whose context is empty. */
    grail_status (*read)(const json_t *object, task_documents *out, int64_t *gold);
    const char *other_file;
    bool normalised;
    const char *split;
} task_form;

/** The names of the known tasks, up to NULL. */
extern const char *const task_names[];

/** The form of a task; NULL for a name that is none. */
const task_form *task_form_find(const char *name);

#endif
