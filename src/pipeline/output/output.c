#include "pipeline/output/output.h"

#include "base/profile.h"
#include "pipeline/output/companions.h"
#include "pipeline/output/fingerprint.h"
#include "pipeline/output/run_records.h"

/* -- beginning --------------------------------------------------------------------------------- */

static companion_files companions_of(const narrow_output *o)
{
    return (companion_files){.request = o->request,
                             .sources = &o->sources,
                             .shapes = o->tensors.shapes,
                             .record = o->record};
}

static grail_status put_file(void *record, const char *name, const void *bytes, size_t size)
{
    return record_write(record, name, bytes, size);
}

/* A GGUF file alone has none. */
static grail_status write_companions(const narrow_output *o)
{
    const companion_files c = companions_of(o);
    return o->request->is_file ? GRAIL_OK : companions_write(&c, put_file, o->record);
}

/* *out <- the tensors of the model in the order of the graph, then those that it has not. */
static grail_status order_of_graph(const compression_request *request, int64_t **out)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = request->model->checkpoint;
    const int64_t all = checkpoint_count(like);
    bool *is_placed = NULL;
    int64_t count = 0;
    TRY(memory_new(&is_placed, (size_t)all, sizeof is_placed[0]));
    TRY(memory_new(out, (size_t)all, sizeof **out));
    for (int64_t k = 0; k < request->graph->parameter_count + all; k++) {
        const int64_t outside = k - request->graph->parameter_count;
        const int64_t i =
            outside >= 0 ? outside : checkpoint_index_of(like, request->model->tensors[k]->name);
        if (!is_placed[i]) {
            (*out)[count++] = i;
            is_placed[i] = true;
        }
    }
out:
    memory_free(is_placed);
    return status;
}

static grail_status open_writer(narrow_output *o, layout_start start)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    const narrowed_model *n = &o->request->narrowed;
    TRY(o->request->is_file ? order_of_graph(o->request, &order) : GRAIL_OK);
    const written_form form = {.format = narrowed_format(n),
                               .pairs = n->pairs,
                               .integers = &n->integers,
                               .keeps_values = request_keeps_values(o->request),
                               .table = n->target == NULL ? NULL : gguf_target_table(n->target),
                               .order = order};
    TRY(checkpoint_writer_open(record_result(o->record), o->request->model->checkpoint, &form,
                               o->tensors.shapes, start, &o->writer));
out:
    memory_free(order);
    return status;
}

/* -- continuing -------------------------------------------------------------------------------- */

/* How far the run is follows from its record alone. What is outside the blocks is recorded after
 * them where it is finished then. */
static void see_how_far(narrow_output *o)
{
    const compression_request *request = o->request;
    const run_record *r = o->record;
    const int blocks = request->graph->block_count;
    const int outside = GRAPH_NONE;
    int done = 0;
    while (done < blocks && record_get(r, RECORD_BLOCK, &done) != NULL) {
        done++;
    }
    if (done < blocks) { /* not in the middle of a group */
        int last = 0;
        heal_group_of(&request->heal, done, blocks, &done, &last);
    }
    const bool has_all =
        done == blocks && !request->finishes_with_network &&
        (!request->finishes_with_head || record_get(r, RECORD_BLOCK, &outside) != NULL);
    o->blocks_recorded = done;
    o->is_fitted = request->heal.network && (has_all || record_get(r, RECORD_FITTED, NULL) != NULL);
    o->is_complete =
        record_get(r, RECORD_WEIGHTS, NULL) != NULL || (has_all && !request->heal.network);
}

static grail_status verify_record(const narrow_output *o, const json_t *record)
{
    const grail_status status =
        tensors_verify(o->request, o->tensors.shapes, o->writer,
                       json_object_get(record, RECORD_TENSORS), record_result(o->record));
    if (status == GRAIL_ERROR_FORMAT) {
        error_append("; delete '%s' and run again", record_partial(o->record));
    }
    return status;
}

/* A continued run writes the tensors outside all blocks again, so they are verified only when all
 * blocks are finished. */
static grail_status verify_tensors(const narrow_output *o)
{
    const json_t *weights = record_get(o->record, RECORD_WEIGHTS, NULL);
    const json_t *fitted = record_get(o->record, RECORD_FITTED, NULL);
    if (weights == NULL && training_is_saved(o->record)) {
        return GRAIL_OK; /* healed tensors may have taken the place of recorded ones */
    }
    if (weights != NULL || fitted != NULL) {
        return verify_record(o, weights != NULL ? weights : fitted);
    }
    for (int block = o->is_complete || o->is_fitted ? GRAPH_NONE : 0; block < o->blocks_recorded;
         block++) {
        CHECK(verify_record(o, record_get(o->record, RECORD_BLOCK, &block)));
    }
    return GRAIL_OK;
}

static grail_status lay_out(void *user, layout_start start)
{
    narrow_output *o = user;
    see_how_far(o);
    CHECK(open_writer(o, start));
    CHECK(start == LAYOUT_CONTINUED ? verify_tensors(o) : GRAIL_OK);
    return write_companions(o);
}

grail_status output_look(const compression_request *request, const grail_compress_options *options,
                         int *blocks)
{
    grail_status status = GRAIL_OK;
    bool kept = false;
    json_t *fingerprint = json_object();
    narrow_output *o = NULL;
    TRY(memory_new(&o, 1, sizeof *o));
    o->request = request;
    *blocks = GRAPH_NONE;
    TRY(source_files_find(request->model, &o->sources));
    TRY(record_look(options->output.path, &o->record));
    if (record_first(o->record) == NULL) {
        goto out;
    }
    if (options->output.resume == 0) {
        TRY(record_error_begun(o->record));
    }
    TRY(fingerprint_of_run(request, options, &o->sources, fingerprint));
    TRY(fingerprint_recognise(o->record, fingerprint, &kept));
    see_how_far(o);
    *blocks = o->blocks_recorded;
out:
    json_decref(fingerprint);
    output_close(o);
    return status;
}

