#include "format/text/chat.h"

#include "format/text/text_limits.h"
#include "format/text/text_source.h"

#include <string.h>

enum { MOST_MARKS = 4, LONGEST_TEXT = TEXT_LONGEST_LINE };

/* A turn is before_role, the role, after_role, what is said, and end. */
typedef struct chat_kind {
    const char *signs[MOST_MARKS]; /* all stand in templates of this kind */
    const char *marks[MOST_MARKS]; /* and each of these is one token */
    const char *begin;             /* of a conversation */
    const char *before_role, *after_role, *end;
    const char *assistant; /* how it calls the network */
    const char *finish;    /* behind a conversation, where the template names eos_token */
    bool trims;            /* white space around what is said */
    bool alternates;       /* question and answer; a system's words stand before the first */
} chat_kind;

/* The first one that fits. */
static const chat_kind kinds[] = {
    {.signs = {"<|im_sep|>"}, /* phi-4 */
     .marks = {"<|im_start|>", "<|im_sep|>", "<|im_end|>"},
     .before_role = "<|im_start|>",
     .after_role = "<|im_sep|>",
     .end = "<|im_end|>"},
    {.signs = {"<|im_start|>", "<|im_end|>"}, /* ChatML */
     .marks = {"<|im_start|>", "<|im_end|>"},
     .before_role = "<|im_start|>",
     .after_role = "\n",
     .end = "<|im_end|>\n"},
    {.signs = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}, /* llama-3 */
     .marks = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .begin = "<|begin_of_text|>",
     .before_role = "<|start_header_id|>",
     .after_role = "<|end_header_id|>\n\n",
     .end = "<|eot_id|>",
     .trims = true},
    {.signs = {"<start_of_turn>", "<end_of_turn>"}, /* gemma */
     .marks = {"<bos>", "<start_of_turn>", "<end_of_turn>"},
     .begin = "<bos>",
     .before_role = "<start_of_turn>",
     .after_role = "\n",
     .end = "<end_of_turn>\n",
     .assistant = "model",
     .trims = true,
     .alternates = true},
    {.signs = {"<|user|>", "<|assistant|>", "<|end|>"}, /* phi-3 */
     .marks = {"<|user|>", "<|assistant|>", "<|end|>"},
     .before_role = "<|",
     .after_role = "|>\n",
     .end = "<|end|>\n",
     .finish = "<|endoftext|>"},
    {.signs = {"'<|' + message['role'] + '|>' + message['content']", "<|end|>"}, /* phi-4-mini */
     .marks = {"<|user|>", "<|assistant|>", "<|end|>"},
     .before_role = "<|",
     .after_role = "|>",
     .end = "<|end|>",
     .finish = "<|endoftext|>"},
};

/* Templates with these write more than turns, or write them in more than one way. */
static const char *const beyond_turns[] = {"strftime_now",  "date_string",    "think",
                                           "not loop.last", "system_message", "default_system"};

struct chat_writer {
    const tokenizer *tokenizer;
    grail_chat_renderer renderer; /* or NULL */
    void *user;
    const chat_kind *kind; /* NULL: not known */
    char *text, *place;
    char *system; /* what the template says first where nobody else does, or NULL */
    bool beyond;  /* its kind alone does not say what it writes */
    bool has_finish;
};

/* -- which kind it is -------------------------------------------------------------------------- */

static grail_status is_one_token(const tokenizer *t, const char *mark, bool *out)
{
    token_list ids = {0};
    const grail_status status = tokenizer_encode(t, mark, strlen(mark), false, &ids);
    *out = ids.count == 1;
    token_list_fini(&ids);
    return status;
}

static grail_status fits(const chat_kind *kind, const char *text, const tokenizer *t, bool *out)
{
    *out = true;
    for (int i = 0; i < MOST_MARKS && *out; i++) {
        *out = kind->signs[i] == NULL || strstr(text, kind->signs[i]) != NULL;
    }
    for (int i = 0; i < MOST_MARKS && *out; i++) {
        CHECK(kind->marks[i] == NULL ? GRAIL_OK : is_one_token(t, kind->marks[i], out));
    }
    return GRAIL_OK;
}

