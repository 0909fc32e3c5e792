/* Several measurements as one number and its range. */
#ifndef GRAIL_STUDY_PAGE_SPREAD_H
#define GRAIL_STUDY_PAGE_SPREAD_H

/** Mean and range of the values that are not NaN; all NaN when count is 0. */
typedef struct spread {
    double mean, least, most;
    int count;
} spread;

spread spread_empty(void);
void spread_add(spread *s, double value);

#endif
