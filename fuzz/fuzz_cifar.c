/* Any bytes as a CIFAR-10 batch, binary or pickled. An accepted batch has complete images within
 * the bytes, and labels of the ten classes. */
#include "fuzz.h"

#include "format/images/cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cifar_batch batch = {0};
    if (cifar_batch_read("input", data, size, &batch) != GRAIL_OK) {
        return 0;
    }
    fuzz_require(batch.count > 0 && batch.stride >= CIFAR_BYTES && batch.pixels >= data);
    const size_t last = (size_t)(batch.count - 1) * batch.stride + CIFAR_BYTES;
    fuzz_require(last <= size - (size_t)(batch.pixels - data));
    for (int64_t i = 0; i < batch.count; i++) {
        fuzz_require(batch.labels[i] < CIFAR_CLASSES);
    }
    cifar_batch_close(&batch);
    return 0;
}
