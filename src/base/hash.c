#include "base/hash.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(SHA2_CTX) <= sizeof(hash_state), "libmd's context fits");

void hash_begin(hash_state *state)
{
    SHA2_CTX context;
    SHA256Init(&context);
    memcpy(state->context, &context, sizeof context);
}

void hash_add(hash_state *state, const void *bytes, size_t size)
{
    SHA2_CTX context;
    memcpy(&context, state->context, sizeof context);
    SHA256Update(&context, bytes, size);
    memcpy(state->context, &context, sizeof context);
}

void hash_end(hash_state *state, char out[HASH_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX context;
    memcpy(&context, state->context, sizeof context);
    SHA256Final(digest, &context);
    for (size_t i = 0; i < sizeof digest; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[HASH_TEXT_SIZE - 1] = 0;
}

void hash_bytes(const void *bytes, size_t size, char out[HASH_TEXT_SIZE])
{
    hash_state state;
    hash_begin(&state);
    hash_add(&state, bytes, size);
    hash_end(&state, out);
}

uint64_t hash_short(const void *bytes, size_t size)
{
    enum { DIGITS = 16 };
    char text[HASH_TEXT_SIZE];
    hash_bytes(bytes, size, text);
    text[DIGITS] = 0;
    return strtoull(text, NULL, 16);
}
