#include "base/hash.h"

#include "base/file.h"

#include <sha2.h>
#include <stdint.h>

void hash_bytes(const void *bytes, size_t size, char out[HASH_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX context;
    SHA256Init(&context);
    SHA256Update(&context, bytes, size);
    SHA256Final(digest, &context);
    for (size_t i = 0; i < sizeof digest; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[HASH_TEXT_SIZE - 1] = 0;
}

grail_status hash_file(const char *path, char out[HASH_TEXT_SIZE])
{
    file_map map = {0};
    const grail_status status = file_map_open(&map, path);
    if (status == GRAIL_OK) {
        hash_bytes(map.data, map.size, out);
    }
    file_map_close(&map);
    return status;
}
