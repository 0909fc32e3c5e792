#include "backend/torch/staging.h"

#include "base/parallel.h"

#include <string.h>

enum { PIECE = 1 << 24, LEAST = 1 << 16, GRAIN = 1 << 20 }; /* bytes */
enum { MOST_WAITING = 1 << 28 };                            /* bytes of uploads, until one waits */

static atomic_bool is_refused;                 /* there is no pinned memory here */
static _Atomic int64_t waiting[TORCH_DEVICES]; /* bytes of uploads since one was waited for */

/* -- copies of the host ------------------------------------------------------------------------ */

typedef struct host_copy {
    unsigned char *to;
    const unsigned char *from;
} host_copy;

static void copy_bytes(int64_t begin, int64_t end, void *context)
{
    const host_copy *c = context;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* One thread alone copies slower than the bus. */
static void copy_on_host(void *to, const void *from, size_t bytes)
{
    parallel_for((int64_t)bytes, GRAIN, copy_bytes, &(host_copy){to, from});
}

/* -- pieces ------------------------------------------------------------------------------------ */

/* Pinned memory for values of the type, or NULL: then the transfer goes without, as all later ones
 * do. The tensor's memory is not used again before copies from it have ended, even when it is
 * freed. */
static torch_tensor pinned(torch_frame *f, grail_dtype type, int64_t rows, int64_t columns,
                           void **address)
{
    const torch_device host = torch_device_host();
    torch_tensor t = NULL;
    if (f->status != GRAIL_OK || atomic_load(&is_refused) ||
        torch.aoti_torch_empty_strided_pinned == NULL) {
        return NULL;
    }
    if (torch.aoti_torch_empty_strided_pinned(2, (int64_t[]){rows, columns},
                                              (int64_t[]){columns, 1}, torch_type(type), host.type,
                                              host.index, &t) != 0) {
        atomic_store(&is_refused, true);
        return NULL;
    }
    (void)torch.aoti_torch_get_data_ptr(t, address);
    return torch_own(f, t);
}

/* Uploads wait for each other's memory where they have taken much of it. */
static bool may_wait_later(const backend *b, size_t bytes)
{
    const int64_t before = atomic_fetch_add(&waiting[b->device], (int64_t)bytes);
    const bool later = before + (int64_t)bytes <= MOST_WAITING;
    if (!later) {
        atomic_store(&waiting[b->device], 0);
    }
    return later;
}

static void transfer_plainly(torch_frame *f, matrix m, void *values, bool up)
{
    const torch_tensor own = torch_matrix(f, m);
    const torch_tensor host = torch_host_values(f, m.type, m.rows, m.columns, values);
    torch_copy(f, up ? host : own, up ? own : host);
}

static void transfer_piece(torch_frame *f, matrix m, void *values, bool up)
{
    const size_t bytes = (size_t)matrix_count(m) * element_size(m.type);
    void *memory = NULL;
    const torch_tensor staged = pinned(f, m.type, m.rows, m.columns, &memory);
    if (staged == NULL) {
        transfer_plainly(f, m, values, up);
    } else if (!up) {
        torch_copy(f, torch_matrix(f, m), staged);
        if (f->status == GRAIL_OK) {
            copy_on_host(values, memory, bytes);
        }
    } else {
        copy_on_host(memory, values, bytes);
        if (may_wait_later(m.owner, bytes)) {
            torch_start_copy(f, staged, torch_matrix(f, m));
        } else {
            torch_copy(f, staged, torch_matrix(f, m));
        }
    }
}

void torch_transfer(torch_frame *f, matrix m, void *values, bool up)
{
    const size_t row = (size_t)m.columns * element_size(m.type);
    const int64_t rows = row < PIECE ? (int64_t)(PIECE / (row + (row == 0))) : 1;
    const int before = f->count;
    if (!torch_is_cuda(f->owner) || (size_t)m.rows * row < LEAST) {
        transfer_plainly(f, m, values, up);
        return;
    }
    for (int64_t begin = 0; begin < m.rows && f->status == GRAIL_OK; begin += rows) {
        transfer_piece(f, matrix_rows(m, begin, smaller(rows, m.rows - begin)),
                       (unsigned char *)values + (size_t)begin * row, up);
        torch_forget(f, before);
    }
}
