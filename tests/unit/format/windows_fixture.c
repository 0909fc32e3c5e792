#include "windows_fixture.h"

#include "support/support.h"

#include <stdio.h>
#include <string.h>

const char windows_tokenizer[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"<s>\": 0, \"a\": 1, \"b\": 2, \"c\": 3, \"d\": "
    "4,"
    " \"e\": 5, \"f\": 6, \" \": 7, \"\\n\": 8}, \"merges\": []},"
    " \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": ["
    "{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}],"
    " \"special_tokens\": {\"<s>\": {\"ids\": [0]}}}}";

void windows_setup(fixture *f, const char *name, const char *text)
{
    *f = (fixture){.directory = support_temporary_directory()};
    assert_ok(tokenizer_from_json("t.json", windows_tokenizer, strlen(windows_tokenizer), &f->t));
    support_write_file(f->directory, name, text, strlen(text));
    snprintf(f->path, sizeof f->path, "%s/%s", f->directory, name);
    f->options = (window_options){.path = f->path, .default_length = 4};
}

void windows_teardown(fixture *f)
{
    token_windows_fini(&f->windows);
    token_windows_fini(&f->windows);
    tokenizer_close(f->t);
    support_remove_tree(f->directory);
    memory_free(f->directory);
}

void read_windows(fixture *f, text_protocol protocol, int64_t length)
{
    token_windows_fini(&f->windows);
    f->options.protocol = protocol;
    f->options.length = length;
    assert_ok(windows_read(&f->options, f->t, VOCABULARY, &f->windows));
}