/* A line end is one in a template's text, or the two characters that stand for it. */
static const char *skip_text(const char *at, const char *text)
{
    for (; *text != 0; text++) {
        const bool is_escaped = *text == '\n' && at[0] == '\\' && at[1] == 'n';
        if (*at != *text && !is_escaped) {
            return NULL;
        }
        at += is_escaped ? 2 : 1;
    }
    return at;
}

/* The words of a whole turn of the system that stands in the template. */
static grail_status find_system(chat_writer *c)
{
    const chat_kind *k = c->kind;
    for (const char *at = strstr(c->text, k->before_role); at != NULL && c->system == NULL;
         at = strstr(at + 1, k->before_role)) {
        const char *words = skip_text(at + strlen(k->before_role), "system");
        words = words == NULL ? NULL : skip_text(words, k->after_role);
        const size_t size = words == NULL ? 0 : strcspn(words, "<'\"{}\\");
        if (size > 0 && skip_text(words + size, k->end) == NULL) {
            c->beyond = true; /* expressions or escapes, which are not read here */
        } else if (size > 0) {
            CHECK(memory_format(&c->system, "%.*s", (int)size, words));
        }
    }
    return GRAIL_OK;
}

grail_status chat_open(const char *text, const char *place, const tokenizer *t,
                       const grail_text_source *source, chat_writer **out)
{
    grail_status status = GRAIL_OK;
    chat_writer *c = NULL;
    TRY(memory_new(&c, 1, sizeof *c));
    c->tokenizer = t;
    c->renderer = source == NULL ? NULL : source->renderer;
    c->user = source == NULL ? NULL : source->renderer_user;
    TRY(memory_copy_string(&c->text, text));
    TRY(memory_copy_string(&c->place, place));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && c->kind == NULL; i++) {
        bool found = false;
        TRY(fits(&kinds[i], text, t, &found));
        c->kind = found ? &kinds[i] : NULL;
    }
    for (size_t i = 0; i < sizeof beyond_turns / sizeof beyond_turns[0]; i++) {
        c->beyond = c->beyond || strstr(text, beyond_turns[i]) != NULL;
    }
    c->has_finish = strstr(text, "eos_token") != NULL;
    TRY(c->kind != NULL ? find_system(c) : GRAIL_OK);
    *out = c;
    c = NULL;
out:
    chat_close(c);
    return status;
}

void chat_close(chat_writer *c)
{
    if (c != NULL) {
        memory_free(c->text);
        memory_free(c->place);
        memory_free(c->system);
        memory_free(c);
    }
}

/* -- messages ---------------------------------------------------------------------------------- */

/* Files of ShareGPT's form call those who speak by other names. */
static const char *role_of(const char *from)
{
    static const char *const names[][2] = {
        {"human", "user"}, {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"model", "assistant"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(from, names[i][0]) == 0) {
            return names[i][1];
        }
    }
    return from;
}

/* Takes the reference of `content`. */
static json_t *message(const char *role, json_t *content)
{
    return json_pack("{s:o, s:o}", "role", json_text(role), "content", content);
}

grail_status chat_read(const json_t *conversation, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *messages = json_array();
    size_t i = 0;
    json_t *one = NULL;
    if (json_array_size(conversation) == 0) {
        FAIL(GRAIL_ERROR_FORMAT, "is a conversation without a message; leave the line out");
    }
    json_array_foreach (conversation, i, one) {
        const char *role = json_string_value(json_object_get(one, "role"));
        const char *from = json_string_value(json_object_get(one, "from"));
        if (role != NULL && json_object_get(one, "content") != NULL) {
            TRY(json_push(messages, json_incref(one)));
        } else if (from != NULL && json_is_string(json_object_get(one, "value"))) {
            TRY(json_push(messages,
                          message(role_of(from), json_incref(json_object_get(one, "value")))));
        } else {
            FAIL(GRAIL_ERROR_FORMAT,
                 "is a list, whose entry %zu is no message: it has neither \"role\" and "
                 "\"content\" nor \"from\" and \"value\"",
                 i + 1);
        }
    }
    *out = messages;
    messages = NULL;
out:
    json_decref(messages);
    return status;
}

