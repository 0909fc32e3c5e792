/* A byte trie that finds the longest of many pieces at a place in a text. Children are a linked
 * list, which is short below the first byte. */
#include "format/text/tokenizer_internal.h"

enum { NODES_MAX = 1 << 26 };

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

static grail_status step_into(piece_trie *t, int32_t node, unsigned char byte, int32_t *out)
{
    int32_t child = find_child(t, node, byte);
    if (child < 0) {
        CHECK(add_node(t, byte, &child));
        t->nodes[child].sibling = t->nodes[node].child;
        t->nodes[node].child = child;
    }
    *out = child;
    return GRAIL_OK;
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
        CHECK(step_into(t, node, (unsigned char)piece.bytes[i], &node));
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
