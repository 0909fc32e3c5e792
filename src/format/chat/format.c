#include "format/chat/format.h"

#include "base/file.h"
#include "base/utf8.h"
#include "format/chat/conversation.h"
#include "format/chat/limits.h"
#include "format/chat/template.h"

#include <stdio.h>
#include <string.h>

#define SETTINGS "tokenizer_config.json"

struct chat_format {
    char *place; /* what the template was read from */
    chat_template *template;
    json_t *tokens; /* texts under "bos_token" and so on */
};

/* -- the template of a directory --------------------------------------------------------------- */

/* The JSON of a file; *out stays NULL without it. Its integers may be larger than any type. */
static grail_status read_settings(const char *directory, const char *name, json_t **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(path_find(&path, directory, name));
    if (path != NULL) {
        TRY(json_read_file_of_reals(path, CHAT_LARGEST_FILE, out));
    }
out:
    memory_free(path);
    return status;
}

/* Finds the one of named templates that is called default. */
static const char *default_of(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name != NULL && strcmp(name, "default") == 0) {
            return json_string_value(json_object_get(one, "template"));
        }
    }
    return NULL;
}

static grail_status find_in_settings(const char *directory, const char *name, char **text,
                                     char **place)
{
    grail_status status = GRAIL_OK;
    json_t *settings = NULL;
    TRY(read_settings(directory, name, &settings));
    const json_t *value = json_object_get(settings, "chat_template");
    const char *found = json_is_array(value) ? default_of(value) : json_string_value(value);
    if (found != NULL) {
        TRY(memory_copy_string(text, found));
        TRY(memory_format(place, "%s/%s: chat_template", directory, name));
    }
out:
    json_decref(settings);
    return status;
}

static grail_status find_file(const char *directory, char **text, char **place)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    char *path = NULL;
    TRY(path_find(&path, directory, "chat_template.jinja"));
    if (path != NULL) {
        TRY(file_read(path, CHAT_LARGEST_FILE, &bytes));
        if (memchr(bytes.bytes, 0, bytes.size) != NULL) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: holds a zero byte; it is no template", path);
        }
        TRY(memory_copy_string(text, bytes.size == 0 ? "" : (const char *)bytes.bytes));
        *place = path;
        path = NULL;
    }
out:
    memory_free(path);
    buffer_fini(&bytes);
    return status;
}

grail_status chat_find_template(const char *directory, char **text, char **place)
{
    grail_status status = GRAIL_OK;
    char *found = NULL;
    char *from = NULL;
    TRY(find_file(directory, &found, &from));
    if (found == NULL) {
        TRY(find_in_settings(directory, SETTINGS, &found, &from));
    }
    if (found == NULL) {
        TRY(find_in_settings(directory, "chat_template.json", &found, &from));
    }
    *text = found;
    *place = from;
    found = NULL;
    from = NULL;
out:
    memory_free(found);
    memory_free(from);
    return status;
}

/* -- special tokens ---------------------------------------------------------------------------- */

static const char *const token_names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};

enum { TOKEN_NAMES = sizeof token_names / sizeof token_names[0] };

static grail_status put_token(chat_format *f, const char *name, const char *bytes, size_t size)
{
    return utf8_valid_prefix(bytes, size) == size
               ? json_put(f->tokens, name, json_stringn_nocheck(bytes, size))
               : GRAIL_OK;
}

/* A token is a text, or an object with its text as "content". */
static grail_status take_tokens(chat_format *f, const json_t *settings)
{
    for (int i = 0; i < TOKEN_NAMES; i++) {
        const json_t *token = json_object_get(settings, token_names[i]);
        token = json_is_object(token) ? json_object_get(token, "content") : token;
        if (json_is_string(token) && json_object_get(f->tokens, token_names[i]) == NULL) {
            CHECK(
                put_token(f, token_names[i], json_string_value(token), json_string_length(token)));
        }
    }
    return GRAIL_OK;
}

static grail_status read_tokens(chat_format *f, const char *directory)
{
    static const char *const files[] = {SETTINGS, "special_tokens_map.json"};
    for (int i = 0; i < 2; i++) {
        json_t *settings = NULL;
        CHECK(read_settings(directory, files[i], &settings));
        const grail_status status = take_tokens(f, settings);
        json_decref(settings);
        CHECK(status);
    }
    return GRAIL_OK;
}

