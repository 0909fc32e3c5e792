/* What lm-evaluation-harness does to the texts of tasks. Spaces are what Python's str.strip takes.
 */
#ifndef GRAIL_FORMAT_TEXT_TASK_CLEANING_H
#define GRAIL_FORMAT_TEXT_TASK_CLEANING_H

#include "base/buffer.h"

/** The length without the spaces at the end. */
size_t text_trimmed_size(const char *text, size_t size);

/** Appends without the spaces at both ends. */
grail_status append_stripped(const char *text, buffer *out) GRAIL_MUST_CHECK;

/** Appends with the first character in its title case and all others in lower case, as Python's
 * str.capitalize where that changes characters one by one. */
grail_status append_capitalised(const char *text, buffer *out) GRAIL_MUST_CHECK;

/** Appends a text of WikiHow as HellaSwag's evaluation cleans it: stripped, " [title]" a full stop,
 * other marks in brackets removed, and two spaces one. `out` is empty before. */
grail_status append_cleaned(const char *text, buffer *out) GRAIL_MUST_CHECK;

#endif
