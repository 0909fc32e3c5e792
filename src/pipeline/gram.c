/* Statistics of a dense network as a file: the public function that takes them. */
#include "base/option_values.h"
#include "graph/operators.h"
#include "pipeline/network/gram_pass.h"
#include "pipeline/request/options.h"

/* Of the options of a run: what is read, how convolutions are fitted, and with which means. Nothing
 * is cut. */
static grail_compress_options options_of_pass(const grail_compress_options *run)
{
    grail_compress_options o;
    grail_compress_options_init(&o);
    o.read = run->read;
    o.fit.conv_fit = run->fit.conv_fit;
    o.run = run->run;
    o.run.observer = NULL;
    o.run.heal_observer = NULL;
    return o;
}

static bool has_convolutions(const compression_request *request, const gram_pass *p)
{
    bool found = false;
    for (int i = 0; i < p->count; i++) {
        const node *n = &request->graph->nodes[p->maps[i].node];
        found = found || (p->maps[i].gram_width > 0 && node_is_convolution(n));
    }
    return found;
}

/* What is recorded of the samples. Their hashes are keys of their own. */
static grail_status record_samples(const calibration *samples, statistics_origin *o)
{
    json_t *record = json_deep_copy(samples->description);
    if (record != NULL) {
        (void)json_object_del(record, "hashes");
        (void)json_object_del(record, "hashes_sha256");
    }
    o->calibrations = json_array();
    CHECK(json_push(o->calibrations, record));
    CHECK(hash_set_init(&o->hashes));
    return hash_set_add(&o->hashes, &samples->hashes);
}

static grail_status origin_of(const compression_request *request, const gram_pass *p,
                              statistics_origin *o)
{
    static const char *const fits[] = {
        [CONV_FIT_CHANNEL] = "channel", [CONV_FIT_KERNEL] = "kernel"};
    char precision[STATISTICS_NAME_SIZE];
    const calibration *samples = request->samples;
    statistics_precision(request->backend, precision);
    CHECK(statistics_hash_model(request->model, o->model));
    CHECK(memory_copy_string(&o->precision, precision));
    CHECK(memory_copy_string(
        &o->fit, has_convolutions(request, p) ? fits[request->plan.compensation.conv_fit] : ""));
    o->context = samples->positions.height;
    o->samples = samples->count;
    return record_samples(samples, o);
}

static grail_status write_file(calibration_network *network, gram_pass *p, const char *path,
                               int64_t *bytes)
{
    grail_status status = GRAIL_OK;
    statistics_origin origin = {0};
    statistics_list list = {0};
    statistics_file f = {0};
    TRY(origin_of(network->request, p, &origin));
    TRY(gram_pass_list(p, network->request->graph->block_count, &list));
    TRY(statistics_file_open(path, &origin, &list, &f));
    TRY(gram_pass_run(network, p, &f));
    TRY(statistics_file_commit(&f, bytes));
out:
    statistics_file_fini(&f);
    statistics_list_fini(&list);
    statistics_origin_fini(&origin);
    return status;
}

static grail_gram_facts facts_of(const compression_request *request, const gram_pass *p,
                                 int64_t bytes)
{
    grail_gram_facts facts = {.matrices = p->count,
                              .samples = request->samples->count,
                              .context = request->samples->positions.height,
                              .bytes = bytes};
    for (int i = 0; i < p->count; i++) {
        facts.grams += p->maps[i].gram_width > 0 ? 1 : 0;
    }
    return facts;
}

grail_status grail_gram_write(const grail_compress_options *run, const grail_gram_options *options,
                              grail_gram_facts *facts)
{
    grail_status status = GRAIL_OK;
    compression_request *request = NULL;
    calibration_network *network = NULL;
    gram_pass p = {0};
    int64_t bytes = 0;
    const grail_compress_options o = options_of_pass(run);
    TRY(option_given("path", "path", options->path));
    TRY(compress_options_check(&o));
    if (comm_is_shared(o.run.comm)) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "a pass for statistics cannot be shared out over ranks yet, and there are %d; start "
             "one process",
             comm_size(o.run.comm));
    }
    TRY(request_open(&o, (request_purpose){.reads_samples = true}, &request));
    TRY(network_create(request, o.run.memory, &network));
    TRY(gram_pass_plan(request, options->full != 0, &p));
    TRY(write_file(network, &p, options->path, &bytes));
    if (facts != NULL) {
        *facts = facts_of(request, &p, bytes);
    }
out:
    gram_pass_fini(&p);
    network_free(network);
    request_close(request);
    return status;
}