/* The text of a token by its id; nothing for an id that there is not. */
static grail_status put_gguf_token(chat_format *f, const gguf_metadata *m, const char *name,
                                   int64_t id)
{
    const char *bytes = NULL;
    size_t size = 0;
    gguf_walk walk = {.value = gguf_find(m, "tokenizer.ggml.tokens")};
    if (walk.value == NULL || !walk.value->is_array || walk.value->type != GGUF_TEXT || id < 0 ||
        (uint64_t)id >= walk.value->count) {
        return GRAIL_OK;
    }
    for (int64_t i = 0; i <= id; i++) {
        if (!gguf_walk_next(&walk, &bytes, &size)) {
            return GRAIL_OK;
        }
    }
    return put_token(f, name, bytes, size);
}

static grail_status read_gguf_tokens(chat_format *f, const gguf_metadata *m)
{
    static const char *const keys[TOKEN_NAMES] = {
        "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"};
    for (int i = 0; i < TOKEN_NAMES; i++) {
        int64_t id = -1;
        CHECK(gguf_get_integer(m, keys[i], -1, &id));
        CHECK(put_gguf_token(f, m, token_names[i], id));
    }
    return GRAIL_OK;
}

/* -- all --------------------------------------------------------------------------------------- */

static grail_status find_template(const chat_origin *origin, char **text, char **place)
{
    static const char key[] = "tokenizer.chat_template";
    if (origin->in_memory) {
        return GRAIL_OK;
    }
    if (origin->gguf == NULL) {
        return chat_find_template(origin->path, text, place);
    }
    CHECK(error_in(gguf_get_text(origin->gguf, key, text), "%s", origin->path));
    return memory_format(place, "%s: %s", origin->path, key);
}

static grail_status no_template(const chat_origin *origin)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "%s: the model has no chat template (%s); give texts in place of "
                     "conversations",
                     origin->path,
                     origin->gguf != NULL
                         ? "the key tokenizer.chat_template"
                         : "chat_template.jinja, or in " SETTINGS
                           " or chat_template.json a text \"chat_template\" or a list with "
                           "one named default");
}

/* What to do about a template that needs more of Jinja than there is. */
static grail_status with_remedy(grail_status status)
{
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        error_append("; apply the template with the model's own library, and give the text");
    }
    return status;
}

grail_status chat_format_open(const chat_origin *origin, chat_format **out)
{
    grail_status status = GRAIL_OK;
    chat_format *f = NULL;
    char *text = NULL;
    TRY(memory_new(&f, 1, sizeof *f));
    TRY(find_template(origin, &text, &f->place));
    if (text == NULL) {
        TRY(no_template(origin));
    }
    f->tokens = json_object();
    if (f->tokens == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "no memory for the names of tokens");
    }
    TRY(with_remedy(
        error_in(chat_template_parse(text, strlen(text), &f->template), "%s", f->place)));
    TRY(origin->gguf != NULL ? error_in(read_gguf_tokens(f, origin->gguf), "%s", origin->path)
                             : read_tokens(f, origin->path));
    *out = f;
    f = NULL;
out:
    memory_free(text);
    chat_format_close(f);
    return status;
}

void chat_format_close(chat_format *f)
{
    if (f != NULL) {
        memory_free(f->place);
        chat_template_free(f->template);
        json_decref(f->tokens);
        memory_free(f);
    }
}

grail_status chat_format_render(const chat_format *f, const json_t *messages, const json_t *tools,
                                bool answers, buffer *out)
{
    grail_status status = GRAIL_OK;
    json_t *read = NULL;
    const chat_context context = {
        .tokens = f->tokens, .tools = tools, .add_generation_prompt = answers};
    TRY(chat_conversation_read(messages, &read));
    TRY(with_remedy(
        error_in(chat_template_render(f->template, read, &context, out), "%s", f->place)));
out:
    json_decref(read);
    return status;
}

const char *chat_format_end(const chat_format *f)
{
    return json_string_value(json_object_get(f->tokens, "eos_token"));
}
