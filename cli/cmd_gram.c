/* grail gram: statistics of a dense network as a file. */
#include "command_line.h"
#include "print.h"
#include "process.h"
#include "ranks.h"
#include "shared_options.h"

#include <grail/gram.h>

#include <jansson.h>

#include <string.h>

static grail_gram_options gram;
static option_list added;
static bool full, resume;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &gram.path, "FILE", NULL,
     .help = "file to write, such as stats.gguf; must not exist; short form: -o", .need = REQUIRED},
    {GROUP_INPUT, "add", OPTION_LIST, &added, "FILE", NULL,
     .help = "add the statistics of this file to those of the file that is named in place of a "
             "model; may be repeated",
     .need = ONE_REQUIRED},
    SAMPLE_OPTIONS(ONE_REQUIRED),
    {GROUP_OUTPUT, "full", OPTION_FLAG, &full, NULL, NULL,
     .help = "also write whole Gram matrices, of what reads the units that can be cut"},
    {GROUP_OUTPUT, "resume", OPTION_FLAG, &resume, NULL, NULL,
     .help = "continue an interrupted count from FILE.partial"},
    RUN_FIELD(GROUP_REPAIR, "conv-fit"),
    MACHINE_OPTIONS,
    RANK_OPTIONS,
    QUIET_OPTION,
    JSON_OPTION,
    {0},
};

static int watch_steps(void *user, int block, int blocks, double done)
{
    (void)user;
    if (block < 0) {
        return shared_options_watch_before(block, done);
    }
    print_progress((block + done) / blocks, "counting in block %d/%d: %.0f %%", block + 1, blocks,
                   100.0 * done);
    return interrupt_came();
}

static int print_facts(const grail_gram_facts *f)
{
    char bytes[HUMAN_SIZE];
    if (asked.as_json) {
        return print_json(json_of(
            "output", J(gram.path), "matrices", J(f->matrices), "grams", J(f->grams), "samples",
            J(f->samples), "context", J(f->context), "bytes", J(f->bytes), "notices",
            added.count > 0 ? json_array() : shared_options_notices_json(NULL), NULL));
    }
    print_out("%s: statistics of %lld matrices, %lld whole Gram matrices, over %lld samples; %s\n",
              gram.path, (long long)f->matrices, (long long)f->grams, (long long)f->samples,
              human_bytes((double)f->bytes, bytes));
    return EXIT_OK;
}

/* Exactly one of the two ways. */
static int check_way(void)
{
    const bool adds = added.count > 0;
    if (adds == (asked.calibs.count > 0)) {
        return print_misuse("give %s --calib PATH and --add FILE", adds ? "only one of" : "one of");
    }
    for (const option *o = options_parsed(); adds && o->name != NULL; o++) {
        const bool applies = strcmp(o->name, "add") == 0 || o->group == GROUP_OUTPUT;
        if (option_given(o->name) && (!applies || o->target == &full || o->target == &resume)) {
            return print_misuse("--%s has no effect with --add; leave one of the two out", o->name);
        }
    }
    return EXIT_OK;
}

static int add(const char *first)
{
    const char *paths[OPTION_LIST_MOST + 1] = {first};
    grail_gram_facts facts = {0};
    memcpy(paths + 1, added.values, (size_t)added.count * sizeof paths[0]);
    const grail_status status = grail_gram_add(added.count + 1, paths, &gram, &facts);
    return status == GRAIL_OK ? print_facts(&facts) : print_failure(status);
}

static int count(void)
{
    grail_gram_facts facts = {0};
    int code = shared_options_open(NULL);
    if (code == EXIT_OK) {
        interrupt_catch();
        asked.compress.run.step_observer = watch_steps;
        const grail_status status = grail_gram_write(&asked.compress, &gram, &facts);
        print_progress_end();
        if (status == GRAIL_OK) { /* they take the place of an error's text */
            shared_options_print_notices();
        }
        code = status == GRAIL_ERROR_CANCELLED ? command_line_print_interrupted(gram.path)
               : status != GRAIL_OK            ? print_failure(status)
               : ranks_is_first()              ? print_facts(&facts)
                                               : EXIT_OK;
    }
    grail_session_close(asked.compress.read.session);
    return code;
}

static int run(const char *const arguments[])
{
    asked.compress.read.model = arguments[0];
    gram.full = full ? 1 : 0;
    gram.resume = resume ? 1 : 0;
    int code = check_way();
    code = code == EXIT_OK ? shared_options_read() : code;
    code = code == EXIT_OK ? ranks_join(&asked.compress.run.comm) : code;
    if (code == EXIT_OK && added.count > 0) { /* which takes no samples */
        return ranks_is_first() ? add(arguments[0]) : EXIT_OK;
    }
    return code == EXIT_OK ? count() : code;
}

const command command_gram = {
    .name = "gram",
    .arguments = "MODEL",
    .argument_count = 1,
    .summary = "write statistics of a dense network to a file, or add such files",
    .details =
        "Runs the dense network on the samples once, and writes sums over what its matrices read. "
        "Runs and plans with --stats take them from the file instead of a pass of their own. Files "
        "of parts of a calibration set, counted on different machines, can be added with --add. "
        "A file is an importance matrix (imatrix) for tools that quantise GGUF files.",
    .examples = WORDS("grail gram demo/model --calib demo/calibration.txt --full -o stats.gguf",
                      "grail gram demo/model --calib demo/held-out.txt --full -o more.gguf",
                      "grail gram stats.gguf --add more.gguf -o both.gguf"),
    .options = table,
    .run = run,
    .shares_out = true,
};
