#include "pipeline/output/fingerprint.h"

#include "base/hash.h"
#include "base/parallel.h"
#include "pipeline/request/options.h"

#include <stdio.h>
#include <string.h>

static grail_status put_file(json_t *files, const char *name, const file_identity *f)
{
    return json_put_name(files, name,
                         json_pack("[I,I,I]", (json_int_t)f->size, (json_int_t)f->seconds,
                                   (json_int_t)f->nanoseconds));
}

static grail_status put_document(json_t *files, const grail_document *d)
{
    char hash[HASH_TEXT_SIZE];
    hash_bytes(d->bytes, (size_t)d->size, hash);
    return json_put_name(files, d->name, json_text(hash));
}

/* Tensors in memory, and those of ranks, have no other identity than what they hold. */
static grail_status put_digest(const char *key, const grail_model *model, json_t *object)
{
    char digest[HASH_TEXT_SIZE];
    CHECK(grail_model_digest(model, digest));
    return json_put(object, key, json_text(digest));
}

static grail_status put_files(const source_files *sources, json_t *object)
{
    json_t *files = json_object();
    CHECK(json_put(object, "files", files));
    for (size_t i = 0; sources != NULL && i < sources->count; i++) {
        const source_file *f = &sources->items[i];
        CHECK(f->document != NULL ? put_document(files, f->document)
                                  : put_file(files, f->name, &f->identity));
    }
    return GRAIL_OK;
}

static grail_status put_teacher(const grail_model *teacher, bool by_digest, json_t *object)
{
    json_t *files = by_digest ? NULL : json_object();
    CHECK(by_digest ? put_digest("teacher_tensors", teacher, object)
                    : json_put(object, "teacher_files", files));
    for (int f = 0; !by_digest && f < checkpoint_file_count(teacher->checkpoint); f++) {
        const file_identity identity = checkpoint_file_identity(teacher->checkpoint, f);
        CHECK(put_file(files, checkpoint_file_name(teacher->checkpoint, f), &identity));
    }
    return json_put(object, "teacher_config", json_deep_copy(teacher->config));
}

/* The options as the run takes them: what a default stands for is no difference. */
static grail_status put_options(const compression_request *request,
                                const grail_compress_options *given, json_t *object)
{
    grail_compress_options taken = *given;
    json_t *options = json_object();
    CHECK(json_put(object, "options", options));
    CHECK(plan_to_fields(&request->plan, &taken));
    taken.read.samples = request->samples->count;
    taken.heal.what = heal_words[(request->heal.blocks ? 1 : 0) + (request->heal.network ? 2 : 0)];
    taken.heal.steps = request->heal.chosen.steps;
    taken.run.backend = backend_name(request->backend);
    taken.run.precision = backend_precision(request->backend);
    if (request->is_file) {
        const grail_dtype table = request->narrowed.target->mixture.table;
        CHECK(json_put(options, "table_type",
                       table == GRAIL_DTYPE_COUNT ? json_null()
                                                  : json_text(grail_dtype_name(table))));
    }
    return compress_options_record(&taken, options);
}

grail_status fingerprint_of_run(const compression_request *request,
                                const grail_compress_options *options, const source_files *sources,
                                json_t *object)
{
    CHECK(json_put(object, "grail_state", json_integer(4)));
    CHECK(put_files(sources, object));
    CHECK(put_options(request, options, object));
    CHECK(json_put(object, "config", json_deep_copy(request->model->config)));
    if (request->model->written_blocks != GRAIL_DTYPE_COUNT) {
        CHECK(
            json_put(object, "type", json_text(grail_dtype_name(request->model->written_blocks))));
    }
    json_t *document = json_object();
    CHECK(json_put(object, "plan", document));
    CHECK(plan_to_json(&request->plan, &request->sites->list, document));
    CHECK(json_put(object, "calibration", json_deep_copy(request->samples->description)));
    if (request->statistics != NULL) {
        CHECK(put_file(object, "statistics", &request->statistics->identity));
    }
    CHECK(json_put(object, "backend", json_text(backend_name(request->backend))));
    CHECK(json_put(object, "precision", json_text(backend_precision(request->backend))));
    CHECK(json_put(object, "threads", json_integer(parallel_threads())));
    json_t *heal = json_object();
    CHECK(json_put(object, "heal", heal));
    CHECK(heal_options_to_json(&request->heal, heal));
    if (sources == NULL || checkpoint_documents(request->model->checkpoint) != NULL) {
        CHECK(put_digest("tensors", request->model, object));
    }
    return request->teacher == NULL ? GRAIL_OK
                                    : put_teacher(request->teacher, sources == NULL, object);
}

enum { PATH_SIZE = 160, VALUE_SIZE = 64 };

/* A place where two documents differ; the values are borrowed, NULL where there is none. */
typedef struct difference {
    char path[PATH_SIZE]; /* such as "plan.sites[3].kept" */
    const json_t *then, *now;
} difference;

static void enter(difference *d, const char *separator, const char *name, const json_t *then,
                  const json_t *now)
{
    const size_t used = strlen(d->path);
    snprintf(d->path + used, sizeof d->path - used, "%s%s", used == 0 ? "" : separator, name);
    d->then = then;
    d->now = now;
}

static bool enter_member(difference *d)
{
    const char *key = NULL;
    json_t *now = NULL;
    json_object_foreach ((json_t *)(uintptr_t)d->now, key, now) {
        const json_t *then = json_object_get(d->then, key);
        if (then == NULL || !json_equal(then, now)) {
            enter(d, ".", key, then, now);
            return true;
        }
    }
    return false;
}

