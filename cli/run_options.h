/* Options that say how networks are narrowed: shared by the commands that do it or plan it. */
#ifndef GRAIL_CLI_RUN_OPTIONS_H
#define GRAIL_CLI_RUN_OPTIONS_H

#include "input_options.h"

#include <grail/compress.h>

typedef struct run_options {
    grail_compress_options compress; /* what the options ask for, after run_options_read */
    image_options images;
    option_list settings;
    const char *calib, *protocol, *sites, *align, *gqa, *alpha, *loop;
    int64_t seed, threads;
    bool window_bos, repair;
} run_options;

void run_options_init(run_options *r);

/* Rows of a command's table that fill the run_options `r`, a static variable. */

/** Which samples are read, and how. */
#define CALIBRATION_OPTIONS(r)                                                                     \
    {"calib",                                                                                      \
     OPTION_TEXT,                                                                                  \
     &(r).calib,                                                                                   \
     "PATH",                                                                                       \
     NULL,                                                                                         \
     "calibration set. Text: .txt, .jsonl, .jsonl.gz, or token ids as .npy. Images: CIFAR-10 "     \
     "batches, or a folder of JPEG and PNG files"},                                                \
        {"set",                                                                                    \
         OPTION_LIST,                                                                              \
         &(r).settings,                                                                            \
         "KEY=VALUE",                                                                              \
         NULL,                                                                                     \
         "setting that the checkpoint lacks or that overrides it, such as activation=quick_gelu; " \
         "may "                                                                                    \
         "be "                                                                                     \
         "repeated"},                                                                              \
        {"field", OPTION_TEXT, &(r).compress.calibration.field,                                    \
         "NAME",  NULL,        "field of each JSON line that holds the text (text)"},              \
        {"protocol",                                                                               \
         OPTION_TEXT,                                                                              \
         &(r).protocol,                                                                            \
         "NAME",                                                                                   \
         "plain lines wikitext2 ptb c4",                                                           \
         "split text into documents and tokens as plain, lines, wikitext2, ptb or c4 (plain)"},    \
        {"window-bos", OPTION_FLAG, &(r).window_bos,                                               \
         NULL,         NULL,        "begin every window with the BOS token"},                      \
        {"context",                                                                                \
         OPTION_INTEGER,                                                                           \
         &(r).compress.calibration.context,                                                        \
         "N",                                                                                      \
         NULL,                                                                                     \
         "tokens per calibration window (2048, or the model's maximum if that is less)"},          \
        IMAGE_OPTIONS((r).images, "train"),                                                        \
        {"samples",                                                                                \
         OPTION_INTEGER,                                                                           \
         &(r).compress.samples,                                                                    \
         "N",                                                                                      \
         NULL,                                                                                     \
         "number of calibration windows or images (128, or all if there are fewer)"},              \
    {                                                                                              \
        "seed", OPTION_INTEGER, &(r).seed, "N", NULL,                                              \
            "seed for drawing samples and for random choices (0)"                                  \
    }
/** What computes, with which means. */
#define MACHINE_OPTIONS(r)                                                                         \
    {"memory",                                                                                     \
     OPTION_SIZE,                                                                                  \
     &(r).compress.memory,                                                                         \
     "BYTES",                                                                                      \
     NULL,                                                                                         \
     "memory for kept activations, such as 500M; if they do not fit, blocks are recomputed "       \
     "(half "                                                                                      \
     "of the available memory)"},                                                                  \
        {"threads", OPTION_THREADS, &(r).threads,                                                  \
         "N",       NULL,           "number of threads, at most 1024 (all cores)"},                \
        PRECISION_OPTION((r).compress.precision, "auto"),                                          \
    {                                                                                              \
        "backend", OPTION_BACKEND, &(r).compress.backend, "NAME", NULL, "what computes (cpu):"     \
    }
