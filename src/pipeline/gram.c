/* Statistics of a dense network as a file: the public function that takes them. */
#include "base/name_list.h"
#include "base/option_values.h"
#include "graph/operators.h"
#include "pipeline/network/gram_pass.h"
#include "pipeline/ranks.h"
#include "pipeline/request/options.h"

/* Takes from the options of a run what is read, how convolutions are fitted, and with which means.
 * Nothing is cut. */
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

static int64_t context_of(const calibration *samples)
{
    return samples->windows.ids != NULL ? samples->windows.length : samples->positions.height;
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
    o->context = context_of(samples);
    o->samples = samples->count;
    return record_samples(samples, o);
}

/* A pass and its file, which rank 0 alone writes. */
typedef struct gram_run {
    compression_request *request;
    calibration_network *network;
    gram_pass pass;
    statistics_origin origin;
    statistics_list list;
    statistics_file file;
    int64_t bytes;
} gram_run;

static void run_fini(gram_run *r)
{
    statistics_file_fini(&r->file);
    statistics_list_fini(&r->list);
    statistics_origin_fini(&r->origin);
    gram_pass_fini(&r->pass);
    network_free(r->network);
    request_close(r->request);
}

/* What this rank can check by itself. */
static grail_status run_open(const grail_compress_options *o, const grail_gram_options *options,
                             gram_run *r)
{
    CHECK(OPTION_ROOM_OF(grail_gram_options, options));
    CHECK(option_given("path", "path", options->path));
    CHECK(name_check_ending(options->path, "a GGUF file of statistics", ".gguf"));
    CHECK(compress_options_check(o));
    CHECK(request_open(o, (request_purpose){.reads_samples = true}, &r->request));
    CHECK(network_create(r->request, o->run.memory, &r->network));
    return gram_pass_plan(r->request->model, &r->request->cut, options->full != 0, &r->pass);
}

static grail_status open_file(gram_run *r, const char *path)
{
    CHECK(origin_of(r->request, &r->pass, &r->origin));
    CHECK(gram_pass_list(&r->pass, r->request->graph->block_count, &r->list));
    return statistics_file_open(path, &r->origin, &r->list, &r->file);
}

/* The ranks run the same pass, and spill the same sample streams. */
static grail_status agree(const gram_run *r, const grail_compress_options *o)
{
    const grail_comm *comm = r->request->comm;
    CHECK(ranks_agree(r->request, o));
    CHECK(comm_agree(comm, "the statistics to be written", "give all ranks the same command",
                     &r->pass.full, sizeof r->pass.full));
    return comm_broadcast(comm, 0, &r->network->passes.keep_activations,
                          sizeof r->network->passes.keep_activations);
}

static grail_status run_pass(gram_run *r, const grail_compress_options *o, const char *path)
{
    const bool writes = comm_rank(o->run.comm) == 0;
    CHECK(agree(r, o));
    CHECK(comm_settle(o->run.comm, writes ? open_file(r, path) : GRAIL_OK));
    CHECK(gram_pass_run(r->network, &r->pass, writes ? &r->file : NULL));
    CHECK(writes ? statistics_file_commit(&r->file, &r->bytes) : GRAIL_OK);
    return comm_broadcast(o->run.comm, 0, &r->bytes, sizeof r->bytes);
}

static grail_gram_facts facts_of(const compression_request *request, const gram_pass *p,
                                 int64_t bytes)
{
    grail_gram_facts facts = {.matrices = p->count,
                              .samples = request->samples->count,
                              .context = context_of(request->samples),
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
    gram_run r = {0};
    const grail_compress_options o = options_of_pass(run);
    CHECK(comm_check(o.run.comm));
    TRY(comm_settle(o.run.comm, run_open(&o, options, &r)));
    TRY(run_pass(&r, &o, options->path));
    if (facts != NULL) {
        *facts = facts_of(r.request, &r.pass, r.bytes);
    }
out:
    status = comm_end(o.run.comm, status);
    run_fini(&r);
    return status;
}
