/* Statistics of a dense network as a file: the public function that takes them. */
#include "base/checksum.h"
#include "base/file.h"
#include "base/name_list.h"
#include "base/option_values.h"
#include "graph/operators.h"
#include "pipeline/network/gram_pass.h"
#include "pipeline/output/fingerprint.h"
#include "pipeline/output/run_records.h"
#include "pipeline/ranks.h"
#include "pipeline/request/options.h"

#include <math.h>

/* Takes from the options of a run what is read, how convolutions are fitted, and with which means.
 * Nothing is cut. */
static grail_compress_options options_of_pass(const grail_compress_options *run,
                                              const grail_gram_options *options)
{
    grail_compress_options o;
    grail_compress_options_init(&o);
    o.read = run->read;
    o.fit.conv_fit = run->fit.conv_fit;
    o.run = run->run;
    o.run.observer = NULL;
    o.run.heal_observer = NULL;
    o.output.path = options->path; /* whose interrupted run says what precision "auto" was */
    o.output.resume = options->resume;
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

/* A pass and its file, which rank 0 alone writes and records. */
typedef struct gram_run {
    compression_request *request;
    calibration_network *network;
    gram_pass pass;
    statistics_origin origin;
    statistics_list list;
    source_files sources;
    run_record *record;
    bool is_at_work; /* what the record has is of this run, and intact */
    statistics_file file;
    int64_t bytes;
} gram_run;

static void run_fini(gram_run *r)
{
    statistics_file_fini(&r->file);
    record_close(r->record);
    source_files_fini(&r->sources);
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

/* -- the record of a pass ---------------------------------------------------------------------- */

static const char file_name[] = "statistics.gguf";
static const char energy_key[] = "energy";

/* Reads back the tensors of a recorded block, which are listed map after map. */
static grail_status verify_block(const gram_run *r, int block, const json_t *checksums)
{
    grail_status status = GRAIL_OK;
    int begin = 0;
    int end = 0;
    int64_t at = 0;
    void *data = NULL;
    graph_block_range(r->request->graph, block, &begin, &end);
    for (int i = 0; i < r->pass.count && r->pass.maps[i].node < end; i++) {
        const counted_map *m = &r->pass.maps[i];
        const int64_t next = at + STATISTICS_VECTORS + (m->gram_width > 0 ? STATISTICS_GRAMS : 0);
        for (at = m->node < begin ? next : at; at < next; at++) {
            const tensor_view *t = &r->list.tensors[at];
            const char *recorded = json_string_value(json_object_get(checksums, t->name));
            size_t bytes = 0;
            if (recorded == NULL || !shape_bytes(t->dtype, t->rank, t->shape, &bytes)) {
                FAIL(GRAIL_ERROR_FORMAT, "'%s' does not record tensor '%s' of block %d",
                     record_partial(r->record), t->name, block);
            }
            memory_free(data);
            data = NULL;
            TRY(memory_new_unset(&data, bytes, 1));
            TRY(tensor_writer_get(r->file.writer, t->name, data, bytes));
            TRY(checksum_verify(t->name, record_result(r->record), data, bytes, recorded));
        }
    }
out:
    memory_free(data);
    return status;
}

/* Takes over what an interrupted run has counted. */
static grail_status restore_blocks(gram_run *r)
{
    grail_status status = GRAIL_OK;
    for (int block = GRAPH_NONE; block <= r->request->graph->block_count; block++) {
        const json_t *entry = record_get(r->record, RECORD_BLOCK, &block);
        if (entry == NULL) {
            break;
        }
        const double energy = json_real_or_nan(entry, energy_key);
        TRY(verify_block(r, block, json_object_get(entry, RECORD_TENSORS)));
        if (r->pass.full && !(energy >= 0.0 && isfinite(energy))) {
            FAIL(GRAIL_ERROR_FORMAT, "'%s' does not record the energy behind block %d",
                 record_partial(r->record), block);
        }
        r->pass.energies[r->pass.done++] = energy;
    }
out:
    if (status == GRAIL_ERROR_FORMAT) {
        error_append("; delete '%s' and run again", record_partial(r->record));
    }
    return status;
}

static grail_status lay_out(void *user, layout_start start)
{
    grail_status status = GRAIL_OK;
    gram_run *r = user;
    char *path = NULL;
    TRY(path_join(&path, record_result(r->record), file_name));
    TRY(statistics_file_lay_out(path, &r->origin, &r->list, start, &r->file));
    TRY(start == LAYOUT_CONTINUED ? restore_blocks(r) : GRAIL_OK);
out:
    memory_free(path);
    return status;
}

static grail_status open_record(gram_run *r, const grail_compress_options *o,
                                const grail_gram_options *options)
{
    grail_status status = GRAIL_OK;
    json_t *fingerprint = json_object();
    TRY(origin_of(r->request, &r->pass, &r->origin));
    TRY(gram_pass_list(&r->pass, r->request->graph->block_count, &r->list));
    TRY(source_files_find(r->request->model, &r->sources));
    TRY(fingerprint_of_run(r->request, o, &r->sources, fingerprint));
    TRY(json_put(json_object_get(fingerprint, "options"), "full", json_boolean(r->pass.full)));
    TRY(record_open(options->path, file_name, options->resume != 0, &r->record));
    TRY(fingerprint_begin(r->record, fingerprint, &r->network->passes.keep_activations, lay_out,
                          r));
    r->is_at_work = true;
out:
    json_decref(fingerprint);
    return status;
}

static grail_status record_block(void *user, int block)
{
    grail_status status = GRAIL_OK;
    gram_run *r = user;
    json_t *entry = json_object();
    TRY(json_put(entry, RECORD_BLOCK, json_integer(block)));
    TRY(json_put(entry, energy_key, json_real_or_null(r->pass.energies[block + 1])));
    TRY(json_put(entry, RECORD_TENSORS, json_incref(r->file.checksums)));
    TRY(tensor_writer_flush(r->file.writer));
    TRY(source_files_check(&r->sources));
    TRY(record_put(r->record, entry));
    r->pass.done = block + 2;
    json_object_clear(r->file.checksums);
out:
    json_decref(entry);
    return status;
}

/* Keeps what is worth continuing, and says so; the same inputs always reach a NaN again. */
static void after_failure(gram_run *r, grail_status status)
{
    if (!r->is_at_work || record_is_committed(r->record) || status == GRAIL_ERROR_CANCELLED) {
        return;
    }
    if (status == GRAIL_ERROR_NUMERIC || r->pass.done < 2) {
        record_abandon(r->record);
        return;
    }
    const int blocks = r->request->graph->block_count; /* behind which what follows them counts */
    error_append("; %d of %d blocks are finished in '%s', and the run can be resumed",
                 r->pass.done - 1 < blocks ? r->pass.done - 1 : blocks, blocks,
                 record_partial(r->record));
    (void)error_about(status, "resume");
}

/* -- the pass ---------------------------------------------------------------------------------- */

/* The ranks run the same pass, spill the same sample streams, and pass the same blocks again. */
static grail_status agree(const gram_run *r, const grail_compress_options *o)
{
    const grail_comm *comm = r->request->comm;
    CHECK(ranks_agree(r->request, o));
    return comm_agree(comm, "the statistics to be written", "give all ranks the same command",
                      &r->pass.full, sizeof r->pass.full);
}

static grail_status share_beginning(gram_run *r)
{
    const grail_comm *comm = r->request->comm;
    CHECK(comm_broadcast(comm, 0, &r->network->passes.keep_activations,
                         sizeof r->network->passes.keep_activations));
    return comm_broadcast(comm, 0, &r->pass.done, sizeof r->pass.done);
}

static grail_status count(gram_run *r, bool writes)
{
    grail_status status = GRAIL_OK;
    json_t *checksums = json_object();
    const gram_sink sink = {.file = writes ? &r->file : NULL, .finish = record_block, .user = r};
    r->file.checksums = checksums;
    if (checksums == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory while counting");
    }
    TRY(gram_pass_run(r->network, &r->pass, &sink));
    if (writes) {
        TRY(source_files_check(&r->sources));
        TRY(tensor_writer_seal(r->file.writer));
    }
out:
    json_decref(checksums);
    return status;
}

static grail_status run_pass(gram_run *r, const grail_compress_options *o,
                             const grail_gram_options *options)
{
    const grail_comm *comm = o->run.comm;
    const bool writes = comm_rank(comm) == 0;
    file_identity identity = {0};
    CHECK(agree(r, o));
    CHECK(comm_settle(comm, writes ? open_record(r, o, options) : GRAIL_OK));
    CHECK(share_beginning(r));
    bool is_there = writes && record_is_committed(r->record);
    CHECK(comm_broadcast(comm, 0, &is_there, sizeof is_there));
    CHECK(is_there ? GRAIL_OK : count(r, writes));
    if (writes) {
        CHECK(record_commit(r->record));
        CHECK(file_identify(record_path(r->record), &identity));
        r->bytes = identity.size;
    }
    return comm_broadcast(comm, 0, &r->bytes, sizeof r->bytes);
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
    const grail_compress_options o = options_of_pass(run, options);
    CHECK(comm_check(o.run.comm));
    TRY(comm_settle(o.run.comm, run_open(&o, options, &r)));
    TRY(run_pass(&r, &o, options));
    if (facts != NULL) {
        *facts = facts_of(r.request, &r.pass, r.bytes);
    }
out:
    status = comm_end(o.run.comm, status);
    if (status != GRAIL_OK) {
        after_failure(&r, status);
    }
    run_fini(&r);
    return status;
}
