/* Opening a run: everything that can be checked is checked here, before anything is written. */
#include "pipeline/compression.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void grail_compress_options_init(grail_compress_options *options)
{
    *options = (grail_compress_options){
        .selector = "wanda",
        .compensate = "full",
        .alpha = (double)NAN,
        .backend = "cpu",
    };
}

const char *grail_selector_at(int i)
{
    return selector_name_at(i);
}

/* Absolute path of a directory's parent joined with its name: OUTPUT does not exist yet. */
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

static grail_status check_output(const grail_compression *c, const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    char *parent = NULL;
    char *model = NULL;
    if (c->output == NULL) {
        return GRAIL_OK;
    }
    if (file_exists(c->output->path)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it",
             c->output->path);
    }
    TRY(absolute_parent(c->output->path, &parent));
    if (access(parent, W_OK) != 0) {
        TRY(error_from_errno("cannot write to", parent));
    }
    model = options->model == NULL ? NULL : realpath(options->model, NULL);
    if (model != NULL && is_inside(parent, model)) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the output '%s' lies inside the model '%s'; choose another",
             c->output->path, options->model);
    }
out:
    free(model); /* realpath's own allocator */
    memory_free(parent);
    return status;
}

/* "OUT/" and "OUT" are the same directory. */
static grail_status set_paths(grail_compression *c, const char *output)
{
    grail_status status = GRAIL_OK;
    if (output == NULL) {
        return GRAIL_OK;
    }
    if (output[0] == 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "no output directory was given");
    }
    TRY(memory_new(&c->output, 1, sizeof *c->output));
    c->output->lock = -1;
    TRY(memory_copy_string(&c->output->path, output));
    char *path = c->output->path;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        path[--length] = 0;
    }
    TRY(memory_format(&c->output->partial, "%s.partial", path));
out:
    return status;
}

grail_status grail_compression_open(const grail_compress_options *options, grail_compression **out)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    if (options->model == NULL && options->session == NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT, "no model was given");
    }
    TRY(memory_new(&c, 1, sizeof *c));
    TRY(set_paths(c, options->output));
    TRY(check_output(c, options));
    TRY(request_open(options, &c->request));
    TRY(network_create(c->request, options->memory, &c->network));
    if (!options->dry_run && c->output != NULL) {
        TRY(state_begin(c, options));
    }
    *out = c;
    c = NULL;
out:
    grail_compression_close(c);
    return status;
}

static void close_output(grail_compression *c)
{
    narrow_output *output = c->output;
    if (output == NULL) {
        return;
    }
    json_decref(output->records);
    checkpoint_writer_close(output->writer);
    state_end(c);
    memory_free(output->parameter_block);
    memory_free(output->tensor_parameter);
    memory_free(output->next_part);
    memory_free(output->path);
    memory_free(output->partial);
    memory_free(output);
}

void grail_compression_close(grail_compression *c)
{
    if (c == NULL) {
        return;
    }
    close_output(c);
    network_free(c->network);
    request_close(c->request);
    memory_free(c);
}
