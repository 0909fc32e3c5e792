#include "arch/model_text.h"

#include "arch/gguf_tokenizer.h"
#include "arch/model_arrays.h"
#include "arch/sentence_modules.h"
#include "base/name_list.h"
#include "base/options.h"
#include "format/text/chat_template.h"
#include "format/text/text_limits.h"
#include "format/text/token_array.h"
#include "format/weights/beside.h"

#include <stdio.h>
#include <string.h>

#define TOKENIZER_NAME "tokenizer.json"

/* A run compares what was read, not these. */
/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_text_source, member), .only_with = "calib eval data"
static const grail_option fields[] = {
    {FIELD(field), .type = GRAIL_OPTION_TEXT, .key = "field", .name = "field", .argument = "NAME",
     .help = "field of each JSON line that holds the text (text)"},
    {FIELD(protocol), .type = GRAIL_OPTION_WORD, .what = "protocol", .words = text_protocol_names,
     .key = "protocol", .name = "protocol", .argument = "NAME",
     .help = "split text into documents and tokens as plain, lines, wikitext2, ptb or c4 (plain)"},
    {FIELD(context), .type = GRAIL_OPTION_INTEGER, .what = "the number of tokens per window",
     .zero_is_usual = 1, .key = "context", .name = "context", .argument = "N",
     .help = "tokens per window (2048, or the model's maximum if that is less)"},
    {FIELD(window_bos), .type = GRAIL_OPTION_FLAG, .key = "window_bos", .name = "window-bos",
     .help = "begin every window with the BOS token"},
    OPTION_ROOM(grail_text_source, room, grail_text_source),
    {0},
};
/* clang-format on */

const grail_option *grail_text_option_at(int i)
{
    return option_at(fields, i);
}

grail_status text_source_check(const grail_text_source *source)
{
    return options_check(fields, source);
}

bool text_source_is_given(const grail_text_source *source)
{
    return source != NULL && (source->path != NULL || source->tokens != NULL);
}

const char *text_source_place(const grail_text_source *source)
{
    return source->tokens != NULL ? TOKENS_PLACE : source->path;
}

static grail_status check_reads_text(const grail_model *model)
{
    return model->graph->input_kind == INPUT_TOKENS
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT, "the model reads images, not text; give images");
}

grail_status model_check_next_token(const grail_model *model, const char *what)
{
    if (!graph_gives_features(model->graph)) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_ARGUMENT,
                     "'%s' is an encoder: it gives hidden states, and no scores of a next token, "
                     "which %s; grail verify compares the vectors that two encoders give for the "
                     "documents of a text",
                     model->path, what);
}

static grail_status check_context(const grail_model *model, int64_t length)
{
    if (length > model->context) {
        const grail_status status = error_set(GRAIL_ERROR_ARGUMENT,
                                              "a context of %lld tokens is longer than the model's "
                                              "%lld positions; give a smaller one",
                                              (long long)length, (long long)model->context);
        return error_about(status, "context");
    }
    return GRAIL_OK;
}

grail_status model_tokenizer_open(const grail_model *model, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    const checkpoint *c = model->checkpoint;
    char *place = NULL;
    buffer text = {0};
    if (checkpoint_documents(c) == NULL) {
        return checkpoint_metadata(c) == NULL ? tokenizer_open(checkpoint_directory(c), out)
                                              : gguf_tokenizer_open(c, out);
    }
    TRY(beside_read(c, TOKENIZER_NAME, TOKENIZER_LARGEST_FILE, &place, &text));
    if (place == NULL) {
        FAIL(GRAIL_ERROR_IO,
             "%s: the model in memory has no document " TOKENIZER_NAME
             "; give it, or token ids in place of text",
             checkpoint_path(c));
    }
    TRY(tokenizer_from_json(place, text.bytes, text.size, out));
out:
    buffer_fini(&text);
    memory_free(place);
    return status;
}

/* Sentence encoders are used with texts that are cut to fewer tokens than they have positions. */
static grail_status usual_context(const grail_model *model, int64_t *out)
{
    enum { DEFAULT_CONTEXT = 2048 };
    int64_t length = 0;
    if (graph_gives_features(model->graph)) {
        CHECK(sentence_length(checkpoint_directory(model->checkpoint), &length));
    }
    *out = model->context < DEFAULT_CONTEXT ? model->context : DEFAULT_CONTEXT;
    *out = length > 0 && length < *out ? length : *out;
    return GRAIL_OK;
}

