/* Options that say how networks are narrowed: shared by the commands that do it or plan it. */
#ifndef GRAIL_CLI_RUN_OPTIONS_H
#define GRAIL_CLI_RUN_OPTIONS_H

#include "input_options.h"
#include "shared_options.h"

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

/** Which samples are read, and how; `calib_need` is the option_need of --calib. */
/* clang-format off */
#define CALIBRATION_OPTIONS(r, calib_need)                                                        \
    {GROUP_INPUT, "calib", OPTION_TEXT, &(r).calib, "PATH", NULL, .help =                          \
     "calibration set. Text: .txt, .jsonl, .jsonl.gz, or token ids as .npy. Images: CIFAR-10 "     \
     "batches, or a folder of JPEG and PNG files", .need = (calib_need), .field = "path"},        \
    SET_OPTION((r).settings),                                                                      \
    FIELD_OPTION((r).compress.calibration.field),                                                  \
    PROTOCOL_OPTION((r).protocol),                                                                 \
    WINDOW_BOS_OPTION((r).window_bos),                                                             \
    CONTEXT_OPTION((r).compress.calibration.context),                                              \
    IMAGE_OPTIONS((r).images, "train"),                                                            \
    {GROUP_INPUT, "samples", OPTION_INTEGER, &(r).compress.samples, "N", NULL, .help =             \
     "number of calibration windows or images (128, or all if there are fewer)", .only_with = "calib"},                  \
    {GROUP_INPUT, "seed", OPTION_SEED, &(r).seed, "N", NULL, .help =                            \
     "seed for drawing samples and for random choices (0)"}
/** What computes, with which means. */
#define MACHINE_OPTIONS(r)                                                                         \
    {GROUP_MACHINE, "memory", OPTION_SIZE, &(r).compress.memory, "BYTES", NULL, .help =            \
     "memory for kept activations, such as 500M; if they do not fit, blocks are recomputed "       \
     "(half of the available memory)", .recorded = ""},                                            \
    THREADS_OPTION((r).threads),                                                                   \
    PRECISION_OPTION((r).compress.precision, "auto"),                                              \
    BACKEND_OPTION((r).compress.backend)
