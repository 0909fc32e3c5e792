#include "backend/backend.h"

#include <string.h>

static const backend *const backends[] = {&backend_cpu, &backend_ref};

enum { BACKEND_COUNT = sizeof backends / sizeof backends[0] };

const backend *backend_at(int i)
{
    return i >= 0 && i < BACKEND_COUNT ? backends[i] : NULL;
}

grail_status backend_find(const char *name, const backend **out)
{
    for (int i = 0; i < BACKEND_COUNT; i++) {
        if (strcmp(backends[i]->name, name) == 0) {
            *out = backends[i];
            return backends[i]->start == NULL ? GRAIL_OK : backends[i]->start();
        }
    }
    error_set(GRAIL_ERROR_ARGUMENT, "unknown backend '%s'; expected one of", name);
    for (int i = 0; i < BACKEND_COUNT; i++) {
        error_append("%s '%s'", i == 0 ? "" : ",", backends[i]->name);
    }
    return GRAIL_ERROR_ARGUMENT;
}
