#include "base/checksum.h"

#include <zlib.h>

uint32_t checksum_crc32(const void *bytes, size_t size)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, size);
}
