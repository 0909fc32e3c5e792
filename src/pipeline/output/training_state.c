#include "pipeline/output/training_state.h"

#include "base/checksum.h"
#include "base/file.h"
#include "pipeline/output/run_records.h"

#include <string.h>
#include <unistd.h>

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

/* One of the two files, open. */
typedef struct saved_file {
    int descriptor;
    char *path;
    uint64_t offset;
} saved_file;

static void saved_close(saved_file *f)
{
    if (f->descriptor >= 0) {
        close(f->descriptor);
    }
    memory_free(f->path);
}

static grail_status write_matrix(saved_file *f, matrix m, json_t *checksums)
{
    grail_status status = GRAIL_OK;
    void *values = NULL;
    const size_t bytes = bytes_of(m);
    char text[CHECKSUM_TEXT_SIZE];
    TRY(memory_new_unset(&values, bytes, 1));
    TRY(matrix_download(m, values));
    TRY(file_write_at(f->descriptor, f->path, values, bytes, f->offset));
    TRY(json_push(checksums, json_text(checksum_text(values, bytes, text))));
    f->offset += bytes;
out:
    memory_free(values);
    return status;
}

static grail_status read_matrix(saved_file *f, matrix m, const json_t *checksum)
{
    grail_status status = GRAIL_OK;
    void *values = NULL;
    const size_t bytes = bytes_of(m);
    char text[CHECKSUM_TEXT_SIZE];
    const char *recorded = json_string_value(checksum);
    TRY(memory_new_unset(&values, bytes, 1));
    TRY(file_read_at(f->descriptor, f->path, values, bytes, f->offset));
    if (recorded == NULL || strcmp(checksum_text(values, bytes, text), recorded) != 0) {
        FAIL(GRAIL_ERROR_FORMAT,
             "'%s' is damaged: the checksum of its matrix at byte %llu is not the recorded one; "
             "delete the directory and run again",
             f->path, (unsigned long long)f->offset);
    }
    TRY(matrix_upload(m, values));
    f->offset += bytes;
out:
    memory_free(values);
    return status;
}

static const json_t *last_record(const run_record *directory)
{
    return json_object_get(record_get(directory, RECORD_TRAINING, NULL), RECORD_TRAINING);
}

bool training_is_saved(const run_record *directory)
{
    return last_record(directory) != NULL;
}

static int which_file(const json_t *record)
{
    return json_integer_value(json_object_get(record, "file")) == 1 ? 1 : 0;
}

static grail_status describe(const training_state *state, int which, json_t *record)
{
    CHECK(json_put(record, "file", json_integer(which)));
    CHECK(json_put(record, "steps", json_integer(state->steps)));
    CHECK(json_put(record, "best_step", json_integer(state->best_step)));
    CHECK(json_put(record, "judgements_lost", json_integer(state->judgements_lost)));
    CHECK(json_put(record, "began_again", json_boolean(state->began_again)));
    CHECK(json_put(record, "begun_step", json_integer(state->begun_step)));
    CHECK(json_put(record, "begun_progress", json_real(state->begun_progress)));
    CHECK(json_put(record, "held_before", json_real(state->held_before)));
    CHECK(json_put(record, "held_best", json_real(state->held_best)));
    CHECK(json_put(record, "seen_before", json_real_or_null(state->seen_before)));
    return json_put(record, "seconds", json_real(state->seconds));
}

grail_status training_save(run_record *directory, const optimizer *o, const training_state *state)
{
    grail_status status = GRAIL_OK;
    saved_file f = {.descriptor = -1};
    json_t *line = json_object();
    json_t *record = json_object();
    json_t *checksums = json_array();
    const json_t *last = last_record(directory);
    const int which = last == NULL ? 0 : 1 - which_file(last);
    TRY(json_put(line, RECORD_TRAINING, json_incref(record)));
    TRY(json_put(record, "checksums", json_incref(checksums)));
    TRY(describe(state, which, record));
    TRY(record_open_saved(directory, which, true, &f.descriptor, &f.path));
    for (int i = 0; i < o->count; i++) {
        for (int k = 0; k < KEPT; k++) {
            TRY(write_matrix(&f, kept_matrix(o, i, k), checksums));
        }
    }
    TRY(file_flush(f.descriptor, f.path));
    TRY(record_put(directory, line));
out:
    saved_close(&f);
    json_decref(checksums);
    json_decref(record);
    json_decref(line);
    return status;
}

static training_state state_of(const json_t *record)
{
    return (training_state){
        .steps = json_integer_value(json_object_get(record, "steps")),
        .best_step = json_integer_value(json_object_get(record, "best_step")),
        .judgements_lost = json_integer_value(json_object_get(record, "judgements_lost")),
        .began_again = json_is_true(json_object_get(record, "began_again")),
        .begun_step = json_integer_value(json_object_get(record, "begun_step")),
        .begun_progress = json_number_value(json_object_get(record, "begun_progress")),
        .held_before = json_real_or_nan(record, "held_before"),
        .held_best = json_real_or_nan(record, "held_best"),
        .seen_before = json_real_or_nan(record, "seen_before"),
        .seconds = json_number_value(json_object_get(record, "seconds")),
    };
}

grail_status training_restore(run_record *directory, optimizer *o, training_state *state)
{
    grail_status status = GRAIL_OK;
    saved_file f = {.descriptor = -1};
    const json_t *record = last_record(directory);
    const json_t *checksums = json_object_get(record, "checksums");
    if (record == NULL) {
        return GRAIL_OK;
    }
    TRY(record_open_saved(directory, which_file(record), false, &f.descriptor, &f.path));
    for (int i = 0; i < o->count; i++) {
        for (int k = 0; k < KEPT; k++) {
            TRY(read_matrix(&f, kept_matrix(o, i, k),
                            json_array_get(checksums, (size_t)(i * KEPT + k))));
        }
    }
    *state = state_of(record);
    o->steps = state->steps - state->begun_step;
out:
    saved_close(&f);
    return status;
}
