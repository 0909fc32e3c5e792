/* The outcome in a few sentences, and what was run in a few facts. */
#ifndef GRAIL_STUDY_PAGE_HEADLINE_H
#define GRAIL_STUDY_PAGE_HEADLINE_H

#include "study/page/aggregate.h"
#include "study/page/markup.h"

/** Paragraphs: where repair wins most in each section, and how often one variant beats another. */
grail_status headline_write(const aggregate *a, markup *page) GRAIL_MUST_CHECK;

/** A list of numbers of cells, images, samples, machine and start. */
void facts_write(const aggregate *a, markup *page);

/** What a reader must know about the file: cells that failed, were repeated or cut short. */
void remarks_write(const aggregate *a, markup *page);

#endif
