#ifndef GRAIL_EVAL_H
#define GRAIL_EVAL_H

#include <grail/compress.h>
#include <grail/images.h>
#include <grail/machine.h>
#include <grail/model.h>
#include <grail/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A perplexity and everything needed to compare it with another. */
typedef struct grail_perplexity {
    double perplexity; /* exp(mean_nll) */
    double mean_nll;   /* natural logarithm, over scored tokens */
    double error;      /* standard error of the perplexity */
    int64_t windows, context, stride;
    int64_t scored_tokens; /* windows * (context - 1): the first token of a window is not scored */
    int64_t
        stream_tokens; /* tokens of the entire text; -1 if only its first windows were encoded */
    char text_sha256[65];
    char tokenizer_sha256[65]; /* "" for token ids */
    char dtype[16];            /* weights as stored */
    char precision[16]; /* "f32", "bf16", "f16", "bf16-gram", "bf16x3" or "f64", of the products */
    char protocol[16];
    /* How many of the `calibration_runs` runs of 24 calibration tokens that calibration.hashes
     * beside the model records also occur in this text. Both are 0 without that file. */
    int64_t overlap_runs, calibration_runs;
    int is_calibration; /* 1: the text is the one that report.json records */
    GRAIL_ROOM(8);
} grail_perplexity;

/** How far a measurement has come; of several ranks, each is told what it measured itself. */
typedef struct grail_eval_progress {
    int64_t done, total;   /* windows or images */
    double passed;         /* as many as `done`, and of windows that are on their way through the
                              network the part that they have passed: how much of `total` is done */
    double so_far;         /* mean NLL of the windows, or top-1 accuracy of the images, so far; NaN
                              before the first ones, and for comparisons */
    const double *results; /* [count] of the windows since the last call: the mean NLL of each; of
                              the images: 1 where the label has the largest output, else 0; NULL for
                              comparisons. Borrowed */
    int64_t count;         /* 0 while windows are on their way through the network */
    GRAIL_ROOM(4);
} grail_eval_progress;

/** Called again and again during a measurement. Return non-zero to cancel. */
typedef int (*grail_eval_observer)(void *user, const grail_eval_progress *progress);

/**
 * Perplexity over windows of `source->context` tokens without overlap, each run alone from position
 * 0: exp of the mean negative log-likelihood of tokens 1 .. context-1 of every window, as GPTQ,
 * SparseGPT and Wanda measure it. `windows` > 0 uses only that many windows from the start; here
 * and below a negative number of windows or images, or one larger than the data (but in
 * grail_verify, which takes at most that many), is GRAIL_ERROR_ARGUMENT about "windows", "count" or
 * "images", as the parameter is called.
 */
GRAIL_API grail_status grail_perplexity_measure(const grail_model *model,
                                                const grail_text_source *source, int64_t windows,
                                                const grail_compute *compute,
                                                grail_eval_observer observer, void *user,
                                                grail_perplexity *out) GRAIL_MUST_CHECK;

/** What that would measure, and on what: reads and checks the text, runs nothing, and fills all but
 * the perplexity, its NLL and error, and the precision. */
GRAIL_API grail_status grail_perplexity_describe(const grail_model *model,
                                                 const grail_text_source *source, int64_t windows,
                                                 grail_perplexity *out) GRAIL_MUST_CHECK;

/** An accuracy and everything needed to compare it with another. All shares are in 0 .. 1. */
typedef struct grail_accuracy {
    double top1;             /* share of images whose label has the largest output */
    double top5;             /* share of images whose label is among the five largest outputs;
                                NaN for a network of five classes or fewer */
    double interval;         /* half the width of the 95 % interval of top1 (Wilson's) */
    double low, high;        /* that interval, which is not centred on top1 */
    double mean_nll;         /* of the labels, natural logarithm */
    int64_t images, classes; /* images measured; classes of the network */
    int64_t data_classes;    /* classes of the data: its folders, or those of the network where the
                                folders have their names, CIFAR-10's, or those of the CSV file */
    int64_t side;            /* of the network's input, its height where it is not square */
    char preset[24];
    char data_sha256[65];
    char class_notice[256]; /* why folders may stand for other classes than is meant, or "" */
    char dtype[16];         /* weights as stored */
    char precision[16]; /* "f32", "bf16", "f16", "bf16-gram", "bf16x3" or "f64", of the products */
    double seconds, images_per_second;
    /* How many images calibration.hashes beside the model records, how many of these are among the
     * measured ones, and how many of the measured ones (with copies) are the same, byte for byte,
     * as one of them. All are 0 without that file. */
    int64_t calibration_images, calibration_found, overlap_images;
    int is_calibration; /* 1: the images are the set that report.json records, of which some were
                           calibrated on */
    int64_t width;      /* of the network's input */
    GRAIL_ROOM(7);
} grail_accuracy;

/**
 * Measures top-1 and top-5 accuracy on labelled images, which were opened for this model or for one
 * that reads images in the same way. `count` > 0 draws that many images evenly from all; the choice
 * is always the same. The observer may be NULL.
 */
