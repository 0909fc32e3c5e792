#include "base/temporary_directory.h"

#include "base/file.h"

#include <stdlib.h>

grail_status temporary_directory(const char *name, char **out)
{
    grail_status status = GRAIL_OK;
    const char *named = getenv("TMPDIR");
    char *path = NULL;
    TRY(memory_format(&path, "%s/%s-XXXXXX", named == NULL || named[0] != '/' ? "/tmp" : named,
                      name));
    if (mkdtemp(path) == NULL) {
        TRY(error_from_errno("cannot make a directory like", path));
    }
    *out = path;
    path = NULL;
out:
    memory_free(path);
    return status;
}
