/* What tokenizers look up: pieces by id and ids by piece, pairs of ids, the longest of many pieces
 * at a place of a text; and lists of ids. */
#include "format/text/tokenizer_internal.h"

#include <string.h>

enum { TEXT_MAX = 1 << 30, NODES_MAX = 1 << 26 };

/* -- the vocabulary: pieces by id in one text buffer, and ids by piece in a hash table. Some ids
 * may have no piece. */

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

/* Refuses an item for which too many slots were tried; `what` says what collides. */
static grail_status check_probes(const slot_table *t, uint64_t hash, const int32_t *slot,
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
    CHECK(memory_reserve(&v->offsets, (size_t)id + 1, sizeof *v->offsets));
    CHECK(memory_reserve(&v->sizes, (size_t)id + 1, sizeof *v->sizes));
    for (; v->count <= id; v->count++) {
        v->offsets[v->count] = SIZE_MAX;
    }
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
    CHECK(check_probes(&v->slots, hash, slot, "pieces"));
    if (*slot >= 0) {
        return error_set(GRAIL_ERROR_FORMAT, "piece '%.*s' has two ids, %d and %d", (int)piece.size,
                         piece.bytes, *slot, id);
    }
    CHECK(vocabulary_name(v, piece, id));
    slot_table_fill(&v->slots, slot, id);
    v->longest = piece.size > v->longest ? piece.size : v->longest;
    return GRAIL_OK;
}

/* -- pairs of ids, each with a rank and a result ----------------------------------------------- */

static uint64_t hash_pair(int32_t left, int32_t right)
{
    uint64_t key = ((uint64_t)(uint32_t)left << 32) | (uint32_t)right;
    key *= 0x9E3779B97F4A7C15u; /* 2^64 over the golden ratio */
    return key ^ (key >> 32);
}

static uint64_t hash_of_entry(const void *entries, int32_t place)
{
    const pair_entry *entry = (const pair_entry *)entries + place;
    return hash_pair(entry->left, entry->right);
}

static bool is_pair(const void *entries, int32_t place, const void *key)
{
    const pair_entry *entry = (const pair_entry *)entries + place;
    const pair_entry *wanted = key;
    return entry->left == wanted->left && entry->right == wanted->right;
}

static int32_t *find_slot(const pair_table *t, const pair_entry *key)
{
    return slot_table_find(&t->slots, hash_pair(key->left, key->right), is_pair, t->entries, key);
}

grail_status pair_table_put(pair_table *t, pair_entry entry)
{
    CHECK(slot_table_reserve(&t->slots, hash_of_entry, t->entries));
    CHECK(memory_reserve(&t->entries, t->slots.used + 1, sizeof t->entries[0]));
    int32_t *slot = find_slot(t, &entry);
    CHECK(check_probes(&t->slots, hash_pair(entry.left, entry.right), slot, "merges"));
    if (*slot < 0) {
        slot_table_fill(&t->slots, slot, (int32_t)t->slots.used);
    }
    t->entries[*slot] = entry;
    return GRAIL_OK;
}

const pair_entry *pair_table_find(const pair_table *t, int32_t left, int32_t right)
{
    const pair_entry key = {.left = left, .right = right};
    const int32_t found = t->slots.count == 0 ? -1 : *find_slot(t, &key);
    return found < 0 ? NULL : &t->entries[found];
}

void pair_table_fini(pair_table *t)
{
    memory_free(t->entries);
    slot_table_fini(&t->slots);
    *t = (pair_table){0};
}

/* -- a byte trie. Children are a linked list, which is short below the first byte -------------- */

static grail_status add_node(piece_trie *t, unsigned char byte, int32_t *out)
{
    if (t->count == NODES_MAX) {
        return error_set(GRAIL_ERROR_FORMAT, "the added tokens are too many or too long");
    }
    CHECK(memory_reserve(&t->nodes, (size_t)t->count + 1, sizeof *t->nodes));
    t->nodes[t->count] = (trie_node){.child = -1, .sibling = -1, .value = -1, .byte = byte};
    *out = t->count++;
    return GRAIL_OK;
}

static int32_t find_child(const piece_trie *t, int32_t node, unsigned char byte)
{
    int32_t child = t->nodes[node].child;
    while (child >= 0 && t->nodes[child].byte != byte) {
        child = t->nodes[child].sibling;
    }
    return child;
}

grail_status piece_trie_add(piece_trie *t, text_span piece, int32_t value)
{
    const unsigned char first = (unsigned char)piece.bytes[0];
    int32_t node = t->roots[first] - 1;
    if (piece.size > TOKENIZER_LONGEST_ADDED) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "an added token or user-defined piece has %zu bytes, more than the "
                         "allowed %d",
                         piece.size, TOKENIZER_LONGEST_ADDED);
    }
    if (node < 0) {
        CHECK(add_node(t, first, &node));
        t->roots[first] = node + 1;
    }
    for (size_t i = 1; i < piece.size; i++) {
        const unsigned char byte = (unsigned char)piece.bytes[i];
        int32_t child = find_child(t, node, byte);
        if (child < 0) {
            CHECK(add_node(t, byte, &child));
            t->nodes[child].sibling = t->nodes[node].child;
            t->nodes[node].child = child;
        }
        node = child;
    }
    if (t->nodes[node].value < 0) {
        t->nodes[node].value = value;
    }
    t->longest = piece.size > t->longest ? piece.size : t->longest;
    return GRAIL_OK;
}

size_t piece_trie_match(const piece_trie *t, text_span text, int32_t *value)
{
    if (text.size == 0) {
        return 0;
    }
    size_t longest = 0;
    int32_t node = t->roots[(unsigned char)text.bytes[0]] - 1;
    for (size_t i = 1; node >= 0; i++) {
        if (t->nodes[node].value >= 0) {
            longest = i;
            *value = t->nodes[node].value;
        }
        node = i < text.size ? find_child(t, node, (unsigned char)text.bytes[i]) : -1;
    }
    return longest;
}

size_t piece_trie_certain(const piece_trie *t, text_span text, bool open)
{
    enum { LONGEST_CHARACTER = 4 }; /* of a character that may be read after a match */
    const size_t margin = t->longest + LONGEST_CHARACTER;
    return !open ? text.size : text.size > margin ? text.size - margin : 0;
}

void piece_trie_fini(piece_trie *t)
{
    memory_free(t->nodes);
    *t = (piece_trie){0};
}

/* -- lists of ids ------------------------------------------------------------------------------ */

grail_status token_list_push(token_list *list, int32_t id)
{
    if (list->most > 0 && list->count == list->most) {
        return GRAIL_ERROR_CANCELLED;
    }
    CHECK(memory_reserve(&list->ids, (size_t)list->count + 1, sizeof *list->ids));
    list->ids[list->count++] = id;
    return GRAIL_OK;
}

grail_status token_list_append(token_list *list, const token_list *more)
{
    for (int64_t i = 0; i < more->count; i++) {
        CHECK(token_list_push(list, more->ids[i]));
    }
    return GRAIL_OK;
}

grail_status token_list_check(const token_list *list, int64_t first, int64_t count)
{
    for (int64_t i = first; i < list->count; i++) {
        if (list->ids[i] < 0 || list->ids[i] >= count) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "token %lld has id %d, outside the model's vocabulary of %lld "
                             "(another model's tokenizer?)",
                             (long long)(i - first), list->ids[i], (long long)count);
        }
    }
    return GRAIL_OK;
}

void token_list_fini(token_list *list)
{
    memory_free(list->ids);
    *list = (token_list){0};
}
