#include "eval/measuring.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "eval/zeroed_store.h"
#include "exec/compute.h"
#include "pipeline/request/calibration_record.h"

#include <stdio.h>
#include <string.h>

grail_status measured_open(const grail_model *model, const grail_model *narrow,
                           const grail_compute *compute, measured_network *n)
{
    CHECK(compute_open(compute, model, &n->backend));
    CHECK(parameter_store_create(model, n->backend, NULL, &n->dense));
    CHECK(narrow == NULL ? GRAIL_OK : zeroed_store_of_cut(n->dense, narrow, &n->cut));
    n->store = n->cut == NULL ? n->dense : n->cut;
    return GRAIL_OK;
}

grail_status measured_open_alone(const grail_model *model, const grail_model *narrow,
                                 const grail_compute *compute, measured_network *n)
{
    grail_compute alone = compute == NULL ? (grail_compute){0} : *compute;
    alone.comm = NULL;
    return measured_open(model, narrow, &alone, n);
}

void measured_close(measured_network *n)
{
    parameter_store_free(n->cut);
    parameter_store_free(n->dense);
    backend_close(n->backend);
}

/* What gives other bits where it differs. */
static grail_status describe(const grail_model *model, const backend *b, const void *bytes,
                             size_t size, buffer *all)
{
    char tensors[HASH_TEXT_SIZE];
    const int threads = parallel_threads();
    const char *precision = backend_precision(b);
    CHECK(grail_model_digest(model, tensors));
    CHECK(buffer_append(all, &threads, sizeof threads));
    CHECK(buffer_append(all, tensors, sizeof tensors));
    CHECK(buffer_append(all, precision, strlen(precision) + 1));
    return buffer_append(all, bytes, size);
}

grail_status agreement_check(const grail_comm *comm, const grail_model *model, const backend *b,
                             const char *data, const void *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    buffer all = {0};
    char what[80];
    if (!comm_is_shared(comm)) {
        return GRAIL_OK;
    }
    snprintf(what, sizeof what, "model, precision, number of threads or %s", data);
    buffer_init(&all, SIZE_MAX / 4);
    TRY(comm_settle(comm, describe(model, b, bytes, size, &all)));
    TRY(comm_agree(comm, what, "give all ranks the same command and files", all.bytes, all.size));
out:
    buffer_fini(&all);
    return status;
}

grail_status observer_tell(grail_eval_observer observer, void *user, const grail_eval_progress *now,
                           const char *what)
{
    return observer == NULL || observer(user, now) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_CANCELLED, "cancelled after %lld of %lld %s",
                           (long long)now->done, (long long)now->total, what);
}

grail_status text_overlap_find(const grail_model *model, const token_windows *windows,
                               text_overlap *out)
{
    grail_status status = GRAIL_OK;
    json_t *record = NULL;
    hash_set set = {0};
    TRY(calibration_record_read(model, &record));
    TRY(calibration_record_hashes(model, record, &set));
    *out = (text_overlap){.recorded = set.count,
                          .found = shingles_found(&set, windows),
                          .is_calibration =
                              calibration_record_is(record, "text_sha256", windows->text_hash)};
out:
    hash_set_fini(&set);
    json_decref(record);
    return status;
}
