/* What attention and its gradient share: which keys a query sees, and the size of blocks. */
#ifndef GRAIL_BACKEND_CPU_ATTENTION_H
#define GRAIL_BACKEND_CPU_ATTENTION_H

#include "backend/operations.h"

/* Queries and keys whose scores are computed at once. */
enum { QUERIES = 192, KEYS = 384 };

/** First key that the query at `position` sees. */
static inline int64_t first_visible(const attention_shape *s, int64_t position)
{
    return s->window > 0 && position >= s->window ? position - s->window + 1 : 0;
}

/** One past the last key that the query at `position` sees. */
static inline int64_t end_visible(const attention_shape *s, int64_t position)
{
    return s->bidirectional ? s->length : position + 1;
}

typedef struct key_range {
    int64_t begin, end;
} key_range;

/** Those of `keys` keys from k0 that the query at `position` sees, counted from k0. */
static inline key_range visible_keys(const attention_shape *s, int64_t position, int64_t k0,
                                     int64_t keys)
{
    const int64_t visible = first_visible(s, position);
    const int64_t begin = visible > k0 ? (visible - k0 < keys ? visible - k0 : keys) : 0;
    const int64_t seen = end_visible(s, position) - k0;
    const int64_t end = seen < keys ? seen : keys;
    return (key_range){begin, end > begin ? end : begin};
}

#endif
