/* Shared by the parts of the tokenizer: text spans, the vocabulary, merges, patterns, and
 * processing steps. Both file formats are read into the same steps and the same BPE model. */
#ifndef GRAIL_FORMAT_TEXT_TOKENIZER_INTERNAL_H
#define GRAIL_FORMAT_TEXT_TOKENIZER_INTERNAL_H

#include "base/buffer.h"
#include "base/hash.h"
#include "base/slot_table.h"
#include "format/text/text_limits.h"
#include "format/text/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/** Borrowed bytes, valid UTF-8 unless said otherwise. */
typedef struct text_span {
    const char *bytes;
    size_t size;
} text_span;

/** Where a section lies in the text. For an open section only the certain output is made: the
 * output that no continuation of the text would change. */
typedef struct section_edges {
    bool start; /* it begins at the beginning of the text */
    bool open;  /* it may continue */
} section_edges;

static inline text_span span_from(text_span text, size_t begin, size_t end)
{
    return (text_span){text.bytes + begin, end - begin};
}

static inline text_span span_of_buffer(const buffer *b)
{
    return (text_span){b->size == 0 ? "" : (const char *)b->bytes, b->size};
}

/** The beginning of the character that ends at `end` > 0 of valid UTF-8. */
static inline size_t character_before(text_span text, size_t end)
{
    do {
        end--;
    } while (((unsigned char)text.bytes[end] & 0xC0) == 0x80);
    return end;
}

/** As strlen, for C strings. */
text_span span_of_string(const char *text);
bool span_starts_with(text_span text, text_span prefix);

