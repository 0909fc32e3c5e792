/* The state of a run on disk: OUTPUT.partial/grail-state.jsonl. Its first line is the fingerprint
 * of everything that decides the bytes; each further line records one finished block, written after
 * the block's tensors are on disk. A torn last line is ignored. The run that writes it holds a lock
 * on it, which ends with the program however that ends. */
#include "pipeline/compression.h"

#include "base/file.h"
#include "pipeline/network/site_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char state_name[] = "grail-state.jsonl";
enum { STATE_MAXIMUM = 1 << 30 };

static grail_status state_path(const char *directory, char **out)
{
    return path_join(out, directory, state_name);
}

static grail_status append_line(const grail_compression *c, const json_t *value)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    buffer line = {0};
    int descriptor = -1;
    buffer_init(&line, STATE_MAXIMUM);
    TRY(state_path(c->output->partial, &path));
    TRY(json_append_text(value, &line));
    TRY(buffer_append_string(&line, "\n"));
    descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        TRY(error_from_errno("cannot open", path));
    }
    const off_t end = lseek(descriptor, 0, SEEK_END);
    TRY(file_write_at(descriptor, path, line.bytes, line.size, (uint64_t)end));
    if (fsync(descriptor) != 0) {
        TRY(error_from_errno("cannot flush", path));
    }
out:
    if (descriptor >= 0) {
        close(descriptor);
    }
    buffer_fini(&line);
    memory_free(path);
    return status;
}

void state_end(grail_compression *c)
{
    if (c->output->lock >= 0) {
        close(c->output->lock);
        c->output->lock = -1;
    }
}

/* Whether the locked file is still the one at `path`: its run may have ended meanwhile, and have
 * moved or removed it. */
static bool is_at(int descriptor, const char *path)
{
    struct stat own;
    struct stat there;
    return fstat(descriptor, &own) == 0 && stat(path, &there) == 0 && own.st_ino == there.st_ino &&
           own.st_dev == there.st_dev;
}

/* Keeps other runs out of c->partial. Without `create` a missing state file is let be. */
static grail_status lock_state(grail_compression *c, bool create)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    bool taken = false;
    state_end(c);
    TRY(state_path(c->output->partial, &path));
    c->output->lock = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
    if (c->output->lock < 0 && (create || errno != ENOENT)) {
        TRY(error_from_errno("cannot open", path));
    }
    if (c->output->lock >= 0) {
        TRY(file_lock(c->output->lock, path, &taken));
        taken = taken || !is_at(c->output->lock, path);
    }
    if (taken) {
        FAIL(GRAIL_ERROR_EXISTS,
             "another run is working in '%s'; let it end, or choose another output",
             c->output->partial);
    }
out:
    memory_free(path);
    return status;
}

/* Takes away what is written before the first block is recorded. Other files stay, and with them
 * the directory; false then. */
static bool remove_beginning(const grail_compression *c)
{
    static const char *const endings[] = {"", ".tmp"};
    checkpoint_remove_written(c->output->partial, c->request->model->checkpoint, CHECKPOINT_LIKE);
    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
        char *path = NULL;
        if (memory_format(&path, "%s/%s%s", c->output->partial, state_name, endings[e]) ==
            GRAIL_OK) {
            unlink(path);
        }
        memory_free(path);
    }
    return rmdir(c->output->partial) == 0;
}

/* What was decided at the first start and must not change: kept activations depend on free memory.
 */
static grail_status create_partial(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    json_t *first = NULL;
    if (mkdir(c->output->partial, 0777) != 0) {
        return errno == EEXIST ? error_set(GRAIL_ERROR_EXISTS,
                                           "an interrupted run lies in '%s'; continue it with "
                                           "--resume or delete it",
                                           c->output->partial)
                               : error_from_errno("cannot create", c->output->partial);
    }
    TRY(lock_state(c, true));
    TRY(open_output(c, false));
    TRY(fingerprint_of_run(c, &first));
    TRY(json_put(first, "keep_activations", json_boolean(c->network->keep_activations)));
    TRY(append_line(c, first));
out:
    if (status != GRAIL_OK) {
        remove_beginning(c);
    }
    json_decref(first);
    return status;
}

static grail_status accept_fingerprint(grail_compression *c, json_t *stored)
{
    c->network->keep_activations = json_is_true(json_object_get(stored, "keep_activations"));
    json_object_del(stored, "keep_activations");
    return fingerprint_compare(c, stored);
}