GRAIL_API grail_status grail_accuracy_measure(const grail_model *model, const grail_images *images,
                                              int64_t count, const grail_compute *compute,
                                              grail_eval_observer observer, void *user,
                                              grail_accuracy *out) GRAIL_MUST_CHECK;

/** What that would measure: checks that there are so many images, with labels that the network has
 * outputs for, runs nothing, and fills `images`, `classes`, `data_classes`, `side`, `preset`,
 * `data_sha256` and `dtype`; the interval is 0 to 1. */
GRAIL_API grail_status grail_accuracy_describe(const grail_model *model, const grail_images *images,
                                               int64_t count, grail_accuracy *out) GRAIL_MUST_CHECK;

/** Measures the narrowed network that a run without output holds in memory after
 * grail_compression_run, on the backend of the run. A run with an output is GRAIL_ERROR_ARGUMENT.
 */
GRAIL_API grail_status grail_compression_accuracy(grail_compression *compression,
                                                  const grail_images *images, int64_t count,
                                                  grail_eval_observer observer, void *user,
                                                  grail_accuracy *out) GRAIL_MUST_CHECK;

/** Measures it in the same way on text. */
GRAIL_API grail_status grail_compression_perplexity(grail_compression *compression,
                                                    const grail_text_source *source,
                                                    int64_t windows, grail_eval_observer observer,
                                                    void *user,
                                                    grail_perplexity *out) GRAIL_MUST_CHECK;

/**
 * The same for DENSE without the units that NARROW lost and without any repair: what the cut alone
 * does. NARROW was written by grail from DENSE; its report.json names the units. Their columns in
 * all consumers are set to zero, which is the network that is left. GRAIL_ERROR_UNSUPPORTED where
 * NARROW has no report, or where units were folded into others.
 */
GRAIL_API grail_status grail_perplexity_of_cut(const grail_model *dense, const grail_model *narrow,
                                               const grail_text_source *source, int64_t windows,
                                               const grail_compute *compute,
                                               grail_eval_observer observer, void *user,
                                               grail_perplexity *out) GRAIL_MUST_CHECK;
GRAIL_API grail_status grail_accuracy_of_cut(const grail_model *dense, const grail_model *narrow,
                                             const grail_images *images, int64_t count,
                                             const grail_compute *compute,
                                             grail_eval_observer observer, void *user,
                                             grail_accuracy *out) GRAIL_MUST_CHECK;

/** How one output of two networks differs on the same images. */
typedef struct grail_output_comparison {
    const char *name; /* of DENSE, from which it is borrowed; NULL: it has none */
    /* |other - dense| / |dense| over all its values. Where that of DENSE is 0 on all images
     * (`is_zero`), it is 0 where the other one is, too, and else infinite. */
    double relative_error;
    double max_abs; /* largest difference of a value */
    double mean_kl; /* KL(dense || other) per image, natural logarithm; NaN where it is no logits */
    int is_zero;
    GRAIL_ROOM(4);
} grail_output_comparison;

/** How two networks' logits, features or hidden states differ on the same tokens or images. Where
 * there are several outputs, max_abs and relative_error are the largest, and the others are of the
 * first.
 */
typedef struct grail_comparison {
    double max_abs; /* largest difference of a logit, or of a feature */
    /* KL(dense || other) per token or image, natural logarithm. NaN, as is top1_agreement, for
     * networks that output features or hidden states. */
    double mean_kl, max_kl;
    double
        top1_agreement; /* fraction of tokens or images with the same most likely token or class */
    int64_t compared;   /* tokens or images */
    double relative_error; /* |other - dense| / |dense| over all logits or features */
    /* Between the vectors that both encoders give for each window, which is a document unless the
     * text is token ids; NaN for other networks. */
    double mean_cosine, least_cosine;
    double
        cosine_interval; /* half the width of the 95 % interval of the mean; NaN for one window */
    double same_nearest; /* share of windows whose nearest other one, by the cosine, has the same
                            tokens in both networks; NaN without a text or three windows */
    double nearest_interval; /* half the width of its 95 % interval (Wilson's) */
    char pooling[8]; /* "mean" of the hidden states or "cls", the first one, as the pooling of
                        sentence-transformers beside DENSE says; else "mean" */
    char pooling_notice[256]; /* why sentence-transformers may give other vectors, or "" */
    int64_t pooled;           /* windows; 0 for other networks */
    int documents;            /* 1: each is a document of its own, of up to `context` tokens */
    int64_t full_documents;   /* that have as many, so that their rest was cut off */
    int64_t context;          /* tokens of a window; 0 for images */
    /* As in grail_perplexity, of what NARROW was calibrated on, and of encoders alone; of images
     * how many of those that are compared were calibrated on, and how many NARROW records. */
    int64_t overlap_runs, calibration_runs;
    int is_calibration;
    int identity_checked;    /* 1: the zero-column identity applies and was measured */
    double identity_max_abs; /* narrow against dense with the removed columns set to zero */
    int norm_is_cut; /* 1: units went from a width that a norm runs over, so what is left of it has
                        other values, and the identity does not hold: it is not measured */
    const char *worst; /* the output of the largest relative_error, borrowed from DENSE; NULL: it
                          has no name */
    GRAIL_ROOM(7);
} grail_comparison;

