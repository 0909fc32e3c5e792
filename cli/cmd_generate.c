/* grail generate: goes on with a text. */
#include "notices.h"
#include "print.h"
#include "process.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static grail_generate_options o;
static bool printed; /* some text */
static bool prompt_printed;
static json_t *ids;    /* of --json */
static json_t *pieces; /* likewise */

static const option table[] = {
    FIELDS_OF(GROUP_INPUT, grail_generate_option_at, GRAIL_SUBJECT_READ, o),
    SET_OPTION,
    THREADS_OPTION,
    PRECISION_OPTION("f32"),
    BACKEND_OPTION,
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

/* Line ends of the text are those of the terminal; what else acts on it is escaped. */
static void print_text(const char *text)
{
    char line[256];
    while (*text != 0) {
        size_t length = strcspn(text, "\n");
        const bool ends = text[length] == '\n';
        length = length < sizeof line ? length : sizeof line - 1;
        while (length > 1 && (text[length] & 0xC0) == 0x80) { /* not within a character */
            length--;
        }
        memcpy(line, text, length);
        line[length] = 0;
        print_out("%s", line);
        printed = true;
        text += length;
        if (ends && *text == '\n') {
            print_out("\n");
            text++;
        }
    }
    (void)fflush(stdout);
}

/* Not before the network has taken it. */
static void print_prompt(void)
{
    if (!prompt_printed) {
        print_text(o.prompt);
    }
    prompt_printed = true;
}

static int take_token(void *user, int32_t id, const char *text)
{
    (void)user;
    if (asked.as_json) {
        (void)json_array_append_new(ids, json_integer(id));
        (void)json_array_append_new(pieces, json_text(text));
        print_progress((double)NAN, "%zu tokens generated", json_array_size(ids));
    } else {
        print_prompt();
        print_text(text);
    }
    return interrupt_came();
}

static json_t *join_pieces(void)
{
    size_t size = 1;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        size += json_string_length(json_array_get(pieces, i));
    }
    char *text = calloc(size, 1);
    size_t at = 0;
    for (size_t i = 0; text != NULL && i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        memcpy(text + at, json_string_value(piece), json_string_length(piece));
        at += json_string_length(piece);
    }
    json_t *made = text == NULL ? NULL : json_text(text);
    free(text);
    return made;
}

static int print_result(const grail_generated *g)
{
    const double rate = g->tokens > 1 ? (double)(g->tokens - 1) / g->seconds : 0.0;
    if (asked.as_json) {
        json_t *text = join_pieces();
        json_decref(pieces);
        return print_json(json_of("prompt", J(o.prompt), "text", text, "ids", ids, "prompt_tokens",
                                  J(g->prompt_tokens), "tokens", J(g->tokens), "ended",
                                  J((bool)g->ended), "prompt_seconds", J(g->prompt_seconds),
                                  "seconds", J(g->seconds), "precision", J(g->precision), NULL));
    }
    print_prompt();
    print_out("\n");
    if (!asked.quiet) {
        print_error("grail: %lld tokens of the prompt in %.2f s, %lld generated, %.1f a second%s\n",
                    (long long)g->prompt_tokens, g->prompt_seconds, (long long)g->tokens, rate,
                    g->ended != 0 ? "; the network ended the text" : "");
    }
    return EXIT_OK;
}

static int generate(const char *path, const grail_model *model)
{
    grail_generated made = {0};
    interrupt_catch();
    const grail_status status = grail_generate(model, &o, &asked.compute, take_token, NULL, &made);
    print_progress_end();
    if (status != GRAIL_OK) {
        if (printed) {
            print_out("\n");
        }
        return print_failure(status);
    }
    print_notices(path, model, false);
    return print_result(&made);
}

static int run(const char *const arguments[])
{
    grail_model *model = NULL;
    if (o.prompt == NULL) {
        return print_misuse("give --prompt TEXT");
    }
    ids = json_array();
    pieces = json_array();
    const grail_status status = shared_options_open_model(arguments[0], &model);
    const int code = status == GRAIL_OK ? generate(arguments[0], model) : print_failure(status);
    grail_model_close(model);
    return code;
}

const command command_generate = {
    .name = "generate",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "go on with a text, to look at what a language model says",
    .details = "Prints the prompt and what the network goes on with, token by token. The most "
               "likely token is taken each time unless --temperature is given.",
    .examples = WORDS("grail generate narrow --prompt 'Once upon a time'",
                      "grail generate narrow --prompt 'Once upon a time' --temperature 0.8 --top-p "
                      "0.95 --seed 3"),
    .options = table,
    .run = run,
};
