/* Limits for texts and tokenizers. The table in docs/formats.md lists them. */
#ifndef GRAIL_FORMAT_TEXT_TEXT_LIMITS_H
#define GRAIL_FORMAT_TEXT_TEXT_LIMITS_H

/** Bytes of a text, after decompression. */
#define TEXT_LARGEST ((size_t)4 << 30)
/** Bytes that are encoded as one: a .txt file, or documents joined by a protocol. */
#define TEXT_LARGEST_DOCUMENT ((size_t)1 << 30)

enum {
    /* What a gzip file may hold: this many times its bytes, plus a fixed allowance. Web pages as
     * JSON lines have three to twenty. */
    TEXT_MOST_RATIO = 200,
    TEXT_FREE_INFLATED = 1 << 24,

    TEXT_LONGEST_LINE = 1 << 25, /* of JSON lines: of a document with what stands beside it */
    TEXT_MOST_TOKENS = 1 << 28,  /* where all are asked for */

    /* This many bytes of a text are always encoded; after them, only as many as the requested
     * windows need. */
    TEXT_ENCODED_WHOLE = 1 << 24,

    TOKENIZER_LARGEST_FILE = 1 << 26,
    TOKENIZER_LONGEST_ADDED = 1024, /* bytes of what is looked for at every place of a text */
    TOKENIZER_LONGEST_MERGED = 512, /* bytes of a SentencePiece piece that merges make */
    TOKENIZER_MOST_PROBES = 1024,   /* in a hash table; more are made to collide */
    TOKENIZER_STEPS_MAX = 32,       /* of the normalizer, and of the pre-tokenizer */
    TOKEN_ID_MAX = (1 << 24) - 1,   /* ids index arrays */

    /* Bytes that a step may make of a text: up to some size the first, beyond it the second number
     * of times as many. The longest compatibility form has eleven times the bytes. */
    TOKENIZER_MOST_GROWTH = 64,
    TOKENIZER_FREE_GROWTH = 1 << 16,
    TOKENIZER_LARGE_GROWTH = 12,
    TOKENIZER_FREE_LARGE_GROWTH = 1 << 24,

    /* Ids that may be made of a text: for each of its bytes, and some. */
    TOKENIZER_MOST_IDS = 8,
    TOKENIZER_FREE_IDS = 1024,

    /* Steps of a match beyond those of an ordinary one, and bytes that it looks through, over a
     * whole text: for each of its bytes, and some. And steps of one match, which backtracks at a
     * few places in real patterns. */
    PATTERN_MOST_WORK = 256,
    PATTERN_FREE_WORK = 1 << 16,
    PATTERN_MOST_STEPS = 32,
    PATTERN_FREE_STEPS = 100000,
    PATTERN_MOST_HEAP_KIB = 1 << 16,
    PATTERN_LONGEST = 1 << 20 /* bytes of its translation */
};

#endif
