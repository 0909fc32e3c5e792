#ifndef GRAIL_LATENCY_H
#define GRAIL_LATENCY_H

#include <grail/machine.h>
#include <grail/model.h>
#include <grail/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Called behind each turn of all networks; the first two, which do not count, are among the turns.
 * Return non-zero to cancel. */
typedef int (*grail_latency_observer)(void *user, int64_t done, int64_t turns);

/** Zeroed: what suits the networks, one sample at a time. */
typedef struct grail_latency_options {
    const char *engine;    /* "onnxruntime", for networks that read images; "grail": its own forward
                              pass; NULL: onnxruntime where that can be had and be used */
    grail_compute compute; /* of grail's own forward pass; with onnxruntime zeroed or "auto" */
    int64_t batch;         /* images, or windows of tokens, at once; 0 = 1 */
    int64_t side;          /* of the images in pixels; 0 = that of each network, or text */
    int64_t length;        /* tokens per window; 0 = 128, or images */
    int64_t runs;          /* of each network that are measured; 0 = 20 */
    grail_latency_observer observer; /* may be NULL */
    void *observer_user;
} grail_latency_options;

/** i-th description of the fields but `compute` and the observer, NULL beyond the last. */
GRAIL_API const grail_option *grail_latency_option_at(int i);

enum { GRAIL_FALLBACK_SIZE = 640 };

/** Seconds of one run. Half of the runs lie between low and high. */
typedef struct grail_latency {
    double median, low, high;
    /* The first network's time by this one's: the median over the turns, and its 95 % interval from
     * order statistics, for independent turns; NAN for fewer than 6 runs. */
    double ratio, ratio_low, ratio_high;
    int64_t runs, batch;
    int64_t side;                       /* 0 for a network that reads text */
    int64_t length;                     /* 0 for a network that reads images */
    char engine[32];                    /* with its version: "onnxruntime 1.21.0", "grail 0.1.0" */
    char fallback[GRAIL_FALLBACK_SIZE]; /* why no engine was named and ONNX Runtime could not be
                                           had for a network that reads images; "" otherwise */
} grail_latency;

/**
 * Measures how long networks take for one batch of random input, with the calling thread's number
 * of threads: out[count]. Their runs take turns, so that other work of the machine slows all of
 * them, and the first two turns do not count. Networks that read text run as a whole
 * window up to the logits of its last token, their weights being read from memory in their stored
 * type. ONNX Runtime is a shared library that is loaded when it is needed: that which the
 * environment variable GRAIL_ONNXRUNTIME names, or libonnxruntime.so.1 where the system finds it,
 * or that of the package onnxruntime, for which the python3 on PATH is asked (in isolation: its
 * option -I, and the directory /).
 * Where it was asked for and is not there, GRAIL_ERROR_UNSUPPORTED with the remedy.
 */
GRAIL_API grail_status grail_latency_measure(const grail_model *const *models, int count,
                                             const grail_latency_options *options,
                                             grail_latency *out) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
