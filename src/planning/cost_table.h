/* What a network costs with any widths of its sites, read from a table of the dense network's
 * matrices. A matrix costs its rows times its columns, each of which one site may cut. */
#ifndef GRAIL_PLANNING_COST_TABLE_H
#define GRAIL_PLANNING_COST_TABLE_H

#include "arch/model.h"
#include "pipeline/request/cuts.h"

typedef enum limit_kind {
    LIMIT_PARAMETERS,
    LIMIT_MACS,
    LIMIT_KV_BYTES,
    LIMIT_BYTES,
    LIMIT_KINDS
} limit_kind;

/** An axis of a matrix, of which sites cut segments. */
typedef struct cost_axis {
    cut_axis cut;   /* the first segment; what follows it is the table's */
    int64_t length; /* of the dense axis */
} cost_axis;

typedef struct cost_term {
    cost_axis rows, columns;
    int64_t times;           /* what an element counts for */
    int sublayer;            /* the site with which the term goes; GRAPH_NONE: it stays */
    int64_t outputs, chosen; /* products: of so many outputs a router chooses these; 0: all rows */
    grail_dtype dtype;       /* bytes: in which a result stores the elements */
} cost_term;

typedef struct cost_table {
    limit_kind limited;
    int64_t outside;        /* of what is not in the graph */
    const site_list *sites; /* borrowed */
    parameter_cut *cuts;    /* of all sites that may be cut; owned */
    cost_term *terms;       /* [count], owned */
    int count;
} cost_table;

/** Sites of the kinds in may_cut [SITE_KINDS] may be narrower, which experts are not, nor values
 * beside heads or channels beside their whole groups, so that no two of them cut the same units.
 * `sites` outlives the table. cost_table_fini frees, even after a failure. */
grail_status cost_table_init(const grail_model *model, const site_list *sites, const bool *may_cut,
                             limit_kind limited, cost_table *t) GRAIL_MUST_CHECK;
void cost_table_fini(cost_table *t); /* works on a zeroed one */

/** The cost with kept[sites] units, which is that of the narrowed graph. Where a site keeps none,
 * its sublayer is gone. */
double cost_table_read(const cost_table *t, const int64_t *kept);

#endif
