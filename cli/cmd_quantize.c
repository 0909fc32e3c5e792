/* grail quantize: a language model with quantised weights, rounded by what they read. */
#include "commands.h"
#include "gguf_facts.h"
#include "interrupt.h"
#include "print.h"
#include "run_options.h"
#include "shared_options.h"

#include <grail/quantize.h>

static run_options r;
static grail_quantize_options chosen;
static bool quiet, as_json, resume;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &chosen.path, "PATH", NULL,
     .help = "GGUF file to write, or for w4a16 and w8a16 a directory; must not exist; short form: "
             "-o",
     .need = REQUIRED},
    {GROUP_OUTPUT, "type", OPTION_WORD, &chosen.type, "TYPE",
     WORDS("q8_0", "q6_k", "q5_0", "q4_0", "q4_k", "w4a16", "w8a16"),
     .help = "type of the matrices: q8_0, q6_k, q5_0, q4_0 or q4_k in a GGUF file, w4a16 or w8a16 "
             "(4 or "
             "8 bits) in a directory for transformers and vLLM",
     .need = REQUIRED, .field = "type"},
    TABLE_TYPE_OPTION(chosen.table_type),
    {GROUP_OUTPUT, "resume", OPTION_FLAG, &resume, NULL, NULL,
     .help = "continue an interrupted run from DIR.partial"},
    SAMPLE_OPTIONS(r, REQUIRED),
    MACHINE_OPTIONS(r),
    QUIET_OPTION(quiet),
    JSON_OPTION(as_json),
    {0},
};
const option *const quantize_options = table;

static int watch(void *user, const grail_site_report *report, int block, int blocks, double left)
{
    (void)user;
    (void)report;
    (void)left;
    if (!quiet) {
        print_progress((block + 1.0) / blocks, "block %d/%d rounded", block + 1, blocks);
    }
    return interrupt_came();
}

static int watch_steps(void *user, int block, int blocks, double done)
{
    (void)user;
    if (!quiet) {
        print_progress((block + done) / blocks, "rounding block %d/%d: %.0f %%", block + 1, blocks,
                       100.0 * done);
    }
    return interrupt_came();
}

static int write_file(void)
{
    const char *sites = NULL;
    grail_gguf_facts facts = {0};
    int code = run_options_open(&command_quantize, &r, &sites);
    if (code == EXIT_OK) {
        interrupt_catch();
        chosen.resume = resume ? 1 : 0;
        r.compress.run.observer = watch;
        r.compress.run.step_observer = watch_steps;
        const grail_status status = grail_quantize(&r.compress, &chosen, &facts);
        print_progress_end();
        run_options_print_notices(&r);
        code = status == GRAIL_OK
                   ? print_gguf_facts(chosen.path, &facts, run_options_notices_json(&r), as_json)
                   : print_failure(status);
    }
    grail_session_close(r.compress.read.session);
    return code;
}

static int run(int argc, char **argv)
{
    bool help = false;
    run_options_init(&r);
    int code = options_parse(&command_quantize, table, argc, argv, &r.compress.read.model, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    code = run_options_read(&command_quantize, &r);
    return code == EXIT_OK ? write_file() : code;
}

static const char *const examples[] = {
    "grail quantize demo/model --type q4_0 --calib demo/calibration.txt -o quantised.gguf",
    "grail quantize demo/model --type w4a16 --calib demo/calibration.txt -o quantised",
    NULL,
};

const command command_quantize = {
    .name = "quantize",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "write a language model with quantised weights, rounded on samples",
    .details =
        "Rounds the matrices of a dense or narrowed language model one after another to a "
        "quantised type. What rounding one weight changes is made up for by the weights behind it, "
        "as far as what the matrix reads on the samples allows (GPTQ); later matrices read what "
        "the rounded ones give. grail export writes the same types without samples.",
    .examples = examples,
    .run = run,
};
