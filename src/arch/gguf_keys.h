/* What grail does with the keys of GGUF files: one table, which readers and writers share. */
#ifndef GRAIL_ARCH_GGUF_KEYS_H
#define GRAIL_ARCH_GGUF_KEYS_H

#include "format/gguf/gguf.h"

enum { GGUF_KEY_SIZE = 128 };

typedef enum gguf_key_use {
    GGUF_CARRIED, /* read and written */
    GGUF_READ,
    GGUF_WRITTEN, /* and not read: tensors show the same */
    GGUF_REFUSED, /* it would make another network */
    GGUF_IGNORED, /* it does not change the network */
} gguf_key_use;

typedef struct gguf_key {
    gguf_key_use use;
    const char *name;    /* ".NAME" behind the architecture; a star stands for any text */
    const char *neutral; /* the values with which it changes nothing, with bars between them */
    const char *says;
} gguf_key;

/** Keys that functions of arch read or write. */
typedef enum gguf_key_id {
#define GGUF_NAMED(ID, USE, KEY, NEUTRAL, SAYS) GGUF_KEY_##ID,
#define GGUF_OTHER(USE, KEY, NEUTRAL, SAYS)
#include "arch/gguf_key_list.h"
#undef GGUF_NAMED
#undef GGUF_OTHER
    GGUF_KEY_COUNT
} gguf_key_id;

/** The key as it stands in a file of that architecture. */
typedef struct gguf_key_name {
    char text[GGUF_KEY_SIZE];
} gguf_key_name;
gguf_key_name gguf_key_of(const char *architecture, gguf_key_id id);
/** Whether `key` is that one in a file of the architecture. */
bool gguf_key_is(const char *architecture, gguf_key_id id, const char *key);
/** What grail does with a key; there is a line for each. */
const gguf_key *gguf_key_find(const char *architecture, const char *key);

/** Whether a text, or else its beginning, is in a list with bars between its members. */
bool gguf_is_listed(const char *list, const char *text, bool whole);

/** Refuses the first key that would make another network, by its name; of the keys of the tokenizer
 * or, without `of_tokenizer`, the others. `architecture` may be "" for those of the tokenizer. */
grail_status gguf_keys_check(const gguf_metadata *m, const char *architecture,
                             bool of_tokenizer) GRAIL_MUST_CHECK;

#endif
