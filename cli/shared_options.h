/* Options that several commands have: what they say, and the rows of tables that read them. */
#ifndef GRAIL_CLI_SHARED_OPTIONS_H
#define GRAIL_CLI_SHARED_OPTIONS_H

#include "options.h"

#include <grail/compress.h>
#include <grail/eval.h>
#include <grail/images.h>
#include <grail/plan.h>
#include <grail/schedule.h>
#include <grail/text.h>

#include <jansson.h>

/** What the command line asks for; a command has rows for a part of it. */
typedef struct shared_options {
    option_list settings;
    int64_t threads;
    bool quiet, as_json;
    const char *comm, *torch;
    /* commands that measure; those that also run give the data with --eval */
    const char *data;
    int64_t windows, image_count; /* 0: all, or what is usual */
    grail_compute compute;
    grail_text_source text;
    grail_image_source images;
    /* commands that run a network on samples */
    grail_compress_options compress; /* complete after shared_options_read */
    option_list calibs;
    grail_text_part parts[OPTION_LIST_MOST]; /* of `calibs` */
    const char *sites, *type;
    /* limits, and how widths are chosen for them */
    const char *target_ratio, *target_params, *target_macs, *target_kv_bytes, *target_size;
    grail_plan_options plan;
    grail_effort_options effort;
} shared_options;

extern shared_options asked;

/** The usual values, before anything is read. */
void shared_options_init(void);
/** Whether PyTorch is to compute, and must be found. */
bool shared_options_use_torch(void);

/* clang-format off */

#define SET_OPTION                                                                                 \
    {GROUP_INPUT, "set", OPTION_LIST, &asked.settings, "KEY=VALUE", NULL, .help =                  \
     "setting that the checkpoint lacks or that overrides it, such as activation=quick_gelu; may " \
     "be repeated"}
#define THREADS_OPTION                                                                             \
    {GROUP_MACHINE, "threads", OPTION_THREADS, &asked.threads, "N", NULL, .help =                  \
     "number of threads, at most 1024 (all cores)"}
/** Which precision products have; `usual` is what is taken without the option. */
#define PRECISION_OPTION(usual)                                                                    \
    {GROUP_MACHINE, "precision", OPTION_TEXT, &asked.compute.precision, "NAME",                    \
     WORDS("auto", "f32", "bf16", "f16", "bf16-gram", "bf16x3", "f64"),                            \
     .help = "precision of products: f32, bf16 (with f32 sums), bf16-gram (Gram matrices, too), "  \
     "bf16x3 (f32 made of three products of bf16, for AMX), f16 (PyTorch alone, which keeps all "  \
     "values in 16 bits), f64 (ref alone), or auto: bf16 or f16 for large networks stored so "     \
     "where that is faster here, and with AMX bf16x3 for those of f32 (" usual ")"}
#define TORCH_OPTION                                                                               \
    {GROUP_MACHINE, "torch", OPTION_TEXT, &asked.torch, "DIR", NULL, .help =                       \
     "directory of the package torch, for the backends of PyTorch (GRAIL_TORCH, or that of "       \
     "python3)", .recorded = ""}
#define BACKEND_OPTION                                                                             \
    TORCH_OPTION,                                                                                  \
    {GROUP_MACHINE, "backend", OPTION_BACKEND, &asked.compute.backend, "NAME", NULL,               \
     .help = "what computes (cpu):"}
/** The type of the table of embeddings and of the head in a GGUF file. */
#define TABLE_TYPE_OPTION(variable)                                                                \
    {GROUP_OUTPUT, "table-type", OPTION_WORD, &(variable), "TYPE",                                 \
     WORDS("f32", "f16", "bf16", "q8_0", "q6_k", "q5_0", "q4_0", "q4_k"), .help =                  \
     "type of the table of embeddings and of the head in a GGUF file: f32, f16, bf16, q8_0, q6_k, " \
     "q5_0, q4_0 or q4_k (in a quantised file q6_k or q8_0 for the head, or the table that it "     \
     "shares)", .field = "table_type"}
#define QUIET_OPTION                                                                               \
    {GROUP_OUTPUT, "quiet", OPTION_FLAG, &asked.quiet, NULL, NULL, .help = "print no progress",    \
     .recorded = ""}
#define JSON_OPTION                                                                                \
    {GROUP_OUTPUT, "json", OPTION_FLAG, &asked.as_json, NULL, NULL,                                \
     .help = "print the result as JSON", .recorded = ""}
#define RANK_OPTIONS                                                                               \
    {GROUP_MACHINE, "comm", OPTION_WORD, &asked.comm, "NAME", WORDS("auto", "mpi", "none"),        \
     .help = "how this process joins others: mpi, none, or auto: mpi where a launcher such as "    \
     "mpirun started several (auto)", .recorded = ""}

