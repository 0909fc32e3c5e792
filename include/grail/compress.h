#ifndef GRAIL_COMPRESS_H
#define GRAIL_COMPRESS_H

#include <grail/comm.h>
#include <grail/images.h>
#include <grail/machine.h>
#include <grail/model.h>
#include <grail/options.h>
#include <grail/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Narrows a checkpoint block by block (observe, reduce, compensate, advance), and writes the
 * narrow checkpoint, the plan and the report.
 *
 * Call grail_compression_open (checks everything that can be checked), grail_compression_run (does
 * the work in OUTPUT.partial), grail_compression_finish (moves the result to OUTPUT) and
 * grail_compression_close. OUTPUT appears only when it is complete. An interrupted run leaves
 * OUTPUT.partial; a run with `resume` continues it and writes the same bytes as an uninterrupted
 * run, but for the seconds in report.json. Calls in another order are GRAIL_ERROR_ARGUMENT and
 * change nothing: a run is done once, and one that failed or was cancelled has no result to seal,
 * finish or measure.
 */
typedef struct grail_compression grail_compression;

/** Holds what several runs on one checkpoint share: the opened model; with `open_loop` the
 * statistics of the dense network, which are then taken once for all ratios; and what plans
 * (plan.h) have measured, up to 64 MiB. Only one thread may use a session at a time. */
