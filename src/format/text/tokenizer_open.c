/* Opens the tokenizer of a model directory. */
#include "format/text/tokenizer.h"

#include "base/file.h"
#include "base/json.h"
#include "format/text/tokenizer_internal.h"

#define JSON_NAME "tokenizer.json"
#define MERGES_NAME "merges.txt"

static grail_status open_json(const char *path, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    TRY(file_read(path, TOKENIZER_LARGEST_FILE, &bytes));
    TRY(tokenizer_from_json(path, bytes.bytes, bytes.size, out));
out:
    buffer_fini(&bytes);
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
    static const char *const files[] = {JSON_NAME, MERGES_NAME};
    *out = false;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !*out; i++) {
        char *path = NULL;
        CHECK(path_find(&path, directory, files[i]));
        *out = path != NULL;
        memory_free(path);
    }
    return GRAIL_OK;
}

/* GRAIL_OK where the directory lacks the file. */
static grail_status refuse_file(const char *directory, const char *name)
{
    char *path = NULL;
    CHECK(path_find(&path, directory, name));
    const bool exists = path != NULL;
    memory_free(path);
    return exists
               ? error_set(GRAIL_ERROR_UNSUPPORTED,
                           "%s: has no " JSON_NAME ", and its %s is not read; transformers makes "
                           "one of it, AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                           directory, name)
               : GRAIL_OK;
}

grail_status tokenizer_open(const char *directory, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    char *json = NULL;
    tokenizer *merged = NULL;
    TRY(path_find(&json, directory, JSON_NAME));
    if (json != NULL) {
        TRY(open_json(json, out));
        goto out;
    }
    TRY(refuse_file(directory, "tokenizer.model"));
    TRY(open_merges(directory, &merged));
    if (merged == NULL) {
        TRY(refuse_file(directory, "vocab.txt"));
        FAIL(GRAIL_ERROR_IO, "%s: has neither " JSON_NAME " nor vocab.json with " MERGES_NAME,
             directory);
    }
    *out = merged;
out:
    memory_free(json);
    return status;
}