static grail_status refuse(const char *what, const char *detail)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s%s; give the token ids that apply_chat_template of transformers makes of "
                     "the conversations as .npy, JSON lines of its texts, or the conversations to "
                     "the Python package, which calls it",
                     what, detail);
}

/* -- a turn ------------------------------------------------------------------------------------ */

static grail_status append_words(const chat_kind *k, const char *words, size_t size, buffer *out)
{
    while (k->trims && size > 0 && text_is_blank(words[0])) {
        words++;
        size--;
    }
    while (k->trims && size > 0 && text_is_blank(words[size - 1])) {
        size--;
    }
    return buffer_append(out, words, size);
}

/* What is said: a text, or a list of parts that are texts. */
static grail_status append_content(const chat_kind *k, const json_t *message, buffer *out)
{
    const json_t *content = json_object_get(message, "content");
    size_t i = 0;
    const json_t *one = NULL;
    const json_t *calls = json_object_get(message, "tool_calls");
    if (calls != NULL && !json_is_null(calls)) {
        return refuse("has calls of tools, which only the template itself writes", "");
    }
    if (json_is_string(content)) {
        return append_words(k, json_string_value(content), json_string_length(content), out);
    }
    if (json_array_size(content) == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "has a message whose \"content\" is no text");
    }
    json_array_foreach (content, i, one) {
        const json_t *text = json_object_get(one, "text");
        if (!json_is_string(text)) {
            return refuse("has a part of a message that is no text", "");
        }
        CHECK(append_words(k, json_string_value(text), json_string_length(text), out));
    }
    return GRAIL_OK;
}

static grail_status begin_turn(const chat_kind *k, const char *role, buffer *out)
{
    const bool answers = strcmp(role, "assistant") == 0 && k->assistant != NULL;
    return buffer_format(out, "%s%s%s", k->before_role, answers ? k->assistant : role,
                         k->after_role);
}

/* -- conversations ----------------------------------------------------------------------------- */

static grail_status check_role(const chat_writer *c, const char *role, size_t place,
                               bool has_system)
{
    const bool is_system = strcmp(role, "system") == 0;
    const bool asks = strcmp(role, "user") == 0;
    if (!asks && !is_system && strcmp(role, "assistant") != 0) {
        return refuse("has a message of another role than system, user and assistant: ", role);
    }
    if (is_system && place > 0) {
        return refuse("has a message of the system that is not the first one", "");
    }
    if (!c->kind->alternates) {
        return GRAIL_OK;
    }
    if (is_system && strstr(c->text, "System role not supported") != NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "has a message of the system, which the chat template (%s) refuses; leave "
                         "the line out",
                         c->place);
    }
    return is_system || asks == ((place - (has_system ? 1 : 0)) % 2 == 0)
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_FORMAT,
                           "has roles that do not alternate between user and assistant, as the "
                           "chat template (%s) wants; leave the line out",
                           c->place);
}

static grail_status write_by_kind(const chat_writer *c, const json_t *messages, bool answers,
                                  buffer *out)
{
    const chat_kind *k = c->kind;
    size_t i = 0;
    const json_t *one = NULL;
    const char *first = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    const bool has_system = first != NULL && strcmp(first, "system") == 0;
    CHECK(buffer_append_string(out, k->begin == NULL ? "" : k->begin));
    if (!has_system && c->system != NULL) {
        CHECK(begin_turn(k, "system", out));
        CHECK(buffer_format(out, "%s%s", c->system, k->end));
    }
    json_array_foreach (messages, i, one) {
        const char *role = json_string_value(json_object_get(one, "role"));
        CHECK(check_role(c, role, i, has_system));
        if (k->alternates && has_system && i == 0) {
            continue;
        }
        CHECK(begin_turn(k, role, out));
        if (k->alternates && has_system && i == 1) {
            CHECK(append_content(k, json_array_get(messages, 0), out));
            CHECK(buffer_append_string(out, "\n\n"));
        }
        CHECK(append_content(k, one, out));
        CHECK(buffer_append_string(out, k->end));
    }
    const bool finishes = !answers && c->has_finish && k->finish != NULL;
    return answers ? begin_turn(k, "assistant", out)
                   : buffer_append_string(out, finishes ? k->finish : "");
}

