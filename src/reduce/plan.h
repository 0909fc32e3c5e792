/* The plan: for each site its selector and kept width, and how to repair. A JSON document that a
 * run can read and always writes. */
#ifndef GRAIL_REDUCE_PLAN_H
#define GRAIL_REDUCE_PLAN_H

#include "base/options.h"
#include "graph/site.h"
#include "reduce/ridge_kind.h"
#include "reduce/selector.h"

/** The choices of a plan (docs/man/grail-plan.5.scd). */
typedef enum target_kind {
    TARGET_LOCAL, /* the dense weights on the narrowed network's activations */
    TARGET_DENSE, /* the dense network's output */
    TARGET_MIXED  /* between both, by how far they agree (solve/mixed_target.h) */
} target_kind;
typedef enum bias_mode { BIAS_OFF, BIAS_ON, BIAS_AUTO } bias_mode;
typedef enum fit_kind {
    FIT_WEIGHTS,  /* and a bias, as bias_mode says */
    FIT_BIAS_ONLY /* the weights are those of the plain cut */
} fit_kind;
/** How much a row of a regression counts: all alike, or by the target's residual stream. */
typedef enum token_weights { TOKEN_WEIGHTS_NONE, TOKEN_WEIGHTS_STREAM } token_weights;
/** The Gram matrix whose mean diagonal alpha is relative to. */
typedef enum ridge_base {
    RIDGE_OF_KEPT, /* of the kept features */
    RIDGE_OF_ALL   /* of all features before the cut; a folding has but the merged ones */
} ridge_base;
typedef enum conv_fit {
    CONV_FIT_CHANNEL, /* one map of channels, shared by all kernel positions */
    CONV_FIT_KERNEL   /* a map for each kernel position, on unfolded patches */
} conv_fit;
/** Which network the statistics come from: the compressed network up to the site, or the dense one.
 */
typedef enum loop_kind { LOOP_CLOSED, LOOP_OPEN } loop_kind;
/** Which producers' rows score the channels of a residual stream. */
typedef enum stream_score {
    STREAM_SCORE_FIRST,
    STREAM_SCORE_ALL,
    STREAM_SCORE_BRANCH /* those of site_branch_producer */
} stream_score;

/** What errors at a consumer's output are measured by when units are chosen. */
typedef enum metric_kind {
    METRIC_AUTO,  /* of FFNs as auto_is_fisher says, else plain */
    METRIC_PLAIN, /* all outputs count alike */
    METRIC_FISHER /* the Fisher information of the output */
} metric_kind;

/** Which maps besides the cut consumers are fitted. */
typedef enum refit_kind {
    REFIT_NONE,
    REFIT_AUTO, /* all where there is a dense target in a closed loop, else none */
    REFIT_ALL   /* every map that reads what a cut changed */
} refit_kind;

typedef struct compensation {
    bool enabled; /* false: plain pruning or folding */
    target_kind target;
    bias_mode bias;
    fit_kind fit;
    ridge_base ridge_of;
    conv_fit conv_fit;
    ridge_kind ridge;
    refit_kind refit;
    ridge_scale ridge_scale;
    token_weights token_weights;
    grail_number alpha;     /* given or cross-validated */
    bool regional_training; /* without a fit: blocks get the weights that the regional optimisation
                            of their selector has trained */
} compensation;

typedef struct plan_site {
    char *name;
    const selector *selector;
    int64_t units;
    int64_t kept;        /* 0: the whole sublayer goes */
    int64_t *kept_units; /* [kept] ascending: the units that stay; NULL: the selector chooses */
    bool normed;         /* see site */
    bool is_gone;        /* it lies in an expert that goes, or in a sublayer that is dropped, or its
                            channels go by whole groups, so it keeps everything */
} plan_site;

typedef struct plan {
    gqa_mode gqa;
    uint64_t seed;
    loop_kind loop;
    loop_kind select; /* of the statistics that decide; in an open loop the dense network's */
    stream_score stream_score;
    metric_kind metric;
    bool auto_is_fisher; /* of this network; statistics of the dense one may come from a file */
    bool repair;         /* BatchNorm statistics are recomputed on the narrowed network */
    compensation compensation;
    plan_site *sites; /* [count], in the order of the model's sites */
    int count;
    json_t *budget; /* how the document says that its widths were chosen, owned; NULL: nothing */
} plan;

/** Whether sites are decided by statistics of the dense network. */
bool plan_selects_openly(const plan *p);

/** Whether fits use the dense network's output, so that it must run beside the narrowed one. */
bool compensation_uses_dense(const compensation *c);

/** "none", "grail", "full", or "own": that of `rule`, GRAIL_ERROR_ARGUMENT where it has none. */
grail_status compensation_from_name(const char *name, const selector *rule,
                                    compensation *out) GRAIL_MUST_CHECK;
const char *target_name(target_kind target);

/** What the words of plans and options stand for: the enumerations above, in their order, up to
 * NULL. */
extern const char *const gqa_words[],
    *const loop_words[], *const stream_score_words[],
                             *const metric_words[],
                                 *const compensation_words[],
                                     *const target_words[],
                                         *const bias_words[],
                                             *const conv_fit_words[],
                                                 *const ridge_words[],
                                                     *const refit_words[],
                                                         *const ridge_scale_words[],
                                                             *const token_weights_words[];
/** The fields of a plan and of a compensation that its document has, by their keys. */
extern const grail_option plan_fields[], compensation_fields[];

/** A plan that keeps everything, with one entry per site. *out is owned: plan_fini. */
grail_status plan_init(plan *p, const site_list *sites, const selector *rule) GRAIL_MUST_CHECK;
void plan_fini(plan *p); /* works on a zeroed one */

/** Keeps everything of a site that goes with what it lies in. */
void plan_site_leave(plan_site *own);

/**
 * Reads a plan document. A site that the document does not name keeps everything. An unknown site,
 * a wrong unit count, a kept width that is outside 0..units or not a multiple of the site's
 * groups, and kept units that are not as many, do not ascend or are spread unevenly over the groups
 * are errors that name the site. `source` is used in messages. `gqa` of the document must equal
 * `p->gqa` when both are given. The compensation is left to plan_read_compensation.
 */
grail_status plan_read(const char *source, const json_t *document, const site_list *sites,
                       plan *p) GRAIL_MUST_CHECK;

/** What the document says of the compensation; the rest of *c stays. */
grail_status plan_read_compensation(const char *source, const json_t *document,
                                    compensation *c) GRAIL_MUST_CHECK;

/** Only the "gqa" key of a document, for deriving the sites first. */
grail_status plan_read_gqa(const char *source, const json_t *document,
                           gqa_mode *out) GRAIL_MUST_CHECK;

/** Fills an empty document. */
grail_status plan_to_json(const plan *p, const site_list *sites, json_t *document) GRAIL_MUST_CHECK;

#endif