typedef struct grail_session grail_session;
/** *out is owned: close it with grail_session_close, after every run that uses it. */
GRAIL_API grail_status grail_session_open(const char *model, const grail_model_options *options,
                                          grail_session **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_session_close(grail_session *session);         /* NULL is allowed */
GRAIL_API grail_model *grail_session_model(grail_session *session); /* borrowed */
/** What is to be said of the samples of the run, plan or statistics that were opened last: that the
 * model has a chat template and none of them is a conversation. NULL for nothing; borrowed until
 * the next one is opened. */
GRAIL_API const char *grail_session_notice(const grail_session *session);

/** How well a consumer fits. Errors are squared errors divided by the squared target; NaN means not
 * measured. */
typedef struct grail_fit {
    const char *consumer; /* name of its parameter; NULL for a mean over consumers */
    double alpha, lambda, condition;
    double fit_before, fit_after, held_before, held_after;
    double dense_share;   /* of the dense network's output in the target: 0 local, 1 dense */
    const char *fallback; /* "none", "lambda raised", "eigenvalues", "bias only", "kept plain", or
                             "not reached" by any calibration token: then there is no fit */
    int bias;             /* 1: a bias was fitted */
    GRAIL_ROOM(4);
} grail_fit;

/** What happened at one site. Strings and `fits` are borrowed. */
typedef struct grail_site_report {
    const char *name, *kind, *selector;
    int block;
    int64_t units, kept;         /* n, K */
    int64_t width, narrow;       /* features at the consumer before and after */
    int64_t parameters_per_unit; /* that the network loses with each unit */
    int tied; /* 1: the units all scored equal, so their index alone decided which ones stay */
    const int64_t *removed; /* [removed_count] of experts: those that go, by their numbers before */
    int removed_count;
    const int64_t *unreached; /* [unreached_count]: those that no calibration token reached */
    int unreached_count;
    int gone;              /* 1: the site lies in an expert that goes, or its channels go by whole
                              groups, and it is not cut itself */
    grail_fit fit;         /* means over the consumers and the worst fallback */
    const grail_fit *fits; /* [fit_count] of each consumer */
    int fit_count;
    double seconds;       /* for the site in total */
    double solve_seconds; /* the part for choosing the reducer and solving */
    GRAIL_ROOM(8);
} grail_site_report;

/** Called during a run: after every site, and with `site` NULL after every block. Return non-zero
 * to cancel. */
typedef int (*grail_compress_observer)(void *user, const grail_site_report *site, int block,
                                       int blocks, double seconds_left);

/** Works before the first block, in place of its number. */
enum {
    GRAIL_STEP_DRAWING = -1, /* the network draws its own samples */
    GRAIL_STEP_METRIC = -2   /* the metric of errors is measured */
};

/** Called during works before the first block, where there are some, with one of GRAIL_STEP_ for
 * `block`, and `done` the part of that which is done; and while a block is worked on, whenever a
 * batch of samples was carried through a part of it: `done` is the part of the block that all
 * samples have passed, from 0 to 1, and never falls within a block. Return non-zero to cancel the
 * run. */
typedef int (*grail_step_observer)(void *user, int block, int blocks, double done);

/** A training that went on from the closed form: of one block, of neighbouring blocks together, or
 * of the whole network. Losses are means over rows or samples that no step saw (`held`), and over
 * those that steps saw: of a block the squared distance to the dense network's stream behind it,
 * relative to that stream's square; of the network KL(dense || narrow) of the outputs, or for
 * features the relative squared distance; the mean of several outputs, each the mean of its rows.
 * All are NaN where the time did not suffice for a step.
 */
typedef struct grail_healing {
    int block;      /* from 0; -1: the whole network */
    int last_block; /* of those that were trained together */
    int blocks;
    int64_t steps, most_steps; /* taken so far, and at most */
    int64_t best_step;         /* whose weights are kept; 0: those of the closed form */
    double held_before, held_after;
    double seen_before, seen_after; /* NaN until it has ended, and where the time did not suffice */
    double seconds;
    double seconds_left; /* of this training, and of the blocks behind its block at the same pace;
                            not of that of the whole network behind blocks. NaN before a step */
    int ended;           /* 1: it will not go on */
    int region;   /* 1 + i of grail_model_region_at: what ONNX Runtime computes, through which no
                     gradient goes: these blocks were not trained, or the network by those outputs
                     alone that are not behind it; 0: there is none */
    int streamed; /* 1: the device had no room for the training: weights and what Adam keeps lay in
                     the host's memory, and blocks came up one by one */
    GRAIL_ROOM(3);
} grail_healing;

/** Called at the start of each training, after some of its steps, and at its end. Return non-zero
 * to cancel the run. */
typedef int (*grail_heal_observer)(void *user, const grail_healing *now);

/** Removed fraction of the site with this name. It overrides the fraction of the site's kind. */
typedef struct grail_site_sparsity {
    const char *site;
    double sparsity;
    GRAIL_ROOM(4);
} grail_site_sparsity;

/** What is read. */
typedef struct grail_read_options {
    const char *model;                  /* input directory or file */
    const grail_model_options *reading; /* how to read the model, or NULL */
    grail_session *session;             /* used instead of `model`, or NULL */
    grail_text_source text;       /* for calibration; path may be NULL only if nothing needs data */
    const grail_text_part *parts; /* [part_count] texts in place of text.path, or NULL */
    int part_count;
    const grail_image_source *images; /* for calibration, or NULL; split NULL = train */
    int64_t samples; /* windows or images; 0 = 128, or for text as many windows as have 64 tokens
                      * for each feature of the widest matrix, and give an expert 16; all if
                      * there are fewer */
    uint64_t seed;
    int64_t drawn_first; /* windows that the network draws at first, together, whatever number of
                            them is wanted, so that fewer are some of these; 0: those wanted */
    GRAIL_ROOM(7);
} grail_read_options;

/** What is cut, by which rule. */
typedef struct grail_cut_options {
    const char *selector; /* "obs" */
    const char *select;   /* "closed" or "open": by statistics of the network as narrowed so far, or
                             of the dense one, which an open loop always takes; NULL: "closed" */
    const char *statistics;   /* file with statistics of the dense network (gram.h), which are then
                                 not taken in a pass over the samples; NULL: none */
    const char *stream_score; /* "first", "all" or "branch": producers that score a residual stream;
                                 NULL: "first" */
    int64_t align; /* widths become multiples of this; 0 = auto (ffn: 128 down to 16, channels: 32
                      or 16, where that changes little, else 8; whole blocks of quantised types), 1
                      = any width */
    grail_gqa_mode gqa;
    const char *metric; /* "plain" or "fisher": what obs, ziplm and slimgpt measure errors by at the
                           output that reads a site; NULL or "auto": "fisher" for FFNs of language
                           models */
    GRAIL_ROOM(7);
} grail_cut_options;

/** How much is cut. */
typedef struct grail_amount_options {
    double sparsity_ffn;                        /* removed fraction of every ffn site */
    double sparsity_heads;                      /* of every heads site */
    double sparsity_conv;                       /* of every conv site */
    double sparsity_stream;                     /* of every stream site */
    double sparsity_experts;                    /* of every experts site */
    double sparsity_latent;                     /* of every latent site */
    double sparsity_values;                     /* of every values site */
    const grail_site_sparsity *site_sparsities; /* of single sites, or NULL */
    int site_sparsity_count;
    const char *plan;      /* plan document instead of selector and sparsity; or NULL */
    const char *plan_text; /* the same as JSON text; or NULL */
    const char *chosen; /* names of fields that were chosen beside the plan, "cut.selector cut.gqa"
                           for example: one that the plan states as well is an error; NULL: what
                           the plan states goes before the fields */
    double sparsity_groups; /* of every groups site, before that of the channels in them */
    GRAIL_ROOM(7);
} grail_amount_options;

/** How the cuts are repaired in closed form. Where a word is NULL, `compensate` chooses. */
typedef struct grail_fit_options {
    const char *compensate;    /* "none", "own", "grail", "full" */
    const char *target;        /* "local", "dense", "mixed" */
    const char *bias;          /* "off", "on", "auto" */
    const char *conv_fit;      /* "channel", "kernel" */
    const char *ridge;         /* "zero", "prior" */
    const char *ridge_scale;   /* "mean", "diagonal" */
    const char *token_weights; /* "none", "stream" */
    const char *refit;         /* "none", "auto", "all" */
    grail_number alpha;        /* of the ridge */
    int repair;                /* 1: recompute BatchNorm statistics on the narrowed network */
    int open_loop;             /* 1: take all statistics in one pass of the dense network */
    GRAIL_ROOM(8);
} grail_fit_options;

/** What is trained afterwards. */
typedef struct grail_heal_options {
    const char *what;    /* "none", "block", "model", "block,model"; NULL: none */
    int64_t steps;       /* of every training; 0 = 160 */
    int64_t group;       /* neighbouring blocks that are trained together; 0 = 1 */
    double rate;         /* largest step as a share of each matrix's root mean square; 0 = 0.06 for
                            blocks, 0.02 for a network that reads 327,680 tokens of text, more or
                            less by the root of their number, 0.005 for one that reads images */
    double time;         /* in seconds, for all trainings together; 0 = no limit */
    const char *teacher; /* the dense network of a model that was narrowed earlier, which is then
                            healed and not cut; or NULL */
    int64_t batch;       /* windows or images of a step; 0 = 64 images, or windows of 2048 tokens
                            together, but 1 to 8 */
    int64_t own_samples; /* windows or images that the network is healed on, of which those of
                            read.samples need not be a part; 0 = those; all if there are fewer */
    GRAIL_ROOM(6);
} grail_heal_options;

/** With which means it runs, and who is told. */
typedef struct grail_run_options {
    const char *backend;   /* a name of grail_backend_describe */
    const char *precision; /* of products, see grail_compute */
    int64_t memory; /* bytes that kept activations may take; 0 = half of the available memory */
    const char *scratch; /* directory for files that stand in for large blocks of memory, or NULL */
    const grail_comm *comm; /* the ranks that share out the run, or NULL; all have the result,
                               rank 0 alone writes the output */
    grail_compress_observer observer;  /* may be NULL */
    grail_heal_observer heal_observer; /* may be NULL */
    grail_step_observer step_observer; /* may be NULL */
    void *observer_user;               /* of all */
    int profile; /* 1: tells what the time went to (grail_compression_profile) */
    double time; /* in seconds, from when the run is opened until its weights are written, as far as
                    trainings can keep it: that of the network, which comes last, is stopped in time
                    at its best judged weights; 0 = no limit */
    GRAIL_ROOM(6);
} grail_run_options;

/** What is written. */
typedef struct grail_output_options {
    const char *path; /* must not exist; NULL: the result stays in memory */
    const char
        *command; /* what the model card shows as the command of the run, one line; or NULL */
    const char *quantize; /* "none"; the matrices of a language model are rounded, with error
                             feedback on what they read, as soon as they are fitted: "w4a16",
                             "w8a16" writes those of the blocks as compressed-tensors
                             (pack-quantized); "q8_0", "q6_k", "q5_0", "q4_0", "q4_k" writes a GGUF
                             file, with the exceptions of grail_gguf_write. NULL: "none" */
    int keep_non_finite;  /* 1: tensors that hold NaN or infinity are copied where nothing computes
                             with them; 0: they are an error */
    int resume;           /* 1: continue an interrupted run */
    int dry_run; /* 1: open only plans, checks and describes: a calibration set that is named
                    is looked at, with `resume` the interrupted run, too. Do not call run or
                    finish */
    GRAIL_ROOM(8);
} grail_output_options;

/** Options; call grail_compress_options_init first. Strings are borrowed until open returns. */
typedef struct grail_compress_options {
    grail_read_options read;
    grail_cut_options cut;
    grail_amount_options amount;
    grail_fit_options fit;
    grail_heal_options heal;
    grail_run_options run;
    grail_output_options output;
    GRAIL_ROOM(8);
} grail_compress_options;

GRAIL_API void grail_compress_options_init(grail_compress_options *options);

/** i-th description of a field, NULL beyond the last. */
GRAIL_API const grail_option *grail_compress_option_at(int i);

/** The field of `options` that holds the removed fraction for the kind of site with this name; NULL
 * when there is no such kind. */
GRAIL_API double *grail_compress_sparsity(grail_compress_options *options, const char *kind);

/**
 * Estimates, from above, how many bytes one run on `model` takes with these options, if it writes
 * no output and its result is then measured. This tells how many runs fit into memory at the same
 * time. The estimate uses the selector, the fractions of kinds, the repair, what
 * is healed and the samples (0: the usual number); it ignores `model` and `session` of the options.
 *
 *     in f32, 4 copies of the parameters (6 to fold), the calibration images and the sample
 *     streams; a batch of the evaluation, for text 1 GiB and some positions; and in f64, for
 *     the largest consumer of w features and o outputs, 2 (w^2 + w o) (statistics to fit and
 *     held out) and 2 w^2 (solving)
 *
 * An open loop, an open selection, and a selector that scores a residual stream by all its
 * consumers, add 2 w^2 for every consumer; 3 w^2 if that selector needs entire Gram matrices.
 * Healing adds, in f32, 5 copies of the parameters that are trained at the same time (those of the
 * network, or of its largest block), a second sample stream, and what the nodes of one block make
 * of 32 images.
 *
 * GRAIL_ERROR_UNSUPPORTED for a plan, and for fractions of single sites.
 */
GRAIL_API grail_status grail_compress_estimate(const grail_model *model,
                                               const grail_compress_options *options,
                                               int64_t *out) GRAIL_MUST_CHECK;

/** *out is owned: grail_compression_close. */
GRAIL_API grail_status grail_compression_open(const grail_compress_options *options,
                                              grail_compression **out) GRAIL_MUST_CHECK;
GRAIL_API grail_status grail_compression_run(grail_compression *compression) GRAIL_MUST_CHECK;
/** After the run: writes all of the result but its model card, so that it can be opened and
 * measured at *directory before it has its name. That is inside OUTPUT.partial; OUTPUT itself in a
 * continued run whose result had its name already. What fails or is interrupted from here on is
 * continued without computing the result again. *directory is borrowed until close. */
GRAIL_API grail_status grail_compression_seal(grail_compression *compression,
                                              const char **directory) GRAIL_MUST_CHECK;
/** Adds a section to the model card that grail_compression_finish writes, before that on sizes:
 * `text` is Markdown. A result that had its name already keeps its card. */
GRAIL_API grail_status grail_compression_card_add(grail_compression *compression, const char *title,
                                                  const char *text) GRAIL_MUST_CHECK;
/** Seals the result, writes its model card, syncs, and gives the result its name, OUTPUT. */
GRAIL_API grail_status grail_compression_finish(grail_compression *compression) GRAIL_MUST_CHECK;
GRAIL_API void grail_compression_close(grail_compression *compression); /* NULL is allowed */

/** The sites in order: with their planned widths before the run, and their results after it. */
GRAIL_API int grail_compression_site_count(const grail_compression *compression);
/** Zeroed where there is no i-th. */
GRAIL_API grail_site_report grail_compression_site(const grail_compression *compression, int i);

/** Totals of the dense and of the narrowed network; known after open. */
typedef struct grail_compression_totals {
    grail_model_facts dense; /* of the teacher, where there is one */
    int64_t parameters, bytes, macs_per_token, kv_bytes_per_token;
    int64_t samples, context, calibration_tokens;
    int documents;          /* 1: each sample is a document of its own, of up to `context` tokens */
    int64_t full_documents; /* that have as many, so that their rest was cut off */
    int blocks_done; /* of the interrupted run that goes on; of a dry run -1 where there is none */
    const char *precision; /* of products: "f32", "bf16", "f16", "bf16-gram", "bf16x3" or "f64" */
    const char *shortfall; /* of a quantised GGUF file, as grail_gguf_facts has it; "": none */
    double calibrate_seconds;  /* running the network and taking statistics */
    double compensate_seconds; /* choosing, solving, merging, and the training of wanda++ */
    int64_t samples_at_once;   /* 0: batches, and steps of healing, were run as they are; else at
                                  most so many of their samples, since more had filled the
                                  device's memory */
    int64_t drawn_samples;     /* windows of these that the network drew itself */
    GRAIL_ROOM(6);
} grail_compression_totals;
GRAIL_API grail_compression_totals
grail_compression_totals_get(const grail_compression *compression);

/** What a run is expected to take. */
typedef struct grail_forecast {
    double seconds;      /* without what an --eval takes */
    double heal_seconds; /* of these: all trainings, if none ends early */
    int64_t bytes;       /* of memory, besides the mapped files */
    int64_t samples; /* windows or images that it was counted for; 0: none are needed, and seconds
                        is 0 */
    double draw_seconds; /* of `seconds`: the network draws samples itself */
    GRAIL_ROOM(3);
} grail_forecast;

/** Seconds that a unit of each kind of work takes. */
typedef struct grail_rates {
    double products;    /* an operation of the network's products; two are a multiplication that is
                           added to a sum */
    double attention;   /* one of a query with a key, or of a share with a value */
    double elementwise; /* a value that another node makes */
    double statistics;  /* an operation of the sums that fits and selectors see */
    double selection;   /* one of the selector's matrices */
    double fits;        /* one of the fits' solves */
    double weights;     /* a weight that is loaded */
    double healing;     /* of trainings: how many times longer their operations take */
    double draw_place; /* the tokens at one place of windows that the network draws together, and */
    double draw_token; /* more for each of them; both 0: guessed by those above */
    int64_t draw_windows; /* that it draws together */
    GRAIL_ROOM(5);
} grail_rates;

/** What the products of a machine say (grail_machine_examine with `seconds` above 0), for a run in
 * `precision`: a run reaches 0.8 of their rate, and the other kinds are guessed, so that what small
 * networks take can be several times as long. */
GRAIL_API grail_rates grail_rates_of_machine(const grail_machine *machine, const char *precision);

/** Measures them on a part of the run that `options` describe: a few of its samples, through as
 * many of its blocks as a second needs, in memory. Where they go through all, a few steps of
 * healing are measured, too. *out holds the rates of the machine for what the part does not show.
 * Without samples it is all of them. */
GRAIL_API grail_status grail_rates_measure(const grail_compress_options *options,
                                           grail_rates *out) GRAIL_MUST_CHECK;

/**
 * Forecasts a run that is open, such as a dry run, for the samples that `options` ask for (the
 * usual number where they do not): what its kinds of work take at these rates. With measured rates
 * it is good to a factor of 1.5, with those of a machine to two for large networks; data that holds
 * fewer samples takes less.
 */
GRAIL_API grail_status grail_compression_forecast_at(const grail_compression *compression,
                                                     const grail_compress_options *options,
                                                     const grail_rates *rates,
                                                     grail_forecast *out) GRAIL_MUST_CHECK;
/** The same at the rates of a machine. */
GRAIL_API grail_status grail_compression_forecast(const grail_compression *compression,
                                                  const grail_compress_options *options,
                                                  const grail_machine *machine,
                                                  grail_forecast *out) GRAIL_MUST_CHECK;

/** What a part of the time of a run went to. */
typedef struct grail_profile_part {
    const char *name;  /* "products" (Linears and convolutions), "attention", "elementwise" (other
                          nodes), "statistics", "selection", "fits", "weights" (loading them),
                          "waiting" (for other ranks, and for a device), "files" (reading samples,
                          and writing), or "rest" */
    double seconds;    /* by the clock: those of all parts are the time since the run was opened */
    double operations; /* of its products of matrices, counted from their shapes: two for each
                          multiplication that is added to a sum */
    GRAIL_ROOM(4);
} grail_profile_part;

/** The i-th part of a run that is opened with `profile`, up to now; returns 0 when i is beyond the
 * last, and where no profile is made. A run that is continued counts from when it was opened again.
 * On a device that computes while the host goes on, kinds have what it takes to start their
 * work, and "waiting" the rest. */
GRAIL_API int grail_compression_profile(const grail_compression *compression, int i,
                                        grail_profile_part *out);

/** The i-th training of the run, in order; returns 0 when i is beyond the last. */
GRAIL_API int grail_compression_healing(const grail_compression *compression, int i,
                                        grail_healing *out);

/** The i-th loader, whether it loads the result, and why or why not. Returns 0 when i is beyond the
 * last. Strings are borrowed. */
GRAIL_API int grail_compression_loader(const grail_compression *compression, int i,
                                       const char **loader, int *loads, const char **reason);

/** i-th selector name, NULL beyond the last. */
GRAIL_API const char *grail_selector_at(int i);

/** What a selector does. */
typedef struct grail_selector_facts {
    int index;            /* of grail_selector_at */
    const char *summary;  /* what it does, such as "keeps units at random" */
    int folds;            /* 1: units are merged into clusters; 0: some are kept as they are */
    int draws;            /* 1: the choice depends on the seed */
    int needs_statistics; /* 1: it needs calibration data even where nothing is fitted */
    GRAIL_ROOM(4);
} grail_selector_facts;

/** Describes the selector with this name. An unknown name is GRAIL_ERROR_ARGUMENT; the message
 * lists the known names. */
GRAIL_API grail_status grail_selector_describe(const char *name,
                                               grail_selector_facts *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
