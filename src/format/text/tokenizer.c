/* Makes an empty tokenizer, and encodes: cuts added tokens out of the text; normalizes,
 * splits and encodes the rest with the BPE or WordPiece model; puts the post-processor's ids around
 * the result.
 */
#include "format/text/tokenizer.h"

#include "base/utf8.h"
#include "format/text/tokenizer_internal.h"

#include <string.h>

grail_status tokenizer_new(const char *name, const void *bytes, size_t size, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    TRY(memory_new(&t, 1, sizeof *t));
    bpe_init(&t->model);
    TRY(memory_copy_string(&t->name, name));
    hash_bytes(bytes, size, t->hash);
    *out = t;
    t = NULL;
out:
    tokenizer_close(t);
    return status;
}

void tokenizer_close(tokenizer *t)
{
    if (t == NULL) {
        return;
    }
    bpe_fini(&t->model);
    wordpiece_fini(&t->words);
    memory_free(t->added);
    piece_trie_fini(&t->added_raw);
    piece_trie_fini(&t->added_normalized);
    step_list_fini(&t->normalizer);
    step_list_fini(&t->pretokenizer);
    token_list_fini(&t->before);
    token_list_fini(&t->after);
    memory_free(t->name);
    memory_free(t);
}

int32_t tokenizer_bos(const tokenizer *t)
{
    return t->before.count > 0 ? t->before.ids[0] : -1;
}

const token_list *tokenizer_before(const tokenizer *t)
{
    return &t->before;
}

const token_list *tokenizer_after(const tokenizer *t)
{
    return &t->after;
}

const char *tokenizer_hash(const tokenizer *t)
{
    return t->hash;
}

/* --- added tokens --- */

grail_status tokenizer_add_token(tokenizer *t, text_span content, bool normalized,
                                 added_token token)
{
    grail_status status = GRAIL_OK;
    buffer buffers[2] = {{0}};
    pattern_workspace patterns = {0};
    text_span text = {0};
    const int32_t index = (int32_t)t->added_count;
    CHECK(memory_reserve(&t->added, (size_t)index + 1, sizeof *t->added));
    t->added[index] = token;
    t->added_count += 1;
    if (content.bytes == NULL || !normalized) {
        return content.bytes == NULL ? GRAIL_OK : piece_trie_add(&t->added_raw, content, index);
    }
    TRY(pattern_workspace_init(&patterns, content.size));
    TRY(normalizer_run(&t->normalizer, &t->model.whole, &patterns, content, false, buffers, &text));
    if (text.size > 0) {
        TRY(piece_trie_add(&t->added_normalized, text, index));
    }
out:
    buffer_fini(&buffers[0]);
    buffer_fini(&buffers[1]);
    pattern_workspace_fini(&patterns);
    return status;
}

static size_t strip_spaces_left(text_span text, size_t end)
{
    while (end > 0) {
        const size_t begin = character_before(text, end);
        if (!character_is_space(character_at(span_from(text, begin, end)))) {
            break;
        }
        end = begin;
    }
    return end;
}

static size_t strip_spaces_right(text_span text, size_t begin)
{
    while (begin < text.size &&
           character_is_space(character_at(span_from(text, begin, text.size)))) {
        begin += character_length(text.bytes[begin]);
    }
    return begin;
}

static bool is_single_word(text_span text, size_t begin, size_t end)
{
    const bool left =
        begin == 0 ||
        !character_is_word(character_at(span_from(text, character_before(text, begin), begin)));
    return left &&
           (end == text.size || !character_is_word(character_at(span_from(text, end, text.size))));
}

/* Processes the text between two added tokens. */
typedef grail_status (*section_function)(encoder *e, text_span section, section_edges edges);

/* Appends the ids of the automaton's matches (leftmost, then longest) and hands the text between
 * them to `between`. A match that must be a complete word, but is not, stays text, and no match
 * begins inside it. */
