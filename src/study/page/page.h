/* The whole report as one HTML page. */
#ifndef GRAIL_STUDY_PAGE_PAGE_H
#define GRAIL_STUDY_PAGE_PAGE_H

#include "study/page/aggregate.h"
#include "study/page/markup.h"

/** Appends the page; with a directory also writes each figure into it. *figures counts them. */
grail_status page_write(const aggregate *a, const char *svg_directory, markup *page,
                        int *figures) GRAIL_MUST_CHECK;

#endif