grail_status model_read_tokens(const grail_model *model, const grail_tokens *tokens, int64_t unread,
                               token_windows *out)
{
    CHECK(check_reads_text(model));
    CHECK(windows_of_tokens(tokens, model->graph->vocabulary, out));
    grail_status status = check_context(model, out->length - unread);
    status = status == GRAIL_OK ? model_check_padding(model, out) : status;
    if (status != GRAIL_OK) {
        token_windows_fini(out);
    }
    return status;
}

static grail_status find_template(const grail_model *model, char **text, char **place)
{
    static const char key[] = "tokenizer.chat_template";
    const checkpoint *c = model->checkpoint;
    if (checkpoint_documents(c) != NULL) {
        return GRAIL_OK;
    }
    if (checkpoint_metadata(c) == NULL) {
        return chat_template_find(checkpoint_directory(c), text, place);
    }
    CHECK(gguf_get_text(checkpoint_metadata(c), key, text));
    return *text == NULL ? GRAIL_OK : memory_format(place, "%s: %s", checkpoint_path(c), key);
}

/* Token ids need neither a template nor a tokenizer, so a damaged one is no error: nothing is known
 * then. */
static grail_status unless_damaged(grail_status status)
{
    return status == GRAIL_ERROR_MEMORY ? status : GRAIL_OK;
}

grail_status model_tokenizer_if_read(const grail_model *model, tokenizer **out)
{
    *out = NULL;
    return unless_damaged(model_tokenizer_open(model, out));
}

grail_status model_find_template(const grail_model *model, char **place)
{
    char *text = NULL;
    *place = NULL;
    const grail_status status = unless_damaged(find_template(model, &text, place));
    memory_free(text);
    return status;
}

grail_status model_chat_open(const grail_model *model, const tokenizer *t,
                             const grail_text_source *source, chat_writer **out)
{
    grail_status status = GRAIL_OK;
    char *text = NULL;
    char *place = NULL;
    *out = NULL;
    TRY(unless_damaged(find_template(model, &text, &place)));
    if (text != NULL && place != NULL) {
        TRY(chat_open(text, place, t, source, out));
    }
out:
    memory_free(text);
    memory_free(place);
    return status;
}

/* Token ids need nothing that says how a file is read. */
static grail_status check_in_memory(const grail_text_source *s)
{
    const char *field = s->path != NULL       ? "path"
                        : s->field != NULL    ? "field"
                        : s->protocol != NULL ? "protocol"
                        : s->context != 0     ? "context"
                        : s->window_bos != 0  ? "window_bos"
                                              : NULL;
    return field == NULL
               ? GRAIL_OK
               : error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                       "token ids in memory are taken as they are; leave out the "
                                       "%s",
                                       field),
                             field);
}

grail_status model_read_first_windows(const grail_model *model, const grail_text_source *source,
                                      int64_t windows, token_windows *out, char hash[65])
{
    grail_status status = GRAIL_OK;
    if (source->tokens != NULL) {
        hash[0] = 0;
        CHECK(check_in_memory(source));
        return model_read_tokens(model, source->tokens, 0, out);
    }
    tokenizer *t = NULL;
    chat_writer *writer = NULL;
    int protocol = 0;
    token_windows read = {0};
    const bool encoder = graph_gives_features(model->graph);
    window_options options = {
        .path = source->path,
        .field = source->field,
        .length = source->context,
        .window_bos = source->window_bos != 0,
        .documents = encoder,
        .windows = windows,
    };
    TRY(check_reads_text(model));
    if (source->path == NULL) {
        FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT, "no text was given");
    }
    TRY(windows_check_path(source->path));
    TRY(text_source_check(source));
    if (encoder && options.window_bos) {
        FAIL_ABOUT("window_bos", GRAIL_ERROR_ARGUMENT,
                   "the windows of an encoder already have the special tokens of its tokenizer "
                   "around them");
    }
    TRY(usual_context(model, &options.default_length));
    TRY(option_find_word("protocol", source->protocol == NULL ? "plain" : source->protocol,
                         text_protocol_names, &protocol));
    options.protocol = (text_protocol)protocol;
    if (encoder && protocol != TEXT_PLAIN && protocol != TEXT_LINES) {
        FAIL_ABOUT("protocol", GRAIL_ERROR_ARGUMENT,
                   "the protocol %s joins documents to one text, but each window of an encoder is "
                   "a document; give plain or lines",
                   text_protocol_names[protocol]);
    }
    hash[0] = 0;
    if (model_names_arrays(model, source->path)) {
        TRY(model_read_arrays(model, source->path, source->context, &read));
        goto check;
    }
    if (!name_is_of_kind(source->path, ".npy") || options.window_bos) {
        TRY(model_tokenizer_open(model, &t));
        snprintf(hash, 65, "%s", tokenizer_hash(t));
    }
    if (t != NULL && !encoder) {
        TRY(model_chat_open(model, t, source, &writer));
        options.chat = writer;
    }
    TRY(windows_read(&options, t, model_word_count(model), &read));
