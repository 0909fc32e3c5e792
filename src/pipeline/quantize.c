/* Rounding with feedback: the public function. */
#include "base/option_values.h"
#include "pipeline/network/rounding.h"
#include "pipeline/request/options.h"

#include <grail/quantize.h>

#include <string.h>

/* Of the options of a run: what is read, and with which means. Nothing is cut. */
static grail_compress_options options_of_pass(const grail_compress_options *run)
{
    grail_compress_options o;
    grail_compress_options_init(&o);
    o.read = run->read;
    o.run = run->run;
    o.run.heal_observer = NULL;
    return o;
}

static grail_status check_type(const char *type)
{
    static const char *const names[] = {"q8_0", "q4_0", "q4_k", NULL};
    int found = 0;
    CHECK(option_given("type", "type", type));
    return error_about(option_find_word("type", type, names, &found), "type");
}

grail_status grail_quantize(const grail_compress_options *run,
                            const grail_quantize_options *options, grail_gguf_facts *facts)
{
    grail_status status = GRAIL_OK;
    compression_request *request = NULL;
    calibration_network *network = NULL;
    gguf_export *file = NULL;
    const grail_compress_options o = options_of_pass(run);
    TRY(option_given("path", "path", options->path));
    TRY(check_type(options->type));
    TRY(compress_options_check(&o));
    TRY(request_open(&o, (request_purpose){.reads_samples = true}, &request));
    TRY(gguf_export_open(request->model, options->path, options->type, &file));
    TRY(network_create(request, o.run.memory, &network));
    TRY(rounding_run(network, file));
    TRY(gguf_export_commit(file, facts));
out:
    gguf_export_free(file);
    network_free(network);
    request_close(request);
    return status;
}
