/* The beginning of the page: for each network the largest cut within each loss. */
#ifndef GRAIL_STUDY_PAGE_DECISION_PAGE_H
#define GRAIL_STUDY_PAGE_DECISION_PAGE_H

#include "study/page/aggregate.h"
#include "study/page/markup.h"

/** Nothing where no cell was measured. */
grail_status decision_page_write(const aggregate *a, markup *page) GRAIL_MUST_CHECK;

#endif