/** All of them: also how the network is narrowed and repaired. */
#define RUN_OPTIONS(r)                                                                             \
    CALIBRATION_OPTIONS(r),                                                                        \
        {"selector",                                                                               \
         OPTION_SELECTOR,                                                                          \
         &(r).compress.selector,                                                                   \
         "NAME",                                                                                   \
         NULL,                                                                                     \
         "rule that chooses the units that stay, or merges units (obs):"},                         \
        {"sites",                                                                                  \
         OPTION_TEXT,                                                                              \
         &(r).sites,                                                                               \
         "LIST",                                                                                   \
         "ffn heads conv stream ffn,heads conv,stream",                                            \
         "kinds of sites that one --sparsity number or a limit cuts: ffn, heads, conv, stream "    \
         "(ffn,heads for "                                                                         \
         "text, conv,ffn for images)"},                                                            \
        {"stream-score",                                                                           \
         OPTION_TEXT,                                                                              \
         &(r).compress.stream_score,                                                               \
         "NAME",                                                                                   \
         "first all",                                                                              \
         "producers that score the channels of a residual stream: first or all (first)"},          \
        {"align",                                                                                  \
         OPTION_TEXT,                                                                              \
         &(r).align,                                                                               \
         "N",                                                                                      \
         "auto 1 8 32 64 128 256",                                                                 \
         "round widths to a multiple of N; 1 does not round; auto rounds FFN widths to a "         \
         "multiple of "                                                                            \
         "256, 128, 64 or 32, and channels to 32, 16 or 8 where that changes little (auto)"},      \
        {"gqa",                                                                                    \
         OPTION_TEXT,                                                                              \
         &(r).gqa,                                                                                 \
         "MODE",                                                                                   \
         "kv-groups query-per-group",                                                              \
         "unit that is cut in grouped-query attention: kv-groups or query-per-group (kv-groups)"}, \
        {"compensate",                                                                             \
         OPTION_TEXT,                                                                              \
         &(r).compress.compensate,                                                                 \
         "NAME",                                                                                   \
         "none own grail full",                                                                    \
         "repair of the cuts: none, own (the one that the selector's authors make), grail (as in " \
         "the "                                                                                    \
         "paper), or full; sets the defaults of the next "                                         \
         "seven options (full)"},                                                                  \
        {"target",                                                                                 \
         OPTION_TEXT,                                                                              \
         &(r).compress.target,                                                                     \
         "NAME",                                                                                   \
         "local dense mixed",                                                                      \
         "output that the fit of a consumer aims at: local (the dense weights on the narrowed "    \
         "network's "                                                                              \
         "activations), dense (the dense network's output), or mixed (between both, by how far "   \
         "they agree)"},                                                                           \
        {"bias",                                                                                   \
         OPTION_TEXT,                                                                              \
         &(r).compress.bias,                                                                       \
         "MODE",                                                                                   \
         "off on auto",                                                                            \
         "fit a bias: off, on, or auto (where the checkpoint can store one)"},                     \
        {"conv-fit",                                                                               \
         OPTION_TEXT,                                                                              \
         &(r).compress.conv_fit,                                                                   \
         "NAME",                                                                                   \
         "channel kernel",                                                                         \
         "for convolutions: channel fits one map shared by all kernel positions, kernel fits "     \
         "each "                                                                                   \
         "position separately"},                                                                   \
        {"ridge",                                                                                  \
         OPTION_TEXT,                                                                              \
         &(r).compress.ridge,                                                                      \
         "NAME",                                                                                   \
         "zero prior",                                                                             \
         "weights that the fit is shrunk towards: zero, or prior (those of the plain cut)"},       \
        {"refit",                                                                                  \
         OPTION_TEXT,                                                                              \
         &(r).compress.refit,                                                                      \
         "NAME",                                                                                   \
         "none auto all",                                                                          \
         "maps that are fitted besides the cut ones: none, all that read what a cut has changed, " \
         "or "                                                                                     \
         "auto (all, where the target is the dense network in a closed loop)"},                    \
        {"ridge-scale",                                                                            \
         OPTION_TEXT,                                                                              \
         &(r).compress.ridge_scale,                                                                \
         "NAME",                                                                                   \
         "mean diagonal",                                                                          \
         "penalty of a feature: mean (the same for all) or diagonal (relative to its own "         \
         "variance)"},                                                                             \
        {"token-weights",                                                                          \
         OPTION_TEXT,                                                                              \
         &(r).compress.token_weights,                                                              \
         "NAME",                                                                                   \
         "none stream",                                                                            \
         "weights of tokens in a fit with the dense target: none, or stream (the inverse square "  \
         "of the "                                                                                 \
         "residual stream's norm)"},                                                               \
        {"alpha",                                                                                  \
         OPTION_TEXT,                                                                              \
         &(r).alpha,                                                                               \
         "A",                                                                                      \
         "cv",                                                                                     \
         "ridge relative to the diagonal of the normal matrix, at least 0; cv chooses it by "      \
         "cross-validation"},                                                                      \
        {"loop",                                                                                   \
         OPTION_TEXT,                                                                              \
         &(r).loop,                                                                                \
         "NAME",                                                                                   \
         "closed open",                                                                            \
         "network that the statistics are taken from: closed (the network as narrowed so far) or " \
         "open "                                                                                   \
         "(the dense network) (closed)"},                                                          \
        {"repair", OPTION_FLAG, &(r).repair,                                                       \
         NULL,     NULL,        "REPAIR: recompute BatchNorm statistics on the narrowed network"}, \
        MACHINE_OPTIONS(r)

/** Fills in r->compress, but for the model and the sparsities, and sets the number of threads.
 * Returns EXIT_OK, or another exit code after a message on stderr. */
int run_options_read(const command *c, run_options *r);

/** Opens the session of r->compress. Refuses options of the other kind of input, as
 * check_kind_options does. *sites is r->sites, or the kinds that a network of this kind is cut at
 * by default. Returns an exit code. */
int run_options_open(const command *c, run_options *r, const char **sites);

#endif