static grail_status cut_added(encoder *e, const piece_trie *automaton, text_span text,
                              section_edges edges, section_function between)
{
    size_t done = 0;
    size_t i = 0;
    const size_t certain = piece_trie_certain(automaton, text, edges.open);
    while (i < certain) {
        int32_t index = -1;
        const size_t length = piece_trie_match(automaton, span_from(text, i, text.size), &index);
        if (length == 0) {
            i += character_length(text.bytes[i]);
            continue;
        }
        const added_token token = e->tokenizer->added[index];
        const size_t begin = token.strip_left ? strip_spaces_left(text, i) : i;
        const size_t end = i + length;
        i = end;
        if (token.single_word && !is_single_word(text, end - length, end)) {
            continue;
        }
        if (begin > done) {
            CHECK(between(e, span_from(text, done, begin),
                          (section_edges){.start = edges.start && done == 0}));
        }
        CHECK(token_list_push(e->out, token.id));
        done = token.strip_right ? strip_spaces_right(text, end) : end;
    }
    /* in an open text the spaces at its end wait: an added token that follows may take them */
    const size_t last = edges.open ? strip_spaces_left(text, i) : text.size;
    edges.start = edges.start && done == 0;
    return done >= last ? GRAIL_OK : between(e, span_from(text, done, last), edges);
}

static grail_status encode_section(encoder *e, text_span section, section_edges edges)
{
    return pretokenize(e, 0, section, edges);
}

static grail_status normalize_section(encoder *e, text_span section, section_edges edges)
{
    const tokenizer *t = e->tokenizer;
    text_span text = {0};
    CHECK(normalizer_run(&t->normalizer, &t->model.whole, &e->patterns, section, edges.open,
                         e->normalized, &text));
    return cut_added(e, &t->added_normalized, text, edges, encode_section);
}

static grail_status run(encoder *e, text_span text, bool special, bool open)
{
    const tokenizer *t = e->tokenizer;
    CHECK(pattern_workspace_init(&e->patterns, text.size));
    CHECK(special ? token_list_append(e->out, &t->before) : GRAIL_OK);
    CHECK(cut_added(e, &t->added_raw, text, (section_edges){.start = true, .open = open},
                    normalize_section));
    return special && !open ? token_list_append(e->out, &t->after) : GRAIL_OK;
}

/* `special`: the post-processor's ids are put around the text. `open`: more follows. */
static grail_status encode(const tokenizer *t, text_span text, bool special, bool open,
                           token_list *out)
{
    encoder e = {.tokenizer = t, .out = out};
    const int64_t count = out->count;
    const int64_t asked = out->most;
    const int64_t bytes = text.size < INT64_MAX / 32 ? (int64_t)text.size : INT64_MAX / 32;
    const int64_t natural =
        count + t->before.count + t->after.count + TOKENIZER_FREE_IDS + TOKENIZER_MOST_IDS * bytes;
    const bool is_asked = asked > 0 && asked <= natural;
    const size_t valid = utf8_valid_prefix(text.bytes, text.size);
    if (valid < text.size) {
        return error_set(GRAIL_ERROR_FORMAT, "the text is not valid UTF-8 at byte %zu", valid);
    }
    out->most = is_asked ? asked : natural;
    grail_status status = run(&e, text, special, open);
    if (status == GRAIL_ERROR_CANCELLED) {
        status =
            is_asked
                ? GRAIL_OK
                : error_set(GRAIL_ERROR_FORMAT,
                            "the tokenizer makes more than %d ids per byte from %zu bytes of text",
                            TOKENIZER_MOST_IDS, text.size);
    }
    out->most = asked;
    if (status != GRAIL_OK) {
        out->count = count;
    }
    if (status != GRAIL_OK && status != GRAIL_ERROR_MEMORY) {
        error_prefix("%s", t->name);
    }
    buffer_fini(&e.normalized[0]);
    buffer_fini(&e.normalized[1]);
    for (int i = 0; i < TOKENIZER_STEPS_MAX; i++) {
        buffer_fini(&e.steps[i]);
    }
    pattern_workspace_fini(&e.patterns);
    bpe_workspace_fini(&e.words);
    return status;
}

grail_status tokenizer_encode(const tokenizer *t, const char *text, size_t size, bool special,
                              token_list *out)
{
    return encode(t, (text_span){text, size}, special, false, out);
}

grail_status tokenizer_encode_start(const tokenizer *t, const char *text, size_t size, bool special,
                                    token_list *out)
{
    return encode(t, (text_span){text, size}, special, true, out);
}
