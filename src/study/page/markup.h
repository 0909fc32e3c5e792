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
/** Appends at most `most` characters, the first ones, with an ellipsis. */
void markup_start_of(markup *m, const char *text, size_t most);

/** A number with that many decimals (0 to 6) in every locale; a dash for NaN and infinity. Beyond
 * 1e12 it is written with an exponent. */
void markup_number(markup *m, double value, int decimals);
/** 0 to 1 as percent without the sign, one decimal. */
void markup_percent(markup *m, double fraction);
/** The same with a decimal only where it has one: "30", "12.5". */
void markup_ratio(markup *m, double fraction);
/** "850 us", "12.3 ms", "4.56 s", "12.3 min", "4.56 h": three digits, with the sign of micro. */
void markup_seconds(markup *m, double seconds);
/** "1.34", "12.3", "1234": three digits, or all before the point. */
void markup_digits(markup *m, double value);
/** "5.60 M", "1.24 G" followed by `unit`. */
void markup_scaled(markup *m, double value, const char *unit);

#endif