enum { CALLER_WROTE = 0, CALLER_CANNOT = 2 };

/* *written is false where the caller cannot run the template, or there is none who does. */
static grail_status write_by_caller(const chat_writer *c, const json_t *messages, bool answers,
                                    buffer *out, bool *written)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    const char *text = NULL;
    *written = false;
    if (c->renderer == NULL) {
        return GRAIL_OK;
    }
    buffer_init(&bytes, SIZE_MAX / 4);
    TRY(json_append_text(messages, &bytes));
    const int found = c->renderer(c->user, (const char *)bytes.bytes, answers ? 1 : 0, &text);
    *written = found == CALLER_WROTE;
    if (!*written && found != CALLER_CANNOT) {
        FAIL(GRAIL_ERROR_FORMAT, "is refused by the chat template (%s)%s%s", c->place,
             text == NULL ? "" : ": ", text == NULL ? "" : text);
    }
    TRY(*written && text != NULL ? buffer_append_string(out, text) : GRAIL_OK);
out:
    buffer_fini(&bytes);
    return status;
}

grail_status chat_write(const chat_writer *c, const json_t *messages, bool answers, buffer *out)
{
    bool written = false;
    CHECK(write_by_caller(c, messages, answers, out, &written));
    if (written) {
        return GRAIL_OK;
    }
    if (c->kind == NULL) {
        return refuse("is a conversation, and the chat template is of no kind that is known here: ",
                      c->place);
    }
    if (c->beyond) {
        return refuse("is a conversation, and the chat template writes more than its turns: ",
                      c->place);
    }
    return write_by_kind(c, messages, answers, out);
}

/* -- what stands around turns ------------------------------------------------------------------ */

#define ASKED "grailquestion"
#define ANSWERED "grailanswer"

static grail_status write_pair(const chat_writer *c, bool answers, buffer *out)
{
    grail_status status = GRAIL_OK;
    bool written = false;
    json_t *messages = json_array();
    TRY(json_push(messages, message("user", json_text(ASKED))));
    TRY(answers ? GRAIL_OK : json_push(messages, message("assistant", json_text(ANSWERED))));
    TRY(write_by_caller(c, messages, answers, out, &written));
    TRY(written || c->kind == NULL ? GRAIL_OK : write_by_kind(c, messages, answers, out));
out:
    json_decref(messages);
    return error_in(status, "a conversation");
}

static grail_status encode(const chat_writer *c, const char *text, size_t size, token_list *out)
{
    return size == 0 ? GRAIL_OK : tokenizer_encode(c->tokenizer, text, size, false, out);
}

grail_status chat_turns_find(const chat_writer *c, chat_turns *out, bool *known)
{
    grail_status status = GRAIL_OK;
    buffer asked = {0};
    buffer answered = {0};
    *out = (chat_turns){0};
    *known = false;
    buffer_init(&asked, LONGEST_TEXT);
    buffer_init(&answered, LONGEST_TEXT);
    TRY(write_pair(c, true, &asked));
    TRY(write_pair(c, false, &answered));
    const char *begin = (const char *)asked.bytes;
    const char *question = begin == NULL ? NULL : strstr(begin, ASKED);
    const char *all = (const char *)answered.bytes;
    const char *answer = all == NULL ? NULL : strstr(all, ANSWERED);
    if (question == NULL || answer == NULL || strstr(question + 1, ASKED) != NULL) {
        goto out;
    }
    const char *between = question + strlen(ASKED);
    const char *after = answer + strlen(ANSWERED);
    TRY(encode(c, begin, (size_t)(question - begin), &out->begin));
    TRY(encode(c, between, strlen(between), &out->between));
    TRY(encode(c, after, strlen(after), &out->after));
    *known = out->begin.count > 0 && out->between.count > 0;
out:
    buffer_fini(&asked);
    buffer_fini(&answered);
    if (!*known) {
        chat_turns_fini(out);
    }
    return status;
}

void chat_turns_fini(chat_turns *t)
{
    token_list_fini(&t->begin);
    token_list_fini(&t->between);
    token_list_fini(&t->after);
    *t = (chat_turns){0};
}
