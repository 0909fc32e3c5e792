/* Any bytes after the magic number of a torch checkpoint in the legacy format. */
#include "fuzz_torch.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                    0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};
    uint8_t *file = malloc(sizeof magic + size);
    fuzz_require(file != NULL);
    memcpy(file, magic, sizeof magic);
    if (size > 0) {
        memcpy(file + sizeof magic, data, size);
    }
    fuzz_torch(file, sizeof magic + size);
    free(file);
    return 0;
}
