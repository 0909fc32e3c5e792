/* grail gram: statistics of a dense network as a file. */
#include "commands.h"
#include "interrupt.h"
#include "print.h"
#include "ranks.h"
#include "run_options.h"
#include "shared_options.h"

#include <grail/gram.h>

#include <jansson.h>

#include <string.h>

static run_options r;
static grail_gram_options gram;
static option_list added;
static rank_options ranks;
static bool full, quiet, as_json;

static const option table[] = {
    {GROUP_OUTPUT, "output", OPTION_TEXT, &gram.path, "FILE", NULL,
     .help = "file to write, such as stats.gguf; must not exist; short form: -o", .need = REQUIRED},
    {GROUP_INPUT, "add", OPTION_LIST, &added, "FILE", NULL,
     .help = "add the statistics of this file to those of the file that is named in place of a "
             "model; may be repeated",
     .need = ONE_REQUIRED},
    SAMPLE_OPTIONS(r, ONE_REQUIRED),
    {GROUP_OUTPUT, "full", OPTION_FLAG, &full, NULL, NULL,
     .help = "also write whole Gram matrices, of what reads the units that can be cut"},
    FIELD_OF(GROUP_REPAIR, grail_compress_option_at, "conv-fit", r.compress),
    MACHINE_OPTIONS(r),
    RANK_OPTIONS(ranks),
    QUIET_OPTION(quiet),
    JSON_OPTION(as_json),
    {0},
};
const option *const gram_options = table;

static int watch_steps(void *user, int block, int blocks, double done)
{
    (void)user;
    if (!quiet) {
        print_progress((block + done) / blocks, "counting in block %d/%d: %.0f %%", block + 1,
                       blocks, 100.0 * done);
    }
    return interrupt_came();
}

static int print_facts(const grail_gram_facts *f)
{
    char bytes[HUMAN_SIZE];
    if (as_json) {
        return print_json(json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "output",
                                    json_text(gram.path), "matrices", (json_int_t)f->matrices,
                                    "grams", (json_int_t)f->grams, "samples",
                                    (json_int_t)f->samples, "context", (json_int_t)f->context,
                                    "bytes", (json_int_t)f->bytes, "notices",
                                    added.count > 0 ? json_array() : run_options_notices_json(&r)));
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
    if (adds == (r.calibs.count > 0)) {
        print_error("grail gram: give %s --calib PATH and --add FILE; see grail gram --help\n",
                    adds ? "only one of" : "one of");
        return EXIT_USAGE;
    }
    for (const option *o = options_parsed(); adds && o->name != NULL; o++) {
        const bool applies = strcmp(o->name, "add") == 0 || o->group == GROUP_OUTPUT;
        if (option_given(o->name) && (!applies || o->target == &full)) {
            print_error("grail gram: --%s has no effect with --add; leave one of the two out; see "
                        "grail gram --help\n",
                        o->name);
            return EXIT_USAGE;
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
    const char *sites = NULL;
    grail_gram_facts facts = {0};
    int code = run_options_open(&command_gram, &r, &sites);
    if (code == EXIT_OK) {
        interrupt_catch();
        r.compress.run.step_observer = watch_steps;
        const grail_status status = grail_gram_write(&r.compress, &gram, &facts);
        print_progress_end();
        run_options_print_notices(&r);
        code = status != GRAIL_OK ? print_failure(status)
               : ranks_is_first() ? print_facts(&facts)
                                  : EXIT_OK;
    }
    grail_session_close(r.compress.read.session);
    return code;
}

static int run(int argc, char **argv)
{
    bool help = false;
    run_options_init(&r);
    int code = options_parse(&command_gram, table, argc, argv, &r.compress.read.model, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    code = check_way();
    if (code != EXIT_OK) {
        return code;
    }
    gram.full = full ? 1 : 0;
    code = run_options_read(&command_gram, &r);
    if (code != EXIT_OK) {
        return code;
    }
    code = ranks_join(&ranks, &r.compress.run.comm);
    if (code != EXIT_OK) {
        return code;
    }
    quiet = quiet || !ranks_is_first();
    if (added.count > 0) { /* which takes no samples */
        return ranks_is_first() ? add(r.compress.read.model) : EXIT_OK;
    }
    return count();
}

static const char *const examples[] = {
    "grail gram demo/model --calib demo/calibration.txt --full -o stats.gguf",
    "grail gram demo/model --calib demo/held-out.txt --full -o more.gguf",
    "grail gram stats.gguf --add more.gguf -o both.gguf",
    NULL,
};

const command command_gram = {
    .name = "gram",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "write statistics of a dense network to a file, or add such files",
    .details =
        "Runs the dense network on the samples once, and writes sums over what its matrices read. "
        "Runs and plans with --stats take them from the file instead of a pass of their own. Files "
        "of parts of a calibration set, counted on different machines, can be added with --add. "
        "A file is an importance matrix (imatrix) for tools that quantise GGUF files.",
    .examples = examples,
    .run = run,
    .shares_out = true,
};
