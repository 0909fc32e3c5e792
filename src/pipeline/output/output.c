#include "pipeline/output/output.h"

#include "base/file.h"
#include "pipeline/network/site_record.h"
#include "pipeline/output/companions.h"
#include "pipeline/output/fingerprint.h"
#include "pipeline/output/output_path.h"
#include "pipeline/output/tensors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

grail_status output_check_place(const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    if (options->output != NULL) {
        TRY(output_path_copy(options->output, &path));
        TRY(output_path_check(path, options->model));
    }
out:
    memory_free(path);
    return status;
}

void output_close(narrow_output *output)
{
    if (output == NULL) {
        return;
    }
    json_decref(output->records);
    checkpoint_writer_close(output->writer);
    state_unlock(&output->state);
    tensor_map_fini(&output->map);
    memory_free(output->path);
    memory_free(output->partial);
    memory_free(output);
}

static grail_status open_writer(narrow_output *output, bool resume)
{
    grail_status status = GRAIL_OK;
    tensor_view *views = NULL;
    TRY(tensor_map_init(output->request->model, &output->map));
    TRY(tensor_map_views(&output->map, output->request, &views));
    TRY(checkpoint_writer_open(output->partial, output->request->model->checkpoint, CHECKPOINT_LIKE,
                               views, resume, &output->writer));
out:
    memory_free(views);
    return status;
}

/* Takes away what is written before the first block is recorded. Other files stay, and with them
 * the directory; false then. */
static bool remove_beginning(const narrow_output *output)
{
    checkpoint_remove_written(output->partial, output->request->model->checkpoint, CHECKPOINT_LIKE);
    state_discard(&output->state);
    return rmdir(output->partial) == 0;
}

static grail_status create_partial(narrow_output *output, bool keep_activations)
{
    grail_status status = GRAIL_OK;
    json_t *first = NULL;
    if (mkdir(output->partial, 0777) != 0) {
        return errno == EEXIST ? error_set(GRAIL_ERROR_EXISTS,
                                           "an interrupted run lies in '%s'; continue it with "
                                           "--resume or delete it",
                                           output->partial)
                               : error_from_errno("cannot create", output->partial);
    }
    TRY(state_lock(&output->state, true));
    TRY(open_writer(output, false));
    TRY(fingerprint_of_run(output->request, &first));
    TRY(json_put(first, "keep_activations", json_boolean(keep_activations)));
    TRY(state_append(&output->state, first));
out:
    if (status != GRAIL_OK) {
        remove_beginning(output);
    }
    json_decref(first);
    return status;
}

/* Takes the fingerprint, which is the first record, and leaves those of the blocks. */
static grail_status accept_fingerprint(const narrow_output *output, bool *keep_activations)
{
    grail_status status = GRAIL_OK;
    json_t *stored = json_incref(json_array_get(output->records, 0));
    json_array_remove(output->records, 0);
    *keep_activations = json_is_true(json_object_get(stored, "keep_activations"));
    json_object_del(stored, "keep_activations");
    TRY(fingerprint_compare(output->request, output->partial, stored));
    const int blocks = output->request->graph->block_count;
    if (json_array_size(output->records) > (size_t)blocks) {
        FAIL(GRAIL_ERROR_FORMAT, "'%s' records %zu blocks of %d; delete it and start anew",
             output->partial, json_array_size(output->records), blocks);
    }
out:
    json_decref(stored);
    return status;
}

/* A run that was stopped before it had recorded anything is begun anew. */
static grail_status continue_partial(narrow_output *output, bool *keep_activations)
{
    grail_status status = GRAIL_OK;
    TRY(state_read(&output->state, output->records));
    if (json_array_size(output->records) > 0) {
        TRY(accept_fingerprint(output, keep_activations));
        TRY(open_writer(output, true));
    } else if (remove_beginning(output)) {
        TRY(create_partial(output, *keep_activations));
    } else {
        FAIL(GRAIL_ERROR_FORMAT,
             "'%s' holds no state to resume from, but other files; delete it and start anew",
             output->partial);
    }
out:
    return status;
}