/** With it nothing is fitted. */
#define NO_FIT "compensate=none"
/** All of them: also how the network is narrowed and repaired. */
#define RUN_OPTIONS(r)                                                                             \
    CALIBRATION_OPTIONS(r, OPTIONAL),                                                              \
    {GROUP_CUT, "selector", OPTION_SELECTOR, &(r).compress.selector, "NAME", NULL, .help =         \
     "rule that chooses the units that stay, or merges units (obs):"},                             \
    {GROUP_CUT, "sites", OPTION_TEXT, &(r).sites, "LIST",                                          \
     "ffn heads conv stream ffn,heads conv,stream", .help =                                        \
     "kinds of sites that one --sparsity number or a limit cuts: ffn, heads, conv, stream "        \
     "(ffn,heads for text, conv,ffn for images)", .never_with = "plan", .field = "kinds"},                               \
    {GROUP_CUT, "select", OPTION_TEXT, &(r).compress.select, "NAME", "closed open", .help =        \
     "network whose statistics choose the units: closed (the network as narrowed so far) or open " \
     "(the dense network) (closed)"},                                                              \
    {GROUP_CUT, "stream-score", OPTION_TEXT, &(r).compress.stream_score, "NAME",                   \
     "first all branch", .help =                                                                   \
     "producers that score the channels of a residual stream: first, all, or branch, the last "    \
     "convolution of a stage's first block (first)"},                                              \
    {GROUP_CUT, "align", OPTION_TEXT, &(r).align, "N", "auto 1 8 32 64 128 256", .help =           \
     "round widths to a multiple of N; 1 does not round; auto rounds FFN widths to a multiple "    \
     "of 256, 128, 64 or 32, and channels to 32, 16 or 8 where that changes little (auto)", \
     .never_with = "plan"},       \
    GQA_OPTION((r).gqa),                                                                           \
    {GROUP_REPAIR, "compensate", OPTION_TEXT, &(r).compress.compensate, "NAME",                    \
     "none own grail full", .help =                                                                \
     "repair of the cuts: none, own (the one that the selector's authors make), grail (as in "     \
     "the paper), or full; sets the defaults of the next eight options (full)"},                   \
    {GROUP_REPAIR, "target", OPTION_TEXT, &(r).compress.target, "NAME",                            \
     "local dense mixed", .help =                                                                  \
     "output that the fit of a consumer aims at: local (the dense weights on the narrowed "        \
     "network's activations), dense (the dense network's output), or mixed (between both, by "     \
     "how far they agree)", .never_with = NO_FIT},                                                 \
    {GROUP_REPAIR, "bias", OPTION_TEXT, &(r).compress.bias, "MODE", "off on auto", .help =         \
     "fit a bias: off, on, or auto (where the checkpoint can store one)", .never_with = NO_FIT},   \
    {GROUP_REPAIR, "conv-fit", OPTION_TEXT, &(r).compress.conv_fit, "NAME",                        \
     "channel kernel", .help =                                                                     \
     "for convolutions: channel fits one map shared by all kernel positions, kernel fits each "    \
     "position separately"},                                                                       \
    {GROUP_REPAIR, "ridge", OPTION_TEXT, &(r).compress.ridge, "NAME", "zero prior", .help =        \
     "weights that the fit is shrunk towards: zero, or prior (those of the plain cut)",            \
     .never_with = NO_FIT},                                                                        \
    {GROUP_REPAIR, "refit", OPTION_TEXT, &(r).compress.refit, "NAME", "none auto all", .help =     \
     "maps that are fitted besides the cut ones: none, all that read what a cut has changed, "     \
     "or auto (all, where the target is the dense network in a closed loop)",                      \
     .never_with = NO_FIT},                                                                        \
    {GROUP_REPAIR, "ridge-scale", OPTION_TEXT, &(r).compress.ridge_scale, "NAME",                  \
     "mean diagonal", .help =                                                                      \
     "penalty of a feature: mean (the same for all) or diagonal (relative to its own variance)",   \
     .never_with = NO_FIT},                                                                        \
    {GROUP_REPAIR, "token-weights", OPTION_TEXT, &(r).compress.token_weights, "NAME",              \
     "none stream", .help =                                                                        \
     "weights of tokens in a fit with the dense target: none, or stream (the inverse square of "   \
     "the residual stream's norm)", .never_with = NO_FIT},                                         \
    {GROUP_REPAIR, "alpha", OPTION_TEXT, &(r).alpha, "A", "cv", .help =                            \
     "ridge relative to the diagonal of the normal matrix, at least 0; cv chooses it by "          \
     "cross-validation", .never_with = NO_FIT},                                                    \
    {GROUP_REPAIR, "loop", OPTION_WORD, &(r).loop, "NAME", "closed open", .help =                  \
     "network that the statistics are taken from: closed (the network as narrowed so far) or "     \
     "open (the dense network) (closed)", .field = "open_loop"},                                   \
    {GROUP_REPAIR, "repair", OPTION_FLAG, &(r).repair, NULL, NULL, .help =                         \
     "REPAIR: recompute BatchNorm statistics on the narrowed network"},                            \
    MACHINE_OPTIONS(r)
/* clang-format on */

/** Fills in r->compress, but for the model and the sparsities, and sets the number of threads.
 * Returns EXIT_OK, or another exit code after a message on stderr. */
int run_options_read(const command *c, run_options *r);

/** Prints what had to be assumed of the model, which run_options_open opened. */
void run_options_print_notices(const run_options *r);

/** Opens the session of r->compress. Refuses options of the other kind of input, as
 * check_kind_options does. *sites is r->sites, or the kinds that a network of this kind is cut at
 * by default. Returns an exit code. */
int run_options_open(const command *c, run_options *r, const char **sites);

#endif
