/* The data of figures as tab-separated values. */
#ifndef GRAIL_STUDY_PAGE_TSV_H
#define GRAIL_STUDY_PAGE_TSV_H

#include "base/json.h"

/** Every file begins with the names of its first columns. */
#define TSV_MARK "figure\tnetwork\t"

/**
 * Appends the rows of a figure of page_data: a line of the names of the columns, then a line for
 * each row. Numbers are those of the page's JSON, digit for digit; what was not measured is empty.
 * Tabs and line ends of names become \t and \n.
 */
grail_status tsv_of_figure(const json_t *data, const json_t *figure, buffer *out) GRAIL_MUST_CHECK;

#endif
