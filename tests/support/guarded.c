#include "support/guarded.h"

#include "backend/host/host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, MARK = 0xA5, UNSET = 0xFF };

/* Memory ends as close to a page that is never opened as its alignment allows. The bytes before and
 * behind it hold MARK. */
typedef struct allocation {
    struct allocation *next;
    unsigned char *pages;
    size_t length; /* of the pages that can be opened; one more follows */
    unsigned char *memory;
    size_t bytes;
    int users; /* the pages are open while there are any */
} allocation;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list and the users */
static allocation *allocations;
static size_t limit; /* of bytes; 0: none */
static size_t in_use, peak;

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static grail_status protect(const allocation *a, int protection)
{
    return mprotect(a->pages, a->length, protection) == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_MEMORY, "cannot change the protection of %zu bytes",
                           a->length);
}

/* -- who may touch what ------------------------------------------------------------------------ */

/* Views begin anywhere in an allocation. */
static allocation *find(const void *address)
{
    allocation *a = allocations;
    while (a != NULL && (size_t)((uintptr_t)address - (uintptr_t)a->memory) >= a->bytes) {
        a = a->next;
    }
    return a;
}

static grail_status open_locked(matrix m)
{
    allocation *a = find(m.memory);
    if (a == NULL) {
        return error_set(GRAIL_ERROR_INTERNAL, "a matrix lies in no allocation of 'guarded'");
    }
    const grail_status status = a->users > 0 ? GRAIL_OK : protect(a, PROT_READ | PROT_WRITE);
    a->users += status == GRAIL_OK ? 1 : 0;
    return status;
}

static grail_status open_memory(matrix m)
{
    pthread_mutex_lock(&mutex);
    const grail_status status = matrix_count(m) == 0 ? GRAIL_OK : open_locked(m);
    pthread_mutex_unlock(&mutex);
    return status;
}

static grail_status close_locked(matrix m)
{
    allocation *a = find(m.memory);
    return --a->users > 0 ? GRAIL_OK : protect(a, PROT_NONE);
}

static grail_status close_memory(matrix m)
{
    pthread_mutex_lock(&mutex);
    const grail_status status = matrix_count(m) == 0 ? GRAIL_OK : close_locked(m);
    pthread_mutex_unlock(&mutex);
    return status;
}

/* -- memory ------------------------------------------------------------------------------------ */

static void link_allocation(allocation *a)
{
    pthread_mutex_lock(&mutex);
    a->next = allocations;
    allocations = a;
    in_use += a->bytes;
    peak = in_use > peak ? in_use : peak;
    pthread_mutex_unlock(&mutex);
}

static allocation *unlink_allocation(const void *memory)
{
    pthread_mutex_lock(&mutex);
    allocation **at = &allocations;
    while (*at != NULL && (*at)->memory != memory) {
        at = &(*at)->next;
    }
    allocation *a = *at;
    if (a != NULL) {
        *at = a->next;
        in_use -= a->bytes;
    }
    pthread_mutex_unlock(&mutex);
    return a;
}

static grail_status map_pages(allocation *a)
{
    void *pages = mmap(NULL, a->length + page_size(), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory: cannot map %zu bytes", a->length);
    }
    a->pages = pages;
    a->memory = a->pages + a->length - round_up(a->bytes, ALIGNMENT);
    return GRAIL_OK;
}

static grail_status fill(const allocation *a, bool zeroed)
{
    if (a->length == 0) {
        return GRAIL_OK;
    }
    CHECK(protect(a, PROT_READ | PROT_WRITE));
    memset(a->pages, MARK, a->length);
    memset(a->memory, zeroed ? 0 : UNSET, a->bytes);
    return protect(a, PROT_NONE);
}

