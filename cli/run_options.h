/* Options that say how networks are narrowed: shared by the commands that do it or plan it. */
#ifndef GRAIL_CLI_RUN_OPTIONS_H
#define GRAIL_CLI_RUN_OPTIONS_H

#include "input_options.h"
#include "ranks.h"
#include "shared_options.h"

#include <grail/compress.h>

#include <jansson.h>

typedef struct run_options {
    grail_compress_options compress; /* what the options ask for, after run_options_read */
    grail_image_source images;
    option_list settings;
    option_list calibs;
    grail_text_part parts[OPTION_LIST_MOST]; /* of `calibs` */
    const char *sites, *type;
    int64_t threads;
} run_options;

void run_options_init(run_options *r);

/* Rows of a command's table that fill the run_options `r`, a static variable. */

/** Which samples are read, and how; `calib_need` is the option_need of --calib. */
/* clang-format off */
#define SAMPLE_OPTIONS(r, calib_need)                                                              \
    {GROUP_INPUT, "calib", OPTION_LIST, &(r).calibs, "PATH", NULL, .help =                         \
     "calibration set. Text: .txt, .jsonl, .jsonl.gz, a folder of these, or token ids "  \
     "as .npy; may be repeated, with shares of the windows as PATH=0.5. Images: CIFAR-10 batches, or a "   \
     "folder of JPEG and PNG files", .need = (calib_need), .field = "path"},                      \
    SET_OPTION((r).settings),                                                                      \
    TEXT_OPTIONS((r).compress.read.text), IMAGE_OPTIONS((r).images),                               \
    FIELDS_OF(GROUP_INPUT, grail_compress_option_at, GRAIL_SUBJECT_READ, (r).compress)
/** The same of commands that write weights. */
#define CALIBRATION_OPTIONS(r, calib_need)                                                        \
    SAMPLE_OPTIONS(r, calib_need),                                                                 \
    {GROUP_OUTPUT, "type", OPTION_WORD, &(r).type, "TYPE", WORDS("f32", "f16", "bf16"), .help =    \
     "how a result holds weights that a GGUF file stores quantised: f32, f16 or bf16",             \
     .field = "type"}
/** What computes, with which means. */
#define MACHINE_OPTIONS(r)                                                                         \
    FIELDS_OF(GROUP_MACHINE, grail_compress_option_at, GRAIL_SUBJECT_RUN, (r).compress),           \
    THREADS_OPTION((r).threads)
/** All of them: also how the network is narrowed and repaired. */
#define RUN_OPTIONS(r)                                                                             \
    CALIBRATION_OPTIONS(r, OPTIONAL),                                                              \
    FIELDS_OF(GROUP_CUT, grail_compress_option_at, GRAIL_SUBJECT_CUT, (r).compress),               \
    {GROUP_CUT, "sites", OPTION_TEXT, &(r).sites, "LIST",                                          \
     WORDS("ffn", "heads", "conv", "stream", "experts", "latent", "values", "ffn,heads",           \
           "conv,stream"), .help =                                                                 \
     "kinds of sites that one --sparsity number or a limit cuts: ffn, heads, conv, stream, "       \
     "latent, values, or experts without a limit (ffn,heads for text, conv,ffn for images)",       \
     .never_with = "plan", .field = "kinds"},                                                      \
    FIELDS_OF(GROUP_REPAIR, grail_compress_option_at, GRAIL_SUBJECT_FIT, (r).compress),            \
    MACHINE_OPTIONS(r)
/* clang-format on */

/** Fills in the calibration of r->compress, and sets the number of threads. Returns an exit code.
 */
int run_options_read(const command *c, run_options *r);

/** Prints what had to be assumed of the model, which run_options_open opened, and what is to be
 * said of the samples of its run. */
void run_options_print_notices(const run_options *r);
/** The same as an array. */
json_t *run_options_notices_json(const run_options *r);

/** Opens the session of r->compress. Refuses options of the other kind of input, as
 * check_kind_options does. *sites is r->sites, or the kinds that a network of this kind is cut at
 * by default. Returns an exit code. */
int run_options_open(const command *c, run_options *r, const char **sites);

#endif
