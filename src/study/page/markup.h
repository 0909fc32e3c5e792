/* Growing HTML or SVG text. A failed append is remembered and later ones do nothing, so that code
 * which draws need not stop after every element; markup_status tells at the end. */
#ifndef GRAIL_STUDY_PAGE_MARKUP_H
#define GRAIL_STUDY_PAGE_MARKUP_H

#include "base/buffer.h"

typedef struct markup {
    buffer bytes;
    grail_status status;
} markup;

void markup_init(markup *m, size_t maximum);
void markup_fini(markup *m);
grail_status markup_status(const markup *m) GRAIL_MUST_CHECK;

/** Appends markup unescaped; not for text that others wrote. */
void markup_raw(markup *m, const char *text);
void markup_bytes(markup *m, const void *bytes, size_t size);
void markup_format(markup *m, const char *format, ...) GRAIL_PRINTF(2, 3);
void markup_append(markup *m, const markup *other);

/** Appends text for an element or a quoted attribute. `text` is UTF-8; what may not occur in XML
 * (control characters, U+FFFE, U+FFFF) or would turn the direction of other text becomes U+FFFD. */
void markup_text(markup *m, const char *text);
/** The same of the first bytes of a text. */
void markup_part(markup *m, const char *text, size_t size);
/* -- texts to insert with %s --------------------------------------------------------------------
 */

enum { MOST_START = 120, LONGEST_PIECE = 6 /* &quot; */ };

/** Characters of a text that others wrote, as markup_text writes them. */
typedef struct start_text {
    char text[LONGEST_PIECE * MOST_START + 4];
} start_text;
/** The first characters, at most `most` <= MOST_START, with an ellipsis where there are more. */
start_text start_of(const char *text, size_t most);

/** A number or a few of them with words; cut where it is longer. */
typedef struct short_text {
    char text[128];
} short_text;
short_text text_format(const char *format, ...) GRAIL_PRINTF(1, 2);

/** A number with that many decimals (0 to 6) in every locale; a dash for NaN and infinity. Beyond
 * 1e12 it is written with an exponent. */
short_text number_text(double value, int decimals);
/** 0 to 1 as percent without the sign, one decimal. */
short_text percent_text(double fraction);
/** The same with a decimal only where it has one: "30", "12.5". */
short_text ratio_text(double fraction);
/** "850 us", "12.3 ms", "4.56 s", "12.3 min", "4.56 h": three digits, with the sign of micro. */
short_text seconds_text(double seconds);
/** "5.60 M", "1.24 G" followed by `unit`. */
short_text scaled_text(double value, const char *unit);

#endif
