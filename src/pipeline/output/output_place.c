#include "pipeline/output/output_place.h"

#include "base/file.h"
#include "base/name_list.h"
#include "base/record.h"
#include "pipeline/output/source_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_inside(const char *path, const char *directory)
{
    const size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == 0 || path[length] == '/');
}

/* `real` is the output's parent directory. */
static grail_status check_outside(const char *path, const char *real, const char *what,
                                  const char *model)
{
    grail_status status = GRAIL_OK;
    char *directory = model == NULL ? NULL : realpath(model, NULL);
    if (directory != NULL && is_inside(real, directory)) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "the output '%s' lies inside the %s '%s'; choose a directory outside the %s", path,
             what, model, what);
    }
out:
    free(directory); /* realpath's own allocator */
    return status;
}

grail_status output_check_place(const grail_compress_options *options, bool is_file)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    char *parent = NULL;
    char *real = NULL;
    if (options->output.path == NULL) {
        return GRAIL_OK;
    }
    TRY(path_trim(&path, options->output.path));
    TRY(name_check_ending(
        path,
        is_file ? "a GGUF file"
                : "a directory, with plan.json and report.json beside the weights (grail export "
                  "makes a file of it),",
        is_file ? ".gguf" : NULL)); /* a directory would be taken for a file */
    TRY(path_parent(&parent, path));
    real = realpath(parent, NULL);
    if (real == NULL) {
        TRY(error_from_errno("cannot find the output's parent directory", parent));
    }
    if (access(real, W_OK) != 0) {
        TRY(error_from_errno("cannot write to", real));
    }
    /* Behind the check of the parent: what cannot be looked at there would seem to exist. */
    if (file_exists(path) && !options->output.resume) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it", path);
    }
    if (!is_file) {
        TRY(check_outside(path, real, "model", options->read.model));
        TRY(check_outside(path, real, "teacher", options->heal.teacher));
    }
out:
    free(real); /* realpath's own allocator */
    memory_free(parent);
    memory_free(path);
    return status;
}

/* The files that will be copied; reading them needs nothing but the model. */
static grail_status check_sources(const grail_model *model)
{
    source_files sources = {0};
    const grail_status status = source_files_find(model, &sources);
    source_files_fini(&sources);
    return status;
}

grail_status output_check_free(const grail_compress_options *options, const grail_model *model)
{
    const grail_output_options *o = &options->output;
    if (o->path == NULL) {
        return GRAIL_OK;
    }
    CHECK(output_check_place(options, false));
    CHECK(check_sources(model));
    return o->dry_run != 0 ? GRAIL_OK : record_check(o->path, o->resume != 0);
}
