#include "format/text/turn_marks.h"

#include "format/text/tokenizer_internal.h"

#include <string.h>

enum { MOST_MARKS = 64, LONGEST_MARK = 64, ENOUGH_MARKS = 2 };

typedef struct mark {
    text_span text; /* in the template */
    int32_t id;     /* of the token that it is; -1: of several, which the text around it changes */
    bool found;
} mark;

typedef struct mark_list {
    mark items[MOST_MARKS];
    int count;
} mark_list;

/* -- marks of a template ----------------------------------------------------------------------- */

static bool is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_letter(char c)
{
    return is_capital(c) || (c >= 'a' && c <= 'z');
}

static bool is_word(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
}

/* The bytes of <name>, <|name|>, [NAME] or [|name|] at the start of a text; 0 for anything else,
 * such as an index of Jinja. Names may have letters that are not ASCII, as <｜User｜> has. */
static size_t tag_length(const char *at)
{
    const bool is_angle = at[0] == '<';
    const bool is_any = is_angle || at[1] == '|';
    bool named = false;
    size_t n = 1;
    if (!is_angle && at[0] != '[') {
        return 0;
    }
    for (; is_word(at[n]) || (at[n] != 0 && strchr("|/-.", at[n]) != NULL) || (at[n] & 0x80) != 0;
         n++) {
        if (!is_any && is_letter(at[n]) && !is_capital(at[n])) {
            return 0;
        }
        named = named || is_letter(at[n]);
    }
    return named && at[n] == (is_angle ? '>' : ']') ? n + 1 : 0;
}

/* The bytes of "User:", a word that begins with a capital letter. */
static size_t speaker_length(const char *at)
{
    size_t n = is_capital(at[0]) ? 1 : 0;
    while (n > 0 && is_word(at[n])) {
        n++;
    }
    return n > 1 && at[n] == ':' ? n + 1 : 0;
}

static void add_mark(mark_list *list, text_span text)
{
    bool is_new = text.size > 0 && text.size <= LONGEST_MARK && list->count < MOST_MARKS;
    for (int i = 0; i < list->count && is_new; i++) {
        const text_span other = list->items[i].text;
        is_new = other.size != text.size || memcmp(other.bytes, text.bytes, text.size) != 0;
    }
    if (is_new) {
        list->items[list->count++] = (mark){.text = text, .id = -1};
    }
}

static void add_tags(const char *template, mark_list *list)
{
    for (const char *at = template; *at != 0; at++) {
        add_mark(list, (text_span){at, tag_length(at)});
    }
}

static void add_speakers(const char *template, mark_list *list)
{
    for (const char *at = template; *at != 0; at++) {
        if (at == template || !is_word(at[-1])) {
            add_mark(list, (text_span){at, speaker_length(at)});
        }
    }
}

/* -- as tokens --------------------------------------------------------------------------------- */

static bool has_id(const token_list *list, int32_t id)
{
    bool found = false;
    for (int64_t i = 0; i < list->count; i++) {
        found = found || list->ids[i] == id;
    }
    return found;
}

/* Finds the tokens, and leaves out those that stand around every text. */
static grail_status name_tokens(const tokenizer *t, mark_list *list)
{
    grail_status status = GRAIL_OK;
    token_list ids = {0};
    const int count = list->count;
    list->count = 0;
    for (int i = 0; i < count; i++) {
        mark m = list->items[i];
        ids.count = 0;
        TRY(tokenizer_encode_conversation(t, m.text.bytes, m.text.size, &ids));
        m.id = ids.count == 1 && tokenizer_is_added(t, ids.ids[0]) ? ids.ids[0] : -1;
        if (m.id < 0 || (!has_id(tokenizer_before(t), m.id) && !has_id(tokenizer_after(t), m.id))) {
            list->items[list->count++] = m;
        }
    }
out:
    token_list_fini(&ids);
    return status;
}

/* Tokens are marks that nothing else looks like. */
static bool keep_tokens(mark_list *list)
{
    int kept = 0;
    mark_list tokens = {.count = 0};
    for (int i = 0; i < list->count; i++) {
        if (list->items[i].id >= 0) {
            tokens.items[kept++] = list->items[i];
        }
    }
    tokens.count = kept;
    if (kept >= ENOUGH_MARKS) {
        *list = tokens;
    }
    return kept >= ENOUGH_MARKS;
}

/* -- in windows -------------------------------------------------------------------------------- */

static void find_tokens(const int32_t *ids, int64_t count, mark_list *list)
{
    for (int64_t k = 0; k < count; k++) {
        for (int i = 0; i < list->count; i++) {
            list->items[i].found = list->items[i].found || list->items[i].id == ids[k];
        }
    }
}

static grail_status find_texts(const tokenizer *t, const int32_t *ids, int64_t count, buffer *text,
                               mark_list *list)
{
    text->size = 0;
    for (int64_t k = 0; k < count; k++) {
        CHECK(tokenizer_decode(t, ids[k], text));
    }
    for (int i = 0; i < list->count; i++) {
        mark *m = &list->items[i];
        m->found = m->found || (m->id < 0 && text->size > 0 &&
                                memmem(text->bytes, text->size, m->text.bytes, m->text.size));
    }
    return GRAIL_OK;
}

static bool enough_found(const mark_list *list)
{
    int found = 0;
    for (int i = 0; i < list->count; i++) {
        found += list->items[i].found ? 1 : 0;
    }
    return found >= (list->count < ENOUGH_MARKS ? list->count : ENOUGH_MARKS);
}

static grail_status find_marks(const tokenizer *t, const token_windows *w, bool in_texts,
                               mark_list *list, bool *found)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 4);
    *found = false;
    for (int64_t i = 0; i < w->count && !*found; i++) {
        const int32_t *ids = w->ids + window_start(w, i);
        find_tokens(ids, window_size(w, i), list);
        if (in_texts) {
            TRY(find_texts(t, ids, window_size(w, i), &text, list));
        }
        *found = enough_found(list);
    }
out:
    buffer_fini(&text);
    return status;
}

grail_status turns_find(const char *template, const tokenizer *t, const token_windows *w,
                        turns_found *out)
{
    mark_list list = {.count = 0};
    bool found = false;
    add_tags(template, &list);
    CHECK(name_tokens(t, &list));
    const bool of_tokens = keep_tokens(&list);
    if (list.count < ENOUGH_MARKS) {
        add_speakers(template, &list);
    }
    if (list.count > 0) {
        CHECK(find_marks(t, w, !of_tokens, &list, &found));
    }
    *out = list.count == 0 ? TURNS_UNKNOWN : found ? TURNS_THERE : TURNS_MISSING;
    return GRAIL_OK;
}
