/* The whole report as one HTML page. */
#ifndef GRAIL_REPORT_PAGE_H
#define GRAIL_REPORT_PAGE_H

#include "report/aggregate.h"
#include "report/markup.h"

/** Appends the page; with a directory also writes each figure into it. *figures counts them. */
grail_status page_write(const aggregate *a, const char *svg_directory, markup *page,
                        int *figures) GRAIL_MUST_CHECK;

#endif
