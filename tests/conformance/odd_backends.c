#include "conformance/odd_backends.h"

#include "backend/kind.h"
#include "base/parallel.h"

#include <string.h>

observed recorded;

static grail_status recording_enter(backend *b)
{
    recorded.threads_of_enter = parallel_threads();
    return recorded.enter != GRAIL_OK ? error_set(recorded.enter, "no entry to %s", b->kind->name)
                                      : GRAIL_OK;
}

static grail_status recording_slot(const operation *o)
{
    recorded.threads_of_operation = parallel_threads();
    return recorded.operation != GRAIL_OK
               ? error_set(recorded.operation, "no arithmetic in %s", o->m[0].owner->kind->name)
               : GRAIL_OK;
}

static grail_status failing_upload(matrix m, const void *values)
{
    return recorded.upload != GRAIL_OK ? error_set(recorded.upload, "cannot upload")
                                       : backend_cpu.upload(m, values);
}

static grail_status failing_download(matrix m, void *values)
{
    return recorded.download != GRAIL_OK ? error_set(recorded.download, "cannot download")
                                         : backend_cpu.download(m, values);
}

/* cpu, whose first operation records; f32 and f64 without any operation; and one with its own
 * memory, two devices and transfers that fail when told to. */
static backend_kind recorder, bare_f32, bare_f64, distant;

static backend_kind without_operations(const backend_kind *like, const char *name)
{
    backend_kind kind = *like;
    kind.name = name;
    for (int i = 0; i < SLOT_COUNT; i++) {
        kind.slots[i] = NULL;
    }
    return kind;
}

int add_odd_backends(void **state)
{
    recorder = backend_cpu;
    recorder.name = "recorder";
    recorder.enter = recording_enter;
    recorder.slots[SLOT_shift_diagonal] = recording_slot;
    bare_f32 = without_operations(&backend_cpu, "bare f32");
    bare_f64 = without_operations(&backend_ref, "bare f64");
    distant = without_operations(&backend_cpu, "distant");
    distant.is_host = false;
    distant.devices = 2;
    distant.upload = failing_upload;
    distant.download = failing_download;
    return backend_add(&recorder) == GRAIL_OK && backend_add(&bare_f32) == GRAIL_OK &&
                   backend_add(&bare_f64) == GRAIL_OK && backend_add(&distant) == GRAIL_OK
               ? 0
               : -1;
}

int forget_failures(void **state)
{
    memset(&recorded, 0, sizeof recorded);
    return 0;
}

backend *open_with(const char *name, int threads)
{
    backend *b = NULL;
    assert_ok(backend_open(name, &(backend_options){.threads = threads}, &b));
    return b;
}

matrix zeros_in(backend *b, grail_dtype type, int64_t rows, int64_t columns)
{
    matrix m = {0};
    assert_ok(matrix_new_zero(b, type, rows, columns, &m));
    return m;
}
