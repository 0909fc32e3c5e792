/* Any bytes as a torch checkpoint in the zip format. */
#include "fuzz_torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_torch(data, size);
    return 0;
}
