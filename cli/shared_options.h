/* Rows of the options that several commands have. */
#ifndef GRAIL_CLI_SHARED_OPTIONS_H
#define GRAIL_CLI_SHARED_OPTIONS_H

#include "options.h"

#include <grail/model.h>

/** The mode that --gqa names; NULL: it was not given. */
grail_gqa_mode gqa_mode(const char *word);

/* clang-format off */

#define SET_OPTION(variable)                                                                       \
    {GROUP_INPUT, "set", OPTION_LIST, &(variable), "KEY=VALUE", NULL, .help =                      \
     "setting that the checkpoint lacks or that overrides it, such as activation=quick_gelu; may " \
     "be repeated"}

#define GQA_OPTION(variable)                                                                       \
    {GROUP_CUT, "gqa", OPTION_WORD, &(variable), "MODE", WORDS("kv-groups", "query-per-group"), .help =      \
     "unit that is cut in grouped-query attention: kv-groups or query-per-group (kv-groups)"}

#define THREADS_OPTION(variable)                                                                   \
    {GROUP_MACHINE, "threads", OPTION_THREADS, &(variable), "N", NULL, .help =                     \
     "number of threads, at most 1024 (all cores)"}

/** Which precision products have; `usual` is what is taken without the option. */
#define PRECISION_OPTION(variable, usual)                                                          \
    {GROUP_MACHINE, "precision", OPTION_TEXT, &(variable), "NAME", WORDS("auto", "f32", "bf16", "bf16-gram", "f64"), \
     .help = "precision of products: f32, bf16 (with f32 sums), bf16-gram (Gram matrices, too), "  \
     "f64 (ref alone), or auto: bf16 for large networks stored in 16 bits where that is faster "   \
     "here (" usual ")"}

#define BACKEND_OPTION(variable)                                                                   \
    {GROUP_MACHINE, "backend", OPTION_BACKEND, &(variable), "NAME", NULL,                          \
     .help = "what computes (cpu):"}

/** The type of the table of embeddings and of the head in a GGUF file. */
#define TABLE_TYPE_OPTION(variable)                                                                \
    {GROUP_OUTPUT, "table-type", OPTION_WORD, &(variable), "TYPE",                                 \
     WORDS("f32", "f16", "bf16", "q8_0", "q6_k", "q5_0", "q4_0", "q4_k"), .help =                  \
     "type of the table of embeddings and of the head in a GGUF file: f32, f16, bf16, q8_0, q6_k, " \
     "q5_0, q4_0 or q4_k (in a quantised file q6_k or q8_0 for the head, or the table that it "     \
     "shares)", .field = "table_type"}

#define QUIET_OPTION(variable)                                                                     \
    {GROUP_OUTPUT, "quiet", OPTION_FLAG, &(variable), NULL, NULL, .help = "print no progress",     \
     .recorded = ""}

#define JSON_OPTION(variable)                                                                      \
    {GROUP_OUTPUT, "json", OPTION_FLAG, &(variable), NULL, NULL,                                   \
     .help = "print the result as JSON",                                                           \
     .recorded = ""}

/* clang-format on */

#endif
