#ifndef GRAIL_COMPRESS_H
#define GRAIL_COMPRESS_H

#include <grail/images.h>
#include <grail/model.h>
#include <grail/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Narrowing a checkpoint: observe, reduce, compensate, advance, block by block; write the narrow
 * checkpoint, the plan and the report.
 *
 * Life: grail_compression_open (checks everything that can be checked), grail_compression_run (the
 * work; the result lies in OUTPUT.partial), grail_compression_finish (moves it to OUTPUT), close.
 * OUTPUT appears only complete. An interrupted run leaves OUTPUT.partial, which `resume` continues
 * to the same bytes.
 */
typedef struct grail_compression grail_compression;

/** What runs on one checkpoint share: the opened model, and with `open_loop` the statistics of the
 * dense network, which are then taken once for all ratios. One thread at a time may use it. */
typedef struct grail_session grail_session;
/** *out is owned: grail_session_close, after every run that uses it. */
GRAIL_API grail_status grail_session_open(const char *model, const grail_model_options *options,
                                          grail_session **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_session_close(grail_session *session);         /* NULL is allowed */
GRAIL_API grail_model *grail_session_model(grail_session *session); /* borrowed */

/** The fit of a consumer. Errors are squared, relative to the target's square; NaN = not measured.
 */
typedef struct grail_fit {
    const char *consumer; /* its parameter; NULL of a mean */
    double alpha, lambda, condition;
    double fit_before, fit_after, held_before, held_after;
    const char *fallback; /* "none", "lambda raised", "eigenvalues", "kept plain" */
    int bias;             /* 1: a bias was fitted */
} grail_fit;

/** What happened at one site. Strings and `fits` are borrowed. */
typedef struct grail_site_report {
    const char *name, *kind, *selector;
    int block;
    int64_t units, kept;   /* n, K */
    int64_t width, narrow; /* features at the consumer before and after */
    grail_fit fit;         /* means over the consumers and the worst fallback */
    const grail_fit *fits; /* [fit_count] of each consumer */
    int fit_count;
    double seconds;       /* all of the site */
    double solve_seconds; /* of which choosing the reducer and solving */
} grail_site_report;

/** Told while a run goes on. Return non-zero to cancel. `site` is NULL when a block is finished. */
typedef int (*grail_compress_observer)(void *user, const grail_site_report *site, int block,
                                       int blocks, double seconds_left);

/** Removed fraction of one site, by name; stronger than that of its kind. */
typedef struct grail_site_sparsity {
    const char *site;
    double sparsity;
} grail_site_sparsity;

/** Options; call grail_compress_options_init first. Strings are borrowed until open returns. */
typedef struct grail_compress_options {
    const char *model;                  /* input directory or file */
    const grail_model_options *reading; /* of the model, or NULL */
    grail_session *session;             /* used instead of `model`, or NULL */
    const char *output;                 /* must not exist; NULL: the result stays in memory */
    grail_text_source calibration;      /* path NULL: only where nothing needs data */
    const grail_image_source *images;   /* calibration of networks that read images, or NULL; its
                                           split NULL = train */
    int64_t samples;                    /* windows; 0 = 128, or all when the text has fewer */
    uint64_t seed;
    const char *selector;                       /* "wanda" */
    double sparsity_ffn;                        /* removed fraction of every ffn site */
    double sparsity_heads;                      /* of every heads site */
    double sparsity_conv;                       /* of every conv site */
    double sparsity_stream;                     /* of every stream site */
    const grail_site_sparsity *site_sparsities; /* of single sites, or NULL */
    int site_sparsity_count;
    int64_t align; /* of widths; 0 = auto (ffn 256 falling to 32), 1 = none */
    grail_gqa_mode gqa;
    const char *plan;         /* plan document instead of selector and sparsity; or NULL */
    const char *compensate;   /* "none", "grail", "full" */
    const char *target;       /* "local", "dense"; NULL = as `compensate` says */
    const char *bias;         /* "off", "on", "auto"; NULL likewise */
    const char *conv_fit;     /* "channel", "kernel"; NULL likewise */
    const char *ridge;        /* "zero", "prior"; NULL likewise */
    double alpha;             /* > 0; NaN = as `compensate` says; infinity = cross-validation */
    int repair;               /* 1: BatchNorm statistics are taken anew of the narrowed network */
    int open_loop;            /* 1: all statistics from one pass of the dense network */
    const char *stream_score; /* "first", "all": producers that score a residual stream */
    const char *backend;      /* "cpu" or "ref" */
    int64_t memory;           /* bytes that kept activations may take; 0 = half of what is free */
    int resume;
    int dry_run; /* open plans and describes only; run and finish must not be called */
    grail_compress_observer observer; /* may be NULL */
    void *observer_user;
} grail_compress_options;

GRAIL_API void grail_compress_options_init(grail_compress_options *options);

/** Where the options have the removed fraction of a kind of sites, by its name; NULL when there is no
 * such kind. */
GRAIL_API double *grail_compress_sparsity(grail_compress_options *options, const char *kind);

/**
 * Bytes that a run on `model` with these options, without output, and measuring the accuracy of what
 * it gives are estimated to take, from above; for deciding how many runs fit beside each other. Of
 * the options count the selector, the ratios of kinds, the repair and the samples (0: 128 are
 * assumed); `model` and `session` in them do not.
 *
 *     4 copies of the parameters (6 to fold), the calibration images and the streams between nodes
 *     in f32; a batch of the evaluation; and for statistics of w features and o outputs in f64
 *     2 (w^2 + w o) (fit and held out) + 2 w^2 (solving) at the largest consumer, in an open loop
 *     2 w^2 of all besides.
 *
 * GRAIL_ERROR_UNSUPPORTED for a network that reads text, for a plan, and for ratios of single sites.
 */
GRAIL_API grail_status grail_compress_estimate(const grail_model *model,
                                               const grail_compress_options *options,
                                               int64_t *out) GRAIL_MUST_CHECK;

/** *out is owned: grail_compression_close. */
GRAIL_API grail_status grail_compression_open(const grail_compress_options *options,
                                              grail_compression **out) GRAIL_MUST_CHECK;
GRAIL_API grail_status grail_compression_run(grail_compression *compression) GRAIL_MUST_CHECK;
/** Writes report.json, syncs, and renames OUTPUT.partial to OUTPUT. */
GRAIL_API grail_status grail_compression_finish(grail_compression *compression) GRAIL_MUST_CHECK;
GRAIL_API void grail_compression_close(grail_compression *compression); /* NULL is allowed */

/** Sites in order, with their planned widths before the run and results after it. */
GRAIL_API int grail_compression_site_count(const grail_compression *compression);
GRAIL_API grail_site_report grail_compression_site(const grail_compression *compression, int i);

/** Totals before and after; known after open. */
typedef struct grail_compression_totals {
    grail_model_facts dense;
    int64_t parameters, bytes, macs_per_token, kv_bytes_per_token;
    int64_t samples, context, calibration_tokens;
    double calibrate_seconds;  /* running the network and taking statistics */
    double compensate_seconds; /* choosing, solving, merging */
} grail_compression_totals;
GRAIL_API grail_compression_totals
grail_compression_totals_get(const grail_compression *compression);

/** i-th verdict on who loads the result; 0 when i is beyond the last. Strings are borrowed. */
GRAIL_API int grail_compression_loader(const grail_compression *compression, int i,
                                       const char **loader, int *loads, const char **reason);

/** i-th selector name, NULL beyond the last. */
GRAIL_API const char *grail_selector_at(int i);

/** What a selector does. */
typedef struct grail_selector_facts {
    int index;            /* of grail_selector_at */
    int folds;            /* 1: units are merged into clusters; 0: some are kept as they are */
    int draws;            /* 1: the choice depends on the seed */
    int needs_statistics; /* 1: calibration data is needed even where nothing is fitted */
} grail_selector_facts;

/** By name; an unknown one is GRAIL_ERROR_ARGUMENT, with the known ones in the message. */
GRAIL_API grail_status grail_selector_describe(const char *name,
                                               grail_selector_facts *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
