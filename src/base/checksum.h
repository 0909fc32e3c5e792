/* The CRC-32 of zip and gzip. It detects bytes that a disk or a memory changed by accident; it does
 * not detect forgery. */
#ifndef GRAIL_BASE_CHECKSUM_H
#define GRAIL_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint32_t checksum_crc32(const void *bytes, size_t size);

#endif
