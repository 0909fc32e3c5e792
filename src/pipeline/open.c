/* Opens a run: checks everything that can be checked before anything is written. */
#include "pipeline/compression.h"
#include "pipeline/output/output_place.h"
#include "pipeline/request/options.h"

grail_status grail_compression_open(const grail_compress_options *options, grail_compression **out)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    TRY(compress_options_check(options));
    TRY(memory_new(&c, 1, sizeof *c));
    buffer_init(&c->sections, SIZE_MAX / 4);
    if (options->output.command != NULL) {
        TRY(memory_copy_string(&c->command, options->output.command));
    }
    TRY(output_check_place(options));
    TRY(request_open(options, (request_purpose){.kept = NULL}, &c->request));
    if (options->output.path != NULL) {
        TRY(model_check_written(c->request->model));
    }
    TRY(network_create(c->request, options->run.memory, &c->network));
    if (options->output.dry_run == 0 && options->output.path != NULL) {
        TRY(output_open(c->request, options, &c->network->keep_activations, &c->output));
    }
    c->state = options->output.dry_run != 0 ? RUN_DESCRIBED : RUN_OPEN;
    *out = c;
    c = NULL;
out:
    grail_compression_close(c);
    return status;
}

void grail_compression_close(grail_compression *c)
{
    if (c == NULL) {
        return;
    }
    output_close(c->output);
    network_free(c->network);
    request_close(c->request);
    json_decref(c->report);
    buffer_fini(&c->sections);
    memory_free(c->command);
    memory_free(c);
}