static grail_status begin(narrow_output *output, bool resume, bool *keep_activations)
{
    grail_status status = GRAIL_OK;
    if (file_exists(output->partial) && !file_is_directory(output->partial)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' is in the way: it is not a directory; delete it",
             output->partial);
    }
    if (file_exists(output->partial)) {
        TRY(state_lock(&output->state, false));
    }
    if (resume && file_exists(output->partial)) {
        TRY(continue_partial(output, keep_activations));
    } else {
        TRY(create_partial(output, *keep_activations));
    }
    output->blocks_recorded = (int)json_array_size(output->records);
out:
    return status;
}

grail_status output_open(const compression_request *request, const grail_compress_options *options,
                         bool *keep_activations, narrow_output **out)
{
    grail_status status = GRAIL_OK;
    narrow_output *output = NULL;
    TRY(memory_new(&output, 1, sizeof *output));
    output->state.lock = -1;
    output->request = request;
    TRY(output_path_copy(options->output, &output->path));
    TRY(memory_format(&output->partial, "%s.partial", output->path));
    output->state.directory = output->partial;
    output->records = json_array();
    if (output->records == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory");
    }
    TRY(begin(output, options->resume != 0, keep_activations));
    *out = output;
    output = NULL;
out:
    output_close(output);
    return status;
}

grail_status output_open_recorded(const narrow_output *output, checkpoint **out)
{
    return checkpoint_open(output->partial, out);
}

grail_status output_restore_block(const narrow_output *output, int block, site_result *results)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = output->request;
    const json_t *record = json_array_get(output->records, (size_t)block);
    const json_t *list = json_object_get(record, "sites");
    size_t next = 0;
    for (int i = 0; i < request->plan.count; i++) {
        if (site_at(request, i)->block != block || !site_is_cut(&request->plan, i)) {
            continue;
        }
        const json_t *object = json_array_get(list, next++);
        const char *name = json_string_value(json_object_get(object, "site"));
        if (name == NULL || strcmp(name, request->sites->facts[i].name) != 0) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "'%s' does not record site '%s' of block %d; delete it and start anew",
                 output->partial, request->sites->facts[i].name, block);
        }
        TRY(site_result_restore(request, i, object, &results[i]));
    }
out:
    return status;
}

static grail_status record_block(narrow_output *output, int block, const site_result *results)
{
    grail_status status = GRAIL_OK;
    json_t *record = json_object();
    json_t *list = json_array();
    json_t *one = NULL;
    TRY(json_put(record, "block", json_integer(block)));
    TRY(json_put(record, "sites", list));
    for (int i = 0; i < output->request->plan.count; i++) {
        if (site_at(output->request, i)->block == block && results[i].reducer != NULL) {
            TRY(site_result_to_json(&results[i], &one));
            TRY(json_push(list, one));
        }
    }
    TRY(state_append(&output->state, record));
    output->blocks_recorded = block + 1;
out:
    json_decref(record);
    return status;
}

grail_status output_write_block(narrow_output *output, const calibration_network *network,
                                int block)
{
    grail_status status = GRAIL_OK;
    TRY(tensors_write_block(&output->map, network, block, output->writer));
    if (block != GRAPH_NONE) {
        TRY(record_block(output, block, network->results));
    }
out:
    return status;
}

grail_status output_write_network(narrow_output *output, const calibration_network *network)
{
    grail_status status = GRAIL_OK;
    for (int block = GRAPH_NONE; block < output->request->graph->block_count; block++) {
        TRY(tensors_write_block(&output->map, network, block, output->writer));
    }
out:
    return status;
}

grail_status output_write_companions(const narrow_output *output)
{
    return companions_write(output->request, output->partial);
}

void output_after_failure(const narrow_output *output, grail_status status)
{
    if (output->blocks_recorded == 0 || status == GRAIL_ERROR_NUMERIC) {
        remove_beginning(output);
    } else if (file_exists(output->partial)) {
        error_append("; %d of %d blocks are finished in '%s', --resume continues it",
                     output->blocks_recorded, output->request->graph->block_count, output->partial);
    }
}

grail_status output_commit(const narrow_output *output, const json_t *report)
{
    grail_status status = GRAIL_OK;
    TRY(companion_write_json(output->partial, "report.json", report));
    TRY(directory_sync(output->partial));
    if (file_exists(output->path)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' appeared during the run; the result is complete in '%s'",
             output->path, output->partial);
    }
    if (rename(output->partial, output->path) != 0) {
        TRY(error_from_errno("cannot rename to", output->path));
    }
    TRY(state_remove(output->path));
out:
    return status;
}