static bool enter_element(difference *d)
{
    for (size_t i = 0; i < json_array_size(d->now); i++) {
        const json_t *then = json_array_get(d->then, i);
        const json_t *now = json_array_get(d->now, i);
        if (then == NULL || !json_equal(then, now)) {
            char index[24];
            snprintf(index, sizeof index, "[%zu]", i);
            enter(d, "", index, then, now);
            return true;
        }
    }
    return false;
}

/* Narrows a difference down to the first value that differs, as long as both sides have the same
 * form. A list of plain values (a file's size and time) counts as one value. */
static void narrow_down(difference *d)
{
    bool deeper = true;
    while (deeper) {
        deeper = false;
        if (json_is_object(d->then) && json_is_object(d->now)) {
            deeper = enter_member(d);
        } else if (json_is_array(d->then) && json_is_object(json_array_get(d->now, 0))) {
            deeper = enter_element(d);
        }
    }
}

/* Writes a plain value as JSON. The text is empty for lists, objects and values that are too long
 * to show. */
static void value_text(const json_t *value, char text[VALUE_SIZE])
{
    text[0] = 0;
    if (value == NULL) {
        snprintf(text, VALUE_SIZE, "missing");
    } else if (!json_is_array(value) && !json_is_object(value)) {
        const size_t length =
            json_dumpb(value, text, VALUE_SIZE - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        text[length < VALUE_SIZE ? length : 0] = 0;
    }
}

static const char of_options[] = "options.";

/* The place without the prefix of options. */
static const char *plain_path(const difference *d)
{
    const size_t prefix = sizeof of_options - 1;
    return d->path + (strncmp(d->path, of_options, prefix) == 0 ? prefix : 0);
}

grail_status fingerprint_compare_ranks(const json_t *first, const json_t *own)
{
    char theirs[VALUE_SIZE];
    char ours[VALUE_SIZE];
    if (json_equal(first, own)) {
        return GRAIL_OK;
    }
    difference d = {.then = first, .now = own};
    narrow_down(&d);
    value_text(d.then, theirs);
    value_text(d.now, ours);
    return error_set(GRAIL_ERROR_ARGUMENT,
                     "other options, files or samples than rank 0 has: %s is %s there "
                     "and %s here; give all ranks the same command, files and number of threads",
                     plain_path(&d), theirs[0] == 0 ? "another" : theirs,
                     ours[0] == 0 ? "another" : ours);
}

static grail_status compare(const char *place, const json_t *then, json_t *now)
{
    char before[VALUE_SIZE];
    char after[VALUE_SIZE];
    if (json_object_get(then, "options") == NULL) { /* of a release that did not record them */
        (void)json_object_del(now, "options");
    }
    if (json_equal(then, now)) {
        return GRAIL_OK;
    }
    difference d = {.then = then, .now = now};
    narrow_down(&d);
    const char *path = plain_path(&d);
    const bool of_option = path != d.path;
    value_text(d.then, before);
    value_text(d.now, after);
    const grail_status status =
        error_set(GRAIL_ERROR_ARGUMENT, "'%s' was started with other options or files: %s ", place,
                  path[0] == 0 ? "its state" : path);
    if (before[0] != 0 && after[0] != 0) {
        error_append("was %s and is now %s", before, after);
    } else {
        error_append("differs");
    }
    error_append("; use the options and files of the interrupted run, or delete its directory");
    return of_option ? error_about(status, path) : status;
}

/* -- the record of a run ----------------------------------------------------------------------- */

static const char keep_key[] = "keep_activations";
static const char laid_out_key[] = "laid_out";

grail_status fingerprint_recognise(const run_record *r, json_t *fingerprint, bool *keep_activations)
{
    const bool kept = json_is_true(json_object_get(record_first(r), keep_key));
    CHECK(json_put(fingerprint, keep_key, json_boolean(kept)));
    CHECK(compare(record_partial(r), record_first(r), fingerprint));
    *keep_activations = kept;
    return GRAIL_OK;
}

static grail_status lay_out_anew(run_record *r, run_layout lay_out, void *user)
{
    grail_status status = GRAIL_OK;
    json_t *entry = json_object();
    record_clear(r); /* removes what a run left that ended while it laid out */
    TRY(lay_out(user, LAYOUT_NEW));
    TRY(json_put(entry, laid_out_key, json_true()));
    TRY(record_put(r, entry));
out:
    json_decref(entry);
    return status;
}

static grail_status begin_anew(run_record *r, json_t *fingerprint, bool keep_activations,
                               run_layout lay_out, void *user)
{
    grail_status status = GRAIL_OK;
    TRY(json_put(fingerprint, keep_key, json_boolean(keep_activations)));
    TRY(record_put(r, fingerprint));
    TRY(lay_out_anew(r, lay_out, user));
out:
    if (status != GRAIL_OK) {
        record_abandon(r);
    }
    return status;
}

grail_status fingerprint_begin(run_record *r, json_t *fingerprint, bool *keep_activations,
                               run_layout lay_out, void *user)
{
    if (record_first(r) == NULL) {
        return begin_anew(r, fingerprint, *keep_activations, lay_out, user);
    }
    CHECK(fingerprint_recognise(r, fingerprint, keep_activations));
    if (record_is_committed(r)) {
        return GRAIL_OK;
    }
    return record_get(r, laid_out_key, NULL) != NULL ? lay_out(user, LAYOUT_CONTINUED)
                                                     : lay_out_anew(r, lay_out, user);
}
