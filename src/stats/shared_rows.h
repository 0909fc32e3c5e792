/* Rows of a result that ranks compute each in part: panels whose borders follow from the number of
 * rows alone, so that products of panels have the same bits whoever computes them. A device that
 * wants more rows at a time has them, as far as its rank's rows go; its bits are of that share. */
#ifndef GRAIL_STATS_SHARED_ROWS_H
#define GRAIL_STATS_SHARED_ROWS_H

#include "backend/operations.h"
#include "comm/comm.h"

/** Rows that are dealt out, few enough for all to have some; and how many a rank then works on at
 * once, since each product packs the other matrix again: with 128 rows of f64 BLIS reaches 0.7 of
 * its rate, with 512 0.93. */
enum { SHARED_PANEL = SOLVED_ROWS, WORKED_ROWS = 4 * SHARED_PANEL };

typedef struct shared_rows {
    const grail_comm *comm;
    int64_t rows;
    int64_t begin, end; /* those of this rank: whole panels, and the rest behind the last one */
    int64_t panel;      /* the most rows that are worked on at once */
} shared_rows;

/** Rows that `b` works on at once, at most `rows`. */
int64_t shared_panel(const backend *b, int64_t rows);

/** `comm` NULL stands for one rank, which has all rows. */
shared_rows shared_rows_of(const grail_comm *comm, const backend *b, int64_t rows);

/** Work on rows begin .. end - 1, at most a panel, which ends at a multiple of a panel or with the
 * rank's rows. */
typedef grail_status (*panel_work)(int64_t begin, int64_t end, void *context);

/** Does it for each panel of this rank. */
grail_status shared_rows_each(const shared_rows *s, panel_work work,
                              void *context) GRAIL_MUST_CHECK;

/** Called by all ranks with how their own work ended. Where any failed, all fail with the first
 * error; else all have the rows of M, or `size` bytes for each row, that each has computed. */
grail_status shared_rows_gather(const shared_rows *s, grail_status own, matrix m) GRAIL_MUST_CHECK;
grail_status shared_rows_gather_bytes(const shared_rows *s, grail_status own, void *rows,
                                      size_t size) GRAIL_MUST_CHECK;

#endif
