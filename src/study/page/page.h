/* The page: a template that draws the data which it holds, and the files beside it. */
#ifndef GRAIL_STUDY_PAGE_PAGE_H
#define GRAIL_STUDY_PAGE_PAGE_H

#include "base/json.h"

/** Every page has its mark in its first PLACE_HEAD bytes. */
#define PAGE_MARK "<title>grail: results of a sweep</title>"
enum { MOST_PAGE = 256 << 20, PLACE_HEAD = 1024 };

/** Whether a file may be written at `path`: nothing is there, or an empty file, or one with `mark`
 * at its beginning. Else GRAIL_ERROR_EXISTS: nothing but an older report is replaced. */
grail_status page_check_place(const char *path, const char *mark) GRAIL_MUST_CHECK;

/** Appends the page with the data in it. No text of the data can end the element that holds it or
 * become markup: every '<', '>' and '&' is written as an escape of JSON. */
grail_status page_write(const json_t *data, buffer *out) GRAIL_MUST_CHECK;

#endif
