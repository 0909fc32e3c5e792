/* The vocabulary: pieces by id in one text buffer, and ids by piece in a hash table. Some ids may
 * have no piece. */
#include "format/text/tokenizer_internal.h"

#include <string.h>

enum { TEXT_MAX = 1 << 30 };

void vocabulary_init(vocabulary *v)
{
    *v = (vocabulary){0};
    buffer_init(&v->text, TEXT_MAX);
}

void vocabulary_fini(vocabulary *v)
{
    buffer_fini(&v->text);
    memory_free(v->offsets);
    memory_free(v->sizes);
    slot_table_fini(&v->slots);
    vocabulary_init(v);
}

text_span vocabulary_piece(const vocabulary *v, int64_t id)
{
    if (id < 0 || id >= v->count || v->offsets[id] == SIZE_MAX) {
        return (text_span){NULL, 0};
    }
    return (text_span){(const char *)v->text.bytes + v->offsets[id], v->sizes[id]};
}

static uint64_t hash_of(const void *pieces, int32_t id)
{
    const text_span piece = vocabulary_piece(pieces, id);
    return slot_hash(piece.bytes, piece.size);
}

static bool is_piece(const void *pieces, int32_t id, const void *key)
{
    const text_span piece = vocabulary_piece(pieces, id);
    const text_span *wanted = key;
    return piece.size == wanted->size && memcmp(piece.bytes, wanted->bytes, piece.size) == 0;
}

int32_t vocabulary_find(const vocabulary *v, text_span piece)
{
    const uint64_t hash = slot_hash(piece.bytes, piece.size);
    return v->slots.count == 0 ? -1 : *slot_table_find(&v->slots, hash, is_piece, v, &piece);
}

/* Room for ids 0 .. id. */
static grail_status grow_ids(vocabulary *v, int32_t id)
{
    CHECK(memory_reserve(&v->offsets, (size_t)id + 1, sizeof *v->offsets));
    CHECK(memory_reserve(&v->sizes, (size_t)id + 1, sizeof *v->sizes));
    for (; v->count <= id; v->count++) {
        v->offsets[v->count] = SIZE_MAX;
    }
    return GRAIL_OK;
}

grail_status tokenizer_check_probes(const slot_table *t, uint64_t hash, const int32_t *slot,
                                    const char *what)
{
    return slot_table_probes(t, hash, slot) <= TOKENIZER_MOST_PROBES
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT,
                           "more than %d %s collide in a hash table; the %s of a real tokenizer do "
                           "not",
                           TOKENIZER_MOST_PROBES, what, what);
}

grail_status vocabulary_name(vocabulary *v, text_span piece, int32_t id)
{
    const text_span other = vocabulary_piece(v, id);
    if (other.bytes != NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "id %d belongs to both '%s' and '%.*s'", id,
                         other.bytes, (int)piece.size, piece.bytes);
    }
    CHECK(grow_ids(v, id));
    const size_t offset = v->text.size;
    CHECK(buffer_append(&v->text, piece.bytes, piece.size));
    CHECK(buffer_append(&v->text, "", 1));
    v->offsets[id] = offset;
    v->sizes[id] = piece.size;
    return GRAIL_OK;
}

grail_status vocabulary_add(vocabulary *v, text_span piece, int32_t id)
{
    const uint64_t hash = slot_hash(piece.bytes, piece.size);
    CHECK(slot_table_reserve(&v->slots, hash_of, v));
    int32_t *slot = slot_table_find(&v->slots, hash, is_piece, v, &piece);
    CHECK(tokenizer_check_probes(&v->slots, hash, slot, "pieces"));
    if (*slot >= 0) {
        return error_set(GRAIL_ERROR_FORMAT, "piece '%.*s' has two ids, %d and %d", (int)piece.size,
                         piece.bytes, *slot, id);
    }
    CHECK(vocabulary_name(v, piece, id));
    slot_table_fill(&v->slots, slot, id);
    v->longest = piece.size > v->longest ? piece.size : v->longest;
    return GRAIL_OK;
}
