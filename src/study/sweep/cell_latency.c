#include "study/sweep/cell_latency.h"

#include "base/file.h"
#include "base/temporary_directory.h"

#include <grail/latency.h>

grail_status cell_written_begin(const sweep_recipe *recipe, grail_compress_options *options,
                                cell_written *out)
{
    if (recipe->latency == NULL) {
        return GRAIL_OK;
    }
    CHECK(temporary_directory("grail-sweep", &out->directory));
    CHECK(path_join(&out->output, out->directory, "cell"));
    options->output.path = out->output;
    return GRAIL_OK;
}

grail_status cell_written_open(grail_compression *run, cell_written *written)
{
    const char *sealed = NULL;
    if (written->directory == NULL) {
        return GRAIL_OK;
    }
    CHECK(grail_compression_seal(run, &sealed));
    return grail_model_open(sealed, &written->model);
}

void cell_written_fini(cell_written *written)
{
    grail_model_close(written->model);
    temporary_directory_remove(written->directory);
    memory_free(written->directory);
    memory_free(written->output);
    *written = (cell_written){0};
}

grail_status cell_latency_measure(const sweep_context *context, const grail_model *narrow,
                                  double *out)
{
    const grail_model *const both[] = {context->data->model, narrow};
    const int count = narrow == NULL ? 1 : 2;
    const grail_latency_options options = {.engine = context->recipe->latency};
    grail_latency found[2] = {0};
    if (options.engine == NULL) {
        return GRAIL_OK;
    }
    CHECK(error_in(grail_latency_measure(both, count, &options, found), "latency"));
    *out = found[count - 1].median;
    return GRAIL_OK;
}
