/* The normalizer: steps that rewrite a section of text before it is split. Each step writes one of
 * two buffers and reads the other. */
#include "format/text/tokenizer_internal.h"

#include <string.h>
#include <utf8proc.h>

static grail_status replace(const text_step *step, pattern_workspace *w, text_span in, bool open,
                            buffer *out)
{
    size_t copied = 0;
    if (in.size == 0) {
        return GRAIL_OK;
    }
    pattern_scan scan = pattern_scan_start(&step->pattern, w, in, open);
    for (bool found = true; found;) {
        size_t begin = 0;
        size_t end = 0;
        CHECK(pattern_scan_next(&scan, &found, &begin, &end));
        begin = found ? begin : scan.decided;
        CHECK(buffer_append(out, in.bytes + copied, begin - copied));
        if (found) {
            CHECK(buffer_append_string(out, step->content));
        }
        copied = end;
    }
    return GRAIL_OK;
}

/* Lowercases each character without regard to context. Only U+0130 has a lowercase of two
 * characters. */
static grail_status lowercase(text_span in, buffer *out)
{
    for (size_t i = 0; i < in.size; i += character_length(in.bytes[i])) {
        const int32_t character = character_at(span_from(in, i, in.size));
        if (character == 0x130) {
            CHECK(buffer_append_string(out, "i\u0307"));
        } else {
            CHECK(character_append(out, utf8proc_tolower(character)));
        }
    }
    return GRAIL_OK;
}

static grail_status strip(const text_step *step, text_span in, buffer *out)
{
    size_t begin = 0;
    size_t end = 0;
    bool any = false;
    for (size_t i = 0; i < in.size; i += character_length(in.bytes[i])) {
        if (!character_is_space(character_at(span_from(in, i, in.size)))) {
            begin = any ? begin : i;
            end = i + character_length(in.bytes[i]);
            any = true;
        }
    }
    if (!any) {
        begin = in.size;
        end = in.size;
    }
    begin = step->left ? begin : 0;
    end = step->right ? end : in.size;
    return begin < end ? buffer_append(out, in.bytes + begin, end - begin) : GRAIL_OK;
}

/* No character decomposes into more code points per byte than U+FDFA: 18 for 3 bytes. */
enum { POINTS_PER_BYTE = 6, DECOMPOSITION_MAX = 32 };

static size_t combining_class(int32_t character)
{
    return (size_t)utf8proc_get_property(character)->combining_class;
}

/* Decomposes and, for NFC and NFKC, recomposes a stretch of text. */
static grail_status convert_form(text_span in, utf8proc_option_t form, buffer *out)
{
    grail_status status = GRAIL_OK;
    int32_t *points = NULL;
    int32_t *scratch = NULL;
    size_t count = 0;
    int boundary = UTF8PROC_BOUNDCLASS_START;
    TRY(memory_new_unset(&points, in.size, POINTS_PER_BYTE * sizeof *points));
    for (size_t i = 0; i < in.size; i += character_length(in.bytes[i])) {
        utf8proc_int32_t parts[DECOMPOSITION_MAX];
        const utf8proc_ssize_t n = utf8proc_decompose_char(
            character_at(span_from(in, i, in.size)), parts, DECOMPOSITION_MAX, form, &boundary);
        if (n < 0 || n > DECOMPOSITION_MAX || count + (size_t)n > in.size * POINTS_PER_BYTE) {
            FAIL(GRAIL_ERROR_INTERNAL, "cannot normalize the character at byte %zu", i);
        }
        memcpy(points + count, parts, (size_t)n * sizeof *points);
        count += (size_t)n;
    }
    TRY(memory_new_unset(&scratch, count, sizeof *scratch));
    /* Canonical order (Unicode Standard, D109): sorts each run of combining marks by class, stably,
     * in linear time: a run in a hostile text may have any length. */
    for (size_t begin = 0, end = 0; begin < count; begin = end + 1) {
        size_t places[256] = {0};
        for (end = begin; end < count && combining_class(points[end]) > 0; end++) {
            places[combining_class(points[end])] += 1;
        }
        if (end - begin < 2) {
            continue;
        }
        for (size_t i = 0, before = 0; i < 256; i++) {
            const size_t members = places[i];
            places[i] = before;
            before += members;
        }
        for (size_t i = begin; i < end; i++) {
            scratch[places[combining_class(points[i])]++] = points[i];
        }
        memcpy(points + begin, scratch, (end - begin) * sizeof *points);
    }
    const utf8proc_ssize_t composed =
        utf8proc_normalize_utf32(points, (utf8proc_ssize_t)count, form);
    for (utf8proc_ssize_t i = 0; i < composed; i++) {
        TRY(character_append(out, points[i]));
    }
out:
    memory_free(points);
    memory_free(scratch);
    return status;
}

/* End of the run of ASCII bytes from `begin` on, or of other bytes if `ascii` is false. */
static size_t run_end(text_span text, size_t begin, bool ascii)
{
    size_t end = begin;
    while (end < text.size && ((unsigned char)text.bytes[end] < 0x80) == ascii) {
        end += 1;
    }
    return end;
}

/* No form changes ASCII, and no ASCII character composes with the character before it. So only the
 * stretches between ASCII runs are converted, each with the ASCII character before it. In an open
 * text the last stretch, or the last ASCII character, is left out, because it may continue. */
static grail_status unicode_form(const text_step *step, text_span in, bool open, buffer *out)
{
    for (size_t begin = 0; begin < in.size;) {
        size_t plain = run_end(in, begin, true);
        const size_t end = run_end(in, plain, false);
        const bool goes_on = open && end == in.size;
        plain -= plain > begin && (plain < in.size || open) ? 1 : 0;
        CHECK(buffer_append(out, in.bytes + begin, plain - begin));
        if (plain < end && !goes_on) {
            CHECK(convert_form(span_from(in, plain, end), (utf8proc_option_t)step->form, out));
        }
        begin = end;
    }
    return GRAIL_OK;
}

