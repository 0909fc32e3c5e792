/* Rounding with feedback: the public function. */
#include "base/option_values.h"
#include "pipeline/compression.h"
#include "pipeline/network/rounding.h"
#include "pipeline/request/options.h"

#include <grail/quantize.h>

#include <string.h>

/* Takes from the options of a run what is read, and with which means. Nothing is cut. */
static grail_compress_options options_of_pass(const grail_compress_options *run)
{
    grail_compress_options o;
    grail_compress_options_init(&o);
    o.read = run->read;
    o.run = run->run;
    o.run.heal_observer = NULL;
    return o;
}

/* Types of files first, then those of directories. */
static grail_status check_type(const grail_quantize_options *o, bool *of_directory)
{
    static const char *const names[] = {"q8_0", "q6_k",  "q5_0",  "q4_0",
                                        "q4_k", "w4a16", "w8a16", NULL};
    static const int first_of_directory = 5;
    int found = 0;
    CHECK(option_given("type", "type", o->type));
    CHECK(error_about(option_find_word("type", o->type, names, &found), "type"));
    *of_directory = found >= first_of_directory;
    if (*of_directory && o->table_type != NULL) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT,
                      "in a directory of %s the table of embeddings and the head stay as they are; "
                      "leave out the type of the table",
                      o->type),
            "table_type");
    }
    return GRAIL_OK;
}

static grail_status write_file(const grail_compress_options *run,
                               const grail_quantize_options *options, grail_gguf_facts *facts)
{
    grail_status status = GRAIL_OK;
    compression_request *request = NULL;
    calibration_network *network = NULL;
    gguf_export *file = NULL;
    const grail_compress_options o = options_of_pass(run);
    const grail_gguf_options types = {.type = options->type, .table_type = options->table_type};
    if (options->resume != 0) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "only a run towards a directory (types w4a16 and w8a16) can be continued; start this "
             "one anew, without resume");
    }
    TRY(compress_options_check(&o));
    if (comm_is_shared(o.run.comm)) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "rounding cannot be shared out over ranks yet, and there are %d; start one process",
             comm_size(o.run.comm));
    }
    TRY(request_open(&o, (request_purpose){.rounds = true}, &request));
    TRY(gguf_export_open(request->model, options->path, &types, &file));
    TRY(network_create(request, o.run.memory, &network));
    TRY(rounding_run(network, file));
    TRY(gguf_export_commit(file, facts));
out:
    gguf_export_free(file);
    network_free(network);
    request_close(request);
    return status;
}

/* A run that cuts nothing. */
static grail_status write_directory(const grail_compress_options *run,
                                    const grail_quantize_options *options, grail_gguf_facts *facts)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    grail_compress_options o = options_of_pass(run);
    o.output.path = options->path;
    o.output.quantize = options->type;
    o.output.resume = options->resume;
    TRY(grail_compression_open(&o, &c));
    TRY(grail_compression_run(c));
    TRY(grail_compression_finish(c));
    if (facts != NULL) {
        *facts = (grail_gguf_facts){
            .architecture = c->request->model->architecture->name,
            .type = c->request->rounded.name,
            .group = c->request->rounded.group,
            .tensors = rounded_types_count(&c->request->rounded, c->request->graph),
            .bytes = grail_compression_totals_get(c).bytes};
    }
out:
    grail_compression_close(c);
    return status;
}

grail_status grail_quantize(const grail_compress_options *run,
                            const grail_quantize_options *options, grail_gguf_facts *facts)
{
    bool of_directory = false;
    CHECK(OPTION_ROOM_OF(grail_quantize_options, options));
    CHECK(option_given("path", "path", options->path));
    CHECK(check_type(options, &of_directory));
    return of_directory ? write_directory(run, options, facts) : write_file(run, options, facts);
}
