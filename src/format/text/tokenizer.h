/* Encodes text as token ids, by tokenizer.json (BPE, WordPiece) or, if there is none, by
 * vocab.json and merges.txt, or by the keys of a GGUF file. */
#ifndef GRAIL_FORMAT_TEXT_TOKENIZER_H
#define GRAIL_FORMAT_TEXT_TOKENIZER_H

#include "base/buffer.h"
#include "base/memory.h"
#include "format/gguf/gguf_write.h"

struct json_t;

typedef struct tokenizer tokenizer;

/** A growing list of ids. */
typedef struct token_list {
    int32_t *ids; /* owned */
    int64_t count;
    int64_t most; /* the most ids that it takes; 0: any number */
} token_list;

/** A list that already has `most` ids is GRAIL_ERROR_CANCELLED, without a message. */
grail_status token_list_push(token_list *list, int32_t id) GRAIL_MUST_CHECK;
grail_status token_list_append(token_list *list, const token_list *more) GRAIL_MUST_CHECK;
/** GRAIL_ERROR_ARGUMENT for an id from place `first` on that a vocabulary of `count` tokens lacks;
 * the message counts from there. */
grail_status token_list_check(const token_list *list, int64_t first,
                              int64_t count) GRAIL_MUST_CHECK;
void token_list_fini(token_list *list);

/** Whether a model directory has a tokenizer. */
grail_status tokenizer_exists(const char *directory, bool *out) GRAIL_MUST_CHECK;
/** Opens the tokenizer of a model directory. *out is owned: tokenizer_close. */
grail_status tokenizer_open(const char *directory, tokenizer **out) GRAIL_MUST_CHECK;
/** From the text of a tokenizer.json. `name` is for messages. */
grail_status tokenizer_from_json(const char *name, const void *text, size_t size,
                                 tokenizer **out) GRAIL_MUST_CHECK;

/** What a GGUF file does not say of a byte-level tokenizer, but for a name. */
typedef struct byte_tokenizer {
    const char *name;
    const char *steps; /* the pre-tokenizer, as a tokenizer.json states it */
    bool composes;     /* text is brought into the form NFC first */
    bool adds_bos;     /* unless the file says otherwise */
    bool whole_words;  /* a word that is a token is not put together by merges */
} byte_tokenizer;

/** From the keys of a GGUF file: byte-level BPE as `how` says, or pieces with scores for NULL. */
grail_status tokenizer_from_gguf(const char *name, const gguf_metadata *m,
                                 const byte_tokenizer *how, tokenizer **out) GRAIL_MUST_CHECK;
/** Puts the tokenizer of a directory as keys of a GGUF file with so many tokens: byte-level BPE in
 * a tokenizer.json, for whose steps there are the names known[count], or pieces with scores, which
 * *of_pieces says. The name of that kind is left to the caller. */
grail_status tokenizer_write_gguf(const char *directory, const byte_tokenizer known[], int count,
                                  int64_t vocabulary_size, bool *of_pieces,
                                  gguf_pairs *out) GRAIL_MUST_CHECK;
void tokenizer_close(tokenizer *t); /* NULL is allowed */

/** The id that the post-processor puts first, or -1. */
int32_t tokenizer_bos(const tokenizer *t);
/** The ids that the post-processor puts before a text and behind it, borrowed. */
const token_list *tokenizer_before(const tokenizer *t);
const token_list *tokenizer_after(const tokenizer *t);
/** SHA-256 of the file it came from, hexadecimal. */
const char *tokenizer_hash(const tokenizer *t);

/**
 * Appends the ids of UTF-8 text, which may hold NUL bytes, and stops when the list has out->most
 * ids. `special` applies the post-processor, which adds BOS and similar tokens. Invalid UTF-8 is
 * GRAIL_ERROR_FORMAT with the byte offset.
 */
grail_status tokenizer_encode(const tokenizer *t, const char *text, size_t size, bool special,
                              token_list *out) GRAIL_MUST_CHECK;

/**
 * Does the same for the beginning of a text: appends only the ids that no continuation of the text
 * would change. Most tokenizers leave out only the ids of the last word, some leave out all. `text`
 * ends between two characters.
 */
grail_status tokenizer_encode_start(const tokenizer *t, const char *text, size_t size, bool special,
                                    token_list *out) GRAIL_MUST_CHECK;

/** Appends the bytes of a token as they stand in a text that goes on: a character may begin in one
 * token and end in another, and a first word keeps its space. An id without a piece has no bytes.
 */
grail_status tokenizer_decode(const tokenizer *t, int32_t id, buffer *out) GRAIL_MUST_CHECK;

#endif
