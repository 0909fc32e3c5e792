#include "arch/model_text.h"

#include "base/file.h"
#include "base/name_list.h"
#include "base/option_values.h"

#include <stdio.h>
#include <string.h>

static grail_status check_kind(const grail_model *model, const char *path)
{
    if (model->graph->input_kind != INPUT_TOKENS) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the model reads images, not text; give images");
    }
    if (path == NULL) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT, "no text was given"), "path");
    }
    if (file_is_directory(path)) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "'%s' is a directory, but the model reads text; give a .txt, .jsonl, "
                         ".jsonl.gz or .npy file",
                         path);
    }
    return GRAIL_OK;
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

grail_status model_read_first_windows(const grail_model *model, const grail_text_source *source,
                                      int64_t windows, token_windows *out, char hash[65])
{
    enum { DEFAULT_CONTEXT = 2048 };
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    token_windows read = {0};
    window_options options = {
        .path = source->path,
        .field = source->field,
        .length = source->context,
        .default_length = model->context < DEFAULT_CONTEXT ? model->context : DEFAULT_CONTEXT,
        .window_bos = source->window_bos != 0,
        .windows = windows,
    };
    TRY(check_kind(model, source->path));
    TRY(option_integer("context", "the number of tokens per window", source->context, 0));
    TRY(option_flag("window_bos", "every window begins with BOS", source->window_bos));
    TRY(option_about("protocol",
                     text_protocol_from_name(source->protocol == NULL ? "plain" : source->protocol,
                                             &options.protocol)));
    hash[0] = 0;
    if (!name_ends_with(source->path, ".npy") || options.window_bos) {
        TRY(tokenizer_open(checkpoint_directory(model->checkpoint), &t));
        snprintf(hash, 65, "%s", tokenizer_hash(t));
    }
    TRY(windows_read(&options, t, model->graph->vocabulary, &read));
    TRY(check_context(model, read.length));
    *out = read;
    read = (token_windows){0};
out:
    token_windows_fini(&read);
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
    tokenizer *t = NULL;
    const char *directory = checkpoint_directory(model->checkpoint);
    bool exists = false;
    hash[0] = 0;
    TRY(tokenizer_exists(directory, &exists));
    if (exists) {
        TRY(tokenizer_open(directory, &t));
        snprintf(hash, 65, "%s", tokenizer_hash(t));
    }
out:
    tokenizer_close(t);
    return status;
}
