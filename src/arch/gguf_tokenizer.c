/* The names that GGUF files give to tokenizers. Source: llama.cpp's vocabulary; the patterns are
 * those of the tokenizers that the names stand for. */
#include "arch/gguf_tokenizer.h"

#include "arch/gguf_keys.h"

#include <string.h>

#define ISOLATED(regex)                                                                            \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\"}"
#define IN_ORDER(steps) "{\"type\":\"Sequence\",\"pretokenizers\":[" steps "]}"
#define BYTES_ALONE "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define NEWER_WORDS(digits)                                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits                 \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define OLDER_WORDS                                                                                \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)"

static const byte_tokenizer known[] = {
    {"default",
     IN_ORDER(ISOLATED("[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+") "," ISOLATED(
         OLDER_WORDS) "," ISOLATED("\\\\p{N}+") "," ISOLATED("[0-9][0-9][0-9]") "," BYTES_ALONE),
     false, false, false},
    {"gpt-2", BYTES, false, false, false},
    {"smollm", IN_ORDER("{\"type\":\"Digits\",\"individual_digits\":true}," BYTES), false, false,
     false},
    {"llama-bpe", IN_ORDER(ISOLATED(NEWER_WORDS("\\\\p{N}{1,3}")) "," BYTES_ALONE), false, true,
     true},
    {"qwen2", IN_ORDER(ISOLATED(NEWER_WORDS("\\\\p{N}")) "," BYTES_ALONE), true, false, false},
};

enum { KNOWN = sizeof known / sizeof known[0] };

/* *out is NULL for pieces with scores. */
static grail_status find_kind(const gguf_metadata *m, const byte_tokenizer **out)
{
    grail_status status = GRAIL_OK;
    char *kind = NULL;
    char *name = NULL;
    *out = NULL;
    TRY(gguf_get_text(m, "tokenizer.ggml.model", &kind));
    if (kind == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "holds no tokenizer: the key 'tokenizer.ggml.model' is missing");
    }
    if (strcmp(kind, "llama") == 0) {
        goto out;
    }
    if (strcmp(kind, "gpt2") != 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED,
             "its tokenizer \"%s\" is not supported, only gpt2 (byte-level BPE) and llama (pieces "
             "with scores); encode the text with the model's own tokenizer and pass the ids",
             kind);
    }
    TRY(gguf_get_text(m, "tokenizer.ggml.pre", &name));
    *out = name == NULL ? &known[0] : NULL;
    for (int i = 0; name != NULL && i < KNOWN; i++) {
        *out = strcmp(known[i].name, name) == 0 ? &known[i] : *out;
    }
    if (*out == NULL) {
        status = error_set(GRAIL_ERROR_UNSUPPORTED,
                           "its pre-tokenizer \"%s\" is not supported; encode the text with the "
                           "model's own tokenizer and pass the ids. The supported ones are",
                           name);
        for (int i = 0; i < KNOWN; i++) {
            error_append("%s %s", i == 0 ? "" : ",", known[i].name);
        }
    }
out:
    memory_free(name);
    memory_free(kind);
    return status;
}

grail_status gguf_tokenizer_open(const checkpoint *weights, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    const char *path = checkpoint_path(weights);
    const gguf_metadata *m = checkpoint_metadata(weights);
    const byte_tokenizer *how = NULL;
    TRY(error_in(find_kind(m, &how), "%s", path));
    TRY(error_in(gguf_keys_check(m, "", true), "%s", path));
    TRY(tokenizer_from_gguf(path, m, how, out));
out:
    if (status == GRAIL_ERROR_FORMAT) {
        error_append("; encode the text with the model's own tokenizer and pass the ids as .npy");
    }
    return status;
}

grail_status gguf_tokenizer_put(const checkpoint *weights, int64_t vocabulary_size, gguf_pairs *out)
{
    bool of_pieces = false;
    if (checkpoint_documents(weights) != NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "%s: a GGUF file is made from a directory with the tokenizer's files, not "
                         "from a model in memory; write the model to a directory",
                         checkpoint_path(weights));
    }
    CHECK(tokenizer_write_gguf(checkpoint_directory(weights), known, KNOWN, vocabulary_size,
                               &of_pieces, out));
    return gguf_put_text(out, "tokenizer.ggml.model", of_pieces ? "llama" : "gpt2");
}
