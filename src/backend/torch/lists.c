/* Lists of the host on a device. A run gives the same few again and again, batch after batch, and
 * each copy would wait for the device. */
#include "backend/torch/calls.h"

#include "base/memory.h"

#include <pthread.h>
#include <string.h>

enum { KEPT = 64, MOST_BYTES = 1 << 16 };

typedef struct kept_list {
    torch_device where;
    grail_dtype type;
    size_t bytes;
    void *values; /* owned, as is the tensor; NULL: nothing is kept */
    torch_tensor tensor;
} kept_list;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of these, which are never freed */
static kept_list kept[KEPT];
static int next; /* place of the next one */

static const kept_list *find(torch_device where, grail_dtype type, size_t bytes, const void *values)
{
    for (int i = 0; i < KEPT; i++) {
        const kept_list *k = &kept[i];
        if (k->values != NULL && k->where.type == where.type && k->where.index == where.index &&
            k->type == type && k->bytes == bytes && memcmp(k->values, values, bytes) == 0) {
            return k;
        }
    }
    return NULL;
}

static void keep(torch_frame *f, kept_list list, const void *values, torch_tensor t)
{
    list.tensor = torch_take(f, t);
    if (list.tensor == NULL) {
        return;
    }
    if (memory_new_unset(&list.values, list.bytes, 1) != GRAIL_OK) {
        (void)torch.aoti_torch_delete_tensor_object(list.tensor);
        return; /* then it is copied again */
    }
    memcpy(list.values, values, list.bytes);
    if (kept[next].values != NULL) {
        memory_free(kept[next].values);
        (void)torch.aoti_torch_delete_tensor_object(kept[next].tensor);
    }
    kept[next] = list;
    next = (next + 1) % KEPT;
}

torch_tensor torch_list(torch_frame *f, grail_dtype type, int64_t count, const void *values)
{
    torch_tensor t = NULL;
    const kept_list list = {.where = torch_device_of(f->owner),
                            .type = type,
                            .bytes = (size_t)count * dtype_bits(type) / 8};
    if (list.bytes == 0 || list.bytes > MOST_BYTES) {
        return torch_values(f, type, count, values);
    }
    pthread_mutex_lock(&mutex);
    const kept_list *known = find(list.where, type, list.bytes, values);
    if (known != NULL) {
        t = torch_shared(f, known->tensor);
    } else {
        t = torch_values(f, type, count, values);
        if (f->status == GRAIL_OK) {
            keep(f, list, values, t);
        }
    }
    pthread_mutex_unlock(&mutex);
    return t;
}
