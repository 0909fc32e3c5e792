#include "pipeline/output/output_path.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

grail_status output_path_copy(const char *path, char **out)
{
    grail_status status = GRAIL_OK;
    if (path[0] == 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "no output directory was given");
    }
    TRY(memory_copy_string(out, path));
    size_t length = strlen(*out);
    while (length > 1 && (*out)[length - 1] == '/') {
        (*out)[--length] = 0;
    }
out:
    return status;
}

/* Absolute path of the directory that OUTPUT will lie in; it does not exist yet itself. */
static grail_status absolute_parent(const char *path, char **out)
{
    grail_status status = GRAIL_OK;
    char *copy = NULL;
    char *real = NULL;
    TRY(memory_copy_string(&copy, path));
    char *slash = strrchr(copy, '/');
    if (slash == copy) {
        slash[1] = 0;
    } else if (slash != NULL) {
        *slash = 0;
    }
    const char *parent = slash == NULL ? "." : copy;
    real = realpath(parent, NULL);
    if (real == NULL) {
        TRY(error_from_errno("cannot find the directory of the output,", parent));
    }
    TRY(memory_copy_string(out, real));
out:
    free(real); /* realpath's own allocator */
    memory_free(copy);
    return status;
}

static bool is_inside(const char *path, const char *directory)
{
    const size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == 0 || path[length] == '/');
}

grail_status output_path_check(const char *path, const char *model)
{
    grail_status status = GRAIL_OK;
    char *parent = NULL;
    char *real = NULL;
    if (file_exists(path)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it", path);
    }
    TRY(absolute_parent(path, &parent));
    if (access(parent, W_OK) != 0) {
        TRY(error_from_errno("cannot write to", parent));
    }
    real = model == NULL ? NULL : realpath(model, NULL);
    if (real != NULL && is_inside(parent, real)) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the output '%s' lies inside the model '%s'; choose another",
             path, model);
    }
out:
    free(real); /* realpath's own allocator */
    memory_free(parent);
    return status;
}
