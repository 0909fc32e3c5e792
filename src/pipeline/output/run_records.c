#include "pipeline/output/run_records.h"

#include "base/checksum.h"
#include "base/file.h"
#include "pipeline/network/site_record.h"

#include <string.h>
#include <unistd.h>

grail_status record_put_results(const calibration_network *network, int block, bool every,
                                json_t *record)
{
    json_t *list = json_array();
    CHECK(json_put(record, RECORD_SITES, list));
    for (int i = 0; i < network->cut->plan->count; i++) {
        if ((every || cut_site(network->cut, i)->block == block) &&
            network->results[i].reducer != NULL) {
            json_t *one = json_object();
            CHECK(json_push(list, one));
            CHECK(site_result_to_json(&network->results[i], one));
        }
    }
    if (network->refits.count > 0) {
        CHECK(refits_to_json(&network->refits, block, every, record));
    }
    return healings_to_json(&network->healings, block, every, record);
}

static const json_t *site_of(const json_t *record, const char *name)
{
    const json_t *list = json_object_get(record, RECORD_SITES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *found = json_string_value(json_object_get(one, "site"));
        if (found != NULL && strcmp(found, name) == 0) {
            return one;
        }
    }
    return NULL;
}

static grail_status restore_site(const json_t *record, const cutting *cut, int index,
                                 const char *place, site_result *result)
{
    const char *name = cut_site(cut, index)->name;
    const json_t *one = site_of(record, name);
    if (one == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "'%s' has no record of site '%s'; delete this directory and run again",
                         place, name);
    }
    return site_result_restore(cut->graph, cut_site(cut, index), cut->plan->sites[index].kept, one,
                               result);
}

grail_status record_restore_sites(const json_t *record, const cutting *cut, int block, bool every,
                                  const char *place, site_result *results)
{
    for (int i = 0; i < cut->plan->count; i++) {
        if ((every || cut_site(cut, i)->block == block) && site_is_cut(cut->plan, i)) {
            CHECK(restore_site(record, cut, i, place, &results[i]));
        }
    }
    return GRAIL_OK;
}

grail_status record_restore(const json_t *record, int block, bool every, const char *place,
                            calibration_network *network)
{
    CHECK(record_restore_sites(record, network->cut, block, every, place, network->results));
    CHECK(refits_restore(network->cut->graph, record, &network->refits));
    return healings_restore(record, &network->healings);
}

/* -- the training of the whole network --------------------------------------------------------- */

enum { KEPT = 4 }; /* matrices of each parameter */

/* Matrix `which` of the i-th trained parameter. */
static matrix kept_matrix(const optimizer *o, int i, int which)
{
    const trained_parameter *p = &o->of[i];
    const matrix all[KEPT] = {o->parameters->entries[p->index].values, p->first, p->second,
                              p->best};
    return all[which];
}

static size_t bytes_of(matrix m)
{
    return (size_t)matrix_count(m) * element_size(m.type);
}

/* One of the two files, open to be written or read. */
typedef struct saved_file {
    bool writes;
    int descriptor;
    char *path;
    uint64_t offset;
    json_t *checksums; /* of the matrices in turn; borrowed */
} saved_file;

static grail_status check_matrix(const saved_file *f, const json_t *checksum, const char *found)
{
    const char *recorded = json_string_value(checksum);
    return recorded != NULL && strcmp(found, recorded) == 0
               ? GRAIL_OK
               : error_set(
                     GRAIL_ERROR_FORMAT,
                     "'%s' is damaged: the checksum of its matrix at byte %llu is not the recorded "
                     "one; delete the directory and run again",
                     f->path, (unsigned long long)f->offset);
}

static grail_status pass_matrix(saved_file *f, matrix m, size_t index)
{
    grail_status status = GRAIL_OK;
    void *values = NULL;
    const size_t bytes = bytes_of(m);
    char text[CHECKSUM_TEXT_SIZE];
    TRY(memory_new_unset(&values, bytes, 1));
    if (f->writes) {
        TRY(matrix_download(m, values));
        TRY(file_write_at(f->descriptor, f->path, values, bytes, f->offset));
        TRY(json_push(f->checksums, json_text(checksum_text(values, bytes, text))));
    } else {
        TRY(file_read_at(f->descriptor, f->path, values, bytes, f->offset));
        TRY(check_matrix(f, json_array_get(f->checksums, index),
                         checksum_text(values, bytes, text)));
        TRY(matrix_upload(m, values));
    }
    f->offset += bytes;
out:
    memory_free(values);
    return status;
}

