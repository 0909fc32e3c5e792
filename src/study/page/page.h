/* The complete report as one HTML page. */
#ifndef GRAIL_STUDY_PAGE_PAGE_H
#define GRAIL_STUDY_PAGE_PAGE_H

#include "study/page/aggregate.h"
#include "study/page/markup.h"

/** Every page, and every figure in a file of its own, has its mark in its first PAGE_HEAD bytes. */
#define PAGE_MARK "<title>grail: results of a sweep</title>"
#define FIGURE_MARK "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\""
enum { PAGE_HEAD = 1024 };

/** Whether a file may be written at `path`: nothing is there, or an empty file, or one with `mark`
 * at its beginning. Else GRAIL_ERROR_EXISTS: nothing but an older report is replaced. */
grail_status page_check_place(const char *path, const char *mark) GRAIL_MUST_CHECK;

/** Appends the page; with a directory also writes each figure into it. *figures counts them. */
grail_status page_write(const aggregate *a, const char *svg_directory, markup *page,
                        int *figures) GRAIL_MUST_CHECK;

#endif
