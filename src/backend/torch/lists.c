/* Lists of the host on a device, and zeros. A run gives the same few again and again, batch after
 * batch, and each copy would wait for the device. */
#include "backend/torch/calls.h"

#include "base/memory.h"

#include <pthread.h>
#include <string.h>

enum { KEPT = 128, MOST_BYTES = 1 << 16 };

typedef struct kept_tensor {
    torch_device where;
    grail_dtype type;
    size_t bytes;
    void *key; /* [bytes], owned, as is the tensor; NULL: nothing is kept */
    torch_tensor tensor;
} kept_tensor;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of these, which are never freed */
static kept_tensor kept[KEPT];
static int next; /* place of the next one */

static torch_tensor find(torch_device where, grail_dtype type, size_t bytes, const void *key)
{
    for (int i = 0; i < KEPT; i++) {
        const kept_tensor *k = &kept[i];
        if (k->key != NULL && k->where.type == where.type && k->where.index == where.index &&
            k->type == type && k->bytes == bytes && memcmp(k->key, key, bytes) == 0) {
            return k->tensor;
        }
    }
    return NULL;
}

torch_tensor torch_kept(torch_frame *f, grail_dtype type, size_t bytes, const void *key)
{
    pthread_mutex_lock(&mutex);
    const torch_tensor known = find(torch_device_of(f->owner), type, bytes, key);
    const torch_tensor t = known == NULL ? NULL : torch_shared(f, known);
    pthread_mutex_unlock(&mutex);
    return t;
}

/* Where there is no memory for the key the tensor is made again. */
void torch_keep(torch_frame *f, grail_dtype type, size_t bytes, const void *key, torch_tensor t)
{
    kept_tensor more = {.where = torch_device_of(f->owner), .type = type, .bytes = bytes};
    if (bytes > MOST_BYTES || f->status != GRAIL_OK ||
        memory_new_unset(&more.key, bytes, 1) != GRAIL_OK) {
        return;
    }
    memcpy(more.key, key, bytes);
    more.tensor = torch_take(f, t);
    if (more.tensor == NULL) {
        memory_free(more.key);
        return;
    }
    pthread_mutex_lock(&mutex);
    const kept_tensor before = kept[next];
    kept[next] = more;
    next = (next + 1) % KEPT;
    pthread_mutex_unlock(&mutex);
    if (before.key != NULL) {
        memory_free(before.key);
        (void)torch.aoti_torch_delete_tensor_object(before.tensor);
    }
}

torch_tensor torch_list(torch_frame *f, grail_dtype type, int64_t count, const void *values)
{
    const size_t bytes = (size_t)count * dtype_bits(type) / 8;
    torch_tensor t = bytes == 0 || bytes > MOST_BYTES ? NULL : torch_kept(f, type, bytes, values);
    if (t == NULL) {
        t = torch_values(f, type, count, values);
        torch_keep(f, type, bytes, values, t);
    }
    return t;
}

/* -- zeros ------------------------------------------------------------------------------------- */

/* Bytes of 0 of a device, which are 0 in every type. */
typedef struct kept_zeros {
    size_t bytes;
    void *address; /* of a tensor that is never freed: others may read it when a longer one comes */
} kept_zeros;

static kept_zeros zeros[TORCH_DEVICES + 1]; /* the first are the host's; of the mutex */

static void make_zeros(torch_frame *f, size_t bytes, kept_zeros *out)
{
    const torch_tensor t = torch_empty(f, GRAIL_DTYPE_U8, 1, (int64_t)bytes);
    torch_zero(f, t);
    const torch_tensor own = torch_take(f, t);
    if (own != NULL && torch.aoti_torch_get_data_ptr(own, &out->address) == 0) {
        out->bytes = bytes;
    }
}

torch_tensor torch_zeros(torch_frame *f, grail_dtype type, int64_t count)
{
    kept_zeros *const own = &zeros[torch_device_of(f->owner).index + 1];
    const size_t bytes = (size_t)count * element_size(type);
    pthread_mutex_lock(&mutex);
    if (own->bytes < bytes) {
        const size_t more = bytes > MOST_BYTES ? bytes : MOST_BYTES;
        make_zeros(f, more > 2 * own->bytes ? more : 2 * own->bytes, own);
    }
    const matrix m = {
        .owner = (backend *)(uintptr_t)f->owner, .memory = own->address, .type = type};
    pthread_mutex_unlock(&mutex);
    return torch_view(f, m, 1, &count, (int64_t[]){1});
}