/** Length in bytes of the character that starts with this byte of valid UTF-8. */
static inline size_t character_length(char first)
{
    const unsigned char byte = (unsigned char)first;
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/** Code point at the start of a non-empty span. */
int32_t character_at(text_span text);
/** Appends one code point as UTF-8. */
grail_status character_append(buffer *out, int32_t character) GRAIL_MUST_CHECK;
/* Character classes of Unicode 14 (utf8proc 2.8), as defined by Rust's standard library and regex
 * crate, on which Hugging Face tokenizers builds; the punctuation of tokenizers is that of
 * Unicode 8. */
bool character_is_space(int32_t character);       /* White_Space */
bool character_is_word(int32_t character);        /* \w */
bool character_is_numeric(int32_t character);     /* Nd, Nl, No */
bool character_is_punctuation(int32_t character); /* P*, and ASCII's symbols */
bool character_is_control(int32_t character); /* Cc, Cf, Co and U+FFFD, but no tab or line end */
bool character_is_mark(int32_t character);    /* Mn */
/** Those that BERT's tokenizer takes for words of their own. */
bool character_is_ideograph(int32_t character);

/* --- vocabulary --- */

typedef struct vocabulary {
    buffer text;      /* NUL-terminated pieces */
    size_t *offsets;  /* offsets[id] into text, SIZE_MAX for a hole; owned */
    size_t *sizes;    /* owned */
    int64_t count;    /* highest id + 1 */
    slot_table slots; /* ids by the piece */
    size_t longest;   /* bytes of the longest piece that can be found */
} vocabulary;

void vocabulary_init(vocabulary *v);
void vocabulary_fini(vocabulary *v);
/** Gives an id its piece; vocabulary_find does not find it. An id that already has a piece is
 * GRAIL_ERROR_FORMAT. */
grail_status vocabulary_name(vocabulary *v, text_span piece, int32_t id) GRAIL_MUST_CHECK;
/** Gives an id its piece; vocabulary_find finds it. A second id for a piece is GRAIL_ERROR_FORMAT.
 */
grail_status vocabulary_add(vocabulary *v, text_span piece, int32_t id) GRAIL_MUST_CHECK;
/** Id of a piece given to vocabulary_add, or -1. */
int32_t vocabulary_find(const vocabulary *v, text_span piece);
/** Piece of an id; bytes is NULL for a hole or an id out of range. */
text_span vocabulary_piece(const vocabulary *v, int64_t id);

/* --- pairs of ids --- */

typedef struct pair_entry {
    int32_t left;
    int32_t right;
    int32_t rank;
    int32_t result;
} pair_entry;

typedef struct pair_table {
    pair_entry *entries; /* [slots.used], owned */
    slot_table slots;
} pair_table;

/** Adds or replaces the entry of (left, right). */
grail_status pair_table_put(pair_table *t, pair_entry entry) GRAIL_MUST_CHECK;
/** Borrowed, NULL when absent. */
const pair_entry *pair_table_find(const pair_table *t, int32_t left, int32_t right);
void pair_table_fini(pair_table *t);

/* --- longest match among a set of pieces --- */

typedef struct trie_node {
    int32_t child;   /* first child, or -1 */
    int32_t sibling; /* next child of the same parent, or -1 */
    int32_t value;   /* -1 where no piece ends */
    unsigned char byte;
} trie_node;

typedef struct piece_trie {
    trie_node *nodes; /* owned */
    int32_t count;
    size_t longest;     /* bytes of a piece */
    int32_t roots[256]; /* node + 1, so that zero means none */
} piece_trie;

/** Adds a non-empty piece. A piece that was added before keeps its value. */
grail_status piece_trie_add(piece_trie *t, text_span piece, int32_t value) GRAIL_MUST_CHECK;
/** Bytes of the longest piece that the text starts with, 0 for none. */
size_t piece_trie_match(const piece_trie *t, text_span text, int32_t *value);
/** No continuation of the text changes the matches that begin before this place. It is text.size
 * unless the text is open. */
size_t piece_trie_certain(const piece_trie *t, text_span text, bool open);
void piece_trie_fini(piece_trie *t);

/* --- BPE --- */

typedef struct bpe_model {
    vocabulary pieces;
    pair_table merges; /* (left, right) -> rank, merged id */
    pair_table joins;  /* neighbouring characters that some merge brings together */
    piece_trie whole;  /* pieces matched before anything else and never merged */
    bool cuts; /* neighbouring characters that are not in `joins` may be cut apart before merging */
    bool byte_fallback;
    bool fuse_unknown;
    bool ignore_merges;
    bool unknown_missing; /* the file names an unknown token that has no id */
    int32_t unknown;      /* id, or -1: unknown characters are dropped */
    int32_t bytes[256];   /* ids of <0x00> .. <0xFF>, or -1 */
} bpe_model;

typedef struct bpe_symbol {
    int32_t id; /* -1 once merged into its left neighbour */
    int32_t previous;
    int32_t next;
} bpe_symbol;

typedef struct bpe_candidate {
    int32_t rank;
    int32_t position;
    int32_t result;
} bpe_candidate;

/** Memory for encoding with a model. A zeroed one is valid. */
typedef struct bpe_workspace {
    bpe_symbol *symbols; /* owned */
    int64_t symbol_count;
    bpe_candidate *heap; /* owned; on top the lowest rank, of equal ones the leftmost */
    int64_t heap_count;
} bpe_workspace;

void bpe_init(bpe_model *m);
void bpe_fini(bpe_model *m);
/** Fills bytes[] from the vocabulary and derives `joins`. Call it when pieces and merges are
 * complete. */
grail_status bpe_prepare(bpe_model *m) GRAIL_MUST_CHECK;
/** Appends the ids of one word; for an open word, only those that are certain. */
grail_status bpe_encode(const bpe_model *m, bpe_workspace *w, text_span word, bool open,
                        token_list *out) GRAIL_MUST_CHECK;
void bpe_workspace_fini(bpe_workspace *w);

/* --- WordPiece --- */

typedef struct wordpiece_model {
    bool is_used;         /* in place of BPE; the pieces are those of its vocabulary */
    piece_trie begins;    /* pieces that a word may begin with, */
    piece_trie continues; /* and those that go on with it, without their prefix; values are ids */
    int32_t unknown;
    int64_t most_characters; /* a longer word is unknown */
} wordpiece_model;

/** Fills a zeroed model, which wordpiece_fini frees, also after a failure. */
grail_status wordpiece_prepare(const vocabulary *pieces, text_span unknown, text_span prefix,
                               int64_t most_characters, wordpiece_model *m) GRAIL_MUST_CHECK;
/** Appends the ids of one word: all, or none of one that is open. */
grail_status wordpiece_encode(const wordpiece_model *m, text_span word, bool open,
                              token_list *out) GRAIL_MUST_CHECK;
void wordpiece_fini(wordpiece_model *m);

/* --- patterns --- */

typedef bool (*character_class)(int32_t character);

/** A literal string, a regular expression, or a class of single characters. */
typedef struct text_pattern {
    char *string; /* owned */
    size_t size;
    pcre2_code *regex; /* owned */
    character_class members;
} text_pattern;

typedef struct pattern_workspace {
    pcre2_match_data *match;
    pcre2_match_context *context;
    int64_t work_left; /* see PATTERN_MOST_WORK */
} pattern_workspace;

typedef struct pattern_scan {
    const text_pattern *pattern;
    pattern_workspace *workspace;
    text_span text;
    bool open; /* more may follow the text */
    size_t position;
    size_t last_end; /* SIZE_MAX before the first match */
    size_t decided;  /* after no match was found: none begins before this place */
} pattern_scan;

/** Compiles a pattern in the syntax that tokenizer files use (Oniguruma's Ruby syntax). */
grail_status pattern_from_regex(text_pattern *p, text_span regex) GRAIL_MUST_CHECK;
grail_status pattern_from_string(text_pattern *p, text_span string) GRAIL_MUST_CHECK;
void pattern_fini(text_pattern *p);
/** For matches in a text of `size` bytes and in the texts made from it. */
grail_status pattern_workspace_init(pattern_workspace *w, size_t size) GRAIL_MUST_CHECK;
void pattern_workspace_fini(pattern_workspace *w);

pattern_scan pattern_scan_start(const text_pattern *p, pattern_workspace *w, text_span text,
                                bool open);
/** The next match at or after the end of the last one; *found is false when there is none; in an
 * open text, when none is certain. */
grail_status pattern_scan_next(pattern_scan *s, bool *found, size_t *begin,
                               size_t *end) GRAIL_MUST_CHECK;

/* --- steps of the normalizer and of the pre-tokenizer --- */

typedef enum step_kind {
    NORMALIZE_PREPEND,
    NORMALIZE_REPLACE,
    NORMALIZE_UNICODE,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP,
    NORMALIZE_SENTENCEPIECE,
    NORMALIZE_CLEAN,       /* control characters go, and white space becomes spaces */
    NORMALIZE_IDEOGRAPHS,  /* spaces around each ideograph */
    NORMALIZE_STRIP_MARKS, /* nonspacing marks go */
    PRETOKENIZE_SPLIT,     /* the first of the pre-tokenizer */
    PRETOKENIZE_SPACE_PREFIX,
    PRETOKENIZE_BYTES, /* the byte-level alphabet */
    PRETOKENIZE_METASPACE
} step_kind;

/** The whitespace rules of pieces with scores, in which a space is U+2581. */
typedef struct sentencepiece_rules {
    bool add_dummy_prefix;
    bool remove_extra_whitespaces;
} sentencepiece_rules;

typedef enum split_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
} split_behavior;

