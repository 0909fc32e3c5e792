/* Rounding with feedback: the public function. A run that cuts nothing. */
#include "base/file.h"
#include "base/option_values.h"
#include "pipeline/compression.h"

#include <grail/quantize.h>

/* Takes from the options of a run what is read, and with which means. */
static grail_compress_options options_of_run(const grail_compress_options *run,
                                             const grail_quantize_options *options)
{
    grail_compress_options o;
    grail_compress_options_init(&o);
    o.read = run->read;
    o.run = run->run;
    o.run.heal_observer = NULL;
    o.output.path = options->path;
    o.output.quantize = options->type;
    o.output.resume = options->resume;
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

static grail_gguf_facts facts_of_directory(const grail_compression *c)
{
    const rounded_types *r = &c->request->rounded;
    return (grail_gguf_facts){.architecture = c->request->model->architecture->name,
                              .type = r->name,
                              .group = r->group,
                              .tensors = rounded_types_count(r, c->request->graph),
                              .bytes = grail_compression_totals_get(c).bytes};
}

grail_status grail_quantize(const grail_compress_options *run,
                            const grail_quantize_options *options, grail_gguf_facts *facts)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    bool of_directory = false;
    file_identity file = {0};
    CHECK(OPTION_ROOM_OF(grail_quantize_options, options));
    CHECK(option_given("path", "path", options->path));
    CHECK(check_type(options, &of_directory));
    const grail_compress_options o = options_of_run(run, options);
    const request_purpose purpose = {.is_file = !of_directory, .table_type = options->table_type};
    if (!of_directory && comm_is_shared(o.run.comm)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "rounding cannot be shared out over ranks yet, and there are %d; start "
                         "one process",
                         comm_size(o.run.comm));
    }
    TRY(compression_open(&o, purpose, &c));
    TRY(grail_compression_run(c));
    TRY(grail_compression_finish(c));
    TRY(of_directory ? GRAIL_OK : file_identify(options->path, &file));
    if (facts != NULL) {
        *facts = of_directory
                     ? facts_of_directory(c)
                     : gguf_target_facts(c->request->narrowed.target, c->request->graph, file.size);
    }
out:
    grail_compression_close(c);
    return status;
}