/* Writes all matrices, or reads them. */
static grail_status pass_matrices(const run_record *r, const optimizer *o, int which, bool writes,
                                  json_t *checksums)
{
    grail_status status = GRAIL_OK;
    saved_file f = {.writes = writes, .descriptor = -1, .checksums = checksums};
    TRY(record_open_saved(r, which, writes, &f.descriptor, &f.path));
    for (int i = 0; i < o->count * KEPT; i++) {
        TRY(pass_matrix(&f, kept_matrix(o, i / KEPT, i % KEPT), (size_t)i));
    }
    TRY(writes ? file_flush(f.descriptor, f.path) : GRAIL_OK);
out:
    if (f.descriptor >= 0) {
        close(f.descriptor);
    }
    memory_free(f.path);
    return status;
}

static const json_t *last_record(const run_record *r)
{
    return json_object_get(record_get(r, RECORD_TRAINING, NULL), RECORD_TRAINING);
}

bool training_is_saved(const run_record *r)
{
    return last_record(r) != NULL;
}

static int which_file(const json_t *record)
{
    return json_integer_value(json_object_get(record, "file")) == 1 ? 1 : 0;
}

static grail_status put_numbers(json_t *record, const char *key, int count, const double *values)
{
    json_t *array = json_array();
    CHECK(json_put(record, key, array));
    for (int i = 0; i < count; i++) {
        CHECK(json_push(array, json_real(values[i])));
    }
    return GRAIL_OK;
}

static grail_status describe(const training_state *state, int which, json_t *record)
{
    CHECK(put_numbers(record, "start_sums", TRAINING_GROUPS, state->start.sum));
    CHECK(put_numbers(record, "start_rows", TRAINING_GROUPS, state->start.rows));
    CHECK(json_put(record, "file", json_integer(which)));
    CHECK(json_put(record, "steps", json_integer(state->steps)));
    CHECK(json_put(record, "best_step", json_integer(state->best_step)));
    CHECK(json_put(record, "judgements_lost", json_integer(state->judgements_lost)));
    CHECK(json_put(record, "began_again", json_boolean(state->began_again)));
    CHECK(json_put(record, "begun_step", json_integer(state->begun_step)));
    CHECK(json_put(record, "begun_progress", json_real(state->begun_progress)));
    CHECK(json_put(record, "held_before", json_real(state->held_before)));
    CHECK(json_put(record, "held_best", json_real(state->held_best)));
    CHECK(json_put(record, "held_worst", json_real_or_null(state->held_worst)));
    CHECK(json_put(record, "held_last", json_real_or_null(state->held_last)));
    CHECK(json_put(record, "seen_before", json_real_or_null(state->seen_before)));
    return json_put(record, "seconds", json_real(state->seconds));
}

grail_status training_save(void *r, const optimizer *o, const training_state *state)
{
    grail_status status = GRAIL_OK;
    json_t *entry = json_object();
    json_t *said = json_object();
    json_t *checksums = json_array();
    const json_t *last = last_record(r);
    const int which = last == NULL ? 0 : 1 - which_file(last);
    TRY(json_put(entry, RECORD_TRAINING, json_incref(said)));
    TRY(json_put(said, "checksums", json_incref(checksums)));
    TRY(describe(state, which, said));
    TRY(pass_matrices(r, o, which, true, checksums));
    TRY(record_put(r, entry));
out:
    json_decref(checksums);
    json_decref(said);
    json_decref(entry);
    return status;
}

static judged_loss start_of(const json_t *record)
{
    const json_t *sums = json_object_get(record, "start_sums");
    const json_t *rows = json_object_get(record, "start_rows");
    judged_loss start = {0};
    for (size_t i = 0; i < TRAINING_GROUPS; i++) {
        start.sum[i] = json_number_value(json_array_get(sums, i));
        start.rows[i] = json_number_value(json_array_get(rows, i));
    }
    return start;
}

static training_state state_of(const json_t *record)
{
    return (training_state){
        .start = start_of(record),
        .steps = json_integer_value(json_object_get(record, "steps")),
        .best_step = json_integer_value(json_object_get(record, "best_step")),
        .judgements_lost = json_integer_value(json_object_get(record, "judgements_lost")),
        .began_again = json_is_true(json_object_get(record, "began_again")),
        .begun_step = json_integer_value(json_object_get(record, "begun_step")),
        .begun_progress = json_number_value(json_object_get(record, "begun_progress")),
        .held_before = json_real_or_nan(record, "held_before"),
        .held_best = json_real_or_nan(record, "held_best"),
        .held_worst = json_real_or_nan(record, "held_worst"),
        .held_last = json_real_or_nan(record, "held_last"),
        .seen_before = json_real_or_nan(record, "seen_before"),
        .seconds = json_number_value(json_object_get(record, "seconds")),
    };
}

grail_status training_restore(void *r, optimizer *o, training_state *state)
{
    const json_t *said = last_record(r);
    if (said == NULL) {
        return GRAIL_OK;
    }
    CHECK(pass_matrices(r, o, which_file(said), false, json_object_get(said, "checksums")));
    *state = state_of(said);
    o->steps = state->steps - state->begun_step;
    return GRAIL_OK;
}