typedef enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;

typedef struct text_step {
    step_kind kind;
    text_pattern pattern; /* replace, split */
    char *content;        /* prepend, replace; metaspace: one character; owned */
    int form;             /* unicode: utf8proc options */
    bool left;            /* strip */
    bool right;
    sentencepiece_rules rules;
    split_behavior behavior; /* split */
    bool invert;
    prepend_scheme scheme; /* metaspace */
} text_step;

typedef struct step_list {
    text_step steps[TOKENIZER_STEPS_MAX];
    int count;
} step_list;

void step_list_fini(step_list *list);

/** Runs every step of a normalizer. For an open text *out has only the certain output. *out is the
 * input itself or lies in one of the two buffers. */
grail_status normalizer_run(const step_list *n, const piece_trie *whole, pattern_workspace *w,
                            text_span text, bool open, buffer buffers[2],
                            text_span *out) GRAIL_MUST_CHECK;

/* --- the tokenizer --- */

typedef struct added_token {
    int32_t id;
    bool single_word;
    bool strip_left;
    bool strip_right;
} added_token;

struct tokenizer {
    char *name; /* for messages; owned */
    char hash[HASH_TEXT_SIZE];
    bpe_model model;
    wordpiece_model words;
    added_token *added; /* owned */
    int64_t added_count;
    piece_trie added_raw;        /* values index `added`; matched in the text as given */
    piece_trie added_normalized; /* matched in the normalized text */
    step_list normalizer;
    step_list pretokenizer;
    token_list before; /* ids that the post-processor puts before and after those of the text */
    token_list after;
};

/** Memory for one call of tokenizer_encode. */
typedef struct encoder {
    const tokenizer *tokenizer;
    buffer normalized[2];
    buffer steps[TOKENIZER_STEPS_MAX]; /* [i]: the output of pre-tokenizer step i */
    pattern_workspace patterns;
    bpe_workspace words;
    token_list *out;
} encoder;

/** Splits a section into words from step `step` on and appends the ids of each. */
grail_status pretokenize(encoder *e, int step, text_span section,
                         section_edges edges) GRAIL_MUST_CHECK;

/** An empty tokenizer that tokenizer_close can take at any time. */
grail_status tokenizer_new(const char *name, const void *bytes, size_t size,
                           tokenizer **out) GRAIL_MUST_CHECK;
/** Adds the added token to added_normalized or added_raw; with a zeroed content, as of a control
 * piece of SentencePiece, to neither: no text becomes it. */
grail_status tokenizer_add_token(tokenizer *t, text_span content, bool normalized,
                                 added_token token) GRAIL_MUST_CHECK;

struct json_t;
/** Reads a document in the form of a tokenizer.json into a new tokenizer. */
grail_status tokenizer_read_document(const char *name, const struct json_t *root,
                                     tokenizer *t) GRAIL_MUST_CHECK;

/** The document of a directory's vocab.json and merges.txt, in the form of a tokenizer.json and
 * owned by the caller; NULL where one of them is missing. */
grail_status tokenizer_document_of_merges(const char *directory,
                                          struct json_t **out) GRAIL_MUST_CHECK;

/* --- pieces with scores (SentencePiece) --- */

/** Types of pieces, as sentencepiece_model.proto and GGUF files number them. */
enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

typedef struct sentence_piece {
    text_span text; /* in the file's bytes */
    float score;
    uint64_t type;
    int32_t rank;
} sentence_piece;

typedef struct sentence_model {
    sentence_piece *pieces; /* owned */
    int64_t count;
    sentencepiece_rules rules;
} sentence_model;

/** Adds a piece, which is checked; one of type UNUSED is a hole. */
grail_status sentence_model_add(sentence_model *m, sentence_piece piece) GRAIL_MUST_CHECK;
/** Makes a new tokenizer of the pieces, which are ranked. */
grail_status tokenizer_read_pieces(sentence_model *m, tokenizer *t) GRAIL_MUST_CHECK;

#endif
