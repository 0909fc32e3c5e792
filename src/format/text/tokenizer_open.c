/* Opens the tokenizer of a model directory. */
#include "format/text/tokenizer.h"

#include "base/file.h"
#include "base/json.h"
#include "format/text/tokenizer_internal.h"

#define JSON_NAME "tokenizer.json"
#define SENTENCEPIECE_NAME "tokenizer.model"
#define VOCABULARY_NAME "vocab.txt"
#define MERGES_NAME "merges.txt"
#define CONFIGURATION_NAME "tokenizer_config.json"

typedef grail_status (*open_function)(const char *name, const void *bytes, size_t size,
                                      tokenizer **out);

static grail_status open_file(const char *path, open_function open, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    TRY(file_read(path, TOKENIZER_LARGEST_FILE, &bytes));
    TRY(open(path, bytes.bytes, bytes.size, out));
out:
    buffer_fini(&bytes);
    return status;
}

/* tokenizer.model does not say whether BOS and EOS are put around a text; the tokenizer's
 * configuration does. If there is no configuration, BOS is put first, as in the Llama family. Its
 * "model_max_length" is 1e30, written as an integer, where there is no limit. */
static grail_status apply_configuration(const char *directory, tokenizer *t)
{
    grail_status status = GRAIL_OK;
    json_t *configuration = NULL;
    char *path = NULL;
    bool add_bos = true;
    bool add_eos = false;
    TRY(path_find(&path, directory, CONFIGURATION_NAME));
    if (path != NULL) {
        TRY(json_read_file_of_reals(path, TOKENIZER_LARGEST_FILE, &configuration));
        TRY(json_get_boolean(path, configuration, "add_bos_token", true, &add_bos));
        TRY(json_get_boolean(path, configuration, "add_eos_token", false, &add_eos));
    }
    t->before.count = add_bos ? t->before.count : 0;
    if (add_eos && t->end_of_text >= 0) {
        TRY(token_list_push(&t->after, t->end_of_text));
    }
out:
    json_decref(configuration);
    memory_free(path);
    return status;
}

static grail_status open_sentencepiece(const char *directory, const char *path, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    TRY(open_file(path, tokenizer_from_sentencepiece, &t));
    TRY(apply_configuration(directory, t));
    *out = t;
    t = NULL;
out:
    tokenizer_close(t);
    return status;
}

static grail_status open_vocabulary(const char *directory, const char *path, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    json_t *configuration = NULL;
    char *beside = NULL;
    buffer bytes = {0};
    TRY(path_find(&beside, directory, CONFIGURATION_NAME));
    if (beside != NULL) {
        TRY(json_read_file_of_reals(beside, TOKENIZER_LARGEST_FILE, &configuration));
    }
    TRY(file_read(path, TOKENIZER_LARGEST_FILE, &bytes));
    TRY(tokenizer_from_vocabulary(path, bytes.bytes, bytes.size, configuration, out));
out:
    buffer_fini(&bytes);
    json_decref(configuration);
    memory_free(beside);
    return status;
}

/* *out stays NULL where vocab.json or merges.txt is missing. */
static grail_status open_merges(const char *directory, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    json_t *root = NULL;
    tokenizer *t = NULL;
    char *path = NULL;
    buffer text = {0};
    buffer_init(&text, 2 * (size_t)TOKENIZER_LARGEST_FILE);
    TRY(tokenizer_document_of_merges(directory, &root));
    if (root == NULL) {
        goto out;
    }
    TRY(path_join(&path, directory, MERGES_NAME));
    TRY(json_append_text(root, &text));
    TRY(tokenizer_new(path, text.bytes, text.size, &t));
    TRY(tokenizer_read_document(path, root, t));
    *out = t;
    t = NULL;
out:
    tokenizer_close(t);
    json_decref(root);
    memory_free(path);
    buffer_fini(&text);
    return status;
}

grail_status tokenizer_exists(const char *directory, bool *out)
{
    static const char *const files[] = {JSON_NAME, SENTENCEPIECE_NAME, MERGES_NAME,
                                        VOCABULARY_NAME};
    *out = false;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !*out; i++) {
        char *path = NULL;
        CHECK(path_find(&path, directory, files[i]));
        *out = path != NULL;
        memory_free(path);
    }
    return GRAIL_OK;
}

grail_status tokenizer_open(const char *directory, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    char *json = NULL;
    char *model = NULL;
    char *pieces = NULL;
    tokenizer *merged = NULL;
    TRY(path_find(&json, directory, JSON_NAME));
    TRY(path_find(&model, directory, SENTENCEPIECE_NAME));
    TRY(path_find(&pieces, directory, VOCABULARY_NAME));
    if (json != NULL) {
        TRY(open_file(json, tokenizer_from_json, out));
    } else if (model != NULL) {
        TRY(open_sentencepiece(directory, model, out));
    } else {
        TRY(open_merges(directory, &merged));
    }
    if (merged != NULL) {
        *out = merged;
    } else if (json == NULL && model == NULL && pieces != NULL) {
        TRY(open_vocabulary(directory, pieces, out));
    } else if (json == NULL && model == NULL) {
        FAIL(GRAIL_ERROR_IO,
             "%s: has neither " JSON_NAME " nor " SENTENCEPIECE_NAME " nor " VOCABULARY_NAME
             " nor vocab.json with " MERGES_NAME,
             directory);
    }
out:
    memory_free(pieces);
    memory_free(json);
    memory_free(model);
    return status;
}
