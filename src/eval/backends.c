/* The backends, for a program that lists them. */
#include "backend/backend.h"

#include <grail/machine.h>

int grail_backend_describe(int i, grail_backend *out)
{
    const backend_kind *kind = backend_kind_at(i);
    if (kind == NULL) {
        return 0;
    }
    *out = (grail_backend){.name = backend_kind_name(kind),
                           .summary = backend_kind_summary(kind),
                           .precision = backend_kind_precision(kind),
                           .operations = operation_count()};
    for (int k = 0; k < operation_count(); k++) {
        out->left_out += backend_leaves_out(kind, k) ? 1 : 0;
    }
    return 1;
}

const char *grail_backend_left_out(int i, int k)
{
    const backend_kind *kind = backend_kind_at(i);
    int found = 0;
    for (int slot = 0; kind != NULL && slot < operation_count(); slot++) {
        if (backend_leaves_out(kind, slot) && found++ == k) {
            return operation_name(slot);
        }
    }
    return NULL;
}
