/* grail quantize: a language model with quantised weights, rounded by what they read. */
#include "command_line.h"
#include "gguf_facts.h"
#include "print.h"
#include "process.h"
#include "shared_options.h"

#include <grail/quantize.h>

static grail_quantize_options chosen;
static bool resume;

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
     .help = "continue an interrupted run from OUTPUT.partial"},
    SAMPLE_OPTIONS(REQUIRED),
    MACHINE_OPTIONS,
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

static int watch(void *user, const grail_site_report *report, int block, int blocks, double left)
{
    (void)user;
    (void)report;
    (void)left;
    print_progress((block + 1.0) / blocks, "block %d/%d rounded", block + 1, blocks);
    return interrupt_came();
}

static int watch_steps(void *user, int block, int blocks, double done)
{
    (void)user;
    if (block < 0) {
        return shared_options_watch_before(block, done);
    }
    print_progress((block + done) / blocks, "rounding block %d/%d: %.0f %%", block + 1, blocks,
                   100.0 * done);
    return interrupt_came();
}

static int run(const char *const arguments[])
{
    grail_gguf_facts facts = {0};
    asked.compress.read.model = arguments[0];
    int code = shared_options_read();
    code = code == EXIT_OK ? shared_options_open(NULL) : code;
    if (code == EXIT_OK) {
        interrupt_catch();
        chosen.resume = resume ? 1 : 0;
        asked.compress.run.observer = watch;
        asked.compress.run.step_observer = watch_steps;
        const grail_status status = grail_quantize(&asked.compress, &chosen, &facts);
        print_progress_end();
        shared_options_print_notices();
        code = status == GRAIL_OK
                   ? print_gguf_facts(chosen.path, &facts, shared_options_notices_json(NULL))
               : status == GRAIL_ERROR_CANCELLED ? command_line_print_interrupted(chosen.path)
                                                 : print_failure(status);
    }
    grail_session_close(asked.compress.read.session);
    return code;
}

const command command_quantize = {
    .name = "quantize",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "write a language model with quantised weights, rounded on samples",
    .details =
        "Rounds the matrices of a dense or narrowed language model one after another to a "
        "quantised type. What rounding one weight changes is made up for by the weights behind it, "
        "as far as what the matrix reads on the samples allows (GPTQ); later matrices read what "
        "the rounded ones give. grail export writes the same types without samples.",
    .examples = WORDS(
        "grail quantize demo/model --type q4_0 --calib demo/calibration.txt -o quantised.gguf",
        "grail quantize demo/model --type w4a16 --calib demo/calibration.txt -o quantised"),
    .options = table,
    .run = run,
};
