#include "base/hash.h"

#include "base/bytes.h"
#include "base/hash_blocks.h"

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
    enum { BITS = 8 };
    SHA2_CTX context;
    memcpy(&context, state->context, sizeof context);
    /* libmd takes what fills a block that is begun, and what is left behind whole ones. */
    const size_t begun = context.bitcount[0] / BITS % SHA256_BLOCK_LENGTH;
    const size_t filling = begun == 0 ? 0 : SHA256_BLOCK_LENGTH - begun;
    if (hash_blocks_are_fast() && size >= filling + SHA256_BLOCK_LENGTH) {
        const size_t blocks = (size - filling) / SHA256_BLOCK_LENGTH;
        const size_t taken = filling + blocks * SHA256_BLOCK_LENGTH;
        SHA256Update(&context, bytes, filling);
        hash_blocks(context.state.st32, (const uint8_t *)bytes + filling, blocks);
        context.bitcount[0] += (uint64_t)blocks * SHA256_BLOCK_LENGTH * BITS;
        bytes = (const uint8_t *)bytes + taken;
        size -= taken;
    }
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

enum { HASH_BYTES = 8 };

grail_status hash_set_init(hash_set *set)
{
    set->count = 0;
    return memory_new(&set->hashes, HASH_SET_MOST, sizeof set->hashes[0]);
}

void hash_set_fini(hash_set *set)
{
    memory_free(set->hashes);
    *set = (hash_set){0};
}

static int compare_hashes(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

void hash_set_settle(hash_set *set)
{
    int64_t kept = 0;
    qsort(set->hashes, (size_t)set->count, sizeof set->hashes[0], compare_hashes);
    for (int64_t i = 0; i < set->count; i++) {
        if (kept == 0 || set->hashes[i] != set->hashes[kept - 1]) {
            set->hashes[kept++] = set->hashes[i];
        }
    }
    set->count = kept;
}

grail_status hash_set_add(hash_set *set, const hash_set *other)
{
    grail_status status = GRAIL_OK;
    hash_set both = {0};
    TRY(memory_new(&both.hashes, (size_t)(set->count + other->count) + 1, sizeof both.hashes[0]));
    memcpy(both.hashes, set->hashes, (size_t)set->count * sizeof set->hashes[0]);
    for (int64_t i = 0; i < other->count; i++) {
        both.hashes[set->count + i] = other->hashes[i];
    }
    both.count = set->count + other->count;
    hash_set_settle(&both);
    set->count = both.count < HASH_SET_MOST ? both.count : HASH_SET_MOST;
    for (int64_t i = 0; i < set->count; i++) {
        set->hashes[i] = both.hashes[i * both.count / set->count];
    }
out:
    hash_set_fini(&both);
    return status;
}

/* NULL where the set lacks it. */
static const uint64_t *find(const hash_set *set, uint64_t hash)
{
    return set->count == 0
               ? NULL
               : bsearch(&hash, set->hashes, (size_t)set->count, sizeof hash, compare_hashes);
}

bool hash_set_has(const hash_set *set, uint64_t hash)
{
    return find(set, hash) != NULL;
}

int64_t hash_set_mark(const hash_set *set, uint64_t hash, bool marked[HASH_SET_MOST])
{
    const uint64_t *found = find(set, hash);
    if (found == NULL || marked[found - set->hashes]) {
        return 0;
    }
    marked[found - set->hashes] = true;
    return 1;
}

/* -- the file ---------------------------------------------------------------------------------- */

grail_status hash_set_append(const hash_set *set, buffer *out)
{
    for (int64_t i = 0; i < set->count; i++) {
        unsigned char bytes[HASH_BYTES];
        store_little(bytes, sizeof bytes, set->hashes[i]);
        CHECK(buffer_append(out, bytes, sizeof bytes));
    }
    return GRAIL_OK;
}

grail_status hash_set_read(const char *path, const buffer *bytes, const char *sha256, hash_set *out)
{
    grail_status status = GRAIL_OK;
    char found[HASH_TEXT_SIZE];
    hash_set set = {0};
    hash_bytes(bytes->bytes, bytes->size, found);
    if (strcmp(found, sha256) != 0) {
        FAIL(GRAIL_ERROR_FORMAT, "'%s' is damaged or of another result: its SHA-256 is %s, not %s",
             path, found, sha256);
    }
    TRY(hash_set_init(&set));
    if (bytes->size % HASH_BYTES != 0 || bytes->size > HASH_SET_LARGEST) {
        FAIL(GRAIL_ERROR_FORMAT,
             "'%s' has %zu bytes, which are no whole number of 8-byte hashes, or more "
             "than %d of them",
             path, bytes->size, HASH_SET_MOST);
    }
    for (size_t i = 0; i < bytes->size; i += HASH_BYTES) {
        const uint64_t hash = load_little(bytes->bytes + i, HASH_BYTES);
        if (set.count > 0 && hash <= set.hashes[set.count - 1]) {
            FAIL(GRAIL_ERROR_FORMAT, "'%s': hash %lld is not above the one before it", path,
                 (long long)set.count);
        }
        set.hashes[set.count++] = hash;
    }
    *out = set;
    set = (hash_set){0};
out:
    hash_set_fini(&set);
    return status;
}