check:
    TRY(check_context(model, read.length));
    TRY(model_check_padding(model, &read));
    *out = read;
    read = (token_windows){0};
out:
    token_windows_fini(&read);
    chat_close(writer);
    tokenizer_close(t);
    return status;
}

grail_status model_read_windows(const grail_model *model, const grail_text_source *source,
                                token_windows *out, char hash[65])
{
    return model_read_first_windows(model, source, 0, out, hash);
}

grail_status model_tokenizer_hash(const grail_model *model, char hash[65])
{
    grail_status status = GRAIL_OK;
    const gguf_metadata *m = checkpoint_metadata(model->checkpoint);
    const memory_documents *documents = checkpoint_documents(model->checkpoint);
    tokenizer *t = NULL;
    bool exists = m != NULL && gguf_find(m, "tokenizer.ggml.model") != NULL;
    hash[0] = 0;
    if (documents != NULL) {
        exists = memory_documents_find(documents, TOKENIZER_NAME) != NULL;
    } else if (m == NULL) {
        TRY(tokenizer_exists(checkpoint_directory(model->checkpoint), &exists));
    }
    if (exists) {
        TRY(model_tokenizer_open(model, &t));
        snprintf(hash, 65, "%s", tokenizer_hash(t));
    }
out:
    tokenizer_close(t);
    return status;
}

grail_status model_find_turns(const grail_model *model, const token_windows *w, turns_found *out)
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    *out = TURNS_UNKNOWN;
    TRY(model_tokenizer_if_read(model, &t));
    if (t != NULL) {
        TRY(turns_find(t, w, out));
    }
out:
    tokenizer_close(t);
    return status;
}

/* -- where texts begin and end ----------------------------------------------------------------- */

enum { GENERATION_CONFIG_MAXIMUM = 1 << 20 };

static void add_end(const json_t *id, text_ends *out)
{
    if (json_is_integer(id) && out->end_count < MODEL_MOST_ENDS) {
        out->ends[out->end_count++] = (int32_t)json_integer_value(id);
    }
}

static void add_ends(const grail_model *model, const json_t *document, text_ends *out)
{
    const json_t *begin = json_object_get(document, "bos_token_id");
    const json_t *ids = json_object_get(document, "eos_token_id");
    const json_int_t first = json_is_integer(begin) ? json_integer_value(begin) : -1;
    if (out->begin < 0 && first >= 0 && first < model->graph->vocabulary) {
        out->begin = (int32_t)first;
    }
    add_end(ids, out);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        add_end(json_array_get(ids, i), out);
    }
}

grail_status model_text_ends(const grail_model *model, text_ends *out)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    char *path = NULL;
    *out = (text_ends){.begin = -1};
    add_ends(model, model->config, out);
    TRY(beside_read_json(model->checkpoint, "generation_config.json", GENERATION_CONFIG_MAXIMUM,
                         &path, &document));
    add_ends(model, document, out);
out:
    json_decref(document);
    memory_free(path);
    return status;
}

bool text_ends_with(const text_ends *e, int32_t id)
{
    bool ends = false;
    for (int i = 0; i < e->end_count; i++) {
        ends = ends || e->ends[i] == id;
    }
    return ends;
}