static grail_status allocate(backend *b, size_t bytes, bool zeroed, void **out)
{
    grail_status status = GRAIL_OK;
    allocation *a = NULL;
    (void)b;
    if (limit > 0 && in_use + bytes > limit) {
        FAIL(GRAIL_ERROR_MEMORY, "the device is full: it has no %zu bytes", bytes);
    }
    if (bytes > SIZE_MAX / 4) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory: cannot map %zu bytes", bytes);
    }
    TRY(memory_new(&a, 1, sizeof *a));
    a->bytes = bytes;
    a->length = round_up(bytes, page_size());
    TRY(map_pages(a));
    TRY(fill(a, zeroed));
    link_allocation(a);
    *out = a->memory;
    a = NULL;
out:
    if (a != NULL && a->pages != NULL) {
        munmap(a->pages, a->length + page_size());
    }
    memory_free(a);
    return status;
}

static void give_up(const char *text)
{
    fprintf(stderr, "guarded: %s\n", text);
    abort();
}

static bool holds_marks(const unsigned char *begin, const unsigned char *end)
{
    while (begin < end && *begin == MARK) {
        begin++;
    }
    return begin >= end;
}

static void release(backend *b, void *memory, size_t bytes)
{
    (void)b;
    allocation *a = unlink_allocation(memory);
    if (a == NULL || a->bytes != bytes || a->users != 0) {
        give_up("a matrix is freed that does not exist, or is in use");
        return;
    }
    if (a->length > 0 && protect(a, PROT_READ) != GRAIL_OK) {
        give_up("memory cannot be read");
    }
    if (!holds_marks(a->pages, a->memory) ||
        !holds_marks(a->memory + a->bytes, a->pages + a->length)) {
        give_up("something wrote before or behind a matrix");
    }
    munmap(a->pages, a->length + page_size());
    memory_free(a);
}

static grail_status upload(matrix m, const void *values)
{
    CHECK(open_memory(m));
    CHECK(host_upload(m, values));
    return close_memory(m);
}

static grail_status download(matrix m, void *values)
{
    CHECK(open_memory(m));
    CHECK(host_download(m, values));
    return close_memory(m);
}

static void describe(const backend *b, grail_device *out)
{
    (void)b;
    out->memory_free = limit > 0 ? (int64_t)(limit - in_use) : out->memory_free;
}

/* -- operations -------------------------------------------------------------------------------- */

static grail_status enter(backend *b)
{
    (void)b;
    return backend_host()->kind->enter(backend_host());
}

/* The first failure of several steps that all have to be taken. */
static grail_status first_failure(grail_status before, grail_status now)
{
    return before == GRAIL_OK ? now : before;
}

static grail_status run_on_cpu(const operation *o)
{
    grail_status status = GRAIL_OK;
    int opened = 0;
    for (; opened < OPERATION_MATRICES; opened++) {
        TRY(open_memory(o->m[opened]));
    }
    TRY(kind_slot(backend_host()->kind, o->slot)(o));
out:
    for (int i = 0; i < opened; i++) {
        status = first_failure(status, close_memory(o->m[i]));
    }
    return status;
}

static backend_kind guarded = {
    .name = "guarded",
    .precision = "f32",
    .type = GRAIL_DTYPE_F32,
    .devices = 1,
    .batch_rows = 300, /* panels of more rows than the host's */
    .enter = enter,
    .allocate = allocate,
    .release = release,
    .describe = describe,
    .upload = upload,
    .download = download,
};

static bool is_left_out(operation_slot slot)
{
    return slot == SLOT_eigen || slot == SLOT_fold_rows || slot == SLOT_windows ||
           slot == SLOT_layer_norm || slot == SLOT_layer_norm_gradient;
}

size_t guarded_limit(size_t bytes)
{
    const size_t most = peak;
    limit = bytes;
    peak = in_use;
    return most;
}

void guarded_want(int64_t rows)
{
    guarded.batch_rows = rows;
}

void guarded_add(void)
{
    static bool added;
    if (added) {
        return;
    }
    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        guarded.slots[slot] = is_left_out((operation_slot)slot) ? NULL : run_on_cpu;
    }
    guarded.gram_rounding = backend_gram_rounding(backend_host(), 1);
    if (backend_add(&guarded) != GRAIL_OK) {
        give_up(grail_error_message());
    }
    added = true;
}
