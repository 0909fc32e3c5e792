/* The inner structure of a reducer, for the layers that walk over its units. */
#ifndef GRAIL_REDUCE_REDUCER_H
#define GRAIL_REDUCE_REDUCER_H

#include "algebra/projection.h"
#include "base/memory.h"

#include <grail/reducer.h>

struct grail_reducer {
    int64_t units;
    int64_t kept;
    bool folds;
    bool tied;        /* a selection among units that all scored equal: by their index alone */
    int64_t *labels;  /* [units]: position among the kept or cluster; -1 = removed */
    int64_t *members; /* [kept]: units in each cluster (1 for a selection) */
    /* Sub-blocks of a unit that are exchangeable (the query heads of a KV group): before folding,
     * sub-block s of unit j is taken from position order[j*subunits + s]. NULL: identity. Applies
     * only to axes whose features per unit are cut into `subunits` equal blocks. */
    int64_t subunits; /* 1 when not used */
    int64_t *order;
};

/** True when every unit is kept as it is. */
bool reducer_is_identity(const grail_reducer *r);

/** That of one of equal runs of units, each of which keeps as many, next to each other: the group's
 * own. *out is owned: grail_reducer_free. */
grail_status reducer_of_group(const grail_reducer *r, int64_t groups, int64_t group,
                              grail_reducer **out) GRAIL_MUST_CHECK;

/** Ascending indices of the features that a selection keeps: out[kept * features_per_unit]. */
void reducer_kept_features(const grail_reducer *r, int64_t features_per_unit, int64_t *out);

/** The features of an axis as the reducer maps them; borrows from it. projection_fini. */
grail_status reducer_projection(const grail_reducer *r, int64_t features_per_unit,
                                projection *out) GRAIL_MUST_CHECK;

/** Sets the order of the sub-blocks of every unit (copied), order[units * subunits]. */
grail_status reducer_set_order(grail_reducer *r, int64_t subunits,
                               const int64_t *order) GRAIL_MUST_CHECK;

/** As grail_reducer_narrow_rows and grail_reducer_merge_columns, unchecked. */
void reducer_narrow_rows(const grail_reducer *r, bool exchangeable, int64_t features_per_unit,
                         int64_t columns, const float *in, float *out);
void reducer_merge_columns(const grail_reducer *r, bool exchangeable, int64_t features_per_unit,
                           int64_t rows, const float *in, float *out);

#endif
