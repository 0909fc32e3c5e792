/* CRC-32 as zip and gzip have it: of bytes that a disk or a memory may have changed, not a proof
 * against somebody who wants to deceive. */
#ifndef GRAIL_BASE_CHECKSUM_H
#define GRAIL_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint32_t checksum_crc32(const void *bytes, size_t size);

#endif
