/* Tables of the page as JSON: {"columns": [names], "rows": [[values], ...]}. A row remembers the
 * first value that failed, so that code which fills it need not stop after every value. */
#ifndef GRAIL_STUDY_PAGE_ROW_H
#define GRAIL_STUDY_PAGE_ROW_H

#include "base/json.h"
#include "study/page/estimate.h"
#include "study/results/variant.h"

/** Puts a table without rows under `name`; `columns` ends with NULL. *out is borrowed. */
grail_status table_put(json_t *tables, const char *name, const char *const columns[],
                       json_t **out) GRAIL_MUST_CHECK;

typedef struct row {
    json_t *values;
    grail_status status;
} row;

row row_begin(void);
void row_text(row *r, const char *text); /* NULL: null */
/** Whole numbers without a point; null where it is not finite. */
void row_number(row *r, double value);
void row_flag(row *r, bool value);
void row_estimate(row *r, const estimate *e); /* value, low, high */
void row_variant(row *r, variant v);          /* its label */
/** Appends the row to the table. */
grail_status row_end(row *r, json_t *table) GRAIL_MUST_CHECK;

/** A number as rows hold it, and the label of a variant: "grail + REPAIR", "full + heal model".
 * Both are owned, and NULL where memory ran out. */
json_t *number_json(double value);
json_t *variant_json(variant v);

#endif
