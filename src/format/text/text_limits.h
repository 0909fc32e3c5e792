/* Limits for texts and tokenizers. The table in docs/formats.md lists them. */
#ifndef GRAIL_FORMAT_TEXT_TEXT_LIMITS_H
#define GRAIL_FORMAT_TEXT_TEXT_LIMITS_H

/** Bytes of a text, after decompression. */
#define TEXT_LARGEST ((size_t)4 << 30)
/** Bytes that are encoded as one document: a .txt file, or documents joined by a protocol. */
#define TEXT_LARGEST_DOCUMENT ((size_t)1 << 30)

enum {
    /* Bytes that a gzip file may expand to: this many times its size, plus a fixed allowance. Web
     * pages as JSON lines expand three to twenty times. */
    TEXT_MOST_RATIO = 200,
    TEXT_FREE_INFLATED = 1 << 24,

    TEXT_LONGEST_LINE = 1 << 25, /* JSON lines: a document and its other fields */
    TEXT_MOST_TOKENS = 1 << 28,  /* when all are requested */

    /* This many bytes of a text are always encoded; after them, only as many as the requested
     * windows need. */
    TEXT_ENCODED_WHOLE = 1 << 24,

    TOKENIZER_LARGEST_FILE = 1 << 26,
    CHAT_TEMPLATE_LARGEST_FILE = 1 << 26,
    TOKENIZER_LONGEST_ADDED = 1024, /* bytes; searched at every place of a text */
    TOKENIZER_LONGEST_MERGED = 512, /* bytes of a SentencePiece piece that merges make */
    TOKENIZER_MOST_PROBES = 1024,   /* in a hash table; only hostile keys need more */
    TOKENIZER_STEPS_MAX = 32,       /* in the normalizer, and in the pre-tokenizer */
    TOKEN_ID_MAX = (1 << 24) - 1,   /* ids index arrays */

    /* Bytes that a step may make of a text of n bytes: the smaller of MOST_GROWTH n + FREE_GROWTH
     * and LARGE_GROWTH n + FREE_LARGE_GROWTH. The longest compatibility form has eleven times the
     * bytes. */
    TOKENIZER_MOST_GROWTH = 64,
    TOKENIZER_FREE_GROWTH = 1 << 16,
    TOKENIZER_LARGE_GROWTH = 12,
    TOKENIZER_FREE_LARGE_GROWTH = 1 << 24,

    /* Ids that may be made of a text: this many per byte, plus a fixed allowance. */
    TOKENIZER_MOST_IDS = 8,
    TOKENIZER_FREE_IDS = 1024,

    /* WORK bounds the failed tries of all matches in a text: their steps, and the bytes that they
     * searched. STEPS bounds the steps of one match; real patterns backtrack at a few places. Both
     * are this many per byte of the text, plus a fixed allowance. */
    PATTERN_MOST_WORK = 256,
    PATTERN_FREE_WORK = 1 << 16,
    PATTERN_MOST_STEPS = 32,
    PATTERN_FREE_STEPS = 100000,
    PATTERN_MOST_HEAP_KIB = 1 << 16,
    PATTERN_LONGEST = 1 << 20 /* bytes of a translated pattern */
};

#endif