/**
 * Compares NARROW with DENSE on text, or with source->path NULL on 4 x 64 random ids. `windows` > 0
 * uses at most that many windows from the start. When NARROW was pruned by grail without
 * compensation (report.json), its logits must also equal those of DENSE with the removed consumer
 * columns set to zero: identity_max_abs is then the difference. The observer, which may be NULL, is
 * told of the windows once more for that.
 */
GRAIL_API grail_status grail_verify(const grail_model *dense, const grail_model *narrow,
                                    const grail_text_source *source, int64_t windows,
                                    const grail_compute *compute, grail_eval_observer observer,
                                    void *user, grail_comparison *out) GRAIL_MUST_CHECK;

/** The same for DENSE and itself without the units that NARROW lost, without any repair, as
 * grail_perplexity_of_cut has it. The identity is not checked. */
GRAIL_API grail_status grail_verify_of_cut(const grail_model *dense, const grail_model *narrow,
                                           const grail_text_source *source, int64_t windows,
                                           const grail_compute *compute,
                                           grail_eval_observer observer, void *user,
                                           grail_comparison *out) GRAIL_MUST_CHECK;

/** What would be compared of an encoder: reads and checks the text, runs nothing, and fills
 * `pooled`, `documents`, `full_documents`, `context`, `pooling` and `pooling_notice`. More
 * `windows` than the text holds are GRAIL_ERROR_ARGUMENT. */
GRAIL_API grail_status grail_verify_describe(const grail_model *model,
                                             const grail_text_source *source, int64_t windows,
                                             grail_comparison *out) GRAIL_MUST_CHECK;

/**
 * Compares networks that read images, or with source->path NULL on 8 images of random pixels.
 * `images` > 0 draws at most that many images evenly from all; the choice is always the same.
 * Labels are not needed. Fields that the source leaves open are taken from DENSE. The identity is
 * checked only where BatchNorm statistics were not recomputed (REPAIR).
 */
GRAIL_API grail_status grail_verify_images(const grail_model *dense, const grail_model *narrow,
                                           const grail_image_source *source, int64_t images,
                                           const grail_compute *compute,
                                           grail_eval_observer observer, void *user,
                                           grail_comparison *out) GRAIL_MUST_CHECK;

/** The same, and each output by itself: outputs[those of DENSE (grail_model_facts.outputs)], or
 * NULL. With `of_cut`, DENSE is compared with itself without the units that NARROW lost, as
 * grail_accuracy_of_cut has it, and the identity is not checked. */
GRAIL_API grail_status grail_verify_outputs(const grail_model *dense, const grail_model *narrow,
                                            int of_cut, const grail_image_source *source,
                                            int64_t images, const grail_compute *compute,
                                            grail_eval_observer observer, void *user,
                                            grail_output_comparison *outputs,
                                            grail_comparison *out) GRAIL_MUST_CHECK;

/** Writes the logits, or an encoder's hidden states, of all windows of `source` as tensor "logits"
 * F32 [windows, context, outputs] of a safetensors file: for comparison with another
 * implementation. */
GRAIL_API grail_status grail_logits_write(const grail_model *model, const grail_text_source *source,
                                          const grail_compute *compute,
                                          const char *path) GRAIL_MUST_CHECK;

/** Does the same for images: reads the tensor "pixels" F32 [images, height, width, channels],
 * normalised as the network expects, from the safetensors file `pixels`, and writes "logits" F32
 * [images, outputs], of a map [images, height, width, outputs]; or of several outputs each by its
 * name. */
GRAIL_API grail_status grail_pixel_logits_write(const grail_model *model, const char *pixels,
                                                const grail_compute *compute,
                                                const char *path) GRAIL_MUST_CHECK;

/** A question whose answer can be checked, and what a network says. */
typedef struct grail_answer {
    const char *question, *expected; /* static */
    int is_right;                    /* 1: the word that is expected stands in the answer */
    char text[256];                  /* UTF-8, cut between characters */
    GRAIL_ROOM(4);
} grail_answer;

enum { GRAIL_ANSWERS = 3 };

typedef struct grail_answers {
    int count;        /* GRAIL_ANSWERS; 0 for a model that has no chat template, or as `notice` says
                       */
    char notice[320]; /* why nothing was asked although there is a template; "" */
    grail_answer items[GRAIL_ANSWERS];
    GRAIL_ROOM(4);
} grail_answers;

/**
 * Asks a language model that has a chat template the same three questions each time: the answers
 * are the likeliest tokens, 24 at most. `source` has the renderer of the template; NULL, or one
 * without a renderer, stands for the kinds of templates that are known. The observer may be NULL,
 * and counts questions.
 */
GRAIL_API grail_status grail_answers_measure(const grail_model *model,
                                             const grail_text_source *source,
                                             const grail_compute *compute,
                                             grail_eval_observer observer, void *user,
                                             grail_answers *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