/* Locks the record of a directory, and declares its files, or of the only file. */
static grail_status open_record(narrow_output *o, const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    char *only = NULL;
    if (o->request->is_file) {
        TRY(checkpoint_written_name(o->request->model->checkpoint,
                                    narrowed_format(&o->request->narrowed), 0, &only));
    }
    TRY(record_open(options->output.path, only, options->output.resume != 0, &o->record));
    const companion_files c = companions_of(o);
    TRY(o->request->is_file ? GRAIL_OK : companions_declare(&c));
out:
    memory_free(only);
    return status;
}

grail_status output_open(const compression_request *request, const grail_compress_options *options,
                         bool *keep_activations, narrow_output **out)
{
    grail_status status = GRAIL_OK;
    json_t *fingerprint = json_object();
    TRY(memory_new(out, 1, sizeof **out));
    narrow_output *o = *out;
    o->request = request;
    TRY(source_files_find(request->model, &o->sources));
    TRY(result_tensors_init(request, options->output.keep_non_finite != 0, &o->tensors));
    TRY(open_record(o, options));
    TRY(fingerprint_of_run(request, options, &o->sources, fingerprint));
    TRY(fingerprint_begin(o->record, fingerprint, keep_activations, lay_out, o));
    see_how_far(o);
out:
    json_decref(fingerprint);
    return status;
}

void output_close(narrow_output *o)
{
    if (o == NULL) {
        return;
    }
    checkpoint_writer_close(o->writer);
    record_close(o->record);
    result_tensors_fini(&o->tensors);
    source_files_fini(&o->sources);
    memory_free(o);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* Adds an entry only once its tensors are on disk, and if the model's files are unchanged. */
static grail_status record_tensors(narrow_output *o, const json_t *entry)
{
    CHECK(checkpoint_writer_flush(o->writer));
    CHECK(source_files_check(&o->sources));
    CHECK(record_put(o->record, entry));
    see_how_far(o);
    return GRAIL_OK;
}

/* Writes the tensors of blocks [first, end), and records them as `key` with the results of these
 * blocks, or of all. */
static grail_status write_blocks(narrow_output *o, const calibration_network *network, int first,
                                 int end, bool every, const char *key, json_t *value)
{
    grail_status status = GRAIL_OK;
    json_t *record = json_object();
    json_t *checksums = json_object();
    const profile_kind before = profile_enter(PROFILE_FILES);
    TRY(json_put(record, key, value));
    TRY(record_put_results(network, first, every, record));
    TRY(json_put(record, RECORD_TENSORS, json_incref(checksums)));
    for (int block = first; block < end; block++) {
        TRY(tensors_write(network, &o->tensors.map, block, o->writer, checksums));
    }
    TRY(record_tensors(o, record));
out:
    profile_enter(before);
    json_decref(checksums);
    json_decref(record);
    return status;
}

static grail_status write_all(narrow_output *o, const calibration_network *network, const char *key)
{
    return write_blocks(o, network, GRAPH_NONE, o->request->graph->block_count, true, key,
                        json_true());
}

grail_status output_write_block(narrow_output *o, const calibration_network *network, int block)
{
    return write_blocks(o, network, block, block + 1, false, RECORD_BLOCK, json_integer(block));
}

grail_status output_write_fitted(narrow_output *o, const calibration_network *network)
{
    return o->is_fitted ? GRAIL_OK : write_all(o, network, RECORD_FITTED);
}

/* A healed network takes the place of the fitted one. */
grail_status output_write_network(narrow_output *o, const calibration_network *network)
{
    if (o->is_fitted) {
        checkpoint_writer_close(o->writer);
        o->writer = NULL;
        CHECK(open_writer(o, LAYOUT_CONTINUED));
    }
    return write_all(o, network, RECORD_WEIGHTS);
}

/* -- the end ----------------------------------------------------------------------------------- */

void output_after_failure(narrow_output *o, grail_status status)
{
    if (record_is_committed(o->record)) {
        return;
    }
    const char *partial = record_partial(o->record);
    if (o->is_complete) {
        error_append("; all weights are written in '%s', and the run can be resumed", partial);
    } else if (status == GRAIL_ERROR_NUMERIC || (o->blocks_recorded == 0 && !o->is_fitted)) {
        record_abandon(o->record);
        return;
    } else if (o->is_fitted) {
        error_append("; all blocks are finished in '%s', and the run can be resumed with healing "
                     "the network",
                     partial);
    } else {
        error_append("; %d of %d blocks are finished in '%s', and the run can be resumed",
                     o->blocks_recorded, o->request->graph->block_count, partial);
    }
    (void)error_about(status, "output.resume");
}

grail_status output_seal(narrow_output *o, const json_t *report)
{
    if (!record_is_committed(o->record)) {
        CHECK(source_files_check(&o->sources));
        CHECK(checkpoint_writer_seal(o->writer));
        CHECK(o->request->is_file ? GRAIL_OK
                                  : document_write(REPORT_NAME, report, put_file, o->record));
    }
    return GRAIL_OK;
}

const char *output_place(const narrow_output *o)
{
    return record_is_committed(o->record) ? record_path(o->record) : record_result(o->record);
}

grail_status output_commit(narrow_output *o, const json_t *report, const char *command,
                           const buffer *sections)
{
    if (!record_is_committed(o->record) && !o->request->is_file) {
        CHECK(card_write(o->request, report, command, sections, put_file, o->record));
    }
    return record_commit(o->record);
}
