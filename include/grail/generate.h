#ifndef GRAIL_GENERATE_H
#define GRAIL_GENERATE_H

#include <grail/machine.h>
#include <grail/model.h>
#include <grail/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a text goes on. Zeroed, but for the prompt: the most likely token each
 * time, 64 of them. */
typedef struct grail_generate_options {
    const char *prompt; /* UTF-8; empty only where the tokenizer begins a text with a token */
    int64_t tokens;     /* to generate at most; 0 = 64 */
    double temperature; /* logits are divided by it before a token is drawn; 0: the most likely one
                           is taken */
    int64_t top_k;      /* only so many most likely tokens are drawn from; 0: all */
    double top_p;       /* only the fewest most likely tokens that are together as likely as this;
                           0: all */
    uint64_t seed;
    GRAIL_ROOM(4);
} grail_generate_options;

/** i-th description of a field, NULL beyond the last. */
GRAIL_API const grail_option *grail_generate_option_at(int i);

/** Called for every token that was generated, with its id and the text that it completes, which may
 * be empty: the bytes of a character can be several tokens. Return non-zero to stop. */
typedef int (*grail_generate_observer)(void *user, int32_t id, const char *text);

/** What was generated. */
typedef struct grail_generated {
    int64_t prompt_tokens, tokens;
    int ended;             /* 1: the network ended the text; its end token counts and has no text */
    double prompt_seconds; /* for the prompt, weights read */
    double seconds;        /* for the tokens behind the first one */
    char precision[16];    /* of the products */
    GRAIL_ROOM(4);
} grail_generated;

/**
 * Goes on with a text. What attention reads of earlier tokens is kept, so that each further token
 * runs through the network alone. Ends with a token that config.json or generation_config.json
 * names as the end, after `tokens`, or where the network takes no more. A prompt that leaves no
 * room is GRAIL_ERROR_ARGUMENT about "prompt". The same options and threads give the same tokens.
 */
GRAIL_API grail_status grail_generate(const grail_model *model,
                                      const grail_generate_options *options,
                                      const grail_compute *compute,
                                      grail_generate_observer observer, void *user,
                                      grail_generated *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