/** How many images are measured. */
#define IMAGE_COUNT_HELP                                                                           \
    "measure only N images, evenly spaced over the data, the same in every run (all)"

/** How samples are read, from the lists of the library; they set fields of `owner`. */
#define TEXT_OPTIONS(owner)                                                                        \
    FIELDS_OF(GROUP_INPUT, grail_text_option_at, GRAIL_SUBJECT_READ, (owner))
#define IMAGE_OPTIONS                                                                              \
    FIELDS_OF(GROUP_INPUT, grail_image_option_at, GRAIL_SUBJECT_READ, asked.images)

/** Rows of those that describe a run, from the list of the library. */
#define RUN_FIELDS(group_of_help, about)                                                           \
    FIELDS_OF(group_of_help, grail_compress_option_at, about, asked.compress)
#define RUN_FIELD(group_of_help, option_name)                                                      \
    FIELD_OF(group_of_help, grail_compress_option_at, option_name, asked.compress)

/** Which samples are read, and how; `calib_need` is the option_need of --calib. */
#define SAMPLE_OPTIONS(calib_need)                                                                 \
    {GROUP_INPUT, "calib", OPTION_LIST, &asked.calibs, "PATH", NULL, .help =                       \
     "calibration set. Text: .txt, .jsonl, .jsonl.gz, a folder of these, or token ids "            \
     "as .npy; or self: text that the dense network draws itself, on from the first tokens of "     \
     "other texts where there are some; may be repeated, with shares of the windows as PATH=0.5. Images: CIFAR-10 batches, " \
     "a folder of JPEG and PNG files, or arrays (.npy). Several inputs: NAME=FILE.npy,NAME=FILE.npy", .need = (calib_need), .field = "path"},                  \
    SET_OPTION, TEXT_OPTIONS(asked.compress.read.text), IMAGE_OPTIONS,                             \
    RUN_FIELDS(GROUP_INPUT, GRAIL_SUBJECT_READ)
/** The same of commands that write weights. */
#define CALIBRATION_OPTIONS(calib_need)                                                            \
    SAMPLE_OPTIONS(calib_need),                                                                    \
    {GROUP_OUTPUT, "type", OPTION_WORD, &asked.type, "TYPE", WORDS("f32", "f16", "bf16"), .help =  \
     "how a result holds weights that a GGUF file stores quantised: f32, f16 or bf16",             \
     .field = "type"}
/** What computes, with which means. */
#define MACHINE_OPTIONS RUN_FIELDS(GROUP_MACHINE, GRAIL_SUBJECT_RUN), TORCH_OPTION, THREADS_OPTION
/** All of them: also how the network is narrowed and repaired. */
#define RUN_OPTIONS                                                                                \
    CALIBRATION_OPTIONS(OPTIONAL), RUN_FIELDS(GROUP_CUT, GRAIL_SUBJECT_CUT),                       \
    {GROUP_CUT, "sites", OPTION_TEXT, &asked.sites, "LIST",                                        \
     WORDS("ffn", "heads", "conv", "stream", "experts", "latent", "values", "groups", "ffn,heads", \
           "conv,stream", "conv,groups"), .help =                                                  \
     "kinds of sites that one --sparsity number or a limit cuts: ffn, heads, conv, stream, "       \
     "latent, values, groups, or experts without a limit (ffn,heads for text, conv,ffn for "       \
     "images)",                                                                                    \
     .never_with = "plan", .field = "kinds"},                                                      \
    RUN_FIELDS(GROUP_REPAIR, GRAIL_SUBJECT_FIT), MACHINE_OPTIONS

/* clang-format on */

/** Opens a network as --set says. */
grail_status shared_options_open_model(const char *path, grail_model **out) GRAIL_MUST_CHECK;

/** EXIT_USAGE after a message where an option was given that has no effect because the network at
 * `path` reads the other kind of input; else EXIT_OK. The texts name the options of each kind. */
int shared_options_check_kind(const char *path, bool reads_images, const char *of_text,
                              const char *of_images);

/** Completes asked.compress, whose samples --calib names, and the number of ranks. Returns an exit
 * code. */
int shared_options_read(void);

/** Opens the session of asked.compress, and checks that the options are of its kind of input.
 * *sites is --sites, or the kinds that a network of this kind is cut at by default; it may be NULL.
 * Returns an exit code. */
int shared_options_open(const char **sites);

/** Tells how much of a work before the blocks (GRAIL_STEP_...) is done; whether an interrupt came.
 */
int shared_options_watch_before(int work, double done);

/** Prints what had to be assumed of the network of the session, and what is to be said of the
 * samples of its run. */
void shared_options_print_notices(void);
/** The same and another notice, which may be NULL or "", as an array. */
json_t *shared_options_notices_json(const char *other);

#endif
