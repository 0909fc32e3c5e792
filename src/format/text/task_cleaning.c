#include "format/text/task_cleaning.h"

#include "format/text/tokenizer_internal.h"

#include <string.h>
#include <utf8proc.h>

static bool is_python_space(int32_t character)
{
    return character_is_space(character) || (character >= 0x1C && character <= 0x1F);
}

size_t text_trimmed_size(const char *text, size_t size)
{
    while (size > 0) {
        const size_t begin = character_before((text_span){text, size}, size);
        if (!is_python_space(character_at((text_span){text + begin, size - begin}))) {
            break;
        }
        size = begin;
    }
    return size;
}

grail_status append_stripped(const char *text, buffer *out)
{
    const size_t size = text_trimmed_size(text, strlen(text));
    size_t begin = 0;
    while (begin < size && is_python_space(character_at((text_span){text + begin, size - begin}))) {
        begin += character_length(text[begin]);
    }
    return buffer_append(out, text + begin, size - begin);
}

grail_status append_capitalised(const char *text, buffer *out)
{
    const text_span all = span_of_string(text);
    for (size_t i = 0; i < all.size; i += character_length(text[i])) {
        const int32_t c = character_at(span_from(all, i, all.size));
        CHECK(character_append(out, i == 0 ? utf8proc_totitle(c) : utf8proc_tolower(c)));
    }
    return GRAIL_OK;
}

/* `to` is not longer than `from`. Goes over the text once. */
static void replace(buffer *b, const char *from, const char *to)
{
    const size_t length = strlen(from);
    size_t kept = 0;
    for (size_t i = 0; i < b->size;) {
        if (b->size - i >= length && memcmp(b->bytes + i, from, length) == 0) {
            memcpy(b->bytes + kept, to, strlen(to));
            kept += strlen(to);
            i += length;
        } else {
            b->bytes[kept++] = b->bytes[i++];
        }
    }
    b->size = kept;
}

/* The length of a mark at the start, 0 for none: from "[" to the next "]" of the same line. */
static size_t mark_length(const unsigned char *text, size_t size)
{
    size_t i = 1;
    if (text[0] != '[') {
        return 0;
    }
    while (i < size && text[i] != ']' && text[i] != '\n') {
        i++;
    }
    return i < size && text[i] == ']' ? i + 1 : 0;
}

/* After a "[" without its end in this line no other in the line has one, so each line is searched
 * at most once in vain. */
static void remove_marks(buffer *b)
{
    size_t kept = 0;
    size_t without = 0; /* before this place no mark begins */
    for (size_t i = 0; i < b->size;) {
        const size_t length = i < without ? 0 : mark_length(b->bytes + i, b->size - i);
        if (length == 0 && b->bytes[i] == '[' && i >= without) {
            const unsigned char *end = memchr(b->bytes + i, '\n', b->size - i);
            without = end == NULL ? b->size : (size_t)(end - b->bytes);
        }
        if (length == 0) {
            b->bytes[kept++] = b->bytes[i];
        }
        i += length == 0 ? 1 : length;
    }
    b->size = kept;
}

grail_status append_cleaned(const char *text, buffer *out)
{
    CHECK(append_stripped(text, out));
    replace(out, " [title]", ". ");
    remove_marks(out);
    replace(out, "  ", " ");
    out->bytes[out->size] = 0;
    return GRAIL_OK;
}