/* *found says whether the first line is whole. */
static grail_status read_records(grail_compression *c, const buffer *text, bool *found)
{
    grail_status status = GRAIL_OK;
    size_t offset = 0;
    while (offset < text->size) {
        const unsigned char *start = text->bytes + offset;
        const unsigned char *newline = memchr(start, '\n', text->size - offset);
        json_t *record = NULL;
        if (newline == NULL ||
            json_parse(c->output->partial, start, (size_t)(newline - start), &record) != GRAIL_OK) {
            break; /* torn by a crash: the block it would have recorded is done again */
        }
        offset += (size_t)(newline - start) + 1;
        if (!*found) {
            status = accept_fingerprint(c, record);
            json_decref(record);
        } else {
            status = json_push(c->output->records, record);
        }
        TRY(status);
        *found = true;
    }
    if (json_array_size(c->output->records) > (size_t)c->request->graph->block_count) {
        FAIL(GRAIL_ERROR_FORMAT, "'%s' records %zu blocks of %d; delete it and start anew",
             c->output->partial, json_array_size(c->output->records),
             c->request->graph->block_count);
    }
out:
    return status;
}

/* Cuts a torn tail off so that the next record begins on a line of its own. */
static grail_status trim_state(const char *path, const buffer *text)
{
    size_t size = text->size;
    while (size > 0 && text->bytes[size - 1] != '\n') {
        size--;
    }
    if (size < text->size && truncate(path, (off_t)size) != 0) {
        return error_from_errno("cannot shorten", path);
    }
    return GRAIL_OK;
}

static grail_status read_state(grail_compression *c, bool *found)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    buffer text = {0};
    TRY(state_path(c->output->partial, &path));
    if (file_exists(path)) {
        TRY(file_read(path, STATE_MAXIMUM, &text));
        TRY(trim_state(path, &text));
        TRY(read_records(c, &text, found));
    }
out:
    buffer_fini(&text);
    memory_free(path);
    return status;
}

/* A run that was stopped before it had recorded anything is begun anew. */
static grail_status continue_partial(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    bool found = false;
    TRY(read_state(c, &found));
    if (found) {
        TRY(open_output(c, true));
    } else if (remove_beginning(c)) {
        TRY(create_partial(c));
    } else {
        FAIL(GRAIL_ERROR_FORMAT,
             "'%s' holds no state to resume from, but other files; delete it and start anew",
             c->output->partial);
    }
out:
    return status;
}

grail_status state_begin(grail_compression *c, const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    c->output->records = json_array();
    if (c->output->records == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory");
    }
    if (file_exists(c->output->partial) && !file_is_directory(c->output->partial)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' is in the way: it is not a directory; delete it",
             c->output->partial);
    }
    if (file_exists(c->output->partial)) {
        TRY(lock_state(c, false));
    }
    if (options->resume && file_exists(c->output->partial)) {
        TRY(continue_partial(c));
    } else {
        TRY(create_partial(c));
    }
    c->output->blocks_recorded = (int)json_array_size(c->output->records);
out:
    return status;
}

void state_after_failure(const grail_compression *c, grail_status status)
{
    if (c->output->blocks_recorded == 0 || status == GRAIL_ERROR_NUMERIC) {
        remove_beginning(c);
    } else if (file_exists(c->output->partial)) {
        error_append("; %d of %d blocks are finished in '%s', --resume continues it",
                     c->output->blocks_recorded, c->request->graph->block_count,
                     c->output->partial);
    }
}

grail_status state_record_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    json_t *record = json_object();
    json_t *list = json_array();
    json_t *one = NULL;
    TRY(json_put(record, "block", json_integer(block)));
    TRY(json_put(record, "sites", list));
    for (int i = 0; i < c->request->sites->list.count; i++) {
        if (c->request->sites->list.sites[i].block == block &&
            c->network->results[i].reducer != NULL) {
            TRY(site_result_to_json(&c->network->results[i], &one));
            TRY(json_push(list, one));
        }
    }
    TRY(append_line(c, record));
    c->output->blocks_recorded = block + 1;
out:
    json_decref(record);
    return status;
}

grail_status state_restore_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    const json_t *record = json_array_get(c->output->records, (size_t)block);
    const json_t *list = json_object_get(record, "sites");
    size_t next = 0;
    for (int i = 0; i < c->request->sites->list.count; i++) {
        if (c->request->sites->list.sites[i].block != block || !site_is_cut(&c->request->plan, i)) {
            continue;
        }
        const json_t *object = json_array_get(list, next++);
        const char *name = json_string_value(json_object_get(object, "site"));
        if (name == NULL || strcmp(name, c->request->sites->facts[i].name) != 0) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "'%s' does not record site '%s' of block %d; delete it and start anew",
                 c->output->partial, c->request->sites->facts[i].name, block);
        }
        TRY(site_result_restore(c->request, i, object, &c->network->results[i]));
    }
out:
    return status;
}

grail_status compression_commit(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(directory_sync(c->output->partial));
    if (file_exists(c->output->path)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' appeared during the run; the result is complete in '%s'",
             c->output->path, c->output->partial);
    }
    if (rename(c->output->partial, c->output->path) != 0) {
        TRY(error_from_errno("cannot rename to", c->output->path));
    }
    TRY(state_path(c->output->path, &path));
    if (unlink(path) != 0) {
        TRY(error_from_errno("cannot remove", path));
    }
out:
    memory_free(path);
    return status;
}
