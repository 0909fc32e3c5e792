/* The numbers behind the plots, as HTML tables. */
#ifndef GRAIL_STUDY_PAGE_TABLES_H
#define GRAIL_STUDY_PAGE_TABLES_H

#include "study/page/aggregate.h"
#include "study/page/markup.h"

/** The dense checkpoints. */
void table_dense(const aggregate *a, markup *page);

/** Accuracy or perplexity by selector and ratio, a column per variant. */
void table_accuracy(const aggregate *a, const section *s, markup *page);

/** Time by stage and peak memory of each variant, at the section's setting. */
void table_cost(const section *s, markup *page);

/** Steps, losses and time of the trainings; nothing where nothing is healed. */
void table_healing(const section *s, markup *page);

/** Cells that failed, with their messages. Nothing where none failed. */
void table_failures(const aggregate *a, markup *page);

/** Every measured cell. */
void table_cells(const aggregate *a, markup *page);

#endif