/* --- SentencePiece --- */

/* The next unit of the text: a user-defined piece, or one character. */
static text_span next_unit(const piece_trie *whole, text_span text)
{
    int32_t unused = 0;
    const size_t piece = piece_trie_match(whole, text, &unused);
    return (text_span){text.bytes, piece > 0 ? piece : character_length(text.bytes[0])};
}

/* The identity normalizer of SentencePiece with the whitespace rules that GGUF files state. */
static grail_status sentencepiece(const sentencepiece_rules *rules, const piece_trie *whole,
                                  text_span in, bool open, buffer *out)
{
    static const text_span space = {"\u2581", 3};
    const bool removes = rules->remove_extra_whitespaces;
    while (removes && in.size > 0 && in.bytes[0] == ' ' && next_unit(whole, in).size == 1) {
        in = span_from(in, 1, in.size);
    }
    const size_t certain = piece_trie_certain(whole, in, open);
    if (certain == 0) {
        return GRAIL_OK;
    }
    CHECK(rules->add_dummy_prefix ? buffer_append(out, space.bytes, space.size) : GRAIL_OK);
    bool after_space = removes;
    for (size_t i = 0; i < certain;) {
        text_span unit = next_unit(whole, span_from(in, i, in.size));
        i += unit.size;
        while (after_space && unit.size > 0 && unit.bytes[0] == ' ') {
            unit = span_from(unit, 1, unit.size);
        }
        for (size_t k = 0; k < unit.size; k++) {
            CHECK(unit.bytes[k] == ' ' ? buffer_append(out, space.bytes, space.size)
                                       : buffer_append(out, unit.bytes + k, 1));
        }
        after_space = unit.size == 0 ? after_space : removes && unit.bytes[unit.size - 1] == ' ';
    }
    while (removes && out->size >= space.size &&
           memcmp(out->bytes + out->size - space.size, space.bytes, space.size) == 0) {
        out->size -= space.size;
    }
    return GRAIL_OK;
}

/* --- BERT --- */

/* Characters go, become spaces, or get spaces around them. */
static grail_status rewrite_each(step_kind kind, text_span in, buffer *out)
{
    for (size_t i = 0; i < in.size;) {
        const size_t length = character_length(in.bytes[i]);
        const text_span one = span_from(in, i, i + length);
        const int32_t character = character_at(one);
        const bool goes = (kind == NORMALIZE_CLEAN && character_is_control(character)) ||
                          (kind == NORMALIZE_STRIP_MARKS && character_is_mark(character));
        const bool blank = kind == NORMALIZE_CLEAN && character_is_space(character);
        const bool apart = kind == NORMALIZE_IDEOGRAPHS && character_is_ideograph(character);
        i += length;
        if (goes) {
            continue;
        }
        CHECK(blank || apart ? buffer_append(out, " ", 1) : GRAIL_OK);
        CHECK(blank ? GRAIL_OK : buffer_append(out, one.bytes, one.size));
        CHECK(apart ? buffer_append(out, " ", 1) : GRAIL_OK);
    }
    return GRAIL_OK;
}

static grail_status run_step(const text_step *step, const piece_trie *whole, pattern_workspace *w,
                             text_span in, bool open, buffer *out)
{
    switch (step->kind) {
    case NORMALIZE_PREPEND:
        CHECK(in.size == 0 ? GRAIL_OK : buffer_append_string(out, step->content));
        return buffer_append(out, in.bytes, in.size);
    case NORMALIZE_REPLACE:
        return replace(step, w, in, open, out);
    case NORMALIZE_UNICODE:
        return unicode_form(step, in, open, out);
    case NORMALIZE_LOWERCASE:
        return lowercase(in, out);
    case NORMALIZE_STRIP:
        return strip(step, in, out);
    case NORMALIZE_SENTENCEPIECE:
        return sentencepiece(&step->rules, whole, in, open, out);
    case NORMALIZE_CLEAN:
    case NORMALIZE_IDEOGRAPHS:
    case NORMALIZE_STRIP_MARKS:
        return rewrite_each(step->kind, in, out);
    default:
        return error_set(GRAIL_ERROR_INTERNAL, "unknown normalizer step");
    }
}

static size_t multiple(size_t size, size_t factor, size_t more)
{
    size_t product = 0;
    return size_multiply(size, factor, &product) && size_add(product, more, &product) ? product
                                                                                      : SIZE_MAX;
}

grail_status normalizer_run(const step_list *n, const piece_trie *whole, pattern_workspace *w,
                            text_span text, bool open, buffer buffers[2], text_span *out)
{
    text_span current = text;
    const size_t small = multiple(text.size, TOKENIZER_MOST_GROWTH, TOKENIZER_FREE_GROWTH);
    const size_t large = multiple(text.size, TOKENIZER_LARGE_GROWTH, TOKENIZER_FREE_LARGE_GROWTH);
    for (int i = 0; i < n->count; i++) {
        buffer *target = &buffers[i % 2];
        target->size = 0;
        target->maximum = small < large ? small : large;
        const grail_status status = run_step(&n->steps[i], whole, w, current, open, target);
        if (status == GRAIL_ERROR_FORMAT) {
            error_prefix("normalizing %zu bytes", text.size);
        }
        CHECK(status);
        current = span_of_buffer(target);
    }
    *out = current;
    return GRAIL_OK;
}

void step_list_fini(step_list *list)
{
    for (int i = 0; i < list->count; i++) {
        pattern_fini(&list->steps[i].pattern);
        memory_free(list->steps[i].content);
    }
    list->count = 0;
}
