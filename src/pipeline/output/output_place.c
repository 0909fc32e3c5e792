#include "pipeline/output/output_place.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_inside(const char *path, const char *directory)
{
    const size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == 0 || path[length] == '/');
}

grail_status output_check_place(const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    char *parent = NULL;
    char *real = NULL;
    char *model = NULL;
    if (options->output == NULL) {
        return GRAIL_OK;
    }
    TRY(path_trim(&path, options->output));
    if (file_exists(path) && !options->resume) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it", path);
    }
    TRY(path_parent(&parent, path));
    real = realpath(parent, NULL);
    if (real == NULL) {
        TRY(error_from_errno("cannot find the output's parent directory", parent));
    }
    if (access(real, W_OK) != 0) {
        TRY(error_from_errno("cannot write to", real));
    }
    model = options->model == NULL ? NULL : realpath(options->model, NULL);
    if (model != NULL && is_inside(real, model)) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "the output '%s' lies inside the model '%s'; choose a directory outside the model",
             path, options->model);
    }
out:
    free(model); /* realpath's own allocator */
    free(real);  /* realpath's own allocator */
    memory_free(parent);
    memory_free(path);
    return status;
}
