/* The vocabulary: pieces by id in one text buffer, and ids by piece in a hash table with open
 * addressing. Some ids may have no piece. */
#include "format/text/tokenizer_internal.h"

#include <string.h>

enum { TEXT_MAX = 1 << 30, FIRST_SLOTS = 1024 };

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
    memory_free(v->slots);
    vocabulary_init(v);
}

/* FNV-1a with a final mix, since the table uses the low bits. */
static size_t hash_piece(text_span piece)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < piece.size; i++) {
        hash = (hash ^ (unsigned char)piece.bytes[i]) * 0x100000001B3u;
    }
    return (size_t)(hash ^ (hash >> 29));
}

text_span vocabulary_piece(const vocabulary *v, int64_t id)
{
    if (id < 0 || id >= v->count || v->offsets[id] == SIZE_MAX) {
        return (text_span){NULL, 0};
    }
    return (text_span){(const char *)v->text.bytes + v->offsets[id], v->sizes[id]};
}

/* The slot that holds the piece, or the free one where it belongs. */
static size_t find_slot(const vocabulary *v, text_span piece)
{
    size_t slot = hash_piece(piece) & (v->slot_count - 1);
    for (; v->slots[slot] >= 0; slot = (slot + 1) & (v->slot_count - 1)) {
        const text_span other = vocabulary_piece(v, v->slots[slot]);
        if (other.size == piece.size && memcmp(other.bytes, piece.bytes, piece.size) == 0) {
            break;
        }
    }
    return slot;
}

int32_t vocabulary_find(const vocabulary *v, text_span piece)
{
    return v->slot_count == 0 ? -1 : v->slots[find_slot(v, piece)];
}

static grail_status grow_slots(vocabulary *v)
{
    if (v->slots_used * 2 < v->slot_count) {
        return GRAIL_OK;
    }
    const size_t old_count = v->slot_count;
    int32_t *old = v->slots;
    int32_t *slots = NULL;
    const size_t count = old_count == 0 ? FIRST_SLOTS : old_count * 2;
    CHECK(memory_new_unset(&slots, count, sizeof *slots));
    memset(slots, 0xFF, count * sizeof *slots);
    v->slots = slots;
    v->slot_count = count;
    for (size_t i = 0; i < old_count; i++) {
        if (old[i] >= 0) {
            v->slots[find_slot(v, vocabulary_piece(v, old[i]))] = old[i];
        }
    }
    memory_free(old);
    return GRAIL_OK;
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
    CHECK(grow_slots(v));
    const size_t slot = find_slot(v, piece);
    if (((slot - hash_piece(piece)) & (v->slot_count - 1)) > TOKENIZER_MOST_PROBES) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "more than %d pieces collide in a hash table; the pieces of a real tokenizer do not",
            TOKENIZER_MOST_PROBES);
    }
    if (v->slots[slot] >= 0) {
        return error_set(GRAIL_ERROR_FORMAT, "piece '%.*s' has two ids, %d and %d", (int)piece.size,
                         piece.bytes, v->slots[slot], id);
    }
    CHECK(vocabulary_name(v, piece, id));
    v->slots[slot] = id;
    v->slots_used += 1;
    v->longest = piece.size > v->longest ? piece.size : v->longest;
    return GRAIL_OK;
}
